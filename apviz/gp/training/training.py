"""Training: an optimiser on the marginal likelihood, step by step, recorded and resumable (paper, section 5.1)."""

from __future__ import annotations

import dataclasses
import json
import time
import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from apviz.distributed import current
from apviz.duplicates import DistinctRows
from apviz.factors import NotPositiveDefinite
from apviz.gp.training.checkpoint import fingerprint
from apviz.gp.training.objectives import Evaluation, ExactLikelihood, Objective, SolveStopped, StochasticGradient
from apviz.gp.training.optimisers import LBFGS, Adam, Move, Optimiser, Scoring
from apviz.gp.training.parametrisation import Constraints, Transform
from apviz.gp.training.settings import STEPS_OF, Step, TrainingHook, TrainingSettings
from apviz.gp.training.starts import optimum_of_few, parametrisation_of, start_of
from apviz.gp.training.state import Conditioning, TrainingState
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS, Kernel
from apviz.memory import explained
from apviz.operators import OPERATORS, native
from apviz.settings import in_full_precision, require, require_kind
from apviz.solvers import Cholesky, Hook, NotConverged, Solution, StopReason, checked_hooks
from apviz.solvers.interface import LESS_MEMORY
from apviz.solvers.serialization import to_plain
from apviz.system import KernelSystem, tensor_of
from apviz.tracing.attributes import surroundings
from apviz.tracing.schema import FAILED, FINISHED, INTERRUPTED, SETTLED, TRAINING
from apviz.tracing.training_trace import SETTLED_NATS, SETTLED_STEPS, TrainingTrace

COMPILED_ENGINE = "compiled_engine"
# products with K of a step, and steps, from which a training expects what compiling would save
PRODUCTS_OF_STEP, USUAL_STEPS = 10.0, 10


class TrainingError(RuntimeError):
    """Raised if a training step fails. The steps before it are kept.

    Examples:
        >>> import torch, apviz
        >>> class NoMemory(apviz.Hook):
        ...     def on_start(self, run):
        ...         raise MemoryError("no memory is left")
        >>> training = apviz.Training(torch.linspace(0, 1, 50), torch.zeros(50), device="cpu")
        >>> try:
        ...     training.run([NoMemory()])
        ... except apviz.TrainingError as error:
        ...     print(error)
        training step 1: no memory is left. The 0 steps before it are kept in this Training's trace and hyperparameters
    """


