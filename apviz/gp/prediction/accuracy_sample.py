"""A random sample of test points at which the errors of predictions are known, within a limit of seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from apviz.gp.prediction.points import Points
from apviz.gp.prediction.prediction_accuracy import MeanResidual, PointErrors
from apviz.gp.prediction.variances import Variances, to_tolerance
from apviz.operators import CountingOperator
from apviz.solvers import Hook, Solver, attempt
from apviz.solvers.measuring.residuals import residual_for
from apviz.system import KernelSystem

#: rows of a sample; the seconds it may take ÷ those of the solve for the mean, and those it may always take
SAMPLE, SAMPLE_SHARE, SAMPLE_SECONDS = 64, 0.5, 1.0
# rows of its first batch; later ones are as large as all before
FIRST_BATCH = 8
# bound on the errors of means, in posterior standard deviations, below which the weights need no correction
SMALL_BOUND = 0.1


def residual_of(
    system: KernelSystem, operator: CountingOperator, weights: Tensor, correction: Tensor | None = None
) -> MeanResidual:
    """Evaluate y − μ − K(W + δ) in float64 for weights and their correction, (n,) each; entries cost 1.0 work."""
    b, w = system.given_b.double(), weights if correction is None else weights + correction
    found = residual_for(operator, "operator").residual(b, w[:, None], 0.0)
    return MeanResidual(found.r[:, 0], float(found.rounding[0]), operator.noise_of(), correction)


def corrected(
    found: MeanResidual,
    system: KernelSystem,
    operator: CountingOperator,
    weights: Tensor,
    solver: Solver,
    hooks: list[Hook],
) -> MeanResidual:
    """Return the residual of the weights or, if it is large, that of weights which this solver corrects."""
    if found.bound <= SMALL_BOUND:
        return found
    tighter = to_tolerance(solver, 0.5 * SMALL_BOUND / found.bound)
    solution = attempt(system.with_right_hand_sides(found.r), tighter, hooks)
    return residual_of(system, operator, weights, solution.weights.to(found.r))


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
