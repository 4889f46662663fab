"""Whitening: a matrix L with L P Lᵀ = I for a P near K whose determinant is known, for log det K by Lanczos."""

from __future__ import annotations

import torch
from torch import Tensor

from apviz.operators import Noise, Operator
from apviz.preconditioners.low_rank import eigenvectors
from apviz.preconditioners.neighbour_whitening import NeighbourWhitening
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky

#: columns of the factor: alone, and with neighbours, which need it only for what is smooth
RANK, RANK_WITH_NEIGHBOURS = 500, 100
#: most inputs for which near rows say almost all about a row
FEW_INPUTS = 3


class Whitening:
    """A matrix L with L P Lᵀ = I for P = FFᵀ + V, F the factor: (n, r), V diagonal or known by its whitening.

    Args:
        factor: (n, r) F.
        noise: V = σ²I, or an (n,) diagonal.
        local: whitening of another V; None: of the diagonal.

    Attributes:
        log_determinant: of P, 0-d float64.
        largest_eigenvalue: of P, or a bound on it, as far as that of V is one.
    """

    def __init__(self, factor: Tensor, noise: Noise, local: NeighbourWhitening | None = None) -> None:
        self._local = local or _DiagonalWhitening(factor, noise)
        self._u, spectrum = eigenvectors(self._local(factor))
        # (I + UΛUᵀ)^-½ = I + U((1 + Λ)^-½ − 1)Uᵀ
        self._middle = ((1 + spectrum).rsqrt() - 1)[:, None]
        self.log_determinant = self._local.log_determinant + torch.log1p(spectrum).sum()
        self.largest_eigenvalue = self._local.largest_eigenvalue * (1 + float(spectrum.max()) if len(spectrum) else 1.0)

    def __call__(self, r: Tensor) -> Tensor:
        """Compute L r for r: (n, p)."""
        return self._inner(self._local(r))

    def transposed(self, r: Tensor) -> Tensor:
        """Compute Lᵀ r for r: (n, p)."""
        return self._local.transposed(self._inner(r))

    def _inner(self, r: Tensor) -> Tensor:
        u = self._u.to(r)
        return r + u @ (self._middle.to(r) * (u.T @ r))


class _DiagonalWhitening:
    """D^-½ for V = D, as `NeighbourWhitening`."""

    def __init__(self, like: Tensor, noise: Noise) -> None:
        noises = torch.as_tensor(noise, dtype=torch.float64, device=like.device).expand(len(like))
        self._root = noises.sqrt()[:, None]
        self.log_determinant = noises.log().sum()
        self.largest_eigenvalue = float(noises.max())

    def __call__(self, r: Tensor) -> Tensor:
        return r / self._root.to(r)

    transposed = __call__


def whitening_of(operator: Operator, seed: int) -> Whitening:
    """Return the whitening of a matrix near K: of low rank, and by neighbours too where there are few inputs."""
    n, few_inputs = operator.n, operator.x.shape[1] <= FEW_INPUTS
    if not few_inputs or operator.x.device.type != "cpu" or operator.layout.ranks > 1:
        return Whitening(randomly_pivoted_cholesky(operator, min(RANK, n // 4), seed), operator.noise_of())
    factor = randomly_pivoted_cholesky(operator, min(RANK_WITH_NEIGHBOURS, n // 4), seed)
    return Whitening(factor, operator.noise_of(), NeighbourWhitening(operator, factor, seed))
