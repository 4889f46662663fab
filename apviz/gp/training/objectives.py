"""Objectives of a training: ℓ/n and its gradient in raw parameters, from probes and a solve, or exact by a factor."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from apviz.duplicates import DistinctRows, merged
from apviz.factors import NotPositiveDefinite
from apviz.gp.training.gradient import Gradient, marginal_likelihood_gradient, step_system
from apviz.gp.training.information import average_information
from apviz.gp.training.likelihood import exact_marginal_likelihood
from apviz.gp.training.parametrisation import Parametrisation
from apviz.gp.training.settings import TrainingSettings
from apviz.hyperparameters import Hyperparameters
from apviz.operators import DENSE_MAX_N, CountingOperator
from apviz.solvers import Cholesky, Hook, Prepared, Solution, StopReason, attempt
from apviz.solvers.run import Run


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The objective ℓ/n at a raw vector.

    Args:
        gradient: (2 + p,) float64, in the raw parameters.
        value: in nats a row; NaN if only the gradient is known.
        solution: result of the solve, or of the last of several.
        work: total work, in kernel entries ÷ n².
        evaluations: number of evaluations.
        information: (2 + p, 2 + p) float64, curvature of the objective in the raw parameters; None: not asked for.
        rows: number of rows of the evaluation.
    """

    gradient: Tensor
    value: float
    solution: Solution
    work: float
    evaluations: int = 1
    information: Tensor | None = None
    rows: int = 0


class SolveStopped(Exception):
    """Raised if a hook stops a solve, which ends the training before this step."""


class _LookAtRun(Hook):
    """A look at the run of a solve: its set-up, and whether a hook requested a stop, which a direct solve ignores."""

    def on_start(self, run: Run) -> None:
        self._run = run

    @property
    def prepared(self) -> Prepared:
        """The solver's set-up."""
        return self._run.prepared

    @cached_property
    def operator(self) -> CountingOperator:
        """The operator of the system, with a count of its own."""
        return CountingOperator(self._run.system.operator)

    def check(self, solution: Solution) -> None:
        """Raise if the solve was stopped or diverged."""
        if solution.stop_reason is StopReason.STOPPED:
            raise SolveStopped(solution.stop_message)
        if self._run.must_stop:
            raise SolveStopped(f"stopped: {self._run.stop_requested}")
        if solution.stop_reason is StopReason.DIVERGED:
            raise RuntimeError(f"the solve {solution.stop_message}")


class Objective(ABC):
    """The function ℓ/n of the raw parameters, for given data.

    Args:
        x, y: (n, d) inputs in their own dtype, and (n,) targets in float64, or (n, p), whose ℓ are added.
        parametrisation: maps raw vectors to hyperparameters.
        rows: observations that were merged into x and y, on the CPU; None: none were. Then n counts all of them.
    """

    #: (n, l+1) initial weights of the next solve, kept for warm starts and in checkpoints
    weights: Tensor | None = None

    def __init__(
        self, x: Tensor, y: Tensor, parametrisation: Parametrisation, rows: DistinctRows | None = None
    ) -> None:
        self.x, self.y, self.parametrisation = x, y, parametrisation
        self.rows = rows or merged(x, y, groups=torch.arange(len(x)))

    @abstractmethod
    def evaluate(self, raw: Tensor, step: int, hooks: Sequence[Hook] = ()) -> Evaluation:
        """Evaluate the objective at a raw vector, with the probes and rows of a step.

        Raises:
            SolveStopped: a hook stopped the solve.
            RuntimeError: the solve diverged, or the gradient is not finite.
        """

    def _chained(self, raw: Tensor, gradient: Gradient) -> Tensor:
        """Return the gradient of ℓ/n in the raw parameters."""
        found = self.parametrisation.chain(raw, gradient) / self.rows.n
        if not torch.isfinite(found).all():
            raise RuntimeError("the gradient is not finite; use a larger noise_floor, or float64")
        return found


