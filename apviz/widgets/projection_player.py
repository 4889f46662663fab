"""Player of a regression of few points, one block after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from apviz.kernels import Matern52
from apviz.plots.rkhs import trajectory_step
from apviz.rkhs import RULES, Span, Trajectory, trajectory
from apviz.widgets.controls import Control, Stepper, log_slider
from apviz.widgets.teaching_widget import TeachingWidget

#: updates of a trajectory
STEPS = 30


class ProjectionPlayer(TeachingWidget):
    """Plays updates: s⁽ʲ⁾ and r⁽ʲ⁾ as functions, the chosen block lit, and the posterior mean as the goal."""

    title = "Alternating projection, block by block"
    text = "Every update makes the residual zero on its own block, and disturbs the others a little."
    static_control = "step"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "gauss-southwell": {
            "points": 16, "block_size": 4, "rule": "gauss-southwell", "lengthscale": 0.15, "noise": 0.01,
            "overlap": 0.0, "step": 0, "speed": 1.0,
        },
        "one point at a time": {"block_size": 1},
        "cyclic, long lengthscale": {"rule": "cyclic", "lengthscale": 0.4},
        "with a margin": {"overlap": 0.5},
    }  # fmt: skip

    def make_controls(self) -> dict[str, Control]:
        slow = {"continuous_update": False}
        stepper = Stepper("step j", STEPS)
        self.player = stepper.player
        return {
            "step": Control(
                stepper.slider, "Updates done: s⁽ʲ⁺¹⁾ = s⁽ʲ⁾ + k(·, X<sub>I</sub>) K[I, I]⁻¹ r<sub>I</sub>.", stepper
            ),
            "speed": Control(stepper.speed_slider(), "While it plays, an update every Δt = 1/speed seconds."),
            "points": Control(
                ipywidgets.IntSlider(description="points n", min=8, max=40, **slow),
                "How many data, xᵢ ~ U(0, 1) and bᵢ = sin(9xᵢ) e<sup>−xᵢ</sup> + 0.1 εᵢ with εᵢ ~ N(0, 1): K is n × n.",
            ),
            "block_size": Control(
                ipywidgets.IntSlider(description="block b", min=1, max=20, **slow),
                "Points a block owns, the last of the m = ⌈n/b⌉ blocks what is left; one update solves with K[I, I], "
                "b × b.",
            ),
            "rule": Control(
                ipywidgets.Dropdown(
                    description="rule", options=list(RULES)
                ),
                "Which block next: gauss-southwell takes that of ‖r<sub>I</sub>‖ = max<sub>J</sub> ‖r<sub>J</sub>‖.",
            ),
            "overlap": Control(
                ipywidgets.FloatSlider(description="overlap", min=0, max=1, step=0.25, **slow),
                "Margin a block also solves on, as a part of its own points: an update's work = (1 + overlap)·b/n.",
            ),
            "lengthscale": Control(
                log_slider("lengthscale", 0.03, 1, **slow),
                "How far points influence one another: Matérn-5/2 is (1 + q + q²/3) exp(−q), q = √5 |x − x′| / ℓ.",
            ),
            "noise": Control(
                log_slider("noise σ²", 1e-4, 1, **slow),
                "σ², part of the kernel as σ²δ; it keeps λmin(K) ≥ σ².",
            ),
        }  # fmt: skip

    @property
    def trajectory(self) -> Trajectory:
        """Updates over the blocks, for the controls' values."""
        return self.computed(("points", "block_size", "rule", "overlap", "lengthscale", "noise"), self._solve)

    def _solve(self) -> Trajectory:
        n = self.value("points")
        draws = np.random.default_rng(0)
        x = np.sort(draws.uniform(0, 1, n))
        b = np.sin(9 * x) * np.exp(-x) + 0.1 * draws.standard_normal(n)
        span = Span(x, Matern52(lengthscale=self.value("lengthscale")), self.value("noise"))
        size, rule, overlap = min(n, self.value("block_size")), self.value("rule"), self.value("overlap")
        return trajectory(span, b, block_size=size, rule=rule, overlap=overlap, steps=STEPS)

    def draw(self) -> Sequence[go.Figure]:
        found = self.trajectory
        return [trajectory_step(found, min(self.value("step"), len(found.steps) - 1), theme=self.theme)]
