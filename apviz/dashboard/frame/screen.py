"""How wide a visitor's screen is, which only the browser knows."""

from __future__ import annotations

import param
from panel.custom import JSComponent

#: pixels below which the settings would cover the page
PHONE = 600


class Screen(JSComponent):
    """Nothing to see."""

    pixels = param.Integer(0, doc="of its width; 0 until the browser has said it")

    _esm = "export function render({ model }) { model.pixels = window.innerWidth; }"

    @property
    def is_phone(self) -> bool:
        return bool(0 < self.pixels < PHONE)
