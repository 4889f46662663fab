"""Workers shared by the tests, because starting them takes seconds."""

from __future__ import annotations

import pytest

from apviz.cluster import Cluster


@pytest.fixture(scope="session")
def two_workers():
    pytest.importorskip("distributed")
    with Cluster(workers=2) as cluster:
        yield cluster
