"""The projection player: a regression of few points, one block after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from apviz.kernels import Matern52
from apviz.plots.rkhs import walk_step
from apviz.rkhs import Span, Walk, walk
from apviz.widgets.lesson import Control, Lesson

#: updates of a walk
STEPS = 30


class ProjectionPlayer(Lesson):
    """s⁽ʲ⁾ and r⁽ʲ⁾ as functions, the chosen block lit, and the posterior mean as the goal; play, pause, speed."""

    title = "Alternating projection, block by block"
    text = "Every update makes the residual zero on its own block, and disturbs the others a little."
    scrub = "step"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "gauss-southwell": {
            "points": 16, "block_size": 4, "rule": "gauss-southwell", "lengthscale": 0.15, "noise": 0.01,
            "overlap": 0.0, "step": 0,
        },
        "one point at a time": {"block_size": 1},
        "cyclic, long lengthscale": {"rule": "cyclic", "lengthscale": 0.4},
        "with a margin": {"overlap": 0.5},
    }  # fmt: skip

    def make_controls(self) -> dict[str, Control]:
        slow = {"continuous_update": False}
        player = ipywidgets.Play(min=0, max=STEPS, interval=700)
        step = ipywidgets.IntSlider(description="step j", min=0, max=STEPS)
        ipywidgets.jslink((player, "value"), (step, "value"))
        self.player = player
        speed = ipywidgets.FloatLogSlider(description="speed", base=2, min=-1, max=3, value=1)
        speed.observe(lambda change: setattr(player, "interval", round(700 / change["new"])), "value")
        return {
            "step": Control(
                step, "Updates done: s⁽ʲ⁺¹⁾ = s⁽ʲ⁾ + k(·, X_I) K[I, I]⁻¹ r_I.", ipywidgets.HBox([player, step])
            ),
            "speed": Control(speed, "Updates a second of the player below."),
            "points": Control(
                ipywidgets.IntSlider(description="points n", min=8, max=40, **slow), "How many data: K is n × n."
            ),
            "block_size": Control(
                ipywidgets.IntSlider(description="block b", min=1, max=20, **slow),
                "Points a block owns; one update solves with K[I, I], b × b.",
            ),
            "rule": Control(
                ipywidgets.Dropdown(
                    description="rule", options=["gauss-southwell", "cyclic", "random", "shuffled"]
                ),
                "Which block next: gauss-southwell takes the one with the largest ‖r_I‖.",
            ),
            "overlap": Control(
                ipywidgets.FloatSlider(description="overlap", min=0, max=1, step=0.25, **slow),
                "Margin a block also solves on, as a part of its own points.",
            ),
            "lengthscale": Control(
                ipywidgets.FloatLogSlider(description="lengthscale", base=10, min=-1.5, max=0, **slow),
                "ℓ of the Matérn-5/2 kernel: how far points influence one another.",
            ),
            "noise": Control(
                ipywidgets.FloatLogSlider(description="noise σ²", base=10, min=-4, max=0, **slow),
                "σ², part of the kernel as σ²δ; it keeps λmin(K) ≥ σ².",
            ),
        }  # fmt: skip

    @property
    def walk(self) -> Walk:
        """The walk of the controls."""
        n = self.value("points")
        draws = np.random.default_rng(0)
        x = np.sort(draws.uniform(0, 1, n))
        b = np.sin(9 * x) * np.exp(-x) + 0.1 * draws.standard_normal(n)
        key = (n, *(self.value(name) for name in ("block_size", "rule", "overlap", "lengthscale", "noise")))
        if getattr(self, "_walked", (None,))[0] != key:
            span = Span(x, Matern52(self.value("lengthscale")), self.value("noise"))
            blocks = -(-n // min(n, self.value("block_size")))
            found = walk(span, b, blocks=blocks, rule=self.value("rule"), overlap=self.value("overlap"), steps=STEPS)
            self._walked = (key, found)
        return self._walked[1]

    def draw(self) -> Sequence[go.Figure]:
        found = self.walk
        return [walk_step(found, min(self.value("step"), len(found.steps) - 1), theme=self.theme)]
