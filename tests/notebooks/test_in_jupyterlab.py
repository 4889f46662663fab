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
    """A server on a copy of the notebooks and one of our own; its log tells of no trouble."""
    place = tmp_path_factory.mktemp("lab")
    folder = place / "notebooks"
    folder.mkdir()
    for path in NOTEBOOKS:
        shutil.copy(path, folder)
    written(folder / "player.ipynb", "from apviz import widgets", "widgets.ProjectionPlayer()")
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


def test_a_widget_moves_and_when_it_is_opened_again_without_its_kernel_stills_step_in_its_place(sit_down, lab):
    desk = sit_down("player.ipynb")
    desk.run_all()
    (widget,) = desk.widgets()
    still = desk.tab.locator(".apviz-still")
    assert desk.move(widget) and desk.errors() == []
    assert still.count() == 1 and not still.is_visible()
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

    # Jupyter saves no widget, and says so; the still hides that
    later = sit_down("player.ipynb", problems=("widget model not found",))
    later.tab.locator(".apviz-still").wait_for()
    chart = later.tab.locator(".jp-RenderedPlotly .js-plotly-plot, .jp-RenderedPlotly.js-plotly-plot").first
    chart.locator(".main-svg").first.wait_for()
    later.tab.get_by_text("model not found").wait_for(state="hidden")
    rail = chart.locator(".slider-rail-touch-rect").bounding_box()
    later.tab.mouse.click(rail["x"] + rail["width"] - 3, rail["y"] + rail["height"] / 2)
    later.tab.wait_for_function("gd => gd.layout.title.text.includes('step 30')", arg=chart.element_handle())


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
