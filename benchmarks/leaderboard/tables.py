"""Turn the files of results into tables: medians, profiles, ranking, losses and their reasons."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.leaderboard.cells import TOLERANCES
from benchmarks.leaderboard.plan import GROWING_TOL
from benchmarks.leaderboard.systems import family

AUTO = "auto"
# regrets above are listed
LOSS = 1.2
# works that differ by less are equal; works above this multiple of the other's are more
SAME, MORE = 0.002, 1.1
MEASURES = ("seconds", "work")
TASK = ["family", "system", "tol"]


def tabulate(folder: Path) -> pd.DataFrame:
    """Return rows of system, family, n, entrant, seed, tolerance; seconds and work, infinite for a failure, and why.

    Further columns: the limit and, for an estimated residual, its number of rows, the residual, and its error.
    """
    rows = []
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        for cell in found["cells"].values():
            for tol in TOLERANCES:
                reached = cell["reached"].get(f"{tol:g}")
                if tol > cell.get("loosest", 1.0) or (reached is None and tol < cell["tightest"]):
                    continue
                estimated = (reached or {}).get("estimated")
                rows.append({
                    "system": found["system"], "family": family(found["system"]), "n": cell["n"],
                    "entrant": cell["entrant"], "seed": cell["seed"], "tol": tol, "limit": cell["limit"],
                    "failure": "" if reached else cell.get("failure", "not asked"),
                    "seconds": reached["seconds"] if reached else math.inf,
                    "work": _work(reached) if reached else math.inf,
                    "residual": reached["residual"] if reached else math.nan,
                    "drawn": estimated["rows"] if estimated else math.nan,
                    "error": estimated["error"] if estimated else 0.0,
                })  # fmt: skip
    return pd.DataFrame(rows)


def _work(reached: Mapping[str, Any]) -> float:
    """Return the work; NaN for an entrant that evaluates entries itself."""
    return math.nan if reached["work"] is None else float(reached["work"])


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """Return the median, minimum and maximum over seeds; infinite if half of the seeds failed.

    The number of rows of an estimated residual is the smallest; residual, error and limit are the largest.
    """
    by = table.groupby([*TASK, "n", "entrant"], sort=False)
    found = by[["seconds", "work"]].quantile(0.5, interpolation="higher")
    for name in MEASURES:
        found[f"{name} least"], found[f"{name} most"] = by[name].min(), by[name].max()
    found["drawn"], found["seeds"] = by["drawn"].min(), by["seed"].nunique()
    for name in ("residual", "error", "limit"):
        found[name] = by[name].max()
    found["failure"] = by["failure"].agg(lambda words: next((word for word in words if word), ""))
    return found.reset_index()


def comparable(of: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the tasks that all entrants were given, a column an entrant; entrants given few tasks are left out."""
    wide = of.pivot_table(index=["system", "tol"], columns="entrant", values=measure, aggfunc="first", dropna=False)
    return wide.loc[:, wide.notna().mean() > 0.5].dropna()


