"""The figures of the four rules: what they show."""

from __future__ import annotations

import json

import numpy as np
import pytest

import apviz
from apviz.plots._style import THEMES, rule_color
from apviz.plots.rkhs import next_block, rule_errors
from apviz.rkhs import RULES, RuleComparison, Span, compare_rules, toy_problem


@pytest.fixture(scope="module")
def run() -> RuleComparison:
    x, b = toy_problem("crowded", 24)
    return compare_rules(Span(x, apviz.Matern52(lengthscale=0.1), 0.1), b, block_size=4, steps=12)


def lines(figure) -> list[str]:
    return [line.partition(">")[2].partition("<")[0] for line in figure.layout.title.text.split("<br>")]


def test_bars_are_the_offers_as_shares_of_what_is_left(run):
    found = run.choices("cyclic", 5)
    bars = next_block(run, "cyclic", 5).data[2]
    np.testing.assert_allclose(bars.y, 100 * found.decrease_per_block / found.left)
    assert list(bars.marker.color).index(rule_color("cyclic")) == found.taken["cyclic"] == 5


def test_the_guarantee_is_a_dotted_line_under_the_bar_of_the_largest_residual(run):
    for number in range(13):
        found = run.choices("random", number)
        bars, line = next_block(run, "random", number).data[2:4]
        assert line.line.dash == "dot" and line.y[0] == line.y[1]
        assert line.y[0] == pytest.approx(100 * found.guaranteed / found.left)
        assert bars.y[found.norms.argmax()] >= line.y[0]


def test_each_rule_has_a_mark_at_the_block_it_takes_with_its_share(run):
    found = run.choices("gauss-southwell", 3)
    marks = next_block(run, "gauss-southwell", 3).data[4]
    expected = [found.taken[rule] for rule in RULES]
    assert [round((x - 2.5) / 4) for x in marks.x] == expected
    assert [text.strip() for text in marks.text] == [
        f"{100 * found.decrease_per_block[k] / found.left:.1f}%" for k in expected
    ]


def test_the_caption_says_when_the_largest_residual_is_not_the_most_energy(run):
    for number in range(12):
        found = run.choices("gauss-southwell", number)
        said = lines(next_block(run, "gauss-southwell", number))[3]
        if found.greedy_is_best:
            assert "removes the most" in said
        else:
            assert f"block {found.best} removes" in said
    missed = len(run.suboptimal_updates())
    assert missed and f"gauss-southwell missed the best block {missed} of 12 times" in lines(rule_errors(run, 0))


def test_curves_are_the_norms_left_and_marks_are_at_the_step(run):
    figure = rule_errors(run, 7)
    for rule, curve, mark in zip(RULES, figure.data[:4], figure.data[4:], strict=True):
        np.testing.assert_allclose(curve.y, run.errors[rule])
        assert curve.line.color == rule_color(rule) and mark.x == (7,) and mark.y == (curve.y[7],)


@pytest.mark.parametrize("theme", THEMES)
def test_every_state_fits_a_phone_has_the_same_traces_and_is_valid_json(run, theme):
    for number in (0, 12):
        for rule in RULES:
            following, race = next_block(run, rule, number, theme=theme), rule_errors(run, number, theme=theme)
            assert (len(following.data), len(race.data)) == (5, 8)
            for figure in (following, race):
                assert all(len(line) <= 52 for line in lines(figure))
                assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper
                json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize("make", [lambda run: next_block(run, "cyclic", 13), lambda run: rule_errors(run, 13)])
def test_a_step_that_is_not_there_gets_a_message(run, make):
    with pytest.raises(ValueError, match="number must be .*12.*, got 13"):
        make(run)


def test_blocks_have_the_numbers_that_they_have_in_a_trace(run):
    figure = next_block(run, "gauss-southwell", 0)
    assert figure.layout.xaxis3.ticktext == tuple("012345") and list(figure.data[2].customdata[:, 0]) == [*range(6)]
