"""Projections of a function over three points, whose kernel functions span a visible space of three dimensions."""

from __future__ import annotations

from itertools import islice
from typing import Any, ClassVar, Final

import numpy as np
import traitlets

from apviz.kernels import kernel_named
from apviz.rkhs import RULES, Span, Trajectory, trajectory_on
from apviz.rkhs.rules import chosen_blocks
from apviz.widgets.live_widget import LiveWidget, choice, kernel_choice, log_slider, steps

#: Number of updates of a trajectory.
STEPS: Final = 20
#: Largest absolute value of the data.
MOST: Final = 2.0
#: Points of each block, by name of the partition.
BLOCKS: Final[dict[str, tuple[tuple[int, ...], ...]]] = {
    "{1, 2} {3}": ((0, 1), (2,)),
    "{1, 3} {2}": ((0, 2), (1,)),
    "{2, 3} {1}": ((1, 2), (0,)),
    "{1} {2} {3}": ((0,), (1,), (2,)),
    "{1, 2} {2, 3}": ((0, 1), (1, 2)),
}


class Projection(LiveWidget):
    """g, the span of a block, the projection and the residual, with the true lengths and angles of H.

    Attributes:
        step: Number of completed updates, 0 to 20.
        points: (3,) positions x from 0 to 1.
        data: (3,) data b from −2 to 2.
        lengthscale: Lengthscale of k, in units of x; the outputscale is 1.
        noise: Noise σ² of k.
        kernel: Name of k.
        blocks: Partition of the points into blocks.
        rule: Rule that selects the next block.
        picture: `residual` draws r⁽ʲ⁾ from 0, `solution` draws it up to g.

    Examples:
        >>> widget = apviz.widgets.Projection(step=2)
        >>> widget.points = [0.1, 0.5, 0.9]
        >>> [step.block for step in widget.trajectory.steps[: widget.step + 1]]
        [-1, 0, 1]
    """

    title = "A projection in the kernel's Hilbert space"
    text = (
        "Three points span three dimensions, so this picture is exact. g is the function of least norm with "
        "g(xᵢ) = bᵢ, and the kernel includes σ²δ, so that ⟨k(xᵢ, ·), k(xⱼ, ·)⟩ = K[i, j]. An update projects "
        "r⁽ʲ⁻¹⁾ onto the span of its block; r⁽ʲ⁾ is the rest, orthogonal to that span."
    )
    sentence = (
        "Step {step} of [steps]: [what]; ‖r‖<sub>H</sub> is [left] of ‖g‖<sub>H</sub>, with lengthscale {lengthscale} "
        "and noise σ² = {noise}."
    )

    step = steps("step j", "Updates done: r⁽ʲ⁾ = r⁽ʲ⁻¹⁾ − proj r⁽ʲ⁻¹⁾, onto span{k(xᵢ, ·): i ∈ I}.", STEPS)
    lengthscale = log_slider(
        "lengthscale",
        "ℓ, in units of x: cos ∠ = f(|xᵢ − xⱼ| / ℓ) / (1 + σ²), so a long one makes kernel functions nearly "
        "parallel.",
        0.03, 3,
    )  # fmt: skip
    noise = log_slider(
        "noise σ²",
        "σ², part of k as σ²δ, so that ‖k(xᵢ, ·)‖² = 1 + σ²: every point has its own direction, which opens the "
        "angles.",
        1e-3, 1,
    )  # fmt: skip
    picture = choice(
        "picture", "Draw r⁽ʲ⁾ from 0, or from s⁽ʲ⁾ to g = s⁽ʲ⁾ + r⁽ʲ⁾.",
        {"residual": "r goes to 0", "solution": "s goes to g"},
    )  # fmt: skip
    blocks = choice(
        "blocks",
        "Points of each block: one point spans a line, two span a plane; "
        "proj f = f(X<sub>I</sub>)ᵀ K[I, I]⁻¹ k(X<sub>I</sub>, ·).",
        {name: name for name in BLOCKS},
    )
    rule = choice(
        "rule",
        "Block selection: gauss-southwell takes the block with ‖r<sub>I</sub>‖ = max<sub>J</sub> ‖r<sub>J</sub>‖.",
        {name: name for name in RULES},
    )
    kernel = kernel_choice()

    in_sight = ("step", "lengthscale")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "the paper's Figure 2": {
            "step": 1, "picture": "residual", "blocks": "{1, 2} {3}", "rule": "gauss-southwell",
            "points": [0.2, 0.5, 0.75], "data": [1.0, 1.3, 1.2], "kernel": "matern52", "lengthscale": 0.25,
            "noise": 0.01,
        },
        "the Euclidean residual rises": {
            "blocks": "{1} {2} {3}", "rule": "cyclic", "lengthscale": 1.0, "data": [1.0, 0.2, -0.2], "noise": 0.1,
        },
        "small angles: slow": {"lengthscale": 2.0, "noise": 0.1, "data": [0.4, 1.0, 0.2]},
        "nearly at right angles: one sweep": {"lengthscale": 0.06, "blocks": "{1} {2} {3}", "step": 3},
        "noise opens the angles": {"lengthscale": 2.0, "noise": 1.0, "data": [0.8, 2.0, 1.4]},
        "two planes that share a line": {"blocks": "{1, 2} {2, 3}", "lengthscale": 0.5},
    }  # fmt: skip

    points = traitlets.List(traitlets.Float(min=0.0, max=1.0), minlen=3, maxlen=3).tag(sync=True)
    data = traitlets.List(traitlets.Float(min=-MOST, max=MOST), minlen=3, maxlen=3).tag(sync=True)

    @classmethod
    def given(cls) -> dict[str, Any]:
        counts = sorted({len(sets) for sets in BLOCKS.values()})
        return {
            "sets": BLOCKS,
            "limits": {"points": [0, 1], "data": [-MOST, MOST]},
            "orders": {
                rule: {str(m): list(islice(chosen_blocks(rule, m), STEPS)) for m in counts}
                for rule in ("random", "shuffled")
            },
        }

    @property
    def trajectory(self) -> Trajectory:
        """Return the updates over the blocks, computed by the reference."""
        span = Span(self.points, kernel_named(self.kernel, self.lengthscale, 1.0), self.noise)
        return trajectory_on(span, np.array(self.data), BLOCKS[self.blocks], rule=self.rule, steps=STEPS)
