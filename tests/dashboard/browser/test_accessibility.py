"""Every page with a keyboard, with a screen reader, on a phone and on a projector."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import apviz
from apviz.dashboard import entrance, login
from apviz.dashboard.pages import PAGES
from tests.dashboard.browser.server import SHOWN, TOO_NARROW, WITH_BLOCKS, Server
from tests.dashboard.screenshots import wait_until_quiet

axe = pytest.importorskip("axe_playwright_python.sync_playwright")

#: Button of each page that starts its job; Runs has none.
MAIN = {
    "compare": "Run", "predict": "Fit", "replay": "Record a solve", "block-size": "Try block sizes",
    "noise": "Try noise levels", "training": "Start a training",
}  # fmt: skip
FOCUSED = """() => {
    let at = document.activeElement;
    while (at.shadowRoot && at.shadowRoot.activeElement) at = at.shadowRoot.activeElement;
    const name = at.getAttribute("aria-label") || at.innerText || "", style = getComputedStyle(at);
    const isField = at.matches("input, textarea, [role=combobox]") && at.closest(".Mui-focused");
    const shown = style.outlineStyle !== "none" || at.matches(".Mui-focusVisible") || Boolean(isField)
        || Boolean(at.closest(".Mui-focusVisible"));
    return [name.split("\\n").pop(), shown, at === document.body ? "" : at.outerHTML.slice(0, 200)];
}"""

#: Top and bottom of the cards around charts.
CARDS = """all => all.map((at) => {
    while (!at.classList?.contains("bk-panel-models-esm-ReactComponent")) at = at.parentNode || at.host;
    const { top, bottom } = at.getBoundingClientRect();
    return [top, bottom];
})"""


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Start a server with the shipped examples, which fill every page."""
    started = Server(tmp_path_factory.mktemp("examples"))
    yield started
    started.kill()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Start a server with the shipped examples in projector mode."""
    started = Server(tmp_path_factory.mktemp("examples"), "--lecture")
    yield started
    started.kill()


def violations(tab) -> list[str]:
    """Return what axe objects to on a page: rule, element and reason."""
    found = axe.Axe().run(tab, options={"resultTypes": ["violations"]}).response["violations"]
    nodes = [(each["id"], node) for each in found for node in each["nodes"]]
    return [f"{rule}: {node['html'][:300]} — {node['failureSummary']}" for rule, node in nodes]


def opened(visitor, page: str, theme: str = "light"):
    more = {"more": "true"} if page == "compare" else {}
    visitor.tab.goto(visitor.server.address({"page": page, "theme": theme, **more}))
    wait_until_quiet(visitor.look().tab)
    return visitor


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_violation_on_any_page_on_a_desk_and_on_a_phone(visit, full, page, theme):
    someone = opened(visit(1440, 900, to=full), page, theme)
    assert violations(someone.tab) == []
    someone.tab.set_viewport_size({"width": 390, "height": 844})
    wait_until_quiet(someone.tab)
    assert violations(someone.tab) == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_violation_in_the_drawer(visit, full, theme):
    someone, found = visit(1440, 900, to=full).go(theme=theme), {}
    for chip in ("Data set", "Kernel", "Methods", "Advanced", "Use my data"):
        someone.edit(chip)
        wait_until_quiet(someone.tab)
        found[chip] = violations(someone.tab)
    assert {chip: each for chip, each in found.items() if each} == {}


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_violation_before_and_during_the_start_and_at_the_login(browser, visit, full, theme):
    tab = browser.new_page(color_scheme=theme, viewport={"width": 390, "height": 844})
    for html in (login.page("", "Wrong user name or password.", has_users=True), entrance._PAGE.decode()):
        tab.set_content(html)
        assert violations(tab) == []
    tab.close()
    early = visit(390, 844, to=full)
    early.server_may_go = True  # the browser reports the scripts that it does not get
    early.tab.route(re.compile(r"bokeh|panel"), lambda route: route.abort())
    early.tab.goto(full.address({"theme": theme}))
    early.tab.locator("#apviz-chart:has(.main-svg)").wait_for()
    assert violations(early.tab) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", MAIN)
def test_the_main_button_is_within_five_stops_of_the_tab_key_and_every_stop_shows_its_focus(visit, full, page):
    someone = opened(visit(1440, 900, to=full), page)
    stops = []
    for _ in range(60):
        someone.tab.keyboard.press("Tab")
        name, shown, html = someone.tab.evaluate(FOCUSED)
        assert shown or not html, html
        stops.append(name)
    assert MAIN[page] in stops[:5], stops


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_chart_has_a_description_a_button_to_its_table_and_the_height_of_its_row(visit, full, page):
    someone = opened(visit(1440, 900, to=full), page)
    charts = someone.tab.locator("[role=figure]:has(.main-svg)").locator(SHOWN)
    said = charts.evaluate_all("all => all.map(each => each.getAttribute('aria-label'))")
    bottoms: dict[int, set[int]] = {}
    for top, bottom in charts.evaluate_all(CARDS):
        bottoms.setdefault(round(top), set()).add(round(bottom))
    # on Block size a diagnosis ends the column next to the sweep, as the next test checks
    is_level = all(max(each) - min(each) <= 1 for each in bottoms.values())
    assert is_level or page == "block-size", "cards of a row differ in height"
    tables = someone.tab.get_by_role("button", name="In words, and as a table").locator(SHOWN)
    assert all(len(each) > 20 for each in said) and tables.count() == len(said)
    if said:
        tables.first.click()
        someone.tab.locator("table.panel-df").locator(SHOWN).first.wait_for()


@pytest.mark.slow
def test_the_sweep_of_block_size_is_as_high_as_the_residuals_and_the_diagnosis_next_to_it(visit, full):
    someone = opened(visit(1440, 900, to=full), "block-size")
    ((_, bottom),) = someone.chart("Cost of each block size").evaluate_all(CARDS)
    button = someone.tab.get_by_role("button", name="Run again with").locator(SHOWN).bounding_box()
    assert 0 <= bottom - button["y"] - button["height"] <= 24, "the card ends a margin below its button"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 1920])
def test_on_a_projector_every_page_fits_and_shows_its_main_button(visit, large, width):
    someone = visit(width, 800 if width == 1280 else 1080, to=large)
    for page in PAGES:
        opened(someone, page)
        assert someone.tab.evaluate(TOO_NARROW) == [], page
        if page in MAIN:
            box = someone.tab.get_by_role("button", name=MAIN[page], exact=True).locator(SHOWN).bounding_box()
            assert box["x"] + box["width"] <= width and box["y"] + box["height"] <= 400, page


@pytest.mark.slow
def test_chips_are_moved_through_by_arrows_and_the_drawer_takes_and_returns_the_focus(visit):
    someone = visit().go()
    chips = someone.tab.get_by_role("toolbar", name="Settings").get_by_role("button")
    chips.first.focus()
    someone.tab.keyboard.press("ArrowRight")
    assert someone.tab.evaluate(FOCUSED)[0].startswith("Rows")
    someone.tab.keyboard.press("Enter")
    someone.field("Training rows").wait_for()
    someone.tab.wait_for_function(f"!({FOCUSED})()[0].startsWith('Rows')")
    someone.tab.keyboard.press("Escape")
    someone.tab.wait_for_function(f"({FOCUSED})()[0].startsWith('Rows')")
    for chip, title in (("Kernel", "Kernel and noise"), ("Rows", "Data")):
        someone.edit(chip).tab.get_by_role("heading", name=title, exact=True).locator(SHOWN).wait_for()
    someone.press("Close settings")
    someone.field("Training rows").wait_for(state="hidden")


@pytest.mark.slow
def test_every_chart_can_be_reached_by_the_tab_key_with_visible_focus(visit):
    someone = visit().go(methods="cg", more="true", selected=WITH_BLOCKS)
    someone.chart("Residual on each block")
    seen = set()
    for _ in range(150):
        someone.tab.keyboard.press("Tab")
        name, shown, _ = someone.tab.evaluate(FOCUSED)
        if shown:
            seen.add(name.split(".")[0])
        if name.startswith("Residual on each block"):
            break
    assert {"Run", "Residual", "κ and κ′", "Which block, when", "Residual on each block"} <= seen


@pytest.mark.slow
def test_every_chart_has_a_description_and_a_table(visit):
    someone = visit().go(more="true", selected=WITH_BLOCKS)
    someone.chart("Residual on each block")
    # tables behind charts are plain; others have a description of sorting
    tables = someone.tab.locator("table:not([aria-describedby])")
    charts = {
        0: ("Residual.", "work", "residual"), 2: ("Error in the K-norm", "error at most", "Theorem 1 allows"),
        3: ("κ and κ′", "is estimate", "κ′ ≈"), 4: ("Which block", "seconds", "residual"),
        5: ("Residual on each block", "residual norm", "largest on block"),
    }  # fmt: skip
    for count, (place, (heading, column, phrase)) in enumerate(charts.items()):
        words = someone.chart(heading).get_attribute("aria-label")
        assert phrase in words
        someone.tab.get_by_role("button", name="In words, and as a table").nth(place).click()
        for line in words.split("; "):
            someone.says(line)
        tables.nth(count).get_by_role("columnheader", name=column, exact=True).wait_for()
    with someone.tab.expect_download() as download:
        someone.tab.get_by_role("button", name="CSV", exact=True).first.click()
    assert download.value.suggested_filename == "apviz-residual.csv"
    epochs = pd.read_csv(download.value.path())
    runs = [apviz.open_trace(path)["epoch"] for path in someone.server.runs.glob("*.zarr")]
    assert sorted(epochs["residual"]) == pytest.approx(sorted(np.concatenate([each["residual"] for each in runs])))
