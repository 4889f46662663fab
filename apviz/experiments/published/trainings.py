"""The authors' published trainings as traces, for the same charts as our own."""

from __future__ import annotations

import json
import math
from typing import Final

from apviz import datasets
from apviz.experiments.published import authors, paper
from apviz.tracing.record import Record
from apviz.tracing.schema import FINISHED, SCHEMA_VERSION, TRAINING
from apviz.tracing.trace import Trace

#: what GPyTorch starts from, raw parameters at zero: softplus(0) above the floor
FIRST_NOISE: Final = math.log(2.0) + 1e-4
#: as our own methods are called
LABELS: Final = {paper.AP: "AP gauss-southwell as published", paper.CG: "PCG as published"}


def published_traces(name: str) -> list[Trace]:
    """The published trainings on a data set, alternating projection first; none where their file is not here."""
    return [trace for method in LABELS if (trace := published_trace(name, method)) is not None]


def published_trace(name: str, method: str) -> Trace | None:
    """One published training, as far as it was recorded; None if there is none, or its file is not here.

    Args:
        method: `paper.AP` or `paper.CG`.
    """
    runs = authors.training_of(name, method)
    if not runs:
        return None
    count, nan = len(runs), [math.nan] * len(runs)
    record = Record(
        {
            "schema_version": SCHEMA_VERSION,
            "kind": TRAINING,
            "status": FINISHED,
            "dataset": name,
            "n": authors.full_rows(name),
            "d": datasets.card(name).d,
            "kernel": runs[0].kernel,
            "method": LABELS[method],
            "training_settings": json.dumps({"steps": count, "step_size": 0.1, "probes": 15, "noise_floor": 1e-4}),
            "dtype": "float32",
        }
    )
    last = [run.residual_trace[-1] for run in runs]
    record.put(
        step={
            "step": range(1, count + 1),
            # a record has the hyperparameters after its step, a trace those that the step's solve was done with
            "noise": [FIRST_NOISE, *(run.noise for run in runs[:-1])],
            "epochs": [len(run.residual_trace) for run in runs],
            "residual": last,
            "converged": [value < 1.0 for value in last],
            "work": nan,
            "seconds": nan,
            "kappa": nan,
            "kappa_prime": nan,
        }
    )
    return record.to_trace()
