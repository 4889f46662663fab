"""Solves on workers: set-up of the cluster, and progress messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from apviz.cli.terminal import console, errors, fail
from apviz.cluster import Cluster
from apviz.comparison import Outcome, Recording, compare_on
from apviz.places import Place
from apviz.solvers import Solver
from apviz.system import KernelSystem


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


def solve_on(
    cluster: Cluster,
    build: Callable[[], KernelSystem],
    solvers: Sequence[Solver],
    folder: Place,
    recording: Recording,
) -> Iterator[Outcome]:
    """Solve by all solvers at once, say where they run, and report each completed solve."""
    warning = "Solves on one machine slow each other down: compare work, not seconds."
    console.print(f"Running on {cluster}. {warning}", highlight=False, markup=False)
    for number, outcome in enumerate(compare_on(cluster, build, solvers, folder, recording), 1):
        how = outcome.error or (outcome.trace.status() if outcome.trace else "")
        name = outcome.solver.method.name
        errors.print(f"{number} of {len(solvers)}: {name}, {how}", highlight=False, markup=False)
        yield outcome
