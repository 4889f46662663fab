"""The dashboard in a browser: first chart, charts a second while solving, what that costs the solve, memory.

- *first chart*: from the request of the page to the first chart in it, of a warm server: median of so many loads;
- *slowdown*: seconds of one and the same solve, as its trace has them, started in the dashboard with a page looking on,
  and by `apviz.solve` with a recorder in a process without a dashboard, in turns; best of each;
- *charts a second*: figures drawn by the browser during those solves;
- *large trace*: opening a run of 100,000 updates from its address until its charts are there;
- *growth*: resident memory of the server after 50 runs in one session, less that after the first.

Needs Chromium and Playwright. The browser runs on the same processors, so a slowdown measured here contains its share.

    python -m benchmarks.dashboard [--n 13696] [--runs 50]
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from playwright.sync_api import Page, sync_playwright
from rich.console import Console

import apviz
from apviz.solvers import attempt
from apviz.tracing.store import Record
from benchmarks.machine import RESULTS, describe

PATH = RESULTS / "dashboard.json"
CHROMIUM, FLAGS = "/usr/bin/chromium", ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
LOADS, TURNS, LARGE = 5, 3, 100_000
GOALS = {"first chart (s)": 2.0, "charts a second": 5.0, "slowdown": 1.1, "large trace (s)": 2.0, "growth (MB)": 200.0}

SOLVE = """
import sys, torch, apviz
from apviz import comparison, datasets
from pathlib import Path
data = datasets.load("china", n=int(sys.argv[1]))
chosen = comparison.choose_hyperparameters(data)
system = comparison.build_system(data, chosen, rhs=16)
solvers = comparison.choose_solvers(["ap"], rules=["cyclic"], block_sizes=[500], max_epochs=int(sys.argv[2]))
for outcome in comparison.compare(system, solvers, Path(sys.argv[3])):
    print(outcome.trace["epoch"]["seconds"].values[-1])
