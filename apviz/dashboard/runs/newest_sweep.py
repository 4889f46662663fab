"""The newest sweep over one setting among the runs of a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from apviz.dashboard.runs.runs_folder import RunsFolder
from apviz.tracing.schema import TRAINING
from apviz.tracing.sweep import Over, method_of, system_of

#: of the newest runs in the folder, looked through
LOOKED_AT = 200


def newest_sweep(runs: RunsFolder, over: Over) -> list[str]:
    """The runs of the folder that make the newest sweep over a setting; none where there is none.

    That is every method with two values of the setting or more, on the system and with the cap of the newest of them,
    and of equal runs the last. Only root attributes are read: opening a trace takes ten times as long.
    """
    found: dict[str, dict[str, dict[float, str]]] = {}
    # from the oldest, so that of equal runs the last one stays
    for name in reversed(runs.names()[:LOOKED_AT]):
        attrs = _attributes(runs.path_of(name))
        if attrs.get("kind") == TRAINING or not isinstance(attrs.get(over), int | float):
            continue
        system = f"{system_of(attrs, over)} {_cap(attrs)}"
        # the newest system comes last
        found[system] = found.pop(system, {})
        found[system].setdefault(method_of(attrs, over), {})[attrs[over]] = name
    for methods in reversed(found.values()):
        sweeps = [values for values in methods.values() if len(values) > 1]
        if sweeps:
            return [name for values in sweeps for _, name in sorted(values.items())]
    return []


def _cap(attrs: dict[str, Any]) -> Any:
    """Of epochs or iterations: the runs of one sweep share it, and others seldom have the same."""
    settings = json.loads(attrs.get("solver_settings", "{}"))
    return settings.get("max_epochs", settings.get("max_iterations"))


def _attributes(path: Path) -> dict[str, Any]:
    """The root attributes of a trace; none where they cannot be read."""
    try:
        return dict(json.loads((path / "zarr.json").read_bytes())["attributes"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
