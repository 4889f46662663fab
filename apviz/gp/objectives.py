"""What a training minimises: ℓ/n and its gradient at raw parameters, by probes and a solve, or exactly by a factor."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.gp.gradient import Gradient, marginal_likelihood_gradient, step_system
from apviz.gp.likelihood import exact_marginal_likelihood
from apviz.gp.parametrisation import Parametrisation, Transform
from apviz.gp.training_settings import TrainingSettings
from apviz.operators import DENSE_MAX_N, CountingOperator
from apviz.solvers import Hook, Solution, StopReason, attempt
from apviz.solvers.run import Run


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What is known of ℓ/n at a raw vector.

    Args:
        gradient: (2 + p,) float64, in the raw parameters.
        value: in nats a row; NaN where the gradient alone is known.
        solution: of the solve, or of the last of several.
        evaluations: how many of these there were.
        work: of all, in kernel entries ÷ n².
    """

    gradient: Tensor
    value: float
    solution: Solution
    work: float
    evaluations: int = 1


class SolveStopped(Exception):
    """Raised where a hook has asked a solve to stop, which ends the training before this step."""


class _Asked(Hook):
    """Whether a hook has asked the solve to stop, which a direct solve that is done by then does not say."""

    def on_start(self, run: Run) -> None:
        self._run = run

    def check(self, solution: Solution) -> None:
        """Raises where the solve was stopped, or diverged."""
        if solution.stop_reason is StopReason.STOPPED:
            raise SolveStopped(solution.stop_message)
        if self._run.must_stop:
            raise SolveStopped("stopped: a hook asked for it")
        if solution.stop_reason is StopReason.DIVERGED:
            raise RuntimeError(f"the solve {solution.stop_message}")


class Objective(ABC):
    """ℓ/n as a function of the raw parameters, for given data.

    Args:
        x, y: (n, d) inputs as they were given, and (n,) targets in float64.
        parametrisation: of the raw vector.
    """

    #: of the positive numbers, which the optimiser works best with
    transform: Transform
    #: (n, l+1) to start the next solve from, where a training keeps them; a checkpoint has them
    weights: Tensor | None = None

    def __init__(self, x: Tensor, y: Tensor, parametrisation: Parametrisation) -> None:
        self.x, self.y, self.parametrisation = x, y, parametrisation

    @abstractmethod
    def evaluate(self, raw: Tensor, step: int, hooks: Sequence[Hook] = ()) -> Evaluation:
        """Evaluates at a raw vector, in a step of this number; hooks are told of the solve.

        Raises:
            SolveStopped: a hook has stopped the solve.
            RuntimeError: the solve diverged, or the gradient is not finite.
        """

    def _chained(self, raw: Tensor, gradient: Gradient) -> Tensor:
        """The gradient of ℓ/n in the raw parameters."""
        found = self.parametrisation.chain(raw, gradient) / len(self.x)
        if not torch.isfinite(found).all():
            raise RuntimeError("the gradient is not finite; use a larger noise_floor, or float64 where it is not")
        return found


class StochasticGradient(Objective):
    """The gradient by one batched solve for the targets and l probes (paper, section 2); the value is not known.

    Args:
        settings: solver, probes, seed, and whether solves start from the last one's weights.
        dtype, operator, dataset: of the systems.
    """

    transform = "softplus"

    def __init__(
        self, x: Tensor, y: Tensor, parametrisation: Parametrisation, settings: TrainingSettings, *,
        dtype: torch.dtype, operator: str, dataset: str,
    ) -> None:  # fmt: skip
        super().__init__(x, y, parametrisation)
        self.settings, self.dtype, self.operator, self.dataset = settings, dtype, operator, dataset

    def evaluate(self, raw: Tensor, step: int, hooks: Sequence[Hook] = ()) -> Evaluation:
        s, h = self.settings, self.parametrisation.hyperparameters(raw)
        solver, rows = s.solver_of_step, s.rows_of(step, len(self.x))
        x, y = (self.x, self.y) if rows is None else (self.x[rows.to(self.x.device)], self.y[rows.to(self.x.device)])
        # the engine that all rows will have; where it compiles, that is done once
        as_all = rows is not None and self.operator == "auto" and len(self.x) > DENSE_MAX_N
        built = step_system(
            x, y, h, solver, s.probes, s.seed_of(step), operator="tiled" if as_all else self.operator,
            dataset=self.dataset, dtype=self.dtype, estimator=s.estimator,
        )  # fmt: skip
        operator = CountingOperator(built.system.operator)
        of_these_rows = self.weights is not None and len(self.weights) == len(x)
        asked, start = _Asked(), self.weights if of_these_rows else None
        solution = attempt(built.system, solver, [*hooks, asked], start, prepared=built.prepared)
        asked.check(solution)
        weights = solution.weights.to(operator.x)
        gradient = marginal_likelihood_gradient(operator, weights, built.probes.dual_of(weights))
        self.weights = solution.weights if s.warm_start else None
        share = len(x) / len(self.x)
        work = (solution.work + operator.work) * share**2
        return Evaluation(self._chained(raw, gradient) / share, math.nan, solution, work)


class ExactLikelihood(Objective):
    """Value and gradient by a Cholesky factor of K in float64.

    Args:
        dataset: of the systems.
    """

    transform = "log"

    def __init__(self, x: Tensor, y: Tensor, parametrisation: Parametrisation, *, dataset: str = "") -> None:
        super().__init__(x, y, parametrisation)
        self.dataset = dataset

    def evaluate(self, raw: Tensor, step: int, hooks: Sequence[Hook] = ()) -> Evaluation:
        h, asked = self.parametrisation.hyperparameters(raw), _Asked()
        found = exact_marginal_likelihood(self.x, self.y, h, hooks=[*hooks, asked], dataset=self.dataset)
        asked.check(found.solution)
        assert found.gradient is not None  # it was asked for
        return Evaluation(self._chained(raw, found.gradient), -found.value / len(self.x), found.solution, found.work)
