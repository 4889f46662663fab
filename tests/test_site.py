"""The site of docs/ is built without a warning, opens from disk, and has no dead links."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import numpy as np
import pytest
from PIL import Image

import apviz
from apviz import datasets, gp, plots, rkhs, tracing, widgets

ROOT = Path(__file__).resolve().parent.parent
ELSEWHERE = re.compile(r"(https?:|mailto:|data:|javascript:)")
#: the limit for a page, and for all files that it loads except images
MOST_BYTES = 2_000_000
#: one page of every kind
KINDS = (
    "index.html", "lessons.html", "guide/gpytorch.html", "gpytorch_models.html", "mathematics.html",
    "figures/index.html", "figures/solves/residuals.html", "api/plots.html",
    "api/names/apviz.AlternatingProjection.html", "benchmarks/index.html", "benchmarks/leaderboard.html",
    "benchmarks/referee.html", "benchmarks/trust.html", "architecture.html", "contributing.html", "changelog.html",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Return the folder of the site: the one in `APVIZ_SITE`, or a new build, which takes minutes."""
    if built := os.environ.get("APVIZ_SITE"):
        return Path(built).resolve()
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "docs", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


class Page(HTMLParser):
    """The anchors, links and loaded files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.places |= {value for name in ("id", "name") if (value := found.get(name))}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if found.get("src"):
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload", "modulepreload"):
            self.loads.append(found["href"])


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    # the theme has an HTML template among its scripts
    return {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}


# --- sources ----------------------------------------------------------------------------------------------------------


def test_every_figure_has_a_script_of_about_ten_lines_and_every_script_a_figure():
    folders = (ROOT / "docs" / "gallery").iterdir()
    scripts = {path.stem: path for each in folders if each.name != "predictions" for path in each.glob("*.py")}
    names = [name for name in plots.__all__ if name != "method_color"]
    figures = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): name for name in names}
    assert set(scripts) == set(figures)
    for figure, path in scripts.items():
        code = path.read_text("utf-8").split('"""')[2]
        lines = [line for line in code.splitlines() if line and not line.startswith(("import", "from"))]
        assert len(lines) <= 10 and f".{figures[figure]}(" in code, path


def test_every_notebook_is_among_the_lessons_in_order():
    listed = re.findall(r"^- \d\d.* \[.*\]\(\.\./(notebooks/.*\.ipynb)\)", (ROOT / "docs/lessons.md").read_text(), re.M)
    assert listed == sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_every_widget_has_a_sentence_and_the_lessons_that_show_it():
    rows = re.findall(
        r"^\| `(\w+)` \| ([\db, ]+) \| ([^|]+\.) \|$", (ROOT / "docs/lessons.md").read_text("utf-8"), re.M
    )
    shown: dict[str, list[str]] = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for name in dict.fromkeys(re.findall(r'^ +"widgets\.([A-Z]\w+)\(', path.read_text("utf-8"), re.M)):
            shown.setdefault(name, []).append(path.stem.partition("-")[0])
    assert {name: numbers.split(", ") for name, numbers, _ in rows} == shown
    assert all(sentence.count(". ") == 0 and len(sentence.split()) <= 25 for _, _, sentence in rows)


def test_every_marker_of_an_include_appears_once_in_its_file_and_in_order():
    text = (ROOT / "docs/index.md").read_text("utf-8")
    found = re.findall(r'{include} (\S+)\n:start-after: "(.*)"\n:end-before: "(.*)"', text)
    assert len(found) == 3
    for path, start, end in found:
        included = (ROOT / "docs" / path).read_text("utf-8")
        assert included.count(start) == included.count(end) == 1 and included.index(start) < included.index(end)


# --- the built site ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_link_leads_to_an_existing_page_and_anchor(site, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            if ELSEWHERE.match(link):
                continue
            target, place = urldefrag(link)
            there = (path.parent / unquote(target)).resolve() if target else path
            if there.is_dir():
                there /= "index.html"
            # browsers look for an anchor as written, then for its decoded form
            is_place = not place or there not in pages or {place, unquote(place)} & pages[there].places
            if not (there.is_file() and is_place):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


@pytest.mark.slow
def test_every_file_that_a_page_loads_is_local_and_exists(site, pages):
    for path, page in pages.items():
        for load in page.loads:
            if load.startswith("data:"):
                continue
            file = path.parent / unquote(load.partition("?")[0].partition("#")[0])
            assert not ELSEWHERE.match(load) and file.is_file(), f"{path.relative_to(site)}: {load}"
    for file in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import[^;]*//", file.read_text("utf-8")), file


