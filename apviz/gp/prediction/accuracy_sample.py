"""A random sample of test points at which the errors of predictions are known, within a limit of seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from apviz.gp.prediction.accuracy import ways
from apviz.gp.prediction.mean_solve import MeanSolve
from apviz.gp.prediction.points import Points
from apviz.gp.prediction.prediction_accuracy import MeanResidual, PointErrors
from apviz.gp.prediction.variances import VARIANCE_TOL, Variances, to_tolerance
from apviz.settings import require, require_seed, require_whole
from apviz.solvers import Hook

#: rows of a sample; the seconds it may take ÷ those of the solve for the mean, and those it may always take
SAMPLE, SAMPLE_SHARE, SAMPLE_SECONDS = 64, 0.5, 1.0
# rows of its first batch; later ones are as large as all before
FIRST_BATCH = 8


def drawn(points: int, count: int | None, seed: int) -> NDArray[np.int64]:
    """Check a count and a seed, and draw rows out of this number of test points; None: 64."""
    require(points > 0, "x_star", "no rows", "at least one test point")
    if count is not None:
        require_whole("count", count, 1)
    require_seed(seed)
    order: NDArray[np.int64] = torch.randperm(points, generator=Generator().manual_seed(seed)).numpy()
    return order[: count or SAMPLE]


def errors_of(
    mean: MeanSolve, variances: Variances, points: Points, order: NDArray[np.int64], is_timed: bool, hooks: list[Hook]
) -> list[PointErrors]:
    """Return the errors of a mean and of these variances at test points, in batches.

    Errors of variances by a user's solver are known from those by the solver that apviz chooses.

    Args:
        is_timed: end after half the seconds of the solve for the mean, or one second.
    """
    seconds = math.inf if mean.solution is None or not is_timed else max(SAMPLE_SECONDS, SAMPLE_SHARE * mean.seconds)
    exact = variances
    if mean.given is not None or not variances.may_tighten:
        solver = to_tolerance(next(ways(mean.system, None, False, mean.accuracy))[1], VARIANCE_TOL)
        exact = Variances(mean.system, mean.double, solver, True, variances.batch_size)
    residual = mean.corrected_residual(exact.solver, hooks)

    def own(chunk: Tensor, rows: slice, _: PointErrors) -> Tensor:
        return variances.errors(chunk, rows, hooks, residual).predicted_sd

    return sampled_errors(points, order, residual, None if exact is variances else own, exact, seconds, hooks)


def sampled_errors(
    points: Points,
    order: NDArray[np.int64],
    residual: MeanResidual,
    own: Callable[[Tensor, slice, PointErrors], Tensor] | None,
    exact: Variances,
    seconds: float,
    hooks: list[Hook],
) -> list[PointErrors]:
    """Return the errors at test points, in batches, until the next batch would exceed the seconds.

    Args:
        own: returns the standard deviations as they are predicted, (c,) on the CPU; None: by `exact`.
        seconds: limit; infinite: take all points.
    """
    errors = []
    for rows in _batches(seconds, len(order), exact.width()):
        chunk = points[order[rows]]
        found = exact.errors(chunk, rows, hooks, residual)
        errors.append(found if own is None else replace(found, predicted_sd=own(chunk, rows, found)))
    return errors


def _batches(seconds: float, count: int, width: int) -> Iterator[slice]:
    """Yield batches of at most `width` of `count` rows, until the next one would exceed the seconds."""
    started, done = time.perf_counter(), 0
    while done < count:
        size = width if math.isinf(seconds) else min(width, done or FIRST_BATCH)
        before = time.perf_counter()
        yield slice(done, min(done + size, count))
        done = min(done + size, count)
        now = time.perf_counter()
        # the next batch has twice the rows, except the second
        if now - started + (2 if done > FIRST_BATCH else 1) * (now - before) > seconds:
            return
