"""Steps that play by themselves, or are gone through one by one.

A slider over round numbers, evenly spaced on a log scale: what a preset says is a place of the slider.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ipywidgets

#: those of a decade, ISO 3's series R″10
ROUND: Final = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
_DECADES: Final = range(-6, 6)


def log_slider(description: str, low: float, high: float, **settings: Any) -> ipywidgets.SelectionSlider:
    """A slider from `low` to `high`; a value between two of its numbers is refused, not moved to one of them.

    Args:
        low, high: round numbers themselves, between 1e-6 and 1e5.
        settings: of `ipywidgets.SelectionSlider`.

    Raises:
        ValueError: an end that is none of its numbers.
    """
    every = [float(f"{digits}e{decade}") for decade in _DECADES for digits in ROUND]
    for end in (low, high):
        if end not in every:
            raise ValueError(f"{description} from {low:g} to {high:g}: an end must be one of {', '.join(ROUND)}, ×10ᵏ")
    options = [(f"{each:g}", each) for each in every if low <= each <= high]
    return ipywidgets.SelectionSlider(description=description, options=options, **settings)


class Stepper(ipywidgets.VBox):
    """Buttons to play, pause, go back to the start, a step back and a step on, above a slider over the steps.

    Args:
        description: of the slider.
        most: the last step; the first is 0.
        speed: steps a second.

    Attributes:
        slider: whose value is the step.
        player: ipywidgets' own, linked to the slider in the browser.
    """

    def __init__(self, description: str, most: int, speed: float = 1.0) -> None:
        self.slider = ipywidgets.IntSlider(description=description, min=0, max=most)
        self.player = ipywidgets.Play(min=0, max=most, interval=round(1000 / speed), show_repeat=False)
        ipywidgets.jslink((self.player, "value"), (self.slider, "value"))
        self.back = ipywidgets.Button(icon="step-backward", tooltip="a step back")
        self.on = ipywidgets.Button(icon="step-forward", tooltip="a step on")
        self.back.on_click(lambda button: self._go(-1))
        self.on.on_click(lambda button: self._go(1))
        super().__init__([ipywidgets.HBox([self.player, self.back, self.on]), self.slider])

    def _go(self, steps: int) -> None:
        # the slider keeps to its ends
        self.slider.value += steps

    def speed_slider(self) -> ipywidgets.SelectionSlider:
        """A slider of the speed, which starts at 1."""

        def change(event: Any) -> None:
            self.player.interval = round(1000 / event["new"])

        slider = log_slider("speed", 0.5, 8, value=1)
        slider.observe(change, "value")
        return slider


@dataclass(frozen=True)
class Control:
    """A widget with a value.

    Args:
        says: one sentence on what it does, with the formula; HTML.
    """

    widget: Any
    says: str
    #: shown in place of the widget, if that is a part of something
    shown: Any = None
