"""The diagnoses of apviz, from the files of a case alone."""

from __future__ import annotations

import contextlib
import json
import warnings
from pathlib import Path

import gpytorch

import apviz
from benchmarks.causes.corpus import model_of


def diagnose(folder: Path) -> str:
    """Return the name of a cause."""
    if json.loads((folder / "case.json").read_text("utf-8"))["kind"] != "model":
        others = [apviz.open_trace(path) for path in sorted(folder.glob("other-*.zarr"))]
        return apviz.diagnose(apviz.open_trace(folder / "trace.zarr"), others).limit.name
    model, about, z = model_of(folder)
    fast = gpytorch.settings.fast_pred_var() if about["fast_variances"] else contextlib.nullcontext()
    with warnings.catch_warnings(), fast:
        warnings.simplefilter("ignore")
        return apviz.gpytorch.diagnose(model, test_inputs=z, losses=about["losses"]).limit.name
