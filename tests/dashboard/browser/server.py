"""The dashboard in a separate process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.ports import free_port, status_of, wait_until

#: timeout of any step, in seconds; a busy machine is slow
PATIENCE = 180
#: selects visible elements only, because other pages are prepared in the background
SHOWN = "visible=true"
#: a recorded run that has blocks, which the best one need not have
WITH_BLOCKS = "china-n400-alternating-projection-greedy-b-50"
#: a solve that runs until it is stopped: nearly singular, and no residual is small enough
ENDLESS = {
    "n": 600, "source": "by hand", "lengthscale": 0.5, "noise": 1e-5, "dtype": "float64", "methods": "ap",
    "rules": "cyclic", "block_sizes": 60, "tol": 1e-14, "max_epochs": 100_000,
}  # fmt: skip
#: the verdict on the best converged run
COST = re.compile(r"solved it in [\d.e-]+ (s|min)")
#: finds boxes whose content is too wide; tabs and tables may scroll sideways
TOO_NARROW = """() => {
    const found = [], look = root => {
        for (const each of root.querySelectorAll("*")) {
            if (each.shadowRoot) look(each.shadowRoot);
            const scrolls = each.matches("html, main") || ["auto", "scroll"].includes(getComputedStyle(each).overflowX);
            if (scrolls && !each.matches(".MuiTabs-scroller, .scroll") && each.scrollWidth > each.clientWidth + 1)
                found.push(`${each.localName} ${each.className}: ${each.scrollWidth} in ${each.clientWidth} pixels`);
        }
    };
    look(document);
    return found;
}"""


class Server:
    """`apviz dashboard` on a free port.

    Args:
        wait: until it exists.
        log: file that gets what it writes.
    """

    def __init__(self, runs: Path, *options: str, wait: bool = True, log: Path | None = None) -> None:
        self.runs, self.options, self.log = runs, options, log
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.start(wait=wait)

    def start(self, *, wait: bool = True) -> None:
        command = [sys.executable, "-m", "apviz", "dashboard", "--no-show", "--runs", str(self.runs)]
        log = None if self.log is None else self.log.open("w")
        self.process = subprocess.Popen([*command, "--port", str(self.port), *self.options], stdout=log, stderr=log)
        if not wait:
            return
        statuses: list[int] = []

        def is_ready() -> bool:
            """Ask for a file; nobody is refused once the port is open, first by what answers during the start."""
            statuses.append(status_of(f"{self.url}plotly/plotly.min.js"))
            assert statuses[-1] or not any(statuses), f"a visitor was refused during the start: {statuses}"
            return statuses[-1] == 200

        wait_until(is_ready, self.process, lambda: "the dashboard did not start", PATIENCE)

    def kill(self) -> None:
        """Kill the server like a crash, without clean-up."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def address(self, settings: Mapping[str, Any]) -> str:
        """Return the address of a view."""
        return self.url + ("?" + urlencode(settings) if settings else "")
