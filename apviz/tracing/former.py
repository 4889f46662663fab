"""Traces of schema 1, brought up to what later ones say: the method as data, settings as plain values."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any, Final

from apviz.method import Method
from apviz.methods import ALTERNATING_PROJECTION, CHOLESKY, CONJUGATE_GRADIENT
from apviz.settings import FORMER_NAMES

_FAMILIES: Final = {
    "AlternatingProjection": ALTERNATING_PROJECTION, "ConjugateGradient": CONJUGATE_GRADIENT, "Cholesky": CHOLESKY,
    "Automatic": "automatic", "linear_cg": CONJUGATE_GRADIENT,
}  # fmt: skip
#: of classes, by which solvers name them now
_NAMES: Final = {
    "GaussSouthwell": "gauss-southwell", "Cyclic": "cyclic", "Random": "random", "Shuffled": "shuffled",
    "Sequential": "sequential", "KDTree": "kd-tree", "PrincipalAxisTree": "principal-axis-tree",
    "PivotedCholesky": "pivoted-cholesky", "RandomlyPivotedCholesky": "randomly-pivoted-cholesky",
    "TwoLevelSchwarz": "two-level-schwarz",
}  # fmt: skip
#: root attributes that are parts of the method
_PARTS: Final = ("rule", "partition", "block_size", "overlap")


def brought_up(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Translates the root attributes of a trace of schema 1 to those of schema 2.

    Raises:
        ValueError: they are not those of a trace.
    """
    try:
        label, text = attrs["method"], attrs.get("solver_settings", "{}")
        plain = plain_of(text) if text.endswith(")") else _of_fields(str(attrs.get("solver", "")), json.loads(text))
        method = _method(plain, attrs)
    except (KeyError, TypeError, AttributeError, ValueError, SyntaxError) as error:
        raise ValueError(f"its method or the settings of its solver cannot be read: {error}") from error
    kept = {name: value for name, value in attrs.items() if name not in _PARTS and name != "overlaps"}
    settings = {"solver_settings": json.dumps(plain)} if "solver_settings" in attrs else {}
    return kept | {"schema_version": 2, "label": label, "method": method.plain()} | settings


def plain_of(text: str) -> Any:
    """Parses the `repr` of settings, such as `Cholesky(tol=0.01)`, to plain values with the class under `type`.

    Raises:
        ValueError, SyntaxError: it is not the repr of settings.
    """
    return _plain(ast.parse(text, mode="eval").body)


def _plain(node: ast.expr) -> Any:
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    if not isinstance(node.func, ast.Name) or node.args or not all(each.arg for each in node.keywords):
        raise ValueError(f"{ast.unparse(node):.80} is not the repr of settings")
    values = {str(each.arg): _plain(each.value) for each in node.keywords}
    return {"type": node.func.id} | {FORMER_NAMES.get(name, name): value for name, value in values.items()}


def _of_fields(solver: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a solve, whose parts that are objects were written by their repr."""
    values = {name: plain_of(v) if isinstance(v, str) and v.endswith(")") else v for name, v in fields.items()}
    return {"type": solver} | {FORMER_NAMES.get(name, name): value for name, value in values.items()}


def _method(plain: Mapping[str, Any], attrs: Mapping[str, Any]) -> Method:
    kind = str(plain.get("type", ""))
    family = _FAMILIES.get(kind, kind)
    if family == ALTERNATING_PROJECTION:
        numbers = {name: plain.get(name, 0) for name in ("block_size", "overlap", "history", "coarse_rank")}
        rule = attrs.get("rule") or _name(plain.get("rule"))
        partition = attrs.get("partition") or _name(plain.get("partition"))
        return Method(family=family, rule=rule, partition=_NAMES.get(str(partition), partition), **numbers)
    if kind == "linear_cg":
        name = "pivoted-cholesky" if plain.get("preconditioned") else None
        return Method(family=family, preconditioner=name, source="gpytorch")
    inner = plain.get("preconditioner")
    if not isinstance(inner, Mapping):
        return Method(family=family)
    return Method(
        family=family, preconditioner=_name(inner), rank=inner.get("rank"), block_size=inner.get("block_size"),
        overlap=inner.get("overlap"), coarse_rank=inner.get("coarse_rank"), partition=_name(inner.get("partition")),
        coarse="galerkin" if inner.get("coarse") == "galerkin" else None,
    )  # fmt: skip


def _name(part: Any) -> str | None:
    if not isinstance(part, Mapping):
        return part if part is None else str(part)
    name = str(part.get("type"))
    last = " (short block last)" if part.get("short_block") == "end-of-epoch" else ""
    return _NAMES.get(name, name) + last
