"""Steps that play by themselves, or are gone through one by one."""

from __future__ import annotations

from typing import Any

import ipywidgets

from apviz.widgets.log_slider import log_slider


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
