"""What tests of several parts use, and small solves on one thread: two would wait for each other longer than they
compute, most of all on a busy machine."""

from __future__ import annotations

import os
import shutil

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also for the processes that tests start; before torch is imported

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    """A real browser without a screen."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as session:
        started = session.chromium.launch(executable_path=CHROMIUM, args=options)
        yield started
        started.close()
