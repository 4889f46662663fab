"""Training: Adam on the marginal likelihood, one batched solve a step, recorded and resumable (paper, section 5.1)."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from apviz.gp.checkpoint import TrainingFiles, fingerprint
from apviz.gp.gradient import Parametrisation, marginal_likelihood_gradient, step_system
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS
from apviz.operators import OPERATORS, CountingOperator
from apviz.settings import require, require_number, require_whole
from apviz.solvers import AlternatingProjection, Automatic, Hook, NotConverged, Solution, Solver, StopReason, attempt
from apviz.solvers.run import Run
from apviz.solvers.serialization import from_plain, to_plain
from apviz.spectrum import spectrum
from apviz.system import KernelSystem
from apviz.tracing.recorder import surroundings
from apviz.tracing.schema import FAILED, FINISHED, INTERRUPTED, STEP, TRAINING
from apviz.tracing.store import Record
from apviz.tracing.training_trace import TrainingTrace, settled_at

log = logging.getLogger("apviz")

#: the paper's solver of a training step (section 5.1), but for the batch size, which follows the memory of its GPU
PAPER_SOLVER = AlternatingProjection(tol=1.0, min_epochs=11)
# in a checkpoint: "step" is a variable of the trace, and a number of Adam's
TRACED = "trace_"


class TrainingError(RuntimeError):
    """Raised where a step could not be done; what was done before it is kept.

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


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of a training.

    Args:
        kernel: the name of one of `apviz.kernels.KERNELS`. What it has beside lengthscale and outputscale, such as the
            α of a rational quadratic, is not trained: it stays at its default, or at that of `initial`.
        solver: any solver of apviz; the paper's, tolerance 1 after at least 11 epochs, is `apviz.gp.PAPER_SOLVER`.
        steps: Adam steps.
        step_size: of Adam.
        probes: l, the probe vectors of the trace estimate.
        noise_floor: σ² stays above this.
        ard: one lengthscale per input, else one for all.
        warm_start: start every solve from the last step's weights, and keep the probes the same for it.
        spectrum: record κ and κ′ of every step, estimates for large n; under a million kernel entries a step.
        seed: of the probes.

    Raises:
        ValueError: a setting out of range, with what would be accepted.

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

    kernel: str = "matern52"
    solver: Solver = field(default_factory=Automatic)
    steps: int = 50
    step_size: float = 0.1
    probes: int = 15
    noise_floor: float = 1e-4
    ard: bool = True
    warm_start: bool = False
    spectrum: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.kernel in KERNELS, "kernel", self.kernel, f"one of {', '.join(KERNELS)}")
        require(isinstance(self.solver, Solver), "solver", self.solver, "a solver, such as apviz.Automatic()")
        require_whole("steps", self.steps, 1)
        require_number("step_size", self.step_size, 0.0, "a positive number, such as 0.1", strictly=True)
        require_whole("probes", self.probes, 1)
        require_number("noise_floor", self.noise_floor, 0.0, "a number, at least 0")
        require_whole("seed", self.seed, 0)
        for name in ("steps", "probes", "seed"):  # JSON does not know NumPy's
            object.__setattr__(self, name, int(getattr(self, name)))

    def seed_of(self, step: int) -> int:
        """Returns the seed of a step's probes; a warm start needs the right-hand sides it started from."""
        return self.seed if self.warm_start else (self.seed << 20) + step


def settings_of(trace: TrainingTrace) -> TrainingSettings:
    """Reads the settings that a training was run with.

    Raises:
        ValueError: a solver that is not apviz's own, or a setting that this version does not know.
    """
    plain = json.loads(trace.attrs["training_settings"])
    solver = from_plain(json.loads(trace.attrs["solver_settings"]))
    if solver is None:
        raise ValueError("the trace of this training names no solver")
    try:
        return TrainingSettings(solver=solver, **plain)
    except TypeError as error:
        raise ValueError(f"the settings of this training are not those of this version of apviz: {error}") from error


@dataclass(frozen=True)
class Step:
    """A finished Adam step: the hyperparameters its solve was done with, and what the solve took.

    Args:
        gradient_norm: of ℓ/n in the unconstrained parameters.
        work: of probes, solve and gradient, in kernel entries ÷ n².
        hyperparameters_after: what the step led to.
    """

    number: int
    hyperparameters: Hyperparameters
    hyperparameters_after: Hyperparameters
    gradient_norm: float
    solution: Solution
    work: float
    seconds: float


