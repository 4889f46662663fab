"""The Zarr v3 directory of a trace, appended to while the solve runs; a kill at any moment leaves one that opens.

Readers take the shapes of all arrays from the consolidated metadata in the root's `zarr.json`. That file is written
last and replaced in one atomic rename, with the root attributes in it: whatever a kill interrupts, it describes
the last complete flush.

Zarr is read with its library, but written here: chunks are plain little-endian bytes and metadata is JSON (Zarr v3
core specification, sections 5 and 6), while the library's synchronous calls take a millisecond each, which made a
flush of thirty arrays cost as much as an epoch.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from apviz.tracing.record import Key, Record, grows, variable_of

CHUNK_BYTES = 2**15


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
        self._metadata: dict[str, dict[str, Any]] = {}

    def flush(self) -> None:
        """Writes what was recorded since the last flush.

        Raises:
            OSError: the disk is full or gone; the trace on disk stays as of the last flush, nothing is lost in
                memory, and the next flush tries again.
        """
        if self.path.exists():
            self._write(self.path)
            return
        # built beside its place and moved there whole: a half-made trace is never seen
        making = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self._written = {}
            self._write(making)
            making.rename(self.path)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise

    def _write(self, place: Path) -> None:
        for key, value in self.record.values().items():
            before = self._written.get(key)
            if before is not None and (value is before or np.array_equal(value, before, equal_nan=True)):
                continue
            group, name = key
            if group not in self._metadata or not (place / group).exists():
                self._describe(place, group, _group(self.record.group_attrs.get(group, {})))
            chunk = _chunk_shape(key, value)
            done = len(before) if before is not None and grows(variable_of(key)) else 0
            _write_chunks(place / group / name, value, chunk, done)
            self._describe(place, f"{group}/{name}", _array(key, value, chunk, self.record.attributes(key)))
            self._written[key] = value
        # readers want siblings together
        nodes = {name: self._metadata[name] for name in sorted(self._metadata, key=lambda n: (n.count("/"), n))}
        consolidated = {"kind": "inline", "must_understand": False, "metadata": nodes}
        _replace(place / "zarr.json", _json(_group(self.record.attrs) | {"consolidated_metadata": consolidated}))

    def _describe(self, place: Path, node: str, metadata: dict[str, Any]) -> None:
        _replace(place / node / "zarr.json", _json(metadata))
        self._metadata[node] = metadata


def _group(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def _array(key: Key, value: np.ndarray, chunk: tuple[int, ...], attributes: dict[str, Any]) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": value.shape,
        "data_type": value.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN" if value.dtype.kind == "f" else 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "dimension_names": variable_of(key).dims,
        "attributes": attributes,
    }


def _chunk_shape(key: Key, value: np.ndarray) -> tuple[int, ...]:
    """Growing variables in chunks of at most `CHUNK_BYTES`, which a flush may write anew; the others in one."""
    shape = tuple(max(1, size) for size in value.shape)
    if not grows(variable_of(key)):
        return shape
    row = int(np.prod(shape[1:])) * value.itemsize
    return (max(1, CHUNK_BYTES // row), *shape[1:])


def _write_chunks(folder: Path, value: np.ndarray, chunk: tuple[int, ...], done: int) -> None:
    """The chunks that hold rows from `done` on; a chunk is always whole, padded where the array ends."""
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    if not chunk:
        _replace(folder / "c", little.tobytes())
        return
    rest = ["0"] * (len(chunk) - 1)
    for number in range(done // chunk[0], -(-len(value) // chunk[0])):
        rows = little[number * chunk[0] : (number + 1) * chunk[0]]
        padding = np.zeros((chunk[0] - len(rows), *chunk[1:]), rows.dtype)
        _replace(folder.joinpath("c", str(number), *rest), rows.tobytes() + padding.tobytes())


def _json(metadata: dict[str, Any]) -> bytes:
    return json.dumps(metadata).encode()


def _replace(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.new")
    written.write_bytes(content)
    written.replace(path)
