"""Fixtures for tests of several folders; solves use one thread, because small ones would mostly wait for a second."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also for the processes that tests start; before torch is imported

if os.environ.get("APVIZ_DEVICE", "cpu") != "cpu":
    from tests.device import read_results_on_the_cpu

    read_results_on_the_cpu()

# the console of the commands measures the terminal once, before a test runs a command in a wider one
import apviz.cli.terminal  # noqa: F401

# processes in the background of a shell ignore Ctrl-C, and so would the commands that tests interrupt
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# the same examples in every run, so that failures can be repeated everywhere
settings.register_profile("suite", max_examples=50, derandomize=True, deadline=None, database=None)
settings.load_profile("suite")

# tests that wait for a browser, a Jupyter kernel, a command, another process or a training
LONG = (
    "notebooks",
    "dashboard",
    "trust",
    "operators/test_fused.py",
    "experiments",
    "cluster",
    "test_readme.py",
    "test_cli.py",
    "test_leaderboard.py",
    "tracing/test_note",
    "widgets/js",
    "gpytorch",
    "report",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with long tests first, then those with many, so that all processes end at about the same time."""
    many = Counter(item.path for item in items)
    tests = Path(__file__).parent

    def order(item: pytest.Item) -> tuple[bool, int]:
        return not item.path.relative_to(tests).as_posix().startswith(LONG), -many[item.path]

    items.sort(key=order)


def pytest_collection_finish() -> None:
    """Take the libraries and the tests out of garbage collection, a tenth of the time of many small tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _restore_capture_of_warnings():
    """Undo the capture of warnings by a command: pytest has restored its own by then, and logging would never capture
    them again."""
    yield
    logging.captureWarnings(False)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def launch_browser() -> Iterator[Any]:
    """Launch a real browser without a screen."""
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as session:
        started = session.chromium.launch(executable_path=CHROMIUM, args=options)
        yield started
        started.close()


@pytest.fixture(scope="module")
def browser():
    pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with launch_browser() as started:
        yield started
