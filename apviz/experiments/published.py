"""Published results (Wu et al., AISTATS 2024): numbers as printed in the paper, and the authors' trainings by step.

The tables are in `published.csv`, where `–` marks numbers that the paper does not give. Other marks are the paper's,
explained in `FOOTNOTES`.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from apviz import datasets
from apviz.datasets import DatasetUnavailable, PublishedRun
from apviz.experiments.base import Row, duration, grouped, spread
from apviz.method import Method
from apviz.methods import ALTERNATING_PROJECTION, CONJUGATE_GRADIENT
from apviz.tracing.schema import FINISHED, SCHEMA_VERSION
from apviz.tracing.schema import TRAINING as TRAINING_KIND
from apviz.tracing.store import Record
from apviz.tracing.trace import Trace

# --- numbers as printed -----------------------------------------------------------------------------------------------

#: Data sets of the paper, in its order.
DATASETS: Final = ("sgemm", "airquality", "3droad", "song", "buzz", "houseelectric", "gassensors")

CG: Final = "CG"
AP: Final = "AP"
SVGP: Final = "SVGP"

FOOTNOTES: Final = {
    "*": "CG did not reach the tolerance 0.01 within 4,000 iterations on some checkpoints",
    "†": "variance by 500 Lanczos iterations only",
    "‡": "on an A100",
}


@dataclass(frozen=True)
class Trained:
    """Row of a table of trainings, or of predictive means, whose NLL is `–`.

    Solves are CG's iterations or AP's epochs.
    """

    rmse: str = "–"
    nll: str = "–"
    solves: str = "–"
    time: str = "–"
    speed_up: str = "–"


def _printed(table: str) -> dict[str, dict[str, Trained]]:
    """Read a table of `published.csv`: data set → method."""
    found: dict[str, dict[str, Trained]] = {}
    with Path(__file__).with_name("published.csv").open(encoding="utf-8") as lines:
        for of, dataset, method, *numbers in csv.reader(lines):
            if of == table:
                found.setdefault(dataset, {})[method] = Trained(*numbers)
    return found


#: Table 1, and the appendix's table for Matérn-3/2: kernel → data set → method.
TRAINING: Final = {kernel: _printed(kernel) for kernel in ("matern52", "matern32")}
#: Table 2: data set → method. The times and the speed-ups of sgemm do not agree in the paper; as printed.
PREDICTIVE_MEAN: Final = _printed("predictive mean")
#: Table 4, house electric: noise floor → method.
NOISE_FLOOR_DATASET: Final = "houseelectric"
NOISE_FLOOR: Final = {
    0.1: _printed("noise floor")[NOISE_FLOOR_DATASET],
    1e-4: {AP: TRAINING["matern52"][NOISE_FLOOR_DATASET][AP]},
}


# --- trainings step by step -------------------------------------------------------------------------------------------

#: Data sets with published steps (Matérn-5/2), and the seeds they were published for.
SEEDS: Final = {"sgemm": 0, "airquality": 0, "3droad": 0, "houseelectric": 3}
#: Our names of methods, and theirs.
METHODS: Final = {AP: "altproj", CG: "cg"}
#: Start of GPyTorch, with raw parameters at zero: softplus(0) above the floor.
FIRST_NOISE: Final = math.log(2.0) + 1e-4
#: Published methods in the notation of ours.
METHOD_OF: Final = {
    AP: Method(family=ALTERNATING_PROJECTION, rule="gauss-southwell", partition="sequential", source="published"),
    CG: Method(family=CONJUGATE_GRADIENT, preconditioner="pivoted-cholesky", source="published"),
}


def training_of(name: str, method: str) -> tuple[PublishedRun, ...]:
    """Return the published steps of a training; empty if there are none, or their file is missing."""
    if name not in SEEDS or method not in METHODS:
        return ()
    try:
        return datasets.published_training(name, method=METHODS[method], seed=SEEDS[name])
    except DatasetUnavailable:
        return ()


def full_rows(name: str) -> int:
    """Return the number of training rows in published runs, which use all."""
    return datasets.train_size(datasets.card(name).n)


def published_traces(name: str) -> list[Trace]:
    """Return the published trainings on a data set, alternating projection first; empty if their file is missing."""
    return [trace for method in METHOD_OF if (trace := published_trace(name, method)) is not None]


def published_trace(name: str, method: str) -> Trace | None:
    """Return one published training, as far as it was recorded; None if there is none, or its file is missing.

    Args:
        method: `AP` or `CG`.
    """
    runs = training_of(name, method)
    if not runs:
        return None
    count, nan = len(runs), [math.nan] * len(runs)
    record = Record(
        {
            "schema_version": SCHEMA_VERSION, "kind": TRAINING_KIND, "status": FINISHED, "dataset": name,
            "n": full_rows(name), "d": datasets.card(name).d, "kernel": runs[0].kernel,
            "method": METHOD_OF[method].plain(), "method_name": METHOD_OF[method].name,
            "method_details": METHOD_OF[method].details,
            "training_settings": json.dumps({"steps": count, "step_size": 0.1, "probes": 15, "noise_floor": 1e-4}),
            "dtype": "float32",
        }
    )  # fmt: skip
    last = [run.residual_trace[-1] for run in runs]
    record.put(
        step={
            "step": range(1, count + 1),
            # a record has the hyperparameters after its step, a trace those used in the step's solve
            "noise": [FIRST_NOISE, *(run.noise for run in runs[:-1])],
            "epochs": [len(run.residual_trace) for run in runs],
            "residual": last,
            "converged": [value < 1.0 for value in last],
            "work": nan,
            "seconds": nan,
            "kappa": nan,
            "kappa_prime": nan,
            "gain": nan,
            "negative_log_likelihood": nan,
        }
    )
    return record.to_trace()


# --- in a table, next to ours -----------------------------------------------------------------------------------------

#: Headings of columns by the field of `Trained` shown next to them.
COLUMNS: Final = {
    "rmse": "test RMSE", "nll": "test NLL", "solves": "CG iterations or AP epochs", "time": "time",
    "speed_up": "speed-up over CG",
}  # fmt: skip
#: Heading of the paper's column, next to ours.
PAPER: Final = "paper"
#: Footnote as in the paper's Table 1.
UNCONVERGED: Final = "*: by solves that did not reach their tolerance."


def comparison_headings(columns: Sequence[str]) -> list[str]:
    """Return the headings of columns, with the paper's after each."""
    return [heading for name in columns for heading in (COLUMNS[name], PAPER)]


