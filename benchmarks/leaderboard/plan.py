"""List the cells to measure, the most important first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.leaderboard.entrants import names
from benchmarks.leaderboard.systems import PUBLISHED, SYSTEMS, N

SEEDS = 5
#: processor seconds of a task: some thousand products with K
LIMIT = 10.0
#: cost against n: sizes, sets of all of them, methods, the tolerance, and processor seconds of a task
SIZES, GROWING = (8_000, 16_000, 32_000), ("china", "protein", "airquality")
BEST = (
    "auto", "B: CG, two-level Schwarz", "CG, randomly pivoted Cholesky 500", "CG, Nyström 500", "CD++", "Cholesky",
)  # fmt: skip
GROWING_TOL, GROWING_LIMIT = 1e-2, 120.0
#: more rows than most sets have: by n and set who is asked, for this tolerance alone, and processor seconds of a task
# without Cholesky: three n × n arrays of 100,000 rows take 120 GB
LARGE = ((100_000, "china", BEST[:-1]), (100_000, "airquality", BEST[:-1]), (300_000, "airquality", BEST[:1]))
LARGE_LIMIT = 900.0


@dataclass(frozen=True)
class Asked:
    """A requested cell: all tolerances from the loosest to the tightest."""

    entrant: str
    system: str
    n: int
    seed: int
    limit: float
    tightest: float = 0.0
    loosest: float = 1.0


def whole(limit: float) -> Iterator[Asked]:
    """Yield all cells of the page: every system once, growing n, and the published ones with other seeds."""
    yield from some(names(), tuple(SYSTEMS), N, range(1), limit)
    for system, n, name in itertools.product(GROWING, SIZES, BEST):
        yield Asked(name, system, n, 0, max(limit, GROWING_LIMIT), GROWING_TOL)
    yield from some(names(), tuple(PUBLISHED), N, range(1, SEEDS), limit)
    for n, system, of in LARGE:
        for name in of:
            yield Asked(name, system, n, 0, max(limit, LARGE_LIMIT), GROWING_TOL, GROWING_TOL)


def some(
    entrants: Sequence[str], systems: Sequence[str], n: int, seeds: range, limit: float, tightest: float = 0.0,
    loosest: float = 1.0,
) -> Iterator[Asked]:  # fmt: skip
    """Yield each entrant on each system, seed after seed."""
    for seed, system, name in itertools.product(seeds, systems, entrants):
        yield Asked(name, system, n, seed, limit, tightest, loosest)
