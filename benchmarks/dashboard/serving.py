"""Run a dashboard in a process on its own core and a browser on another, and count the CPU seconds of each."""

from __future__ import annotations

import math
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Page

CHROMIUM, FLAGS = "/usr/bin/chromium", ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SIZE = {"width": 1440, "height": 900}
#: cores of the server, and of the browser
SERVER_CORE, BROWSER_CORE = 0, 1
#: A browser is idle if it uses less than this share of a core, over this many seconds.
IDLE_SHARE, STEP_SECONDS = 0.05, 0.5


class Served:
    """A dashboard on a free port, on its own core.

    Attributes:
        started: time of its command, by `time.perf_counter`.
    """

    def __init__(self, runs: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url, self.runs, self.started = f"http://127.0.0.1:{port}/", runs, time.perf_counter()
        command = [sys.executable, "-m", "apviz", "dashboard", "--no-show", "--port", str(port)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = psutil.Popen(
            [*command, "--runs", str(runs)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        self.process.cpu_affinity([SERVER_CORE])

    def wait_until(self, path: str, patience: float = 300.0, *, in_full: bool = True) -> float:
        """Return seconds from the command until a path answers in full, or until any answer, such as "starting"."""
        while time.perf_counter() - self.started < patience:
            try:
                urllib.request.urlopen(self.url + path, timeout=60).read()
                return time.perf_counter() - self.started
            except urllib.error.HTTPError:
                if not in_full:
                    return time.perf_counter() - self.started
            except OSError:
                pass
            time.sleep(0.02)
        raise TimeoutError(f"{self.url}{path} was not there after {patience:g} s")

    def warm(self) -> None:
        """Wait until the dashboard serves pages, and request one."""
        self.wait_until("plotly/plotly.min.js")
        urllib.request.urlopen(self.url, timeout=300).read()

    @property
    def cpu(self) -> float:
        """Return the CPU seconds of the server."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)


@contextmanager
def served(runs: Path) -> Iterator[Served]:
    """Yield a warm dashboard, which has served one page."""
    found = Served(runs)
    try:
        found.warm()
        yield found
    finally:
        found.end()


def browser_cpu() -> float:
    """Return the CPU seconds of the browser's live processes."""
    total = 0.0
    for child in psutil.Process().children(recursive=True):
        if "chrom" in child.name():
            times = child.cpu_times()
            total += times.user + times.system
    return total


class Watch:
    """A clock of a server and a browser: seconds, CPU seconds of each."""

    def __init__(self, server: Served) -> None:
        self.server = server
        self._begun = (time.perf_counter(), server.cpu, browser_cpu())

    def read(self) -> dict[str, float]:
        """Return the seconds since the clock was made."""
        now = (time.perf_counter(), self.server.cpu, browser_cpu())
        names = ("seconds", "server CPU", "browser CPU")
        return {name: round(end - begun, 3) for name, begun, end in zip(names, self._begun, now, strict=True)}


def median_of(readings: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in readings) for name in readings[0]}


def visitor(browser: Any) -> Page:
    """Return a tab of a new browser context, in a window that is complete.

    Chromium draws its own menus as pages (`chrome://omnibox-popup`), for more than a processor second after it opens a
    window.
    """
    page: Page = browser.new_context(viewport=SIZE).new_page()
    page.set_default_timeout(60_000)
    page.add_init_script(SEEN)
    before = -math.inf
    while (now := browser_cpu()) > before + IDLE_SHARE * STEP_SECONDS:
        before = now
        time.sleep(STEP_SECONDS)
    return page


def seen(page: Page) -> float:
    """Return seconds from requesting the page until the curves of its first chart were visible."""
    page.wait_for_function("window.answerSeen", polling=50)
    return float(page.evaluate("window.answerSeen")) / 1000


def wait_for_charts(page: Page, count: int = 1) -> None:
    """Wait until `count` charts are drawn."""
    page.wait_for_function(f"{CHARTS}.length >= {count}", polling=50)


#: charts that are drawn, in JavaScript; they are in shadow roots
CHARTS = """(() => {
  const found = [];
  const look = (root) => {
    for (const each of root.querySelectorAll("*")) {
      if (each.classList.contains("chart") && each.dataset.drawn && each.offsetParent !== null) found.push(each);
      if (each.shadowRoot) look(each.shadowRoot);
    }
  };
  look(document);
  return found;
})()"""


#: records when the first chart is painted, which is one frame after it is added
SEEN = """(() => {
  const look = () => {
    if (!document.querySelector("#apviz-chart .scatterlayer path")) return;
    watching.disconnect();
    requestAnimationFrame(() => requestAnimationFrame((now) => (window.answerSeen = now)));
  };
  const watching = new MutationObserver(look);
  watching.observe(document, { childList: true, subtree: true });
})()"""


#: whether the preview is gone and the chips are there, or whether the editor of a chip is open, in JavaScript
HAS_CHIPS, HAS_EDITOR = (
    f"""(() => {{
  if (document.getElementById("apviz-first")) return false;
  const has = (root) => {{
    for (const each of root.querySelectorAll("*")) {{
      if ({condition} || (each.shadowRoot && has(each.shadowRoot))) return true;
    }}
    return false;
  }};
  return has(document);
}})()"""
    for condition in (
        "each.dataset.editor",
        "(each.localName === 'button' && each.textContent.includes('Close settings')"
        " && each.checkVisibility({ visibilityProperty: true }))",
    )
)


def wait_for_controls(page: Page) -> None:
    """Wait until a control works: click the first chip, which opens its editor."""
    page.wait_for_function(HAS_CHIPS, polling=50)
    page.get_by_role("toolbar", name="Settings").get_by_role("button").first.click()
    page.wait_for_function(HAS_EDITOR, polling=50)


def drawn(page: Page) -> int:
    """Return the number of figures that the browser has drawn on this page."""
    return int(page.evaluate(f"{CHARTS}.reduce((sum, each) => sum + Number(each.dataset.drawn), 0)"))
