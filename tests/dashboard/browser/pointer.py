"""Pointer actions on points of a curve."""

from __future__ import annotations

from typing import Any

# milliseconds without movement
STILL = 250

_PLACE = """([chart, name, number]) => {
    const curve = chart._fullData.find(each => each.name.startsWith(name) && each.mode && each.mode.includes("lines"));
    const {xaxis, yaxis, _size} = chart._fullLayout, box = chart.getBoundingClientRect();
    return [box.x + _size.l + xaxis.d2p(curve.x[number]), box.y + _size.t + yaxis.d2p(curve.y[number])];
}"""


def _place(chart: Any, curve: str, number: int) -> tuple[float, float]:
    """Return the position of a point, once the page above it no longer moves."""
    chart.scroll_into_view_if_needed()
    before, now = None, chart.page.evaluate(_PLACE, [chart.element_handle(), curve, number])
    while now != before:
        chart.page.wait_for_timeout(STILL)
        before, now = now, chart.page.evaluate(_PLACE, [chart.element_handle(), curve, number])
    return now[0], now[1]


def hover(chart: Any, curve: str, number: int = 2) -> None:
    """Hover over a point of the curve whose name begins with a text."""
    x, y = _place(chart, curve, number)
    chart.page.mouse.move(x - 3, y - 3)
    chart.page.mouse.move(x, y)


def click(chart: Any, curve: str, number: int) -> None:
    """Click a point of the curve whose name begins with a text."""
    hover(chart, curve, number)
    chart.page.mouse.click(*_place(chart, curve, number))


def drag(chart: Any, start: float, end: float) -> None:
    """Zoom into a part of the x axis, given as shares of its length."""
    chart.scroll_into_view_if_needed()
    box, size = chart.bounding_box(), chart.evaluate("chart => chart._fullLayout._size")
    x, y = box["x"] + size["l"], box["y"] + size["t"] + size["h"] / 2
    mouse = chart.page.mouse
    mouse.move(x + start * size["w"], y)
    mouse.down()
    mouse.move(x + (start + end) / 2 * size["w"], y, steps=4)
    mouse.move(x + end * size["w"], y, steps=4)
    mouse.up()
