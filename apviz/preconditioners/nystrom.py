"""The randomised Nyström preconditioner (Frangella, Tropp & Udell, SIAM J. Matrix Anal. Appl. 44, 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.operators import Operator
from apviz.preconditioners.base import PRECONDITIONERS, Preconditioner
from apviz.preconditioners.low_rank import LowRankPlusNoise
from apviz.settings import require_seed, require_whole


@PRECONDITIONERS.register("nystrom")
@dataclass(frozen=True, kw_only=True)
class Nystrom(Preconditioner):
    """Preconditioner P = U(Λ − λ_r)Uᵀ + λ_r + σ², UΛUᵀ the Nyström approximation of k(X, X) by a Gaussian sketch.

    This is the paper's P, times λ_r + σ². Set-up takes one product of K with r columns: 1.0 work, and n²r
    multiplications.

    Args:
        rank: r, the number of columns; holds n·r numbers.
        seed: seed of the sketch.

    Raises:
        ValueError: a rank below 1, a seed below 0.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> preconditioned = apviz.ConjugateGradient(preconditioner=apviz.Nystrom(rank=20), tol=1e-6)
        >>> apviz.solve(system, preconditioned).epochs < apviz.solve(system, apviz.ConjugateGradient(tol=1e-6)).epochs
        True
    """

    rank: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole("rank", self.rank, 1)
        require_seed(self.seed)

    def build(self, operator: Operator) -> LowRankPlusNoise:
        x, noise = operator.x, operator.noise_of()
        generator = torch.Generator().manual_seed(int(self.seed))
        sketch = torch.linalg.qr(torch.randn(operator.n, min(self.rank, operator.n), generator=generator).to(x)).Q
        noises = noise[:, None].to(x) if isinstance(noise, Tensor) else noise
        u, eigenvalues = nystrom(sketch, operator.matmul(sketch) - noises * sketch)
        smallest = float(eigenvalues[-1])
        return LowRankPlusNoise(u * (eigenvalues - smallest).sqrt().to(u), noise + smallest)


def nystrom(sketch: Tensor, product: Tensor) -> tuple[Tensor, Tensor]:
    """Approximate a positive semi-definite A by UΛUᵀ from AΩ, Algorithm 2.1 of the paper.

    Args:
        sketch: Ω (n, r) with orthonormal columns.
        product: AΩ.

    Returns:
        U (n, r), and Λ (r,) float64 in decreasing order.
    """
    shift = torch.finfo(product.dtype).eps * float(torch.linalg.matrix_norm(product))
    y = product + shift * sketch
    inner = sketch.T.double() @ y.double()
    inner, by = (inner + inner.T) / 2, shift
    while True:  # rounding of A may exceed the shift
        factor, info = torch.linalg.cholesky_ex(inner + (by - shift) * torch.eye(len(inner)).to(inner), upper=True)
        if not int(info):
            break
        by *= 10
    whitened = torch.linalg.solve_triangular(factor, y.double(), upper=True, left=False)
    u, singular, _ = torch.linalg.svd(whitened, full_matrices=False)
    return u.to(product), (singular.square() - by).clamp(min=0.0)
