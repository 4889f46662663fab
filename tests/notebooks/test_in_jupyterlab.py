"""Notebooks in JupyterLab like a student uses them: open, run all, move a control of every widget, save, return."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("jupyterlab", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

from tests.notebooks.lab import Desk, Lab
from tests.notebooks.making import written

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent.parent / "notebooks").glob("*.ipynb"))
#: timeout of a notebook, in seconds
PATIENCE = 300


#: Python receives a distance, and answers with a noise
BOTH_WAYS = """widget = widgets.Angles()
widget.observe(lambda change: setattr(widget, "noise", 0.5 if change["new"] > 0.3 else 0.01), "distance")
widget"""

REVEALED = """widget = widgets.WhichBlock()
widget.observe(lambda change: setattr(widget, "bet_rule", widget.comparison.ranking(24)[0]), "reveal")
widget"""

STEPPED = """widget = widgets.Photograph()
widget.observe(lambda change: setattr(widget, "picture", "mean" if change["new"] == 31 else "residual"), "step")
widget"""

DRAGGED = """widget = widgets.Projection()
widget.observe(lambda change: setattr(widget, "noise", 0.1 if change["new"][2] > 0.8 else 0.01), "points")
widget"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Start a server on a copy of the notebooks and some more; its log must have no errors."""
    place = tmp_path_factory.mktemp("lab")
    folder = place / "notebooks"
    folder.mkdir()
    for path in NOTEBOOKS:
        shutil.copy(path, folder)
    written(folder / "WhichBlock.ipynb", "from apviz import widgets", REVEALED)
    written(folder / "Photograph.ipynb", "from apviz import widgets", STEPPED)
    written(folder / "both-ways.ipynb", "from apviz import widgets", BOTH_WAYS)
    written(folder / "Projection.ipynb", "from apviz import widgets", DRAGGED)
    server = Lab(place, folder)
    yield server
    troubles = server.troubles()
    server.stop()
    assert troubles == []


@pytest.fixture
def sit_down(browser, lab):
    """Return a function that opens a notebook in its own browser, without errors and requests to other hosts."""
    desks = []

    def come(name: str, *, problems: tuple[str, ...] = ()) -> Desk:
        context = browser.new_context(viewport={"width": 1500, "height": 1000})
        desk = Desk(lab, context.new_page(), allowed=problems)
        desks.append(desk)
        return desk.open(name)

    yield come
    for desk in desks:
        desk.tab.context.close()
    lab.end_kernels()
    assert [each for desk in desks for each in desk.problems] == []
    assert [each for desk in desks for each in desk.elsewhere] == []


@pytest.mark.slow
def test_a_live_widget_shares_its_state_with_python_and_works_without_a_kernel(sit_down, lab):
    desk = sit_down("both-ways.ipynb")
    desk.run_all()
    (widget,) = desk.widgets()
    static = desk.tab.locator(".apviz-static")
    assert static.count() == 1 and not static.is_visible()
    number = widget.locator("[data-number=distance]")
    number.focus()
    for _ in range(2):
        desk.tab.keyboard.press("Shift+ArrowRight")
    noise = widget.locator("[data-number=noise]")
    desk.tab.wait_for_function("each => each.textContent === '0.5'", arg=noise.element_handle())
    assert number.inner_text() == "0.5" and desk.errors() == []
    # an arrow key is the widget's, not the notebook's, which would select another cell
    active = "() => [...document.querySelectorAll('.jp-Cell')].findIndex(each => each.matches('.jp-mod-active'))"
    was = desk.tab.evaluate(active)
    for each in (number, widget.locator("[data-control=shared] input")):
        each.focus()
        desk.tab.keyboard.press("ArrowUp")
        desk.tab.wait_for_timeout(300)
        assert desk.tab.evaluate(active) == was
    assert (number.inner_text(), widget.locator("[data-control=shared] output").inner_text()) == ("0.52", "1")
    desk.save()
    desk.rest()
    desk.tab.context.close()
    lab.end_kernels()

    later = sit_down("both-ways.ipynb", problems=("widget model not found",))
    later.tab.locator(".apviz-static .apviz-live svg").first.wait_for()
    later.tab.get_by_text("model not found").wait_for(state="hidden")
    alone = later.tab.locator(".apviz-static [data-number=distance]")
    assert alone.inner_text() == "0.1"
    alone.focus()
    later.tab.keyboard.press("ArrowRight")
    later.tab.wait_for_function("each => each.textContent === '0.12'", arg=alone.element_handle())


@pytest.mark.slow
def test_a_point_dragged_with_the_mouse_has_the_same_position_in_python(sit_down):
    desk = sit_down("Projection.ipynb")
    desk.run_all()
    (widget,) = desk.widgets()
    point = widget.get_by_role("slider", name="point 3", exact=True)
    point.scroll_into_view_if_needed()
    box, mouse = point.bounding_box(), desk.tab.mouse
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + 30, y + 10, steps=5)
    mouse.up()
    # Python answers with the values it received
    desk.tab.wait_for_function(
        "widget => widget.querySelector('[data-number=noise]').textContent === '0.1'", arg=widget.element_handle()
    )
    assert desk.errors() == []


@pytest.mark.slow
def test_a_bet_on_a_block_reaches_python_and_its_ranking_reaches_the_page(sit_down):
    desk = sit_down("WhichBlock.ipynb")
    desk.run_all()
    (widget,) = desk.widgets()
    rule = widget.locator("select[data-number=bet_rule]")
    assert rule.input_value() == "no bet"
    widget.locator(".switch").click()
    desk.tab.wait_for_function("each => each.value === 'gauss-southwell'", arg=rule.element_handle())
    assert "your rule is number 1." in widget.locator(".sentence").inner_text() and desk.errors() == []


@pytest.mark.slow
def test_a_photograph_is_solved_in_the_notebook_and_fits_a_phone(sit_down):
    desk = sit_down("Photograph.ipynb")
    desk.run_all()
    (widget,) = desk.widgets()
    widget.get_by_role("button", name="a step on").click()
    # Python answers with the values it received
    shown = "widget => widget.querySelector('[data-control=picture] select').value"
    desk.tab.wait_for_function(f"widget => ({shown})(widget) === 'mean'", arg=widget.element_handle())
    desk.tab.keyboard.press(
        "Control+b"
    )  # the file browser of JupyterLab would leave 22 pixels for the notebook on a phone
    for width in (390, 345):
        desk.tab.set_viewport_size({"width": width, "height": 1000})
        desk.tab.wait_for_timeout(500)
        assert widget.evaluate("each => each.clientWidth") > width / 2
        assert widget.evaluate("each => each.querySelector('.charts').scrollWidth <= each.clientWidth")
        box = widget.locator("canvas").first.bounding_box()
        assert box["width"] / box["height"] == pytest.approx(46 / 31, rel=0.02)
    assert desk.errors() == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.name for path in NOTEBOOKS])
def test_every_notebook_runs_and_every_widget_in_it_responds(name, sit_down):
    desk = sit_down(name)
    desk.run_all(PATIENCE)
    assert desk.errors() == []
    source = "\n".join(cell.source for cell in nbformat.read(NOTEBOOKS[0].with_name(name), 4).cells)
    widgets = desk.widgets()
    assert bool(widgets) == ("widgets." in source)
    for number, widget in enumerate(widgets):
        assert desk.move(widget), f"nothing in widget {number} changes"
    desk.rest()
