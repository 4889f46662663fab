"""Time the dashboard in a browser: its answers, the cost of watching a solve, and the server's load with many visitors.

The server is pinned to one core, the browser and this program to another. The CPU seconds of each are counted apart:
other processes on the machine lengthen wall-clock seconds, but hardly CPU seconds.

- *start*: from the command, with a new folder, until the server answers, and until a control of the page works: until
    a click on a chip, as soon as it is shown, has opened its editor;
- *new*: an empty folder, the server's first page and a browser that has never been there: from the request of the page
    until the example's curves are painted, and until a control works; median over several servers;
- *first chart*: from the request of the page until its curves are painted, until the interactive chart has replaced
    them, and until a control works; median over several fresh visitors of a server that has served a page;
- *page switch*: from the click on a tab until the button of that page is shown; of every page;
- *compare 12*: 12 runs of the folder on the page Compare, until its first chart shows all of them;
- *large trace*: a run of 100,000 updates from its address, until its curve is visible, and until four charts are drawn;
- *1,000 runs*: the page Runs with a folder of 1,000, until its rows respond; from Enter in the filter until the table
    shows the matching rows; from the click on the tab until the page is back;
- *watched*: server CPU seconds of a solve with an open page ÷ those in a process without a dashboard, alternating;
- *visitors*: several visitors at once, with solves of their own: growth of the server, lost updates, and whether
    a visitor was shown another's run.

Needs Chromium and Playwright, and two cores. Each run writes its table into `benchmarks/README.md`.

    python -m benchmarks.dashboard [--parts new,first] [--visitors 20] [--minutes 30]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page, sync_playwright

import apviz
from apviz.dashboard.store.runs_folder import RunsFolder
from benchmarks.dashboard import visitors as visiting
from benchmarks.dashboard.runs import LARGE, make_large, make_many, make_twelve
from benchmarks.dashboard.serving import (
    BROWSER_CORE,
    CHARTS,
    CHROMIUM,
    FLAGS,
    HAS_CHIPS,
    SERVER_CORE,
    Served,
    Watch,
    drawn,
    median_of,
    seen,
    served,
    visitor,
    wait_for_charts,
    wait_for_controls,
)
from benchmarks.dashboard.summary import PATH, lines_of, write_table
from benchmarks.machine import describe

LOADS, TURNS = 5, 3
#: title and name of each page, and the button that it shows once it is built; the page Runs has a table
PAGES = {
    "Predict": ("predict", "Fit"), "Replay": ("replay", "Record a solve"),
    "Block size": ("block-size", "Try block sizes"), "Noise": ("noise", "Try noise levels"),
    "Training": ("training", "Start a training"), "Runs": ("runs", "Open in Compare"), "Compare": ("compare", "Run"),
}  # fmt: skip
SOLVE = """
import sys, time
from pathlib import Path
from apviz import comparison, datasets
started = time.process_time()
data = datasets.load("china", n=int(sys.argv[1]))
chosen = comparison.choose_hyperparameters(data)
system = comparison.build_system(data, chosen, rhs=16)
solvers = comparison.choose_solvers(["ap"], rules=["cyclic"], block_sizes=[500], max_epochs=int(sys.argv[2]))
for outcome in comparison.compare(system, solvers, Path(sys.argv[3]), comparison.Recording(data, chosen.mean)):
    print(time.process_time() - started, outcome.trace["epoch"]["seconds"].values[-1])
