"""The settings of a training in the sidebar."""

from __future__ import annotations

from pathlib import Path

import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.system_panel import data_panel
from apviz.dashboard.settings.systems import SystemChoice
from apviz.dashboard.settings.training import SOLVERS, TrainingPlan


def training_panel(plan: TrainingPlan, system: SystemChoice, folder: Path, fields: Fields) -> list[Viewable]:
    """Widgets of `TrainingPlan` and of what it takes of `SystemChoice`; a file of one's own lies in `folder`."""
    p, s, wide = plan.param, system.param, {"sizing_mode": "stretch_width"}
    block_size = fields.add(p.block_size, **wide)
    rank = fields.add(p.rank, **wide)

    def show(*events: object) -> None:
        block_size.visible, rank.visible = plan.solver == "ap", plan.solver == "cg"

    plan.param.watch(show, ["solver"])
    show()
    return [
        *data_panel(system, folder, fields),
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
        pmui.Checkbox.from_param(p.warm_start),
        pmui.Checkbox.from_param(p.spectrum),
        fields.add(s.seed, **wide),
        pmui.RadioButtonGroup.from_param(s.dtype, label="Precision", size="small"),
    ]
