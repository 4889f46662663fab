"""Settings of a training, their widgets, and the settings of a recorded training to resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.system_choice import SystemChoice
from apviz.dashboard.settings.systems import SystemSpec, data_of
from apviz.dashboard.store.own_data import OwnTable
from apviz.experiments.sources import MAX_TRAINING_EPOCHS, MIN_TRAINING_EPOCHS, OURS, TEST_TOL, TRAINING_TOL
from apviz.gp.training.settings import TrainingSettings, settings_of
from apviz.preconditioners import PivotedCholesky
from apviz.solvers import AlternatingProjection, Automatic, ConjugateGradient, Solver
from apviz.tracing import TrainingTrace

SOLVERS = {
    "ap": f"Alternating projection (paper): to {TRAINING_TOL:g}, at least {MIN_TRAINING_EPOCHS} epochs",
    "overlap": f"Overlapping projections, to {TEST_TOL:g}",
    "cg": f"CG with pivoted Cholesky (paper): to {TRAINING_TOL:g}, at least {MIN_TRAINING_EPOCHS}",
    "auto": f"Automatic (recommended), to {TEST_TOL:g}",
}


class TrainingPlan(param.Parameterized):
    """Settings of a training; data, kernel, seed and precision come from the session's system."""

    solver = param.Selector(default="auto", objects=list(SOLVERS), label="Solver of every step")
    block_size = param.Integer(200, bounds=(1, None), label="Block size b")
    rank = param.Integer(100, bounds=(1, None), label="Rank of pivoted Cholesky")
    steps = param.Integer(50, bounds=(1, 1000), label="Adam steps")
    step_size = param.Number(0.1, bounds=(0, 10), inclusive_bounds=(False, True), label="Step size of Adam")
    probes = param.Integer(15, bounds=(1, 64), label="Probe vectors")
    noise_floor = param.Number(1e-4, bounds=(0, 1), label="Noise floor: σ² stays above")
    ard = param.Boolean(True, label="One lengthscale per input (ARD)")
    warm_start = param.Boolean(False, label="Start every solve where the last one ended")
    less_work = param.Boolean(False, label="Faster: train mostly on a sample of rows")
    spectrum = param.Boolean(False, label="Record κ and κ′ of every step")

    def choose_solver(self) -> Solver:
        """Return the solver of every step; the paper's settings are those of its section 5.1."""
        if self.solver == "overlap":
            return OURS
        if self.solver == "auto":
            return Automatic(tol=TEST_TOL, max_epochs=MAX_TRAINING_EPOCHS)
        if self.solver == "cg":
            return ConjugateGradient(
                preconditioner=PivotedCholesky(rank=self.rank),
                tol=TRAINING_TOL,
                max_epochs=MAX_TRAINING_EPOCHS,
                min_epochs=MIN_TRAINING_EPOCHS,
            )
        return AlternatingProjection(
            block_size=self.block_size, tol=TRAINING_TOL, max_epochs=MAX_TRAINING_EPOCHS, min_epochs=MIN_TRAINING_EPOCHS
        )  # fmt: skip

    def settings(self, spec: SystemSpec) -> TrainingSettings:
        """Return the settings as the library takes them, for the data, kernel and seed of a system.

        Raises:
            ValueError: A setting out of range.
        """
        settings = TrainingSettings(
            kernel=spec.kernel, solver=self.choose_solver(), steps=self.steps, step_size=self.step_size,
            probes=self.probes, noise_floor=self.noise_floor, ard=self.ard, warm_start=self.warm_start,
            spectrum=self.spectrum, seed=spec.seed,
        )  # fmt: skip
        return settings.with_less_work() if self.less_work else settings


def training_panel(plan: TrainingPlan, system: SystemChoice, fields: Fields) -> list[Viewable]:
    """Return the widgets of model and training, and of the kernel of `SystemChoice`."""
    p, s, wide = plan.param, system.param, {"sizing_mode": "stretch_width"}
    block_size = fields.add(p.block_size, **wide)
    rank = fields.add(p.rank, **wide)

    def show(*events: object) -> None:
        block_size.visible, rank.visible = plan.solver == "ap", plan.solver == "cg"

    plan.param.watch(show, ["solver"])
    show()
    return [
        pmui.Typography("Model", variant="h6"),
        pmui.Select.from_param(s.kernel, **wide),
        pmui.Checkbox.from_param(p.ard),
        fields.add(p.noise_floor, **wide),
        pmui.Typography("Training", variant="h6"),
        pmui.Select.from_param(p.solver, options={title: name for name, title in SOLVERS.items()}, **wide),
        block_size,
        rank,
        fields.add(p.steps, **wide),
        fields.add(p.step_size, **wide),
        fields.add(p.probes, **wide),
        pmui.Checkbox.from_param(p.less_work),
    ]


def advanced_training_panel(plan: TrainingPlan, system: SystemChoice, fields: Fields) -> list[Viewable]:
    """Return the widgets of the other settings of a training."""
    return [
        pmui.Checkbox.from_param(plan.param.warm_start), pmui.Checkbox.from_param(plan.param.spectrum),
        fields.add(system.param.seed, sizing_mode="stretch_width"),
        pmui.RadioButtonGroup.from_param(system.param.dtype, label="Precision", size="small"),
    ]  # fmt: skip


def recorded(trace: TrainingTrace, find_own: Callable[[str], OwnTable | None]) -> tuple[SystemSpec, TrainingSettings]:
    """Return the data and settings of a recorded training.

    A trace does not record the seed of the split. It is assumed to be that of the probes, as on this page and in
    `apviz experiment`. Code that loads the data checks this with `apviz.gp.training.checkpoint.check_data`.

    Raises:
        ValueError: Data or solver are not available.
    """
    a, settings = trace.attrs, settings_of(trace)
    name = str(a["dataset"])
    own = data_of("training", name, a, find_own)
    spec = SystemSpec(
        dataset=name, n=int(a["n"]), kernel=settings.kernel, seed=settings.seed, dtype=str(a["dtype"]), own=own
    )
    return spec, settings


def changed(settings: TrainingSettings, change: Mapping[str, Any]) -> TrainingSettings:
    """Return the settings of a training with the proposal of a diagnosis, with a solver by its name in `SOLVERS`."""
    values = dict(change)
    if "solver" in values:
        values["solver"] = TrainingPlan(solver=values["solver"]).choose_solver()
    return replace(settings, **values)
