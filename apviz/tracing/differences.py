"""The settings of runs side by side, and those in which they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apviz.tracing.trace import Trace

#: attributes that are what came out, or are settings by another name
_NOT_SETTINGS: Final = frozenset({
    "status", "stop_reason", "stop_message", "residual", "epochs", "work", "seconds", "created", "schema_version",
    "setup_work", "setup_seconds", "initial_energy", "rhs_norms", "versions", "solver_settings", "training_settings",
    "choices", "hyperparameters", "stagnated_steps", "overlaps", "block_size", "overlap", "tol", "rule",
    "partition", "kind", "trace_id",
})  # fmt: skip


def settings(trace: Trace) -> dict[str, Any]:
    """Everything that was decided before a run: data, kernel, machine, versions, and each setting of the solver."""
    attrs = trace.attrs
    found = {name: value for name, value in attrs.items() if name not in _NOT_SETTINGS}
    # of a training the solver is one of its settings, written as one
    for name, prefix in (("training_settings", "training: "), ("solver_settings", ""), ("versions", "version of ")):
        values = _mapping(attrs.get(name))
        if values is None:
            found["solver"] = attrs.get(name)
        else:
            found |= {prefix + key.replace("_", " "): value for key, value in values.items()}
    return {name.replace("_", " "): value for name, value in found.items()}


def settings_table(traces: Sequence[Trace], *, only_differences: bool = False) -> dict[str, list[str]]:
    """The settings of each run as text, by setting; a dash where a run does not have it."""
    every = [settings(trace) for trace in traces]
    names = dict.fromkeys(name for each in every for name in each)
    rows = {name: [_text(each.get(name)) for each in every] for name in names}
    return {name: row for name, row in rows.items() if not only_differences or len(set(row)) > 1}


def _mapping(text: Any) -> Mapping[str, Any] | None:
    """What a JSON object holds; None for other text, nothing for none."""
    if text is None:
        return {}
    try:
        values = json.loads(text)
    except (ValueError, TypeError):
        return None
    return values if isinstance(values, dict) else None


def _text(value: Any) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
