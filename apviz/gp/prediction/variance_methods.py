"""The methods of posterior variances by name: solves, Lanczos, near rows, or the one that suits the test points."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

import torch
from torch import Generator, Tensor

from apviz.gp.prediction.accuracy_sample import SAMPLE, sampled_errors
from apviz.gp.prediction.lanczos import LanczosInverse
from apviz.gp.prediction.mean_solve import MeanSolve
from apviz.gp.prediction.neighbour_variances import NeighbourVariances
from apviz.gp.prediction.points import CHUNK, Points
from apviz.gp.prediction.prediction_accuracy import PointErrors, PredictionAccuracy
from apviz.gp.prediction.variances import VARIANCE_TOL, Batch, Variances, VarianceSolve, to_tolerance
from apviz.settings import require, require_whole
from apviz.solvers import Hook, Solver

Method = Literal["solves", "lanczos", "neighbours", "auto"]
METHODS: Final = get_args(Method)
#: test points from which, and training rows beyond which, near rows are worth a sample of solves
MANY_POINTS, MANY_ROWS = 256, 4_096
#: numbers of the inputs that are grouped at once: points in random order have few neighbours among a few thousand
GROUPED = 2**20
#: seconds that a sample may always take
SAMPLE_SECONDS = 10.0
#: error of standard deviations, relative to the exact ones, beyond which a sample warns
SD_ERROR = 0.05


@dataclass(eq=False)
class Known:
    """What is known of the errors of predictions.

    Args:
        solves: records of the solves for their variances.
        sample: if near rows gave the variances, the errors at some of them, and `points`, the number of all.
        noise: what predictions add to the variance of f, so that errors of standard deviations are those of the sum.
    """

    solves: list[VarianceSolve] = field(default_factory=list)
    sample: list[PointErrors] = field(default_factory=list)
    points: int = 0
    noise: float = 0.0

    @property
    def errors(self) -> tuple[list[PointErrors], int]:
        """The errors, and the number of points among which they were sampled."""
        if self.sample:
            return self.sample, self.points
        return [each.errors for each in self.solves], sum(len(each.excess) for each in self.solves)


class Asked(NamedTuple):
    """What a method of variances is asked for.

    Args:
        points: test points.
        hooks: hooks of the solves.
        mean: the solve of the mean, for the errors of means, and for the seconds that a sample may take.
        known: to be filled with what is known of errors.
        rank: rank of Lanczos.
        keep: two (n, m) arrays for the method `solves` to fill with W and C + R of all points; None: none.
    """

    points: Points
    hooks: list[Hook]
    mean: MeanSolve
    known: Known
    rank: int
    keep: Sequence[Tensor] | None = None


class VarianceMethods:
    """Variances of test points by any method.

    A method is a function from what is asked to batches of variances. Add yours to the table in `__init__`.

    Args:
        mean: the solve of the mean, whose Cholesky factor, if it left one, also serves variances.
        solver: solver of variances, used as given. None: that of the mean, with smaller tolerances where needed.
        batch_size: as in `Posterior`.
    """

    def __init__(self, mean: MeanSolve, solver: Solver | None, batch_size: int | Literal["auto"]) -> None:
        self._operator, self._double, self._batch_size = mean.operator, mean.double, batch_size
        by = to_tolerance(mean.solver, VARIANCE_TOL) if solver is None else solver
        self.by_solves = Variances(mean.system, mean.double, by, solver is None, batch_size)
        if solver is None and mean.prepared is not None and mean.has_factor:
            self.by_solves.prepared = mean.prepared, math.inf
        self._near: NeighbourVariances | None = None
        self.inverse = LanczosInverse(mean.operator)
        self._table: dict[str, Callable[[Asked], Iterator[Batch]]] = {
            "solves": self._solves, "lanczos": self._lanczos, "neighbours": self._neighbours,
        }  # fmt: skip

    def batches(self, method: Method, asked: Asked) -> Iterator[Batch]:
        """Return the batches of a method. Settings are checked immediately."""
        return self._table[self.chosen(method, len(asked.points))](asked)

    def chunk(self) -> int:
        """Return the chunk size of products, at most n/4: the dense operator forms k(x*, X) in addition to K."""
        return min(CHUNK, max(1, self._operator.n // 4)) if self._batch_size == "auto" else self._batch_size

    def chosen(self, method: Method, points: int) -> Method:
        """Check a method, and return the one that `auto` means for a number of test points."""
        require(method in METHODS, "method", method, f"one of {', '.join(METHODS)}")
        if method != "auto":
            return method
        many = points >= MANY_POINTS and self._operator.n > MANY_ROWS
        return "neighbours" if many and not self.by_solves.has_factor else "solves"

    def _solves(self, asked: Asked) -> Iterator[Batch]:
        points, batches = asked.points, list(asked.points.slices(self.by_solves.width(len(asked.points))))
        return self.by_solves.by_solves(
            batches, points.__getitem__, asked.hooks, asked.known.solves, asked.mean.residual(), asked.keep
        )

    def covariances(self, asked: Asked, size: int) -> tuple[Tensor, Tensor]:
        """Return the covariances of f within groups of `size` points, (m ÷ size, size, size), and W ≈ K⁻¹C, (n, m)."""
        system, z = self.by_solves.system, asked.points[:]
        w, c = (torch.empty(system.n, len(z), dtype=torch.float64, device=system.device) for _ in range(2))
        variance = torch.empty(len(z), dtype=torch.float64, device=system.device)
        for batch in self._solves(asked._replace(keep=(w, c))):
            variance[batch.rows] = batch.variance
        explained = torch.einsum("ngi,ngj->gij", *(each.reshape(system.n, -1, size) for each in (c, w)))
        out = -0.5 * (explained + explained.mT)
        for group, rows in enumerate(z.reshape(-1, size, z.shape[1])):
            out[group] += system.kernel(rows.to(out))
        # `variance` is summed in float64 and lies between 0 and the prior variance
        out.diagonal(dim1=1, dim2=2).copy_(variance.reshape(-1, size))
        return out, w

    def _lanczos(self, asked: Asked) -> Iterator[Batch]:
        require_whole("rank", asked.rank, 1)
        return (
            Batch(rows, chunk, self.by_ranks(chunk, [asked.rank])[:, 0])
            for rows, chunk in asked.points.chunks(self.chunk())
        )

    def by_ranks(self, chunk: Tensor, ranks: Sequence[int]) -> Tensor:
        """Return variances by Lanczos at several ranks: test inputs (c, d), to (c, len(ranks))."""
        return self.by_solves.from_explained(self.inverse.explained(chunk, ranks), chunk)

    def _neighbours(self, asked: Asked) -> Iterator[Batch]:
        """Take variances given near rows, and by solves where these have not settled; warn if a sample is far off."""
        points, hooks, known, residual = asked.points, asked.hooks, asked.known, asked.mean.residual()
        if not len(points):
            return self._solves(asked)
        together = max(CHUNK, GROUPED // self._operator.x.shape[1])
        near = [self._near_rows().variances(chunk, known.noise) for _, chunk in points.chunks(together)]
        variance, settled = (torch.cat(each) for each in zip(*near, strict=True))
        # all at once: a solve for one point takes nearly as long as for a hundred
        left, size = (~settled).nonzero()[:, 0].cpu().numpy(), self.by_solves.width()
        batches = [slice(start, min(start + size, len(left))) for start in range(0, len(left), size)]
        for batch in self.by_solves.by_solves(batches, lambda rows: points[left[rows]], hooks, known.solves, residual):
            variance[left[batch.rows]] = batch.variance
        order = torch.randperm(len(points), generator=Generator().manual_seed(0))[:SAMPLE].numpy()
        # as predicted for the groups of all points: a sample on its own would have smaller groups
        sd, seconds = variance.sqrt().cpu(), max(SAMPLE_SECONDS, asked.mean.seconds)
        known.points, known.sample = len(points), sampled_errors(
            points, order, residual, lambda chunk, rows, found: sd[order[rows]], self.by_solves, seconds, hooks
        )  # fmt: skip
        found = PredictionAccuracy.of(known.sample, len(points), math.inf, noise=known.noise)
        if not found.sd_error() <= SD_ERROR:
            warnings.warn(
                f"standard deviations given near rows may be too large: {found.sentence}; the method 'solves' takes "
                "longer and is more accurate",
                stacklevel=4,
            )
        return (Batch(rows, chunk, variance[rows]) for rows, chunk in points.chunks(self.chunk()))

    def inverse_diagonal(self, rows: Tensor, hooks: list[Hook]) -> Tensor:
        """Return the diagonal entries of K⁻¹ in some rows, (m,) indices to (m,): never too large, up to rounding.

        An entry is one over the variance of an observation given all others. With many rows and no factor those near it
        are taken first, and a solve where the variance has not settled.
        """
        if self._operator.n <= MANY_ROWS or self.by_solves.has_factor:
            return self._inverse_diagonal_by_solves(rows, hooks)
        variance, settled = self._near_rows().left_out(rows)
        found = 1 / variance
        if not settled.all():
            found[~settled] = self._inverse_diagonal_by_solves(rows[~settled], hooks).to(found)
        return found

    def _inverse_diagonal_by_solves(self, rows: Tensor, hooks: list[Hook]) -> Tensor:
        parts = torch.split(rows, self.by_solves.width())
        return torch.cat([self.by_solves.inverse_diagonal(part, hooks) for part in parts])

    def _near_rows(self) -> NeighbourVariances:
        if self._near is None:
            self._near = NeighbourVariances(self._double)
        return self._near
