"""The settings of the methods in the sidebar."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz.dashboard.settings.methods import METHOD_TITLES, MethodChoice


def method_panel(methods: MethodChoice) -> list[Viewable]:
    """Widgets of `MethodChoice`."""
    m = methods.param
    return [
        pmui.Typography("Methods", variant="h6"),
        pmui.CheckBoxGroup.from_param(
            m.methods, label="", options={title: name for name, title in METHOD_TITLES.items()}
        ),
        pmui.MultiChoice.from_param(m.rules, sizing_mode="stretch_width"),
        pmui.MultiChoice.from_param(m.partitions, sizing_mode="stretch_width"),
        numbers_field(methods, "block_sizes"),
        pmui.FloatInput.from_param(m.overlap, step=0.25, sizing_mode="stretch_width"),
        numbers_field(methods, "ranks"),
        pmui.FloatInput.from_param(m.tol, step=0.001, format="0.[000000000]", sizing_mode="stretch_width"),
        pmui.IntInput.from_param(m.max_epochs, sizing_mode="stretch_width"),
    ]


def numbers_field(model: param.Parameterized, name: str, *, may_be_empty: bool = False) -> Viewable:
    """Whole numbers in a text field, separated by commas."""
    field = pmui.TextInput(
        label=model.param[name].label, value=", ".join(map(str, getattr(model, name))), sizing_mode="stretch_width"
    )

    def read(event: Any) -> None:
        words = event.new.replace(",", " ").split()
        if (words or may_be_empty) and all(word.isdigit() and int(word) > 0 for word in words):
            field.error_state = False
            setattr(model, name, [int(word) for word in words])
        else:
            field.error_state = True

    field.param.watch(read, "value")
    model.param.watch(lambda event: field.param.update(value=", ".join(map(str, event.new))), name)
    return field
