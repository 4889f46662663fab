"""Training: σ², lengthscales and what each step's solve took, live or of a training that is watched."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz import plots
from apviz.dashboard.chart_card import ChartCard, steps_table
from apviz.dashboard.diagnosis_card import DiagnosisCard
from apviz.dashboard.job_bar import JobBar
from apviz.dashboard.pages.base import HALF, Page
from apviz.dashboard.session import Shared
from apviz.dashboard.step_job import StepJob
from apviz.dashboard.system_panel import data_panel
from apviz.dashboard.training_job import TrainingJob, is_written_here
from apviz.dashboard.training_plan import SOLVERS, TrainingPlan, recorded
from apviz.dashboard.trainings import Trainings
from apviz.diagnosis import Diagnosis
from apviz.gp.recorded import can_go_on
from apviz.plots.parts.x_switch import without_buttons
from apviz.tracing import Trace, TrainingTrace

#: seconds between two looks at whether a training has changed on disk, and at which there are
LOOK, LIST = 1.0, 3.0
#: lengthscales that are written out
SHOWN_LENGTHSCALES = 6
NO_TRAINING = "none yet"


class TrainingView(param.Parameterized):
    """What is looked at."""

    training = param.String("", label="the training that is shown")
    step = param.Integer(None, allow_None=True, bounds=(1, None), label="the step whose solve is shown; none: the last")


class Training(Page):
    """A training from its first step to its last, and the solve of any of them."""

    name = "training"
    title = "Training"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.plan, self.choice = TrainingPlan(), TrainingView()
        self.models = [self.plan, self.choice]
        self.trainings = Trainings(shared.runs.path)
        self.job: TrainingJob | StepJob | None = None
        self.trace: TrainingTrace | None = None
        self._opened: tuple[str, float] = ("", 0.0)
        # solves of steps that were done again, by training and step
        self._again: dict[tuple[str, int], list[Trace]] = {}
        self._next_look = self._next_list = 0.0
        self._bar = JobBar(
            self._start_new, self._stop, label="Start a training",
            hint="Choose data and settings, then start; or choose a training below to look at it, or to go on with it.",
        )  # fmt: skip
        self._make_widgets()
        self._cards = self._make_cards()
        for name in ("steps", "lengthscales"):
            self._cards[name].chart.param.watch(lambda event: self._clicked(event.new), "clicked")
        self._everything: pn.Column | None = None
        self.choice.param.watch(lambda event: self._chosen(), ["training"])
        self.choice.param.watch(lambda event: self._show_step(), ["step"])
        self.plan.param.watch(lambda event: self._show_state(), ["steps"])

    # --- what is on it --------------------------------------------------------------------------------------------

    def sidebar(self) -> list[Viewable]:
        p, s, wide = self.plan.param, self.shared.system.param, {"sizing_mode": "stretch_width"}
        block_size = pmui.IntInput.from_param(p.block_size, **wide)
        rank = pmui.IntInput.from_param(p.rank, **wide)

        def show(*events: object) -> None:
            block_size.visible, rank.visible = self.plan.solver == "ap", self.plan.solver == "cg"

        self.plan.param.watch(show, ["solver"])
        show()
        return [
            *data_panel(self.shared),
            pmui.Typography("Model", variant="h6"),
            pmui.Select.from_param(s.kernel, **wide),
            pmui.Checkbox.from_param(p.ard),
            pmui.FloatInput.from_param(p.noise_floor, step=0.0001, format="0.[00000000]", **wide),
            pmui.Typography("Training", variant="h6"),
            pmui.Select.from_param(p.solver, options={title: name for name, title in SOLVERS.items()}, **wide),
            block_size,
            rank,
            pmui.IntInput.from_param(p.steps, **wide),
            pmui.FloatInput.from_param(p.step_size, step=0.05, format="0.[0000]", **wide),
            pmui.IntInput.from_param(p.probes, **wide),
            pmui.Checkbox.from_param(p.warm_start),
            pmui.Checkbox.from_param(p.spectrum),
            pmui.IntInput.from_param(s.seed, **wide),
            pmui.RadioButtonGroup.from_param(s.dtype, label="Precision", size="small"),
        ]

    def main(self) -> Viewable:
        if self._everything is None:
            for card in self._cards.values():
                card.view.styles = HALF
            self._everything = pn.Column(
                self._bar.view,
                pn.Row(self._which, self._go_on, sizing_mode="stretch_width"),
                self._state,
                pn.FlexBox(self._cards["steps"].view, self._cards["lengthscales"].view, sizing_mode="stretch_width"),
                self._solve_head,
                pn.FlexBox(self._cards["solve"].view, self._about_step, sizing_mode="stretch_width"),
                sizing_mode="stretch_width",
            )
            self._about_step.styles = HALF
        return self._everything

    def _make_widgets(self) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._which = pmui.Select(
            label="Training that is shown", options=[NO_TRAINING], value=NO_TRAINING, margin=(8, 12), **wide
        )
        self._which.param.watch(lambda event: self._selected(event.new), "value")
        self._go_on = pmui.Button(
            label="Go on", variant="outlined", icon="fast_forward", disabled=True, margin=(16, 12)
        )
        self._go_on.on_click(lambda event: self._start_again())
        self._state = pmui.Alert(
            object="", severity="info", variant="outlined", visible=False, margin=(0, 12), **wide
        )  # fmt: skip
        # --- the solve of a step
        self._number = pmui.IntInput(label="Step", value=None, start=1, width=130, margin=(4, 12))
        self._number.param.watch(lambda event: self._typed(event.new), "value")
        self._latest = pmui.Button(label="The last step", variant="text", icon="last_page")
        self._latest.on_click(lambda event: self.choice.param.update(step=None))
        self._again_button = pmui.Button(
            label="Solve this step again", variant="outlined", icon="replay", visible=False
        )
        self._again_button.on_click(lambda event: self._solve_again({}))
        self._solve_title = pmui.Typography("", variant="h6", margin=(8, 12, 0, 12))
        self._solve_text = pmui.Typography("", variant="body2", margin=(0, 12))
        self._solve_head = pn.Column(
            self._solve_title,
            pn.FlexBox(self._number, self._latest, self._again_button, align_items="center", **wide),
            self._solve_text,
            visible=False,
            **wide,
        )
        self._numbers = pn.Column(margin=(0, 12), **wide)
        self._diagnosis = DiagnosisCard(
            lambda trace, diagnosis: self._solve_again(diagnosis.change), can_rerun=_can_change_a_solve
        )
        self._about_step = pn.Column(
            pmui.Paper(
                pmui.Typography("Numbers of the step", variant="h6", margin=(8, 12, 0, 12)), self._numbers,
                margin=8, elevation=1, **wide,
            ),
            self._diagnosis.view, visible=False, **wide,
        )  # fmt: skip

    def _make_cards(self) -> dict[str, ChartCard]:
        def has_steps(trace: Trace) -> bool:
            return "step" in trace

        training: dict[str, Any] = {
            "takes": has_steps, "table": steps_table, "x_unit": lambda: "step", "lecture": self.shared.lecture
        }  # fmt: skip
        return {
            "steps": ChartCard(
                "Noise and solves, step by step",
                "The smaller σ², the harder the solve. A cross marks a step whose solve did not converge; click a "
                "step to look at its solve.",
                lambda traces, theme: plots.training(traces, theme=theme), axes=420, **training,
            ),
            "lengthscales": ChartCard(
                "Lengthscales, step by step",
                "A short one: the target changes quickly along that input. One that keeps growing: the input does not "
                "matter.",
                lambda traces, theme: plots.lengthscales(traces, theme=theme), axes=420, **training,
            ),
            "solve": ChartCard(
                "Residual of the solve of a step",
                "Down is better. The thin line is the tolerance; a cross ends a solve that did not converge.",
                lambda traces, theme: without_buttons(plots.residuals(traces, x="epochs", theme=theme)),
                lecture=self.shared.lecture,
            ),
        }  # fmt: skip

    # --- what happens ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        names = self.trainings.names()
        if names and not self.choice.training:
            self.choice.training = names[0]
        else:
            self._chosen()

    def redraw(self) -> None:
        self._draw_steps()
        self._show_step()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        now = time.perf_counter()
        if now >= self._next_list:
            self._next_list = now + LIST
            self._offer()
        if now >= self._next_look:
            self._next_look = now + LOOK
            self._look_at_disk()
        self.draw_next()

    def _take(self, job: TrainingJob | StepJob) -> None:
        """More of the training that runs, or of a solve that is done again."""
        if isinstance(job, StepJob):
            if job.trace is not None and not job.is_active:
                solves = self._again.setdefault((job.name, job.number), [])
                if not any(each is job.trace for each in solves):
                    solves.append(job.trace)
                self._show_step()
            else:
                self._draw_solve()
            return
        if job.name != self.choice.training:
            return
        if job.trace is not None and job.trace is not self.trace:
            self._show(job.trace)
        elif self.choice.step is None:
            self._draw_solve()
        if not job.is_active:
            if job.trace is None:  # it ended before its first step
                self.choice.training = next(iter(self.trainings.names()), "")
            self._show_state()

    def _start_new(self) -> None:
        try:
            spec = self.shared.system.spec()
            settings = self.plan.settings(spec)
            self._free()
            job = TrainingJob(self.shared.gate, self.shared.limits, self.trainings, spec, settings)
        except (ValueError, OSError) as error:
            self._bar.refuse(str(error))
            return
        self._start(job)

    def _start_again(self) -> None:
        trace = self.trace
        if trace is None:
            return
        try:
            spec, settings = recorded(trace, self.shared.find_upload)
            settings = replace(settings, steps=self._goal(trace))
            self._free()
            job = TrainingJob(
                self.shared.gate, self.shared.limits, self.trainings, spec, settings, self.choice.training
            )
        except (ValueError, OSError) as error:
            self._bar.refuse(str(error))
            return
        self._start(job)

    def _solve_again(self, change: Any) -> None:
        trace, step = self.trace, self._step_now()
        if trace is None or step is None:
            return
        name = self.choice.training
        try:
            spec, settings = recorded(trace, self.shared.find_upload)
            self._free()
            path = self.trainings.path_of(name)
        except (ValueError, OSError) as error:
            self._bar.refuse(str(error))
            return
        # the last step moves on while others are taken
        self.choice.step = step
        self._start(
            StepJob(self.shared.gate, self.shared.limits, path, name, trace, spec, settings, step, change)
        )  # fmt: skip

    def _start(self, job: TrainingJob | StepJob) -> None:
        self.job = job
        self.shared.start(job)
        if isinstance(job, TrainingJob):
            self._offer()
            if self.choice.training == job.name:
                self.choice.step = None
                self._show_state()
            else:
                self.choice.param.update(training=job.name, step=None)

    def _free(self) -> None:
        """Raises a ValueError while something runs."""
        if self.job is not None and self.job.is_active:
            what = "a training" if isinstance(self.job, TrainingJob) else "the solve of a step"
            raise ValueError(f"{what} is running; stop it first")

    def _stop(self) -> None:
        if self.job is not None:
            self.job.stop()

    # --- which training -------------------------------------------------------------------------------------------

    def _own(self) -> TrainingJob | None:
        """The job that is at the training that is shown, or was."""
        job = self.job
        return job if isinstance(job, TrainingJob) and job.name == self.choice.training else None

    def _offer(self) -> None:
        names = self.trainings.names()
        job = self.job
        if isinstance(job, TrainingJob) and job.is_active and job.name not in names:
            names = [job.name, *names]
        if self.choice.training and self.choice.training not in names:
            names = [self.choice.training, *names]
        value = self.choice.training or NO_TRAINING
        options = names if value in names else [NO_TRAINING, *names]
        if (options, value) != (self._which.options, self._which.value):
            self._which.param.update(options=options, value=value)

    def _selected(self, name: str) -> None:
        if name not in (None, NO_TRAINING, self.choice.training):
            self.choice.param.update(training=name, step=None)

    def _chosen(self) -> None:
        """Another training is to be shown."""
        self._offer()
        self.trace, self._opened = None, ("", 0.0)
        job = self._own()
        if job is not None and job.trace is not None:
            self._show(job.trace)
            return
        if self.choice.training and job is None:
            self._look_at_disk(say=True)
        if self.trace is None:
            self._draw_steps()
            self._show_state()
            self._show_step()

    def _look_at_disk(self, *, say: bool = False) -> None:
        """Opens the training again if it has changed; `say` why it does not open, if it does not."""
        name, job = self.choice.training, self._own()
        if not name or (job is not None and (job.is_active or job.trace is not None)):
            return
        try:
            changed = self.trainings.changed(name)
            if self._opened == (name, changed):
                return
            trace = self.trainings.open(name)
        except (ValueError, OSError) as error:
            # one that is just being put in its place opens at the next look
            if say:
                self._bar.refuse(str(error))
            return
        self._opened = (name, changed)
        self._show(trace)

    def _show(self, trace: TrainingTrace) -> None:
        self.trace = trace
        self._draw_steps()
        self._show_state()
        self._show_step()

    def _goal(self, trace: TrainingTrace) -> int:
        """The step that Go on leads to: its own last, or for a finished one that of the settings."""
        wanted = recorded(trace, self.shared.find_upload)[1].steps
        return max(wanted, self.plan.steps) if trace.finished else wanted

    def _show_state(self) -> None:
        """What has become of the training, in words, and whether it can go on."""
        trace, job = self.trace, self._own()
        self._state.visible = trace is not None
        self._go_on.disabled, self._go_on.label = True, "Go on"
        if trace is None:
            return
        running = job is not None and job.is_active
        self._state.param.update(object=_state_words(trace, running), severity=_severity(trace))
        if running or self.choice.training not in self.trainings.names():
            return
        path = self.trainings.path_of(self.choice.training)
        try:
            goal = self._goal(trace)
        except ValueError:  # data or solver are not here: nothing to go on with
            return
        if goal > trace["step"].sizes["step"] and can_go_on(path) and not is_written_here(path):
            self._go_on.param.update(disabled=False, label=f"Go on to step {goal}")

    def _draw_steps(self) -> None:
        for name in ("steps", "lengthscales"):
            self.draw_later(card := self._cards[name], lambda card=card: self._draw(card))  # type: ignore[misc]

    def _draw(self, card: ChartCard) -> None:
        card.show([self.trace] if self.trace is not None else [], self.shared.theme)
        self._mark(card)

    # --- which step -----------------------------------------------------------------------------------------------

    def _steps(self) -> int:
        return 0 if self.trace is None else int(self.trace["step"]["step"].values[-1])

    def _step_now(self) -> int | None:
        """The step that is looked at: the chosen one, else the last."""
        done = self._steps()
        return None if not done else min(self.choice.step or done, done)

    def _clicked(self, point: dict[str, Any]) -> None:
        if self.trace is not None and point.get("x") is not None:
            self.choice.step = max(1, min(round(point["x"]), self._steps()))

    def _typed(self, number: int | None) -> None:
        if number is not None and number != self._step_now():
            self.choice.step = max(1, min(number, self._steps()))

    def _solves(self) -> list[Trace]:
        """The recorded solves of the step that is looked at: as it was taken, then those that were done again."""
        step, job = self._step_now(), self._own()
        if step is None:
            return []
        taken = None if job is None else job.solve(step)
        again = self._again.get((self.choice.training, step), [])
        return [*([taken] if taken is not None else []), *again]

    def _live(self) -> Trace | None:
        """The solve that runs, if it is what is looked at."""
        job = self.job
        if job is None or not job.is_active:
            return None
        if isinstance(job, StepJob):
            shown = (self.choice.training, self._step_now()) == (job.name, job.number)
        else:
            shown = job.name == self.choice.training and self.choice.step is None
        return job.live.trace if shown else None

    def _mark(self, card: ChartCard) -> None:
        card.chart.moment = [] if self.choice.step is None or self.trace is None else [float(self._step_now() or 0)]

    def _show_step(self) -> None:
        trace, step = self.trace, self._step_now()
        self._solve_head.visible = self._about_step.visible = trace is not None
        for card in self._cards.values():
            card.view.visible = trace is not None
        for name in ("steps", "lengthscales"):
            self._mark(self._cards[name])
        if trace is not None and step is not None:
            solves, done = self._solves(), self._steps()
            self._number.value = step
            self._latest.disabled = self.choice.step is None
            last = ", the last so far" if step == done else ""
            self._solve_title.object = f"Step {step}{last}: its solve"
            self._solve_text.object = _solve_words(trace, solves, self._warm())
            self._again_button.visible = not solves
            self.draw_later(self._numbers, self._show_numbers)
        self._draw_solve()

    def _show_numbers(self) -> None:
        trace, step, solves = self.trace, self._step_now(), self._solves()
        if trace is not None and step is not None:
            self._numbers[:] = [_numbers_of(trace, step)]
            self._diagnosis.show(solves[-1] if solves else None, f"step {step}")

    def _warm(self) -> bool:
        try:
            return self.trace is not None and recorded(self.trace, self.shared.find_upload)[1].warm_start
        except ValueError:
            return False

    def _draw_solve(self) -> None:
        card = self._cards["solve"]
        self.draw_later(card, lambda: self._draw_solve_now(card))

    def _draw_solve_now(self, card: ChartCard) -> None:
        live = self._live()
        solves = [] if live is not None and self.choice.step is None else self._solves()
        card.show(solves, self.shared.theme, live)
        card.view.visible = bool(solves) or live is not None


def _can_change_a_solve(diagnosis: Diagnosis) -> bool:
    """σ² is what the training looks for: more of it is a matter of its noise floor, not of one solve."""
    return "noise" not in diagnosis.change


def _state_words(trace: TrainingTrace, running: bool) -> str:
    a, steps = trace.attrs, trace["step"]
    done, failed = steps.sizes["step"], int((steps["converged"].values == 0).sum())
    h, settled = trace.hyperparameters, trace.settled_at
    state = "finished" if trace.finished else "running" if running else "not finished: interrupted, or still running"
    words = [
        f"**{trace.label} on {a['dataset'] or 'unnamed data'}**, n = {a['n']:,}, d = {a['d']}: {done} Adam steps, "
        f"{state}. Now σ² = {h.noise:.4g}, outputscale = {h.outputscale:.4g}, mean = {h.mean:.3g}."
    ]
    if settled is not None:
        words.append(f"σ² has settled: the five steps up to step {settled} changed it by less than 1% in all.")
    else:
        words.append("σ² has not settled: five steps still change it by 1% or more.")
    if failed:
        words.append(f"The solves of {failed} of the {done} steps did not converge; they are marked by crosses.")
    return " ".join(words)


def _severity(trace: TrainingTrace) -> str:
    if (trace["step"]["converged"].values == 0).any():
        return "warning"
    return "success" if trace.settled_at is not None else "info"


def _solve_words(trace: TrainingTrace, solves: list[Trace], warm: bool) -> str:
    if not solves:
        words = "The curve of this solve was not kept: only those of trainings that run in this window are."
        words += " Its numbers are below; the same system can be solved again, with the same right-hand sides."
    elif len(solves) > 1:
        words = "The curves are solves of the same system; the diagnosis is of the last one."
    else:
        return ""
    cold = " This training started every solve where the last one ended; again it starts from zero."
    return words + (cold if warm else "")


def _numbers_of(trace: TrainingTrace, step: int) -> Viewable:
    """What was recorded about a step, as a table of two columns."""
    row, h = trace["step"].sel(step=trace["step"]["step"] == step).isel(step=0), trace.hyperparameters_at(step)
    lengths = ", ".join(f"{value:.3g}" for value in h.lengthscale[:SHOWN_LENGTHSCALES])
    if len(h.lengthscale) > SHOWN_LENGTHSCALES:
        lengths += f", … ({len(h.lengthscale)} in all, {min(h.lengthscale):.3g} to {max(h.lengthscale):.3g})"
    converged = "converged" if int(row["converged"]) else "NOT CONVERGED"
    values = {
        "the solve": f"{converged}, residual {float(row['residual']):.3g}",
        "epochs, or iterations": f"{int(row['epochs']):,}",
        "work of the step": f"{float(row['work']):.4g} n² kernel entries",
        "time of the step": f"{float(row['seconds']):.3g} s",
        "σ²": f"{h.noise:.5g}",
        "outputscale": f"{h.outputscale:.5g}",
        "mean": f"{h.mean:.4g}",
        "lengthscales": lengths,
        "gradient norm": f"{float(row['gradient_norm']):.3g}",
    }
    for name, symbol in (("kappa", "κ (estimate for large n)"), ("kappa_prime", "κ′ (estimate)")):
        if math.isfinite(float(row[name])):
            values[symbol] = f"{float(row[name]):.3g}"
    frame = pd.DataFrame({"": list(values), " ": list(values.values())})
    return pn.pane.DataFrame(
        frame, index=False, header=False, escape=True, text_align="start", sizing_mode="stretch_width"
    )
