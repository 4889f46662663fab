"""A visitor who leaves a page while it solves, and comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def comes_back_while_it_solves(page: Any, traces: Callable[[], Any]) -> None:
    """Start an endless run, and check the page before and after its end."""
    page.run()
    deadline = time.monotonic() + 60
    while page.job.live.trace is None:
        assert time.monotonic() < deadline and page.job.is_active
        time.sleep(0.01)
    page.open()
    assert page.choice.runs == [] and not traces()
    page.stop()
    page.job.join(60)
    # the job ended while nobody was on the page
    page.open()
    page.tick()
    assert page.choice.runs == page.job.done and len(page.job.done) == 1
