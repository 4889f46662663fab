"""Contrast of text in the colours of methods."""

from __future__ import annotations

import numpy as np
import pytest

from apviz.plots._style import COLORS, OTHERS, THEMES, readable


def contrast(one: str, other: str) -> float:
    """Return the contrast of WCAG 2.2: (L₁ + 0.05) ÷ (L₂ + 0.05), with the relative luminance L."""

    def luminance(color: str) -> float:
        values = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("place", "theme"), [*enumerate(THEMES.values())])
def test_text_in_the_colour_of_a_method_has_the_contrast_of_level_aa(place, theme):
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    for pair in (*COLORS.values(), *OTHERS):
        assert contrast(readable(pair[place], theme), theme.paper) >= 4.5
    assert readable(theme.ink, theme) == theme.ink
