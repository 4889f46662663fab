"""log det K with its gradient, by stochastic Lanczos quadrature on a whitened K."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.memory import require_memory
from apviz.operators import Operator
from apviz.preconditioners import Whitening

# steps from one check of the estimate to the next, and the most there are
CHECK_EVERY_STEPS, MAX_STEPS = 5, 1000
# by how much value and σ² ∂/∂σ² may still move from one check to the next
SETTLED_NATS_PER_POINT = 1e-7
# the basis, its product with F, and both once more beside the weights of the targets
QUADRATURE_COPIES = 4
# of the spectrum of F, what its largest eigenpairs may leave out
LEFT_OUT = 1e-9


@dataclass(frozen=True, eq=False)
class LogDeterminant:
    """An estimate of log det K, and its derivative: ∂ log det K/∂θ ≈ tr(leftᵀ ∂K right).

    Args:
        value: 0-d float64.
        left, right: (n, p).
        standard_error: of the value, by how much the probes differ, 0-d float64; NaN of one probe.
        steps: of Lanczos.
    """

    value: Tensor
    left: Tensor
    right: Tensor
    standard_error: Tensor
    steps: int


def lanczos_log_determinant(
    operator: Operator, z: Tensor, with_gradient: bool = True, whitening: Whitening | None = None
) -> LogDeterminant:
    """Estimates log det K by the mean of zᵀ log(K) z, by stochastic Lanczos quadrature (Ubaru, Chen & Saad, 2017).

    With K Q ≈ Q T from z = ‖z‖q₁ and T = S Λ Sᵀ, zᵀ log(K) z ≈ ‖z‖² e₁ᵀ log(T) e₁, whose derivative along ∂K is
    ‖z‖² tr(F Qᵀ ∂K Q), F = S (G ∘ s sᵀ) Sᵀ for the first row s of S and the divided differences G of log (Daleckii &
    Krein), of which the eigenpairs that count are kept: every one is a column. Value and gradient are of one function
    of θ, unlike the value beside (K⁻¹z)ᵀ ∂K z, which agrees with it only in the mean over probes: a line search needs
    that. One product with K a step, until nothing moves by 1e-7 nats a point; of ill-conditioned K hundreds. Left is
    the variance of the probes. The basis is kept, n·l numbers a step, and made orthogonal against all of itself.

    A whitening L P Lᵀ = I makes that of L K Lᵀ, for log det K = log det P + tr log(L K Lᵀ) whatever P is: some dozens
    of steps and a fraction of the variance where P is close to K (Wenger et al., ICML 2022). Value and gradient stay of
    one function of θ while the whitening is the same.

    Args:
        z: (n, l) probes with E[ZZᵀ]/l = I; the estimate is exact for √n·I.
        whitening: by a P near K, such as K's at other hyperparameters; None: P = I.

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
    # K is above its noise, and Lᵀ L above 1 ÷ the largest eigenvalue of P
    floor = operator.noise if whitening is None else operator.noise / whitening.largest_eigenvalue
    for step in range(1, most + 1):
        w = operator.matmul(q) if whitening is None else whitening(operator.matmul(whitening.transposed(q)))
        diagonal.append(torch.sum(w * q, 0, dtype=torch.float64))
        for _ in range(2):
            for earlier in basis:
                w = w - earlier * torch.sum(earlier * w, 0)
        below.append(torch.linalg.vector_norm(w.double(), dim=0))
        if step % CHECK_EVERY_STEPS == 0 or step == most:
            eigenvalues, s = _eigen(diagonal, below, floor)
            weight = s[:, 0].square() * scale[:, None]
            value = torch.sum(weight * eigenvalues.log())
            now = float(value) / n, float(torch.sum(weight / eigenvalues)) * floor / n
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
    by_probe = count * torch.sum(weight * eigenvalues.log(), 1)
    error = by_probe.std() / math.sqrt(count) if count > 1 else torch.full_like(value, math.nan)
    value = value + (0.0 if whitening is None else whitening.log_determinant)
    if not with_gradient:
        return LogDeterminant(value, z[:, :0], z[:, :0], error, step)
    f = _differences(eigenvalues, s) * scale[:, None, None]
    weights, directions = _largest(f)
    left = torch.einsum("anl,lab->nlb", torch.stack(basis), directions.to(z))
    left, right = (each.reshape(n, -1) for each in (left, left * weights.to(z)))
    if whitening is not None:
        left, right = whitening.transposed(left), whitening.transposed(right)
    return LogDeterminant(value, left, right, error, step)


def _eigen(diagonal: list[Tensor], below: list[Tensor], floor: float) -> tuple[Tensor, Tensor]:
    """Eigenvalues (l, m), none below the floor, as the matrix has none, and eigenvectors (l, m, m) of T."""
    t = torch.diag_embed(torch.stack(diagonal, 1))
    for offset in (-1, 1):
        t = t + torch.diag_embed(torch.stack(below, 1)[:, :-1], offset)
    eigenvalues, s = torch.linalg.eigh(t)
    return eigenvalues.clamp(min=floor), s


def _differences(eigenvalues: Tensor, s: Tensor) -> Tensor:
    """F = S (G ∘ s sᵀ) Sᵀ, (l, m, m): G_ab = (log λ_a − log λ_b)/(λ_a − λ_b), and 1/λ on the diagonal."""
    a, b = eigenvalues[:, :, None], eigenvalues[:, None, :]
    ratio = (a - b) / b
    # log(1 + x)/x, without what cancels where x is small
    g = torch.where(ratio.abs() > 1e-8, torch.log1p(ratio) / torch.where(ratio == 0, 1.0, ratio), 1.0) / b
    first = s[:, 0]
    return s @ (g * first[:, :, None] * first[:, None, :]) @ s.mT


def _largest(f: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (l, r), eigenvectors (l, m, r) of the symmetric F, as many as it takes: every one is a column."""
    weights, directions = torch.linalg.eigh((f + f.mT) / 2)
    order = weights.abs().argsort(1, descending=True)
    weights = weights.gather(1, order)
    directions = directions.gather(2, order[:, None, :].expand_as(directions))
    beyond = weights.abs().flip(1).cumsum(1).flip(1)  # of this one and all after it
    most = int((beyond > LEFT_OUT * beyond[:, :1]).sum(1).max())
    return weights[:, :most], directions[:, :, :most]


def _check_memory(numbers: int, like: Tensor) -> None:
    require_memory(
        numbers * like.element_size(),
        like.device,
        "the Lanczos basis of log det K and its copies need",
        "take fewer probes, more noise, or an optimiser that goes by gradients alone, such as Adam",
    )
