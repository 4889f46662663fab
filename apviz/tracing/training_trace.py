"""The trace of a training: one row a step, in the group `step`."""

from __future__ import annotations

import json

import numpy as np

from apviz.hyperparameters import Hyperparameters
from apviz.tracing.schema import SETTLED
from apviz.tracing.trace import Trace

#: σ² has settled while so many steps keep it within this of itself; the paper says no more than "a small update"
SETTLED_STEPS, SETTLED_CHANGE = 5, 0.01
#: and these steps gain less than so many nats a row together
SETTLED_GAIN = 0.01


class TrainingTrace(Trace):
    """A record of one training: the variables of `apviz.tracing.schema.STEP`."""

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The hyperparameters after the last finished step."""
        values = json.loads(self.attrs["hyperparameters"])
        if isinstance(values["kernel"], dict):
            from apviz.kernels import from_plain  # with torch, which a trace is read without

            values["kernel"] = from_plain(values["kernel"])
        return Hyperparameters(**{**values, "lengthscale": tuple(values["lengthscale"])})

    def hyperparameters_at(self, step: int) -> Hyperparameters:
        """Returns the hyperparameters that the solve of a step was done with.

        Raises:
            KeyError: a step that was not recorded.
            ValueError: a kernel of a class that is not apviz's.
        """
        steps = self["step"]
        at = np.flatnonzero(steps["step"].values == step)
        if not len(at):
            raise KeyError(f"step {step} was not recorded; there are {steps.sizes['step']}")
        row = steps.isel(step=int(at[0]))
        provenance = f"step {step} of the training by {self.label}"
        if "kernel_number" in steps:
            from apviz.kernels import from_plain

            kernel = from_plain(json.loads(self.attrs["training_settings"])["kernel"])
            kernel = kernel.with_numbers(row["kernel_number"].values.tolist())
            return Hyperparameters.of(kernel, float(row["noise"]), float(row["mean"]), provenance)
        return Hyperparameters(
            self.attrs["kernel"], tuple(row["lengthscale"].values.tolist()), float(row["outputscale"]),
            float(row["noise"]), float(row["mean"]), provenance, json.loads(self.attrs.get("kernel_parameters", "{}")),
        )  # fmt: skip

    @property
    def noise_path(self) -> np.ndarray:
        """The noise σ² before the first step, and after each, (steps + 1,)."""
        return np.append(self["step"]["noise"].values, self.hyperparameters.noise)

    @property
    def settled_at(self) -> int | None:
        """The step since which the training has been settled, see `settled_at`; None: it moves still, or again.

        Of one that ended because nothing more was to be had, the last.
        """
        steps = self["step"]
        if self.attrs.get("stop_reason") == SETTLED:
            return int(steps.sizes["step"])
        return settled_at(self.noise_path, steps["gain"].values if "gain" in steps else None)

    @property
    def converged(self) -> bool:
        """Whether the training ran to its end and the solve of every step converged."""
        return self.finished and bool((self["step"]["converged"] == 1).all())

    def __repr__(self) -> str:
        a, steps = self.attrs, self["step"]["step"].size
        name = a["dataset"] or "unnamed data"
        noise = self.hyperparameters.noise
        return f"TrainingTrace({self.label} on {name}, n={a['n']}, d={a['d']}: {steps} steps, σ²={noise:.3g})"


def settled_at(noise: np.ndarray, gain: np.ndarray | None = None) -> int | None:
    """Finds the step since which every five steps have kept σ² within 1%, the sign of the end of a training.

    A small update of σ² is what the paper advises to look for (appendix, "Additional Discussions"); how small, and for
    how long, is our choice. Where σ² turns, as Adam makes it by going too far, it moves little for a step or two. On
    its floor it moves little too, while the likelihood still gains by lengthscales: so the five steps must gain little.

    Args:
        noise: (t + 1,), before the first step and after each of t.
        gain: (t,) by how much ℓ/n fell in each step, in nats a row; NaN, or None for all, where it is not known.

    Returns:
        None where the last five steps have moved it by more, or there are fewer.
    """
    if len(noise) <= SETTLED_STEPS:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(np.log(noise), SETTLED_STEPS + 1)
    moving = np.ptp(windows, axis=1) >= np.log1p(SETTLED_CHANGE)
    if gain is not None:
        together = np.lib.stride_tricks.sliding_window_view(np.abs(gain), SETTLED_STEPS).sum(axis=1)
        moving |= together >= SETTLED_GAIN  # of NaN this is false
    last = np.flatnonzero(moving)
    first = int(last[-1]) + 1 if last.size else 0
    return first + SETTLED_STEPS if first < len(windows) else None
