"""The methods of posterior variances by name: solves, Lanczos, near rows, or the one that suits the test points."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Final, Literal, get_args

import torch
from torch import Generator, Tensor

from apviz.gp.prediction.accuracy_sample import SAMPLE, sampled_errors
from apviz.gp.prediction.lanczos import LanczosInverse
from apviz.gp.prediction.neighbour_variances import NeighbourVariances
from apviz.gp.prediction.points import CHUNK, Points
from apviz.gp.prediction.prediction_accuracy import MeanResidual, PointErrors, PredictionAccuracy
from apviz.gp.prediction.variances import Batch, Variances, VarianceSolve
from apviz.operators import CountingOperator
from apviz.settings import require
from apviz.solvers import Hook

Method = Literal["solves", "lanczos", "neighbours", "auto"]
METHODS: Final = get_args(Method)
#: test points from which, and training rows beyond which, near rows are worth a sample of solves
MANY_POINTS, MANY_ROWS = 1_024, 4_096
#: numbers of the inputs that are grouped at once: points in random order have few neighbours among a few thousand
GROUPED = 2**20
#: seconds that a sample may always take
SAMPLE_SECONDS = 10.0
#: error of standard deviations of f, relative to the exact ones, beyond which a sample warns
SD_ERROR = 0.05


class VarianceMethods:
    """Variances of test points by any method.

    Args:
        operator, double: K, and the same in float64; they count the entries.
        by_solves: variances by solves.
        batch_size: number of test points in a chunk without n × batch arrays; `auto`: 8,192.

    Attributes:
        inverse: Lanczos of K.
    """

    def __init__(
        self,
        operator: CountingOperator,
        double: CountingOperator,
        by_solves: Variances,
        batch_size: int | Literal["auto"],
    ) -> None:
        self._operator, self._double, self._by_solves, self._batch_size = operator, double, by_solves, batch_size
        self._near: NeighbourVariances | None = None
        self.inverse = LanczosInverse(operator)

    def chunk(self) -> int:
        """Return the chunk size of products, at most n/4: the dense operator forms k(x*, X) in addition to K."""
        return min(CHUNK, max(1, self._operator.n // 4)) if self._batch_size == "auto" else self._batch_size

    def chosen(self, method: Method, points: int) -> Method:
        """Check a method, and return the one that `auto` means for a number of test points."""
        require(method in METHODS, "method", method, f"one of {', '.join(METHODS)}")
        if method != "auto":
            return method
        many = points >= MANY_POINTS and self._operator.n > MANY_ROWS
        return "neighbours" if many and not self._by_solves.has_factor else "solves"

    def by_lanczos(self, points: Points, rank: int) -> Iterator[Batch]:
        """Yield the variances by Lanczos of a rank."""
        for rows, chunk in points.chunks(self.chunk()):
            explained = self.inverse.explained(chunk, [rank])
            yield Batch(rows, chunk, self._by_solves.from_explained(explained, chunk)[:, 0], None)

    def by_neighbours(
        self, points: Points, hooks: list[Hook], done: list[VarianceSolve], residual: MeanResidual
    ) -> Tensor:
        """Return the variances given near rows, (m,), by solves where these have not settled.

        Args:
            done: list to which the records of the solves are appended.
            residual: of the mean.
        """
        together = max(CHUNK, GROUPED // self._operator.x.shape[1])
        found = [self._neighbours().variances(chunk) for _, chunk in points.chunks(together)]
        variance, settled = (torch.cat(each) for each in zip(*found, strict=True))
        # all at once: a solve for one point takes nearly as long as for a hundred
        left, size = (~settled).nonzero()[:, 0].cpu().numpy(), self._by_solves.width()
        batches = [slice(start, min(start + size, len(left))) for start in range(0, len(left), size)]
        for batch in self._by_solves.by_solves(batches, lambda rows: points[left[rows]], hooks, done, residual):
            variance[left[batch.rows]] = batch.variance
        return variance

    def inverse_diagonal(self, rows: Tensor, hooks: list[Hook]) -> Tensor:
        """Return the diagonal entries of K⁻¹ in some rows, (m,) indices to (m,): never too large, up to rounding.

        An entry is one over the variance of an observation given all others. With many rows and no factor those near it
        are taken first, and a solve where the variance has not settled.
        """
        if self._operator.n <= MANY_ROWS or self._by_solves.has_factor:
            return self._inverse_diagonal_by_solves(rows, hooks)
        variance, settled = self._neighbours().left_out(rows)
        found = 1 / variance
        if not settled.all():
            found[~settled] = self._inverse_diagonal_by_solves(rows[~settled], hooks).to(found)
        return found

    def _inverse_diagonal_by_solves(self, rows: Tensor, hooks: list[Hook]) -> Tensor:
        parts = torch.split(rows, self._by_solves.width())
        return torch.cat([self._by_solves.inverse_diagonal(part, hooks) for part in parts])

    def accuracy_of(
        self, variance: Tensor, points: Points, hooks: list[Hook], residual: MeanResidual, solve_seconds: float
    ) -> list[PointErrors]:
        """Return the errors at a random sample of points whose variances, (m,), were predicted; warn if they are large.

        Args:
            solve_seconds: seconds of the solve for the mean; the sample takes 8 points, and more within these seconds.
        """
        order = torch.randperm(len(points), generator=Generator().manual_seed(0))[:SAMPLE].numpy()
        # as predicted for the groups of all points: a sample on its own would have smaller groups
        sd, seconds = variance.sqrt().cpu(), max(SAMPLE_SECONDS, solve_seconds)
        errors = sampled_errors(
            points, order, residual, lambda chunk, rows, found: sd[order[rows]], self._by_solves, seconds, hooks
        )
        found = PredictionAccuracy.of(errors, len(points), math.inf)
        if not found.sd_error() <= SD_ERROR:
            warnings.warn(
                f"standard deviations given near rows may be too large: {found.sentence}; the method 'solves' takes "
                "longer and is more accurate",
                stacklevel=4,
            )
        return errors

    def _neighbours(self) -> NeighbourVariances:
        if self._near is None:
            self._near = NeighbourVariances(self._double)
        return self._near
