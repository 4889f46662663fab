"""Solves on workers: set-up of the cluster, and progress messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from apviz.cli.terminal import errors, fail
from apviz.cluster import Cluster
from apviz.comparison import Outcome


@contextmanager
def asked_for(scheduler: str | None, workers: int | None) -> Iterator[Cluster | None]:
    """Yield the requested cluster; None if none was requested."""
    if scheduler is None and workers is None:
        yield None
        return
    try:
        cluster = Cluster(scheduler, workers=workers)
    except (ValueError, OSError) as error:
        fail(error)
    with cluster:
        yield cluster


def told(outcomes: Iterator[Outcome], count: int) -> Iterator[Outcome]:
    """Report each completed solve while several run at once."""
    for number, outcome in enumerate(outcomes, 1):
        how = outcome.error or (outcome.trace.status() if outcome.trace else "")
        errors.print(f"{number} of {count}: {outcome.solver.method.name}, {how}", highlight=False, markup=False)
        yield outcome
