"""The figures of the four rules: what they show, and what they keep back until a bet is placed."""

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
    marks = next_block(run, "gauss-southwell", 3, bet=1).data[4]
    expected = [*(found.taken[rule] for rule in RULES), 1]
    assert [round((x - 2.5) / 4) for x in marks.x] == expected
    assert [text.strip() for text in marks.text] == [
        f"{100 * found.decrease_per_block[k] / found.left:.1f}%" for k in expected
    ]


def test_before_the_reveal_nothing_of_the_next_block_is_in_the_figure_but_the_bet(run):
    hidden = next_block(run, "cyclic", 4, bet=2, revealed=False)
    assert len(hidden.data[2].y) == 0 and hidden.data[3].y == (None, None)
    assert hidden.layout.annotations[0].visible and not next_block(run, "cyclic", 4).layout.annotations[0].visible
    assert list(hidden.data[4].text) == [" ? "] and hidden.data[4].x[0] == 10.5
    # no point is lit, and the residual is there to bet on
    assert len(set(hidden.data[1].marker.color)) == 1 == len(set(hidden.data[1].marker.size))
    np.testing.assert_allclose(hidden.data[1].y, run.choices("cyclic", 4).residual)
    without = next_block(run, "cyclic", 4, revealed=False)
    assert list(without.data[4].x) == [None]


def test_before_the_reveal_no_curve_is_in_the_race(run):
    hidden = rule_errors(run, 4, bet="cyclic", revealed=False)
    assert {value for each in hidden.data for value in each.y} == {None}
    assert "you bet on cyclic" in lines(hidden) and hidden.layout.annotations[0].visible
    assert not rule_errors(run, 4).layout.annotations[0].visible


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


def test_the_caption_tells_whether_the_bets_were_won(run):
    found = run.choices("cyclic", 2)
    taken = found.taken["gauss-southwell"]
    assert f"you bet on {taken}: it does" in lines(next_block(run, "cyclic", 2, bet=taken))[4]
    assert f"it takes {taken}" in lines(next_block(run, "cyclic", 2, bet=(taken + 1) % 6))[4]
    for place, rule in enumerate(run.ranking(12), 1):
        assert f"after all 12: your bet, {rule}, is number {place}" in lines(rule_errors(run, 0, bet=rule))


def test_curves_are_the_norms_left_and_marks_are_at_the_step(run):
    figure = rule_errors(run, 7)
    for rule, curve, mark in zip(RULES, figure.data[:4], figure.data[4:], strict=True):
        np.testing.assert_allclose(curve.y, run.errors[rule])
        assert curve.line.color == rule_color(rule) and mark.x == (7,) and mark.y == (curve.y[7],)


@pytest.mark.parametrize("theme", THEMES)
def test_every_state_fits_a_phone_has_the_same_traces_and_is_valid_json(run, theme):
    for revealed in (False, True):
        for number in (0, 12):
            for rule in RULES:
                for figure in (
                    next_block(run, rule, number, bet=5, revealed=revealed, theme=theme),
                    rule_errors(run, number, bet=rule, revealed=revealed, theme=theme),
                ):
                    assert [len(line) <= 52 for line in lines(figure)] == [True] * 5
                    assert len(figure.data) in (5, 8)
                    assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper
                    json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize("make", [lambda run: next_block(run, "cyclic", 13), lambda run: rule_errors(run, 13)])
def test_a_step_that_is_not_there_gets_a_message(run, make):
    with pytest.raises(ValueError, match="number must be .*12.*, got 13"):
        make(run)


def test_blocks_have_the_numbers_that_they_have_in_a_trace(run):
    figure = next_block(run, "gauss-southwell", 0, bet=0)
    assert figure.layout.xaxis3.ticktext == tuple("012345") and list(figure.data[2].customdata[:, 0]) == [*range(6)]
    # the first block is one that one can bet on
    assert "you bet on 0" in lines(figure)[4] and figure.data[4].x[-1] == 2.5
