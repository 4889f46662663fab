"""Player of a regression on few points, block by block."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
import traitlets

from apviz.kernels import Matern52
from apviz.rkhs import RULES, Span, Trajectory, trajectory
from apviz.widgets.live_widget import LiveWidget, choice, log_slider, slider, steps

#: Number of updates of a trajectory; most points; largest absolute value of the data.
STEPS: Final = 30
MAX_POINTS: Final = 40
MOST: Final = 2.0


def _drawn() -> tuple[list[float], list[float]]:
    """Return positions and data of all points, in the order of the draws; fewer points are the first of them."""
    draws = np.random.default_rng(0)
    x = draws.uniform(0, 1, MAX_POINTS)
    b = np.sin(9 * x) * np.exp(-x) + 0.1 * draws.standard_normal(MAX_POINTS)
    return x.tolist(), b.round(2).tolist()


PLACES, DATA = _drawn()


class ProjectionPlayer(LiveWidget):
    """Player of updates: s⁽ʲ⁾ and r⁽ʲ⁾ as functions, the selected block, the matrix, and the posterior mean.

    Attributes:
        step: Number of completed updates, 0 to 30.
        points: n, the number of points used, from 8 to 40: the first that were drawn.
        data: (40,) b of all points, in the order of the draws, from −2 to 2.
        block_size: Number of points a block owns.
        rule: Rule that selects the next block.
        overlap: Margin that a block also solves on, relative to the points it owns.
        lengthscale: Lengthscale of the Matérn-5/2 kernel, in units of x; the outputscale is 1.
        noise: Noise σ² of the system.
        speed: Updates per second during play.

    Examples:
        >>> widget = apviz.widgets.ProjectionPlayer(points=12, block_size=4, rule="cyclic")
        >>> [step.block for step in widget.trajectory.steps[:5]]
        [-1, 0, 1, 2, 0]
        >>> bool((abs(widget.trajectory.steps[1].residual[:4]) < 1e-12).all())  # zero on its own block
        True
    """

    title = "Alternating projection, block by block"
    text = "Every update makes the residual zero on its own block, and disturbs the others a little."
    sentence = (
        "Step {step} of [steps]: [what]; ‖r‖<sub>H</sub> is [left] of its start, Euclidean ‖r‖ [euclidean], with "
        "{points} points in blocks of {block_size}, lengthscale {lengthscale} and noise σ² = {noise}."
    )

    step = steps("step j", "Updates done: s⁽ʲ⁺¹⁾ = s⁽ʲ⁾ + k(·, X<sub>I</sub>) K[I, I]⁻¹ r<sub>I</sub>.", STEPS)
    rule = choice(
        "rule",
        "Block selection: gauss-southwell takes the block with ‖r<sub>I</sub>‖ = max<sub>J</sub> ‖r<sub>J</sub>‖.",
        {name: name for name in RULES},
    )
    points = slider(
        "points n",
        "Number of points, with xᵢ ~ U(0, 1) and bᵢ = sin(9xᵢ) e<sup>−xᵢ</sup> + 0.1 εᵢ, εᵢ ~ N(0, 1), until you "
        "drag one: K is n × n.",
        8, MAX_POINTS, 1,
    )  # fmt: skip
    block_size = slider(
        "block b",
        "Points per block, fewer in the last of the m = ⌈n/b⌉ blocks; one update solves with K[I, I], b × b.",
        1, 20, 1,
    )  # fmt: skip
    overlap = slider(
        "overlap",
        "Margin a block also solves on, relative to its own points: an update's work = (1 + overlap)·b/n.",
        0, 1, 0.25,
    )  # fmt: skip
    lengthscale = log_slider(
        "lengthscale",
        "How far points influence one another: Matérn-5/2 is (1 + q + q²/3) exp(−q), q = √5 |x − x′| / ℓ.",
        0.03, 1,
    )  # fmt: skip
    noise = log_slider("noise σ²", "σ², part of the kernel as σ²δ; it keeps λmin(K) ≥ σ².", 1e-4, 1)
    speed = log_slider("speed", "Updates per second during play: one every Δt = 1/speed seconds.", 0.5, 8)

    in_sight = ("step", "rule")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "gauss-southwell": {
            "points": 16, "data": DATA, "block_size": 4, "rule": "gauss-southwell", "lengthscale": 0.15,
            "noise": 0.01, "overlap": 0.0, "step": 0, "speed": 1.0,
        },
        "one point at a time": {"block_size": 1},
        "cyclic, long lengthscale": {"rule": "cyclic", "lengthscale": 0.4},
        "with a margin": {"overlap": 0.5},
    }  # fmt: skip

    data = traitlets.List(traitlets.Float(min=-MOST, max=MOST), minlen=MAX_POINTS, maxlen=MAX_POINTS).tag(sync=True)

    @classmethod
    def given(cls) -> dict[str, Any]:
        return {"x": PLACES, "limits": {"data": [-MOST, MOST]}}

    @property
    def trajectory(self) -> Trajectory:
        """Return the updates over the blocks of the points in increasing order, computed by the reference."""
        x, b = np.array(PLACES[: self.points]), np.array(self.data[: self.points])
        order = np.argsort(x)
        span = Span(x[order], Matern52(lengthscale=self.lengthscale), self.noise)
        size = min(self.points, self.block_size)
        return trajectory(span, b[order], block_size=size, rule=self.rule, overlap=self.overlap, steps=STEPS)
