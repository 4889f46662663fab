"""Opening a trace from disk, whatever it is of."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import xarray as xr

from apviz.tracing.schema import SCHEMA_VERSION, TRACE_ID, TRAINING
from apviz.tracing.trace import Trace
from apviz.tracing.training_trace import TrainingTrace


def open_trace(path: str | Path) -> Trace:
    """Opens a trace written by a `Recorder`, a `Training` or `Trace.save`; also of one that was killed or still runs.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: not a trace, one that has lost files, or one of a schema newer than this version of apviz reads.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"no trace at {path}")
    try:
        with xr.open_datatree(path, engine="zarr") as tree:
            loaded = tree.load()
    except Exception as error:
        raise ValueError(f"{path} does not open as a Zarr trace: {error}") from error
    if TRACE_ID in loaded.attrs and Path(path).is_dir():
        _require_every_chunk(Path(path))
    trace = TrainingTrace(loaded) if loaded.attrs.get("kind") == TRAINING else Trace(loaded)
    version = trace.attrs.get("schema_version")
    if not isinstance(version, int):
        raise ValueError(f"{path} is not an apviz trace: it has no schema_version")
    if version > SCHEMA_VERSION:
        raise ValueError(f"{path} has schema {version}, this apviz reads up to {SCHEMA_VERSION}; upgrade apviz")
    return trace


def _require_every_chunk(path: Path) -> None:
    """Zarr reads a chunk that is not there as NaN or zeros; apviz leaves none out, so one was lost.

    Raises:
        ValueError: which.
    """
    root = json.loads((path / "zarr.json").read_bytes())
    for name, node in ((root.get("consolidated_metadata") or {}).get("metadata") or {}).items():
        if node.get("node_type") != "array":
            continue
        chunks = node["chunk_grid"]["configuration"]["chunk_shape"]
        numbers = product(*(range(math.ceil(size / chunk)) for size, chunk in zip(node["shape"], chunks, strict=True)))
        for place in ("/".join(["c", *map(str, number)]) for number in numbers):
            if not (path / name / place).is_file():
                raise ValueError(f"{path} has lost {name}/{place}, a part of its numbers; take it from a copy")
