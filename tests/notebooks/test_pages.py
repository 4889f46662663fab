"""The pages of the notebooks, in a browser without a network."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("nbconvert", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

import nbformat
import plotly.graph_objects as go

import apviz
from apviz import rkhs
from apviz.plots import two_norms
from apviz.plots._style import theme_named
from apviz.plots.blocks.residual_image import slider
from apviz.widgets import Angles, WhichBlock
from apviz.widgets.exercise import NO_ANSWER
from apviz.widgets.live_widget import STATIC
from notebooks.build.mathematics import mathml
from notebooks.build.pages import NO_PYTHON, aims, as_seen_from_pages, page, write_pages
from tests.notebooks.making import made

ROOT = Path(__file__).resolve().parent.parent.parent
PLOTLY = "application/vnd.plotly.v1+json"
TEXT = r"""## What you will be able to do
- see $\|r\|_H^2$ fall;
- follow *links*: [next](02-other.ipynb#a), [file](../README.md).

$$ K = \begin{pmatrix} 1 & \rho \\ \rho & 1 \end{pmatrix}, \qquad \lambda_{\max} = 1 + \rho $$

<details><summary>Answer</summary>

It is $w_a * w_b$ and $u_a * u_b$, at `$HOME`.

</details>
"""


def show(cell, data, metadata=None):
    cell.execution_count = 1
    cell.outputs.append(nbformat.v4.new_output("display_data", data, metadata=metadata or {}))


def stepped():
    """Return a figure with a slider over steps, whose titles have lines of different lengths."""
    x, b = rkhs.toy_problem("even", 16)
    found = rkhs.trajectory(rkhs.Span(x, apviz.Matern52(lengthscale=0.15), 0.01), b, blocks=4, steps=12)
    states = [two_norms(found, step) for step in range(13)]
    for step, state in enumerate(states):
        state.layout.title.text = state.layout.title.text.replace("in 12 steps", f"step {step} of 12:")
    traces = [*range(len(states[0].data))]
    frames = [
        {"name": str(step), "data": state.data, "layout": {"title": state.layout.title}, "traces": traces}
        for step, state in enumerate(states)
    ]
    figure = go.Figure(states[0].data, states[0].layout, frames)
    place = {"x": 0, "y": 0, "len": 1, "pad": {"t": 60}}
    figure.update_layout(sliders=[slider([str(step) for step in range(13)], theme_named("light"), **place)])
    return json.loads(figure.to_json())


def test_an_exercise_on_a_page_does_not_tell_to_run_a_cell():
    notebook = made(("exercise", "answer = ..."), "check(answer, 1)", ("solution", "check(1, 1)"))
    show(notebook.cells[2], {"text/markdown": f"*{NO_ANSWER}*"})
    html = page(notebook, "here")
    assert NO_PYTHON in html and "run that cell" not in html


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write pages of two notebooks: one with everything that a page can have, and one with a picture."""
    notebook = made(("text", TEXT), "widget", "figure", ("solution", "check(1, 1)"), "print(1)")
    widget, figure, solution, printed = notebook.cells[2:]
    show(widget, {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}})
    show(widget, WhichBlock().static_output(), {STATIC: "1"})
    show(figure, {PLOTLY: stepped(), "text/html": "<script src='https://cdn.plot.ly/plotly.js'></script>"})
    show(figure, {PLOTLY: {"data": [{"y": [1, 3, 2], "name": "</script><b>"}], "layout": {}}})
    show(solution, {"text/markdown": "✓ **Right.** $a^2$"})
    printed.outputs.append(nbformat.v4.new_output("stream", text="\x1b[31m1 < 2\x1b[0m"))
    place = tmp_path_factory.mktemp("pages") / "html"
    other = made("picture", title="The other")
    around = {"height": 500, "margin": {"t": 200, "b": 20, "l": 10, "r": 10}, "meta": {"heightOverWidth": 0.25}}
    show(other.cells[1], {PLOTLY: {"data": [{"type": "heatmap", "z": [[1, 2], [3, 4]]}], "layout": around}})
    write_pages([("01-made", notebook), ("02-other", other)], place)
    return place


