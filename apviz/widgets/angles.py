"""Angles decide the speed: two blocks, the angles between their spans, and the contraction of a sweep."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
import traitlets

from apviz.kernels import kernel_named
from apviz.rkhs import Span, Trajectory, TwoBlocks, trajectory_on, two_blocks, worst_case_rhs
from apviz.widgets.live_widget import LiveWidget, choice, kernel_choice, log_slider, slider

#: Number of sweeps of a trajectory, with one update on each block; most points per block.
SWEEPS: Final = 30
MAX_POINTS: Final = 12


class Angles(LiveWidget):
    """Two blocks on a line, with the principal angles between their spans, and predicted and measured contraction.

    Attributes:
        distance: Distance of the blocks, in units of x.
        shared: Number of points that both blocks contain; at most 2·points − 2.
        lengthscale: Lengthscale of k, in units of x; the outputscale is 1.
        noise: Noise σ² of k.
        kernel: Name of k.
        points: Number of points per block.
        data: `smooth`, `random`, or `worst`.

    Examples:
        >>> widget = apviz.widgets.Angles(lengthscale=1.0, noise=0.1)
        >>> widget.distance = 0.5
        >>> errors = widget.trajectory.errors()
        >>> round(float(errors[2] / errors[0]), 3)  # of ‖r‖_H, after a sweep
        0.609
    """

    title = "Angles decide the speed"
    text = (
        "The solver projects onto two blocks in turn. After the first sweep, each sweep leaves at most cos²θ of "
        "‖r‖<sub>H</sub>, and for almost all data exactly that in the limit. θ is the Friedrichs angle between the "
        "blocks' spans: the smallest angle outside the part they share. The closer to 90°, the faster."
    )
    sentence = (
        "At distance {distance} and lengthscale {lengthscale} with noise σ² = {noise}, the spans meet at θ = [theta]: "
        "a sweep leaves cos²θ = [contraction] in the worst case; [measured]."
    )

    distance = slider(
        "distance",
        "d = xₚ₊₁ − xₚ, from the last of the p points of the first block to the first of the second; "
        "neighbours are 0.1 apart.",
        0.02, 1.5, 0.02,
    )  # fmt: skip
    shared = slider(
        "overlap",
        "Number of points in both blocks, the nearest ones: their functions are in both spans, at 0°, so the next "
        "angle counts, Friedrichs', cos θ = max ⟨u, v⟩ over u and v of norm 1 orthogonal to these functions.",
        0, 2 * MAX_POINTS - 2, 1,
    )  # fmt: skip
    shared.max = None  # larger numbers are reduced to the largest that the points allow
    lengthscale = log_slider(
        "lengthscale",
        "ℓ, in units of x: k(x, x′) = f(|x − x′| / ℓ), so a longer ℓ makes functions of the two spans more "
        "alike.",
        0.03, 3,
    )  # fmt: skip
    noise = log_slider(
        "noise σ²",
        "σ², part of k as σ²δ, so that ‖k(xᵢ, ·)‖² = 1 + σ²: every point has its own direction, which opens the "
        "angles.",
        1e-4, 1,
    )  # fmt: skip
    points = slider(
        "points", "Points per block, p, with n = 2p in total: each span has p dimensions, more with overlap.",
        2, MAX_POINTS, 1,
    )  # fmt: skip
    kernel = kernel_choice()
    data = choice(
        "data b",
        "The error depends on b, the angles do not: smooth is bᵢ = sin 5xᵢ + cos 3xᵢ, random is bᵢ ~ N(0, 1), "
        "and the worst case, with g in the plane of u and v orthogonal to the first span, leaves the maximum, "
        "‖r‖<sub>H</sub> = c²ᵏ⁻¹‖g‖<sub>H</sub> after k sweeps, c = cos θ.",
        {"smooth": "a smooth function", "random": "random numbers", "worst": "the worst case"},
    )

    in_sight = ("distance", "shared")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "neighbours": {
            "points": 6, "distance": 0.1, "shared": 0, "lengthscale": 0.25, "noise": 0.01, "kernel": "matern52",
            "data": "smooth",
        },
        "neighbours that share two points": {"shared": 2},
        "far apart: almost at right angles": {"distance": 0.8},
        "long lengthscale: a small angle": {"lengthscale": 1.0, "noise": 0.1},
        "more noise: opens the angle": {"lengthscale": 1.0, "noise": 1.0},
        "Matérn-1/2: one angle, the rest 90°": {"kernel": "matern12", "noise": 0.0001},
        "the worst data": {"data": "worst"},
    }  # fmt: skip

    @traitlets.validate("shared")
    def _leave_each_block_a_point(self, proposal: Any) -> int:
        # a block with all points would leave the other nothing to show
        limit: int = 2 * self.points - 2
        return min(int(proposal["value"]), limit)

    @traitlets.observe("points")
    def _limit_shared(self, change: Any) -> None:
        self.shared = min(self.shared, 2 * self.points - 2)

    @classmethod
    def given(cls) -> dict[str, Any]:
        return {"draws": np.random.default_rng(0).standard_normal(2 * MAX_POINTS).tolist()}

    @property
    def blocks(self) -> TwoBlocks:
        """Return the points of both blocks."""
        return two_blocks(self.points, self.distance, self.shared)

    @property
    def trajectory(self) -> Trajectory:
        """Return the sweeps over both blocks, computed by the reference."""
        blocks = self.blocks
        span = Span(blocks.x, kernel_named(self.kernel, self.lengthscale, 1.0), self.noise)
        sets = (blocks.first, blocks.second)
        if self.data == "worst":
            b = worst_case_rhs(span, *sets)
        elif self.data == "smooth":
            b = np.sin(5 * blocks.x) + np.cos(3 * blocks.x)
        else:
            b = np.array(self.given()["draws"][: span.n])
        return trajectory_on(span, b, sets, rule="cyclic", steps=2 * SWEEPS)