@pytest.mark.slow
def test_no_page_is_above_two_megabytes(site, pages):
    assert len(pages) > 300
    assert [path for path in pages if path.stat().st_size > MOST_BYTES] == []


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    known = {line.split(" ")[0] for line in zlib.decompress(inventory).decode().splitlines()}
    rooms = (apviz, apviz.gpytorch, datasets, gp, plots, rkhs, tracing, widgets)
    found = {}
    for room in rooms:
        for name in room.__all__:
            if not inspect.ismodule(getattr(room, name)) and not name.startswith("__"):
                found.setdefault(id(getattr(room, name)), []).append(f"{room.__name__}.{name}")
    assert [names for names in found.values() if not known.intersection(names)] == []


# --- the site in a browser, from disk and without a network -----------------------------------------------------------


@pytest.fixture
def visit(site, browser):
    """Return a function that opens a page with a width and a theme, and fails if it loads anything but files."""
    contexts = []

    def go(name: str, *, width: int = 1440, theme: str = "light"):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, offline=True))
        page = contexts[-1].new_page()
        page.asked, page.errors = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(f"{(site / name.partition('?')[0]).as_uri()}{''.join(name.partition('?')[1:])}")
        page.wait_for_load_state("load")
        return page

    yield go
    for context in contexts:
        context.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_page_fits_a_phone_and_a_screen_and_loads_only_files(visit, name):
    for width in (390, 1440):
        page = visit(name, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.errors == []
        assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_files_of_a_page_other_than_images_are_below_two_megabytes(visit, name):
    files = {Path(unquote(url.partition("?")[0].removeprefix("file://"))) for url in visit(name).asked}
    counted = [file for file in files if file.is_file() and file.suffix not in (".png", ".svg", ".jpg", ".webp")]
    assert 0 < sum(file.stat().st_size for file in counted) < MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_violation_on_any_kind_of_page(site, visit, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    lessons = [f"lessons/{name}.html" for name in ("03-which-block-next", "06-overlap", "kit/handouts", "kit/exam")]
    found = []
    for name in (*KINDS, *(each for each in lessons if (site / each).exists())):
        page = visit(name, theme=theme)
        answer = axe.Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        found += [f"{name}: {each['id']}: {node['html'][:200]}" for each in answer for node in each["nodes"]]
    assert found == []


@pytest.mark.slow
def test_the_home_page_plays_its_picture_and_shows_a_still_to_who_asked_for_less_motion(visit):
    page = visit("index.html", width=390)
    box = page.locator("img.plays").bounding_box()
    assert box["y"] < 400 and box["width"] > 300 and page.locator("canvas.plays").count() == 0
    page.emulate_media(reduced_motion="reduce")
    page.reload()
    page.locator("canvas.plays[role=img]").wait_for()
    assert page.locator("img.plays").count() == 0 and page.errors == []


@pytest.mark.slow
def test_the_search_finds_a_word_and_a_name(visit):
    for query, title in (("overlap", "Methods"), ("fallback_rank", "AlternatingProjection")):
        page = visit(f"search.html?q={query}")
        page.get_by_text("Search finished").wait_for()
        assert title in page.locator("#search-results").inner_text()
        assert page.errors == []


@pytest.fixture
def lesson(site, visit):
    """Return a function that opens the page of a notebook in the site."""

    def go(name: str, **how):
        if not (site / f"lessons/{name}.html").exists():
            pytest.skip("this site has no pages of notebooks: run make notebooks, then make docs")
        return visit(f"lessons/{name}.html", **how)

    return go


@pytest.mark.slow
def test_the_search_finds_a_section_of_a_lesson(lesson, visit):
    lesson("08-train")
    page = visit("search.html?q=hutchinson")
    page.get_by_text("Search finished").wait_for()
    found = page.locator("#search-results a[href*='lessons/08-train.html']").first
    found.click()
    assert page.locator("article h1").inner_text() == "How accurate must a solve be, to train?" and page.errors == []


@pytest.mark.slow
def test_a_lesson_has_the_header_and_the_theme_of_the_site_and_its_contents_at_the_side(lesson):
    for width in (390, 1440):
        page = lesson("03-which-block-next", width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width and page.errors == []
    assert page.locator("header .search-button:visible, header button:has-text('Search')").count()
    links = page.locator("#pst-page-toc-nav a").evaluate_all(
        "all => all.map(each => each.getAttribute('href').slice(1))"
    )
    assert len(links) > 5 and all(page.locator(f'h2[id="{unquote(each)}"]').count() == 1 for each in links)
    drawn = page.locator(".figure[data-drawn]").first
    page.locator(".figure").first.scroll_into_view_if_needed()
    drawn.wait_for()
    colour = "document.querySelector('.figure[data-drawn]').layout.template.layout.paper_bgcolor"
    before = page.evaluate(colour)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_function(f"document.querySelector('.figure[data-drawn]') && {colour} !== '{before}'")


@pytest.mark.slow
def test_a_lesson_checks_the_answer_of_an_exercise(lesson):
    page = lesson("00-start-here")
    exercise = page.locator("form.exercise").first
    exercise.get_by_label("Your answer").fill("12")
    exercise.get_by_role("button").click()
    assert exercise.locator("output").inner_text() == "✓ Right."


@pytest.mark.slow
def test_the_browser_renders_formulas(visit):
    page = visit("mathematics.html")
    fraction = page.locator(".formula mfrac").first.bounding_box()
    above, below = (page.locator(f".formula mfrac > :nth-child({place})").first.bounding_box() for place in (1, 2))
    assert fraction["height"] > 20 and above["y"] + above["height"] <= below["y"] + 1
    assert "\\" not in page.locator("article").inner_text()


@pytest.mark.slow
def test_no_still_image_is_empty_in_its_middle(site):
    stills = list((site / "_images").glob("sphx_glr_*_00[12].png"))
    if not stills:
        pytest.skip("this site was built without a browser")
    for still in stills:
        pixels = np.asarray(Image.open(still).convert("RGB"))
        height, width = pixels.shape[:2]
        middle = pixels[height // 5 : -height // 5, width // 10 : -width // 10].reshape(-1, 3)
        assert len(np.unique(middle, axis=0)) > 100, still.name


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_figure_is_a_still_image_of_the_theme_until_it_is_touched(visit, theme):
    page = visit("figures/solves/residuals.html", theme=theme)
    figure = page.locator(".plot")
    shown = figure.locator("img:visible")
    assert shown.count() == 1 and f"only-{theme}" in shown.get_attribute("class")
    assert not any("plotly" in url for url in page.asked)
    before = shown.bounding_box()
    figure.hover()
    figure.locator(".js-plotly-plot .legend").wait_for(timeout=20_000)
    assert figure.locator("img:visible").count() == 0
    chart = figure.locator(".js-plotly-plot")
    assert abs(chart.bounding_box()["y"] - before["y"]) < 5
    assert chart.bounding_box()["width"] <= page.locator("article").bounding_box()["width"] + 1
    paper = chart.evaluate("chart => chart._fullLayout.paper_bgcolor")
    assert paper == plots._style.theme_named(theme).paper


@pytest.mark.slow
def test_a_live_figure_changes_its_theme_with_the_page(visit):
    page = visit("figures/solves/two_norms.html", width=390)
    page.locator(".plot").hover()
    page.locator(".js-plotly-plot .legend").wait_for(timeout=20_000)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    dark = plots._style.theme_named("dark").paper
    page.wait_for_function(f"document.querySelector('.js-plotly-plot')?._fullLayout?.paper_bgcolor === '{dark}'")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_a_table_of_measurements_is_sorted_by_its_headers_and_filtered(visit):
    page = visit("benchmarks/index.html")
    table = page.locator("article table").filter(has_text="A: AP, overlapping").first
    column = table.locator("thead th").all_inner_texts().index("kin40k")

    def cells() -> list[str]:
        return table.locator(f"tbody tr:visible td:nth-child({column + 1})").all_inner_texts()

    before = cells()
    button = table.get_by_role("button", name="kin40k")
    button.focus()
    page.keyboard.press("Enter")
    numbers = [float(each.split()[0]) for each in cells() if each[0].isdigit()]
    assert numbers == sorted(numbers) and len(numbers) > 3
    others = [each for each in before if not each[0].isdigit()]  # "limit", a dash, seconds in brackets without work
    assert others and sorted(cells()[-len(others) :]) == sorted(others)  # last in either direction
    button.click()
    assert table.locator("th").nth(column).get_attribute("aria-sort") == "descending"
    assert [float(each.split()[0]) for each in cells() if each[0].isdigit()] == numbers[::-1]
    assert sorted(cells()[-len(others) :]) == sorted(others)
    assert sorted(cells()) == sorted(before)
    page.locator(".rows-with").first.fill("no row has this")
    assert page.locator("article table tbody").locator("tr[hidden]").count() > 0


@pytest.mark.slow
def test_a_table_of_the_guide_is_not_sorted(visit):
    assert visit("guide/methods.html").locator("th > button").count() == 0
