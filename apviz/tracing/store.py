"""The growing record of one solve, and its copy on disk in Zarr v3, which a kill at any moment leaves readable.

Readers take the shapes of all arrays and the root attributes from the root's `zarr.json` (consolidated metadata). A
flush writes that file last, by an atomic rename or as one object of a store. So it always describes the last complete
flush, whatever a kill interrupts.

The package `zarr` reads traces; this module writes them, as plain little-endian chunks and JSON (Zarr v3 core
specification, sections 5 and 6). Measured with zarr 3.1.6, 42 arrays and 16 right-hand sides, in processor time on a
core shared with other programs: a flush takes 35 to 42 ms here at n = 2,000 and 14,000, and 166 to 210 ms by zarr's
arrays (92 ms by its asynchronous ones, all at once); the first flush takes 15 to 36 ms here and 260 to 380 ms by zarr.
A writer thread takes as much (209 ms a flush): within 1% of a solve's time, a kill would lose the last 9 to 21 s
instead of 4 s, and a solve of one second would pay half of that for its first and last flush.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import uuid
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from apviz.places import Place, Remote, is_there, made_whole, write_files, write_whole
from apviz.tracing.schema import GROUPS, GROWING, TRACE_ID, Variable
from apviz.tracing.trace import Trace, require_free

#: (group, variable)
Key = tuple[str, str]

# size of a chunk of a growing variable: small, so that an append rewrites little
CHUNK_BYTES = 2**15


class Record:
    """Hold the growing record of one solve in memory: arrays by group and variable, as in the schema.

    A batch joins the record in a single append. So after an interrupt at any moment, all variables of a group have
    the same length.

    Attributes:
        attrs: root attributes.
        group_attrs: attributes of a group, by its name.
        variable_attrs: further attributes of a variable.
    """

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.attrs = attrs
        self.group_attrs: dict[str, dict[str, Any]] = {}
        self.variable_attrs: dict[Key, dict[str, Any]] = {}
        self._batches: list[dict[Key, np.ndarray]] = []

    def put(self, **groups: dict[str, Any]) -> None:
        """Append to variables that grow, and set the others: `put(epoch={"work": [1.0], ...}, block={...})`."""
        self._batches.append(
            {
                (group, name): np.asarray(value).astype(variable_of((group, name)).dtype)
                for group, values in groups.items()
                for name, value in values.items()
            }
        )

    def values(self) -> dict[Key, np.ndarray]:
        """Return every variable in full."""
        if len(self._batches) > 1:
            parts: dict[Key, list[np.ndarray]] = {}
            for batch in self._batches:
                for key, value in batch.items():
                    parts[key] = [*parts.get(key, []), value] if grows(variable_of(key)) else [value]
            self._batches = [{k: p[0] if len(p) == 1 else np.concatenate(p) for k, p in parts.items()}]
        return self._batches[0] if self._batches else {}

    def length(self, key: Key) -> int:
        """Count the entries of a growing variable."""
        return sum(len(batch[key]) for batch in self._batches if key in batch)

    def attributes(self, key: Key) -> dict[str, Any]:
        """Return the attributes of a variable: long name, units, and further ones."""
        variable = variable_of(key)
        return {"long_name": variable.long_name, "units": variable.units, **self.variable_attrs.get(key, {})}

    def to_trace(self) -> Trace:
        """Copy the record into a trace."""
        nodes: dict[str, xr.Dataset] = {"/": xr.Dataset(attrs=dict(self.attrs))}
        values = self.values()
        for group in GROUPS:
            data = {
                name: (variable_of((group, name)).dims, value.copy(), self.attributes((group, name)))
                for (owner, name), value in values.items()
                if owner == group
            }
            if data:
                nodes[group] = xr.Dataset(data, attrs=self.group_attrs.get(group, {}))
        return Trace(xr.DataTree.from_dict(nodes))


def variable_of(key: Key) -> Variable:
    """Look up a variable in the schema."""
    group, name = key
    return GROUPS[group][name]


def grows(variable: Variable) -> bool:
    """Test whether a variable is appended to while a solve runs."""
    return bool(variable.dims) and variable.dims[0] in GROWING


class TraceStore:
    """Copy a `Record` to a directory or an object store, from the first `flush` on.

    It writes to its own trace only. If something else takes the path, the trace continues at another path next to it.

    Args:
        path: a free path; the caller holds its `Lock`.
        resumes: the path may hold this trace, from an earlier run.

    Raises:
        FileExistsError: the path holds something else.
    """

    def __init__(self, path: Place, record: Record, *, resumes: bool = False) -> None:
        if not (resumes and is_trace_of(path, record.attrs)):
            require_free(path)
        self.path, self.record = path, record
        self._stamp = stamp(path / "zarr.json")
        record.attrs.setdefault(TRACE_ID, uuid.uuid4().hex)
        self._written: dict[Key, np.ndarray] = {}
        self._metadata: dict[str, dict[str, Any]] = {}

    def flush(self) -> None:
        """Write what was recorded since the last flush.

        Raises:
            OSError: the disk is full or gone. The trace on disk stays as the last flush left it, the record stays in
                memory, and the next flush tries again.
        """
        self.keep_or_move()
        if _has_begun(self.path):
            self._write(self.path)
        else:
            # made under another name, then renamed, so that no reader sees half a trace
            self._written, self._metadata = {}, {}
            with made_whole(self.path) as making:
                self._write(making)
        self._stamp = stamp(self.path / "zarr.json")

    def keep_or_move(self) -> None:
        """Keep `path` while it is free or holds this trace; else move to another path."""
        is_ours = self._stamp is not None and stamp(self.path / "zarr.json") == self._stamp
        if not is_ours and _has_begun(self.path) and not is_trace_of(self.path, self.record.attrs):
            self.move_from(self.path)

    def move_from(self, taken: Place) -> None:
        """Continue at another path, and warn that something else is at `taken`."""
        names = (f"{self.path.stem}-continued{number}" for number in ("", *(f"-{k}" for k in range(2, 10_000))))
        paths = (self.path.with_name(f"{name}{self.path.suffix}") for name in names)
        self.path = next(each for each in paths if not any(each.parent.glob(f"{glob.escape(each.name)}*")))
        self._written, self._metadata, self._stamp = {}, {}, None
        warnings.warn(
            f"something else has replaced {taken} while a trace was written there; it is left unchanged, and the whole "
            f"trace continues in {self.path}",
            stacklevel=4,
        )

    def _write(self, place: Place) -> None:
        written = dict(self._written)
        write_files(place, self._changed(written))
        # parents before children: readers want siblings together
        nodes = {name: self._metadata[name] for name in sorted(self._metadata, key=lambda n: (n.count("/"), n))}
        consolidated = {"kind": "inline", "must_understand": False, "metadata": nodes}
        write_whole(place / "zarr.json", _json(_group(self.record.attrs) | {"consolidated_metadata": consolidated}))
        self._written = written

    def _changed(self, written: dict[Key, np.ndarray]) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the files that differ from those `written`, and note them there; not the root's."""
        for key, value in self.record.values().items():
            before = written.get(key)
            if before is not None and (value is before or np.array_equal(value, before, equal_nan=True)):
                continue
            group, name = key
            if group not in self._metadata:
                yield self._described(group, _group(self.record.group_attrs.get(group, {})))
            chunk = _chunk_shape(key, value)
            done = len(before) if before is not None and grows(variable_of(key)) else 0
            yield from _chunks(f"{group}/{name}", value, chunk, done)
            yield self._described(f"{group}/{name}", _array(key, value, chunk, self.record.attributes(key)))
            written[key] = value

    def _described(self, node: str, metadata: dict[str, Any]) -> tuple[str, bytes]:
        self._metadata[node] = metadata
        return f"{node}/zarr.json", _json(metadata)


