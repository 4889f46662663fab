"""Advice in the browser, on the page Compare, on a desktop and a phone, and a solve with it."""

from __future__ import annotations

import pytest

import apviz
from tests.dashboard.browser.test_solving import finished

#: a data set for which few rows are enough for a rehearsal
CHINA = {"dataset": "china", "rhs": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "theme", "n"),
    # of another system, because what one visitor has measured replaces the estimate of the next
    [(1500, "light", 2_400), pytest.param(390, "dark", 2_300, marks=pytest.mark.slow)],
    ids=["on a desk", "on a phone in the dark"],
)
def test_a_method_is_advised_before_any_solve_and_its_button_solves_with_it(visit, server, width, theme, n):
    someone = visit(width=width).go(theme=theme, n=n, **CHINA)
    someone.press("Which method?")
    someone.says("All forecasts are estimates")
    button = someone.tab.get_by_role("button", name="Solve by")
    name = button.inner_text().partition("Solve by ")[2]
    sentence = someone.tab.get_by_text(f"Use {name}: about ").first
    someone.tab.get_by_role("cell", name=name, exact=True).first.wait_for()
    assert someone.tab.evaluate("document.documentElement.scrollWidth") <= width
    for shown in (sentence, button):
        box = shown.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
    before = set(server.runs.glob("*.zarr"))  # runs of other visitors
    button.click()
    finished(someone)
    (run,) = set(server.runs.glob("*.zarr")) - before
    trace = apviz.open_trace(run)
    assert trace.converged and trace.attrs["n"] == n
