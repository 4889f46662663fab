"""Where a training starts: at GPyTorch's zeros, at the scales of the data, or at the optimum of few of its rows."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from apviz.factors import NotPositiveDefinite
from apviz.gp.objectives import Evaluation, ExactLikelihood, Objective
from apviz.gp.optimisers import LBFGS, Bounds
from apviz.gp.parametrisation import Constraints, Parametrisation, Transform
from apviz.gp.training_settings import TrainingSettings
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS, Kernel, kernel_named

# rows of which distances are taken
DISTANCE_ROWS = 500
# of the target's variance, to start from
NOISE_SHARE = 0.1
# standard deviation of the logarithms of further starts about the first: most within a factor of 20
SPREAD = 1.5
# iterations on few rows: more bring the start no nearer to the optimum of all
MOST_ITERATIONS = 30
# by how much the search changes a number for Adam: what suits few rows in float64 may be beyond float32 with all
REACH = 10.0


def parametrisation_of(
    settings: TrainingSettings,
    d: int,
    initial: Hyperparameters | None,
    transform: Transform,
    constraints: Constraints | None = None,
) -> Parametrisation:
    """Make the parametrisation of what is trained: all of a kernel, lengthscales and outputscale of a kernel by name.

    Args:
        d: the number of inputs.
        initial: whose shape a kernel of the same name keeps.
        constraints: of a kernel that is no name.
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
    """Return where a training starts that is given nothing to start from; None: at raw parameters of zero."""
    s = settings
    if isinstance(s.kernel, Kernel):
        return Hyperparameters.of(s.kernel, math.log(2) + s.noise_floor)
    if s.optimiser == "l-bfgs" or s.search_rows:
        return scales_of(objective.x, objective.y, objective.parametrisation, s.seed)
    return None


def scales_of(x: Tensor, y: Tensor, parametrisation: Parametrisation, seed: int) -> Hyperparameters:
    """Take the scales of the data for a stationary kernel: median distances, the target's mean and variance.

    The lengthscale of an input is √d times the median distance along it, one for all the median distance; that is where
    the correlation of most pairs is neither 0 nor 1.

    Args:
        x, y: (n, d) and (n,).
        seed: of the rows whose distances are taken.
    """
    generator = torch.Generator().manual_seed(int(seed))
    some = x[torch.randperm(len(x), generator=generator)[:DISTANCE_ROWS].to(x.device)].double()
    d = x.shape[1]
    along = torch.stack([_median(some[:, [k]]) for k in range(d)])
    ard = isinstance(parametrisation.kernel.hyperparameters["lengthscale"], tuple)
    lengthscale = along * math.sqrt(d) if ard else _median(some)
    variance = float(y.double().var()) or 1.0
    kernel = parametrisation.kernel.with_hyperparameters(
        {"lengthscale": tuple(lengthscale.tolist()) if ard else float(lengthscale), "outputscale": variance}
    )
    noise = max(NOISE_SHARE * variance, 2 * parametrisation.noise_floor)
    return Hyperparameters.of(kernel, noise, float(y.double().mean()))


def _median(x: Tensor) -> Tensor:
    """The median distance of different rows, 1 where all are equal; of x: (m, w)."""
    distances = torch.pdist(x)
    different = distances[distances > 0]
    return different.median() if len(different) else torch.ones((), dtype=x.dtype, device=x.device)


def optimum_of_few(
    x: Tensor, y: Tensor, parametrisation: Parametrisation, start: Hyperparameters, settings: TrainingSettings
) -> tuple[Hyperparameters, float]:
    """Move starts to the optimum of the exact likelihood of rows drawn at random, and returns the best.

    With it the work of all, in kernel entries ÷ n².

    Args:
        x, y: (n, d) and (n,).
        start: the first; the others are drawn about it.
        settings: how many rows and starts are drawn, with which seed, and for which optimiser.
    """
    generator = torch.Generator().manual_seed(int(settings.seed))
    drawn = torch.randperm(len(x), generator=generator)[: settings.search_rows].to(x.device)
    logarithmic = replace(parametrisation, transform="log")
    objective = ExactLikelihood(x[drawn], y[drawn], logarithmic)
    first = logarithmic.raw(start)
    bounds = logarithmic.bounds(first)
    if settings.optimiser == "adam":
        reach = math.log(REACH)
        near = zip(first.tolist(), logarithmic.positive.tolist(), strict=True)
        reached = [(value - reach, value + reach) if positive else (None, None) for value, positive in near]
        bounds = reached if parametrisation.constraints is None else list(map(_inner, reached, bounds))
    best, least, work = start, math.inf, 0.0
    for number in range(1 + settings.restarts):
        away = SPREAD * torch.randn(len(first), generator=generator, dtype=torch.float64) if number else 0.0
        optimiser = LBFGS(first + away, bounds)
        found, taken = _least(objective, optimiser)
        work += taken
        if found < least:
            best, least = logarithmic.hyperparameters(optimiser.raw), found
    return best, work * (len(drawn) / len(x)) ** 2


def _inner(first: Bounds, second: Bounds) -> Bounds:
    """The range that two have in common; None: no bound."""
    low, high = (
        pick(values) if (values := [each for each in pair if each is not None]) else None
        for pick, pair in zip((max, min), zip(first, second, strict=True), strict=True)
    )
    return low, high


def _least(objective: ExactLikelihood, optimiser: LBFGS) -> tuple[float, float]:
    """ℓ/m of m rows where the optimiser ends, infinite where K has no factor; and the work, ÷ m²."""
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
