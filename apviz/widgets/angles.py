"""Angles decide the speed: two blocks, the angles between their spans, and the contraction of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from apviz.kernels import KERNELS, kernel_named
from apviz.plots.rkhs import angle_fan, closest_functions, sweep_errors
from apviz.rkhs import (
    Span,
    Trajectory,
    TwoBlocks,
    friedrichs_angle,
    principal_angles,
    principal_pair,
    sweeps_of,
    trajectory_on,
    two_blocks,
    worst_case_rhs,
)  # fmt: skip
from apviz.widgets.controls import Control, log_slider
from apviz.widgets.teaching_widget import TeachingWidget

#: sweeps of a trajectory, each an update on either block
SWEEPS: Final = 30


class Angles(TeachingWidget):
    """Shows two blocks on a line, the principal angles between their spans, predicted and measured contraction."""

    title = "Angles decide the speed"
    text = (
        "Two blocks are projected onto in turn. After the first sweep none leaves more than cos²θ of ‖r‖<sub>H</sub>, "
        "and in the end, for almost all data, each leaves just that; θ is the Friedrichs angle between the blocks' "
        "spans, the smallest that is not of what both hold. The closer to 90°, the faster."
    )
    static_control = "shared"
    beside = 2
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

    def make_controls(self) -> dict[str, Control]:
        points = ipywidgets.IntSlider(description="points", min=2, max=12)
        shared = ipywidgets.IntSlider(description="overlap", min=0, max=22)

        def limit(change: Any) -> None:
            # a block that held everything would leave nothing to see
            shared.max = 2 * change["new"] - 2

        points.observe(limit, "value")
        return {
            "distance": Control(
                ipywidgets.FloatSlider(description="distance", min=0.02, max=1.5, step=0.02),
                "d = xₚ₊₁ − xₚ, from the last of the p points of the first block to the first of the second; "
                "neighbours are 0.1 apart.",
            ),
            "shared": Control(
                shared,
                "Points that both blocks hold, the nearest ones: their functions lie in both spans, at 0°, and what "
                "counts is the next angle, Friedrichs', cos θ = max ⟨u, v⟩, u and v of norm 1 and at right angles to "
                "those.",
            ),
            "lengthscale": Control(
                log_slider("lengthscale", 0.03, 3),
                "ℓ, in units of x: k(x, x′) = f(|x − x′| / ℓ), so the longer, the more alike are functions of the two "
                "spans.",
            ),
            "noise": Control(
                log_slider("noise σ²", 1e-4, 1),
                "σ², part of k as σ²δ, so that ‖k(xᵢ, ·)‖² = 1 + σ²: every point has a direction of its own, which "
                "opens the angles.",
            ),
            "points": Control(
                points, "p points a block owns, n = 2p in all: its span has p dimensions, and with overlap more."
            ),
            "kernel": Control(
                ipywidgets.Dropdown(
                    description="kernel", options=[(kind.title, name) for name, kind in KERNELS.items()]
                ),
                "k(x, x′): Matérn-5/2 is (1 + q + q²/3) exp(−q), q = √5 |x − x′| / ℓ.",
            ),
            "data": Control(
                ipywidgets.Dropdown(
                    description="data b",
                    options=[("a smooth function", "smooth"), ("random numbers", "random"), ("the worst", "worst")],
                ),
                "Angles do not depend on b, the error does: smooth is bᵢ = sin 5xᵢ + cos 3xᵢ, random is bᵢ ~ N(0, 1), "
                "and the worst, whose g is in the plane of u and v at right angles to the first span, leaves "
                "‖r‖<sub>H</sub> = c²ᵏ⁻¹‖g‖<sub>H</sub> after k sweeps, c = cos θ, and none leaves more.",
            ),
        }  # fmt: skip

    @property
    def blocks(self) -> TwoBlocks:
        """Points of both blocks, for the controls' values."""
        return two_blocks(self.value("points"), self.value("distance"), self.value("shared"))

    @property
    def trajectory(self) -> Trajectory:
        """Sweeps over both blocks, for the controls' values."""
        return self.computed(list(self.controls), self._solve)

    def _solve(self) -> Trajectory:
        blocks = self.blocks
        span = Span(blocks.x, kernel_named(self.value("kernel"), self.value("lengthscale"), 1.0), self.value("noise"))
        sets = (blocks.first, blocks.second)
        if self.value("data") == "worst":
            b = worst_case_rhs(span, *sets)
        elif self.value("data") == "smooth":
            b = np.sin(5 * blocks.x) + np.cos(3 * blocks.x)
        else:
            b = np.random.default_rng(0).standard_normal(span.n)
        return trajectory_on(span, b, sets, rule="cyclic", steps=2 * SWEEPS)

    def draw(self) -> Sequence[go.Figure]:
        found, blocks = self.trajectory, self.blocks
        span, sets = found.span, (blocks.first, blocks.second)
        angles = principal_angles(span, *sets)
        return [
            closest_functions(
                span, blocks, principal_pair(span, *sets), friedrichs_angle(span, *sets), theme=self.theme
            ),
            angle_fan(span, angles, len(blocks.shared), theme=self.theme),
            sweep_errors(found, sweeps_of(found), theme=self.theme),
        ]
