"""Slides of the notebooks: what is on them, and that a browser turns them from a disk without a network."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbconvert", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

from apviz import widgets
from apviz.widgets import Angles
from apviz.widgets.live_widget import STATIC
from notebooks.build.slides import on_slides, slides, write_slides
from tests.notebooks.making import made

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LECTURE = ROOT / "notebooks" / "LECTURE.md"
PLOTLY = "application/vnd.plotly.v1+json"
TYPES = {"slide", "subslide", "fragment", "-", "skip", "notes"}


def typed(notebook, *types: str):
    for cell, kind in zip(notebook.cells, types, strict=True):
        cell.metadata["slideshow"] = {"slide_type": kind}
    return notebook


def show(cell, data, metadata=None):
    cell.outputs.append(nbformat.v4.new_output("display_data", data, metadata=metadata or {}))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_on_slides_in_all_its_cells_or_in_none_and_its_notes_are_for_who_speaks(path):
    notebook = nbformat.read(path, 4)
    kinds = [cell.metadata.get("slideshow", {}).get("slide_type") for cell in notebook.cells]
    if not on_slides(notebook):
        assert set(kinds) == {None}
        return
    assert set(kinds) <= TYPES and kinds[0] == "slide" and kinds[-1] == "notes"
    for cell, kind in zip(notebook.cells, kinds, strict=True):
        assert not re.match("(exercise|check|import)", cell.id) or kind == "skip" or cell.cell_type == "markdown"


def test_the_plan_fills_four_lectures_of_45_minutes_with_notebooks_that_have_slides():
    text = LECTURE.read_text("utf-8")
    lectures = re.split(r"^## \w+ lecture: ", text.split("## If there")[0], flags=re.MULTILINE)[1:]
    assert len(lectures) == 4
    for lecture in lectures:
        times = [tuple(map(int, each)) for each in re.findall(r"^\| (\d+)–(\d+) \|", lecture, re.MULTILINE)]
        assert times[0][0] == 0 and times[-1][1] == 45
        assert all(before[1] == after[0] for before, after in zip(times, times[1:], strict=False))
        shown = re.findall(r"^\| \d+–\d+ \|[^|]*\| \[\d+b?\]\(([\w-]+\.ipynb)\)", lecture, re.MULTILINE)
        assert len(shown) in (2, 3) and all(on_slides(nbformat.read(LECTURE.parent / name, 4)) for name in shown)
    for row in re.findall(r"^\| \d+–\d+ \|.*", text, re.MULTILINE):
        links = re.findall(r"\]\(([\w-]+\.ipynb)\)", row)
        assert all((LECTURE.parent / link).exists() for link in links)


def test_a_notebook_without_a_slide_is_left_out_and_asked_for_alone_says_so(tmp_path):
    plain, other = made("1"), typed(made("2"), "slide", "-")
    write_slides([("01-plain", plain), ("02-other", other)], tmp_path)
    assert {path.name for path in tmp_path.glob("*.html")} == {"02-other.html", "index.html"}
    index = (tmp_path / "index.html").read_text()
    assert "02-other" in index and "01-plain" not in index
    with pytest.raises(ValueError, match="01-plain has no cell on a slide"):
        slides(plain, "01-plain")


@pytest.mark.slow
def test_slides_turn_from_a_disk_and_a_figure_and_a_widget_answer_on_them(browser, tmp_path):
    notebook = made("hidden", "chart", ("text", "**Bet.** $a^2$"), "result", "live", ("text", "for me"))
    notebook.cells[0].source += "\n\nIn a word.\n\n## What you will be able to do\n- read"
    typed(notebook, "slide", "skip", "subslide", "slide", "fragment", "slide", "notes")
    show(notebook.cells[1], {"text/plain": "not here"})
    show(notebook.cells[2], {PLOTLY: {"data": [{"y": [1, 3, 2]}], "layout": {"height": 400}}})
    show(notebook.cells[4], {"text/plain": "revealed"})
    show(notebook.cells[5], Angles().static_output(), {STATIC: "1"})
    notebook.cells[4].metadata["tags"] = ["shows-code"]
    write_slides([("02-made", notebook)], tmp_path)
    problems, asked = [], []
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)
    tab = context.new_page()
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto((tmp_path / "02-made.html").as_uri())
    tab.wait_for_function("window.Reveal?.isReady()")
    seen = lambda: tab.evaluate("Reveal.getCurrentSlide().innerText")  # noqa: E731
    assert "In a word." in seen() and "able to do" not in tab.content() and "not here" not in tab.content()
    tab.keyboard.press("ArrowDown")
    tab.locator("section.present .figure[data-drawn]").wait_for()
    assert "chart" not in seen()  # code is not shown
    tab.keyboard.press("Space")
    assert "Bet." in seen() and tab.locator("section.present math").count() == 1
    revealed = tab.get_by_text("revealed", exact=True)
    assert not revealed.is_visible()
    tab.keyboard.press("Space")
    revealed.wait_for(state="visible")
    assert "result" in seen()  # a cell whose code is to be shown
    tab.keyboard.press("Space")
    number = tab.locator("section.present [data-number=distance]")
    number.wait_for()
    before = number.inner_text()
    number.focus()
    tab.keyboard.press("ArrowRight")  # the widget's, and no slide is turned
    tab.wait_for_function("([each, before]) => each.textContent !== before", arg=[number.element_handle(), before])
    assert tab.locator("section.present .apviz-live .controls").bounding_box()["width"] > 200
    assert tab.evaluate("Reveal.getIndices().h") == 2 and not tab.get_by_text("for me").is_visible()
    context.close()
    assert problems == [] and asked and not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


WIDGETS = [name for name in widgets.__all__ if isinstance(getattr(widgets, name), type)]
#: widgets that say more after a bet
BETS = {"CGAgainstProjection": {"bet": "shown"}, "Kappas": {"bet": "shown"}, "WhichBlock": {"reveal": True}}


@pytest.fixture
def on_screen(browser, tmp_path):
    """Return a function that opens slides on a small projector, without errors."""
    problems = []
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)

    def go(notebook):
        write_slides([("02-made", notebook)], tmp_path)
        tab = context.new_page()
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.goto((tmp_path / "02-made.html").as_uri())
        tab.wait_for_function("window.Reveal?.isReady()")
        return tab

    yield go
    context.close()
    assert problems == []


def test_every_widget_fits_a_slide_of_a_small_projector_after_a_bet_too_and_with_a_question_under_it(on_screen):
    shown = [(name, {}) for name in WIDGETS] + [*BETS.items(), ("Projection", {"step": 2})]
    question = (
        "text",
        "**Question.** Why do the later steps achieve so little?\n\n<details><summary>Answer</summary></details>",
    )
    notebook = made(*[name for name, _ in shown], question)
    typed(notebook, "slide", *["slide"] * len(shown), "-")
    for cell, (name, values) in zip(notebook.cells[1:], shown, strict=False):
        show(cell, getattr(widgets, name)(**values).static_output(), {STATIC: "1"})
    tab = on_screen(notebook)
    for place, (name, _) in enumerate(shown, start=1):
        tab.evaluate(f"Reveal.slide({place})")
        tab.locator("section.present .apviz-live svg:visible").first.wait_for()
        tab.wait_for_function("!Reveal.getCurrentSlide().querySelector('[data-busy]')")
        # what is computed late makes a widget grow, and the text around it give way
        tab.wait_for_function("Reveal.getCurrentSlide().scrollHeight <= 720")
        size = "parseFloat(getComputedStyle(Reveal.getCurrentSlide().querySelector('.apviz-live')).fontSize)"
        assert tab.evaluate(size) >= 17, name


def test_a_tall_figure_and_a_long_text_fit_a_slide_and_stay_readable(on_screen):
    notebook = typed(
        made("1", ("text", "## Much to say\n\n" + "Eight short words are here for one line. " * 60)),
        "slide",
        "slide",
        "slide",
    )
    show(notebook.cells[1], {PLOTLY: {"data": [{"y": [1, 3, 2]}], "layout": {"height": 900}}})
    tab = on_screen(notebook)
    tall = "Reveal.getCurrentSlide().scrollHeight"
    tab.evaluate("Reveal.slide(1)")
    tab.locator("section.present .figure[data-drawn]").wait_for()
    tab.wait_for_function(f"{tall} <= 720")
    assert tab.locator("section.present .main-svg").first.bounding_box()["height"] > 400
    tab.evaluate("Reveal.slide(2)")
    assert tab.evaluate(tall) <= 720
    assert tab.evaluate("parseFloat(getComputedStyle(Reveal.getCurrentSlide().querySelector('p')).fontSize)") >= 16


def test_the_window_for_the_speaker_shows_the_notes(on_screen):
    tab = on_screen(typed(made("1", ("text", "Ask the third row.")), "slide", "skip", "notes"))
    assert not tab.get_by_text("Ask the third row.").is_visible()
    with tab.expect_popup() as opened:
        tab.keyboard.press("s")
    opened.value.get_by_text("Ask the third row.").wait_for()
