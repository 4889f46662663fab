"""Block selection: a bet on four rules, and the energy that every block would have removed."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np
import torch

from apviz.datasets import load
from apviz.kernels import Matern52
from apviz.rkhs import RULES, RuleComparison, Span, ToyProblem, compare_rules, toy_problem
from apviz.rkhs.kernels import Floats
from apviz.widgets.live_widget import LiveWidget, choice, log_slider, slider, steps, switch

POINTS: Final = 36
#: Number of updates of every rule; most points of a block; most seeds.
STEPS: Final = 24
LARGEST: Final = 12
SEEDS: Final = 20
NO_BET: Final = "no bet"
#: Value of the bet on a block before it is placed; blocks are counted from 0, as in a trace.
NO_BLOCK: Final = -1
SYSTEMS: Final = (*get_args(ToyProblem), "photograph")


def _system(name: ToyProblem | Literal["photograph"]) -> tuple[Floats, Floats]:
    """Return points in increasing order and data at them; for a photograph, columns and their mean luminance."""
    if name != "photograph":
        return toy_problem(name, POINTS)
    data = load("china-profile", n=POINTS, dtype=torch.float64)
    x, b = data.train_x[:, 0].numpy(), data.train_y.numpy()
    order = np.argsort(x)
    return x[order], b[order]


class WhichBlock(LiveWidget):
    """Four rules on one system, linked by the step; after a bet, the energy that every block would have removed.

    Attributes:
        step: Number of completed updates of every rule, 0 to 24.
        bet_rule: Rule bet to have the smallest final error, or `no bet`.
        bet_block: Block bet to be selected next by gauss-southwell, or −1; the bet ends with the next step.
        reveal: Whether the answers are shown.
        rule: Rule whose state is shown.
        data: System, of `apviz.rkhs.toy_problem` or `photograph`.
        block_size: Number of neighbours in a block.
        lengthscale: Lengthscale of the Matérn-5/2 kernel, in units of x; the outputscale is 1.
        noise: Noise σ² of the system.
        seed: Seed of random and shuffled.

    Examples:
        >>> widget = apviz.widgets.WhichBlock(data="crowded", lengthscale=0.1, block_size=6)
        >>> widget.comparison.ranking(24)
        ['gauss-southwell', 'shuffled', 'cyclic', 'random']
        >>> widget.comparison.choices("gauss-southwell", widget.step).greedy_is_best
        False
    """

    title = "Which block next?"
    text = (
        "All four rules project onto the same blocks; they differ only in the order. Look at the residual, bet on a "
        "rule and on a block, then reveal."
    )
    sentence = (
        "After {step} of [last] updates of {rule}, in blocks of {block_size}, with lengthscale {lengthscale} and "
        "noise σ² = {noise}: I bet that {bet_rule} will have the smallest error, and that gauss-southwell takes block "
        "{bet_block} next. [verdict]"
    )

    step = steps(
        "updates",
        "Updates done, of every rule: s⁽ʲ⁺¹⁾ = s⁽ʲ⁾ + k(·, X<sub>I</sub>) K[I, I]⁻¹ r<sub>I</sub>.",
        STEPS,
    )
    reveal = switch(
        "reveal",
        "Show the four curves, and the energy each block would remove now: "
        "½‖P<sub>I</sub> r‖²<sub>H</sub> = ½ r<sub>I</sub>ᵀ K[I, I]⁻¹ r<sub>I</sub>.",
    )
    bet_rule = choice(
        "bet: rule",
        f"Your bet: the rule with the smallest ‖r‖<sub>H</sub> = √(rᵀK⁻¹r) after {STEPS} updates.",
        {name: name for name in (NO_BET, *RULES)},
    )
    bet_block = slider(
        "bet: block",
        "Your bet: the block that gauss-southwell takes next, the one with "
        "‖r<sub>I</sub>‖ = max<sub>J</sub> ‖r<sub>J</sub>‖; it ends with the next step.",
        NO_BLOCK, POINTS - 1, 1, {str(NO_BLOCK): "none"},
    )  # fmt: skip
    rule = choice(
        "rule shown", "Rule whose state r⁽ʲ⁾ = b − Kw⁽ʲ⁾ is shown, with its next block highlighted.",
        {name: name for name in RULES},
    )  # fmt: skip
    data = choice(
        "data", "The right-hand side b and the positions of its points; the system is (k(X, X) + σ²I) w = b.",
        {name: name for name in SYSTEMS},
    )  # fmt: skip
    block_size = slider(
        "block b", f"Neighbours in a block: m = ⌈{POINTS}/b⌉ blocks to choose from.", 1, LARGEST, 1
    )  # fmt: skip
    lengthscale = log_slider(
        "lengthscale",
        "ℓ of the Matérn-5/2 kernel: the longer, the more an update changes other blocks, r −= K[:, I] u.",
        0.01, 1,
    )  # fmt: skip
    noise = log_slider(
        "noise σ²",
        "σ² in K: λmin ≥ σ²; if σ² is large, K[I, I] ≈ λ′max·I, and the guarantee ‖r‖²/(2mλ′max) of Theorem 1 is "
        "tight.",
        1e-3, 1,
    )  # fmt: skip
    seed = slider(
        "seed",
        "Seed of random, I ~ U{0, …, m − 1} at every update, and of shuffled, a new order of the m blocks every "
        "epoch.",
        0, SEEDS, 1,
    )  # fmt: skip

    in_sight = ("step", "reveal")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "columns of a photograph": {
            "step": 0, "bet_rule": NO_BET, "bet_block": NO_BLOCK, "reveal": False, "rule": "gauss-southwell",
            "data": "photograph", "block_size": 4, "lengthscale": 0.2, "noise": 0.1, "seed": 0,
        },
        "one bump: most blocks have nothing to give": {"data": "one bump", "lengthscale": 0.05, "block_size": 6},
        "crowded: the largest ‖r_I‖ is not the most energy": {"data": "crowded", "lengthscale": 0.1, "block_size": 6},
        "little noise: gauss-southwell comes last": {"data": "even", "lengthscale": 0.1, "noise": 0.01},
        "much noise: the guarantee comes closer": {"lengthscale": 0.05, "noise": 1.0},
    }  # fmt: skip
    hidden_until = "reveal"

    @classmethod
    @cache
    def given(cls) -> dict[str, Any]:
        return {
            "systems": {
                name: dict(zip("xb", (each.tolist() for each in _system(name)), strict=True)) for name in SYSTEMS
            },
        }

    @property
    def comparison(self) -> RuleComparison:
        """Return the solves by the four rules, computed by the reference."""
        x, b = _system(self.data)
        span = Span(x, Matern52(lengthscale=self.lengthscale), self.noise)
        return compare_rules(span, b, block_size=self.block_size, steps=STEPS, seed=self.seed)
