"""log det K and its gradient, by stochastic Lanczos quadrature on a whitened K."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.memory import require_memory
from apviz.operators import Operator
from apviz.preconditioners import Whitening

# steps between checks of the estimate, and the largest number of steps
CHECK_EVERY_STEPS, MAX_STEPS = 5, 1000
# largest change of value and σ² ∂/∂σ² between checks of a settled estimate; whitened, of the mean of 1/λ
SETTLED_NATS_PER_POINT = 1e-7
# the basis, its product with F, and a copy of both, concatenated with the weights of the targets
QUADRATURE_COPIES = 4
# share of the spectrum of F that the kept eigenpairs may leave out
LEFT_OUT = 1e-9


@dataclass(frozen=True, eq=False)
class LogDeterminant:
    """An estimate of log det K and of its derivative ∂ log det K/∂θ ≈ tr(leftᵀ ∂K right).

    Args:
        value: 0-d float64.
        left, right: (n, p).
        standard_error: standard error of the value from the spread of the probes, 0-d float64; NaN for one probe.
        steps: number of Lanczos steps.
    """

    value: Tensor
    left: Tensor
    right: Tensor
    standard_error: Tensor
    steps: int


def lanczos_log_determinant(
    operator: Operator, z: Tensor, with_gradient: bool = True, whitening: Whitening | None = None
) -> LogDeterminant:
    """Estimate log det K by the mean of zᵀ log(K) z, by stochastic Lanczos quadrature (Ubaru, Chen & Saad, 2017).

    With K Q ≈ Q T, z = ‖z‖q₁ and T = S Λ Sᵀ, zᵀ log(K) z ≈ ‖z‖² e₁ᵀ log(T) e₁. Its derivative along ∂K is
    ‖z‖² tr(F Qᵀ ∂K Q) with F = S (G ∘ s sᵀ) Sᵀ, where s is the first row of S and G are the divided differences of log
    (Daleckii & Krein). Each significant eigenpair of F gives one column of left and right.

    Value and gradient belong to one function of θ, as a line search needs. The usual gradient (K⁻¹z)ᵀ ∂K z agrees with
    the value only in the mean over probes. A step costs one product with K. Steps end once nothing changes by 1e-7 nats
    a point; an ill-conditioned K takes hundreds. The remaining error is the variance of the probes. The basis is kept,
    n·l numbers a step, and fully reorthogonalised.

    With a whitening L P Lᵀ = I the quadrature is applied to L K Lᵀ, because log det K = log det P + tr log(L K Lᵀ) for
    any P. If P is close to K, a few dozen steps suffice and the variance is a fraction (Wenger et al., ICML 2022).
    With the same whitening, value and gradient still belong to one function of θ.

    Args:
        z: (n, l) probes with E[ZZᵀ]/l = I; the estimate is exact for √n·I.
        whitening: whitening by a P near K, such as K at other hyperparameters; None: P = I.

    Raises:
        MemoryError: the basis does not fit the free memory.

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
    scale = torch.linalg.vector_norm(z, dim=0).double().square() / count
    basis, eigenvalues, s = _krylov(operator, z, scale, whitening)
    by_probe = count * torch.sum(s[:, 0].square() * scale[:, None] * eigenvalues.log(), 1)
    value = by_probe.mean() + (0.0 if whitening is None else whitening.log_determinant)
    error = by_probe.std() / math.sqrt(count) if count > 1 else torch.full_like(value, math.nan)
    if not with_gradient:
        return LogDeterminant(value, z[:, :0], z[:, :0], error, len(basis))
    f = _differences(eigenvalues, s) * scale[:, None, None]
    weights, directions = _largest(f)
    left = torch.einsum("anl,lab->nlb", torch.stack(basis), directions.to(z))
    left, right = (each.reshape(n, -1) for each in (left, left * weights.to(z)))
    if whitening is not None:
        left, right = whitening.transposed(left), whitening.transposed(right)
    return LogDeterminant(value, left, right, error, len(basis))


