"""Number all systems of a seed, diagnose each, and solve each again with its trouble removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

import apviz
from apviz.cluster import Cluster, Here, Task
from benchmarks.causes import drawn, models
from benchmarks.causes.systems import CASES, HEALTHY, Case

AnyCase = Case | models.ModelCase | models.TrainingCase

#: most work of a solve with nothing wrong, and the largest share of the mean's test error that it leaves
HEALTHY_WORK, HEALTHY_RMSE_SHARE = 25.0, 0.75


def count() -> int:
    """Return the number of systems."""
    return len(CASES) + len(drawn.MAKERS) + len(models.MAKERS)


def case_of(number: int, seed: int) -> AnyCase:
    """Return the system of this number, drawn by the seed."""
    if number < len(CASES):
        return CASES[number]
    rng = np.random.default_rng([seed, number])
    return (*drawn.MAKERS, *models.MAKERS)[number - len(CASES)](rng)


def tried(numbers: Iterable[int], seed: int, place: Here | Cluster | None = None) -> list[dict[str, Any]]:
    """Diagnose systems and solve them with their trouble removed; print each result when it ends."""
    tasks = [Task(str(number), partial(tried_one, number, seed)) for number in numbers]
    rows = {}
    for done in (place or Here()).run(tasks):
        if done.error:
            raise RuntimeError(f"system {done.task.name}: {done.error}")
        assert done.result is not None
        row = rows[int(done.task.name)] = done.result
        mark = "  " if row["said"] == row["cause"] else "!!"
        doubt = "" if row.get("undone is healthy", True) else f"\n      ?? not healthy: {row['undone']}"
        print(
            f"{mark} {done.task.name:>3} {row['cause']:14} {row['said']:14} {row['why']}: {row.get('outcome', '')}"
            f"\n      {row['evidence']} | {row['advice']}{doubt}",
            flush=True,
        )
    return [rows[number] for number in sorted(rows)]


def tried_one(number: int, seed: int, out: object = None, hooks: object = (), shared: object = None) -> dict[str, Any]:
    """Diagnose one system, in this process or on a worker."""
    torch.set_num_threads(1)
    case = case_of(number, seed)
    if not isinstance(case, Case):
        return _row(case, case.diagnosed())
    found, trace = case.diagnosed(seed)
    end = ended(trace)
    undone = ended(case.healed().diagnosed(seed)[1]) if case.undone else end
    method = {"method": trace.method_name, "n": trace.attrs["n"]}
    return _row(case, found) | method | end | {"undone": undone, "undone is healthy": is_healthy(undone)}


def _row(case: AnyCase, found: apviz.analysis.Diagnosis) -> dict[str, Any]:
    return {
        "cause": case.cause, "said": found.limit.name, "why": case.why, "evidence": found.evidence,
        "advice": found.advice,
    }  # fmt: skip


def ended(trace: apviz.Trace) -> dict[str, Any]:
    """Return how a solve ended, by its trace alone."""
    last, rmse = trace["epoch"].isel(epoch=-1), trace["epoch"]["test_rmse"].values
    return {
        "outcome": trace.outcome, "work": round(float(last["work"]), 2), "epochs": int(last["epoch"]),
        "residual": float(f"{float(last['residual']):.3g}"), "test RMSE": round(float(rmse[-1]), 3),
        "of the mean": round(float(rmse[0]), 3),
    }  # fmt: skip


def is_healthy(end: Mapping[str, Any]) -> bool:
    """Test whether a solve converged in little work and predicts, as a construction must."""
    quick = end["outcome"] == "converged" and end["work"] <= HEALTHY_WORK
    return bool(quick and end["test RMSE"] <= HEALTHY_RMSE_SHARE * end["of the mean"])


def counted(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Count the correctly named causes, and the false alarms on healthy systems."""
    wrong = [row for row in rows if row["cause"] != HEALTHY]
    return {
        "causes": len(wrong),
        "right": sum(row["said"] == row["cause"] for row in wrong),
        "healthy": len(rows) - len(wrong),
        "false alarms": sum(row["cause"] == HEALTHY != row["said"] for row in rows),
        "healthy when undone": sum(row.get("undone is healthy", False) for row in rows),
    }
