"""Widgets on a page by `make notebooks`, opened from disk in a browser without a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat

from apviz.widgets.live_widget import STATIC, LiveWidget
from notebooks.build.pages import write_pages
from tests.notebooks.making import made


def page_of(widget: LiveWidget, folder: Path) -> Path:
    """Write the page of a notebook with only a widget."""
    notebook = made("widget", title=widget.title)
    cell = notebook.cells[1]
    cell.execution_count = 1
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}
    cell.outputs = [
        nbformat.v4.new_output("display_data", view),
        nbformat.v4.new_output("display_data", widget.static_output(), metadata={STATIC: "1"}),
    ]
    write_pages([("widget", notebook)], folder)
    return folder / "widget.html"


def open_page(context: Any, path: Path, problems: list[str]) -> Any:
    """Open a page, wait for its widget, and keep errors and requests to other hosts."""
    context.set_offline(True)
    tab = context.new_page()
    tab.set_default_timeout(15_000)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    tab.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else problems.append(asked.url))
    tab.goto(path.as_uri())
    tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
    return tab


#: script that returns the content of all pictures of a widget
SHOWN = """() => JSON.stringify([...document.querySelectorAll(".apviz-live svg *")].map((each) => [
    each.tagName, [...each.attributes].map(({name, value}) => `${name}=${value}`).sort(), each.textContent
]).concat([...document.querySelectorAll(".apviz-live canvas")].map((each) => each.toDataURL())))"""


def control(tab: Any, name: str) -> Any:
    """Return the row of a control, and open "more" if it exists."""
    tab.evaluate("() => document.querySelectorAll('.apviz-live details').forEach((each) => (each.open = true))")
    return tab.locator(f".apviz-live [data-control={name}]")


def reads(tab: Any, name: str) -> str:
    """Return the displayed value of a control."""
    row = control(tab, name)
    if row.locator("select").count():
        return str(row.locator("select").input_value())
    if row.locator(".switch").count():
        return str(row.locator(".switch").get_attribute("aria-pressed") == "true")
    return str(row.locator("output").inner_text())


def said(tab: Any) -> str:
    """Return the sentence as plain text."""
    return str(tab.locator(".sentence").inner_text())


def titles(tab: Any, figure: int) -> list[str]:
    """Return the tooltips of a figure."""
    return list(tab.locator(".apviz-live figure").nth(figure).locator("svg title").all_text_contents())


def value_of(words: str) -> float:
    """Parse a number as written on a page, such as −2.5·10⁻⁷."""
    plain = words.translate(str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789"))
    if plain == words.replace("−", "-"):
        return float(plain)
    head, power = re.fullmatch(r"(.*?)10(-?\d+)", plain).groups()
    digits = {"": "1", "-": "-1"}.get(head, head.rstrip("·"))
    return float(f"{digits}e{power}")


def frame(tab: Any) -> None:
    """Wait until all results are computed and drawn."""
    tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    tab.wait_for_function("() => !document.querySelector('[data-busy]')")
    tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def middle(tab: Any, label: str) -> tuple[float, float]:
    """Return the position of a handle on the screen."""
    box = tab.get_by_role("slider", name=label, exact=True).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(tab: Any, label: str, right: float, down: float) -> None:
    """Drag a handle by `right` and `down` pixels in a few moves."""
    tab.get_by_role("slider", name=label, exact=True).scroll_into_view_if_needed()
    x, y = middle(tab, label)
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + right, y + down, steps=4)
    frame(tab)
    tab.mouse.up()
