"""Stage b: the tests that run on a device, with the last lines of every failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path

from benchmarks.gpu.pytest_outcomes import VARIABLE
from benchmarks.gpu.report import Report

ROOT = Path(__file__).parents[2]
FOLDERS = ("kernels", "operators", "solvers", "preconditioners", "gp", "gpytorch", "tracing")
TINY = ("test_rules.py", "test_partitions.py")
#: processes; seconds of one test; seconds before the budget's end at which pytest is interrupted
PROCESSES, TEST_SECONDS, REPORT_SECONDS = 14, 60, 12.0
#: the tests to run, if not all: set by --tests
CHOSEN = "APVIZ_GPU_TESTS"
LOG = "log.txt"
ENDED = {0: "all ran", 1: "all ran, some failed", 2: "interrupted at the budget", 5: "no test was collected"}


def command(report: Report, junit: Path) -> list[str]:
    """Return pytest's command line, with the plugins that are installed."""
    found = [sys.executable, "-m", "pytest", "-m", "not slow", "-q", "-rfE", "--tb=short", f"--junitxml={junit}"]
    found += ["-p", "no:cacheprovider", "-p", "benchmarks.gpu.pytest_outcomes"]
    if find_spec("xdist"):
        found += ["-n", "1" if report.tiny else str(PROCESSES)]
    if find_spec("pytest_timeout"):
        found += [f"--timeout={TEST_SECONDS}"]
    chosen = os.environ.get(CHOSEN, "").split()
    return found + (chosen or [f"tests/{one}" for one in (TINY if report.tiny else FOLDERS)])


def run(report: Report) -> None:
    report.write(at="outcomes")
    log_file = report.path.parent / LOG
    with tempfile.TemporaryDirectory() as folder, log_file.open("a") as log:
        words = command(report, Path(folder) / "junit.xml")
        environment = os.environ | {"APVIZ_DEVICE": report.device, VARIABLE: str(report.path)}
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=ROOT)
        seconds = max(1.0, report.seconds_left() - REPORT_SECONDS)
        interrupt = threading.Timer(seconds, process.send_signal, (signal.SIGINT,))
        interrupt.start()
        status = process.wait()
        interrupt.cancel()
    keep(report, words, status)


def keep(report: Report, words: list[str], status: int) -> None:
    """Add pytest's exit status to the plugin's results."""
    cell = json.loads(report.path.read_text())["entries"].get("outcomes", {"counts": {}})
    ended = ENDED.get(status, f"pytest ended with status {status}")
    counts = ", ".join(f"{count} {name}" for name, count in cell["counts"].items()) or "no test ran"
    about = {"command": " ".join(words[1:]), "status": status, "ended": ended, "summary": f"{counts}; {ended}"}
    report.add("outcomes", cell | about | ({} if cell["counts"] else {"reason": f"{counts}; {ended}; see {LOG}"}))
