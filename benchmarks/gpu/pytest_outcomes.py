"""A pytest plugin: counts of outcomes and every failure, written into the stage's JSON as the tests run."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.report import replace

#: seconds between two writes; last lines of a failure that are kept; characters of a reason for a skip
EVERY, LAST_LINES, REASON = 1.0, 12, 200
VARIABLE = "APVIZ_GPU_REPORT"


class Outcomes:
    """Outcomes so far, and the failures with their last lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self.failures: dict[str, list[str]] = {}
        self.skips: Counter[str] = Counter()
        self.slowest: list[tuple[float, str]] = []
        self._written = 0.0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self.slowest = sorted([*self.slowest, (round(report.duration, 2), report.nodeid)], reverse=True)[:10]
        if report.passed and report.when != "call":
            return
        outcome = report.outcome if report.when == "call" or report.skipped else "error"
        self.counts[outcome] += 1
        if report.failed:
            self.failures[report.nodeid] = str(report.longrepr).splitlines()[-LAST_LINES:]
        elif report.skipped and isinstance(report.longrepr, tuple):
            self.skips[str(report.longrepr[-1])[:REASON]] += 1
        if time.monotonic() > self._written + EVERY:
            self.write()

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.counts["error"] += 1
            self.failures[report.nodeid] = str(report.longrepr).splitlines()[-LAST_LINES:]

    def pytest_sessionfinish(self) -> None:
        self.write()

    def write(self) -> None:
        self._written = time.monotonic()
        found = json.loads(self.path.read_text())
        found["entries"]["outcomes"] = {
            "counts": dict(self.counts), "failures": self.failures, "skips": dict(self.skips.most_common(30)),
            "slowest": self.slowest,
        }  # fmt: skip
        replace(self.path, found)


def pytest_configure(config: pytest.Config) -> None:
    if VARIABLE in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(os.environ[VARIABLE])), "gpu-outcomes")
