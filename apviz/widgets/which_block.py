"""Which block next: a bet on the four rules of block selection, and what every block would have removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import ipywidgets
import plotly.graph_objects as go

from apviz.kernels import Matern52
from apviz.plots.rkhs import next_block, rule_errors
from apviz.rkhs import RULES, RuleComparison, Span, compare_rules, toy_problem
from apviz.widgets.controls import Control, Stepper, log_slider
from apviz.widgets.teaching_widget import TeachingWidget

POINTS = 36
#: updates of every rule
STEPS = 24
NO_BET = "no bet"
#: the bet on a block that is none: blocks are counted from 0, as in a trace
NO_BLOCK = -1


class WhichBlock(TeachingWidget):
    """Compares four rules on one system, linked by the step: bet, then reveal what every block would have removed."""

    title = "Which block next?"
    text = (
        "All four rules project onto the same blocks; they differ in the order only. Look at the residual, bet on a "
        "rule and on a block, then reveal."
    )
    static_control = "step"
    static_values: ClassVar[dict[str, Any]] = {"reveal": True}
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

    def make_controls(self) -> dict[str, Control]:
        slow = {"continuous_update": False}
        stepper = Stepper("updates", STEPS)
        rules = list(RULES)
        return {
            "step": Control(
                stepper.slider,
                "Updates done, of every rule: s⁽ʲ⁺¹⁾ = s⁽ʲ⁾ + k(·, X<sub>I</sub>) K[I, I]⁻¹ r<sub>I</sub>.",
                stepper,
            ),
            "bet_rule": Control(
                ipywidgets.Dropdown(description="bet: rule", options=[NO_BET, *rules]),
                f"Your bet: the rule with the smallest ‖r‖<sub>H</sub> = √(rᵀK⁻¹r) after {STEPS} updates.",
            ),
            "bet_block": Control(
                ipywidgets.BoundedIntText(description="bet: block", min=NO_BLOCK, max=POINTS - 1),
                "Your bet: the block that gauss-southwell takes next, the one with "
                f"‖r<sub>I</sub>‖ = max<sub>J</sub> ‖r<sub>J</sub>‖; {NO_BLOCK} for none.",
            ),
            "reveal": Control(
                ipywidgets.ToggleButton(description="reveal", icon="eye"),
                "Shows the four curves, and what each block would remove now: "
                "½‖P<sub>I</sub> r‖²<sub>H</sub> = ½ r<sub>I</sub>ᵀ K[I, I]⁻¹ r<sub>I</sub>.",
            ),
            "rule": Control(
                ipywidgets.Dropdown(description="stand in", options=rules),
                "Whose state r⁽ʲ⁾ = b − Kw⁽ʲ⁾ you look at; the block it takes next is lit.",
            ),
            "data": Control(
                ipywidgets.Dropdown(description="data", options=["even", "one bump", "crowded", "photograph"]),
                "The right-hand side b and where its points are; the system is (k(X, X) + σ²I) w = b.",
            ),
            "block_size": Control(
                ipywidgets.IntSlider(description="block b", min=1, max=12, **slow),
                f"Neighbours in a block: m = ⌈{POINTS}/b⌉ blocks to choose from.",
            ),
            "lengthscale": Control(
                log_slider("lengthscale", 0.01, 1, **slow),
                "ℓ of the Matérn-5/2 kernel: the longer, the more an update spoils elsewhere, r −= K[:, I] u.",
            ),
            "noise": Control(
                log_slider("noise σ²", 1e-3, 1, **slow),
                "σ² in K: λmin ≥ σ²; with much of it K[I, I] ≈ λ′max·I, and the guarantee "
                "‖r‖²/(2mλ′max) of Theorem 1 is close.",
            ),
            "seed": Control(
                ipywidgets.IntSlider(description="seed", min=0, max=20, **slow),
                "Another draw for random, I ~ U{0, …, m − 1} at every update, and for shuffled, a new order of the m "
                "blocks every epoch.",
            ),
        }  # fmt: skip

    @property
    def comparison(self) -> RuleComparison:
        """Solves by the four rules, for the controls' values."""
        return self.computed(("data", "block_size", "lengthscale", "noise", "seed"), self._solve)

    def _solve(self) -> RuleComparison:
        x, b = toy_problem(self.value("data"), POINTS)
        span = Span(x, Matern52(lengthscale=self.value("lengthscale")), self.value("noise"))
        return compare_rules(span, b, block_size=self.value("block_size"), steps=STEPS, seed=self.value("seed"))

    def draw(self) -> Sequence[go.Figure]:
        found, revealed = self.comparison, self.value("reveal")
        step = min(self.value("step"), found.steps)
        rule_bet = "" if self.value("bet_rule") == NO_BET else self.value("bet_rule")
        on = min(self.value("bet_block"), len(found.blocks) - 1)
        block_bet = None if on == NO_BLOCK else on
        return [
            next_block(found, self.value("rule"), step, bet=block_bet, revealed=revealed, theme=self.theme),
            rule_errors(found, step, bet=rule_bet, revealed=revealed, theme=self.theme),
        ]
