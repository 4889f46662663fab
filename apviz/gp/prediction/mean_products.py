"""Products k(x*, X) W and K W of predictions: by Fourier series for many rows of few inputs, else by entries.

A series errs by at most 1e-8 of k(0) in an entry. What this does to means is measured on random points by exact
entries; if it is not far below the noise, entries are evaluated for all points.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.operators.fourier.engine import LEAST_ROWS, with_fourier_products
from apviz.solvers import Solution

#: entries of a product from which the set-up of a series, of a second or two, pays off
MANY_ENTRIES = 1e9
#: points at which means are compared with exact ones, and the largest difference, in standard deviations of the noise
COMPARED, ALLOWED = 64, 1e-4
#: largest number of points in a chunk: each chunk transforms all weights again
CHUNK = 2**18


class MeanProducts:
    """Products with the weights of a posterior, in float64: Fourier products if the user's `double` has them, too."""

    def __init__(self, operator: CountingOperator, double: CountingOperator) -> None:
        self._operator, self._double = operator, double
        self._fast: CountingOperator | None = double if double.converts_seconds else None
        self._is_known = double.converts_seconds
        #: largest difference of any product from that by exact entries at the compared points; 0 if all are exact
        self.error = 0.0

    def chunk(self, points: int, usual: int) -> int:
        """Return the points of a chunk, out of this number, where it would usually be `usual`."""
        return CHUNK if self._wanted(points) and self._series() is not None else usual

    def product(self, z: Tensor, weights: Tensor) -> Tensor:
        """Compute k(z, X) weights: z (m, d), weights (n,) or those of several functions (n, p), to (m,) or (m, p)."""
        columns = weights if weights.ndim == 2 else weights[:, None]
        return self._products(z, columns, len(z)).reshape(len(z), *weights.shape[1:])

    def measure(self, z: Tensor, weights: Tensor, points: int) -> None:
        """Measure the error of a product at z: (m, d), some of this number of points, if it would be approximate."""
        if self._wanted(points):
            self._products(z, weights[:, None], points)

    def _products(self, z: Tensor, weights: Tensor, points: int) -> Tensor:
        fast = self._series() if self._wanted(points) else None
        if fast is not None:
            found = fast.cross_matmul(z, weights)
            error = self._difference(z, weights, found)
            if fast is self._double or error <= ALLOWED * math.sqrt(self._operator.noise):
                self.error = max(self.error, error)
                return found
            self._fast = None
        return self._double.cross_matmul(z, weights)

    def _wanted(self, points: int) -> bool:
        n = self._operator.n
        return self._double.converts_seconds or (n >= LEAST_ROWS and points * n >= MANY_ENTRIES)

    def _series(self) -> CountingOperator | None:
        if not self._is_known:
            found, self._is_known = with_fourier_products(self._operator.uncounted), True
            self._fast = None if found is None else self._operator.of(found.certifying())
        return self._fast

    def _difference(self, z: Tensor, weights: Tensor, found: Tensor) -> float:
        """Return the largest difference from exact entries, at some points."""
        rows = torch.randperm(len(z), generator=torch.Generator().manual_seed(0))[:COMPARED]
        exact = self._double.exact().cross_matmul(z[rows], weights)
        return float((found[rows] - exact).abs().max())


def operator_for(operator: CountingOperator, solution: Solution | None) -> CountingOperator:
    """Return the operator of residuals: with Fourier products if that of the solve is known by these.

    Else millions of rows would need n² entries after a solve that needed none.
    """
    certificate = None if solution is None else solution.certificate
    if certificate is None or certificate.kind == "exact":
        return operator
    found = with_fourier_products(operator.uncounted)
    return operator if found is None else operator.of(found)
