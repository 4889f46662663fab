"""Serialization: convert a solver's settings to plain JSON values and back; only registered classes are created."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from apviz.partitions import PARTITIONS
from apviz.preconditioners import PRECONDITIONERS
from apviz.registry import Registry
from apviz.rules import RULES
from apviz.settings import require_seed
from apviz.solvers.columns import COLUMNS
from apviz.solvers.interface import SOLVERS, Solver
from apviz.solvers.precision import PRECISIONS
from apviz.solvers.steps import STEPS

#: registry of the objects that a setting of this name may hold
_ROLES: Final[dict[str, Registry[Any]]] = {
    "solver": SOLVERS, "preconditioner": PRECONDITIONERS, "rule": RULES, "partition": PARTITIONS, "step": STEPS,
    "columns": COLUMNS, "precision": PRECISIONS,
}  # fmt: skip
# these are objects or None; a rule or a partition may also be a name
_NEVER_PLAIN: Final = ("solver", "preconditioner")


def to_plain(solver: Solver | None, *, strict: bool = True) -> Any:
    """Convert the settings to a dictionary of plain values with the class under `type`; None stays None.

    Args:
        solver: the solver.
        strict: whether to reject unregistered objects; if not, they are written as their repr, which cannot be read
            back.

    Raises:
        ValueError: the solver, or a part of it, is not registered.
    """
    return _to_plain("solver", solver, strict)


def from_plain(plain: Any) -> Solver | None:
    """Make the solver of a dictionary from `to_plain`, and check its settings like those of a user.

    Raises:
        ValueError, TypeError: a class that is not registered, or an unknown setting.
    """
    solver: Solver | None = _from_plain("solver", plain)
    return solver


def _to_plain(role: str, value: Any, strict: bool) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float):
        return value
    known = list(_ROLES[role].values()) if role in _ROLES else []
    if type(value) not in known and strict:
        names = ", ".join(kind.__name__ for kind in known)
        raise ValueError(f"{role} = {value!r} cannot be saved; those that can are {names}")
    if type(value) not in known and not (role == "solver" and dataclasses.is_dataclass(value)):
        return repr(value)
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"type": type(value).__name__} | {name: _to_plain(name, field, strict) for name, field in fields.items()}


def _from_plain(role: str, plain: Any) -> Any:
    if not isinstance(plain, Mapping):
        if role in _NEVER_PLAIN and plain is not None:
            raise ValueError(f"{role} must be a dictionary of settings or null, got {plain!r:.80}")
        return plain
    known = {kind.__name__: kind for kind in _ROLES[role].values()} if role in _ROLES else {}
    settings: dict[str, Any] = {str(name): value for name, value in plain.items()}
    name = settings.pop("type", None)
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{role} must be one of {', '.join(known) or 'the plain values'}, got {name!r:.80}")
    taken = {field.name for field in dataclasses.fields(known[name])}
    unknown = sorted(set(settings) - taken)
    if unknown:
        raise ValueError(f"{name} has no setting {unknown[0]!r:.80}")
    if "seed" in settings:  # rules and partitions do not check theirs
        require_seed(settings["seed"])
    return known[name](**{key: _from_plain(key, value) for key, value in settings.items()})
