"""The page before anything is solved: it shows finished runs, and everything on it can be reached."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from apviz.dashboard.pages import PAGES
from tests.dashboard.browser.pointer import click, hover
from tests.dashboard.browser.server import COST, SHOWN, TOO_NARROW, WITH_BLOCKS

#: a system on which projections take too long to wait for
NEARLY_SINGULAR = {
    "source": "by hand", "lengthscale": 0.5, "noise": 1e-5, "dtype": "float64", "tol": 1e-14, "max_epochs": 100_000,
}  # fmt: skip


@pytest.mark.slow
def test_the_preview_is_replaced_by_a_page_with_the_same_text(visit, server):
    bare, someone = visit(java_script_enabled=False), visit()
    bare.tab.goto(server.address({}))
    words = bare.tab.get_by_text(COST).first.inner_text()
    someone.go().chart("Residual.")
    assert someone.tab.get_by_text(COST).first.inner_text() == words


@pytest.mark.slow
@pytest.mark.parametrize("part", ["nav > span:last-child", ".chips > span"])
def test_a_click_on_the_preview_is_carried_out_once_the_page_is_live(visit, part):
    someone = visit()
    someone.tab.goto(someone.server.address({}), wait_until="commit")
    someone.tab.locator(f"#apviz-first {part}").first.click()
    someone.look()
    opened = {
        "nav > span:last-child": someone.tab.get_by_role("tab", selected=True).filter(has_text="Runs"),
        ".chips > span": someone.tab.get_by_role("button", name="Close settings").locator(SHOWN),
    }
    opened[part].wait_for()


@pytest.mark.slow
def test_a_click_between_the_tabs_of_the_preview_is_meant_for_the_nearest(visit):
    someone = visit()
    someone.tab.goto(someone.server.address({}), wait_until="commit")
    box = someone.tab.locator("#apviz-first nav > span", has_text="Replay").bounding_box()
    someone.tab.mouse.click(box["x"] + box["width"] + 3, box["y"] + box["height"] / 2)
    someone.look()
    someone.tab.get_by_role("tab", selected=True).filter(has_text="Replay").wait_for()


@pytest.mark.slow
def test_controls_work_before_the_chart_replaces_its_preview_which_a_pointer_hastens(visit, server):
    someone = visit()
    # a browser that is never idle
    someone.tab.add_init_script("window.requestIdleCallback = () => 0")
    someone.go()
    chart = someone.tab.locator("[role=figure][aria-label^='Residual.']")
    assert chart.locator(".main-svg").first.is_visible() and chart.get_attribute("data-drawn") is None
    before = chart.bounding_box()
    someone.edit("Rows").press("Close settings")
    someone.until(f"chart.clientWidth === {before['width']:g}", chart)
    assert chart.get_attribute("data-drawn") is None
    chart.hover()
    assert someone.chart("Residual.").bounding_box() == before


def boxes(visitor, chart, *parts):
    """Return the positions of parts of a chart in the window at one moment, as [left, top, right, bottom]."""
    find = "part => { const box = chart.querySelector(part).getBoundingClientRect(); " \
           "return [box.left, box.top, box.right, box.bottom]; }"  # fmt: skip
    return chart.evaluate(f"(chart, parts) => parts.map({find})", parts)


def is_inside(boxes, width, height):
    return all(left >= 0 and top >= 0 and right <= width and bottom <= height for left, top, right, bottom in boxes)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1440, 900), (1920, 1080)])
@pytest.mark.parametrize("large", [False, True], ids=["desk", "lecture"])
def test_verdict_curves_with_axes_and_the_best_run_are_above_the_fold(visit, server, lecture, size, large):
    someone = visit(*size, to=lecture if large else server).go()
    chart = someone.chart("Residual.")
    verdict = someone.tab.get_by_text(COST).first
    verdict.wait_for()
    rows = someone.tab.get_by_role("table", name="Runs, the best first").get_by_role("row")
    rows.nth(4).wait_for()
    # the window is measured after everything above the chart is drawn
    someone.until(f"chart.getBoundingClientRect().bottom <= {size[1]}", chart)
    parts = ("path.xtick, .xaxislayer-above", ".shapelayer, .layer-above", ".g-xtitle", ".g-ytitle")
    found = boxes(someone, chart, *parts)
    found += [[box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]]
              for box in (verdict.bounding_box(), rows.nth(1).bounding_box())]  # fmt: skip
    assert is_inside(found, *size), found
    assert someone.tab.get_by_role("table", name="Runs, the best first").locator(".swatch svg").count() == 4


@pytest.mark.slow
def test_on_a_phone_the_verdict_is_above_the_fold_and_the_buttons_of_a_chart_are_above_its_title(visit):
    someone = visit(390, 844)
    someone.tab.goto(someone.server.url)
    someone.look().chart("Residual.")
    box = someone.tab.get_by_text(COST).first.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] + box["height"] <= 844
    someone.press("Diagnosis and more charts")
    titled = someone.chart("Error in the K-norm")
    title, buttons = boxes(someone, titled, ".g-gtitle", ".modebar-container .modebar")
    assert buttons[3] <= title[1] + 1 and title[2] <= 390
    for name in ("Residual.", "Error in the K-norm"):
        for entry in someone.chart(name).locator(".legendtext").all():
            box = entry.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= 390


@pytest.mark.slow
def test_in_a_race_runs_are_named_next_to_their_curves_while_rows_are_updated(visit, lecture):
    someone, before_it = visit(1440, 900, to=lecture), set(lecture.runs.glob("*.zarr"))
    someone.go(n=400, methods="ap", rules="cyclic,random", block_sizes=50, order="race on seconds", **NEARLY_SINGULAR)
    someone.press("Run")
    table = someone.tab.get_by_role("table", name="Runs, the best first")
    names = table.get_by_role("rowheader")
    someone.says("race on seconds · 0 of 2 have ended")
    table.locator(".swatch svg").nth(1).wait_for()
    before = table.get_by_role("row").nth(1).inner_text()
    someone.tab.wait_for_function("([row, before]) => row.innerText !== before",
                                  arg=[table.get_by_role("row").nth(1).element_handle(), before])  # fmt: skip
    # the name once, and only the marker next to it
    assert all(text.count("Alternating projection") == 1 for text in names.all_inner_texts()) and names.count() == 2
    assert table.locator(".swatch svg").count() == 2
    someone.press("Stop")
    someone.says("None of the 2 runs converged")
    chart = someone.chart("Residual.")
    # the message about a finished job leaves the axis in the window
    someone.until("chart.getBoundingClientRect().bottom <= 900", chart)
    assert is_inside(boxes(someone, chart, ".g-xtitle"), 1440, 900)
    # the folder is shared with other tests, which start with the newest runs
    for path in set(lecture.runs.glob("*.zarr")) - before_it:
        shutil.rmtree(path)


@pytest.mark.slow
def test_the_table_is_the_legend_of_the_first_chart_and_its_image_has_one(visit):
    someone = visit().go(more="true")
    chart = someone.chart("Residual.")
    assert chart.locator(".legendtext").count() == 0
    legend = someone.chart("Test error").locator(".legendtext").all_inner_texts()
    assert not [text for text in legend if "b = 50" in text]
    hover(chart, "CG")
    with someone.tab.expect_download() as downloading:
        chart.locator("[data-title='Download plot as SVG']").click()
    picture = Path(downloading.value.path()).read_text("utf-8")
    assert "Alternating projection (greedy, b = 50)" in picture and "Converged" in picture


@pytest.mark.slow
def test_hovering_a_method_fades_the_others_in_every_chart(visit):
    someone = visit(height=2600).go(more="true", selected=WITH_BLOCKS)
    chart, other = someone.chart("Residual."), someone.chart("Error in the K-norm")
    # the last chart, so that nothing moves away from the pointer
    someone.chart("Residual on each block")
    hover(chart, "Alternating projection (cyclic")
    faded = "chart.data.some(each => each.opacity < 0.5) && chart.data.every(each => !each.legendgroup || " \
            "each.legendgroup.startsWith('Alternating projection (cyclic') === !(each.opacity < 0.5))"  # fmt: skip
    for each in (chart, other):
        someone.until(faded, each)
    someone.tab.mouse.move(5, 5)
    someone.until("chart.data.every(each => !(each.opacity < 0.5))", other)


@pytest.mark.slow
def test_a_click_selects_a_run_and_a_pasted_link_shows_the_same_view(visit):
    someone = visit(height=2600).go(n=500, tol=0.05, methods="cg,pcg", rhs=3, more="true", x="epochs", scale="linear")
    chart = someone.chart("Residual.")
    for place, rule in enumerate(("cyclic", "greedy", "cyclic")):
        # runs with equal blocks have equal work; at a point where the curves are separate
        name = f"Alternating projection ({rule}, b = 50)"
        click(chart, name, 9 + place)
        someone.tab.wait_for_function(f"new URLSearchParams(location.search).get('selected').includes('{rule}')")
        someone.says(f"Diagnosis of {name}")

    query = parse_qs(urlsplit(someone.tab.url).query)
    other = visit(height=2200)
    other.tab.goto(someone.tab.url)
    other.says("Diagnosis of Alternating projection (cyclic, b = 50)")
    assert other.chart("Residual.").evaluate("chart => chart.layout.xaxis.title.text").startswith("epochs")
    other.look()
    assert parse_qs(urlsplit(other.tab.url).query) == query
    assert other.edit("Rows").field("Training rows").input_value() == "500"
    assert query["methods"] == ["cg,pcg"] and query["rhs"] == ["3"] and len(query["runs"][0].split(",")) == 4


@pytest.mark.slow
def test_bad_values_in_the_address_are_reported_and_the_others_are_used(visit):
    wrong = {"lengthscale": "abc", "block_sizes": "0,-5", "outputscale": "inf", "selected": "nosuch"}
    someone = visit().go(n=9000, noise="x", colour="red", rhs=2, runs="../../secret,gone", **wrong)
    someone.says("Not everything in this address could be opened")
    someone.says("n=9000 in the address is ignored: use a whole number from 10 to 5,000")
    someone.says("noise=x in the address is ignored")
    someone.says("colour in the address is not a setting")
    for name in ("lengthscale", "block_sizes", "outputscale"):
        someone.says(f"{name}={wrong[name]} in the address is ignored")
    someone.says("there is no run gone")
    someone.says("nosuch is not among the runs shown")
    someone.tab.wait_for_function("!/nosuch|abc|inf|-5/.test(location.search)")
    someone.says("'../../secret' is not a run name")
    assert someone.edit("Advanced").field("Target and random vectors").input_value() == "2"
    assert someone.edit("Rows").field("Training rows").input_value() == "1,712"


@pytest.mark.slow
def test_an_address_changed_while_the_page_loads_is_written_again(visit):
    someone = visit().go(n=9000)
    # more rows than this server takes; it shows those of the newest runs
    is_valid = "location.search.includes('n=400')"
    someone.tab.wait_for_function(is_valid)
    # like Panel when its model of the address is first shown
    found = someone.tab.evaluate("""() => {
        const all = [...Bokeh.documents[0]._all_models.values()];
        all.find(model => model.type.endsWith("location.Location")).search = "?n=9000";
        return location.search;
    }""")
    assert found == "?n=9000"
    someone.tab.wait_for_function(is_valid)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begins", "ends", "paper"),
    [("light", "dark", "#14171C"), pytest.param("dark", "light", "#FFFFFF", marks=pytest.mark.slow)],
)
def test_a_theme_chosen_while_charts_load_applies_to_all_of_them_and_the_address(visit, begins, ends, paper):
    someone = visit().go(theme=begins, more="true", selected=WITH_BLOCKS)
    chart = someone.chart("Residual.")
    assert chart.evaluate("chart => chart._fullLayout.paper_bgcolor") != paper
    someone.press("Toggle theme")
    is_so = f"chart._fullLayout.paper_bgcolor === '{paper}'"
    someone.until(is_so, someone.chart("Residual on each block"))
    # long enough for pending changes to arrive
    someone.tab.wait_for_timeout(2000)
    for name in ("Residual.", "Which block", "Residual on each block"):
        assert someone.chart(name).evaluate(f"chart => {is_so}")
    assert f"theme={ends}" in someone.tab.evaluate("location.search")
    dark = "getComputedStyle(document.body).backgroundColor === 'rgb(20, 23, 28)'"
    assert someone.tab.evaluate(dark) is (ends == "dark")


@pytest.mark.slow
def test_a_page_shown_again_has_the_theme_chosen_meanwhile(visit):
    someone = visit().go(more="true", selected=WITH_BLOCKS)
    someone.chart("Residual on each block")
    someone.tab.get_by_role("tab", name="Training").click()
    someone.tab.get_by_text("Start a training").locator(SHOWN).first.wait_for()
    someone.press("Toggle theme")
    someone.tab.get_by_role("tab", name="Compare").click()
    someone.until("chart._fullLayout.paper_bgcolor === '#14171C'", someone.chart("Residual."))


@pytest.mark.slow
def test_everything_fits_a_phone(visit):
    someone = visit(390, 844)
    someone.tab.goto(someone.server.address({"more": "true"}))
    someone.look().chart("κ and κ′")
    assert someone.tab.locator("main").count() == 1 and someone.tab.evaluate(TOO_NARROW) == []
    someone.tab.get_by_role("button", name="Run", exact=True).click(trial=True)
    find = "all => all.map(each => each.getBoundingClientRect())"
    for box in someone.tab.locator("[role=figure]").evaluate_all(find):
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_the_fields_below_the_methods_do_not_cover_the_last_of_them(visit, size):
    tab = visit(*size).go().edit("Methods").tab
    last, field = tab.get_by_text("Gradient descent with exact line searches."), tab.get_by_label("Block size b")
    last.wait_for()
    assert last.bounding_box()["y"] + last.bounding_box()["height"] <= field.bounding_box()["y"]


@pytest.mark.slow
def test_rows_pin_and_hide_their_curves(visit):
    someone = visit().go()
    chart = someone.chart("Residual.")
    table = someone.tab.get_by_role("table", name="Runs, the best first")
    table.get_by_role("button", name="Hide CG", exact=True).click()
    someone.until("!chart.data.some(each => (each.name || '').startsWith('CG —'))", chart)
    someone.tab.wait_for_function("location.search.includes('hidden=')")
    table.get_by_role("button", name="Show CG", exact=True).click()
    someone.until("chart.data.some(each => (each.name || '').startsWith('CG —'))", chart)
    for name in ("CG", "Alternating projection (greedy, b = 50)"):
        table.get_by_role("button", name=f"Pin {name}", exact=True).click()
    someone.says("Pinned runs: settings that differ")


@pytest.mark.slow
def test_a_changed_setting_is_announced_until_it_is_taken_back(visit):
    someone = visit().go()
    field = someone.edit("Rows").field("Training rows")
    field.fill("300")
    field.press("Enter")
    someone.says("rows 300 (shown: 400)")
    someone.press("Reset to shown settings")
    someone.tab.get_by_text("The charts show").wait_for(state="hidden")
    assert someone.edit("Rows").field("Training rows").input_value() == "400"


@pytest.mark.slow
def test_every_page_opens_from_its_tab_on_a_phone_in_the_dark(visit):
    someone = visit(390, 844)
    someone.tab.goto(someone.server.address({"theme": "dark"}))
    someone.look().chart("Residual.")
    for name, page in PAGES.items():
        someone.tab.get_by_role("tab", name=page.title).click()
        someone.tab.wait_for_function(f"location.search.includes('page={name}&theme=dark')")
        someone.tab.wait_for_timeout(1000)
        assert someone.tab.evaluate(TOO_NARROW) == [], name


@pytest.mark.slow
def test_a_page_opens_in_the_theme_of_the_system_unless_the_address_names_one(visit):
    someone = visit(color_scheme="dark")
    someone.tab.goto(someone.server.address({}))
    someone.look()
    assert "theme=dark" in someone.tab.url
    assert someone.tab.evaluate("document.documentElement.dataset.theme") == "dark"
    someone.go(theme="light")
    assert someone.tab.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.slow
def test_on_a_phone_a_legend_names_the_curves_that_stand_out(visit):
    """Names at their ends have no room, and a phone has no pointer."""
    someone = visit(390, 844).go()
    names = someone.chart("Residual.").locator(".legendtext")
    assert names.count() == len(someone.chart("Residual.").locator(".legend .traces").all()) > 0
    assert any("CG" in each.text_content() for each in names.all())
