"""Projections of a function over three points, whose kernel functions span a space that can be looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from apviz.kernels import KERNELS, kernel_named
from apviz.plots._labels import subscript
from apviz.plots._style import theme_named
from apviz.plots.rkhs import projection_functions, projection_step, two_norms
from apviz.rkhs import RULES, Span, Trajectory, step_geometry, trajectory_on
from apviz.widgets.chart import DragPoints
from apviz.widgets.controls import Control, Stepper, log_slider
from apviz.widgets.teaching_widget import TeachingWidget

#: updates of a trajectory
STEPS: Final = 20
#: range of the axis along which points are dragged: a little beyond where they can be
X_RANGE: Final = (-0.06, 1.06)
#: which points share a block
BLOCKS: Final[dict[str, tuple[tuple[int, ...], ...]]] = {
    "{1, 2} {3}": ((0, 1), (2,)),
    "{1, 3} {2}": ((0, 2), (1,)),
    "{2, 3} {1}": ((1, 2), (0,)),
    "{1} {2} {3}": ((0,), (1,), (2,)),
    "{1, 2} {2, 3}": ((0, 1), (1, 2)),
}


class Projection(TeachingWidget):
    """Shows g, the span of a block, the projection and what is left, in true lengths and angles of H."""

    title = "A projection in the kernel's Hilbert space"
    text = (
        "Three points span three dimensions: what you see is no sketch. g is the function of least norm with "
        "g(xᵢ) = bᵢ, and the kernel includes σ²δ, so that ⟨k(xᵢ, ·), k(xⱼ, ·)⟩ = K[i, j]. An update projects "
        "r⁽ʲ⁻¹⁾ onto the span of its block; r⁽ʲ⁾ is what is left, at a right angle. Turn the picture."
    )
    static_control = "step"
    beside = 2
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "the paper's Figure 2": {
            "step": 1, "speed": 1.0, "picture": "residual", "blocks": "{1, 2} {3}", "rule": "gauss-southwell",
            "x1": 0.2, "x2": 0.5, "x3": 0.75, "b1": 1.0, "b2": 1.3, "b3": 1.2, "kernel": "matern52",
            "lengthscale": 0.25, "noise": 0.01,
        },
        "the Euclidean residual rises": {
            "blocks": "{1} {2} {3}", "rule": "cyclic", "lengthscale": 1.0, "b1": 1.0, "b2": 0.2, "b3": -0.2,
            "noise": 0.1,
        },
        "small angles: slow": {"lengthscale": 2.0, "noise": 0.1, "b1": 0.4, "b2": 1.0, "b3": 0.2},
        "nearly at right angles: one sweep": {"lengthscale": 0.06, "blocks": "{1} {2} {3}", "step": 3},
        "noise opens the angles": {"lengthscale": 2.0, "noise": 1.0, "b1": 0.8, "b2": 2.0, "b3": 1.4},
        "two planes that share a line": {"blocks": "{1, 2} {2, 3}", "lengthscale": 0.5},
    }  # fmt: skip

    def make_controls(self) -> dict[str, Control]:
        stepper = Stepper("step j", STEPS)
        self.player = stepper.player
        place, datum = {"min": 0.0, "max": 1.0, "step": 0.01}, {"min": -2.0, "max": 2.0, "step": 0.1}
        points = {
            f"x{i}": Control(
                ipywidgets.FloatSlider(description=f"x{subscript(i)}", **place),
                f"Drag point {i} among the functions, or here: k(x{subscript(i)}, ·) turns, "
                "cos ∠ = K[i, j] / √(K[i, i] K[j, j]).",
            )
            for i in (1, 2, 3)
        }
        data = {
            f"b{i}": Control(
                ipywidgets.FloatSlider(description=f"b{subscript(i)}", **datum),
                f"Datum {i}, point {i} dragged up or down: moves g = Σ (K⁻¹b)ᵢ k(xᵢ, ·) alone.",
            )
            for i in (1, 2, 3)
        }
        return {
            "step": Control(
                stepper.slider, "Updates done: r⁽ʲ⁾ = r⁽ʲ⁻¹⁾ − proj r⁽ʲ⁻¹⁾, onto span{k(xᵢ, ·): i ∈ I}.", stepper
            ),
            "picture": Control(
                ipywidgets.Dropdown(
                    description="picture", options=[("r goes to 0", "residual"), ("s goes to g", "solution")]
                ),
                "The same step where r⁽ʲ⁾ starts at 0, or where it ends at g = s⁽ʲ⁾ + r⁽ʲ⁾.",
            ),
            **points,
            "lengthscale": Control(
                log_slider("lengthscale", 0.03, 3),
                "ℓ, in units of x: cos ∠ = f(|xᵢ − xⱼ| / ℓ) / (1 + σ²), so a long one makes kernel functions nearly "
                "parallel.",
            ),
            "noise": Control(
                log_slider("noise σ²", 1e-3, 1),
                "σ², part of k as σ²δ, so that ‖k(xᵢ, ·)‖² = 1 + σ²: a direction of its own for every point, which "
                "opens the angles.",
            ),
            "blocks": Control(
                ipywidgets.Dropdown(description="blocks", options=list(BLOCKS)),
                "Which points share a block: one spans a line, two a plane; "
                "proj f = f(X<sub>I</sub>)ᵀ K[I, I]⁻¹ k(X<sub>I</sub>, ·).",
            ),
            "rule": Control(
                ipywidgets.Dropdown(description="rule", options=list(RULES)),
                "Which block next: gauss-southwell takes that of ‖r<sub>I</sub>‖ = max<sub>J</sub> ‖r<sub>J</sub>‖.",
            ),
            **data,
            "kernel": Control(
                ipywidgets.Dropdown(
                    description="kernel", options=[(kind.title, name) for name, kind in KERNELS.items()]
                ),
                "k(x, x′): Matérn-5/2 is (1 + q + q²/3) exp(−q), q = √5 |x − x′| / ℓ.",
            ),
            "speed": Control(stepper.speed_slider(), "While it plays, an update every Δt = 1/speed seconds."),
        }  # fmt: skip

    @property
    def trajectory(self) -> Trajectory:
        """Updates over the blocks, for the controls' values."""
        settings = ("x1", "x2", "x3", "b1", "b2", "b3", "kernel", "lengthscale", "noise", "blocks", "rule")
        return self.computed(settings, self._solve)

    def _solve(self) -> Trajectory:
        x, b = (np.array([self.value(f"{letter}{i}") for i in (1, 2, 3)]) for letter in "xb")
        span = Span(x, kernel_named(self.value("kernel"), self.value("lengthscale"), 1.0), self.value("noise"))
        return trajectory_on(span, b, BLOCKS[self.value("blocks")], rule=self.value("rule"), steps=STEPS)

    def draw(self) -> Sequence[go.Figure]:
        found = self.trajectory
        number = min(self.value("step"), len(found.steps) - 1)
        geometry, picture = step_geometry(found, number), self.value("picture")
        return [
            projection_step(geometry, picture=picture, theme=self.theme),
            projection_functions(geometry, picture=picture, ends=X_RANGE, theme=self.theme),
            two_norms(found, number, theme=self.theme),
        ]

    def drag_points(self) -> Mapping[int, DragPoints]:
        names = [(f"x{i}", f"b{i}") for i in (1, 2, 3)]
        marks = go.Scatter(
            x=[self.value(x) for x, _ in names], y=[self.value(b) for _, b in names], mode="markers",
            name="data b: drag a point", hoverinfo="skip",
            marker={
                "color": theme_named(self.theme).ink, "size": 19, "symbol": "circle-open-dot", "line": {"width": 2},
            },
        )  # fmt: skip
        return {1: DragPoints(marks, tuple(names))}
