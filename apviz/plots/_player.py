"""Slider and play button that step through the frames of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apviz.plots._style import CAPTION_SIZE, Theme

#: milliseconds between two frames while playing
PAUSE: Final = 450
#: pixels of the slider with the line above it that says where it is
PLAYER: Final = 62
#: of two buttons with one sign each
BUTTONS_WIDTH: Final = 106


def slider(frames: Sequence[str], theme: Theme, labels: Sequence[str] | None = None, **place: Any) -> dict[str, Any]:
    """Slider with one step for each frame, and a line above it that says at which it is.

    Args:
        frames: their names.
        labels: of the steps; the names, where there are none.
        place: plotly's x, y, anchors, len and pad.
    """
    steps = [
        {"label": label, "method": "animate", "args": [[name], _showing(0)]}
        for name, label in zip(frames, labels or frames, strict=True)
    ]
    return {
        "steps": steps,
        "currentvalue": {"font": {"size": CAPTION_SIZE, "color": theme.ink}, "offset": 10},
        # the labels are for the line above; along the slider they would not fit
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},
        "bgcolor": theme.button,
        "activebgcolor": theme.muted,
        "bordercolor": theme.muted,
        "tickcolor": theme.muted,
        "ticklen": 4,
        "minorticklen": 4,
    } | place


def play_buttons(theme: Theme, labels: tuple[str, str] = ("►", "❚❚"), **place: Any) -> dict[str, Any]:
    """Buttons that play and pause.

    Args:
        labels: of the two.
        place: plotly's x, y, anchors and pad.
    """
    return {
        "type": "buttons",
        "direction": "right",
        "showactive": False,
        "bgcolor": theme.button,
        "bordercolor": theme.muted,
        "font": {"color": theme.button_text},
        "buttons": [
            {"label": labels[0], "method": "animate", "args": [None, _showing(PAUSE)]},
            {"label": labels[1], "method": "animate", "args": [[None], _showing(0)]},
        ],
    } | place


def _showing(duration: int) -> dict[str, Any]:
    # without a redraw plotly changes scatters only
    return {"mode": "immediate", "fromcurrent": True, "frame": {"duration": duration, "redraw": True}} | {
        "transition": {"duration": 0}
    }
