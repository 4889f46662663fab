"""The selected training up to now, from a job of this window or from the folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param

from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.text import escape
from apviz.dashboard.jobs.training_job import TrainingJob
from apviz.dashboard.pages.training.launcher import Launcher
from apviz.dashboard.store.trainings import Trainings
from apviz.tracing import Trace, TrainingTrace


class TrainingView(param.Parameterized):
    """Settings of the selection."""

    training = param.String("", label="the training that is shown")
    step = param.Integer(None, allow_None=True, bounds=(1, None), label="the step whose solve is shown; none: the last")


class SelectedTraining:
    """Selected training and step.

    Attributes:
        trace: Trace of the steps so far; None before the first step, and if no training is selected.
    """

    def __init__(self, choice: TrainingView, trainings: Trainings, launcher: Launcher) -> None:
        self._choice, self._trainings, self._launcher = choice, trainings, launcher
        self.trace: TrainingTrace | None = None
        # Time of the last write of the open trace, in seconds since 1970.
        self._written: float | None = None

    def forget(self) -> None:
        """Drop the trace, because another training is selected."""
        self.trace = self._written = None

    def refresh(self) -> bool:
        """Read new steps from the job, or else from disk. Return whether there were any.

        Raises:
            FileNotFoundError: The training is missing, or its folder is being replaced.
            ValueError: The trace does not open, is of one solve, or has no step yet.
        """
        job = self.job
        if job is not None and job.trace is not None:
            before, self.trace = self.trace, job.trace
            return self.trace is not before
        if not self.name or self.is_running:
            return False
        written = self._trainings.changed(self.name)
        if written == self._written:
            return False
        self.trace = self._trainings.open(self.name)
        self._written = written
        return True

    @property
    def name(self) -> str:
        """Return the name of the training; empty for none."""
        return str(self._choice.training)

    @property
    def names(self) -> list[str]:
        """Return all selectable names, with trainings without a trace, and a deleted one named by the address."""
        found, job = self._trainings.names(), self._launcher.job
        running = job.name if job is not None and job.is_active else ""
        others = dict.fromkeys(name for name in (self.name, running) if name and name not in found)
        return [*others, *found]

    @property
    def job(self) -> TrainingJob | None:
        """Return the job of this window that trains or last trained the selected training; None for none."""
        job = self._launcher.job
        return job if job is not None and job.name == self.name else None

    @property
    def is_running(self) -> bool:
        """Return whether this window runs the training."""
        return self.job is not None and self.job.is_active

    @property
    def goal(self) -> int | None:
        """Return the step up to which the training can resume; None if it cannot resume, or is running."""
        return None if self.trace is None or self.is_running else self._launcher.goal(self.name, self.trace)

    @property
    def steps(self) -> int:
        """Return the number of finished steps."""
        return 0 if self.trace is None else int(self.trace["step"]["step"].values[-1])

    @property
    def step(self) -> int | None:
        """Return the selected step, or else the last step; None before the first."""
        return min(self._choice.step or self.steps, self.steps) or None

    @property
    def follows(self) -> bool:
        """Return whether the selection follows the last step."""
        return self._choice.step is None

    @property
    def solve(self) -> Trace | None:
        """Return the solve of the selected step; None if this window did not take the step or no longer keeps it."""
        return None if self.job is None or self.step is None else self.job.solve(self.step)

    @property
    def live(self) -> Trace | None:
        """Return the trace of the running solve, if it is selected."""
        return self.job.live.trace if self.job is not None and self.is_running and self.follows else None


class TrainingPicker:
    """List of trainings, with status and diagnosis of the selected one, and a button to resume it.

    Args:
        selected: Selected training.
        select: Called with the name of the training that is selected in the list.
        go_on: Called to resume the training.
        change: Called with the settings to change for another training.
    """

    def __init__(
        self,
        selected: SelectedTraining,
        select: Callable[[str], None],
        go_on: Callable[[], None],
        change: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._selected = selected
        wide = {"sizing_mode": "stretch_width"}
        self.list = pmui.Select(
            label="Training that is shown", options=[NO_TRAINING], value=NO_TRAINING, margin=(12, 12, 8, 12), **wide
        )
        self.list.param.watch(
            lambda event: select(event.new) if event.new not in (None, NO_TRAINING) else None, "value"
        )
        self.go_on = server_owned(
            pmui.Button(label="Resume", variant="outlined", icon="fast_forward", disabled=True, margin=(16, 12))
        )
        self.go_on.on_click(lambda event: go_on())
        self.state = server_owned(
            pmui.Alert(object="", severity="info", variant="outlined", visible=False, margin=(0, 12), **wide)
        )
        self.diagnosis = DiagnosisCard(lambda trace, diagnosis: change(diagnosis.change))
        self.nothing = pmui.Paper(
            pmui.Typography("No training is here yet", variant="h6", margin=(8, 12, 0, 12)),
            pmui.Typography(_WHAT_WILL_BE_SEEN, variant="body1", margin=(0, 12, 8, 12)),
            margin=8, elevation=1, **wide,
        )  # fmt: skip
        self.view = pn.Column(pn.Row(self.list, self.go_on, **wide), self.state, self.nothing, **wide)

    def offer(self) -> None:
        """Offer the existing trainings, and mark the selected one."""
        names, value = self._selected.names, self._selected.name or NO_TRAINING
        options = names if value in names else [NO_TRAINING, *names]
        if (options, value) != (self.list.options, self.list.value):
            self.list.param.update(options=options, value=value)

    def show(self) -> None:
        """Show the status of the training, and whether it can resume."""
        trace, running, goal = self._selected.trace, self._selected.is_running, self._selected.goal
        self.state.visible, self.nothing.visible = trace is not None, not self._selected.name
        if trace is not None:
            self.state.param.update(object=describe_training(trace, running), severity=_severity(trace))
        self.diagnosis.show(None if running else trace, "the whole training")
        self.go_on.param.update(disabled=goal is None, label="Resume" if goal is None else f"Resume to step {goal}")


NO_TRAINING = "none yet"
_WHAT_WILL_BE_SEEN = """A training looks for the noise σ², the lengthscales and the outputscale under which the data are
likeliest, by steps of Adam. Every step solves one system: the target and a few random probes on the right-hand side.

