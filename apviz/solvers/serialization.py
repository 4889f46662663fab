"""A solver's settings as plain values that JSON knows, and back: only classes on a list are ever made."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

import numpy as np

from apviz import partitions, rules
from apviz.preconditioners import PivotedCholesky, RandomlyPivotedCholesky, TwoLevelSchwarz
from apviz.settings import require_whole
from apviz.solvers import AlternatingProjection, Automatic, Cholesky, ConjugateGradient, Solver

#: what may stand where; a field of this name may hold one of these
CLASSES: dict[str, tuple[type, ...]] = {
    "solver": (AlternatingProjection, Automatic, Cholesky, ConjugateGradient),
    "preconditioner": (PivotedCholesky, RandomlyPivotedCholesky, TwoLevelSchwarz),
    "rule": (rules.GaussSouthwell, rules.Cyclic, rules.Random, rules.Shuffled),
    "partition": (
        partitions.Sequential, partitions.Shuffled, partitions.KDTree, partitions.PrincipalAxisTree,
    ),
}  # fmt: skip
# these are objects or nothing; a rule or a partition may also be a name
NEVER_PLAIN = ("solver", "preconditioner")


def to_plain(solver: Solver | None) -> Any:
    """The settings as a dictionary of plain values with the class under `type`; None stays None.

    Raises:
        ValueError: a solver, or a part of one, that is not apviz's own.
    """
    return _to_plain("solver", solver)


def from_plain(plain: Any) -> Solver | None:
    """The solver of a dictionary from `to_plain`, its settings checked as if a user had given them.

    Raises:
        ValueError, TypeError: a class that is not on the list, or a setting it does not take.
    """
    solver: Solver | None = _from_plain("solver", plain)
    return solver


def from_repr(text: str) -> Solver:
    """The solver of a `repr`, as the trace of a training has it, checked like `from_plain`; nothing is evaluated.

    Raises:
        ValueError: not the repr of a solver of apviz; a setting out of range.
    """
    try:
        found = from_plain(_call(ast.parse(text, mode="eval").body))
    except (SyntaxError, TypeError) as error:
        raise ValueError(f"{text:.80} is no solver of apviz: {error}") from error
    if found is None:
        raise ValueError(f"{text:.80} is no solver of apviz")
    return found


def _call(node: ast.expr) -> Any:
    """`Name(key=value, ...)` as `to_plain` writes it; any other value as a literal."""
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    if not isinstance(node.func, ast.Name) or node.args or not all(each.arg for each in node.keywords):
        raise ValueError(f"{ast.unparse(node):.80} is not the repr of a class of apviz")
    return {"type": node.func.id} | {str(each.arg): _call(each.value) for each in node.keywords}


def _to_plain(role: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float):
        return value
    known = CLASSES.get(role, ())
    if type(value) not in known:
        names = ", ".join(kind.__name__ for kind in known)
        raise ValueError(f"{role} = {value!r} cannot be saved; those that can are {names}")
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"type": type(value).__name__} | {name: _to_plain(name, field) for name, field in fields.items()}


def _from_plain(role: str, plain: Any) -> Any:
    if not isinstance(plain, dict):
        if role in NEVER_PLAIN and plain is not None:
            raise ValueError(f"{role} must be a dictionary of settings or null, got {plain!r:.80}")
        return plain
    known = {kind.__name__: kind for kind in CLASSES.get(role, ())}
    settings = dict(plain)
    name = settings.pop("type", None)
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{role} must be one of {', '.join(known) or 'the plain values'}, got {name!r:.80}")
    taken = {field.name for field in dataclasses.fields(known[name])}
    unknown = sorted(set(settings) - taken)
    if unknown:
        raise ValueError(f"{name} has no setting {unknown[0]!r:.80}")
    if "seed" in settings:  # rules and partitions do not check theirs
        require_whole("seed", settings["seed"], 0)
    return known[name](**{key: _from_plain(key, value) for key, value in settings.items()})
