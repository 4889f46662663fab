"""Live widgets on a page from a disk: no Python, no server, no network."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("nbconvert", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

from apviz import rkhs
from apviz.plots._style import THEMES
from apviz.widgets import Angles, Projection
from tests.widgets.js.pages import SHOWN, control, drag, frame, middle, open_page, page_of, reads

KINDS = [Angles, Projection]
#: another value than the first preset has, for every control
OTHER = {
    Angles: {
        "distance": 0.5, "shared": 2, "lengthscale": 1.0, "noise": 0.1, "points": 4, "kernel": "matern12",
        "data": "random",
    },
    Projection: {
        "step": 3, "lengthscale": 1.0, "noise": 0.1, "picture": "solution", "blocks": "{1} {2} {3}", "rule": "cyclic",
        "kernel": "rbf",
    },
}  # fmt: skip
#: what is set before a control is moved, without which it would move nothing
FIRST = {"rule": ("blocks", "{1} {2} {3}")}


@pytest.fixture
def visit(browser, tmp_path):
    """Opens the page of a widget; nothing may fail, and nothing may be asked of elsewhere."""
    problems, contexts = [], []

    def come(widget, **screen):
        contexts.append(browser.new_context(**({"viewport": {"width": 1200, "height": 1300}} | screen)))
        return open_page(contexts[-1], page_of(widget, tmp_path / "html"), problems)

    yield come
    for each in contexts:
        each.close()
    assert problems == []


def angle_of(**values):
    """θ in degrees as Python has it."""
    widget = Angles(**values)
    span = widget.trajectory.span
    return np.degrees(rkhs.friedrichs_angle(span, widget.blocks.first, widget.blocks.second))


def said(tab) -> str:
    return tab.locator(".sentence").inner_text()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_control_moves_something_that_is_seen_and_reset_takes_it_back(visit, kind):
    tab = visit(kind())
    assert set(OTHER[kind]) == set(kind.controls)
    start = tab.evaluate(SHOWN)
    for name, value in OTHER[kind].items():
        if name in FIRST:
            control(tab, FIRST[name][0]).locator("select").select_option(FIRST[name][1])
            frame(tab)
        before = tab.evaluate(SHOWN)
        row = control(tab, name)
        if row.locator("select").count():
            row.locator("select").select_option(value)
        else:
            places = row.locator("input")
            was = reads(tab, name)
            places.focus()
            tab.keyboard.press("PageUp")
            frame(tab)
            assert reads(tab, name) != was
        frame(tab)
        assert tab.evaluate(SHOWN) != before, name
        assert tab.locator("select[aria-label=preset]").input_value() == ""
        tab.get_by_role("button", name="reset").click()
        frame(tab)
        assert tab.evaluate(SHOWN) == start, name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_three_controls_are_in_sight_and_a_preset_sets_what_python_says(visit, kind):
    tab = visit(kind())
    assert tab.locator(".control:visible").count() <= 3
    for preset, values in kind.presets.items():
        tab.locator("select[aria-label=preset]").select_option(preset)
        frame(tab)
        shown = {name: reads(tab, name) for name in values if name in kind.controls}
        assert shown == {
            name: f"{values[name]:g}" if not isinstance(values[name], str) else values[name] for name in shown
        }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_on_a_phone_nothing_is_wider_than_the_screen_and_for_a_projector_words_are_large(visit, kind):
    tab = visit(kind(), viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    size = "parseFloat(getComputedStyle(document.querySelector('.apviz-live')).fontSize)"
    assert tab.evaluate(size) == 14
    tab = visit(kind(lecture=True))
    assert tab.evaluate(size) >= 20 and tab.evaluate("document.documentElement.scrollWidth") <= 1200


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_theme_is_the_one_asked_for(visit, kind):
    paper = "getComputedStyle(document.querySelector('.apviz-live')).backgroundColor"
    for theme in ("light", "dark"):
        red, green, blue = (int(THEMES[theme].paper[i : i + 2], 16) for i in (1, 3, 5))
        assert visit(kind(theme=theme)).evaluate(paper) == f"rgb({red}, {green}, {blue})"
    # the page is light, and so is what follows it, whatever the visitor prefers
    assert visit(kind(), color_scheme="dark").evaluate(paper) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("shared", [0, 2])
def test_a_block_dragged_apart_opens_the_angle_that_python_computes(visit, shared):
    tab = visit(Angles(shared=shared))
    drag(tab, "the second block", 60, 0)
    distance = float(reads(tab, "distance"))
    assert distance > 0.1
    assert f"θ = {angle_of(distance=distance, shared=shared):.1f}°" in said(tab)
    # it stands where the pointer left it
    x, _ = middle(tab, "the second block")
    drag(tab, "the second block", -30, 0)
    assert 0.02 <= float(reads(tab, "distance")) < distance and middle(tab, "the second block")[0] < x


def test_the_ray_of_the_angle_moves_the_blocks(visit):
    tab = visit(Angles(lengthscale=0.5))
    before = float(re.search(r"θ = ([\d.]+)°", said(tab))[1])
    drag(tab, "the Friedrichs angle", -30, -60)
    distance, after = float(reads(tab, "distance")), float(re.search(r"θ = ([\d.]+)°", said(tab))[1])
    assert after > before + 5 and distance > 0.1
    assert after == pytest.approx(angle_of(distance=distance, lengthscale=0.5), abs=0.05)


def test_numbers_in_the_sentence_are_dragged_and_moved_by_keys(visit):
    tab = visit(Angles())
    drag(tab, "lengthscale", 36, 0)
    assert reads(tab, "lengthscale") == tab.locator("[data-number=lengthscale]").inner_text() != "0.25"
    number = tab.locator("[data-number=distance]")
    number.focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("Shift+ArrowRight")
    frame(tab)
    assert reads(tab, "distance") == number.inner_text() == "0.34"


def test_blocks_are_moved_by_keys_each_to_its_side(visit):
    tab = visit(Angles())
    for label, key in (("the second block", "ArrowRight"), ("the first block", "ArrowLeft")):
        was = float(reads(tab, "distance"))
        tab.get_by_role("slider", name=label, exact=True).focus()
        tab.keyboard.press(key)
        frame(tab)
        assert float(reads(tab, "distance")) == pytest.approx(was + 0.02)


def test_a_finger_drags_a_block_and_the_page_stays(visit):
    tab = visit(Angles(), viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    handle = tab.get_by_role("slider", name="the second block", exact=True)
    handle.scroll_into_view_if_needed()
    x, y = middle(tab, "the second block")
    scrolled = tab.evaluate("scrollY")
    touch = tab.context.new_cdp_session(tab)
    for kind, places in (
        ("touchStart", [(x, y)]),
        ("touchMove", [(x + 20, y - 15)]),
        ("touchMove", [(x + 40, y - 30)]),
    ):
        points = [{"x": left, "y": top} for left, top in places]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        frame(tab)
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    frame(tab)
    assert float(reads(tab, "distance")) > 0.1 and tab.evaluate("scrollY") == scrolled


def test_fewer_points_leave_less_to_share(visit):
    tab = visit(Angles(points=8, shared=14))
    slider = control(tab, "points").locator("input")
    slider.focus()
    for _ in range(5):
        tab.keyboard.press("ArrowLeft")
        frame(tab)
    frame(tab)
    assert (reads(tab, "points"), reads(tab, "shared")) == ("3", "4")
    assert control(tab, "shared").locator("input").get_attribute("max") == "4"


def as_python_has_it(tab, **values):
    """Step, angles and norm of the sentence, from the reference."""
    widget = Projection(**values)
    geometry = rkhs.step_geometry(widget.trajectory, widget.step)
    share = np.linalg.norm(geometry.after) / np.linalg.norm(geometry.goal)
    assert f"‖r‖H is {share:.4g} of ‖g‖H" in said(tab)
    assert f"r⁽{'⁰¹²³⁴⁵⁶⁷⁸⁹'[widget.step - 1]}⁾ stood at {np.degrees(geometry.angle_before):.1f}°" in said(tab)
    angles = np.degrees(geometry.kernel_angles)
    words = tab.locator("svg.space text").all_text_contents()
    assert {f"{angles[i, j]:.0f}°" for i, j in ((0, 1), (0, 2), (1, 2))} <= set(words)


def test_a_point_dragged_among_the_functions_turns_the_arrows(visit):
    tab = visit(Projection())
    as_python_has_it(tab)
    words = tab.locator("svg.space text").all_text_contents()
    drag(tab, "point 3", 40, 30)
    value = tab.get_by_role("slider", name="point 3", exact=True).get_attribute("aria-valuetext").replace("−", "-")
    x, b = (float(each) for each in re.findall(r"= (-?[\d.]+)", value))
    assert x > 0.75 and b < 1.2
    assert tab.locator("svg.space text").all_text_contents() != words
    as_python_has_it(tab, points=[0.2, 0.5, x], data=[1.0, 1.3, b])
    # beyond the ends it stops
    drag(tab, "point 3", 900, -900)
    value = tab.get_by_role("slider", name="point 3", exact=True).get_attribute("aria-valuetext")
    assert value == "x₃ = 1, b₃ = 2"


def test_the_tip_of_g_dragged_in_space_moves_the_data_and_follows_the_pointer(visit):
    tab = visit(Projection())
    x, y = middle(tab, "the tip of g")
    heights = [middle(tab, f"point {i}") for i in (1, 2, 3)]
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 30, y + 20, steps=4)
    frame(tab)
    # data are rounded to hundredths
    assert middle(tab, "the tip of g") == pytest.approx((x - 30, y + 20), abs=2.5)
    tab.mouse.up()
    frame(tab)
    assert [middle(tab, f"point {i}") for i in (1, 2, 3)] != heights


def test_the_picture_is_turned_by_the_mouse_and_by_keys_and_nothing_else_moves(visit):
    tab = visit(Projection())
    space, before = tab.locator("svg.space"), tab.evaluate(SHOWN)
    sentence, box = said(tab), tab.locator("svg.space").bounding_box()
    tab.mouse.move(box["x"] + 30, box["y"] + 30)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 90, box["y"] + 50, steps=3)
    tab.mouse.up()
    frame(tab)
    turned = tab.evaluate(SHOWN)
    assert turned != before and said(tab) == sentence
    space.focus()
    tab.keyboard.press("ArrowLeft")
    frame(tab)
    assert tab.evaluate(SHOWN) != turned and said(tab) == sentence


def test_steps_are_played_gone_through_one_by_one_and_dragged_along_the_norms(visit):
    tab = visit(Projection())
    tab.get_by_role("button", name="a step on").click()
    frame(tab)
    assert reads(tab, "step") == "2"
    as_python_has_it(tab, step=2)
    tab.get_by_role("slider", name="the step", exact=True).focus()
    tab.keyboard.press("Shift+ArrowRight")
    frame(tab)
    assert reads(tab, "step") == "12"
    drag(tab, "the step", -60, 0)
    now = int(reads(tab, "step"))
    assert 1 < now < 12
    tab.get_by_role("button", name="play").click()
    tab.wait_for_function(f"document.querySelector('[data-control=step] output').textContent === '{now + 1}'")
    tab.get_by_role("button", name="pause").click()


def test_an_address_leads_to_a_moment_and_follows_what_is_moved(visit, tmp_path):
    tab = visit(Angles())
    tab.goto((tmp_path / "html/widget.html").as_uri() + "#Angles&preset=the+worst+data&distance=0.4&lecture=true")
    tab.reload()
    tab.locator(".apviz-live.lecture svg .curve").first.wait_for(state="attached")
    assert (reads(tab, "distance"), reads(tab, "data"), reads(tab, "lengthscale")) == ("0.4", "worst", "0.25")
    tab.locator("[data-number=noise]").focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_function("location.hash.includes('noise=0.012')")
    tab.reload()
    tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
    assert (reads(tab, "noise"), reads(tab, "distance"), reads(tab, "data")) == ("0.012", "0.4", "worst")
    # what no control can have is as if it were not there
    for hash in ("#Angles&distance=7&noise=x&points=&data=best&__proto__=1&theme=%22", "#Other&distance=0.4"):
        tab.goto("about:blank")
        tab.goto((tmp_path / "html/widget.html").as_uri() + hash)
        tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
        assert (reads(tab, "distance"), reads(tab, "noise"), reads(tab, "data")) == ("0.1", "0.01", "smooth")


def test_points_and_data_are_in_the_address_too(visit, tmp_path):
    tab = visit(Projection())
    drag(tab, "point 1", 30, 0)
    tab.wait_for_function("/points=0\\.\\d+\\+0\\.5\\+0\\.75/.test(location.hash)")
    value = "document.querySelector('[aria-label=\"point 1\"]').getAttribute('aria-valuetext')"
    moved = tab.evaluate(value)
    tab.reload()
    tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
    assert tab.evaluate(value) == moved != "x₁ = 0.2, b₁ = 1"
