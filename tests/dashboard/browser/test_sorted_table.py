"""The table of runs in a browser: sorting, keys, ticks, pages, and new rows."""

from __future__ import annotations

import math
import socket
import threading
from dataclasses import dataclass, field
from typing import Any

import panel as pn
import pytest

from apviz.dashboard.components.tables import SortedTable
from tests.dashboard.browser.server import PATIENCE
from tests.ports import free_port

COLUMNS = {"name": "text", "n": "integer", "residual": "scientific", "seconds": "2 decimals", "RMSE": "4 decimals"}


def some_rows(count: int, begin: int = 1) -> dict[str, list[Any]]:
    """Return numbered rows with falling residuals; every fifth residual is missing."""
    return {
        f"run {k}": [f"run {k}", 1000 * k, math.nan if k % 5 == 0 else 1 / k, k / 8, None if k == 1 else k]
        for k in range(begin, begin + count)
    }


@dataclass
class Shown:
    """A table in a browser, with its server side."""

    table: SortedTable
    tab: Any
    clicked: list[str] = field(default_factory=list)

    def change(self, **params: Any) -> None:
        """Change the table on the server."""
        self.on_server(lambda: self.table.param.update(**params))

    def show(self, rows: dict[str, list[Any]], **state: Any) -> None:
        self.on_server(lambda: self.table.show(rows, **state))

    def on_server(self, do: Any) -> None:
        done = threading.Event()
        (document,) = {model.document for model, _ in self.table._models.values()}
        document.add_next_tick_callback(lambda: (do(), done.set()))
        assert done.wait(PATIENCE)

    def heading(self, title: str) -> Any:
        return self.tab.get_by_role("columnheader", name=title, exact=True)

    def sort(self, title: str) -> None:
        self.heading(title).get_by_role("button").click()

    def names(self) -> list[str]:
        return self.tab.locator("tbody .look").all_inner_texts()

    def until_names(self, *names: str) -> None:
        """Wait until the rows begin with these names."""
        self.tab.wait_for_function(
            "names => { const all = [...window.table.querySelectorAll('tbody .look')].map(each => each.textContent);"
            "return names.every((each, i) => all[i] === each); }",
            arg=list(names),
        )

    def focused(self) -> str:
        return str(
            self.tab.evaluate("(at => at && (at.ariaLabel || at.innerText))(window.table.getRootNode().activeElement)")
        )

    def until_server(self, condition: Any) -> None:
        """Wait until an action reaches the server."""
        for _ in range(10 * PATIENCE):
            if condition():
                return
            self.tab.wait_for_timeout(100)
        raise AssertionError("the server has not editable of it")


@pytest.fixture
def present(browser):
    """Serve tables from this process, each in its own tab without errors."""
    servers, tabs, problems = [], [], []

    def serve(app: Any) -> Any:
        port = free_port()
        servers.append(pn.serve({"/": app}, port=port, show=False, threaded=True, verbose=False))
        tab = browser.new_page(viewport={"width": 900, "height": 900})
        tabs.append(tab)
        tab.set_default_timeout(1000 * PATIENCE)
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        for _ in range(10 * PATIENCE):
            with socket.socket() as trial:
                if not trial.connect_ex(("127.0.0.1", port)):
                    break
            tab.wait_for_timeout(100)
        tab.goto(f"http://127.0.0.1:{port}/")
        return tab

    def show(rows: dict[str, list[Any]], **params: Any) -> Shown:
        made: list[SortedTable] = []

        def app() -> pn.Column:
            made.append(SortedTable(COLUMNS, sizing_mode="stretch_width", **params))
            made[0].show(rows)
            return pn.Column(made[0], sizing_mode="stretch_width")

        tab = serve(app)
        tab.get_by_role("table").wait_for()
        shown = Shown(made[0], tab)
        made[0].on_click(shown.clicked.append)
        tab.get_by_role("table").evaluate("table => { window.table = table; }")
        return shown

    show.serve = serve
    yield show
    for tab in tabs:
        tab.close()
    for server in servers:
        server.stop()
    assert problems == []


