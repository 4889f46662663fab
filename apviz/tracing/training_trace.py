"""The trace of a training: one row an Adam step, in the group `step`."""

from __future__ import annotations

import json

import numpy as np

from apviz.hyperparameters import Hyperparameters
from apviz.tracing.trace import Trace


class TrainingTrace(Trace):
    """What was recorded about one training: the variables of `apviz.tracing.schema.STEP`."""

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Those after the last finished step."""
        values = json.loads(self.attrs["hyperparameters"])
        return Hyperparameters(**{**values, "lengthscale": tuple(values["lengthscale"])})

    def hyperparameters_at(self, step: int) -> Hyperparameters:
        """Those that the solve of an Adam step was done with.

        Raises:
            KeyError: a step that was not recorded.
        """
        steps = self["step"]
        at = np.flatnonzero(steps["step"].values == step)
        if not len(at):
            raise KeyError(f"step {step} was not recorded; there are {steps.sizes['step']}")
        row = steps.isel(step=int(at[0]))
        provenance = f"step {step} of the training by {self.label}"
        return Hyperparameters(
            self.attrs["kernel"], tuple(row["lengthscale"].values.tolist()), float(row["outputscale"]),
            float(row["noise"]), float(row["mean"]), provenance,
        )  # fmt: skip

    @property
    def settled_at(self) -> int | None:
        """The step from which on σ² changed by less than 1% in five steps, the paper's sign of the end; or None."""
        found = self.attrs.get("noise_settled_step")
        return None if found is None else int(found)

    @property
    def converged(self) -> bool:
        """Whether the training ran to its end and the solve of every step converged."""
        return self.finished and bool((self["step"]["converged"] == 1).all())

    def __repr__(self) -> str:
        a, steps = self.attrs, self["step"]["step"].size
        name = a["dataset"] or "unnamed data"
        noise = self.hyperparameters.noise
        return f"TrainingTrace({self.label} on {name}, n={a['n']}, d={a['d']}: {steps} steps, σ²={noise:.3g})"
