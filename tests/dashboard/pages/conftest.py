"""The page Runs of a folder of small real runs."""

from __future__ import annotations

import pytest


@pytest.fixture
def page(folder):
    from apviz.dashboard.pages.runs.page import Runs
    from tests.dashboard.visiting import visitor

    page = Runs(visitor(folder))
    page.main()
    page.settings()
    page.open()
    yield page
    page.shared.end()
