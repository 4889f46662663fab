"""As a student would: open a notebook in JupyterLab, run all, move a control of every widget, save, and come back."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("jupyterlab", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

from tests.dashboard.browser.pointer import drag
from tests.notebooks.lab import Desk, Lab
from tests.notebooks.making import written

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent.parent / "notebooks").glob("*.ipynb"))
#: seconds for a notebook
PATIENCE = 300


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A server on a copy of the notebooks and some of our own; its log tells of no trouble."""
    place = tmp_path_factory.mktemp("lab")
    folder = place / "notebooks"
    folder.mkdir()
    for path in NOTEBOOKS:
        shutil.copy(path, folder)
    for name in ("ProjectionPlayer", "Projection", "Photograph"):
        written(folder / f"{name}.ipynb", "from apviz import widgets", f"widgets.{name}()")
    server = Lab(place, folder)
    yield server
    troubles = server.troubles()
    server.stop()
    assert troubles == []


@pytest.fixture
def sit_down(browser, lab):
    """Opens notebooks, each in a browser of its own; none may meet an error, or ask another host for anything."""
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
def test_a_widget_moves_and_when_it_is_opened_again_without_its_kernel_static_figures_step_in_its_place(sit_down, lab):
    desk = sit_down("ProjectionPlayer.ipynb")
    desk.run_all()
    (widget,) = desk.widgets()
    static = desk.tab.locator(".apviz-static")
    assert desk.move(widget) and desk.errors() == []
    assert static.count() == 1 and not static.is_visible()
    chart = widget.locator(".js-plotly-plot").first
    desk.tab.wait_for_function("gd => gd.layout.title.text.includes('step 1')", arg=chart.element_handle())
    # what one has zoomed into stays
    seen = "gd => gd._fullLayout.xaxis.range"
    whole = chart.evaluate(seen)
    drag(chart, 0.2, 0.6)
    desk.tab.wait_for_function("gd => gd._fullLayout.xaxis.range[0] > 0", arg=chart.element_handle())
    part = chart.evaluate(seen)
    assert desk.move(widget) and chart.evaluate(seen) == part != whole
    desk.save()
    desk.rest()
    desk.tab.context.close()
    lab.end_kernels()

    # Jupyter saves no widget, and says so; the static figures hide that
    later = sit_down("ProjectionPlayer.ipynb", problems=("widget model not found",))
    later.tab.locator(".apviz-static").wait_for()
    chart = later.tab.locator(".jp-RenderedPlotly .js-plotly-plot, .jp-RenderedPlotly.js-plotly-plot").first
    chart.locator(".main-svg").first.wait_for()
    later.tab.get_by_text("model not found").wait_for(state="hidden")
    rail = chart.locator(".slider-rail-touch-rect").bounding_box()
    later.tab.mouse.click(rail["x"] + rail["width"] - 3, rail["y"] + rail["height"] / 2)
    later.tab.wait_for_function("gd => gd.layout.title.text.includes('step 30')", arg=chart.element_handle())


#: on the screen, where points that can be dragged are; what the control with a name shows
HANDLES = """gd => {
    const marks = gd._fullData.at(-1), {xaxis, yaxis} = gd._fullLayout, box = gd.getBoundingClientRect();
    return [...marks.x].map((x, i) => [
        box.x + xaxis._offset + xaxis.d2p(x), box.y + yaxis._offset + yaxis.d2p(marks.y[i])
    ]);
}"""
READOUT = """([widget, name]) => Number([...widget.querySelectorAll(".widget-slider")]
    .find(each => each.querySelector(".widget-label").textContent === name)
    .querySelector(".widget-readout").textContent)"""