def _krylov(
    operator: Operator, z: Tensor, scale: Tensor, whitening: Whitening | None
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Return the basis Q, a list of m tensors (n, l), and the eigenpairs (l, m) and (l, m, m) of T once they settle."""
    n = len(z)
    q = z / torch.linalg.vector_norm(z, dim=0)
    basis, diagonal, below = [q], [], []
    before: tuple[float, float] | None = None
    most = min(n, MAX_STEPS)
    # lower bound of the spectrum: K ⪰ σ²I, and Lᵀ L ⪰ I ÷ the largest eigenvalue of P
    floor = operator.noise if whitening is None else operator.noise / whitening.largest_eigenvalue
    # the derivative in log σ² is at most this times the mean of 1/λ; whitened, eigenvalues λ are near 1
    unit = operator.noise if whitening is None else 1.0
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
            now = float(value) / n, float(torch.sum(weight / eigenvalues)) * unit / n
            settled = (
                before is not None
                and max(abs(a - b) for a, b in zip(now, before, strict=True)) < SETTLED_NATS_PER_POINT
            )
            if settled or step == n:
                break
            before = now
            _check_memory((len(basis) + CHECK_EVERY_STEPS) * z.numel() * QUADRATURE_COPIES, z)
        if step < most:
            # a complete Krylov space continues with zeros, which have no weight
            alive = below[-1] > torch.finfo(z.dtype).eps * n * diagonal[0].abs()
            below[-1] = torch.where(alive, below[-1], 0.0)
            q = torch.where(alive, w / below[-1].clamp(min=torch.finfo(z.dtype).tiny).to(w), 0.0)
            basis.append(q)
    else:
        warnings.warn(
            f"log det K has not settled after {most} Lanczos steps; use solver=apviz.Cholesky(), float64 or more noise",
            stacklevel=3,
        )
    return basis, eigenvalues, s


def _eigen(diagonal: list[Tensor], below: list[Tensor], floor: float) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (l, m) of T, raised to the floor of the matrix's spectrum, and eigenvectors (l, m, m)."""
    t = torch.diag_embed(torch.stack(diagonal, 1))
    for offset in (-1, 1):
        t = t + torch.diag_embed(torch.stack(below, 1)[:, :-1], offset)
    eigenvalues, s = torch.linalg.eigh(t)
    return eigenvalues.clamp(min=floor), s


def _differences(eigenvalues: Tensor, s: Tensor) -> Tensor:
    """Return F = S (G ∘ s sᵀ) Sᵀ, (l, m, m): G_ab = (log λ_a − log λ_b)/(λ_a − λ_b), and 1/λ on the diagonal."""
    a, b = eigenvalues[:, :, None], eigenvalues[:, None, :]
    ratio = (a - b) / b
    # log(1 + x)/x, without cancellation for small x
    g = torch.where(ratio.abs() > 1e-8, torch.log1p(ratio) / torch.where(ratio == 0, 1.0, ratio), 1.0) / b
    first = s[:, 0]
    return s @ (g * first[:, :, None] * first[:, None, :]) @ s.mT


def _largest(f: Tensor) -> tuple[Tensor, Tensor]:
    """Return the significant eigenvalues (l, r) and eigenvectors (l, m, r) of the symmetric F."""
    weights, directions = torch.linalg.eigh((f + f.mT) / 2)
    order = weights.abs().argsort(1, descending=True)
    weights = weights.gather(1, order)
    directions = directions.gather(2, order[:, None, :].expand_as(directions))
    beyond = weights.abs().flip(1).cumsum(1).flip(1)  # sum of this one and all later ones
    most = int((beyond > LEFT_OUT * beyond[:, :1]).sum(1).max())
    return weights[:, :most], directions[:, :, :most]


def _check_memory(numbers: int, like: Tensor) -> None:
    require_memory(
        numbers * like.element_size(),
        like.device,
        "the Lanczos basis of log det K and its copies need",
        "use fewer probes, more noise, or an optimiser that needs gradients only, such as Adam",
    )