class StochasticGradient(Objective):
    """A gradient estimate from one batched solve for the targets and l probes (paper, section 2), without a value."""

    def __init__(
        self, x: Tensor, y: Tensor, parametrisation: Parametrisation, settings: TrainingSettings, *,
        dtype: torch.dtype, operator: str, dataset: str, rows: DistinctRows | None = None,
    ) -> None:  # fmt: skip
        super().__init__(x, y, parametrisation, rows)
        self.settings, self.dtype, self.operator, self.dataset = settings, dtype, operator, dataset

    def evaluate(self, raw: Tensor, step: int, hooks: Sequence[Hook] = ()) -> Evaluation:
        s, h = self.settings, self.parametrisation.hyperparameters(raw)
        solver, chosen = s.solver_of_step, s.rows_of(step, len(self.x))
        x, y, rows = self.x, self.y, self.rows
        if chosen is not None:
            x, y, rows = x[chosen.to(x.device)], y[chosen.to(x.device)], rows.of(chosen)
        # use the engine of the full data on a subset too, so that it compiles only once
        as_all = chosen is not None and self.operator == "auto" and len(self.x) > DENSE_MAX_N
        built = step_system(
            x, y, h, solver, s.probes, s.seed_of(step), operator="tiled" if as_all else self.operator,
            dataset=self.dataset, dtype=self.dtype, estimator=s.estimator, noises=rows.noises(h.noise),
        )  # fmt: skip
        operator = CountingOperator(built.system.operator)
        same_rows = self.weights is not None and len(self.weights) == len(x)
        look, start = _LookAtRun(), self.weights if same_rows else None
        solution = attempt(built.system, solver, [*hooks, look], start, prepared=built.prepared)
        look.check(solution)
        weights = solution.weights.to(operator.x)
        gradient = marginal_likelihood_gradient(operator, weights, built.probes.dual_of(weights))
        information, more = None, 0.0
        if s.optimiser == "scoring":
            outputs = weights[:, : weights.shape[1] - s.probes].contiguous()
            information, more = average_information(
                operator, outputs, raw, self.parametrisation, solver, rows, look.prepared
            )
            information /= rows.n
        self.weights = solution.weights if s.keeps_probes else None
        work = (solution.work + operator.work + more) * (len(x) / len(self.x)) ** 2
        return Evaluation(
            self._chained(raw, gradient.of_all(rows, h.noise)) * (self.rows.n / rows.n), math.nan, solution, work,
            information=information, rows=rows.n,
        )  # fmt: skip


class ExactLikelihood(Objective):
    """Exact value and gradient by a Cholesky factor of K in float64; with `informs`, the average information too."""

    def __init__(
        self, x: Tensor, y: Tensor, parametrisation: Parametrisation, *, dataset: str = "",
        rows: DistinctRows | None = None, informs: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(x, y, parametrisation, rows)
        self.dataset, self.informs = dataset, informs

    def evaluate(self, raw: Tensor, step: int, hooks: Sequence[Hook] = ()) -> Evaluation:
        h, look = self.parametrisation.hyperparameters(raw), _LookAtRun()
        found = exact_marginal_likelihood(
            self.x, self.y, h, noises=self.rows.noises(h.noise), hooks=[*hooks, look], dataset=self.dataset
        ).of_all(self.rows, h.noise)
        look.check(found.solution)
        assert found.gradient is not None  # it was requested
        information, more = None, 0.0
        if self.informs:
            weights = found.solution.weights.reshape(len(self.x), -1)
            information, more = average_information(
                look.operator, weights, raw, self.parametrisation, Cholesky(), self.rows, look.prepared
            )
            information /= self.rows.n
            more += look.operator.work
        return Evaluation(
            self._chained(raw, found.gradient), -found.value / self.rows.n, found.solution, found.work + more,
            information=information, rows=self.rows.n,
        )  # fmt: skip

    def value(self, h: Hyperparameters) -> float:
        """Return ℓ/n at hyperparameters, in nats a row; infinity if K has no factor."""
        try:
            found = exact_marginal_likelihood(
                self.x, self.y, h, noises=self.rows.noises(h.noise), with_gradient=False, dataset=self.dataset
            )
        except (NotPositiveDefinite, RuntimeError):
            return math.inf
        return -found.of_all(self.rows, h.noise).value / self.rows.n
