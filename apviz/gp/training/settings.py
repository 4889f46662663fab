"""Settings of a training, the record of a finished step, and hooks that observe steps."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from rich.console import Console
from torch import Tensor

from apviz.gp.training.gradient import ESTIMATORS, Estimator
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS, Kernel, from_plain, to_plain
from apviz.settings import require, require_number, require_seed, require_whole
from apviz.solvers import AlternatingProjection, Automatic, Hook, Solution, Solver
from apviz.solvers.serialization import from_plain as solver_from_plain
from apviz.tracing.trace import foreign_kernel
from apviz.tracing.training_trace import TrainingTrace

#: the paper's solver of a training step (section 5.1), except the batch size, which depends on its GPU's memory
PAPER_SOLVER = AlternatingProjection(tol=1.0, min_epochs=11)
OptimiserName = Literal["adam", "scoring", "l-bfgs"]
OPTIMISERS = ("adam", "scoring", "l-bfgs")
#: the steps of an optimiser, in the provenance of hyperparameters
STEPS_OF = {"adam": "Adam steps with", "scoring": "scoring steps with", "l-bfgs": "iterations of L-BFGS with"}


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of a training.

    Args:
        kernel: the name of one of `apviz.kernels.KERNELS`, or a kernel, such as
            `2.0 * apviz.Matern52().on([0, 1]) + apviz.Periodic().on(2)`. All numbers of a kernel are trained, starting
            from their values. For a name, lengthscales and outputscale are trained; shape parameters, such as the α of
            a rational quadratic, keep their default or the value of `initial`.
        solver: any solver of apviz; the paper's, tolerance 1 after at least 11 epochs, is `apviz.gp.PAPER_SOLVER`.
        steps: number of steps; with `until_settled`, the largest number.
        step_size: step size of Adam.
        probes: l, the number of probe vectors of the trace estimate.
        noise_floor: σ² stays above this.
        ard: for a kernel by name: one lengthscale per input, else one for all.
        warm_start: start every solve from the last step's weights, which also keeps the probes fixed. Scoring does so.
        spectrum: record κ and κ′ of every step, as estimates for large n; under a million kernel entries a step.
        seed: seed of the probes and of the random starts.
        optimiser: `adam` for any number of rows, with gradients from probes and one solve a step; `scoring`, Newton
            steps with the same gradients and the average information of the likelihood, at a second solve a step for
            as many right-hand sides as hyperparameters: far fewer steps, for kernels with smooth likelihoods; or
            `l-bfgs` (SciPy's L-BFGS-B) on the marginal likelihood, with a Cholesky factor in float64 whatever the
            dtype. A step is then an iteration of one or a few factorisations, and solver and probes are ignored.
        until_settled: end before `steps` once the training has settled: Adam as defined in
            `apviz.tracing.training_trace.settled_at`; scoring and L-BFGS by their own criteria, whatever this is.
        search_rows: with more rows than this, first optimise the start by L-BFGS on the exact likelihood of this number
            of random rows; 0: no search. No step includes its work; the trace has it as `search_work`.
        restarts: number of further random starts of this search; the one with the largest likelihood is used.
        estimator: estimator of the trace: `standard`, with probes from the law that suits the solver, or `pathwise`,
            with samples of the prior (Lin et al., NeurIPS 2024), whose solutions are samples of the posterior; or
            `exact`, by a Cholesky factor of K in float64 whatever the dtype, as L-BFGS has it: O(n³) a step, and
            solver and probes are ignored.
        max_epochs: largest number of epochs or iterations in the solve of a step, converged or not. The trace records
            the residual; nothing warns. None: the solver's own limit, with a warning if a step reaches it.
        stages: pairs of a share of the rows, drawn once at random, and a number of first steps on it, as in
            ((0.25, 40), (0.5, 20)). Later steps use all rows. A step on half of the rows is a quarter of the work.

    Raises:
        ValueError: a setting is out of range; the message says what is accepted.

    Examples:
        >>> import apviz
        >>> settings = apviz.TrainingSettings(solver=apviz.Automatic(), steps=20, probes=4)
        >>> settings.kernel, settings.steps
        ('matern52', 20)
        >>> apviz.TrainingSettings(steps=0)
        Traceback (most recent call last):
            ...
        ValueError: steps must be a whole number, at least 1, got 0
    """

    kernel: str | Kernel = "matern52"
    solver: Solver = field(default_factory=Automatic)
    steps: int = 50
    step_size: float = 0.1
    probes: int = 15
    noise_floor: float = 1e-4
    ard: bool = True
    warm_start: bool = False
    spectrum: bool = False
    seed: int = 0
    optimiser: OptimiserName = "adam"
    until_settled: bool = False
    search_rows: int = 0
    restarts: int = 0
    estimator: Estimator = "standard"
    max_epochs: int | None = None
    stages: tuple[tuple[float, int], ...] = ()

    def __post_init__(self) -> None:
        known = isinstance(self.kernel, Kernel) or (isinstance(self.kernel, str) and self.kernel in KERNELS)
        require(known, "kernel", self.kernel, f"one of {', '.join(KERNELS)}, or a kernel such as apviz.Matern52()")
        require(isinstance(self.solver, Solver), "solver", self.solver, "a solver, such as apviz.Automatic()")
        require_whole("steps", self.steps, 1)
        require_number("step_size", self.step_size, 0.0, "a positive number, such as 0.1", strictly=True)
        require_whole("probes", self.probes, 1)
        require_number("noise_floor", self.noise_floor, 0.0, "a number, at least 0")
        require_seed(self.seed)
        accepted = f"one of {', '.join(OPTIMISERS)}"
        require(self.optimiser in OPTIMISERS, "optimiser", self.optimiser, accepted)
        require_whole("search_rows", self.search_rows, 0)
        require_whole("restarts", self.restarts, 0)
        require(
            not self.restarts or self.search_rows > 0, "search_rows", self.search_rows,
            "a positive number of rows, such as 500, on which restarts are compared",
        )  # fmt: skip
        require(self.estimator in ESTIMATORS, "estimator", self.estimator, f"one of {', '.join(ESTIMATORS)}")
        if self.max_epochs is not None:
            require_whole("max_epochs", self.max_epochs, 1)
            object.__setattr__(self, "max_epochs", int(self.max_epochs))
            _ = self.solver_of_step  # raises for a budget below the solver's `min_epochs`
        object.__setattr__(self, "stages", checked_stages(self.stages))
        require(not (self.stages and self.is_exact), "stages", self.stages, "(), because exact steps use all rows")
        require_steps_beyond(self.stages, "steps", self.steps)
        for name in ("steps", "probes", "seed", "search_rows", "restarts"):  # JSON does not know NumPy's
            object.__setattr__(self, name, int(getattr(self, name)))

    @property
    def is_exact(self) -> bool:
        """Whether steps have the exact likelihood and gradient, by a Cholesky factor of K."""
        return self.optimiser == "l-bfgs" or self.estimator == "exact"

    def with_less_work(self) -> TrainingSettings:
        """Return settings with the same number of steps but less work: most steps on few rows, one epoch a solve.

        Four steps in seven are on a quarter of the rows and two on half of them. If the solver has a minimum number of
        epochs, that is the budget. `python -m benchmarks.training` measures what they gain and cost.

        Raises:
            ValueError: its steps are exact, which use all rows.

        Examples:
            >>> import apviz
            >>> settings = apviz.TrainingSettings(steps=70).with_less_work()
            >>> settings.stages, settings.max_epochs
            (((0.25, 40), (0.5, 20)), 1)
        """
        counts = ((0.25, self.steps * 4 // 7), (0.5, self.steps * 2 // 7))
        stages = tuple(stage for stage in counts if stage[1])
        budget = max(1, getattr(self.solver, "min_epochs", 0))
        return dataclasses.replace(self, stages=stages, max_epochs=budget)

    @property
    def steps_in_stages(self) -> int:
        """Number of first steps on a share of the rows."""
        return sum(count for _, count in self.stages)

    def rows_of(self, step: int, n: int) -> Tensor | None:
        """Return the rows of a step out of n, (m,) int64; None: all rows. A larger share contains the smaller ones."""
        for share, count in self.stages:
            if step <= count:
                order = torch.randperm(n, generator=torch.Generator().manual_seed(int(self.seed)))
                return order[: max(2, round(share * n))]
            step -= count
        return None

    @property
    def keeps_probes(self) -> bool:
        """Whether all steps share their probes, and a solve starts from the last step's weights."""
        return self.warm_start or self.optimiser == "scoring"

    def seed_of(self, step: int) -> int:
        """Return the seed of a step's probes."""
        return self.seed if self.keeps_probes else (self.seed << 20) + step

    @property
    def solver_of_step(self) -> Solver:
        """Solver of a step, with its epoch limit lowered to `max_epochs` if that is set."""
        cap = getattr(self.solver, "max_epochs", None)
        if self.max_epochs is None or cap is None or cap <= self.max_epochs:
            return self.solver
        return dataclasses.replace(self.solver, max_epochs=self.max_epochs)  # type: ignore[call-arg]

    def as_plain(self) -> dict[str, Any]:
        """Return all settings but the solver by name, as JSON values."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "solver"}
        if isinstance(self.kernel, Kernel):
            values["kernel"] = kernel_as_plain(self.kernel)
        return values

    def identity(self) -> dict[str, Any]:
        """Return the settings that must match for a training to resume: all but those that decide when to end."""
        values = self.as_plain() | {"solver": repr(self.solver)}
        return {name: value for name, value in values.items() if name not in ("steps", "until_settled")}


def checked_stages(stages: Any) -> tuple[tuple[float, int], ...]:
    """Return the stages of a training as tuples of a share of the rows and a number of steps. JSON gives lists.

    Raises:
        ValueError: the stages are anything else.
    """
    accepted = "pairs of a share of the rows, below 1, and a number of steps, as ((0.25, 40), (0.5, 20))"
    try:
        pairs = tuple((float(share), int(count)) for share, count in stages)
        fit = all(0.0 < share < 1.0 and count >= 1 for share, count in pairs)
        fit = fit and all(count == int(count) for _, count in stages)
    except (TypeError, ValueError, OverflowError):
        pairs, fit = (), False
    require(fit, "stages", stages, accepted)
    return pairs


def require_steps_beyond(stages: tuple[tuple[float, int], ...], setting: str, steps: int) -> None:
    """Check that a setting allows more steps than the stages take, so that some use all rows."""
    taken = sum(count for _, count in stages)
    require(not stages or steps > taken, setting, steps, f"more than the {taken} steps of the stages")


def kernel_as_plain(kernel: Kernel) -> dict[str, Any] | str:
    """Return a kernel as JSON values, or its repr, for people to read, if its class is not apviz's."""
    try:
        return to_plain(kernel)
    except ValueError:
        return repr(kernel)


def settings_of(trace: TrainingTrace) -> TrainingSettings:
    """Read the settings of a training from its trace."""
    plain = json.loads(trace.attrs["training_settings"])
    solver = solver_from_plain(json.loads(trace.attrs["solver_settings"]))
    if solver is None:
        raise ValueError("the trace of this training names no solver")
    if isinstance(plain.get("kernel"), dict):
        plain["kernel"] = from_plain(plain["kernel"])
    elif plain.get("kernel", "matern52") not in KERNELS:
        raise foreign_kernel(plain["kernel"])
    try:
        return TrainingSettings(solver=solver, **plain)
    except TypeError as error:
        raise ValueError(f"this version of apviz does not know the settings of this training: {error}") from error


@dataclass(frozen=True)
class Step:
    """A finished training step.

    Args:
        hyperparameters: hyperparameters of its solve.
        hyperparameters_after: hyperparameters after the step.
        gradient_norm: norm of the gradient of ℓ/n in the unconstrained parameters.
        solution: result of the solve.
        work: work of probes, solves and gradients, in kernel entries ÷ n².
    """

    number: int
    hyperparameters: Hyperparameters
    hyperparameters_after: Hyperparameters
    gradient_norm: float
    solution: Solution
    work: float
    seconds: float


class TrainingHook(Hook):
    """A hook that is also called after every step of a training.

    Examples:
        >>> import torch, apviz
        >>> class Steps(apviz.TrainingHook):
        ...     def on_step(self, step, settings):
        ...         print(f"step {step.number} of {settings.steps}")
        >>> x = torch.linspace(0, 1, 50)
        >>> training = apviz.Training(x, torch.sin(6 * x), apviz.TrainingSettings(steps=2), device="cpu")
        >>> h = training.run([Steps()])
        step 1 of 2
        step 2 of 2
    """

    def on_step(self, step: Step, settings: TrainingSettings) -> None:
        """Observe a step, after it is written to disk."""


class TrainingProgress(TrainingHook):
    """A hook that prints σ², the cost of the solve and the remaining time, every few steps and after the last.

    Args:
        console: console to print to; None: standard error.
        every: number of steps between lines.

    Raises:
        ValueError: `every` is below 1.

    Examples:
        >>> import io, rich.console, torch, apviz
        >>> shown, x = io.StringIO(), torch.linspace(0, 1, 50)
        >>> progress = apviz.TrainingProgress(rich.console.Console(file=shown, width=200), every=1)
        >>> training = apviz.Training(x, torch.sin(6 * x), apviz.TrainingSettings(steps=2), device="cpu")
        >>> h = training.run([progress])
        >>> [": step " in line for line in shown.getvalue().splitlines()]
        [True, True]
    """

    def __init__(self, console: Console | None = None, every: int = 10) -> None:
        require_whole("every", every, 1)
        self.console, self.every = console or Console(stderr=True), every
        self._seconds, self._steps = 0.0, 0

    def on_step(self, step: Step, settings: TrainingSettings) -> None:
        if step.number == 1:
            self._seconds, self._steps = 0.0, 0  # of the training before
        self._seconds, self._steps = self._seconds + step.seconds, self._steps + 1
        if step.number % self.every and step.number != settings.steps:
            return
        left = (settings.steps - step.number) * self._seconds / self._steps
        solution = step.solution
        solved = f"{solution.epochs} epochs to residual {solution.residual:.2g}"
        unconverged = "" if solution.converged else ", not converged"
        label = settings.solver.method.name
        if settings.is_exact:
            label = "L-BFGS" if settings.optimiser == "l-bfgs" else "Cholesky"
        most = "at most " if settings.until_settled else ""
        self.console.print(
            f"{label}: step {step.number} of {most}{settings.steps}, σ² = "
            f"{step.hyperparameters_after.noise:.3g}, {solved}{unconverged}, {most}{left:.0f} s left",
            highlight=False,
        )