"""


@contextmanager
def server(runs: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A dashboard on a free port, warm: one page has been served."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "apviz.cli", "dashboard", "--no-show", "--port", str(port), "--runs", str(runs)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).read()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def wait_for_charts(page: Page, count: int = 1) -> None:
    """Until so many charts are drawn."""
    page.locator(".chart .main-svg").nth(3 * (count - 1)).wait_for(timeout=60_000)


def first_chart(url: str, browser: Any) -> float:
    """Median seconds of several fresh visitors."""
    seconds = []
    for _ in range(LOADS):
        page = browser.new_context(viewport={"width": 1500, "height": 1000}).new_page()
        started = time.perf_counter()
        page.goto(url)
        wait_for_charts(page)
        seconds.append(time.perf_counter() - started)
        page.context.close()
    return statistics.median(seconds)


def solve_address(url: str, n: int, epochs: int) -> str:
    """A page that is ready to run the solve of `SOLVE`."""
    return (
        f"{url}?page=compare&dataset=china&n={n}&rhs=16&methods=ap&rules=cyclic&partitions=sequential"
        f"&block_sizes=500&max_epochs={epochs}&runs="
    )


def drawn(page: Page) -> int:
    """How many figures the browser has drawn on this page."""
    charts = page.locator(".chart")
    return sum(int(charts.nth(i).get_attribute("data-drawn") or 0) for i in range(charts.count()))


def run_once(page: Page, timeout: float = 600) -> tuple[int, float]:
    """Presses Run and waits for the end; figures drawn, and seconds."""
    before, started = drawn(page), time.perf_counter()
    page.get_by_role("button", name="Run", exact=True).click()
    said = page.get_by_text("runs recorded")
    # by then it says what runs, or has run: a short run is over before words that come four times a second have changed
    time.sleep(1)
    # waiting in the browser would look through the whole page at every frame
    while not (said.count() and drawn(page) > before):
        time.sleep(0.5)
        if time.perf_counter() - started > timeout:
            raise TimeoutError(f"the solve did not end within {timeout:g} s")
    return drawn(page) - before, time.perf_counter() - started


def newest_seconds(runs: Path) -> float:
    """Seconds of the newest run, as its trace has them."""
    newest = max(runs.glob("*.zarr"), key=lambda path: path.stat().st_ctime)
    return float(apviz.open_trace(newest)["epoch"]["seconds"].values[-1])


def slowdown(url: str, runs: Path, browser: Any, n: int, epochs: int = 40) -> dict[str, Any]:
    """Seconds with and without a dashboard, in turns."""
    page = browser.new_page(viewport={"width": 1500, "height": 1000})
    page.goto(solve_address(url, n, epochs))
    page.get_by_role("button", name="Run", exact=True).wait_for()
    alone, watched, rates = [], [], []
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", SOLVE, str(n), str(epochs), folder]
            alone.append(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]))
        figures, _ = run_once(page)
        watched.append(newest_seconds(runs))
        rates.append(figures / watched[-1])
    page.close()
    return {"alone (s)": alone, "watched (s)": watched, "slowdown": min(watched) / min(alone),
            "charts a second": statistics.median(rates)}  # fmt: skip


def large_trace(url: str, runs: Path, browser: Any) -> float:
    """Seconds until the charts of a run of 100,000 updates are there."""
    make_large(runs / "large.zarr")
    page = browser.new_page(viewport={"width": 1500, "height": 1000})
    started = time.perf_counter()
    page.goto(f"{url}?page=compare&runs=large&selected=large")
    wait_for_charts(page, 4)
    seconds = time.perf_counter() - started
    page.close()
    return seconds


def make_large(path: Path, updates: int = LARGE) -> None:
    """A trace of so many updates: the record of a real solve, with its epochs repeated."""
    data = apviz.datasets.load("china", n=2_000)
    system = apviz.KernelSystem(data.train_x, data.train_y, apviz.Matern52(lengthscale=0.2), noise=0.1, dataset="china")
    recorder = apviz.Recorder()
    attempt(system, apviz.AlternatingProjection(block_size=100, tol=1e-12, max_epochs=50), [recorder])
    short, blocks = recorder.trace, len(recorder.trace["block"]["block"])
    epochs = updates // blocks
    record = Record(dict(short.attrs))
    group = {name: variable.values for name, variable in short["spectrum"].data_vars.items()}
    record.put(spectrum=group, block={name: short["block"][name].values for name in ("owned_size", "solved_size",
               "lambda_max", "jitter", "times_chosen")} | {"block": range(blocks)})  # fmt: skip
    record.group_attrs["spectrum"] = dict(short["spectrum"].attrs)
    for name, variable in short["spectrum"].data_vars.items():
        record.variable_attrs["spectrum", str(name)] = dict(variable.attrs)
    for name in ("update", "epoch"):
        length = epochs * blocks if name == "update" else epochs + 1
        values = {key: np.resize(v.values, (length, *v.shape[1:])) for key, v in short[name].variables.items()}
        values[name] = np.arange(name == "update", length + (name == "update"))
        values["work"], values["seconds"] = np.linspace(1, epochs, length), np.linspace(0, 60, length)
        if name == "update":
            values["epoch_of_update"] = 1 + np.arange(length) // blocks
        record.put(**{name: values})
    norms = np.resize(short["block"]["residual_norm"].values, (epochs + 1, blocks))
    record.put(block={"epoch": range(epochs + 1), "residual_norm": norms})
    record.to_trace().save(path)


def growth(url: str, process: psutil.Process, browser: Any, count: int) -> float:
    """Megabytes that the server grew by over so many runs in one session."""
    page = browser.new_page(viewport={"width": 1500, "height": 1000})
    page.goto(solve_address(url, 1_712, 30))
    page.get_by_role("button", name="Run", exact=True).wait_for()
    first = 0
    for number in range(count):
        run_once(page)
        if number == 0:
            time.sleep(3)
            first = process.memory_info().rss
    time.sleep(3)
    grown = process.memory_info().rss - first
    page.close()
    return grown / 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=13_696)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--results", type=Path, default=PATH)
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": describe(), "n": options.n}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        runs = Path(folder)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with server(runs) as (url, process):
            found["first chart (s)"] = first_chart(url, browser)
            found |= slowdown(url, runs, browser, options.n)
            found["large trace (s)"] = large_trace(url, runs, browser)
            found["growth (MB)"] = growth(url, process, browser, options.runs)
        browser.close()
    options.results.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for name, goal in GOALS.items():
        reached = found[name] >= goal if name == "charts a second" else found[name] <= goal
        Console().print(f"{name}: {found[name]:.2f}, goal {goal:g}: {'reached' if reached else 'missed'}")


if __name__ == "__main__":
    main()
