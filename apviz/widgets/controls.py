"""Controls: an explained widget, a slider over round numbers, and steps that play or are gone through one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ipywidgets

#: round numbers of a decade, those of ISO 3's series R″10
ROUND_NUMBERS: Final = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
_DECADES: Final = range(-6, 6)


def round_numbers(what: str, low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, evenly spaced on a log scale.

    Args:
        what: has them, for messages.
        low, high: round numbers themselves, between 1e-6 and 1e5.

    Raises:
        ValueError: an end that is none of them.
    """
    every = [float(f"{digits}e{decade}") for decade in _DECADES for digits in ROUND_NUMBERS]
    for end in (low, high):
        if end not in every:
            known = ", ".join(ROUND_NUMBERS)
            raise ValueError(f"{what} from {low:g} to {high:g}: an end must be one of {known}, ×10ᵏ")
    return [each for each in every if low <= each <= high]


def log_slider(description: str, low: float, high: float, **settings: Any) -> ipywidgets.SelectionSlider:
    """Slider over round numbers from `low` to `high`, evenly spaced on a log scale.

    A value between two of them is refused, not moved to one of them: what a preset says is a place of the slider.

    Args:
        low, high: round numbers themselves, between 1e-6 and 1e5.
        settings: of `ipywidgets.SelectionSlider`.

    Raises:
        ValueError: an end that is none of its numbers.
    """
    options = [(f"{each:g}", each) for each in round_numbers(description, low, high)]
    return ipywidgets.SelectionSlider(description=description, options=options, **settings)


class Stepper(ipywidgets.VBox):
    """Buttons to play, pause, go back to the start, a step back and a step forward, above a slider over the steps.

    Args:
        description: of the slider.
        last: the last step; the first is 0.
        speed: steps a second.

    Attributes:
        slider: whose value is the step.
        player: ipywidgets' own, linked to the slider in the browser.
    """

    def __init__(self, description: str, last: int, speed: float = 1.0) -> None:
        self.slider = ipywidgets.IntSlider(description=description, min=0, max=last)
        self.player = ipywidgets.Play(min=0, max=last, interval=round(1000 / speed), show_repeat=False)
        ipywidgets.jslink((self.player, "value"), (self.slider, "value"))
        self.back = ipywidgets.Button(icon="step-backward", tooltip="a step back")
        self.forward = ipywidgets.Button(icon="step-forward", tooltip="a step on")
        self.back.on_click(lambda button: self._go(-1))
        self.forward.on_click(lambda button: self._go(1))
        super().__init__([ipywidgets.HBox([self.player, self.back, self.forward]), self.slider])

    def _go(self, steps: int) -> None:
        # the slider keeps to its ends
        self.slider.value += steps

    def speed_slider(self) -> ipywidgets.SelectionSlider:
        """Slider of the speed in steps a second, which starts at 1 and moves the player."""

        def change(event: Any) -> None:
            self.player.interval = round(1000 / event["new"])

        slider = log_slider("speed", 0.5, 8, value=1)
        slider.observe(change, "value")
        return slider


@dataclass(frozen=True)
class Control:
    """Widget with a value, and what it does in words.

    Args:
        explanation: one sentence on what it does, with the formula; HTML.
        container: shown in place of the widget, where that is a part of it.
    """

    widget: Any
    explanation: str
    container: Any = None
