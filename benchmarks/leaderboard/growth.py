"""Fit power laws of the cost in n to the cells with more rows, and estimate the other cells."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import linregress

from benchmarks.leaderboard.plan import GROWING_TOL
from benchmarks.leaderboard.systems import N
from benchmarks.leaderboard.tables import MEASURES

# an exponent from fewer sizes has no error
LEAST_SIZES = 3


@dataclass(frozen=True)
class Law:
    """seconds or work ∝ n^exponent, by least squares in logarithms.

    Attributes:
        exponent, error: the exponent and its standard error; NaN for fewer than three sizes.
        constant: the logarithm at n = 1.
        sizes: the sizes of the fit.
    """

    exponent: float
    error: float
    constant: float
    sizes: tuple[int, ...]

    def at(self, n: int) -> float:
        """Return the law's value at n rows."""
        return math.exp(self.constant + self.exponent * math.log(n))


@dataclass(frozen=True)
class Growth:
    """The growth of the cost of one entrant on one system, to 0.01.

    Attributes:
        cells: measurements by n: a row of `tables.medians`.
        laws: by measure.
        foreseen: seconds estimated by the law, by n that only other entrants were run at; infinite above a size
            that failed, because the law is known to be wrong there.
    """

    system: str
    entrant: str
    cells: dict[int, dict[str, Any]]
    laws: dict[str, Law]
    foreseen: dict[int, float] = field(default_factory=dict)


def growth(of: pd.DataFrame) -> list[Growth]:
    """Return the growth of entrants and systems with more rows than the common sizes, from medians."""
    of = of[of["tol"] == GROWING_TOL]
    large = of[of["n"] > N]
    sizes = of[of["system"].isin(large["system"])].groupby("system")["n"].unique()
    found = []
    for system, entrant in large[["system", "entrant"]].drop_duplicates().itertuples(index=False):
        own = of[(of["system"] == system) & (of["entrant"] == entrant)].sort_values("n")
        cells = {int(row["n"]): row for row in own.to_dict("records")}
        laws = {measure: fitted({n: row[measure] for n, row in cells.items()}) for measure in MEASURES}
        untried = sorted(int(n) for n in sizes[system] if n not in cells)
        failed = min((n for n, row in cells.items() if not math.isfinite(row["seconds"])), default=math.inf)
        foreseen = {n: laws["seconds"].at(n) if n < failed else math.inf for n in untried}
        foreseen = {n: value for n, value in foreseen.items() if not math.isnan(value)}
        found.append(Growth(system, entrant, cells, laws, foreseen))
    return found


def fitted(by_n: dict[int, float]) -> Law:
    """Fit a law to the finite values."""
    done = {n: value for n, value in by_n.items() if math.isfinite(value)}
    if len(done) < LEAST_SIZES:
        return Law(math.nan, math.nan, math.nan, tuple(done))
    fit = linregress(np.log(list(done)), np.log(list(done.values())))
    # equal values leave SciPy's correlation, and so its standard error, undefined
    error = 0.0 if fit.slope == 0.0 else fit.stderr
    return Law(fit.slope, error, fit.intercept, tuple(done))


def words(law: Law) -> str:
    """Return `1.85 ± 0.03`, or a dash."""
    return f"{law.exponent:.2f} ± {law.error:.2f}".replace("-", "−") if math.isfinite(law.exponent) else "–"


def estimates(found: list[Growth]) -> list[dict[str, Any]]:
    """Return the cells whose residual is an estimate."""
    return [cell for each in found for cell in each.cells.values() if math.isfinite(cell["drawn"])]