def profile(of: pd.DataFrame, measure: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return Dolan & Moré's ρ(τ) of every entrant, over the systems and tolerances that all were given.

    Returns:
        By entrant τ, from 1, and the share of tasks done at no more than τ times the least of `measure`.
    """
    wide = comparable(of, measure)
    ratios = wide.div(wide.min(axis=1), axis=0)  # NaN where no method converged
    found = {}
    for name in wide.columns:
        taus, counts = np.unique(ratios[name][np.isfinite(ratios[name])].to_numpy(), return_counts=True)
        shares = counts.cumsum() / max(1, len(wide))
        if not len(taus) or taus[0] > 1:
            taus, shares = np.append(1.0, taus), np.append(0.0, shares)
        found[name] = taus, shares
    return found


def standings(of: pd.DataFrame) -> pd.DataFrame:
    """Return by entrant: tasks solved and given, tasks won, and the median of seconds and work ÷ the minimum of all."""
    of = of.copy()
    for measure in MEASURES:
        of[f"times {measure}"] = of[measure] / of.groupby(TASK)[measure].transform("min")
    rows = []
    for name, own in of.groupby("entrant", sort=False):
        done = own[np.isfinite(own["seconds"])]
        rows.append({
            "entrant": name, "done": len(done), "asked": len(own), "share": len(done) / len(own),
            "won": int((done["times seconds"] <= 1).sum()), "times seconds": done["times seconds"].median(),
            "times work": done["times work"].median(),
        })  # fmt: skip
    order = {"share": False, "times seconds": True}
    return pd.DataFrame(rows).sort_values(list(order), ascending=list(order.values()), ignore_index=True)


def losses(of: pd.DataFrame) -> pd.DataFrame:
    """Return tasks where `auto` needs over 1.2 times the least seconds, or fails and another succeeds, worst first."""
    best = of.loc[of.groupby(["system", "tol"])["seconds"].idxmin()].set_index(["system", "tol"])
    ours = of[of["entrant"] == AUTO].set_index(["system", "tol"])
    joined = ours.join(best[["entrant", "seconds", "work"]].add_suffix(" of best"))
    joined = joined[np.isfinite(joined["seconds of best"])]
    joined["regret"] = joined["seconds"] / joined["seconds of best"]
    found = joined[joined["regret"] > LOSS].sort_values("regret", ascending=False).reset_index()
    found["reason"] = [_reason(row, of) for _, row in found.iterrows()]
    return found


def _reason(row: Mapping[str, Any], of: pd.DataFrame) -> str:
    """Explain a loss from work and seconds alone: the choice of `auto`, and which of the two is larger."""
    best, work, least = row["entrant of best"], row["work"], row["work of best"]
    if not math.isfinite(row["seconds"]):
        return f"auto ended: {row['failure']}"
    if abs(least / work - 1) < SAME:
        beyond = number(1000 * (row["seconds"] - row["seconds of best"]))
        return f"auto took as much work as {best}, {number(work)}: {beyond} ms are choosing, or what seconds scatter"
    same = of[(of["system"] == row["system"]) & (of["tol"] == row["tol"]) & (of["entrant"] != AUTO)]
    as_much = same[(same["work"] / work - 1).abs() < SAME]["entrant"]
    took = f"auto took as much work as {as_much.iloc[0]}" if len(as_much) else "auto took a way of its own"
    if math.isnan(least):
        return f"{took}, {number(work)}; {best} evaluates entries that are not counted"
    if work > MORE * least:
        return f"{took}, {number(work)}, where {best} needs {number(least)}"
    each, other = 1000 * row["seconds"] / work, 1000 * row["seconds of best"] / least
    return (
        f"{took}, {number(work)}, and {best} {number(least)}: not more, but {number(each)} ms each, set-up and "
        f"choosing included, where {best} takes {number(other)}"
    )


def markdown(of: pd.DataFrame, tol: float = GROWING_TOL) -> str:
    """Return a table of the repository's README: work and seconds to a tolerance, a line a method, a column a system.

    A dash stands where a method was not measured.

    Args:
        of: medians of one family at one n.
    """
    of = of[of["tol"] == tol]
    systems = list(dict.fromkeys(of["system"]))
    lines = [["method", *systems], ["---"] * (1 + len(systems))]
    for name in standings(of)["entrant"]:
        own = of[of["entrant"] == name].set_index("system")
        lines.append([name, *(_entry(own.loc[each]) if each in own.index else "–" for each in systems)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _entry(row: Mapping[str, Any]) -> str:
    if not math.isfinite(row["seconds"]):
        return str(row["failure"]).partition(":")[0]
    seconds = f"{row['seconds']:.2g} s"
    return f"({seconds})" if math.isnan(row["work"]) else f"{number(row['work'])} ({seconds})"


def number(value: float) -> str:
    """Format a number with three digits, without powers of ten below a million."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def coarse(value: float) -> str:
    """Format a number with two digits."""
    return number(float(f"{value:.2g}"))