"""


# --- the parts --------------------------------------------------------------------------------------------------------


def start(browser: Any, folder: Path) -> dict[str, Any]:
    """Time a new folder: until the server answers, and until a page is usable."""
    found = Served(folder / "new")
    try:
        listens = found.wait_until("", in_full=False)
        page = visitor(browser)
        page.goto(found.url)
        wait_for_controls(page)
        usable = time.perf_counter() - found.started
        page.context.close()
        return {"listens (s)": listens, "a control works (s)": usable, "server CPU (s)": found.cpu}
    finally:
        found.end()


def new(browser: Any, folder: Path) -> dict[str, Any]:
    """Time the first page of servers of empty folders."""
    readings = []
    for number in range(LOADS):
        server = Served(folder / f"empty {number}")
        try:
            server.wait_until("plotly/plotly.min.js")
            reading = _first_look(browser, server)
            readings.append({"example painted (s)" if name == "first chart (s)" else name: value
                             for name, value in reading.items()})  # fmt: skip
        finally:
            server.end()
    return median_of(readings)


def _first_look(browser: Any, server: Served) -> dict[str, float]:
    """Time the page of a fresh visitor: until its curves are painted, and until a control works."""
    page = visitor(browser)
    watch = Watch(server)
    page.goto(server.url, wait_until="commit")
    painted, soon = seen(page), watch.read()
    wait_for_controls(page)
    works = watch.read()
    page.context.close()
    return {
        "first chart (s)": painted, "server CPU (s)": soon["server CPU"], "browser CPU (s)": soon["browser CPU"],
        "a control works (s)": works["seconds"], "its server CPU (s)": works["server CPU"],
        "its browser CPU (s)": works["browser CPU"],
    }  # fmt: skip


def first(browser: Any, folder: Path) -> dict[str, Any]:
    """Time the page of several fresh visitors of one server."""
    readings = []
    with served(make_twelve(folder / "twelve")) as server:
        for _ in range(LOADS):
            readings.append(_first_look(browser, server))
            time.sleep(1)
    return median_of(readings)


def switch(browser: Any, folder: Path) -> dict[str, Any]:
    """Switch from page to page, twice round: the first round creates the pages."""
    with served(make_twelve(folder / "twelve")) as server:
        page = visitor(browser)
        page.goto(server.url)
        page.wait_for_function(HAS_CHIPS, polling=50)
        wait_for_charts(page)
        page.wait_for_timeout(4_000)
        rounds = []
        for _ in range(2):
            readings = {}
            for title, (name, button) in PAGES.items():
                watch = Watch(server)
                page.get_by_role("tab", name=title, exact=True).click()
                page.get_by_role("button", name=button, exact=True).locator("visible=true").first.wait_for()
                readings[name] = watch.read()
                page.wait_for_timeout(2_500)
            rounds.append(readings)
        page.context.close()
    again = [each["seconds"] for each in rounds[1].values()]
    return {"page switch (s)": statistics.median(again), "slowest (s)": max(again), "first time": rounds[0],
            "again": rounds[1]}  # fmt: skip


def twelve(browser: Any, folder: Path) -> dict[str, Any]:
    """Time twelve runs from their address."""
    runs = make_twelve(folder / "twelve")
    names = sorted(path.stem for path in runs.glob("*.zarr"))
    with served(runs) as server:
        readings, every = list[dict[str, float]](), list[dict[str, float]]()
        for _ in range(TURNS):
            page = visitor(browser)
            page.goto(server.url + "?page=runs")
            page.get_by_text("Filter").locator("visible=true").first.wait_for()
            page.wait_for_timeout(4_000)
            page.goto(server.url + "?page=runs&runs=" + ",".join(names))
            button = page.get_by_role("button", name="Open in Compare")
            button.wait_for()
            page.wait_for_timeout(6_000)
            watch = Watch(server)
            button.click()
            page.get_by_role("button", name="Run", exact=True).wait_for()
            shown = f"({CHARTS})[0]?.data?.filter((each) => each.showlegend !== false).length >= {len(names)}"
            page.wait_for_function(shown, polling=50)
            readings.append(watch.read())
            page.get_by_role("button", name="Diagnosis and more charts").click()
            wait_for_charts(page, 4)
            every.append(watch.read())
            page.context.close()
    found = median_of(readings)
    return {"12 runs onto Compare (s)": found["seconds"], **found, "four charts": median_of(every)}


def large(browser: Any, folder: Path) -> dict[str, Any]:
    """Time a run of 100,000 updates."""
    make_large(folder / "large" / "large.zarr")
    with served(folder / "large") as server:
        page = visitor(browser)
        watch = Watch(server)
        page.goto(f"{server.url}?page=compare&runs=large&selected=large&more=true", wait_until="commit")
        sight = seen(page)
        wait_for_charts(page)
        soon = watch.read()
        wait_for_charts(page, 4)
        found = watch.read()
        page.context.close()
    return {f"a run of {LARGE:,} updates (s)": sight, "chart that answers": soon, "four charts": found}


def many(browser: Any, folder: Path) -> dict[str, Any]:
    """Time a folder of 1,000 runs: the list alone, at first and again, and the page: listed, filtered, opened again."""
    runs = make_many(folder / "many", 1_000)
    started = time.perf_counter()
    listed = RunsFolder(runs)
    assert len(listed.entries()) == 1_000
    cold, again = time.perf_counter() - started, time.perf_counter()
    listed.entries()
    warm = time.perf_counter() - again
    with served(runs) as server:
        page = visitor(browser)
        watch = Watch(server)
        page.goto(server.url + "?page=runs", wait_until="commit")
        page.get_by_role("button", name="run-").first.wait_for()
        found = watch.read()
        # until the page is complete, and the server has built the others
        page.wait_for_timeout(40_000)
        filtered = [_filter(page, server, words, count) for words, count in FILTERS]
        page.get_by_role("tab", name="Training", exact=True).click()
        page.get_by_role("button", name=PAGES["Training"][1]).locator("visible=true").first.wait_for()
        page.wait_for_timeout(2_500)
        watch = Watch(server)
        page.get_by_role("tab", name="Runs", exact=True).click()
        page.get_by_role("button", name="run-").locator("visible=true").first.wait_for()
        back = watch.read()
        page.context.close()
    middle = median_of(filtered)
    return {"1,000 runs listed (s)": found["seconds"], "1,000 runs filtered (s)": middle["seconds"],
            "back to 1,000 runs (s)": back["seconds"], "table that answers": found, "filtered": middle,
            "by filter": {words: each for (words, _), each in zip(FILTERS, filtered, strict=True)}, "back": back,
            "read from disk (s)": cold, "looked at again (s)": warm}  # fmt: skip


#: Texts of the filter in their order, and what the page says of the matching runs.
FILTERS = [("run-05", "100 of 1,000 runs."), ("no such run", "0 of 1,000 runs."), ("converged", "1,000 runs."),
           ("run-0501", "1 of 1,000 runs."), ("", "1,000 runs.")]  # fmt: skip


def _filter(page: Page, server: Served, words: str, count: str) -> dict[str, float]:
    """Return the seconds from Enter in the filter until the page shows the matching runs."""
    field, said = page.get_by_label("Filter", exact=True), page.get_by_text(re.compile(f"^{re.escape(count)}"))
    field.fill(words)
    watch = Watch(server)
    field.press("Enter")
    said.locator("visible=true").wait_for()
    found = watch.read()
    page.wait_for_timeout(500)
    return found


def solve_address(url: str, n: int, epochs: int) -> str:
    """Return the address of a page that is ready to run the solve of `SOLVE`."""
    return (
        f"{url}?page=compare&dataset=china&n={n}&rhs=16&methods=ap&rules=cyclic&partitions=sequential"
        f"&block_sizes=500&max_epochs={epochs}&runs="
    )


def run_once(page: Page, timeout: float = 600) -> None:
    """Press Run and wait for the end."""
    started = time.perf_counter()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Running:").first.wait_for()
    said = page.get_by_text(re.compile("runs? recorded"))
    # waiting in the browser would search the whole page at every frame
    while not said.count():
        time.sleep(0.5)
        if time.perf_counter() - started > timeout:
            raise TimeoutError(f"the solve did not end within {timeout:g} s")


def newest_seconds(runs: Path) -> float:
    """Return the seconds of the newest run, from its trace."""
    newest = max(runs.glob("*.zarr"), key=lambda path: path.stat().st_ctime)
    return float(apviz.open_trace(newest)["epoch"]["seconds"].values[-1])


def watched(browser: Any, folder: Path, n: int = 13_696, epochs: int = 60) -> dict[str, Any]:
    """Measure CPU seconds and wall-clock seconds with and without a dashboard, alternating."""
    readings, alone, rates, seconds = [], [], [], []
    with served(make_twelve(folder / "twelve")) as server:
        page = visitor(browser)
        page.goto(solve_address(server.url, n, epochs))
        page.get_by_role("button", name="Run", exact=True).wait_for()
        page.wait_for_timeout(3_000)
        for _ in range(TURNS):
            out = subprocess.run(
                ["taskset", "-c", str(SERVER_CORE), sys.executable, "-c", SOLVE, str(n), str(epochs),
                 str(folder / "alone")],
                capture_output=True, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            alone.append([float(each) for each in out.stdout.split()[-2:]])
            shutil.rmtree(folder / "alone")
            before, watch = drawn(page), Watch(server)
            run_once(page)
            readings.append(watch.read())
            seconds.append(newest_seconds(server.runs))
            rates.append((drawn(page) - before) / seconds[-1])
        page.context.close()
    least = min(cpu for cpu, _ in alone)
    found = {"alone, CPU (s)": [cpu for cpu, _ in alone], "watched": readings, "n": n, "epochs": epochs,
             "alone, solve (s)": [solve for _, solve in alone], "watched, solve (s)": seconds}  # fmt: skip
    ratio = min(each["server CPU"] for each in readings) / least
    return {"watched ÷ alone, server CPU": ratio, "charts a second": statistics.median(rates), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to run; empty to write the table only")
    parser.add_argument("--results", type=Path, default=PATH)
    parser.add_argument("--visitors", type=int, default=20, help="at once; four in ten of them solve")
    parser.add_argument("--minutes", type=float, default=30.0, help="that they stay")
    options = parser.parse_args()
    os.sched_setaffinity(0, {BROWSER_CORE})
    # two threads on one core would wait for each other
    torch.set_num_threads(1)
    kept = json.loads(options.results.read_text("utf-8")) if options.results.exists() else {}
    results = {part: kept[part] for part in PARTS if part in kept}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for part in filter(None, options.parts.split(",")):
            machine = describe()
            results[part] = {"machine": machine, **PARTS[part](browser, Path(folder), options)}
            options.results.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
            print(part, json.dumps(results[part] | {"machine": machine["load_average"]}), flush=True)
        browser.close()
    if options.results == PATH:
        write_table(results)
    print("\n".join(lines_of(results)))


def _plain(part: Callable[[Any, Path], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda browser, folder, options: part(browser, folder)


def visitors(browser: Any, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure many visitors at once."""
    with served(make_twelve(folder / "twelve")) as server:
        return visiting.run(browser, server, options.visitors, options.minutes)


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "start": _plain(start), "new": _plain(new), "first": _plain(first), "switch": _plain(switch),
    "twelve": _plain(twelve), "large": _plain(large), "many": _plain(many), "watched": _plain(watched),
    "visitors": visitors,
}  # fmt: skip


if __name__ == "__main__":
    main()
