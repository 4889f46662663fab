"""A recorded run again, with one setting changed: what the button of a diagnosis does."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from apviz import partitions, preconditioners, rules
from apviz.analysis.diagnosis import Diagnosis
from apviz.dashboard.settings.systems import SystemSpec, Upload, spec_of
from apviz.solvers import AlternatingProjection, Automatic, Cholesky, ConjugateGradient, Solver
from apviz.tracing import Trace

_SOLVERS = {solver.name: solver for solver in (AlternatingProjection, ConjugateGradient, Cholesky, Automatic)}
#: what a trace may name among the settings of a solver
_PARTS = {
    kind.__name__: kind
    for kind in (
        rules.GaussSouthwell, rules.Cyclic, rules.Random, rules.Shuffled, partitions.Sequential, partitions.Shuffled,
        partitions.KDTree, partitions.PrincipalAxisTree, preconditioners.PivotedCholesky,
        preconditioners.RandomlyPivotedCholesky, preconditioners.TwoLevelSchwarz,
    )
}  # fmt: skip


def solver_of(trace: Trace) -> Solver:
    """The solver of a recorded run.

    Raises:
        ValueError: one that apviz does not have.
    """
    name = trace.attrs.get("solver")
    if name not in _SOLVERS:
        raise ValueError(f"this run was solved by {name}, which cannot be run again here")
    settings = json.loads(trace.attrs["solver_settings"])
    return _SOLVERS[name](**{key: _part(value) for key, value in settings.items()})


def rerun(trace: Trace, diagnosis: Diagnosis, find_upload: Callable[[str], Upload | None]) -> tuple[SystemSpec, Solver]:
    """The system and the solver of a run, with the change of its diagnosis.

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


def _part(value: Any) -> Any:
    """A plain value, or the object that its repr names, if it is one of apviz's; nothing is evaluated."""
    if not isinstance(value, str) or "(" not in value:
        return value
    call = ast.parse(value, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in _PARTS:
        raise ValueError(f"{value} of this run is not one of apviz's own settings")
    settings = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
    return _PARTS[call.func.id](*map(ast.literal_eval, call.args), **settings)
