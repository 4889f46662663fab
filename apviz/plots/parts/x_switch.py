"""The x axis of curves: work, epochs or seconds, switched by buttons in the figure itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import plotly.graph_objects as go

from apviz.plots.parts.layout import BUTTONS
from apviz.plots.parts.style import Theme

X = Literal["work", "epochs", "seconds"]

#: the x values of one plotly trace in each unit
Choice = dict[str, list[float | None]]

X_TITLES: Final[dict[str, str]] = {
    "work": "work (kernel entries ÷ n²)",
    "epochs": "epochs (of CG: iterations)",
    "seconds": "time since the start (s)",
}

#: the variable of the group `epoch` behind each unit
VARIABLES: Final = {"work": "work", "epochs": "epoch", "seconds": "seconds"}


def x_buttons(choices: Sequence[Choice], x: str, theme: Theme, rows: int) -> dict[str, Any]:
    """Layout of buttons that exchange the x values of all traces and the title of the lowest of so many x axes.

    They restyle x and leave visibility alone, so runs hidden through the legend stay hidden; they work in
    exported HTML, without Python.
    """
    axes = ["xaxis", *(f"xaxis{row}" for row in range(2, rows + 1))]
    buttons = [
        {
            "label": unit,
            "method": "update",
            "args": [
                {"x": [choice[unit] for choice in choices]},
                {f"{axes[-1]}.title.text": X_TITLES[unit]} | {f"{axis}.autorange": True for axis in axes},
            ],
        }
        for unit in get_args(X)
    ]
    menu = {
        "type": "buttons",
        "direction": "right",
        "active": get_args(X).index(x),
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "pad": {"b": 8, "t": 0, "l": 0, "r": 0},
        "bgcolor": theme.button,
        "bordercolor": theme.muted,
        "font": {"color": theme.button_text},
        "buttons": buttons,
    }
    return {"updatemenus": [menu]}


def without_buttons(figure: go.Figure) -> go.Figure:
    """The figure for a page that switches the x axis of all its charts itself."""
    figure.layout.updatemenus = ()
    figure.layout.margin.t -= BUTTONS
    return figure
