"""Solves on workers, as commands ask for them and tell of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from apviz.cli.terminal import errors, fail
from apviz.cluster import Cluster
from apviz.comparison import Outcome


@contextmanager
def asked_for(scheduler: str | None, workers: int | None) -> Iterator[Cluster | None]:
    """The cluster that is asked for, if one is."""
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
    """Says of each that it is done, where several are solved at once."""
    for number, outcome in enumerate(outcomes, 1):
        how = outcome.error or (outcome.trace.status() if outcome.trace else "")
        errors.print(f"{number} of {count}: {outcome.solver.method.name}, {how}", highlight=False, markup=False)
        yield outcome
