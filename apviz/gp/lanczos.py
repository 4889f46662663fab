"""Lanczos on K: K⁻¹ of low rank for variances, and log det K with its gradient by quadrature."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.memory import require_memory
from apviz.operators import CountingOperator, Operator
from apviz.settings import require_whole
from apviz.spectrum import LanczosBasis

# --- an inverse of low rank -------------------------------------------------------------------------------------------

# the basis, its copy when it grows or is scaled, and the engine's own of it in a product
BASIS_COPIES = 3


class LanczosInverse:
    """Approximates K⁻¹ by Q T⁻¹ Qᵀ ⪯ K⁻¹ of any rank up to the one built; a smaller rank is its leading part.

    For variances of low rank (Pleiss et al., ICML 2018; paper, section 5.1).

    The start is K·1, the sum of the training covariances (Pleiss et al., section 4), so the basis does not depend on
    the test points and serves all of them. Q is in the operator's dtype, T and all that follows from it in float64.

    T has no eigenvalue below λmin(K) ≥ σ², so no pivot of its factor LDLᵀ lies below σ². Products in float32 can put
    one there; such a pivot is raised to σ², which makes the variance larger, never smaller.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> from apviz.operators import CountingOperator
        >>> inverse = apviz.LanczosInverse(CountingOperator(system.operator))
        >>> explained = inverse.explained(torch.tensor([[0.5]]), ranks=[1, 5, 20])[0]
        >>> inverse.rank, bool((explained.diff() > 0).all()), bool(explained[-1] < system.kernel.outputscale)
        (20, True, True)
    """

    def __init__(self, operator: CountingOperator) -> None:
        self.operator = operator
        self._basis: LanczosBasis | None = None

    @property
    def rank(self) -> int:
        """The rank built so far."""
        return len(self._basis) if self._basis else 0

    def extend(self, rank: int) -> None:
        """Extends the basis to `rank`, at most n: one product with K, 1.0 work, for each new vector and the start.

        Raises:
            ValueError: a rank that is not a whole number from 1.
            MemoryError: n·rank numbers, held up to three times, would not fit the free memory.
        """
        require_whole("rank", rank, 1)
        x = self.operator.x
        rank = min(int(rank), len(x))
        if rank <= self.rank:
            return
        require_memory(
            BASIS_COPIES * rank * len(x) * x.element_size(),
            x.device,
            f"a Lanczos basis of rank {rank:,} for n = {len(x):,} and its copies need",
            "use a smaller rank, or method='solves'",
        )
        if self._basis is None:
            self._basis = LanczosBasis(self._matmul, self._matmul(x.new_ones(len(x))), restart_seed=0)
        self._basis.extend(rank)

    def _matmul(self, v: Tensor) -> Tensor:
        return self.operator.matmul(v[:, None].contiguous())[:, 0]

    def explained(self, x_star: Tensor, ranks: Sequence[int]) -> Tensor:
        """Computes cᵀQT⁻¹Qᵀc for c = k(X, x*), a part of the prior's variance: (m, d) to (m, len(ranks)) float64.

        It never falls with the rank. Evaluates mn entries, whatever the ranks; m × rank arrays are formed,
        no n × m array.
        """
        wanted = torch.tensor([min(int(rank), len(self.operator.x)) for rank in ranks])
        most = int(wanted.max())
        self.extend(most)
        basis = self._basis
        assert basis is not None  # extend made it
        a = self.operator.cross_matmul(x_star, basis.vectors[:most].T).double()
        return self._squares(a.T.contiguous(), basis).cumsum(0)[wanted.to(a.device) - 1].T

    def _squares(self, a: Tensor, basis: LanczosBasis) -> Tensor:
        """(D^-½ L⁻¹ a)², whose first r rows sum to aᵀT⁻¹a of rank r, for T = LDLᵀ; a: (rank, m), overwritten."""
        noise = self.operator.noise
        pivot = max(basis.diagonal[0], noise)
        pivots = [pivot]
        for k in range(1, len(a)):
            below = basis.off_diagonal[k - 1] / pivot  # the one entry of L beside its unit diagonal
            pivot = max(basis.diagonal[k] - below * basis.off_diagonal[k - 1], noise)
            pivots.append(pivot)
            a[k].sub_(a[k - 1], alpha=below)
        return a.square_().div_(torch.tensor(pivots, dtype=torch.float64, device=a.device)[:, None])


# --- log det K --------------------------------------------------------------------------------------------------------

# steps from one check of the estimate to the next, and the most there are
CHECK_EVERY_STEPS, MAX_STEPS = 10, 1000
# by how much value and σ² ∂/∂σ² may still move from one check to the next
SETTLED_NATS_PER_POINT = 1e-6
# the basis, its product with F, and both once more beside the weights of the targets
QUADRATURE_COPIES = 4


@dataclass(frozen=True, eq=False)
class LogDeterminant:
    """An estimate of log det K, and its derivative: ∂ log det K/∂θ ≈ tr(leftᵀ ∂K right).

    Args:
        value: 0-d float64.
        left, right: (n, p).
    """

    value: Tensor
    left: Tensor
    right: Tensor


def lanczos_log_determinant(operator: Operator, z: Tensor, with_gradient: bool = True) -> LogDeterminant:
    """Estimates log det K by the mean of zᵀ log(K) z, by stochastic Lanczos quadrature (Ubaru, Chen & Saad, 2017).

    With K Q ≈ Q T from z = ‖z‖q₁ and T = S Λ Sᵀ, zᵀ log(K) z ≈ ‖z‖² e₁ᵀ log(T) e₁, whose derivative along ∂K is
    ‖z‖² tr(F Qᵀ ∂K Q), F = S (G ∘ s sᵀ) Sᵀ for the first row s of S and the divided differences G of log (Daleckii &
    Krein). Value and gradient are of one function of θ, unlike the value beside (K⁻¹z)ᵀ ∂K z, which agrees with it only
    in the mean over probes: a line search needs that. One product with K a step, until nothing moves by 1e-6 nats a
    point; of ill-conditioned K hundreds. Left is the variance of the probes. The basis is kept, n·l numbers a step, and
    made orthogonal against all of itself.

    Args:
        z: (n, l) probes with E[ZZᵀ]/l = I; the estimate is exact for √n·I.

    Raises:
        MemoryError: the basis would not fit the free memory.

    Examples:
        >>> import torch, apviz
        >>> from apviz.gp import lanczos_log_determinant
        >>> x = torch.linspace(0, 1, 20, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, x, apviz.Matern12(lengthscale=0.2), noise=0.1, device="cpu")
        >>> identity = torch.eye(20, dtype=torch.float64)
        >>> found = lanczos_log_determinant(system.operator, 20**0.5 * identity).value
        >>> torch.testing.assert_close(found, torch.logdet(system.operator.matmul(identity)))
    """
    n, count = z.shape
    norms = torch.linalg.vector_norm(z, dim=0)
    basis, q = [z / norms], z / norms
    diagonal, below = [], []
    before: tuple[float, float] | None = None
    scale = norms.double().square() / count
    most = min(n, MAX_STEPS)
    for step in range(1, most + 1):
        w = operator.matmul(q)
        diagonal.append(torch.sum(w * q, 0, dtype=torch.float64))
        for _ in range(2):
            for earlier in basis:
                w = w - earlier * torch.sum(earlier * w, 0)
        below.append(torch.linalg.vector_norm(w.double(), dim=0))
        if step % CHECK_EVERY_STEPS == 0 or step == most:
            eigenvalues, s = _eigen(diagonal, below, operator.noise)
            weight = s[:, 0].square() * scale[:, None]
            value = torch.sum(weight * eigenvalues.log())
            now = float(value) / n, float(torch.sum(weight / eigenvalues)) * operator.noise / n
            settled = (
                before is not None
                and max(abs(a - b) for a, b in zip(now, before, strict=True)) < SETTLED_NATS_PER_POINT
            )
            if settled or step == n:
                break
            before = now
            _check_memory((len(basis) + CHECK_EVERY_STEPS) * z.numel() * QUADRATURE_COPIES, z)
        if step < most:
            # a Krylov space that is complete goes on with zeros, on which nothing has weight
            alive = below[-1] > torch.finfo(z.dtype).eps * n * diagonal[0].abs()
            below[-1] = torch.where(alive, below[-1], 0.0)
            q = torch.where(alive, w / below[-1].clamp(min=torch.finfo(z.dtype).tiny).to(w), 0.0)
            basis.append(q)
    else:
        warnings.warn(
            f"log det K has not settled after {most} steps of Lanczos; use solver=apviz.Cholesky(), float64, or more "
            "noise",
            stacklevel=2,
        )
    if not with_gradient:
        return LogDeterminant(value, z[:, :0], z[:, :0])
    f = _differences(eigenvalues, s) * scale[:, None, None]
    vectors = torch.stack(basis)
    right = torch.einsum("anl,lab->bnl", vectors, f.to(z))
    return LogDeterminant(value, *(each.permute(1, 0, 2).reshape(n, -1) for each in (vectors, right)))


def _eigen(diagonal: list[Tensor], below: list[Tensor], noise: float) -> tuple[Tensor, Tensor]:
    """Eigenvalues (l, m), none below σ² as K has none, and eigenvectors (l, m, m) of T."""
    t = torch.diag_embed(torch.stack(diagonal, 1))
    for offset in (-1, 1):
        t = t + torch.diag_embed(torch.stack(below, 1)[:, :-1], offset)
    eigenvalues, s = torch.linalg.eigh(t)
    return eigenvalues.clamp(min=noise), s


def _differences(eigenvalues: Tensor, s: Tensor) -> Tensor:
    """F = S (G ∘ s sᵀ) Sᵀ, (l, m, m): G_ab = (log λ_a − log λ_b)/(λ_a − λ_b), and 1/λ on the diagonal."""
    a, b = eigenvalues[:, :, None], eigenvalues[:, None, :]
    ratio = (a - b) / b
    # log(1 + x)/x, without what cancels where x is small
    g = torch.where(ratio.abs() > 1e-8, torch.log1p(ratio) / torch.where(ratio == 0, 1.0, ratio), 1.0) / b
    first = s[:, 0]
    return s @ (g * first[:, :, None] * first[:, None, :]) @ s.mT


def _check_memory(numbers: int, like: Tensor) -> None:
    require_memory(
        numbers * like.element_size(),
        like.device,
        "the Lanczos basis of log det K and its copies need",
        "take fewer probes, more noise, or an optimiser that goes by gradients alone, such as Adam",
    )
