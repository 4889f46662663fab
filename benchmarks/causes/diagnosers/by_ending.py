"""A baseline: what a solver says at its end, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

SAID = {"max_epochs": "CAP", "stagnated": "PRECISION", "diverged": "PRECISION", "stopped": "INTERRUPTED"}


def diagnose(folder: Path) -> str:
    """Return the name of a cause: from the stop reason of a solve, without anything of apviz."""
    if json.loads((folder / "case.json").read_text("utf-8"))["kind"] == "model":
        return "NOTHING"
    attrs = json.loads((folder / "trace.zarr" / "zarr.json").read_text("utf-8"))["attributes"]
    if attrs["status"] != "finished":
        return "INTERRUPTED"
    return SAID.get(attrs["stop_reason"], "NOTHING")
