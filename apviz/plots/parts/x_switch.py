"""The x axis of curves: work, epochs or seconds, switched by buttons in the figure itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

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


def add_x_buttons(figure: go.Figure, choices: Sequence[Choice], x: str, theme: Theme, lowest_row: int) -> None:
    """Buttons that exchange the x values of all traces and the title of the lowest x axis.

    They restyle x and leave visibility alone, so runs hidden through the legend stay hidden; they work in
    exported HTML, without Python.
    """
    lowest = "xaxis" if lowest_row == 1 else f"xaxis{lowest_row}"
    axes = ["xaxis", *(f"xaxis{row}" for row in range(2, lowest_row + 1))]
    figure.update_xaxes(rangemode="tozero")
    figure.update_xaxes(title_text=X_TITLES[x], row=lowest_row, col=1)
    buttons = [
        {
            "label": unit,
            "method": "update",
            "args": [
                {"x": [choice[unit] for choice in choices]},
                {f"{lowest}.title.text": X_TITLES[unit]} | {f"{axis}.autorange": True for axis in axes},
            ],
        }
        for unit in get_args(X)
    ]
    figure.update_layout(
        updatemenus=[
            {
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
        ]
    )


def without_buttons(figure: go.Figure) -> go.Figure:
    """The figure for a page that switches the x axis of all its charts itself."""
    figure.layout.updatemenus = ()
    figure.layout.margin.t -= BUTTONS
    return figure
