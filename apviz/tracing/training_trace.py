"""The trace of a training: one row an Adam step, in the group `step`."""

from __future__ import annotations

import json

from apviz.hyperparameters import Hyperparameters
from apviz.tracing.trace import Trace


class TrainingTrace(Trace):
    """What was recorded about one training: the variables of `apviz.tracing.schema.STEP`."""

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Those after the last finished step."""
        values = json.loads(self.attrs["hyperparameters"])
        return Hyperparameters(**{**values, "lengthscale": tuple(values["lengthscale"])})

    @property
    def converged(self) -> bool:
        """Whether the training ran to its end and the solve of every step converged."""
        return self.finished and bool((self["step"]["converged"] == 1).all())

    def __repr__(self) -> str:
        a, steps = self.attrs, self["step"]["step"].size
        name = a["dataset"] or "unnamed data"
        noise = self.hyperparameters.noise
        return f"TrainingTrace({self.label} on {name}, n={a['n']}, d={a['d']}: {steps} steps, σ²={noise:.3g})"
