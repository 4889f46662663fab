"""The trace of a training: one row per step, in the group `step`."""

from __future__ import annotations

import json

import numpy as np

from apviz.hyperparameters import Hyperparameters
from apviz.tracing.schema import SETTLED
from apviz.tracing.trace import Trace

#: a training has settled when this many steps change σ² by less than this share: the paper's "a small update"
SETTLED_STEPS, SETTLED_CHANGE = 5, 0.01
#: where the gains of steps are known: share of σ² that the steps change, and their gain in nats a row, or in nats in
#: all (less makes no difference between models)
GAINING_CHANGE, SETTLED_GAIN, SETTLED_NATS = 0.05, 1e-3, 0.5


class TrainingTrace(Trace):
    """Hold the record of one training: the variables of `apviz.tracing.schema.STEP`."""

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Return the hyperparameters after the last finished step."""
        values = json.loads(self.attrs["hyperparameters"])
        if isinstance(values["kernel"], dict):
            from apviz.kernels import from_plain  # here: this needs torch, reading a trace does not

            values["kernel"] = from_plain(values["kernel"])
        return Hyperparameters(**{**values, "lengthscale": tuple(values["lengthscale"])})

    def hyperparameters_at(self, step: int) -> Hyperparameters:
        """Return the hyperparameters of the solve of a step.

        Raises:
            KeyError: the step was not recorded.
            ValueError: the kernel is not one of apviz's.
        """
        steps = self["step"]
        at = np.flatnonzero(steps["step"].values == step)
        if not len(at):
            raise KeyError(f"step {step} was not recorded; there are {steps.sizes['step']}")
        row = steps.isel(step=int(at[0]))
        provenance = f"step {step} of the training by {self.method_name}"
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
        """Return the noise σ² before the first step and after each step, (steps + 1,)."""
        return np.append(self["step"]["noise"].values, self.hyperparameters.noise)

    @property
    def budget(self) -> int | None:
        """Return the number of epochs of every solve, where the settings fix it; else None."""
        found: int | None = json.loads(self.attrs["training_settings"]).get("max_epochs")
        return found

    @property
    def search_work(self) -> float:
        """Return the work of the search for a start, in kernel entries ÷ n²; 0 without a search."""
        return float(self.attrs.get("search_work", 0.0))

    @property
    def work(self) -> float:
        """Return the work of all steps and of the search for a start, in kernel entries ÷ n²."""
        return float(self["step"]["work"].sum()) + self.search_work

    @property
    def seconds(self) -> float:
        """Return the seconds of all steps and of the search for a start."""
        return float(self["step"]["seconds"].sum()) + float(self.attrs.get("search_seconds", 0.0))

    @property
    def work_words(self) -> str:
        """Return work and time of the training, in a sentence."""
        search = self.search_work
        of_it = f", {search:.3g} of it in the search for a start" if search > 0 else ""
        return f"Work: {self.work:,.0f} (full kernel matrices){of_it}; {self.seconds:.3g} s."

    @property
    def settled_at(self) -> int | None:
        """Return the step since which the training has settled, see `settled_at`; None: it still moves.

        For a training that ended because no step gained anything, that is the last step.
        """
        steps = self["step"]
        if self.attrs.get("stop_reason") == SETTLED:
            return int(steps.sizes["step"])
        return settled_at(self.noise_path, steps["gain"].values, self.attrs["n"])

    @property
    def settled_words(self) -> str:
        """Return a sentence on whether the training has settled, with the evidence."""
        done, noise, since = self["step"].sizes["step"], self.noise_path, self.settled_at
        gained = float(self["step"]["gain"].values[-SETTLED_STEPS:].sum())
        if self.attrs.get("stop_reason") == SETTLED and self.attrs.get("stop_message"):
            return f"σ² = {noise[-1]:.3g} after {done} steps: {self.attrs['stop_message']}."
        if since is not None:
            most = SETTLED_CHANGE if np.isnan(gained) else GAINING_CHANGE
            return f"σ² = {noise[-1]:.3g}: since step {since} of {done} it changed by under {most:.0%}."
        last = noise[-SETTLED_STEPS - 1 :]
        more = "" if np.isnan(gained) else f", and changed the log likelihood by {gained:.2g} nats a row"
        return f"The last {len(last) - 1} of {done} steps moved σ² between {last.min():.3g} and {last.max():.3g}{more}."

    @property
    def converged(self) -> bool:
        """Test whether the training ran to its end and the solve of every step converged."""
        return self.finished and bool((self["step"]["converged"] == 1).all())

    def __repr__(self) -> str:
        a, steps = self.attrs, self["step"]["step"].size
        name = a["dataset"] or "unnamed data"
        noise = self.hyperparameters.noise
        return f"TrainingTrace({self.method_name} on {name}, n={a['n']}, d={a['d']}: {steps} steps, σ²={noise:.3g})"


def settled_gain(n: int) -> float:
    """Return the gain, in nats a row, below which five steps of a training on n rows have settled."""
    return max(SETTLED_GAIN, SETTLED_NATS / n)


def settled_at(noise: np.ndarray, gain: np.ndarray | None = None, n: int = 1) -> int | None:
    """Return the step since which every five steps gained little and changed σ² little: the training has settled.

    The paper advises to stop at a small update of σ² (appendix, "Additional Discussions"); we choose 1% in five steps.
    That can mislead: σ² changes little for a step or two where Adam overshoots and turns, or at its lower bound while
    lengthscales still improve; and with few probes it never rests. So where gains are known, five steps must gain less
    than 0.001 nats a row, or ½ in all, and change σ² by less than 5%.

    Args:
        noise: (t + 1,), before the first step and after each of t.
        gain: (t,) decrease of ℓ/n in each step, in nats a row; NaN, or None for all, where unknown.
        n: rows.

    Returns:
        None where the last five steps changed more, or there are fewer than five.
    """
    if len(noise) <= SETTLED_STEPS:
        return None
    windows = np.lib.stride_tricks.sliding_window_view
    change = np.ptp(windows(np.log(noise), SETTLED_STEPS + 1), axis=1)
    gained = np.full(len(change), np.nan) if gain is None else windows(gain, SETTLED_STEPS).sum(axis=1)
    moving = np.where(
        np.isnan(gained),
        change >= np.log1p(SETTLED_CHANGE),
        (np.abs(gained) >= settled_gain(n)) | (change >= np.log1p(GAINING_CHANGE)),
    )
    last = np.flatnonzero(moving)
    first = int(last[-1]) + 1 if last.size else 0
    return first + SETTLED_STEPS if first < len(change) else None
