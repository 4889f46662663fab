"""Opening a trace from disk, whatever it is of."""

from __future__ import annotations

from pathlib import Path

import xarray as xr

from apviz.tracing.schema import SCHEMA_VERSION, TRAINING
from apviz.tracing.trace import Trace
from apviz.tracing.training_trace import TrainingTrace


def open_trace(path: str | Path) -> Trace:
    """Opens a trace written by a `Recorder`, a `Training` or `Trace.save`; also of one that was killed or still runs.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: not a trace, or one of a schema newer than this version of apviz reads.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"no trace at {path}")
    try:
        with xr.open_datatree(path, engine="zarr") as tree:
            loaded = tree.load()
    except Exception as error:
        raise ValueError(f"{path} does not open as a Zarr trace: {error}") from error
    trace = TrainingTrace(loaded) if loaded.attrs.get("kind") == TRAINING else Trace(loaded)
    version = trace.attrs.get("schema_version")
    if not isinstance(version, int):
        raise ValueError(f"{path} is not an apviz trace: it has no schema_version")
    if version > SCHEMA_VERSION:
        raise ValueError(f"{path} has schema {version}, this apviz reads up to {SCHEMA_VERSION}; upgrade apviz")
    return trace