class TrainingHook(Hook):
    """Observes a training: a hook that is also told about its steps.

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
        """Called after every Adam step, when it is on disk."""


class TrainingProgress(TrainingHook):
    """Prints σ², what the solve took, and the time that is left, every few steps and after the last.

    Args:
        console: where to; None: standard error.
        every: steps between lines.

    Raises:
        ValueError: `every` below 1.

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
        self._seconds, self._steps = self._seconds + step.seconds, self._steps + 1
        if step.number % self.every and step.number != settings.steps:
            return
        left = (settings.steps - step.number) * self._seconds / self._steps
        solution = step.solution
        solved = f"{solution.epochs} epochs to residual {solution.residual:.2g}"
        unconverged = "" if solution.converged else ", not converged"
        self.console.print(
            f"{settings.solver.label}: step {step.number} of {settings.steps}, σ² = "
            f"{step.hyperparameters_after.noise:.3g}, {solved}{unconverged}, {left:.0f} s left",
            highlight=False,
        )
        if step.number == settings.steps:
            self._seconds, self._steps = 0.0, 0  # the next training begins afresh


class Training:
    """Trains one Gaussian process: constant mean, scaled kernel, Gaussian noise.

    `run` takes the steps that are left, so a training that was interrupted goes on when it is run again. With a path
    the trace is there after every step, and beside it a checkpoint (`*.zarr.checkpoint.npz`): a process that was
    killed goes on from its last finished step with the same result when the same `Training` is made again. Nothing but
    this training's own files is written to; one training at a time runs at a path.

    Args:
        x: (n, d) inputs.
        y: (n,) targets.
        settings: how to train; `steps` may be raised to go on with a finished training.
        path: the trace to write, by convention `*.zarr`.
        initial: hyperparameters to start from; None starts the raw parameters at zero, as GPyTorch does.
        operator, dtype, device: as of `KernelSystem`.
        dataset: the name of the data, for charts and traces.

    Raises:
        FileExistsError: what is at `path` is not the trace of a training with a checkpoint beside it.
        ValueError: bad data, or a checkpoint of another training; the message names what differs.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 50)
        >>> settings = apviz.TrainingSettings(solver=apviz.Cholesky(), steps=20)
        >>> training = apviz.Training(x, torch.sin(6 * x), settings, device="cpu")
        >>> training.run().noise < 0.2  # from 0.693 on its way to the floor, for these targets have no noise
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
    ) -> None:
        self.settings = s = settings or TrainingSettings()
        self._operator, self._dataset = operator, dataset
        require(operator in ("auto", *OPERATORS), "operator", operator, f"auto, {', '.join(OPERATORS)}")
        y = torch.as_tensor(y)
        if y.ndim != 1:
            raise ValueError(f"y must have shape (n,), got {tuple(y.shape)}")
        # checks the data before any work; a step's system takes x and the device from here
        system = KernelSystem(
            x, y, KERNELS[s.kernel](), noise=1.0, operator="tiled", dtype=dtype, device=device, dataset=dataset
        )
        self._x, self._y, self._n, self._d = system.x, system.b[:, 0], system.n, system.d
        # as they were given: they may be far from zero
        self._inputs, self._targets = system.operator.given, y.detach().to(self._x.device, torch.float64)
        shape = KERNELS[s.kernel]().parameters
        if initial is not None and initial.kernel == s.kernel:
            shape |= initial.kernel_parameters
        self._parametrisation = Parametrisation(s.kernel, system.d if s.ard else 1, s.noise_floor, shape)
        raw = self._parametrisation.zeros() if initial is None else self._parametrisation.raw(initial)
        self._initial = raw.tolist()
        self._raw = torch.nn.Parameter(raw)
        self._adam = torch.optim.Adam([self._raw], lr=s.step_size)
        self._weights: Tensor | None = None
        self._record = Record(self._attributes())
        self._unconverged = False
        self._files = None if path is None else TrainingFiles(Path(path), self._identity())
        found = self._files.read() if self._files else None
        if found is not None:
            self._resume(*found)

    @property
    def path(self) -> Path | None:
        """The path of the trace: as given, or beside it if somebody has taken that place since."""
        return self._files.path if self._files else None

    @property
    def steps_done(self) -> int:
        """The number of steps done."""
        return self._record.length(("step", "step"))

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The hyperparameters after the last finished step."""
        return self._hyperparameters(self.steps_done)

    def _hyperparameters(self, steps: int) -> Hyperparameters:
        """Those of now, after so many steps."""
        provenance = f"{steps} Adam steps with {self.settings.solver.label} on {self._n:,} rows"
        return self._parametrisation.hyperparameters(self._raw.detach(), provenance)

    @property
    def trace(self) -> TrainingTrace:
        """The trace of everything so far; also of a training that was interrupted."""
        return TrainingTrace(self._record.to_trace().tree)

    @property
    def noise_settled_at(self) -> int | None:
        """The step since which σ² has been settled, see `apviz.tracing.training_trace.settled_at`; or None."""
        values = self._record.values().get(("step", "noise"), np.empty(0))
        return settled_at(np.append(values, self.hyperparameters.noise))

    def run(self, hooks: Iterable[Hook] = ()) -> Hyperparameters:
        """Takes the steps that are left; `hooks` are told about every solve, a `TrainingHook` about every step too.

        A solve that ends at its cap is used, as in the paper, warned about and recorded as not converged. A hook that
        stops a solve ends the training before that step; it can be run again.

        Raises:
            FileExistsError: another training runs at its path, or has done so since this one was made.
            TrainingError: a solve diverged, a factor failed or the memory does not suffice; all steps before are kept.
        """
        if self._files is None:
            return self._run(list(hooks))
        with self._files.claimed(self._record):
            return self._run(list(hooks))

    def _run(self, hooks: list[Hook]) -> Hyperparameters:
        for how_it_ended in ("stop_reason", "stop_message"):
            self._record.attrs.pop(how_it_ended, None)
        self._record.attrs |= {"status": INTERRUPTED}
        while self.steps_done < self.settings.steps:
            number = self.steps_done + 1
            try:
                step = self._step(number, hooks)
            except (ValueError, RuntimeError, MemoryError) as error:
                self._end(stop_reason=FAILED, stop_message=" ".join(str(error).split()))
                raise TrainingError(f"training step {number}: {error}. {self._kept()}") from error
            if step is None:
                break
            self._write()
            for hook in hooks:
                if isinstance(hook, TrainingHook):
                    hook.on_step(step, self.settings)
        else:
            self._end(status=FINISHED, stop_reason="finished")
        return self.hyperparameters

    def _end(self, **how: str) -> None:
        self._record.attrs |= how
        if self.steps_done:
            self._write()

    # --- one step -------------------------------------------------------------------------------------------------

    def _step(self, number: int, hooks: list[Hook]) -> Step | None:
        """One step, recorded in memory; None where a hook stopped the solve."""
        s, started, before = self.settings, time.perf_counter(), self.hyperparameters
        built = step_system(
            self._inputs, self._targets, before, s.solver, s.probes, s.seed_of(number), operator=self._operator,
            dataset=self._dataset, dtype=self._x.dtype,
        )  # fmt: skip
        operator, watch = CountingOperator(built.system.operator), _Spectrum()
        watching = [*hooks, watch] if s.spectrum else hooks
        solution = attempt(built.system, s.solver, watching, self._weights, prepared=built.prepared)
        if solution.stop_reason is StopReason.STOPPED:
            self._end(stop_message=solution.stop_message)
            return None
        if solution.stop_reason is StopReason.DIVERGED:
            raise RuntimeError(f"the solve {solution.stop_message}")
        self._warn_unconverged(number, solution)
        gradient = marginal_likelihood_gradient(operator, solution.weights.to(self._x), built.probes.dual)
        direction = self._parametrisation.chain(self._raw.detach(), gradient) / self._n
        if not torch.isfinite(direction).all():
            raise RuntimeError("the gradient is not finite; use a larger noise_floor, or float64 where it is not")
        self._raw.grad = direction
        self._adam.step()
        self._weights = solution.weights if s.warm_start else None
        step = Step(
            number, before, self._hyperparameters(number), float(direction.norm()), solution,
            solution.work + operator.work, time.perf_counter() - started,
        )  # fmt: skip
        self._put(step, watch)
        return step

    def _put(self, step: Step, watch: _Spectrum) -> None:
        h, solution = step.hyperparameters, step.solution
        self._record.variable_attrs["step", "kappa"] = {"is_estimate": watch.estimated}
        self._record.put(
            step={
                "step": [step.number],
                "noise": [h.noise],
                "outputscale": [h.outputscale],
                "mean": [h.mean],
                "lengthscale": [h.lengthscale],
                "gradient_norm": [step.gradient_norm],
                "epochs": [solution.epochs],
                "work": [step.work],
                "seconds": [step.seconds],
                "residual": [solution.residual],
                "converged": [solution.converged],
                "kappa": [watch.kappa],
                "kappa_prime": [watch.kappa_prime],
            }
        )
        after = step.hyperparameters_after
        self._record.attrs["hyperparameters"] = json.dumps(after.as_plain())
        if solution.stop_reason is StopReason.STAGNATED:
            self._record.attrs["stagnated_steps"] = self._record.attrs.get("stagnated_steps", 0) + 1
        settled = self.noise_settled_at
        if settled == step.number:
            log.info("σ² = %.3g has settled at step %d", after.noise, settled)

    def _warn_unconverged(self, number: int, solution: Solution) -> None:
        if solution.converged or self._unconverged:
            return
        self._unconverged = True
        message = (
            f"training step {number}: {solution.stop_message} (residual {solution.residual:.2e}); the step is taken "
            "with the gradient it gives, and the trace marks every step whose solve did not converge"
        )
        warnings.warn(NotConverged(message, solution), stacklevel=4)

    # --- what is kept ---------------------------------------------------------------------------------------------

    def _kept(self) -> str:
        where = self.path or "this Training's trace and hyperparameters"
        return f"The {self.steps_done} steps before it are kept in {where}"

    def _resume(self, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
        """The state at the last finished step; the trace is written on from it."""
        steps = {name: arrays.pop(f"{TRACED}{name}") for name in STEP}
        self._raw.data = torch.from_numpy(arrays.pop("raw"))
        weights = arrays.pop("weights")
        self._weights = torch.from_numpy(weights).to(self._x) if weights.size else None
        self._adam.state[self._raw] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        self._record.attrs = attributes | {"training_settings": self._record.attrs["training_settings"]}
        self._record.put(step=steps)

    def _write(self) -> None:
        if self._files is None:
            return
        arrays = {f"{TRACED}{name}": value for (_, name), value in self._record.values().items()}
        arrays |= {name: value.numpy() for name, value in self._adam.state[self._raw].items()}
        arrays["raw"] = self._raw.detach().numpy()
        arrays["weights"] = np.empty(0) if self._weights is None else self._weights.cpu().numpy()
        self._files.write(arrays, self._record.attrs)

    def _identity(self) -> dict[str, Any]:
        """All settings but the number of steps, and the data."""
        settings = {field.name: getattr(self.settings, field.name) for field in dataclasses.fields(self.settings)}
        del settings["steps"]
        settings["solver"] = repr(self.settings.solver)
        return settings | {
            "data": fingerprint(self._x, self._y), "dtype": str(self._x.dtype), "operator": self._operator,
            "initial": self._initial, **self._kernel_parameters(),
        }  # fmt: skip

    def _kernel_parameters(self) -> dict[str, str]:
        """Of the kernel's shape, as traces have them; nothing where there are none."""
        parameters = self._parametrisation.kernel_parameters
        return {"kernel_parameters": json.dumps(dict(parameters))} if parameters else {}

    def _attributes(self) -> dict[str, Any]:
        s = self.settings
        return surroundings(self._x.device, self._x.dtype) | {
            "kind": TRAINING,
            "dataset": self._dataset,
            "n": self._n,
            "d": self._d,
            "kernel": s.kernel,
            **self._kernel_parameters(),
            "method": s.solver.method.plain(),
            "label": s.solver.label,
            "solver_settings": json.dumps(to_plain(s.solver, strict=False)),
            "training_settings": json.dumps(
                {name: value for name, value in dataclasses.asdict(s).items() if name != "solver"}
            ),
        }


class _Spectrum(Hook):
    """κ and κ′ of the solve that starts; its time is not the solve's."""

    def __init__(self) -> None:
        self.kappa = self.kappa_prime = math.nan
        self.estimated = True

    def on_start(self, run: Run) -> None:
        with run.clock.pause():
            found = spectrum(run.system, run.factors.matrices() if run.factors else ())
        self.kappa, self.kappa_prime = found.kappa.value, found.kappa_prime.value
        self.estimated = found.kappa.is_estimate
