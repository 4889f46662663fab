"""Widgets on single questions, on a page: what is dragged agrees with Python; numbers and marks light up together."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("nbconvert", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

from apviz.widgets import (
    Angles,
    CGAgainstProjection,
    EarlyStopping,
    Forecast,
    Kappas,
    Photograph,
    PositiveDefinite,
    Projection,
    ProjectionPlayer,
    SamplePaths,
    WhichBlock,
    Zigzag,
)
from tests.widgets.js.pages import drag, frame, reads, said, titles
from tests.widgets.js.test_on_a_page import ONE_QUICK

#: states in which everything that a widget can draw is drawn
ALL_DRAWN = {
    CGAgainstProjection: {"bet": "shown", "work": 4},
    Kappas: {"bet": "shown"},
    ProjectionPlayer: {"step": 3},
    WhichBlock: {"reveal": True, "bet_rule": "cyclic", "bet_block": 2, "step": 3},
}
#: names in a sentence of which no mark of the pictures glows while they are pointed at
DARK = """() => [...document.querySelectorAll(".sentence :is([data-number], [data-figure])")].filter((each) => {
    each.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
    const marks = [...document.querySelectorAll(".charts :is(svg *, canvas)[data-of]")];
    return !marks.some((mark) => getComputedStyle(mark).filter.includes("drop-shadow") ||
        mark.matches(".handle") && getComputedStyle(mark.querySelector(".ring")).strokeDasharray === "none");
}).map(({dataset}) => dataset.number ?? dataset.figure)"""


def test_a_line_dragged_down_takes_as_many_legs_as_python_counts(visit):
    tab = visit(Zigzag())
    drag(tab, "the second line", 10, 30)
    angle = int(reads(tab, "angle"))
    assert angle < 20
    legs = len(Zigzag(angle=angle).residuals) - 1
    assert f"It takes {legs:,} legs" in said(tab)


def test_dragged_jitter_makes_cholesky_work_and_points_make_it_fail(visit):
    tab = visit(PositiveDefinite())
    assert "fails in row" in said(tab)
    drag(tab, "the jitter", 0, -140)
    assert "Cholesky works; the mean misses the data by up to" in said(tab)
    tab = visit(PositiveDefinite(points=10))
    assert "Cholesky works." in said(tab)
    drag(tab, "the number of points", 60, 0)
    assert int(reads(tab, "points")) > 10 and PositiveDefinite(points=int(reads(tab, "points"))).works == (
        "works" in said(tab)
    )


def test_the_end_of_the_data_and_the_step_follow_the_pointer(visit):
    tab = visit(Forecast())
    drag(tab, "the end of the data", -90, 0)
    end = float(reads(tab, "end"))
    mean, _ = Forecast(end=end).predict([2.0])
    assert end < 1.2 and f"{(2 - end) / 0.2:.2g} lengthscales" in said(tab) and abs(mean[0]) < 0.05
    tab = visit(EarlyStopping())
    drag(tab, "the step", 80, 0)
    assert 20 < int(reads(tab, "step")) < 1000


def test_a_number_that_is_pointed_at_lights_up_its_marks_and_the_other_way_round(visit):
    tab = visit(Angles())
    glow = lambda of: tab.locator(of).first.evaluate("each => getComputedStyle(each).filter")  # noqa: E731
    shade = lambda of: tab.locator(of).evaluate("each => getComputedStyle(each).backgroundColor")  # noqa: E731
    assert glow("svg [data-of~=theta]") == "none"
    tab.locator("[data-figure=theta]").hover()
    assert "drop-shadow" in glow("svg [data-of~=theta]")
    plain = shade("[data-number=distance]")
    tab.get_by_role("slider", name="the second block", exact=True).focus()
    assert shade("[data-number=distance]") != plain and glow("svg path[data-of~=theta]") == "none"


@pytest.mark.parametrize("kind", ONE_QUICK, ids=lambda kind: kind.__name__)
def test_every_number_of_a_sentence_lights_up_what_shows_it_in_the_pictures(visit, kind):
    tab = visit(kind(**ALL_DRAWN.get(kind, {})))
    frame(tab)
    # the number of updates of all rules is the end of an axis
    assert tab.evaluate(DARK) == (["last"] if kind is WhichBlock else [])


def test_moved_zeros_leave_more_error_than_those_of_cg_and_reset_gives_them_back(visit):
    tab = visit(CGAgainstProjection(bet="shown", work=3))
    frame(tab)
    cg, _ = CGAgainstProjection().paths
    left = 100 * cg.error[3].sum() / cg.error[0].sum()
    note = lambda: tab.locator("figure .note").last.inner_text()  # noqa: E731
    both = lambda: [float(each) for each in re.findall(r"([\d.]+)%", note())]  # noqa: E731
    assert both() == pytest.approx([left, left], rel=2e-3)
    drag(tab, "zero 2", 40, 0)
    mine, theirs = both()
    assert mine > theirs == pytest.approx(left, rel=2e-3)
    tab.get_by_role("button", name="reset").click()
    tab.get_by_role("button", name="just show it").click()
    frame(tab)
    assert both()[0] == both()[1]


@pytest.mark.slow
def test_a_photograph_plays_once_by_itself_and_its_step_can_be_dragged_beyond_what_is_solved(visit):
    tab = visit(Photograph(pixels=704), reduced_motion="no-preference")
    tab.wait_for_function("Number(document.querySelector('[data-control=step] output').textContent) === 30")
    # it stops a tick later
    tab.locator("[aria-label=play]").wait_for()
    drag(tab, "the step", 60, 0)
    assert int(reads(tab, "step")) > 31
    # with less motion it is shown as it is
    tab = visit(Photograph(pixels=704))
    assert reads(tab, "step") == "30"


def test_every_distance_from_a_border_has_a_mark_however_little_is_left_there(visit):
    tab = visit(Photograph(overlap=1.0))
    frame(tab)
    seen = [each for each in titles(tab, 3) if "blocks of neighbours" in each]
    assert [int(re.search(r"(\d) pixels", each)[1]) for each in seen] == [1, 2, 3, 4, 5, 6]
    bottom = tab.locator("figure").nth(3).locator("svg .axis").bounding_box()
    for each in tab.locator("figure").nth(3).locator("svg .marks path:has(title)").all():
        assert each.bounding_box()["y"] < bottom["y"] + bottom["height"]


@pytest.mark.parametrize(("waves", "words"), [(1, "a sine of 1 period,"), (2, "a sine of 2 periods,")])
def test_a_number_of_things_has_its_word_in_the_singular_or_plural(visit, waves, words):
    assert words in said(visit(SamplePaths(waves=waves)))


def test_there_is_nothing_to_play_before_the_bet(visit):
    tab = visit(CGAgainstProjection())
    frame(tab)
    assert tab.get_by_role("button", name="play").count() == 0
    tab.get_by_role("button", name="just show it").click()
    frame(tab)
    assert tab.get_by_role("button", name="play").is_visible()


@pytest.mark.parametrize("step", [1, 4, 12])
@pytest.mark.parametrize("picture", ["residual", "solution"])
def test_a_residual_is_long_enough_to_be_seen_in_every_step(visit, step, picture):
    tab = visit(Projection(step=step, picture=picture))
    frame(tab)
    box = tab.locator("svg.space path[stroke='var(--ink)'][stroke-width='3.5']").bounding_box()
    assert max(box["width"], box["height"]) > 25
    note = tab.locator("figure").first.locator(".note").inner_text()
    assert ("times as long" in note) == (step > 1)


@pytest.mark.slow
def test_eigenvalues_of_blocks_fall_also_where_the_last_block_has_fewer_rows(visit):
    tab = visit(Kappas(block_size=70))
    frame(tab)
    curves = tab.locator("figure").nth(2).locator("svg .marks path.curve").all()
    assert len(curves) == 5
    for each in curves:
        heights = [float(y) for y in re.findall(r"[ML]\S+ ([\d.]+)", each.get_attribute("d"))]
        assert len(heights) > 10 and heights == sorted(heights)
