"""What the advice on models is learned from, and how good it is on a data set that it has not seen."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from apviz.advice.models import OF_THE_MEAN, RESULTS, Judged, expected
from apviz.files import file_made_whole
from benchmarks.machine import keep
from benchmarks.referee.entrants import ENTRANTS
from benchmarks.referee.results import cells
from benchmarks.referee.tables import TASK, complete, medians, tabulate

#: entrants that take a few inputs only
MOST_INPUTS = {"Fourier (EFGP), apviz": 3, "KISS-GP, GPyTorch": 3}
#: share of the gain over predicting the mean that good advice may lose
GOOD = 0.1


def models() -> dict[str, dict[str, Any]]:
    """Return what each model needs."""
    return {
        name: {"package": package, "most_inputs": MOST_INPUTS.get(name)} for name, (*_, package) in ENTRANTS.items()
    }


def judged(folder: Path) -> list[Judged]:
    """Return the medians over seeds of all tasks of the track `own` for which every entrant was measured."""
    table = complete(medians(tabulate(cells(folder))), ENTRANTS)
    found = []
    table = table.drop_duplicates(["data", "rows", "budget", "track", "entrant"])  # a set with fewer rows than asked
    for _, of in table[table["track"] == "own"].groupby(TASK, sort=True):
        applies = of[~of["outcome"].str.startswith("does not apply")].set_index("entrant")
        done, first = applies[np.isfinite(applies["nll"])], of.iloc[0]
        nll = {name: float(f"{value:.4g}") if math.isfinite(value) else None for name, value in applies["nll"].items()}
        found.append(
            Judged(
                str(first["data"]), int(first["rows"]), int(first["inputs"]), float(first["budget"]),
                nll,
                {name: float(f"{value:.3g}") for name, value in done["seconds"].items()},
                {name: float(f"{value * 2**20:.3g}") for name, value in done["memory"].items()},
            )
        )  # fmt: skip
    return found


def left_out(found: list[Judged]) -> pd.DataFrame:
    """Return how good the advice is on each task, learned from the other data sets alone."""
    rows = []
    for task in found:
        others = [each for each in found if each.data != task.data]
        ordered, _ = expected(others, task.n, task.d, task.budget, models())
        losses, best = task.losses(), ordered[0]
        finished = [value for value in task.nll.values() if value is not None]
        rows.append({
            "data": task.data, "n": task.n, "d": task.d, "budget": task.budget, "advised": best.name,
            "expected loss": round(best.loss, 4), "loss": round(losses.get(best.name, 1.0), 4),
            "best": min(losses, key=lambda name: losses[name]),
            "gain": round(OF_THE_MEAN - min(finished), 4) if finished else 0.0,
            "exact": round(losses.get("exact, apviz", 1.0), 4),
        })  # fmt: skip
    return pd.DataFrame(rows)


def write(folder: Path) -> str:
    """Write the results into the package and how good the advice is, and return that in words."""
    found = judged(folder)
    lines = ",\n".join(f"  {json.dumps(each._asdict(), ensure_ascii=False, allow_nan=False)}" for each in found)
    about = ",\n".join(
        f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(each)}" for name, each in models().items()
    )
    with file_made_whole(RESULTS) as file:
        file.write(f'{{\n "models": {{\n{about}\n }},\n "judged": [\n{lines}\n ]\n}}\n'.encode())
    table = left_out(found)
    good = float((table["loss"] <= GOOD).mean())
    keep("model_advice", {"good": round(good, 3), "tasks": table.to_dict("records")}, show=False)
    return (
        f"{good:.0%} of {len(table)} tasks of {table['data'].nunique()} data sets within {GOOD:.0%} of the best gain, "
        f"median loss {table['loss'].median():.3f}; always the exact one: {(table['exact'] <= GOOD).mean():.0%}"
    )
