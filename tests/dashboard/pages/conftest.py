"""The page Runs of a folder of small real runs."""

from __future__ import annotations

import pytest


@pytest.fixture
def page(folder):
    from apviz.dashboard.jobs.job import JobQueue
    from apviz.dashboard.limits import Limits
    from apviz.dashboard.pages.base import Shared, View
    from apviz.dashboard.pages.runs.page import Runs
    from apviz.dashboard.settings.system_choice import SystemChoice
    from apviz.dashboard.store.runs_folder import RunsFolder

    limits = Limits()
    shared = Shared(limits, JobQueue(1), RunsFolder(folder), False, View(), SystemChoice(limits))
    page = Runs(shared)
    page.main()
    page.sidebar()
    page.open()
    yield page
    shared.end()
