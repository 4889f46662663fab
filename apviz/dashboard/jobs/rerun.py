"""A recorded run again, with one setting changed: what the button of a diagnosis does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from apviz.analysis.diagnosis import Diagnosis
from apviz.dashboard.settings.systems import SystemSpec, spec_of
from apviz.dashboard.settings.uploaded_file import Upload
from apviz.solvers import Automatic, Solver
from apviz.solvers.serialization import from_plain
from apviz.tracing import Trace


def solver_of(trace: Trace) -> Solver:
    """Solver of a recorded run.

    Raises:
        ValueError: one that apviz does not have.
    """
    try:
        solver = from_plain(json.loads(trace.attrs["solver_settings"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"this run was solved by {trace.label}, which cannot be run again here: {error}") from error
    assert solver is not None  # what was recorded names its class
    return solver


def rerun(trace: Trace, diagnosis: Diagnosis, find_upload: Callable[[str], Upload | None]) -> tuple[SystemSpec, Solver]:
    """System and solver of a run, with the change of its diagnosis.

    Raises:
        ValueError: the data or the solver is not at hand.
    """
    spec, change = spec_of(trace.attrs, find_upload), dict(diagnosis.change)
    for name in ("dtype", "noise"):
        if name in change:
            spec = replace(spec, **{name: change.pop(name)})
    if change.pop("solver", None) == "auto":
        return spec, Automatic(tol=float(trace.attrs["tol"]))
    return spec, replace(solver_of(trace), **change)