@pytest.mark.slow
def test_a_point_dragged_with_the_mouse_moves_its_sliders_and_the_figures(sit_down):
    desk = sit_down("Projection.ipynb")
    desk.run_all()
    (widget,) = desk.widgets()
    charts, mouse = widget.locator(".js-plotly-plot"), desk.tab.mouse
    desk.tab.wait_for_function("widget => widget.querySelectorAll('.main-svg').length > 5", arg=widget.element_handle())
    functions = charts.nth(1)
    functions.scroll_into_view_if_needed()

    def reads(name: str) -> float:
        return widget.page.evaluate(READOUT, [widget.element_handle(), name])

    def shown() -> str:
        return charts.nth(0).evaluate("gd => gd.layout.title.text")

    assert (reads("x₃"), reads("b₃")) == (0.75, 1.2)
    before, places = shown(), functions.evaluate(HANDLES)
    (x, y), part = places[2], (places[1][0] - places[0][0]) / 0.3
    ranges = functions.evaluate("gd => [gd._fullLayout.xaxis.range, gd._fullLayout.yaxis.range]")
    mouse.move(x - 40, y - 40)
    assert "apviz-at-drag-point" not in functions.get_attribute("class")
    mouse.move(x, y)
    desk.tab.wait_for_function("gd => gd.matches('.apviz-at-drag-point')", arg=functions.element_handle())
    mouse.down()
    mouse.move(x + 0.1 * part, y + 10, steps=5)
    # already before it is let go, along axes that stand still
    desk.tab.wait_for_function(f"asked => ({READOUT})(asked) === 0.85", arg=[widget.element_handle(), "x₃"])
    desk.tab.wait_for_function(
        "([gd, left]) => Math.abs(gd._fullData.at(-1).x[2] - left) < 1e-9", arg=[functions.element_handle(), 0.85]
    )
    assert functions.evaluate("gd => [gd._fullLayout.xaxis.range, gd._fullLayout.yaxis.range]") == ranges
    assert 0 < reads("b₃") < 1.2 and shown() != before
    # beyond the end of the slider, which is where the point stops
    mouse.move(x + 0.4 * part, y + 10, steps=5)
    mouse.up()
    desk.tab.wait_for_function(f"asked => ({READOUT})(asked) === 1", arg=[widget.element_handle(), "x₃"])
    assert (reads("x₁"), reads("x₂"), reads("b₁"), reads("b₂")) == (0.2, 0.5, 1.0, 1.3)
    # it is let go, and the mouse moves nothing any more
    held = reads("b₃")
    mouse.move(x, y - 30, steps=5)
    desk.rest()
    assert (reads("x₃"), reads("b₃")) == (1.0, held)
    # the slider moves the point
    moved = functions.evaluate(HANDLES)[0][0]
    handle = widget.locator(".widget-slider", has_text="x₁").locator(".noUi-handle")
    handle.focus()
    desk.tab.keyboard.press("ArrowRight")
    desk.tab.wait_for_function(
        f"([gd, before]) => ({HANDLES})(gd)[0][0] > before", arg=[functions.element_handle(), moved]
    )
    assert desk.errors() == []


@pytest.mark.slow
def test_on_a_phone_no_room_is_left_below_a_picture(sit_down):
    desk = sit_down("Photograph.ipynb")
    desk.run_all()
    (widget,) = desk.widgets()
    chart = widget.locator(".js-plotly-plot").first
    below = "gd => gd._fullLayout.height - gd._fullLayout.yaxis._offset - gd._fullLayout.yaxis._length"
    for width in (390, 345, 1500):
        desk.tab.set_viewport_size({"width": width, "height": 1000})
        desk.tab.wait_for_function(f"gd => ({below})(gd) < 22", arg=chart.element_handle())
        assert chart.evaluate("gd => gd.getBoundingClientRect().height - gd._fullLayout.height") < 6


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.name for path in NOTEBOOKS])
def test_every_notebook_runs_and_every_widget_in_it_moves(name, sit_down):
    desk = sit_down(name)
    desk.run_all(PATIENCE)
    assert desk.errors() == []
    source = "\n".join(cell.source for cell in nbformat.read(NOTEBOOKS[0].with_name(name), 4).cells)
    widgets = desk.widgets()
    assert bool(widgets) == ("widgets." in source)
    for number, widget in enumerate(widgets):
        assert desk.move(widget), f"nothing in widget {number} changes"
    desk.rest()
