"""Tables of the referee's results: medians over seeds, losses of apviz, winners, and profiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

OURS = ("exact, apviz", "Fourier (EFGP), apviz")
EXACT = OURS[0]
#: a smaller gap of NLL, in nats, is not a loss; and a smaller ratio of seconds neither
GAP, TIMES = 0.01, 1.2
#: a posterior is near the exact one if half its means are off by less (in sd), and its median ratio of sd by less
NEAR = 0.1
TASK = ["data", "n", "track", "budget"]
#: columns of which seeds are summarised by their median
MEASURES = ("nll", "rmse", "coverage", "width", "crps", "seconds", "memory", "off", "off95", "sd")


def tabulate(cells: list[dict[str, Any]]) -> pd.DataFrame:
    """Return one row a run; what was not finished has an NLL of infinity, and no other number."""
    rows = []
    for cell in cells:
        row = {name: cell[name] for name in (*TASK, "entrant", "seed", "rows", "inputs", "outcome")}
        row |= dict.fromkeys(MEASURES, math.nan) | {"nll": math.inf}
        row["nearest"] = math.nan
        if "scores" in cell:
            row |= cell["scores"] | {"seconds": cell["seconds"], "memory": cell["memory"] / 2**20}
        if "distance" in cell:
            (row["off"], row["off95"]), (_, row["sd"], _) = cell["distance"]["mean"], cell["distance"]["sd"]
        rows.append(row)
    return pd.DataFrame(rows)


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row an entrant and task: medians over seeds.

    A seed without a prediction counts as infinite NLL. It has no seconds, memory or other errors: their medians are
    those of the other seeds.
    """
    found = []
    for key, of in table.groupby([*TASK, "entrant"], sort=False):
        row = dict(zip([*TASK, "entrant"], key, strict=True))
        row |= {name: float(of[name].median()) for name in MEASURES}  # pandas leaves out NaN
        done = of["outcome"] == "done"
        row |= {
            "least": float(of["nll"].min()), "most": float(of["nll"].max()), "seeds": len(of),
            "inputs": int(of["inputs"].iloc[0]), "rows": int(of["rows"].iloc[0]),
            "outcome": "done" if done.all() else str(of[~done]["outcome"].iloc[0]),
        }  # fmt: skip
        found.append(row)
    return pd.DataFrame(found).sort_values([*TASK, "nll"], kind="stable", ignore_index=True)


def complete(of: pd.DataFrame, entrants: Iterable[str]) -> pd.DataFrame:
    """Return the tasks for which all entrants were measured: a part of them would crown a winner too early."""
    wanted = set(entrants)
    found: pd.DataFrame = of.groupby(TASK).filter(lambda task: wanted <= set(task["entrant"]))
    return found.reset_index(drop=True)


def finished(of: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a number."""
    return of[np.isfinite(of["nll"])]


def losses(of: pd.DataFrame) -> pd.DataFrame:
    """Return the tasks of the track `own` in which the best of apviz predicts worse than the best by a gap of NLL."""
    rows = []
    for task, own in of[of["track"] == "own"].groupby(TASK, sort=False):
        done = finished(own)
        if done.empty:
            continue
        best, ours = done.loc[done["nll"].idxmin()], done[done["entrant"].isin(OURS)]
        mine = ours.loc[ours["nll"].idxmin()] if len(ours) else None
        gap = math.inf if mine is None else float(mine["nll"] - best["nll"])
        if gap > GAP:
            rows.append(
                dict(zip(TASK, task, strict=True))
                | {
                    "inputs": best["inputs"], "ours": math.inf if mine is None else mine["nll"],
                    "our seconds": math.nan if mine is None else mine["seconds"], "best": best["entrant"],
                    "theirs": best["nll"], "their seconds": best["seconds"], "gap": gap,
                }
            )  # fmt: skip
    found = pd.DataFrame(rows)
    return found if found.empty else found.sort_values("gap", ascending=False, ignore_index=True)


def sooner(of: pd.DataFrame) -> pd.DataFrame:
    """Return the tasks in which another entrant is as good as apviz's best in fewer seconds, and the quickest of them.

    As good is, in the track `own`, an NLL that is at most a gap larger; in the track `same`, near the exact posterior.
    """
    rows = []
    for task, all_of in of.groupby(TASK, sort=False):
        done = finished(all_of)
        ours, others = done[done["entrant"].isin(OURS)], done[~done["entrant"].isin(OURS)]
        if ours.empty or others.empty:
            continue
        if task[TASK.index("track")] == "own":
            mine = ours.loc[ours["nll"].idxmin()]
            good = others[others["nll"] <= mine["nll"] + GAP]
        else:
            mine = ours.loc[ours["seconds"].idxmin()]
            good = others[is_near(others)]
        good = good[good["seconds"] * TIMES < mine["seconds"]]
        if len(good):
            first = good.loc[good["seconds"].idxmin()]
            rows.append(
                dict(zip(TASK, task, strict=True))
                | {
                    "ours": mine["entrant"], "our seconds": mine["seconds"], "our nll": mine["nll"],
                    "first": first["entrant"], "their seconds": first["seconds"], "their nll": first["nll"],
                    "times": mine["seconds"] / first["seconds"],
                }
            )  # fmt: skip
    found = pd.DataFrame(rows)
    return found if found.empty else found.sort_values("times", ascending=False, ignore_index=True)


def is_near(of: pd.DataFrame) -> pd.Series:
    """Test whether posteriors are near the exact one."""
    return (of["off"] <= NEAR) & ((of["sd"] - 1).abs() <= NEAR)


def winners(of: pd.DataFrame) -> list[dict[str, Any]]:
    """Return for every data set and n the best of the track `own` at every budget, and apviz's best next to it."""
    found = []
    for (data, n), own in of[of["track"] == "own"].groupby(["data", "n"], sort=False):
        by_budget: dict[float, Mapping[str, Any]] = {}
        for budget, task in own.groupby("budget"):
            done = finished(task)
            if done.empty:
                continue
            ours = done[done["entrant"].isin(OURS)]["nll"]
            best = done.loc[done["nll"].idxmin()]
            by_budget[float(budget)] = {
                "entrant": best["entrant"], "nll": best["nll"], "ours": float(ours.min()) if len(ours) else math.inf,
            }  # fmt: skip
        done = finished(own)
        found.append({
            "data": data, "n": n, "rows": int(own["rows"].iloc[0]), "inputs": int(own["inputs"].iloc[0]),
            "noise": float(done["rmse"].min() ** 2), "seeds": int(own["seeds"].max()), "best": by_budget,
        })  # fmt: skip
    return sorted(found, key=lambda row: (row["inputs"], row["data"], row["n"]))


def profile(of: pd.DataFrame) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return, for every entrant, gaps of NLL to the best of a task, sorted, and the share of tasks within each.

    The share is of all tasks, also those that an entrant did not finish or cannot take.
    """
    best = of.groupby(TASK)["nll"].transform("min")
    gaps, tasks = of.assign(gap=of["nll"] - best), len(of.groupby(TASK))
    curves = {}
    for entrant, own in gaps.groupby("entrant", sort=False):
        values = np.sort(own["gap"][np.isfinite(own["gap"])].to_numpy())
        curves[str(entrant)] = values, np.arange(1, len(values) + 1) / tasks
    return curves