**Start a training**, above, does it with the settings of the bar, and shows as it goes:

- σ² and what each solve took, step by step: the smaller σ², the harder the solve;
- the lengthscales: which inputs matter, and how quickly the target changes along them;
- the residual of the solve that runs; a click on any step looks at its solve, its numbers, and what limited it.

Stop keeps the finished steps, and the training can resume from there."""


def describe_training(trace: TrainingTrace, running: bool) -> str:
    """Return sentences on the progress of a training, its hyperparameters, and whether they have settled."""
    a, steps = trace.attrs, trace["step"]
    done, failed = steps.sizes["step"], int((steps["converged"].values == 0).sum())
    h, settled = trace.hyperparameters, trace.settled_at
    state = "finished" if trace.finished else "running" if running else "unfinished: interrupted, or still running"
    scale = f"outputscale = {h.outputscale:.4g}, " if isinstance(h.kernel, str) else ""
    dataset = a["dataset"] or "unnamed data"
    words = [
        f"**{escape(f'{trace.method_name} on {dataset}')}**, n = {a['n']:,}, d = {a['d']}: {done} steps, "
        f"{state}. After step {done}: σ² = {h.noise:.4g}, {scale}mean = {h.mean:.3g}."
    ]
    words.append(f"{'Settled' if settled is not None else 'Not settled'}: {trace.settled_words}")
    words.append(trace.work_words)
    if failed and trace.budget:
        words.append(
            f"The solves of {failed} of the {done} steps ended above their tolerance, at their limit of {trace.budget} "
            f"epoch{'s' if trace.budget > 1 else ''}."
        )
    elif failed:
        words.append(f"The solves of {failed} of the {done} steps did not converge; they are marked by crosses.")
    return " ".join(words)


def _severity(trace: TrainingTrace) -> str:
    if not trace.budget and (trace["step"]["converged"].values == 0).any():
        return "warning"
    return "success" if trace.settled_at is not None else "info"
