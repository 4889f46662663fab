"""The settings of a recorded solve in the sidebar."""

from __future__ import annotations

import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.methods import METHOD_TITLES
from apviz.dashboard.settings.recording import PICTURED_METHODS, RecordChoice


def recording_panel(recording: RecordChoice, fields: Fields) -> list[Viewable]:
    """Widgets of `RecordChoice`."""
    p, wide = recording.param, {"sizing_mode": "stretch_width"}
    of_blocks = [
        pmui.Select.from_param(p.rule, **wide),
        pmui.Select.from_param(p.partition, **wide),
        fields.add(p.block_size, **wide),
        fields.add(p.overlap, **wide),
    ]
    rank = fields.add(p.rank, **wide)

    def fit(*events: object) -> None:
        for field in of_blocks:
            field.visible = recording.method == "ap"
        rank.visible = recording.method in ("pcg", "rpcg")

    recording.param.watch(fit, "method")
    fit()
    return [
        pmui.Typography("Method", variant="h6"),
        pmui.Select.from_param(p.method, options={METHOD_TITLES[name]: name for name in PICTURED_METHODS}, **wide),
        *of_blocks,
        rank,
        fields.add(p.tol, **wide),
        fields.add(p.max_epochs, **wide),
        fields.add(p.updates, **wide),
    ]