def test_cells_follow_the_format_of_their_columns_and_missing_values_are_dashes(present):
    shown = present({"a": ["a", 1234567, 0.00123, 1234.5, math.nan], "b": ["b", None, math.inf, 2, 0.5]})
    rows = shown.tab.locator("tbody tr")
    assert rows.nth(0).locator("td").all_inner_texts() == ["1,234,567", "1.23e-3", "1,234.50", "–"]
    assert rows.nth(1).locator("td").all_inner_texts() == ["–", "∞", "2.00", "0.5000"]
    assert not shown.tab.get_by_role("checkbox").count() and shown.tab.locator("nav").is_hidden()


@pytest.mark.slow
def test_on_a_phone_every_row_is_a_card_without_what_is_missing(present):
    shown = present(some_rows(6), can_tick=True, actions=["hidden"])
    shown.tab.set_viewport_size({"width": 390, "height": 844})
    for row, missing in ((0, ["RMSE"]), (1, []), (4, ["residual"])):
        cells = shown.tab.locator("tbody tr").nth(row).locator("td, th")
        boxes = cells.evaluate_all("all => all.map(each => each.getBoundingClientRect().toJSON())")
        assert all(box["left"] >= 0 and box["right"] <= 390 for box in boxes)
        hidden = cells.evaluate_all(
            "all => all.filter(each => !each.checkVisibility()).map(each => each.dataset.title)"
        )
        assert hidden == missing
    shown.tab.get_by_label("Tick run 2", exact=True).check()
    shown.until_server(lambda: shown.table.ticked == ["run 2"])
    shown.tab.get_by_label("Hide run 3", exact=True).click()
    shown.until_server(lambda: shown.table.hidden == ["run 3"])


@pytest.mark.slow
def test_numbers_beyond_a_bound_are_bold_and_said_to_screen_readers(present):
    shown = present(some_rows(6), marks={"n": [[">", 4000], ["<", 2000]], "residual": [["<", 0.3]]})
    named = [shown.tab.get_by_role("cell", name=name, exact=True) for name in ("5,000 above 4000", "1,000 below 2000")]
    assert [each.count() for each in named] == [1, 1]
    assert shown.tab.locator("td.beyond").all_text_contents() == [
        "1,000 below 2000", "2.50e-1 below 0.3", "5,000 above 4000", "6,000 above 4000", "1.67e-1 below 0.3",
    ]  # fmt: skip
    weight = "each => getComputedStyle(each).fontWeight"
    assert named[0].evaluate(weight) > shown.tab.get_by_role("cell", name="3,000", exact=True).evaluate(weight)
    shown.change(marks={})
    shown.tab.wait_for_function("!window.table.querySelector('.beyond') && !window.table.textContent.includes('above')")


@pytest.mark.slow
def test_a_number_with_a_sign_is_shown_with_it_and_sorted_as_a_number(present):
    residuals = {"exact": (1.0, ""), "large": (900.0, "≈"), "small": (0.5, "≈"), "none": (math.nan, "≈")}
    shown = present({name: [name, 1, residual, 1.0, 1.0] for name, residual in residuals.items()})
    cells = shown.tab.locator("tbody tr td:nth-child(3)")
    assert cells.all_inner_texts() == ["1.00e+0", "≈9.00e+2", "≈5.00e-1", "–"]
    shown.sort("residual")
    shown.until_names("small", "exact", "large", "none")


