"""CG and alternating projection compared: two paths to one solution, error by eigenvector, both over work; a bet."""

from __future__ import annotations

from typing import Any, ClassVar, Final, get_args

import numpy as np
import traitlets

from apviz.kernels import Matern52
from apviz.rkhs import RULES, EigenPath, Plane, Span, eigen_path, toy_problem, trajectory
from apviz.rkhs.kernels import Floats
from apviz.widgets.live_widget import LiveWidget, choice, log_slider, slider, steps

#: Number of CG iterations, equal to the work of alternating projection; most points.
WORK: Final = 24
MAX_POINTS: Final = 80
#: Most generator words that a normal number takes.
_WORDS: Final = 12

_CURVE, _PROBE = "a curve with noise", "a random probe"


class CGAgainstProjection(LiveWidget):
    """CG and alternating projection on one system: as paths, by eigenvector, and over work; after a bet.

    Attributes:
        work: Work that both have done, 0 to 24.
        plane: Two eigenvectors along which the paths are drawn.
        data: Right-hand side, `a curve with noise` or `a random probe`.
        points: n, 8 to 80.
        block_size: Block size of alternating projection.
        rule: Rule of alternating projection.
        overlap: Overlap of alternating projection.
        lengthscale: Lengthscale of the Matérn-5/2 kernel of outputscale 1.
        noise: Noise σ² of the system.
        bet: Method bet on, `cg` or `ap`; `shown` for no bet, or empty before it.

    Examples:
        >>> widget = apviz.widgets.CGAgainstProjection(noise=0.001)
        >>> for path in widget.paths:
        ...     print(f"{path.error[path.at(12)].sum() / path.error[0].sum():.1e}")
        1.9e-01
        1.2e-01
    """

    title = "CG against alternating projection"
    text = (
        "Both lower the error ‖W−W*‖<sub>K</sub> in every step: alternating projection as far as one block can, CG as "
        "far as a polynomial can. After t iterations CG has multiplied the error c<sub>i</sub> along every eigenvector "
        "by p(λ<sub>i</sub>): p(0) = 1, and its t zeros are where they leave least. The residual weighs the same error "
        "by λ<sub>i</sub>, so it may rise."
    )
    sentence = (
        "After work {work}, on {points} points with lengthscale {lengthscale} and noise σ² = {noise}, where κ is "
        "[kappa], CG has left [cg] of ‖W−W*‖²<sub>K</sub>, alternating projection [ap]."
    )
    betting = (
        "<b>Your bet:</b> after work 12, twelve iterations of CG, whose error ‖W−W*‖<sub>K</sub> is smaller?",
        {"cg": "CG", "ap": "alternating projection"},
    )

    work = steps(
        "work",
        "Work = kernel entries used ÷ n²: an iteration of CG costs 1, an update b/n, the factors of all blocks "
        "b/n once; the first residual is b itself and costs nothing.",
        WORK, 600,
    )  # fmt: skip
    block_size = slider(
        "block b", "Points per block: κ′ = max λmax(K[I, I]) / λmin(K) grows with b, up to κ at b = n.",
        2, MAX_POINTS, 1,
    )  # fmt: skip
    noise = log_slider("noise σ²", "σ² is added to every λ<sub>i</sub>: κ ≤ λmax/σ².", 1e-4, 1)
    lengthscale = log_slider(
        "lengthscale",
        "ℓ of the Matérn-5/2 kernel: the longer, the faster λ<sub>i</sub> falls, and the larger κ = λmax/λmin.",
        0.03, 1,
    )  # fmt: skip
    data = choice(
        "b",
        "The right-hand side: targets, yᵢ = sin(9xᵢ) e<sup>−xᵢ</sup> + 0.1 εᵢ with εᵢ ~ N(0, 1), or a probe "
        "z ~ N(0, I) as the gradient of the likelihood needs it (K W = [y, z₁, …]).",
        {_CURVE: _CURVE, _PROBE: _PROBE},
    )
    points = slider(
        "points n", "Number of points: in exact arithmetic CG has r⁽ⁿ⁾ = 0 after at most n iterations.",
        8, MAX_POINTS, 1,
    )  # fmt: skip
    rule = choice(
        "rule",
        "Rule of block selection: gauss-southwell, the rule of Theorem 1, takes the block with "
        "‖r<sub>I</sub>‖ = max<sub>J</sub> ‖r<sub>J</sub>‖.",
        {name: name for name in RULES},
    )
    overlap = slider(
        "overlap",
        "Margin a block also solves on, relative to its own points: an update's work = (1 + overlap)·b/n.",
        0, 1, 0.25,
    )  # fmt: skip
    plane = choice(
        "plane",
        "Two eigenvectors, Kv<sub>i</sub> = λ<sub>i</sub>v<sub>i</sub>, along which the paths are drawn: by "
        "λ<sub>i</sub>, or by c<sub>i</sub>² (error) and λ<sub>i</sub>c<sub>i</sub>² (residual) at the start.",
        {name: name for name in get_args(Plane)},
    )

    in_sight = ("work", "noise")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "CG's residual rises first": {
            "work": 1, "plane": "largest λ and most error", "data": _PROBE, "points": 40, "block_size": 8,
            "rule": "gauss-southwell", "overlap": 0.0, "lengthscale": 0.15, "noise": 0.05, "bet": "",
        },
        "a smooth curve": {"data": _CURVE, "work": 3},
        "hardly any noise": {"data": _CURVE, "noise": 1e-3, "work": 12},
        "much noise: κ is small": {"noise": 1.0, "work": 3},
        "blocks with a margin": {"data": _CURVE, "noise": 1e-3, "overlap": 0.5, "work": 3},
        "one block: a Cholesky solve": {"block_size": 40, "work": 2},
    }  # fmt: skip

    bet = traitlets.Enum(["", "shown", "cg", "ap"]).tag(sync=True)

    @classmethod
    def given(cls) -> dict[str, Any]:
        return {
            "uniforms": np.random.default_rng(0).uniform(size=MAX_POINTS).tolist(),
            "normals": [_normal_after(words) for words in range(2 * MAX_POINTS + _WORDS)],
            "probe": np.random.default_rng(0).standard_normal(MAX_POINTS).tolist(),
        }

    def _right_hand_side(self) -> tuple[Floats, Floats]:
        x, b = toy_problem("even", self.points)
        return x, b if self.data == _CURVE else np.random.default_rng(0).standard_normal(self.points)

    @property
    def paths(self) -> tuple[EigenPath, EigenPath]:
        """Return the paths of CG and of alternating projection, computed by the reference."""
        x, b = self._right_hand_side()
        span, size = Span(x, Matern52(lengthscale=self.lengthscale), self.noise), min(self.points, self.block_size)
        cg = trajectory(span, b, method="cg", steps=min(WORK, self.points))
        ap = trajectory(
            span, b, block_size=size, overlap=self.overlap, rule=self.rule, steps=WORK * self.points // size
        )
        return eigen_path(cg), eigen_path(ap)


def _normal_after(words: int) -> tuple[float, int]:
    """Return the normal number that the generator of seed 0 draws after `words` words, and the words it takes.

    `toy_problem` draws n normal numbers after n uniform ones, which take a word each. So the page has the numbers for
    every n.
    """
    # `default_rng` uses this generator
    bits = np.random.PCG64(0)
    bits.advance(words)
    value = float(np.random.Generator(bits).standard_normal())
    for taken in range(1, _WORDS):
        other = np.random.PCG64(0)
        other.advance(words + taken)
        if other.state == bits.state:
            return value, taken
    raise RuntimeError(f"a normal number took more than {_WORDS} words")
