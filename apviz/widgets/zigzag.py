"""Two lines and an angle: the residual is dropped onto one line, then onto the other."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from apviz.rkhs.kernels import Floats
from apviz.widgets.live_widget import LiveWidget, places, slider, steps


class Zigzag(LiveWidget):
    """Residual between two lines, leg by leg, and the number of legs by the angle.

    Attributes:
        angle: Angle θ between both lines, in degrees.
        leg: Number of completed legs.
        start: Direction of the first residual, in degrees from the first line.
        share: Share of the residual at which counting stops.

    Examples:
        >>> widget = apviz.widgets.Zigzag(angle=30)
        >>> len(widget.residuals) - 1
        30
        >>> widget.angle = 60
        >>> len(widget.residuals) - 1
        8
    """

    title = "Count the legs"
    text = (
        "Two blocks, drawn as a plane. On the first line lie all residuals that are zero on block 1, on the second all "
        "that are zero on block 2. Solving a block drops the residual onto its line, at a right angle. The solution is "
        "where both lines meet."
    )
    sentence = (
        "At an angle of {angle} degrees a sweep, two legs, leaves cos²θ = [contraction] of ‖r‖<sub>H</sub>. It takes "
        "[legs] legs to {share} of the start; after leg {leg}, [left] is left."
    )

    angle = slider(
        "angle θ", "Angle between the lines, the same as between the spans of both blocks: cos θ = max ⟨u, v⟩.",
        1, 90, 1,
    )  # fmt: skip
    leg = steps("leg", "Leg k makes ‖r⁽ᵏ⁾‖ = cos θ · ‖r⁽ᵏ⁻¹⁾‖, after the first.", 60, 600)
    start = slider(
        "r⁽⁰⁾", "Direction α of r⁽⁰⁾ from the first line: the first leg leaves ‖r⁽¹⁾‖ = cos α.", 0, 90, 1
    )  # fmt: skip
    share = places("until", "Legs are counted until ‖r⁽ᵏ⁾‖ ≤ this share of ‖r⁽⁰⁾‖.", [0.001, 0.01, 0.1, 0.5])

    in_sight = ("leg", "angle")
    opening = "leg"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "a small angle": {"angle": 20, "leg": 12, "start": 50, "share": 0.01},
        "twice that angle": {"angle": 40},
        "a right angle: two legs": {"angle": 90, "leg": 2},
        "almost parallel: thousands of legs": {"angle": 3, "leg": 60},
    }  # fmt: skip

    @property
    def residuals(self) -> Floats:
        """Return the residuals (legs + 1, 2) until only the share is left, by orthogonal projection."""
        lines = [np.array([np.cos(turn), np.sin(turn)]) for turn in (0.0, np.radians(self.angle))]
        start = np.radians(self.start)
        found = [np.array([np.cos(start), np.sin(start)])]
        while np.linalg.norm(found[-1]) > self.share:
            line = lines[(len(found) - 1) % 2]
            found.append(line * (line @ found[-1]))
        return np.array(found)
