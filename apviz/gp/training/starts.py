"""Starts of a training: GPyTorch's zeros, the scales of the data, or the optimum on a subset of the rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from apviz.factors import NotPositiveDefinite
from apviz.gp.training.objectives import Evaluation, ExactLikelihood, Objective
from apviz.gp.training.optimisers import LBFGS, Bounds
from apviz.gp.training.parametrisation import Constraints, Parametrisation, Transform
from apviz.gp.training.settings import TrainingSettings
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS, Kernel, kernel_named

# number of rows for median distances, and for the likelihood of shorter and longer lengthscales
DISTANCE_ROWS = 500
# The start is the likeliest of these shares of the target's variance as noise and multiples of the lengthscales from
# median distances. From lengthscales far too long, as for the seasons of ten years, the nearest optimum explains the
# target by noise; from lengthscales and noise that are too small, noise by the function.
NOISE_SHARES, MULTIPLES = (0.1, 0.5, 0.01), (1.0, 3.0, 1 / 3, 1 / 9, 1 / 27)
# standard deviation of the logarithms of further starts around the first: most are within a factor of 20
SPREAD = 1.5
# iterations on the subset; more bring the start no closer to the optimum on all rows
MOST_ITERATIONS = 30
# The search for a start of Adam or scoring changes a number by at most this factor. The optimum of few rows may be one
# without noise, from which all rows do not return: 2,000 rows of protein lose 46 nats there. And in float64 it may be
# out of reach for all rows in float32.
REACH = 10.0


def parametrisation_of(
    settings: TrainingSettings,
    d: int,
    initial: Hyperparameters | None,
    transform: Transform,
    constraints: Constraints | None = None,
) -> Parametrisation:
    """Return the parametrisation of a training: all numbers of a kernel, or lengthscales and outputscale of a name.

    A kernel by name keeps the shape parameters of `initial`; only a kernel that is not given by name has constraints.
    """
    kernel = settings.kernel
    if isinstance(kernel, Kernel):
        return Parametrisation(kernel, settings.noise_floor, frozenset(), transform, constraints)
    shape = KERNELS[kernel]().parameters
    if initial is not None and initial.kernel == kernel:
        shape |= initial.kernel_parameters
    named = kernel_named(kernel, (1.0,) * d if settings.ard else 1.0, 1.0, **shape)
    return Parametrisation(named, settings.noise_floor, frozenset(shape), transform)


def start_of(settings: TrainingSettings, objective: Objective) -> Hyperparameters | None:
    """Return the default start of a training; None: raw parameters of zero."""
    s = settings
    if isinstance(s.kernel, Kernel):
        return Hyperparameters.of(s.kernel, math.log(2) + s.noise_floor)
    if s.optimiser != "adam" or s.search_rows:
        start = scales_of(objective.x, objective.y, objective.parametrisation, s.seed)
        return likeliest(variations(start, s.noise_floor), objective, s.seed)
    return None


def variations(start: Hyperparameters, noise_floor: float) -> list[Hyperparameters]:
    """Return starts of other noises and lengthscales, the given one first."""
    variance = start.noise / NOISE_SHARES[0]
    return [
        replace(
            start,
            noise=max(share * variance, 2 * noise_floor),
            lengthscale=tuple(multiple * each for each in start.lengthscale),
        )
        for share, multiple in itertools.product(NOISE_SHARES, MULTIPLES)
    ]


def likeliest(starts: Iterable[Hyperparameters], objective: Objective, seed: int) -> Hyperparameters:
    """Return the first of the starts that make some random rows likeliest."""
    some = _some(objective.x, seed)
    few = ExactLikelihood(objective.x[some], objective.y[some], objective.parametrisation, rows=objective.rows.of(some))
    return min(starts, key=few.value)


def scales_of(x: Tensor, y: Tensor, parametrisation: Parametrisation, seed: int) -> Hyperparameters:
    """Return a start from the scales of the data: median distances, and the target's mean and variance.

    The lengthscale of an input is √d times the median distance along it; a lengthscale for all inputs is the median
    distance. The correlation of most pairs is then neither 0 nor 1. The kernel must be stationary.
    """
    some, d = x[_some(x, seed)].double(), x.shape[1]
    along = torch.stack([_median(some[:, [k]]) for k in range(d)])
    ard = isinstance(parametrisation.kernel.hyperparameters["lengthscale"], tuple)
    lengthscale = along * math.sqrt(d) if ard else _median(some)
    variance = float(y.double().var()) or 1.0
    kernel = parametrisation.kernel.with_hyperparameters(
        {"lengthscale": tuple(lengthscale.tolist()) if ard else float(lengthscale), "outputscale": variance}
    )
    noise = max(NOISE_SHARES[0] * variance, 2 * parametrisation.noise_floor)
    return Hyperparameters.of(kernel, noise, float(y.double().mean()))


def _some(x: Tensor, seed: int) -> Tensor:
    """Return the places of some random rows of x: (n, d)."""
    generator = torch.Generator().manual_seed(int(seed))
    return torch.randperm(len(x), generator=generator)[:DISTANCE_ROWS].to(x.device)


def _median(x: Tensor) -> Tensor:
    """Return the median distance of distinct rows of x: (m, w), or 1 if all are equal."""
    distances = torch.pdist(x)
    different = distances[distances > 0]
    return different.median() if len(different) else torch.ones((), dtype=x.dtype, device=x.device)


def optimum_of_few(
    whole: Objective, start: Hyperparameters, settings: TrainingSettings
) -> tuple[Hyperparameters, float]:
    """Optimise the exact likelihood of a random subset of the rows from several starts, drawn around the first.

    Return the best optimum, and the work of all starts, in kernel entries ÷ n².
    """
    generator = torch.Generator().manual_seed(int(settings.seed))
    x, y, parametrisation = whole.x, whole.y, whole.parametrisation
    drawn = torch.randperm(len(x), generator=generator)[: settings.search_rows].to(x.device)
    logarithmic = replace(parametrisation, transform="log")
    objective = ExactLikelihood(x[drawn], y[drawn], logarithmic, rows=whole.rows.of(drawn))
    first = logarithmic.raw(start)
    bounds = logarithmic.bounds(first)
    if settings.optimiser != "l-bfgs":
        reach = math.log(REACH)
        near = zip(first.tolist(), logarithmic.positive.tolist(), strict=True)
        reached = [(value - reach, value + reach) if positive else (None, None) for value, positive in near]
        bounds = reached if parametrisation.constraints is None else list(map(_inner, reached, bounds))
    best, least, work = start, math.inf, 0.0
    for number in range(1 + settings.restarts):
        optimiser = LBFGS(further_start(first, bounds, generator) if number else first, bounds)
        found, taken = _least(objective, optimiser)
        work += taken
        if found < least:
            best, least = logarithmic.hyperparameters(optimiser.raw), found
    return best, work * (len(drawn) / len(x)) ** 2


def further_start(first: Tensor, bounds: Sequence[Bounds], generator: torch.Generator) -> Tensor:
    """Draw a start around the first, within the bounds: (q,) to (q,).

    An entry that a normal draw puts outside its bounds is drawn again, uniformly from their part near the first start.
    Clipped to the bounds, most starts of a kernel with narrow ones would be equal.
    """
    drawn = first + SPREAD * torch.randn(len(first), generator=generator, dtype=torch.float64)
    again = torch.rand(len(first), generator=generator, dtype=torch.float64)
    for place, (value, (low, high)) in enumerate(zip(first.tolist(), bounds, strict=True)):
        least, largest = (-math.inf if low is None else low), (math.inf if high is None else high)
        if not least <= drawn[place] <= largest:
            start, end = max(least, min(value, largest) - 2 * SPREAD), min(largest, max(value, least) + 2 * SPREAD)
            drawn[place] = start + (end - start) * again[place]
    return drawn


def _inner(first: Bounds, second: Bounds) -> Bounds:
    """Return the intersection of two ranges; None: no bound."""
    low, high = (
        pick(values) if (values := [each for each in pair if each is not None]) else None
        for pick, pair in zip((max, min), zip(first, second, strict=True), strict=True)
    )
    return low, high


def _least(objective: ExactLikelihood, optimiser: LBFGS) -> tuple[float, float]:
    """Return ℓ/m of m rows at the optimiser's end, or infinity if K has no factor, and the work ÷ m²."""
    iterations, work = 0, 0.0

    def evaluate(raw: Tensor) -> Evaluation:
        nonlocal work
        found = objective.evaluate(raw, 0)
        work += found.work
        return found

    def count(move: object) -> bool:
        nonlocal iterations
        iterations += 1
        return iterations < MOST_ITERATIONS

    try:
        optimiser.run(evaluate, count)
        return evaluate(optimiser.raw).value, work
    except (NotPositiveDefinite, RuntimeError):
        return math.inf, work
