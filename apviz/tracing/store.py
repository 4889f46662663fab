"""The Zarr v3 directory of a trace, appended to while the solve runs; a kill at any moment leaves one that opens.

Readers take the shapes of all arrays from the consolidated metadata in the root's `zarr.json`. That file is written
last and replaced in one atomic rename, with the root attributes in it: whatever a kill interrupts, it describes
the last complete flush.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from apviz.tracing.record import Key, Record, grows, variable_of

CHUNK_ROWS = 4096


class TraceStore:
    """Mirrors a `Record` in a directory that does not exist yet; nothing is written before the first `flush`.

    Raises:
        FileExistsError: something is there already.
    """

    def __init__(self, path: Path, record: Record) -> None:
        if path.exists():
            raise FileExistsError(f"{path} exists; choose another path, for a trace is never overwritten")
        self.path, self.record = path, record
        self._written: dict[Key, np.ndarray] = {}
        self._arrays: dict[Key, Any] = {}
        self._root: zarr.Group | None = None

    def flush(self) -> None:
        """Writes what was recorded since the last flush.

        Raises:
            OSError: the disk is full or gone; the trace on disk stays as of the last flush, nothing is lost in
                memory, and the next flush tries again.
        """
        if self._root is None:
            self._create()
        self._write(self.path)

    def _create(self) -> None:
        """Built beside its place and moved there whole: a half-made trace is never seen."""
        making = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        # an interrupt right after the move finds the trace in its place, made by this store
        if making.exists() or not self.path.exists():
            making.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._root = zarr.create_group(str(making), zarr_format=3, overwrite=True)
                self._write(making)
                making.rename(self.path)
            except BaseException:
                self._root = None
                self._arrays, self._written = {}, {}
                shutil.rmtree(making, ignore_errors=True)
                raise
        root = zarr.open_group(str(self.path), mode="r+", use_consolidated=False)
        self._arrays = {(group, name): root[f"{group}/{name}"] for group, name in self._arrays}
        self._root = root

    def _write(self, place: Path) -> None:
        for key, value in self.record.values().items():
            before = self._written.get(key)
            if before is not None and (value is before or np.array_equal(value, before, equal_nan=True)):
                continue
            array = self._array(key, value)
            if grows(variable_of(key)):
                done = 0 if before is None else len(before)
                array.resize(value.shape)
                array[done:] = value[done:]
            else:
                array[...] = value
            self._written[key] = value
        self._publish(place)

    def _array(self, key: Key, value: np.ndarray) -> Any:
        if key not in self._arrays:
            group, name = key
            assert self._root is not None
            parent = self._root.require_group(group)
            parent.attrs.put(self.record.group_attrs.get(group, {}))
            variable, growing = variable_of(key), grows(variable_of(key))
            self._arrays[key] = parent.create_array(
                name,
                shape=(0, *value.shape[1:]) if growing else value.shape,
                chunks=(CHUNK_ROWS, *(max(1, s) for s in value.shape[1:])) if growing else value.shape or "auto",
                dtype=value.dtype,
                dimension_names=variable.dims,
                attributes=self.record.attributes(key),
                overwrite=True,
            )
        return self._arrays[key]

    def _publish(self, place: Path) -> None:
        """Root attributes and the metadata of all arrays, in one file, at once."""
        groups = sorted({group for group, _ in self._arrays})
        nodes = groups + sorted(f"{group}/{name}" for group, name in self._arrays)  # readers want siblings together
        metadata = {node: json.loads((place / node / "zarr.json").read_text()) for node in nodes}
        root = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": self.record.attrs,
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": metadata},
        }
        written = place / ".zarr.json.new"
        written.write_text(json.dumps(root))
        written.replace(place / "zarr.json")
