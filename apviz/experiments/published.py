"""Published results (Wu et al., AISTATS 2024): numbers as printed in the paper, and the authors' trainings by step.

In the tables `–` marks numbers that the paper does not give. Other marks are the paper's, explained in `FOOTNOTES`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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


#: Table 1, and the appendix's table for Matérn-3/2: kernel → data set → method.
TRAINING: Final[dict[str, dict[str, dict[str, Trained]]]] = {
    "matern52": {
        "sgemm": {
            CG: Trained("0.048 ± 0.000", "-1.037 ± 0.001", "551 ± 1", "9.1 min ± 0.0"),
            AP: Trained("0.046 ± 0.000", "-0.999 ± 0.001", "550 ± 0", "12.2 min ± 0.2", "0.7×"),
            SVGP: Trained("0.086 ± 0.000", "-0.934 ± 0.003", time="14.8 min ± 0.1"),
        },
        "airquality": {
            CG: Trained("0.261 ± 0.001", "0.143 ± 0.004", "2965 ± 19", "33.5 min ± 1.5"),
            AP: Trained("0.262 ± 0.001", "0.137 ± 0.003", "550 ± 0", "16.9 min ± 0.5", "2.0×"),
            SVGP: Trained("0.363 ± 0.003", "0.399 ± 0.006", time="23.4 min ± 0.1"),
        },
        "3droad": {
            CG: Trained("0.069 ± 0.000", "1.324 ± 0.002", "5128 ± 114", "53.2 min ± 2.8"),
            AP: Trained("0.076 ± 0.000", "1.203 ± 0.001", "676 ± 1", "21.1 min ± 0.5", "2.5×"),
            SVGP: Trained("0.327 ± 0.002", "0.320 ± 0.005", time="26.1 min ± 0.1"),
        },
        "song": {
            CG: Trained("0.747 ± 0.002", "1.140 ± 0.003", "4431 ± 110", "13.8 h ± 0.8"),
            AP: Trained("0.749 ± 0.002", "1.132 ± 0.002", "550 ± 0", "2.7 h ± 0.1", "5.1×"),
            SVGP: Trained("0.790 ± 0.002", "1.184 ± 0.002", time="0.5 h ± 0.0"),
        },
        "buzz": {
            CG: Trained("0.321* ± 0.144", "0.669* ± 1.152", "16726 ± 2724", "31.1 h ± 5.4"),
            AP: Trained("0.239 ± 0.001", "0.018 ± 0.003", "550 ± 0", "2.0 h ± 0.1", "15.6×"),
            SVGP: Trained("0.259 ± 0.002", "0.066 ± 0.006", time="0.6 h ± 0.0"),
        },
        "houseelectric": {
            CG: Trained(solves="≥ 50441", time="≥ 11 d"),
            AP: Trained("0.030 ± 0.000", "-1.148 ± 0.001", "1100 ± 0", "9.8 h ± 0.4", "≥ 26.9×"),
            SVGP: Trained("0.050 ± 0.000", "-1.549 ± 0.001", time="2.1 h ± 0.0"),
        },
        "gassensors": {
            CG: Trained(),
            AP: Trained("0.203", "0.070†", "1100", "84.5 h"),
            SVGP: Trained("0.330 ± 0.001", "0.339 ± 0.003", time="8.7 h ± 0.03"),
        },
    },
    "matern32": {
        "sgemm": {
            CG: Trained("0.048 ± 0.000", "-1.071 ± 0.001", "550 ± 0", "8.9 min ± 0.2"),
            AP: Trained("0.048 ± 0.000", "-1.060 ± 0.001", "550 ± 0", "12.1 min ± 0.2", "0.7×"),
            SVGP: Trained("0.085 ± 0.000", "-0.932 ± 0.001", time="18.3 min ± 0.1"),
        },
        "airquality": {
            CG: Trained("0.227 ± 0.002", "0.131 ± 0.003", "1825 ± 26", "22.5 min ± 1.2"),
            AP: Trained("0.253 ± 0.001", "0.033 ± 0.002", "550 ± 0", "16.1 min ± 0.5", "1.4×"),
            SVGP: Trained("0.358 ± 0.002", "0.387 ± 0.005", time="28.8 min ± 0.1"),
        },
        "3droad": {
            CG: Trained("0.065 ± 0.001", "1.062 ± 0.003", "6086 ± 142", "44.4 min ± 2.2"),
            AP: Trained("0.069 ± 0.001", "0.896 ± 0.002", "572 ± 1", "16.5 min ± 0.3", "2.7×"),
            SVGP: Trained("0.319 ± 0.002", "0.294 ± 0.007", time="32.4 min ± 0.1"),
        },
        "song": {
            CG: Trained("0.743 ± 0.001", "1.135 ± 0.003", "4393 ± 159", "13.7 h ± 0.6"),
            AP: Trained("0.746 ± 0.002", "1.129 ± 0.002", "550 ± 0", "2.6 h ± 0.0", "5.3×"),
            SVGP: Trained("0.790 ± 0.002", "1.184 ± 0.002", time="0.6 h ± 0.0"),
        },
        "buzz": {
            CG: Trained("0.238 ± 0.000", "0.027 ± 0.002", "13608 ± 2299", "25.4 h ± 4.7"),
            AP: Trained("0.238 ± 0.001", "0.002 ± 0.004", "550 ± 0", "1.9 h ± 0.1", "13.4×"),
            SVGP: Trained("0.255 ± 0.002", "0.049 ± 0.009", time="0.7 h ± 0.0"),
        },
        "houseelectric": {
            CG: Trained(time="≥ 11 d"),
            AP: Trained("0.029 ± 0.000", "-1.321 ± 0.000", "1100 ± 0", "9.7 h ± 0.1", "≥ 27.2×"),
            SVGP: Trained("0.048 ± 0.000", "-1.580 ± 0.003", time="2.6 h ± 0.0"),
        },
        "gassensors": {
            CG: Trained(),
            AP: Trained("0.201", "0.245†", "1100", "42 h‡"),
            SVGP: Trained("0.311 ± 0.002", "0.286 ± 0.004", time="10.6 h ± 0.1"),
        },
    },
}

#: Table 2: data set → method. The times and the speed-ups of sgemm do not agree in the paper; as printed.
PREDICTIVE_MEAN: Final[dict[str, dict[str, Trained]]] = {
    "sgemm": {
        CG: Trained("0.046 ± 0.000", solves="95 ± 2", time="35.0 s ± 1.1"),
        AP: Trained("0.046 ± 0.000", solves="17 ± 0", time="13.5 s ± 0.3", speed_up="0.4×"),
    },
    "airquality": {
        CG: Trained("0.256 ± 0.001", solves="374 ± 33", time="2.8 s ± 0.3"),
        AP: Trained("0.256 ± 0.001", solves="388 ± 85", time="3.6 s ± 0.8", speed_up="0.7×"),
    },
    "3droad": {
        CG: Trained("0.076 ± 0.000", solves="1586 ± 31", time="5.8 min ± 0.4"),
        AP: Trained("0.076 ± 0.000", solves="1720 ± 79", time="9.6 min ± 0.6", speed_up="0.6×"),
    },
    "song": {
        CG: Trained("0.749 ± 0.002", solves="211 ± 7", time="38.1 min ± 0.7"),
        AP: Trained("0.749 ± 0.001", solves="86 ± 6", time="16.4 min ± 1.0", speed_up="2.3×"),
    },
    "buzz": {
        CG: Trained("0.241 ± 0.001", solves="579 ± 72", time="1.2 h ± 0.6"),
        AP: Trained("0.239 ± 0.001", solves="41 ± 10", time="4.4 min ± 1.2", speed_up="17.2×"),
    },
    "houseelectric": {
        CG: Trained("0.032 ± 0.000", solves="2111 ± 375", time="5.6 h ± 0.6"),
        AP: Trained("0.030 ± 0.000", solves="24 ± 0", time="4.7 min ± 0.2", speed_up="72.3×"),
    },
    "gassensors": {
        CG: Trained("0.203", solves="560", time="16.1 h"),
        AP: Trained("0.203", solves="13", time="27.7 min", speed_up="34.9×"),
    },
}

#: Table 4, house electric: noise floor → method.
NOISE_FLOOR_DATASET: Final = "houseelectric"
NOISE_FLOOR: Final[dict[float, dict[str, Trained]]] = {
    0.1: {
        CG: Trained("0.050 ± 0.000", "-0.196 ± 0.000", "1200 ± 8", "9.6 h ± 0.6"),
        AP: Trained("0.053 ± 0.000", "-0.197 ± 0.000", "1100 ± 0", "9.8 h ± 0.4"),
    },
    1e-4: {AP: TRAINING["matern52"]["houseelectric"][AP]},
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