def comparison_cells(rows: Sequence[Row], cg: Sequence[Row], printed: Trained, columns: Sequence[str]) -> list[str]:
    """Return the cells of one method over its seeds, alternating between ours and the paper's.

    Rows, and those of CG, have `rmse`, `nll`, `epochs` (None if nothing was solved), `seconds`, `mean_converged`, and
    `converged`, which is about the counted and timed solves.
    """
    counted = [row["epochs"] for row in rows if row["epochs"] is not None]
    star = "" if all(row["converged"] for row in rows) else "*"
    seconds = fmean(row["seconds"] for row in rows)
    compared = cg and counted and rows != cg
    ours = {
        "rmse": spread([row["rmse"] for row in rows]) + ("" if all(row["mean_converged"] for row in rows) else "*"),
        "nll": spread([row["nll"] for row in rows if "nll" in row]),
        "solves": spread(counted, 0) + star,
        "time": duration(seconds) + star,
        "speed_up": f"{fmean(row['seconds'] for row in cg) / seconds:.1f}×" if compared else "–",
    }
    return [cell for name in columns for cell in (ours[name], getattr(printed, name))]


def comparison_rows(
    rows: Iterable[Row], printed: Mapping[str, Mapping[str, Trained]], columns: Sequence[str]
) -> list[list[str]]:
    """Return the rows of a table, of every data set and method, next to the paper's."""
    body = []
    for name, own in grouped(rows, "dataset").items():
        by_method = grouped(own, "method")
        for method, done in by_method.items():
            theirs = printed.get(name, {}).get(method, Trained())
            body.append([done[0]["data"], method, *comparison_cells(done, by_method.get(CG, []), theirs, columns)])
    return body


def footnotes(cells: Sequence[Sequence[str]]) -> str:
    """Return the meanings of the marks in a table's cells, ours and the paper's."""
    used = "".join(cell for row in cells for cell in row)
    notes = [UNCONVERGED] if "*" in used else []
    notes += [f"{mark}: {text}." for mark, text in FOOTNOTES.items() if mark in used and mark != "*"]
    return " ".join(notes)