@pytest.fixture
def visit(browser, folder):
    """Return a function that opens a page without errors and requests outside its folder."""
    problems, asked = [], []
    context = browser.new_context(viewport={"width": 1200, "height": 2400})

    def come(name: str):
        tab = context.new_page()
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto((folder / name).as_uri())
        return tab

    yield come
    context.close()
    assert problems == []
    assert asked and not [url for url in asked if not url.startswith((folder.as_uri(), "data:", "blob:"))]


def test_a_widget_responds_and_a_figure_is_drawn_once_it_is_near(visit):
    tab = visit("01-made.html")
    tab.wait_for_function("document.querySelectorAll('.figure[data-drawn]').length === 2")
    tab.locator(".widget .apviz-live svg .curve").first.wait_for(state="attached")
    number = tab.locator(".widget [data-number=step]")
    number.focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_function("each => each.textContent === '1'", arg=number.element_handle())
    assert tab.locator(".widget .figure").count() == 0


def brightness(tab, place: str, of: str) -> list[float]:
    """Return the brightness, from 0 to 1, of a colour of every element found by a selector."""
    found = tab.locator(place).evaluate_all("(all, of) => all.map((each) => getComputedStyle(each)[of])", of)
    return [sum(map(int, re.findall(r"\d+", each)[:3])) / 765 for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_code_figures_and_widgets_follow_the_theme_and_print_on_white(visit, scheme):
    tab = visit("01-made.html")
    papers = ("body", ".figure .main-svg:first-child", ".apviz-live")
    for now in (scheme, "light" if scheme == "dark" else "dark", scheme):
        tab.emulate_media(color_scheme=now)
        tab.wait_for_timeout(100)
        tab.wait_for_function("document.querySelectorAll('.figure[data-drawn]').length === 2")
        for of, places in (("backgroundColor", papers), ("color", ("body", ".highlight"))):
            seen = [each for place in places for each in brightness(tab, place, of)]
            assert len(seen) >= len(places)
            assert all((each > 0.5) == ((now == "light") == (of == "backgroundColor")) for each in seen), (of, seen)
        assert all((each > 0.5) == (now == "dark") for each in brightness(tab, ".figure .gtitle", "fill"))
    tab.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    tab.wait_for_function("document.querySelectorAll('.figure[data-drawn]').length === 2")
    assert all(each > 0.9 for place in papers for each in brightness(tab, place, "backgroundColor"))


def test_only_a_page_with_a_figure_loads_plotly(browser, tmp_path):
    write_pages([("01-plain", made(("text", TEXT), "print(1)"))], tmp_path / "html")
    tab, asked = browser.new_page(), []
    tab.on("request", lambda request: asked.append(Path(request.url).name))
    tab.goto((tmp_path / "html/01-plain.html").as_uri())
    tab.wait_for_timeout(500)
    tab.close()
    assert "page.css" in asked and not {"plotly.min.js", "page.js"} & {*asked}


@pytest.mark.slow
def test_the_handle_of_the_slider_can_be_dragged(visit):
    tab = visit("01-made.html")
    chart = tab.locator(".figure").first
    chart.scroll_into_view_if_needed()
    tab.wait_for_function("document.querySelectorAll('.figure[data-drawn]').length === 2")
    assert chart.evaluate("gd => gd.layout.sliders[0].active || 0") == 0
    rail = chart.locator(".slider-rail-touch-rect").bounding_box()
    tab.mouse.click(rail["x"] + rail["width"] - 3, rail["y"] + rail["height"] / 2)
    tab.wait_for_function("gd => gd.layout.sliders[0].active === 12", arg=chart.element_handle())


def test_formulas_are_mathml_and_solutions_and_answers_are_collapsed(visit):
    tab = visit("01-made.html")
    tab.wait_for_function("document.querySelectorAll('.figure[data-drawn]').length === 2")
    assert tab.locator("math").count() == 5 and tab.locator("math[display=block] mtd").count() == 4
    assert "$" not in tab.locator("main").inner_text().replace("$HOME", "")
    solution = tab.get_by_text("Solution", exact=True)
    right = tab.get_by_text("Right.")
    assert not right.is_visible()
    solution.click()
    assert right.is_visible()
    tab.get_by_text("Answer", exact=True).click()
    assert tab.locator("details code").first.inner_text() == "$HOME"


def test_links_lead_from_page_to_page_and_the_first_page_lists_all(visit):
    tab = visit("index.html")
    assert tab.locator(".contents li li math").count() == 1
    tab.get_by_text("Made by a test").click()
    tab.get_by_role("link", name="next", exact=True).click()
    assert tab.title() == "The other"
    tab.get_by_text("← 01-made").first.click()
    assert tab.get_by_role("link", name="file").get_attribute("href") == "../../README.md"


def test_on_a_phone_nothing_is_wider_than_the_screen(visit):
    tab = visit("01-made.html")
    tab.set_viewport_size({"width": 390, "height": 2400})
    tab.reload()
    tab.wait_for_function("document.querySelectorAll('.figure[data-drawn]').length === 2")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_no_text_code_or_formula_of_a_notebook_is_wider_than_a_phone(browser, tmp_path):
    notebooks = [(path.stem, nbformat.read(path, 4)) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    long = "GPyTorch warns of linear_operator.settings.max_cg_iterations(value)_and_more\n"
    code = next(cell for cell in notebooks[-1][1].cells if cell.cell_type == "code")
    code.outputs.append(nbformat.v4.new_output("stream", text=long))
    write_pages(notebooks, tmp_path)
    tab = browser.new_page(viewport={"width": 390, "height": 900})
    for name, _ in notebooks:
        tab.goto((tmp_path / f"{name}.html").as_uri())
        tab.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, name
    tab.close()


@pytest.mark.slow
def test_lines_of_a_caption_are_joined_or_broken_by_the_available_width(visit):
    tab = visit("01-made.html")
    made_for_a_phone, frames = tab.evaluate(
        """() => {
            const {layout, frames} = JSON.parse(document.getElementById("figure-1").textContent);
            return [layout, frames.map(frame => frame.layout.title.text)];
        }"""
    )
    first = tab.locator(".figure").first
    now = "gd => [gd.layout.title.text, gd._fullLayout.height, gd._fullLayout.margin.t, gd.offsetHeight]"
    plain = lambda text: " ".join(re.sub("<[^>]+>", " ", text).replace("·", " ").split())  # noqa: E731
    for width, saved in ((1200, 2), (390, 1), (1200, 2)):
        tab.set_viewport_size({"width": width, "height": 2400})
        count = made_for_a_phone["title"]["text"].count("<br>") - saved
        tab.wait_for_function(
            "([gd, count]) => gd.dataset.drawn === '' && gd.layout?.title.text.split('<br>').length === count + 1",
            arg=[first.element_handle(), count],
        )
        text, height, top, place = first.evaluate(now)
        assert plain(text) == plain(made_for_a_phone["title"]["text"])
        assert height == place == made_for_a_phone["height"] - 20 * saved
        assert top == made_for_a_phone["margin"]["t"] - 20 * saved
        # and every frame has room for its title
        first.evaluate("gd => Plotly.animate(gd, ['9'], {mode: 'immediate', frame: {duration: 0, redraw: true}})")
        tab.wait_for_function("gd => gd.layout.title.text.includes('step 9')", arg=first.element_handle())
        assert plain(first.evaluate(now)[0]) == plain(next(text for text in frames if "step 9" in text))


@pytest.mark.slow
def test_the_height_of_a_picture_follows_its_width_up_to_its_limit(visit):
    tab = visit("02-other.html")
    for width in (390, 345, 1200):
        tab.set_viewport_size({"width": width, "height": 1000})
        tab.reload()
        tab.locator(".figure[data-drawn]").wait_for()
        place, drawn = tab.locator(".figure").evaluate("gd => [gd.offsetWidth, gd._fullLayout.height]")
        assert drawn == pytest.approx(min(500, 220 + 0.25 * (place - 20)), abs=1)
        assert tab.locator(".figure").evaluate("gd => gd.offsetHeight") == drawn


@pytest.mark.slow
def test_a_printed_page_has_all_figures_widgets_and_answers_and_is_restored_afterwards(browser, tmp_path):
    pypdf = pytest.importorskip("pypdf")
    notebook = made(("text", "far above\n\n" * 200), "one", ("text", TEXT), "two", ("solution", "check(1, 1)"), "live")
    _, _, one, _, two, solution, live = notebook.cells
    for cell, name in ((one, "first chart"), (two, "second chart")):
        show(cell, {PLOTLY: {"data": [{"y": [1, 3, 2]}], "layout": {"title": {"text": name}, "height": 400}}})
    show(solution, {"text/markdown": "✓ **Right.** And so it is."})
    show(live, Angles().static_output(), {STATIC: "1"})
    write_pages([("01-made", notebook)], tmp_path)
    tab = browser.new_page(viewport={"width": 1200, "height": 600})
    tab.goto((tmp_path / "01-made.html").as_uri())
    tab.wait_for_function("window.Plotly")
    assert tab.locator(".figure .main-svg").count() == 0  # all figures are far below
    tab.pdf(path=tmp_path / "page.pdf")
    pages = pypdf.PdfReader(tmp_path / "page.pdf").pages
    printed = "\n".join(page.extract_text() for page in pages)
    for words in ("first chart", "second chart", "It is", "Right.", "And so it is", "after the first sweep"):
        assert words in printed, words
    assert "all notebooks" not in printed
    # a chart is complete, and not wider than the sheet
    (where,) = [page for page in pages if "first chart" in page.extract_text()]
    assert "2.5" in where.extract_text() and float(where.mediabox.width) < 620
    assert tab.locator("details[open]").count() == 0 and not tab.locator("html.printing").count()
    tab.close()


def test_links_are_relative_to_the_folder_of_the_pages():
    assert as_seen_from_pages("03-which.ipynb#proof") == "03-which.html#proof"
    assert as_seen_from_pages("../apviz/rules.py") == "../../apviz/rules.py"
    assert as_seen_from_pages("https://example.org/a.ipynb") == "https://example.org/a.ipynb"
    assert as_seen_from_pages("#here") == "#here"


def test_primes_are_not_superscripts():
    assert "<msup>" not in mathml(r"\kappa' = k(x, x')", display=False)
    assert "<msub><mrow>" in mathml(r"\lambda'_{\max}", display=False)
    assert "<msup>" in mathml(r"x^2", display=False)


def test_a_long_inline_formula_may_break_after_each_relation_outside_brackets():
    short, long = r"K = LL^\top", r"\|R\|_F^2 = \mathrm{tr}(Y^\top K Y) \geq \lambda \|Y\|_F^2 = (a = b) c"
    assert mathml(short, display=False).count("<math") == 1 == mathml(long, display=True).count("<math")
    parts = mathml(long, display=False).split("<wbr>")
    assert [re.sub("<[^>]+>", "", part)[-1] for part in parts] == ["=", "≥", "=", "c"]
    assert all(part.startswith("<math") and part.endswith("</math>") for part in parts)


def test_latex_that_cannot_become_mathml_raises():
    with pytest.raises(ValueError, match=r"\\nosuch cannot become MathML"):
        mathml(r"a + \nosuch{b}", display=False)
    with pytest.raises(ValueError, match="this formula cannot become MathML"):
        mathml(r"\left( a", display=False)
    with pytest.raises(ValueError, match="nosuch"):
        page(made(("text", r"$\nosuch$")), "here")


def test_learning_goals_are_taken_from_their_section():
    assert len(aims(made(("text", TEXT)))) == 2 and aims(made(("text", "nothing"))) == []