def test_a_heading_sorts_in_both_directions_with_missing_values_last_and_then_resets(present):
    shown = present(some_rows(12))
    given = shown.names()
    shown.sort("residual")
    shown.until_names("run 12", "run 11", "run 9")
    assert shown.names()[-2:] == ["run 5", "run 10"]
    assert shown.heading("residual").get_attribute("aria-sort") == "ascending"
    shown.sort("residual")
    shown.until_names("run 1", "run 2", "run 3", "run 4", "run 6")
    assert shown.names()[-2:] == ["run 5", "run 10"]
    assert shown.heading("residual").get_attribute("aria-sort") == "descending"
    shown.sort("residual")
    shown.until_names(*given)
    assert shown.heading("residual").get_attribute("aria-sort") == "none"
    # natural order of text: 2 before 10
    shown.sort("name")
    shown.sort("name")
    shown.until_names("run 12", "run 11", "run 10", "run 9")
    assert shown.heading("name").get_attribute("aria-sort") == "descending"


@pytest.mark.slow
def test_a_click_in_a_row_selects_and_marks_it_and_a_second_click_is_reported_too(present):
    shown = present(some_rows(4))
    row = shown.tab.get_by_role("row").filter(has_text="run 3")
    row.get_by_role("cell").nth(1).click()
    row.and_(shown.tab.locator("[aria-current=true]")).wait_for()
    shown.until_server(lambda: shown.clicked == ["run 3"])
    assert shown.table.selected == "run 3"
    row.get_by_role("cell").nth(1).click()
    shown.until_server(lambda: shown.clicked == ["run 3", "run 3"])
    shown.change(selected="run 2")
    shown.tab.locator("[aria-current=true]", has_text="run 2").wait_for()
    assert shown.tab.locator("[aria-current]").count() == 1


@pytest.mark.slow
def test_the_keyboard_reaches_every_row_through_one_tab_stop(present):
    shown = present(some_rows(5))
    shown.heading("RMSE").get_by_role("button").focus()
    press = shown.tab.keyboard.press
    press("Tab")
    assert shown.focused() == "run 1"
    for key, name in {"ArrowDown": "run 2", "End": "run 5", "ArrowUp": "run 4"}.items():
        press(key)
        assert shown.focused() == name
    press("Enter")
    shown.until_server(lambda: shown.clicked == ["run 4"])
    press("ArrowUp")
    press("Space")
    shown.until_server(lambda: shown.clicked == ["run 4", "run 3"])
    # the table is one tab stop: Tab leaves it, and Shift+Tab returns to the same row
    press("Shift+Tab")
    assert shown.focused().startswith("RMSE")
    press("Tab")
    assert shown.focused() == "run 3"


@pytest.mark.slow
def test_boxes_tick_rows_by_pointer_and_keyboard_without_selecting_them(present):
    shown = present(some_rows(20), can_tick=True, page_rows=12)
    shown.tab.get_by_label("Tick run 2", exact=True).check()
    shown.until_server(lambda: shown.table.ticked == ["run 2"])
    shown.tab.keyboard.press("ArrowUp")
    assert shown.focused() == "Tick run 1"
    shown.tab.keyboard.press("Space")
    shown.until_server(lambda: shown.table.ticked == ["run 1", "run 2"])
    everything = shown.tab.get_by_label("Tick all rows of all pages")
    assert everything.evaluate("box => box.indeterminate")
    everything.click()
    shown.until_server(lambda: len(shown.table.ticked) == 20)
    everything.uncheck()
    shown.until_server(lambda: shown.table.ticked == [])
    assert shown.clicked == [] and shown.table.selected == ""


def test_a_tick_that_the_server_rejects_is_removed_visibly(present):
    shown = present(some_rows(3), can_tick=True)

    def refuse(event: Any) -> None:
        shown.table.ticked = event.new[:1]

    shown.table.param.watch(refuse, "ticked")
    shown.tab.get_by_label("Tick run 1").check()
    shown.until_server(lambda: shown.table.ticked == ["run 1"])
    shown.tab.get_by_label("Tick run 3").click()
    shown.tab.wait_for_timeout(500)
    assert shown.tab.get_by_label("Tick run 1").is_checked() and not shown.tab.get_by_label("Tick run 3").is_checked()


