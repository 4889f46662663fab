"""What tests of several parts use, and small solves on one thread: two would wait for each other longer than they
compute, most of all on a busy machine."""

from __future__ import annotations

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

# what a shell runs in the background ignores Ctrl-C, and so would the commands that tests interrupt
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# the same examples in every run: what fails here fails everywhere, and again
settings.register_profile("suite", derandomize=True, deadline=None, database=None)
settings.load_profile("suite")

# where a test waits for a browser, a Jupyter kernel, a command or a training
LONG = (
    "notebooks",
    "dashboard",
    "experiments",
    "cluster",
    "test_readme.py",
    "test_cli.py",
    "test_lint.py",
    "tracing/test_note",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files with long tests first, then those with many: what comes last keeps one process waiting."""
    many = Counter(item.path for item in items)
    tests = Path(__file__).parent

    def order(item: pytest.Item) -> tuple[bool, int]:
        return not item.path.relative_to(tests).as_posix().startswith(LONG), -many[item.path]

    items.sort(key=order)


@pytest.fixture(autouse=True)
def _warnings_are_captured_anew():
    """Undoes what a command does in this process: pytest has put its own way of showing warnings back by then, and
    logging, which believes that it still has them, would not take them again."""
    yield
    logging.captureWarnings(False)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def launch_browser() -> Iterator[Any]:
    """A real browser without a screen."""
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
