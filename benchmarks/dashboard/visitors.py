"""Simulate many visitors of one dashboard at once, some of whom solve repeatedly."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import apviz
from benchmarks.dashboard.serving import Served, visitor

#: percentage of visitors that solve; the systems of two visitors differ in n
SOLVING = 40
#: content of the first chart of a page: the number of points of every curve
LENGTHS = (
    "(chart) => (chart._fullData || []).filter((each) => each.mode === 'lines+markers').map((each) => each._length)"
)


def run(browser: Any, server: Served, visitors: int, minutes: float) -> dict[str, Any]:
    """Let `visitors` visitors work for `minutes`; the first round of solves does not count as growth."""
    tabs, count = [], visitors * SOLVING // 100
    for number in range(visitors):
        tab = visitor(browser)
        tab.set_default_timeout(120_000)
        solves = number < count
        view = f"?page=compare&dataset=china&n={300 + number}&rhs=4&methods=ap,cg&rules=cyclic&block_sizes=50&runs="
        tab.goto(server.url + (view if solves else "?page=" + ("runs", "training", "replay", "compare")[number % 4]))
        tab.get_by_role("tab", name="Compare", exact=True).wait_for()
        tabs.append(tab)
    solvers, lookers = tabs[:count], tabs[count:]
    rounds = lost = foreign = 0
    sizes, begun, had = list[float](), time.perf_counter(), [list[str]()] * count
    while rounds < 2 or time.perf_counter() - begun < 60 * minutes:
        for tab in solvers:
            tab.get_by_role("button", name="Run", exact=True).click()
        for number, tab in enumerate(lookers):
            titles = ("Compare", "Runs", "Replay", "Training", "Noise")
            tab.get_by_role("tab", name=titles[(number + rounds) % len(titles)], exact=True).click()
        for number, tab in enumerate(solvers):
            names = had[number] = _finished(tab, had[number])
            foreign += sum(f"-n{300 + number}-" not in name for name in names)
            lost += not _shows_all(tab, server, names)
        rounds += 1
        sizes.append(server.process.memory_info().rss / 1e6)
    for tab in tabs:
        tab.context.close()
    return {
        "growth (MB)": round(sizes[-1] - sizes[0], 1), "updates lost": lost, "runs of others seen": foreign,
        "visitors": visitors, "solving": count, "solves": 2 * count * rounds, "minutes": minutes,
        "memory after each round (MB)": [round(each) for each in sizes],
    }  # fmt: skip


def _finished(tab: Any, had: list[str]) -> list[str]:
    """Wait for the end of the started runs; return the names of the two, which are not in `had`."""
    for _ in range(600):
        names = parse_qs(urlsplit(tab.url).query).get("runs", [""])[0].split(",")
        if len(names) == 2 and not set(names) & set(had):
            return names
        tab.wait_for_timeout(200)
    raise TimeoutError(f"a solve did not end within two minutes; at {tab.url}")


def _shows_all(tab: Any, server: Served, names: list[str]) -> bool:
    """Test whether the first chart shows every epoch of the runs, as they are on disk."""
    wanted = sorted(apviz.open_trace(server.runs / f"{name}.zarr")["epoch"].sizes["epoch"] for name in names)
    chart = tab.locator("[role=figure]:has(.main-svg)").first
    for _ in range(60):
        if sorted(chart.evaluate(LENGTHS)) == wanted:
            return True
        time.sleep(0.5)
    return False
