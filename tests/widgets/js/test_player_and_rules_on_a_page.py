"""The widgets "player" and "which block next" on a page from disk: drags, bets and hidden results, against Python."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("nbconvert", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

from apviz.widgets import ProjectionPlayer, WhichBlock
from tests.widgets.js.pages import SHOWN, control, drag, frame, middle, reads, said, titles, value_of


def as_the_player_has_it(tab, **values):
    """Return the sentence on a step by the reference."""
    widget = ProjectionPlayer(**values)
    found, j = widget.trajectory, widget.step
    errors, norms = found.errors(), found.residual_norms()
    assert f"‖r‖H is {errors[j] / errors[0]:.3g} of its start, Euclidean ‖r‖ {norms[j] / norms[0]:.3g}," in said(tab)
    if j:
        assert f"block {found.steps[j].block} of 0 to {len(found.blocks) - 1} is projected onto" in said(tab)
    assert shown_residual(tab, 1) == pytest.approx(found.steps[j].residual, rel=1e-3, abs=1e-10)


def shown_residual(tab, figure):
    return [value_of(title.rpartition(" ")[2]) for title in titles(tab, figure) if "residual" in title]


@pytest.mark.parametrize(
    "rule",
    ["gauss-southwell", *(pytest.param(rule, marks=pytest.mark.slow) for rule in ("cyclic", "random", "shuffled"))],
)
def test_a_step_equals_that_of_a_solver_for_every_rule_and_with_margins(visit, rule):
    for values in ({"step": 4}, {"step": 7, "overlap": 0.5, "points": 23, "block_size": 3}):
        as_the_player_has_it(visit(ProjectionPlayer(rule=rule, **values)), rule=rule, **values)


def test_dragging_a_point_among_the_functions_changes_the_solve_and_keeps_its_place(visit):
    tab = visit(ProjectionPlayer(step=3))
    _, y = middle(tab, "point 6")
    drag(tab, "point 6", 0, -60)
    assert middle(tab, "point 6")[1] == pytest.approx(y - 60, abs=1.5)
    words = tab.get_by_role("slider", name="point 6", exact=True).get_attribute("aria-valuetext")
    number = int(np.argsort(ProjectionPlayer.given()["x"][:16])[5])
    data = list(ProjectionPlayer().data)
    assert value_of(words.rpartition("= ")[2]) != data[number]
    data[number] = value_of(words.rpartition("= ")[2])
    as_the_player_has_it(tab, step=3, data=data)
    # it is in the address, and is restored from it
    tab.wait_for_function("location.hash.includes('data=')")
    tab.reload()
    tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
    as_the_player_has_it(tab, step=3, data=data)


def test_keys_select_and_move_points_which_are_a_single_tab_stop(visit):
    tab = visit(ProjectionPlayer())
    points = tab.locator(".handle[aria-label^='point ']")
    assert points.count() == 16 and tab.locator(".handle[aria-label^='point '][tabindex='0']").count() == 1
    points.first.focus()
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
        frame(tab)
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == "point 4"
    was = points.nth(3).get_attribute("aria-valuetext")
    tab.keyboard.press("ArrowUp")
    frame(tab)
    before, after = (value_of(each.rpartition("= ")[2]) for each in (
        was, points.nth(3).get_attribute("aria-valuetext")))  # fmt: skip
    assert after == pytest.approx(before + 0.05)
    assert tab.locator(".handle[aria-label^='point '][tabindex='0']").get_attribute("aria-label") == "point 4"
    # fewer points, fewer rings
    control(tab, "points").locator("input").focus()
    tab.keyboard.press("Home")
    frame(tab)
    assert points.count() == 8


@pytest.mark.parametrize("label", ["the edge of the first block", "the corner of the first block"])
def test_dragging_an_edge_of_a_block_in_one_picture_moves_it_in_both(visit, label):
    tab = visit(ProjectionPlayer())
    places = [middle(tab, f"the {part} of the first block") for part in ("edge", "corner")]
    drag(tab, label, 120, 40)
    size = int(reads(tab, "block_size"))
    assert size > 4
    for part, place in zip(("edge", "corner"), places, strict=True):
        tab.get_by_role("slider", name=label, exact=True).scroll_into_view_if_needed()
        assert middle(tab, f"the {part} of the first block")[0] > place[0] + 5
    as_the_player_has_it(tab, block_size=size)


@pytest.mark.slow
def test_it_plays_at_the_chosen_speed_and_slowly_with_reduced_motion(visit):
    for motion, most in (("no-preference", 1.6), ("reduce", None)):
        tab = visit(ProjectionPlayer(speed=8.0), reduced_motion=motion)
        start = tab.evaluate("performance.now()")
        tab.get_by_role("button", name="play").click()
        step = "document.querySelector('[data-control=step] output').textContent"
        tab.wait_for_function(f"{step} === '{8 if most else 2}'")
        seconds = (tab.evaluate("performance.now()") - start) / 1000
        assert 0.9 < seconds < 4 if most else seconds > 1.9
        tab.get_by_role("button", name="pause").click()


def test_the_next_state_is_not_on_the_page_before_the_reveal(visit):
    tab = visit(WhichBlock(step=5))
    curves = ".apviz-live figure:last-of-type svg .marks .curve"
    words = " ".join(tab.locator(".apviz-live svg title").all_text_contents())
    assert "would remove" not in words and "% left" not in words and "%" not in said(tab)
    # a panel that would be empty comes with the answer
    assert tab.locator(".apviz-live figure:visible").count() == 1
    names = tab.locator("select[aria-label=preset] option").all_text_contents()
    assert names == ["your own", "A", "B", "C", "D", "E"]
    hidden = tab.evaluate(SHOWN)
    control(tab, "reveal").locator(".switch").click()
    frame(tab)
    words = " ".join(tab.locator(".apviz-live svg title").all_text_contents())
    assert tab.locator(".apviz-live figure:visible").count() == 4
    assert words.count("would remove") == 9 and words.count("% left") == 4 and tab.locator(curves).count() >= 4
    names = tab.locator("select[aria-label=preset] option").all_text_contents()
    assert names == ["your own", "columns of a photograph", "B", "C", "D", "E"]
    control(tab, "reveal").locator(".switch").click()
    frame(tab)
    assert tab.evaluate(SHOWN) == hidden


@pytest.mark.parametrize("rule", ["gauss-southwell", pytest.param("random", marks=pytest.mark.slow)])
def test_the_revealed_state_agrees_with_python(visit, rule):
    widget = WhichBlock(reveal=True, step=6, rule=rule, seed=5, bet_rule="shuffled", bet_block=2)
    tab, found = visit(widget), widget.comparison
    choices = found.choices(rule, 6)
    words = " ".join(title for figure in range(4) for title in titles(tab, figure))
    for block, decrease in enumerate(choices.decrease_per_block):
        share, exact = (
            re.search(rf"block {block}: would remove [^,]+, ([^%]+)%", words)[1],
            100 * decrease / choices.left,
        )
        if 0 < exact < 1e-3:  # rounding of a residual of zero
            assert share == "under 0.001" or abs(exact) < 1e-12
        else:
            assert value_of(share) == pytest.approx(exact, rel=5e-3)
    for each, block in choices.taken.items():
        assert f"{each}: block {block}" in words
        left = value_of(re.search(rf"{each}, 6 updates: ([\d.]+)% left", words)[1])
        assert left == pytest.approx(100 * found.errors[each][6], rel=5e-3)
    place = 1 + found.ranking(24).index("shuffled")
    assert f"It takes {choices.taken['gauss-southwell']}, yours removes" in said(tab)
    assert f"in the end your rule is number {place}." in said(tab)
    missed = f"gauss-southwell missed the best block {len(found.suboptimal_updates())} of 24 times"
    assert tab.get_by_text(missed).count() == 1


def test_a_bet_can_be_placed_by_click_drag_keys_and_in_the_sentence(visit):
    tab = visit(WhichBlock())
    number = tab.locator("[data-number=bet_block]")
    assert number.inner_text() == "none"
    drag(tab, "your bet", 120, 0)
    dragged = int(number.inner_text())
    assert 0 < dragged < 9
    tab.get_by_role("slider", name="your bet", exact=True).focus()
    tab.keyboard.press("ArrowRight")
    frame(tab)
    assert number.inner_text() == str(dragged + 1) == reads(tab, "bet_block")
    tab.locator(".apviz-live figure").first.locator("svg").click(position={"x": 130, "y": 100})
    frame(tab)
    assert number.inner_text() == "0"
    # the ring that resizes blocks is not a bet on the block under it
    tab.get_by_role("slider", name="the edge of the first block", exact=True).click()
    frame(tab)
    assert number.inner_text() == "0"
    number.focus()
    tab.keyboard.press("ArrowLeft")
    frame(tab)
    assert number.inner_text() == "none"
    tab.locator("select[data-number=bet_rule]").select_option("cyclic")
    frame(tab)
    assert reads(tab, "bet_rule") == "cyclic"
    # after the reveal, a click is not a bet
    control(tab, "reveal").locator(".switch").click()
    frame(tab)
    assert tab.get_by_text("cyclic, your bet").count() == 1
    tab.locator(".apviz-live figure").first.locator("svg").click(position={"x": 130, "y": 100})
    frame(tab)
    assert number.inner_text() == "none" and tab.locator("select[aria-label=preset]").input_value() != ""


def test_a_bet_on_a_block_ends_with_the_next_step_and_one_on_a_rule_does_not(visit):
    tab = visit(WhichBlock(bet_block=2, bet_rule="cyclic", reveal=True))
    assert "block 2 next. It does;" in said(tab)
    tab.get_by_role("button", name="a step on").click()
    frame(tab)
    assert (reads(tab, "bet_block"), reads(tab, "bet_rule")) == ("none", "cyclic")
    assert "It takes" in said(tab) and tab.locator("svg title", has_text="your bet: block").count() == 0


@pytest.mark.slow
def test_larger_blocks_are_fewer_to_bet_on_and_their_edge_can_be_dragged(visit):
    tab = visit(WhichBlock(bet_block=8))
    drag(tab, "the edge of the first block", 100, 0)
    size = int(reads(tab, "block_size"))
    assert size > 4 and int(reads(tab, "bet_block")) == -(-36 // size) - 1


def test_dragging_the_step_along_the_race_changes_the_residual(visit):
    tab = visit(WhichBlock(reveal=True))
    before = titles(tab, 0)
    drag(tab, "the step", 90, 0)
    step = int(reads(tab, "step"))
    assert step > 2 and titles(tab, 0) != before
    residual = WhichBlock().comparison.trajectories["gauss-southwell"].steps[step].residual
    assert shown_residual(tab, 0) == pytest.approx(residual, rel=1e-3, abs=1e-10)


@pytest.mark.slow
def test_an_address_opens_a_revealed_state(visit, tmp_path):
    tab = visit(WhichBlock())
    tab.goto((tmp_path / "html/widget.html").as_uri() + "#WhichBlock&preset=columns+of+a+photograph&reveal=true&step=3")
    tab.reload()
    tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
    assert (reads(tab, "reveal"), reads(tab, "step")) == ("True", "3")
    control(tab, "reveal").locator(".switch").click()
    tab.wait_for_function("!location.hash.includes('reveal')")
