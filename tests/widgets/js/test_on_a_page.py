"""Live widgets on a page from disk: no Python, no server, no network."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

pytest.importorskip("nbconvert", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

import apviz
from apviz import rkhs
from apviz.plots._style import THEMES
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
from tests.widgets.js.pages import SHOWN, control, drag, frame, middle, reads, said, value_of

KINDS = [
    Angles, CGAgainstProjection, EarlyStopping, Forecast, Kappas, Photograph, PositiveDefinite, Projection,
    ProjectionPlayer, SamplePaths, WhichBlock, Zigzag,
]  # fmt: skip
#: all but one are slow
ONE_QUICK = [pytest.param(kind, marks=pytest.mark.slow) if kind is not Projection else kind for kind in KINDS]
#: for every control, a value that differs from the first preset
OTHER = {
    Angles: {
        "distance": 0.5, "shared": 2, "lengthscale": 1.0, "noise": 0.1, "points": 4, "kernel": "matern12",
        "data": "random",
    },
    Projection: {
        "step": 3, "lengthscale": 1.0, "noise": 0.1, "picture": "solution", "blocks": "{1} {2} {3}", "rule": "cyclic",
        "kernel": "rbf",
    },
    CGAgainstProjection: {
        "work": 7, "plane": "the two with most residual", "data": "a curve with noise", "points": 30, "block_size": 5,
        "rule": "cyclic", "overlap": 0.5, "lengthscale": 0.3, "noise": 0.2,
    },
    EarlyStopping: {"step": 100, "noise": 0.5, "lengthscale": 0.1, "method": "CG", "kernel": "matern12"},
    Forecast: {"end": 0.8, "lengthscale": 0.5, "noise": 0.2, "drift": "line", "kernel": "rbf"},
    PositiveDefinite: {"points": 40, "lengthscale": 1.0, "dtype": "float32", "jitter": 1e-8, "kernel": "matern52"},
    SamplePaths: {"doublings": 4, "waves": 2, "lengthscale": 0.1, "kernel": "matern12", "sample": 2},
    Zigzag: {"angle": 60, "leg": 20, "start": 70, "share": 0.1},
    Kappas: {"data": "diabetes", "block_size": 60, "lengthscale": 0.5, "noise": 1.0},
    Photograph: {
        "step": 3, "overlap": 1.0, "partition": "principal-axis-tree", "block_size": 150, "rule": "cyclic", "tol": 1e-1,
        "pixels": 1944, "picture": "mean", "axis": "work",
    },
    ProjectionPlayer: {
        "step": 3, "rule": "cyclic", "points": 20, "block_size": 6, "overlap": 0.25, "lengthscale": 0.3, "noise": 0.1,
        "speed": 2,
    },
    WhichBlock: {
        "step": 3, "reveal": True, "bet_rule": "cyclic", "bet_block": 2, "rule": "random", "data": "crowded",
        "block_size": 6, "lengthscale": 0.3, "noise": 0.3, "seed": 3,
    },
}  # fmt: skip
#: controls without an effect on a picture: the speed
UNSEEN = {"speed"}
#: settings without which a control would have no effect
FIRST = {
    Forecast: {"drift": {"end": 0.8}},
    Projection: {"rule": {"blocks": "{1} {2} {3}"}},
    ProjectionPlayer: {"overlap": {"step": 3}},
    WhichBlock: {"seed": {"rule": "random", "step": 3}, "rule": {"step": 3}},
}


def angle_of(**values):
    """Return θ in degrees by Python."""
    widget = Angles(**values)
    span = widget.trajectory.span
    return np.degrees(rkhs.friedrichs_angle(span, widget.blocks.first, widget.blocks.second))


def bet(tab, answer) -> None:
    """Place a bet if the widget asks for one."""
    button = tab.locator(".bet button", has_text=answer)
    if button.count():
        button.click()
        frame(tab)


def move(tab, name, value):
    """Choose a value, press a button, or move a slider by a page."""
    row, was = control(tab, name), reads(tab, name)
    if row.locator("select").count():
        row.locator("select").select_option(value)
    elif row.locator(".switch").count():
        row.locator(".switch").click()
    else:
        row.locator("input").focus()
        tab.keyboard.press("PageUp")
    frame(tab)
    assert reads(tab, name) != was


@pytest.mark.parametrize("kind", ONE_QUICK, ids=lambda kind: kind.__name__)
def test_every_control_changes_something_visible_and_reset_undoes_it(visit, kind):
    tab = visit(kind())
    frame(tab)
    assert set(OTHER[kind]) == set(kind.controls)
    # the curves of the photograph keep later updates
    pictures = "() => JSON.stringify([...document.querySelectorAll('canvas')].map((each) => each.toDataURL()))"
    shown = partial(tab.evaluate, pictures if kind is Photograph else SHOWN)
    start = shown()
    for name, value in OTHER[kind].items():
        for first, wanted in FIRST.get(kind, {}).get(name, {}).items():
            move(tab, first, wanted)
        bet(tab, "just show it")
        before = tab.evaluate(SHOWN)
        move(tab, name, value)
        assert (tab.evaluate(SHOWN) != before) == (name not in UNSEEN), name
        # a bet does not change the preset
        is_own = not (kind.hidden_until and name in {"step", "reveal", "bet_rule", "bet_block"})
        assert (tab.locator("select[aria-label=preset]").input_value() == "") == is_own, name
        tab.get_by_role("button", name="reset").click()
        frame(tab)
        assert shown() == start, name


@pytest.mark.parametrize("kind", ONE_QUICK, ids=lambda kind: kind.__name__)
def test_three_controls_are_visible_and_a_preset_sets_the_values_of_python(visit, kind):
    tab = visit(kind())
    assert tab.locator(".control:visible").count() <= 3
    for preset, values in kind.presets.items():
        tab.locator("select[aria-label=preset]").select_option(preset)
        frame(tab)
        for name in values.keys() & kind.controls.keys():
            value = values[name]
            words = value if isinstance(value, str) else str(value) if isinstance(value, bool) else f"{value:g}"
            named = kind.controls[name].get("names", {}).get(words)
            is_number = named is None and not isinstance(value, str | bool)
            read = reads(tab, name)
            assert value_of(read) == value if is_number else read == (named or words), name


def test_a_sentence_that_grows_by_a_line_moves_nothing_below(visit):
    tab = visit(ProjectionPlayer(), viewport={"width": 1280, "height": 1300})
    frame(tab)
    lines = """() => {
        const [sentence, body] = document.querySelectorAll(".sentence, .body"), top = body.getBoundingClientRect().top;
        const words = document.createRange();
        words.selectNodeContents(sentence);
        return [words.getBoundingClientRect().height, top];
    }"""
    high, top = tab.evaluate(lines)
    control(tab, "step").locator("input").focus()
    tab.keyboard.press("End")
    frame(tab)
    higher, below = tab.evaluate(lines)
    assert higher > 1.5 * high and below == top


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_on_a_phone_nothing_is_wider_than_the_screen_and_on_a_projector_text_is_large(visit, kind):
    tab = visit(kind(), viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    size = "parseFloat(getComputedStyle(document.querySelector('.apviz-live')).fontSize)"
    assert tab.evaluate(size) == 14
    tab = visit(kind(lecture=True))
    assert tab.evaluate(size) >= 20 and tab.evaluate("document.documentElement.scrollWidth") <= 1200


@pytest.mark.slow
def test_the_theme_is_the_requested_one_or_that_of_the_page(visit):
    paper = "getComputedStyle(document.querySelector('.apviz-live')).backgroundColor"
    papers = {}
    for theme in ("light", "dark"):
        red, green, blue = (int(THEMES[theme].paper[i : i + 2], 16) for i in (1, 3, 5))
        papers[theme] = f"rgb({red}, {green}, {blue})"
    for asked, preferred, seen in (("light", "dark", "light"), ("dark", "light", "dark"), ("auto", "dark", "dark")):
        assert visit(Angles(theme=asked), color_scheme=preferred).evaluate(paper) == papers[seen]


@pytest.mark.parametrize("shared", [0, 2])
def test_a_block_dragged_apart_opens_the_angle_that_python_computes(visit, shared):
    tab = visit(Angles(shared=shared))
    drag(tab, "the second block", 60, 0)
    distance = float(reads(tab, "distance"))
    assert distance > 0.1
    assert f"θ = {angle_of(distance=distance, shared=shared):.1f}°" in said(tab)
    # it stays where the pointer left it
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


def test_numbers_in_the_sentence_can_be_dragged_and_changed_by_keys(visit):
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


def test_keys_move_each_block_to_its_side(visit):
    tab = visit(Angles())
    for label, key in (("the second block", "ArrowRight"), ("the first block", "ArrowLeft")):
        was = float(reads(tab, "distance"))
        tab.get_by_role("slider", name=label, exact=True).focus()
        tab.keyboard.press(key)
        frame(tab)
        assert float(reads(tab, "distance")) == pytest.approx(was + 0.02)


@pytest.mark.slow
def test_a_finger_drags_a_block_without_scrolling_the_page(visit):
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


@pytest.mark.slow
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
    """Return step, angles and norm of the sentence by the reference."""
    widget = Projection(**values)
    geometry = rkhs.step_geometry(widget.trajectory, widget.step)
    share = np.linalg.norm(geometry.after) / np.linalg.norm(geometry.goal)
    assert f"‖r‖H is {share:.4g} of ‖g‖H" in said(tab)
    assert f"r⁽{'⁰¹²³⁴⁵⁶⁷⁸⁹'[widget.step - 1]}⁾ stood at {np.degrees(geometry.angle_before):.1f}°" in said(tab)
    angles = np.degrees(geometry.kernel_angles)
    words = tab.locator("svg.space text").all_text_contents()
    assert {f"{angles[i, j]:.0f}°" for i, j in ((0, 1), (0, 2), (1, 2))} <= set(words)


def test_dragging_a_point_among_the_functions_rotates_the_arrows(visit):
    tab = visit(Projection())
    as_python_has_it(tab)
    words = tab.locator("svg.space text").all_text_contents()
    drag(tab, "point 3", 40, 30)
    value = tab.get_by_role("slider", name="point 3", exact=True).get_attribute("aria-valuetext").replace("−", "-")
    x, b = (float(each) for each in re.findall(r"= (-?[\d.]+)", value))
    assert x > 0.75 and b < 1.2
    assert tab.locator("svg.space text").all_text_contents() != words
    as_python_has_it(tab, points=[0.2, 0.5, x], data=[1.0, 1.3, b])
    # it stops at the ends
    drag(tab, "point 3", 900, -900)
    value = tab.get_by_role("slider", name="point 3", exact=True).get_attribute("aria-valuetext")
    assert value == "x₃ = 1, b₃ = 2"


def test_dragging_the_tip_of_g_in_space_changes_the_data_and_follows_the_pointer(visit):
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


@pytest.mark.slow
def test_mouse_and_keys_rotate_the_picture_and_change_nothing_else(visit):
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


@pytest.mark.slow
def test_steps_can_be_played_stepped_through_and_dragged_along_the_norms(visit):
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
    tab.get_by_role("button", name="play").click()
    tab.get_by_role("button", name="reset").click()
    frame(tab)
    assert reads(tab, "step") == "1" and not tab.get_by_role("button", name="pause").count()


def test_an_address_opens_a_state_and_follows_changes(visit, tmp_path):
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
    # invalid values of controls are ignored
    for hash in ("#Angles&distance=7&noise=x&points=&data=best&__proto__=1&theme=%22", "#Other&distance=0.4"):
        tab.goto("about:blank")
        tab.goto((tmp_path / "html/widget.html").as_uri() + hash)
        tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
        assert (reads(tab, "distance"), reads(tab, "noise"), reads(tab, "data")) == ("0.1", "0.01", "smooth")


@pytest.mark.slow
def test_points_and_data_are_in_the_address_too(visit, tmp_path):
    tab = visit(Projection())
    drag(tab, "point 1", 30, 0)
    tab.wait_for_function("/points=0\\.\\d+\\+0\\.5\\+0\\.75/.test(location.hash)")
    value = "document.querySelector('[aria-label=\"point 1\"]').getAttribute('aria-valuetext')"
    moved = tab.evaluate(value)
    tab.reload()
    tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
    assert tab.evaluate(value) == moved != "x₁ = 0.2, b₁ = 1"


@pytest.mark.parametrize(
    "kind",
    [pytest.param(CGAgainstProjection, marks=pytest.mark.slow), Kappas],
    ids=lambda kind: kind.__name__,
)
def test_presets_are_letters_and_results_are_hidden_until_a_bet_and_the_verdict_is_right(visit, kind):
    tab = visit(kind())
    options = "[...document.querySelectorAll('select[aria-label=preset] option:not([hidden])')].map(e => e.textContent)"
    letters = [*"ABCDEF"][: len(kind.presets)]
    assert tab.evaluate(options) == letters
    widget = kind()
    for number, preset in enumerate(kind.presets):
        tab.locator("select[aria-label=preset]").select_option(preset)
        frame(tab)
        hidden = tab.evaluate(SHOWN)
        assert tab.locator(".bet .result").inner_text() == "" and tab.evaluate(options)[number] == letters[number]
        widget.choose(preset)
        right = winner(widget)
        answers = dict(kind.betting[1])
        chosen = right if number % 2 else next(each for each in answers if each != right)
        bet(tab, answers[chosen])
        words = tab.locator(".bet .result").inner_text()
        assert words.startswith("You were right:" if number % 2 else "You were wrong:"), preset
        assert tab.evaluate(options)[number] == preset and tab.evaluate(SHOWN) != hidden
    # a seen result is not asked again, except after a reset
    tab.locator("select[aria-label=preset]").select_option(next(iter(kind.presets)))
    frame(tab)
    assert tab.locator(".bet .result").inner_text() != ""
    tab.get_by_role("button", name="reset").click()
    frame(tab)
    assert tab.locator(".bet .result").inner_text() == "" and tab.evaluate(options) == letters


def winner(widget) -> str:
    """Return the leading method by the reference."""
    if isinstance(widget, CGAgainstProjection):
        cg, ap = (path.error[max(path.at(12), 0)].sum() for path in widget.paths)
        return "cg" if cg < ap else "ap"
    found = {name: (solve.epochs_to(0.01), solve.errors[-1]) for name, solve in widget.solves.items()}
    return min(found, key=found.get)


def test_kappa_and_the_remaining_error_agree_with_python_after_a_drag(visit):
    tab = visit(Kappas(bet="shown"))
    frame(tab)
    drag(tab, "the block size", 60, 0)
    frame(tab)
    size = int(reads(tab, "block_size"))
    assert size > 30
    widget = Kappas(block_size=size)
    for name, words in (("sequential", "over consecutive rows"), ("kd-tree", "over a k-d tree")):
        assert f"{widget.solves[name].spectrum.kappa_prime:.3g} {words}" in said(tab)
    epochs = widget.solves["kd-tree"].epochs_to(0.01)
    result = tab.locator(".bet .result").inner_text()
    assert f"{epochs:.3g} epochs over the k-d tree" in result and result.startswith("To 1% it takes ")
    tab = visit(CGAgainstProjection(bet="cg", work=5))
    drag(tab, "the work", 40, 0)
    work = int(reads(tab, "work"))
    assert work > 5
    cg, ap = (path.error[path.at(work)].sum() / path.error[0].sum() for path in CGAgainstProjection().paths)
    assert said(tab).endswith(f"CG has left {cg:.3g} of ‖W−W*‖²K, alternating projection {ap:.3g}.")


#: changes the lengthscale in every frame, until three values of κ′ were shown or 300 frames have passed
HELD = """() => new Promise((done) => {
    const input = document.querySelector("[data-control=lengthscale] input");
    const said = document.querySelector("[data-figure=tree]"), seen = new Set([said.textContent]);
    const go = (frames) => {
        seen.add(said.textContent);
        if (seen.size > 3 || frames > 300) return done([...seen]);
        input.value = frames % 2 ? Number(input.min) + (frames % Number(input.max)) : Number(input.max) - frames % 9;
        input.dispatchEvent(new Event("input", {bubbles: true}));
        requestAnimationFrame(() => go(frames + 1));
    };
    go(1);
})"""


@pytest.mark.slow
def test_during_a_long_drag_earlier_results_are_shown_before_the_latest(visit):
    tab = visit(Kappas(bet="shown"))
    frame(tab)
    assert len(tab.evaluate(HELD)) == 4
    frame(tab)
    assert tab.locator("figure[data-late]").count() == 0
    found = Kappas(lengthscale=float(reads(tab, "lengthscale"))).solves["kd-tree"]
    assert f"{found.spectrum.kappa_prime:.3g} over a k-d tree" in said(tab)


@pytest.mark.slow
def test_a_bet_is_in_the_address_and_sent_with_the_preset(visit, tmp_path):
    tab = visit(Kappas())
    frame(tab)
    bet(tab, "a k-d tree")
    tab.wait_for_function("location.hash.includes('bet=kd-tree')")
    tab.reload()
    tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
    frame(tab)
    assert tab.locator(".bet button[aria-pressed=true]").inner_text() == "a k-d tree"
    tab.goto("about:blank")
    tab.goto((tmp_path / "html/widget.html").as_uri() + "#Kappas&bet=nobody&noise=0.1")
    tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
    assert tab.locator(".bet button[aria-pressed=true]").count() == 0 and reads(tab, "noise") == "0.1"


@pytest.mark.slow
def test_a_photograph_is_solved_like_in_python_and_played_one_frame_per_update(visit):
    tab = visit(Photograph(pixels=704), reduced_motion="no-preference")
    tab.wait_for_function("document.querySelector('[data-control=step] output').textContent === '30'")
    frame(tab)
    left = {}
    for name, solver in Photograph(pixels=704).solvers.items():
        recorder = apviz.Recorder()
        apviz.solve(Photograph(pixels=704).system, solver, hooks=[recorder])
        left[name] = recorder.trace["update"]["residual"].values[:, 0]
    shares = re.search(r"have left ([\d.]+) of ‖b‖, blocks of neighbours ([\d.]+)\.", said(tab)).groups()
    assert [float(each) for each in shares] == pytest.approx([left[name][29] for name in left], rel=5e-3)
    control(tab, "overlap").locator("select, input").press("ArrowRight")
    frame(tab)
    tab.get_by_role("button", name="play").click()
    tab.wait_for_function("Number(document.querySelector('[data-control=step] output').textContent) > 40")
    tab.wait_for_function("!document.querySelector('[aria-label=pause]')")
    frame(tab)
    notes = tab.locator("figure.picture .note").all_inner_texts()
    assert all("done" in each for each in notes)
    # and back to the start: the photograph itself
    control(tab, "step").locator("input").focus()
    tab.keyboard.press("Home")
    frame(tab)
    assert reads(tab, "step") == "0" and "left 1 of ‖b‖, blocks of neighbours 1." in said(tab)


@pytest.mark.slow
def test_with_reduced_motion_one_update_is_played_per_second(visit):
    tab = visit(Photograph(pixels=704), reduced_motion="reduce")
    frame(tab)
    tab.get_by_role("button", name="play").click()
    tab.wait_for_timeout(1500)
    assert 30 <= int(reads(tab, "step")) <= 32
