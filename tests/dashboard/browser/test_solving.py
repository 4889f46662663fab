"""Solves started from the page are shown while they run, can be stopped, and belong to their visitor."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

import apviz
from apviz.dashboard import Limits
from tests.dashboard.browser.pointer import drag
from tests.dashboard.browser.server import ENDLESS

SMALL = {"n": 300, "rhs": 2, "methods": "cg"}


def finished(visitor) -> list[str]:
    """Wait for the end of a comparison, and return the names of its runs."""
    visitor.says(re.compile("runs? recorded"))
    visitor.tab.wait_for_function("/selected=[^&]/.test(location.search)")
    return parse_qs(urlsplit(visitor.tab.url).query)["runs"][0].split(",")


@pytest.mark.slow
def test_a_run_is_drawn_while_it_grows_and_stop_keeps_its_record(visit, server):
    someone = visit().go(**ENDLESS)
    someone.press("Run")
    someone.says("Running: Alternating projection (cyclic, b = 60): ")
    chart = someone.tab.locator("[role=figure]").first
    someone.until(
        "chart.data?.some(each => (each.name || '').startsWith('Alternating projection (cyclic, b = 60)'))",
        chart,
    )
    drawn = "Number(chart.dataset.drawn)"
    someone.until(f"{drawn} >= 4", chart)
    # not the number of points, because long curves are thinned
    reached = "chart => Math.max(...chart._fullData.map(each => each.x ? each.x[each.x.length - 1] || 0 : 0))"
    before = chart.evaluate(reached)
    someone.until(f"({reached})(chart) > {before}", chart)

    # a zoom survives new points
    drag(chart, 0.1, 0.3)
    someone.until("!chart._fullLayout.xaxis.autorange", chart)
    zoomed, count = chart.evaluate(f"chart => [chart._fullLayout.xaxis.range, {drawn}]")
    someone.until(f"{drawn} >= {count + 2}", chart)
    assert chart.evaluate("chart => chart._fullLayout.xaxis.range") == zoomed

    someone.press("Stop")
    someone.says("Stopped: ")
    (name,) = finished(someone)
    someone.until("chart.getAttribute('aria-label').includes('stopped')", chart)
    trace = apviz.open_trace(server.runs / f"{name}.zarr")
    assert trace.outcome == "stopped" and not trace.converged
    assert trace["epoch"].sizes["epoch"] > 1
    listed = someone.tab.get_by_role("table", name="Runs, the best first", exact=True)
    listed.get_by_role("cell", name="Not converged: stopped early").wait_for()


@pytest.mark.slow
def test_curves_that_grow_in_the_browser_equal_the_trace(visit, server):
    someone = visit().go(**ENDLESS | {"n": 2_000, "block_sizes": 200, "x": "work"})
    someone.press("Run")
    chart = someone.tab.locator("[role=figure]").first
    someone.until(
        "chart.data?.some(each => (each.name || '').startsWith('Alternating projection (cyclic, b = 200)'))",
        chart,
    )
    someone.until("Number(chart.dataset.drawn) >= 8", chart)
    line = "each => each.name.startsWith('Alternating projection (cyclic, b = 200)') && each.mode === 'lines+markers'"
    had = chart.evaluate(f"chart => (({{ x, y, customdata }}) => ({{ x, y, customdata }}))(chart.data.find({line}))")
    # points are sent, not figures alone; a figure follows where the form of the chart has changed
    someone.tab.wait_for_function(
        "[...Bokeh.documents[0]._all_models.values()].some(each => each.data?.attributes?.grown)"
    )
    someone.press("Stop")
    (name,) = finished(someone)
    epochs, count = apviz.open_trace(server.runs / f"{name}.zarr")["epoch"], len(had["x"])
    assert 5 < count < len(epochs["epoch"])
    for values, column in ((had["x"], "work"), (had["y"], "residual")):
        assert values == epochs[column].values[:count].tolist()
    assert [row[2] for row in had["customdata"]] == epochs["seconds"].values[:count].tolist()


@pytest.mark.slow
def test_two_simultaneous_visitors_see_only_their_own_runs(visit):
    first, second = visit().go(**SMALL), visit().go(dataset="diabetes", n=200, rhs=2, methods="pcg", ranks=20)
    first.press("Run")
    second.press("Run")
    ours, theirs = finished(first), finished(second)
    assert all(name.startswith("china-n300-cg") for name in ours) and len(ours) == 1
    assert all(name.startswith("diabetes-n200-cg-pivoted") for name in theirs) and len(theirs) == 1
    for visitor, label, other in ((first, "CG —", "CG +"), (second, "CG +", "CG —")):
        chart = visitor.chart("Residual.")
        visitor.until(f"chart.data.some(each => each.name.startsWith('{label}'))", chart)
        # the first comparison on the page is replaced later
        visitor.until(f"!chart.data.some(each => (each.name || '').startsWith('{other}'))", chart)
    assert "dataset=china" in first.tab.url and "dataset=diabetes" in second.tab.url


#: React components of Panel do this by themselves if two changes arrive within one rendering
SENDS_BACK_AN_OLDER_TEXT = """() => {
  for (const each of Bokeh.documents[0]._all_models.values()) {
    const shown = each.data?.attributes;
    if (each.class_name === "Alert" && shown.object.includes(" recorded.")) {
      each.data.setv({ object: "Running: of a moment ago", severity: "info" });
      return true;
    }
  }
  return false;
}"""


@pytest.mark.slow
def test_an_outdated_state_sent_by_the_browser_is_discarded(visit):
    someone = visit().go(**SMALL)
    someone.press("Run")
    finished(someone)
    assert someone.tab.evaluate(SENDS_BACK_AN_OLDER_TEXT)
    someone.says("Done: 1 run recorded")
    someone.tab.get_by_text("of a moment ago").wait_for(state="hidden")
    assert someone.tab.get_by_role("button", name="Run", exact=True).is_enabled()


@pytest.mark.slow
def test_with_two_slots_the_third_solve_waits_visibly(visit):
    visitors = [visit().go(**ENDLESS) for _ in range(3)]
    for visitor in visitors[:2]:
        visitor.press("Run")
        visitor.says("Running: Alternating projection (cyclic")
    last = visitors[2]
    last.press("Run")
    last.says("Queued: number 1 in line")
    visitors[0].press("Stop")
    last.says("Running: Alternating projection (cyclic")
    for visitor in visitors[1:]:
        visitor.press("Stop")
        visitor.says("Stopped: ")


@pytest.mark.slow
def test_a_solve_outlives_its_tab_and_is_found_again(visit, server):
    someone, other = visit().go(**ENDLESS), visit().go()
    someone.press("Run")
    someone.says("Running: Alternating projection (cyclic")
    someone.tab.close()
    # longer than the lifetime of the session
    other.tab.wait_for_timeout(1000 * 3 * Limits.tab_seconds)
    someone.tab = someone.context.new_page()
    someone.go()
    someone.says("Running: Alternating projection (cyclic")
    someone.press("Stop")
    someone.says("Stopped: 1 run recorded")
    # until then the address has the first runs of the page
    someone.tab.wait_for_function("new URLSearchParams(location.search).get('runs').split(',').length === 1")
    (name,) = finished(someone)
    trace = apviz.open_trace(server.runs / f"{name}.zarr")
    assert trace.outcome == "stopped" and not trace.converged and trace["epoch"].sizes["epoch"] > 1
