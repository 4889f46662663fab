"""The state of a training: the steps in its trace, its checkpoint, and what the next step starts from."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apviz.distributed import current, records
from apviz.gp.training.checkpoint import TrainingFiles
from apviz.gp.training.objectives import Objective
from apviz.gp.training.optimisers import Move, Optimiser
from apviz.gp.training.settings import Step, TrainingSettings, kernel_as_plain
from apviz.kernels import Kernel
from apviz.solvers import Hook, StopReason
from apviz.solvers.run import Run
from apviz.spectrum import spectrum
from apviz.tracing.schema import STEP
from apviz.tracing.store import Record
from apviz.tracing.training_trace import settled_at

log = logging.getLogger("apviz")

# prefix of the trace's variables in a checkpoint; "step" is also an array of Adam
TRACED = "trace_"
KAPPA_IS_ESTIMATE = "kappa_is_estimate"
#: root attributes of the trace that every step changes
OF_STEPS = ("work", "seconds", "hyperparameters", "stagnated_steps")


class TrainingState:
    """The steps of a training so far, and the optimiser and the objective from which the next one starts.

    After an interruption at any line, `roll_back` restores the last finished step.

    Args:
        settings, objective, optimiser: those of the training.
        attributes: root attributes of the trace.

    Attributes:
        record: the trace in memory.
        files: the trace and the checkpoint on disk; None: there are none.
    """

    def __init__(
        self, settings: TrainingSettings, objective: Objective, optimiser: Optimiser, attributes: dict[str, Any]
    ) -> None:
        self.settings, self.objective, self.optimiser = settings, objective, optimiser
        self.record = Record(attributes)
        if isinstance(settings.kernel, Kernel):
            self.record.variable_attrs["step", "kernel_number"] = {"names": list(settings.kernel.numbers)}
        self.files: TrainingFiles | None = None

    def open(self, path: str | Path | None, identity: dict[str, Any], like: Tensor) -> None:
        """Resume from the files of a path, if there are any, and write there; None: stay in memory.

        Args:
            identity: data and settings that must match.
            like: a tensor in the dtype and on the device of the solves.
        """
        self.files = None if path is None or not records() else TrainingFiles(Path(path), identity)
        found = self.files.read() if self.files else None
        if path is not None and (ranks := current()) is not None:
            found = ranks.agreed(found)  # rank 0 has the files
        if found is not None:
            self._resume(*found, like)
        self._starts = {self.steps_done: self._start(self.record.attrs)}

    def locked(self) -> AbstractContextManager[None]:
        """Lock the files inside a `with`, so that `write` may write."""
        return self.files.locked(self.record) if self.files else nullcontext()

    @property
    def steps_done(self) -> int:
        """Number of steps done."""
        return self.record.length(("step", "step"))

    def settled_at(self, *, by_noise: bool = False) -> int | None:
        """Return the first step since which the training, or σ² alone, has settled; None if it has not."""
        values, now = self.record.values(), self.objective.parametrisation.hyperparameters(self.optimiser.raw)
        noises = np.append(values.get(("step", "noise"), np.empty(0)), now.noise)
        return settled_at(noises, None if by_noise else values.get(("step", "gain")), self.objective.rows.n)

    def put(self, step: Step, move: Move, conditioning: Conditioning) -> None:
        """Record a step."""
        h, solution = step.hyperparameters, step.solution
        epochs = move.at.evaluations if self.settings.optimiser == "l-bfgs" else solution.epochs
        self.record.variable_attrs["step", "kappa"] = {"is_estimate": conditioning.is_estimate}
        values: dict[str, Any] = {
            "step": step.number, "noise": h.noise, "mean": h.mean, "gradient_norm": step.gradient_norm,
            "epochs": epochs, "work": step.work, "seconds": step.seconds, "residual": solution.residual,
            "converged": solution.converged, "kappa": conditioning.kappa, "kappa_prime": conditioning.kappa_prime,
            "gain": move.gain, "negative_log_likelihood": move.at.value,
        }  # fmt: skip
        if h.lengthscale:
            values |= {"outputscale": h.outputscale, "lengthscale": h.lengthscale}
        if isinstance(self.settings.kernel, Kernel):
            values["kernel_number"] = list(h.build_kernel().numbers.values())
        after, attrs = step.hyperparameters_after, dict(self.record.attrs)
        for name in ("work", "seconds"):
            taken = np.append(self.record.values().get(("step", name), np.empty(0)), values[name])
            attrs[name] = float(taken.sum()) + attrs.get(f"search_{name}", 0.0)
        kernel = after.kernel if isinstance(after.kernel, str) else kernel_as_plain(after.kernel)
        plain = dataclasses.replace(after, kernel="").as_plain() | {"kernel": kernel}
        attrs["hyperparameters"] = json.dumps(plain)
        if solution.stop_reason is StopReason.STAGNATED:
            attrs["stagnated_steps"] = attrs.get("stagnated_steps", 0) + 1
        # an interruption may happen before or after the record has the step: keep both starts
        self._starts = {step.number - 1: self._starts[step.number - 1], step.number: self._start(attrs)}
        self.record.put(step={name: [value] for name, value in values.items()})
        self.record.attrs = attrs
        settled = self.settled_at(by_noise=True)
        if settled == step.number:
            log.info("σ² = %.3g has settled at step %d", after.noise, settled)

    def end(self, **how: str) -> None:
        """Record how the training ended."""
        self.record.attrs |= how
        if self.steps_done:
            self.write()

    def roll_back(self) -> None:
        """Restore the last finished step after an error or Ctrl-C at any point of the next one."""
        start = self._starts[self.steps_done]
        self.optimiser.restore(start.raw.clone(), {name: array.copy() for name, array in start.arrays.items()})
        self.objective.weights = start.weights
        for name in OF_STEPS:
            self.record.attrs.pop(name, None)
        self.record.attrs |= start.attrs

    def write(self) -> None:
        """Write the checkpoint and the trace, if the training has files."""
        if self.files is None:
            return
        arrays = {f"{TRACED}{name}": value for (_, name), value in self.record.values().items()}
        arrays |= self.optimiser.state()
        weights = self.objective.weights
        arrays["raw"] = self.optimiser.raw.numpy()
        arrays[KAPPA_IS_ESTIMATE] = np.array(self.record.variable_attrs["step", "kappa"]["is_estimate"])
        arrays["weights"] = np.empty(0) if weights is None else weights.cpu().numpy()
        self.files.write(arrays, self.record.attrs)

    def _resume(self, arrays: dict[str, np.ndarray], attributes: dict[str, Any], like: Tensor) -> None:
        """Restore the last finished step of a checkpoint, from which the trace continues."""
        steps = {name: arrays.pop(f"{TRACED}{name}") for name in STEP if f"{TRACED}{name}" in arrays}
        raw, weights = torch.from_numpy(arrays.pop("raw")), arrays.pop("weights")
        self.objective.weights = torch.from_numpy(weights).to(like.device) if weights.size else None
        self.record.variable_attrs["step", "kappa"] = {"is_estimate": bool(arrays.pop(KAPPA_IS_ESTIMATE))}
        self.optimiser.restore(raw, arrays)
        self.record.attrs = attributes | {"training_settings": self.record.attrs["training_settings"]}
        self.record.put(step=steps)

    def _start(self, attrs: dict[str, Any]) -> _Start:
        """Return the start of the next step from here."""
        arrays = {name: array.copy() for name, array in self.optimiser.state().items()}
        of_steps = {name: attrs[name] for name in OF_STEPS if name in attrs}
        return _Start(self.optimiser.raw.clone(), arrays, self.objective.weights, of_steps)


@dataclass(frozen=True, eq=False)
class _Start:
    """Start of a step: raw parameters, optimiser arrays, initial W, and attributes of the trace."""

    raw: Tensor
    arrays: dict[str, np.ndarray]
    weights: Tensor | None
    attrs: dict[str, Any]


class Conditioning(Hook):
    """A hook that computes κ and κ′ at the start of a solve, outside of its clock; NaN before one."""

    def __init__(self) -> None:
        self.kappa = self.kappa_prime = math.nan
        self.is_estimate = True

    def on_start(self, run: Run) -> None:
        with run.clock.pause():
            found = spectrum(run.system, run.factors.matrices() if run.factors else ())
        self.kappa, self.kappa_prime = found.kappa.value, found.kappa_prime.value
        self.is_estimate = found.kappa.is_estimate
