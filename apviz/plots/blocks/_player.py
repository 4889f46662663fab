"""Slider and play button that step through the frames of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apviz.plots._style import CAPTION_SIZE, Theme

#: Milliseconds between two frames while playing.
PAUSE: Final = 450


def slider(frames: Sequence[str], theme: Theme, labels: Sequence[str] | None = None, **place: Any) -> dict[str, Any]:
    """Return a slider with one step for each frame, and a line above it that names the current step.

    Args:
        frames: Names of the frames.
        labels: Labels of the steps; the names of the frames by default.
        place: plotly's x, y, anchors, len and pad.
    """
    steps = [
        {"label": label, "method": "animate", "args": [[name], _showing(0)]}
        for name, label in zip(frames, labels or frames, strict=True)
    ]
    return {
        "steps": steps,
        "currentvalue": {"font": {"size": CAPTION_SIZE, "color": theme.ink}, "offset": 10},
        # only the line above shows the labels; along the slider they would not fit
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},
        "bgcolor": theme.button,
        "activebgcolor": theme.muted,
        "bordercolor": theme.muted,
        "tickcolor": theme.muted,
        "ticklen": 4,
        "minorticklen": 4,
    } | place


def play_buttons(theme: Theme, labels: tuple[str, str] = ("►", "❚❚"), **place: Any) -> dict[str, Any]:
    """Return buttons that play and pause.

    Args:
        labels: Labels of the two buttons.
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
    # without a redraw, plotly updates scatter traces only
    return {"mode": "immediate", "fromcurrent": True, "frame": {"duration": duration, "redraw": True}} | {
        "transition": {"duration": 0}
    }