class Training:
    """Training of one Gaussian process: constant mean, any kernel, Gaussian noise.

    `run` takes the remaining steps; run it again to resume after an interruption. With a path, every step updates the
    trace and a checkpoint next to it (`*.zarr.checkpoint.npz`). After a kill, create the same `Training` again: it
    resumes from the last finished step, L-BFGS from the last hyperparameters; the others then give the same result.
    Only this training's own files are written, and only one training at a time runs at a path.

    Args:
        x: (n, d) inputs.
        y: (n,) targets, or (n, p) of p outputs that share all hyperparameters.
        settings: settings of the training; raise `steps` to continue a finished one.
        path: path of the trace, by convention `*.zarr`.
        initial: initial hyperparameters. None: for a kernel by name, Adam starts from raw parameters of zero, as
            GPyTorch does, and the others from the likeliest of lengthscales around median distances and shares of the
            target's variance as noise; any other kernel starts from its own values. With `search_rows`, the search for
            a start begins there.
        operator, dtype, device: as in `KernelSystem`.
        dataset: name of the data, for charts and traces.
        preparation: how the table of the data was prepared (`Dataset.preparation`), for the trace.
        constraints: trained numbers and bounds of a kernel that is not given by name.
        rows: observations that were merged into x and y (`apviz.duplicates.merged`); None: none were.

    Raises:
        FileExistsError: `path` exists and is not the trace of a training with a checkpoint.
        ValueError: the data are invalid, or the checkpoint belongs to another training; the message names the
            difference.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 50)
        >>> settings = apviz.TrainingSettings(solver=apviz.Cholesky(), steps=20)
        >>> training = apviz.Training(x, torch.sin(6 * x), settings, device="cpu")
        >>> training.run().noise < 0.2  # it falls from 0.693 towards the floor: these targets have no noise
        True
        >>> training.steps_done
        20
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        settings: TrainingSettings | None = None,
        *,
        path: str | Path | None = None,
        initial: Hyperparameters | None = None,
        operator: str = "auto",
        dtype: torch.dtype | None = None,
        device: str | torch.device = "auto",
        dataset: str = "",
        preparation: str = "",
        constraints: Constraints | None = None,
        rows: DistinctRows | None = None,
    ) -> None:
        _check(settings, initial, rows, path, operator)
        self.settings = s = settings or TrainingSettings()
        self._operator, self._dataset, self._preparation = operator, dataset, preparation
        self._constraints = constraints
        x, y = tensor_of(x, "x"), tensor_of(y, "y")
        if y.ndim not in (1, 2) or (x.ndim and len(y) != len(x)):
            raise ValueError(f"y must have shape (n,) or (n, p), one row for each row of x, got {tuple(y.shape)}")
        # this system checks the data before any work, and gives x and the device of every step
        kernel = s.kernel if isinstance(s.kernel, Kernel) else KERNELS[s.kernel]()
        system = KernelSystem(x, y, kernel, noise=1.0, operator="tiled", dtype=dtype, device=device, dataset=dataset)
        if rows is not None:
            require(len(rows.x) == system.n, "rows", f"{len(rows.x):,} rows", f"the {system.n:,} rows of x, or None")
        self._x, self._d, self._rows = system.x, system.d, rows
        self._n = system.n if rows is None else rows.n
        # use the raw inputs: in the dtype of the training, rows far from zero may become equal
        self._data = fingerprint(system.operator.given, system.given_b.squeeze(1))
        self._formula = system.operator.formula
        inputs, targets = system.operator.given, y.detach().to(self._x.device, torch.float64)
        self._objective = self._objective_of(inputs, targets, initial)
        start = initial or start_of(s, self._objective)
        raw = self._objective.parametrisation.raw(start) if start else self._objective.parametrisation.zeros()
        self._bounds = self._objective.parametrisation.bounds(raw)
        # a start computed from the data may be rounded differently on another machine
        is_computed = initial is None and start is not None and isinstance(s.kernel, str)
        self._initial = "by the data" if is_computed else raw.tolist()
        self._solver = Cholesky() if s.is_exact else s.solver
        self._unconverged = False
        self._state = TrainingState(s, self._objective, self._optimiser_at(raw), self._attributes())
        self._state.open(path, self._identity(), self._x)

    def _objective_of(self, x: Tensor, y: Tensor, initial: Hyperparameters | None) -> Objective:
        s = self.settings
        transform: Transform = "softplus" if s.optimiser == "adam" else "log"
        of = parametrisation_of(s, self._d, initial, transform, self._constraints)
        if s.is_exact:
            informs = s.optimiser == "scoring"
            return ExactLikelihood(x, y, of, dataset=self._dataset, rows=self._rows, informs=informs)
        return StochasticGradient(
            x, y, of, s, dtype=self._x.dtype, operator=self._operator, dataset=self._dataset, rows=self._rows
        )

    def _optimiser_at(self, raw: Tensor) -> Optimiser:
        s = self.settings
        if s.optimiser == "l-bfgs":
            return LBFGS(raw, self._bounds)
        if s.optimiser == "scoring":
            # with probes, twice what their error costs, see `Scoring`
            by_probes = 0.0 if s.is_exact else len(raw) / s.probes
            return Scoring(raw, self._bounds, self._n, settled=max(SETTLED_NATS / 10, by_probes))
        return Adam(raw, s.step_size, self._bounds)

    @property
    def path(self) -> Path | None:
        """Path of the trace: the given one, or a neighbouring path if another program has taken it since."""
        return self._state.files.path if self._state.files else None

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of its solves."""
        return torch.float64 if self.settings.is_exact else self._x.dtype

    @property
    def steps_done(self) -> int:
        """Number of steps done."""
        return self._state.steps_done

    @property
    def finished(self) -> bool:
        """Whether the training has ended: all steps are done, or it has settled."""
        return bool(self._state.record.attrs.get("status") == FINISHED)

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Hyperparameters after the last finished step."""
        return self._hyperparameters(self.steps_done)

    def _hyperparameters(self, steps: int) -> Hyperparameters:
        """Return the current hyperparameters, with a provenance of this number of steps."""
        how = STEPS_OF[self.settings.optimiser]
        provenance = f"{steps} {how} {self._solver.method.name} on {self._n:,} rows"
        return self._objective.parametrisation.hyperparameters(self._state.optimiser.raw, provenance)

    @property
    def trace(self) -> TrainingTrace:
        """Trace of everything so far, also of an interrupted training."""
        return TrainingTrace(self._state.record.to_trace().tree)

    @property
    def noise_settled_at(self) -> int | None:
        """First step since which σ² has settled, even if other numbers have not; None if it has not."""
        return self._state.settled_at(by_noise=True)

    @property
    def settled_at(self) -> int | None:
        """First step since which the training has settled, see `TrainingTrace.settled_at`; None if it has not."""
        return self.steps_done if self._state.record.attrs.get("stop_reason") == SETTLED else self._state.settled_at()

    def run(self, hooks: Iterable[Hook] = ()) -> Hyperparameters:
        """Run the remaining steps.

        If a solve ends at its epoch limit, its result is used, as in the paper; it is recorded as not converged, and
        a warning says so. If a hook stops a solve, the training ends before that step and can be run again.

        Args:
            hooks: hooks of every solve; a `TrainingHook` is also called after every step.

        Raises:
            FileExistsError: another training runs at the path, or has run there since this one was created.
            TrainingError: a solve diverged, a factor failed or memory is short. All steps before are kept.
        """
        with in_full_precision(with_gradients=True), self._state.locked():
            self._state.roll_back()  # again, because a second Ctrl-C may have interrupted the last rollback
            try:
                return self._run(checked_hooks(hooks))
            except BaseException:
                self._state.roll_back()
                raise

    def _uses_compiled_engine(self) -> bool:
        """Return whether solves use the compiled engine. A resumed training keeps its engine, for the same bits."""
        attrs = self._state.record.attrs
        started_with = attrs.get(COMPILED_ENGINE)
        expected = PRODUCTS_OF_STEP * min(self.settings.steps, USUAL_STEPS) * len(self._x) ** 2
        wanted = native.is_wanted(self._formula, expected) if started_with is None else started_with
        found = bool(wanted) and self._x.device.type == "cpu" and native.supports(self._formula)
        if (ranks := current()) is not None:
            found = ranks.agreed(found)
        if started_with and not found:
            warnings.warn(
                "this training started with the compiled engine, which is not available here; the result will "
                "differ by rounding; `apviz doctor` says what is missing",
                stacklevel=4,
            )
        attrs.setdefault(COMPILED_ENGINE, found)
        return found

    def _run(self, hooks: list[Hook]) -> Hyperparameters:
        s, attrs = self.settings, self._state.record.attrs
        if attrs.get("stop_reason") == SETTLED and (s.until_settled or s.optimiser != "adam"):
            return self.hyperparameters
        for how_it_ended in ("stop_reason", "stop_message"):
            attrs.pop(how_it_ended, None)
        attrs |= {"status": INTERRUPTED}
        self._started, settled = time.perf_counter(), False
        try:
            if self.steps_done < s.steps:
                self._is_compiled = self._uses_compiled_engine()
                if not self.steps_done:
                    self._search()
                settled = self._state.optimiser.run(partial(self._evaluate, hooks), partial(self._take, hooks))
        except SolveStopped as stopped:
            self._state.end(stop_message=str(stopped))
            return self.hyperparameters
        except NotPositiveDefinite as error:
            raise self._failure(error) from error
        has_settled = settled or (s.until_settled and self.settled_at is not None)
        how = {"stop_message": self._state.optimiser.message} if self._state.optimiser.message else {}
        self._state.end(status=FINISHED, stop_reason=SETTLED if has_settled else "finished", **how)
        return self.hyperparameters

    def _search(self) -> None:
        """Move the start to the optimum on a subset of the rows, if the settings ask for it."""
        s, o = self.settings, self._objective
        if not s.search_rows or (len(self._x) <= s.search_rows and not s.restarts):
            return
        start = o.parametrisation.hyperparameters(self._state.optimiser.raw)
        memory_errors = explained("the search for a start", "use fewer search_rows, or none")
        with memory_errors, native.kept(self._is_compiled):
            found, work = optimum_of_few(o, start, s)
            self._state.optimiser = self._optimiser_at(o.parametrisation.raw(found))
        now = time.perf_counter()
        self._state.record.attrs |= {"search_work": work, "search_seconds": now - self._started}
        self._started = now  # the first step starts here

    # --- one step -------------------------------------------------------------------------------------------------

    def _evaluate(self, hooks: Sequence[Hook], raw: Tensor) -> Evaluation:
        """Evaluate the objective at a raw vector. Failures raise `TrainingError`, unless a line search handles them."""
        self._conditioning = Conditioning()
        watching = [*hooks, self._conditioning] if self.settings.spectrum else hooks
        try:
            with explained("its gradient", LESS_MEMORY), native.kept(self._is_compiled):
                at = self._objective.evaluate(raw, self.steps_done + 1, watching)
        except (SolveStopped, NotPositiveDefinite):
            raise
        except (ValueError, RuntimeError, MemoryError) as error:
            raise self._failure(error) from error
        self._warn_unconverged(self.steps_done + 1, at.solution)
        return at

    def _failure(self, error: Exception) -> TrainingError:
        self._state.roll_back()
        self._state.end(stop_reason=FAILED, stop_message=" ".join(str(error).split()))
        where = self.path or "this Training's trace and hyperparameters"
        kept = f"The {self.steps_done} steps before it are kept in {where}"
        return TrainingError(f"training step {self.steps_done + 1}: {error}. {kept}")

    def _take(self, hooks: Sequence[Hook], move: Move) -> bool:
        """Record a step, call hooks, and return whether to continue."""
        s, number, now = self.settings, self.steps_done + 1, time.perf_counter()
        try:
            before, after = self._objective.parametrisation.hyperparameters(move.before), self._hyperparameters(number)
        except ValueError as error:  # overflow or underflow
            raise self._failure(
                ValueError(f"it led to invalid hyperparameters ({error}); step_size = {s.step_size:g} is too large")
            ) from error
        step = Step(
            number, before, after, float(move.at.gradient.norm()), move.at.solution, move.at.work, now - self._started,
        )  # fmt: skip
        self._state.put(step, move, self._conditioning)
        self._state.write()
        for hook in hooks:
            if isinstance(hook, TrainingHook):
                hook.on_step(step, s)
        self._started = time.perf_counter()
        # the others have their own criteria
        on_all = number >= s.steps_in_stages + SETTLED_STEPS  # few rows settle where all would still gain
        has_settled = s.until_settled and s.optimiser == "adam" and on_all and self.settled_at is not None
        return number < s.steps and not has_settled

    def _warn_unconverged(self, number: int, solution: Solution) -> None:
        within_budget = self.settings.max_epochs is not None and solution.stop_reason is StopReason.MAX_EPOCHS
        if solution.converged or within_budget or self._unconverged:
            return
        self._unconverged = True
        message = (
            f"the solve of training step {number} {solution.stop_message} (residual {solution.residual:.2e}). The step "
            "uses its gradient, and the trace marks every step whose solve did not converge"
        )
        warnings.warn(NotConverged(message, solution), stacklevel=4)

    def _identity(self) -> dict[str, Any]:
        """Return the data's hash and all settings but those that decide when to end."""
        return self.settings.identity() | {
            "data": self._data, "dtype": str(self._x.dtype), "operator": self._operator, "initial": self._initial,
            "constraints": None if self._constraints is None else dataclasses.asdict(self._constraints),
            **({} if self._rows is None else {"rows": self._rows.fingerprint()}), **self._kernel_parameters(),
        }  # fmt: skip

    def _kernel_parameters(self) -> dict[str, str]:
        """Return the shape parameters of a kernel by name as trace attributes, or nothing if it has none."""
        parameters = getattr(self._objective.parametrisation.kernel, "parameters", {})
        given_by_name = isinstance(self.settings.kernel, str)
        return {"kernel_parameters": json.dumps(dict(parameters))} if parameters and given_by_name else {}

    def _attributes(self) -> dict[str, Any]:
        s = self.settings
        return surroundings(self._x.device, self._x.dtype) | {
            "kind": TRAINING,
            "dataset": self._dataset,
            "n": self._n,
            "d": self._d,
            "kernel": s.kernel if isinstance(s.kernel, str) else s.kernel.name,
            **({"distinct_rows": len(self._x)} if len(self._x) < self._n else {}),
            **self._kernel_parameters(),
            **({"data_preparation": self._preparation} if self._preparation else {}),
            "method": self._solver.method.plain(),
            "method_name": self._solver.method.name,
            "method_details": self._solver.method.details,
            "solver_settings": json.dumps(to_plain(s.solver, strict=False)),
            "training_settings": json.dumps(s.as_plain()),
        }


def _check(settings: Any, initial: Any, rows: Any, path: str | Path | None, operator: str) -> None:
    """Check what does not depend on the data."""
    for name, given, kind, wanted in (
        ("settings", settings, TrainingSettings, "apviz.TrainingSettings"),
        ("initial", initial, Hyperparameters, "apviz.Hyperparameters"),
        ("rows", rows, DistinctRows, "apviz.duplicates.DistinctRows, or None"),
    ):
        if given is not None:
            require_kind(name, given, kind, wanted)
    if path is not None:
        require(bool(Path(path).name), "path", path, "a path with a name, such as 'fit.zarr'")
        local = not isinstance(path, str) or "://" not in path
        require(local, "path", path, "a local path, because the checkpoint is a file next to the trace")
    if isinstance(settings, TrainingSettings) and current() is not None:
        require(settings.optimiser != "scoring", "optimiser", "scoring", "adam on ranks: scoring runs in one process")
    require(operator in ("auto", *OPERATORS), "operator", operator, f"auto, {', '.join(OPERATORS)}")
    if torch.is_inference_mode_enabled():
        raise ValueError(
            "a training needs gradients, which torch.inference_mode() disables: create it outside of that mode"
        )