@pytest.mark.slow
def test_pages_can_be_turned_and_show_their_numbers(present):
    shown = present(some_rows(40), page_rows=12)
    where = shown.tab.get_by_role("status")
    assert where.inner_text() == "1–12 of 40" and len(shown.names()) == 12
    turn = lambda name: shown.tab.get_by_role("button", name=f"{name} page").click()  # noqa: E731
    turn("Next")
    shown.until_names("run 13")
    turn("Last")
    shown.until_names("run 37", "run 38", "run 39", "run 40")
    assert where.inner_text() == "37–40 of 40" and len(shown.names()) == 4
    # the disabled button keeps the focus
    assert shown.focused() == "Last page"
    assert shown.tab.get_by_role("button", name="Next page").get_attribute("aria-disabled") == "true"
    # fewer rows: the remaining rows of the page
    shown.show(some_rows(15))
    shown.until_names("run 13", "run 14", "run 15")
    assert where.inner_text() == "13–15 of 15"
    # another order starts at the first page
    shown.sort("n")
    shown.sort("n")
    shown.until_names("run 15", "run 14")
    assert where.inner_text() == "1–12 of 15"


@pytest.mark.slow
def test_new_rows_keep_order_page_focus_and_scroll_position(present):
    shown = present(some_rows(60), page_rows=50)
    shown.sort("n")
    shown.sort("n")
    shown.until_names("run 60")
    row = shown.tab.get_by_role("button", name="run 30", exact=True)
    row.focus()
    kept = row.element_handle()
    shown.tab.evaluate("window.scrollTo(0, 400)")
    before = kept.bounding_box()
    assert 0 < before["y"] < 900
    # one more row, and new numbers in all
    rows = {name: [name, cells[1], 0.25, 7.0, 1.0] for name, cells in some_rows(61).items()}
    shown.show(rows, selected="run 29")
    shown.until_names("run 61", "run 60")
    assert shown.focused() == "run 30" and kept.evaluate("old => old.isConnected")
    # visible at its place, although a row was added above it
    assert kept.bounding_box() == pytest.approx(before, abs=1)
    assert shown.tab.get_by_role("status").inner_text() == "1–50 of 61"
    # a row is removed: the next one gets the focus
    del rows["run 30"]
    shown.show(rows)
    shown.tab.wait_for_function("window.table.getRootNode().activeElement.textContent === 'run 29'")
    shown.show({})
    shown.tab.get_by_text("No runs.").wait_for()
    assert shown.focused().startswith("name")
    shown.show(some_rows(2))
    shown.until_names("run 2", "run 1")


@pytest.mark.slow
def test_rows_added_while_the_browser_builds_the_table_are_shown(present):
    made = []

    def app() -> pn.Column:
        """Make a page of tables that change in every tick from the start."""
        page = pn.Column(pn.pane.Markdown("A page"), sizing_mode="stretch_width")

        def add() -> None:
            table = SortedTable(COLUMNS, can_tick=True, sizing_mode="stretch_width")
            made.append(table)
            page.append(table)
            for count in range(1, 21):
                document.add_timeout_callback(
                    lambda count=count: table.show(some_rows(count), selected="run 1"), 4 * count
                )
                table.show(some_rows(count))

        document = pn.state.curdoc
        pn.state.onload(lambda: [add() for _ in range(5)])
        return page

    tab = present.serve(app)
    tab.wait_for_function(
        "() => { const all = []; const walk = root => { for (const each of root.querySelectorAll('*')) {"
        "if (each.localName === 'table') all.push(each.querySelectorAll('tbody tr').length);"
        "if (each.shadowRoot) walk(each.shadowRoot); } }; walk(document);"
        "return all.length === 5 && all.every(each => each === 20); }"
    )
    assert len(made) == 5