def _has_begun(path: Place) -> bool:
    """Test whether anything is at the path; in a store a root, for a kill may have left other objects."""
    return (path / "zarr.json").exists() if isinstance(path, Remote) else is_there(path)


def is_trace_of(path: Place, attrs: Mapping[Any, Any]) -> bool:
    """Test whether a folder holds the trace with these root attributes, of any length."""
    found = trace_id_of(path)
    return bool(found) and bool(found == attrs.get(TRACE_ID))


def trace_id_of(path: Place) -> str:
    """Return the id of the trace in a folder; empty if it has none, or there is no trace."""
    try:
        return json.loads((path / "zarr.json").read_bytes())["attributes"].get(TRACE_ID) or ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""


def what_to_do(error: OSError) -> str:
    """Return what to do about a trace that could not be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return "free some space" if full else "make its folder writable"


def stamp(file: Place) -> tuple[int, int, int] | None:
    """Return what identifies a version of a file that is only ever replaced whole; None where no file is.

    An object of a store has no stamp: its content tells whose it is.
    """
    if isinstance(file, Remote):
        return None
    try:
        return stamp_of(file.stat())
    except OSError:
        return None


def stamp_of(found: os.stat_result) -> tuple[int, int, int]:
    """Return the stamp of a file from its status."""
    return found.st_ino, found.st_mtime_ns, found.st_size


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
    """Return the shape of a chunk: at most `CHUNK_BYTES` of a growing variable, all of another."""
    shape = tuple(max(1, size) for size in value.shape)
    if not grows(variable_of(key)):
        return shape
    row = int(np.prod(shape[1:])) * value.itemsize
    return (max(1, CHUNK_BYTES // row), *shape[1:])


def _chunks(folder: str, value: np.ndarray, chunk: tuple[int, ...], done: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the chunks that hold rows from `done` on, the last padded to a whole one."""
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    if not chunk:
        yield f"{folder}/c", little.tobytes()
        return
    rest = ["0"] * (len(chunk) - 1)
    for number in range(done // chunk[0], -(-len(value) // chunk[0])):
        rows = little[number * chunk[0] : (number + 1) * chunk[0]]
        padding = np.zeros((chunk[0] - len(rows), *chunk[1:]), rows.dtype)
        yield "/".join([folder, "c", str(number), *rest]), rows.tobytes() + padding.tobytes()


def _json(metadata: dict[str, Any]) -> bytes:
    return json.dumps(metadata).encode()
