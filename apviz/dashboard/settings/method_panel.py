"""The settings of the methods in the sidebar."""

from __future__ import annotations

import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.methods import METHOD_TITLES, MethodChoice


def method_panel(methods: MethodChoice, fields: Fields) -> list[Viewable]:
    """Widgets of `MethodChoice`."""
    m = methods.param
    return [
        pmui.Typography("Methods", variant="h6"),
        pmui.CheckBoxGroup.from_param(
            m.methods, label="", options={title: name for name, title in METHOD_TITLES.items()}
        ),
        pmui.MultiChoice.from_param(m.rules, sizing_mode="stretch_width"),
        pmui.MultiChoice.from_param(m.partitions, sizing_mode="stretch_width"),
        *(
            fields.add(each, sizing_mode="stretch_width")
            for each in (m.block_sizes, m.overlap, m.ranks, m.tol, m.max_epochs)
        ),
    ]
