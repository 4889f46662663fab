"""A growing record of one solve, and the Zarr v3 directory that mirrors it; a kill at any moment leaves a trace.

Readers take the shapes of all arrays from the consolidated metadata in the root's `zarr.json`. That file is written
last and replaced in one atomic rename, or put whole into an object store, with the root attributes in it: whatever a
kill interrupts, it describes the last complete flush.

Zarr is read with its library, but written here: chunks are plain little-endian bytes and metadata is JSON (Zarr v3
core specification, sections 5 and 6), while the library's synchronous calls take a millisecond each, which made a
flush of thirty arrays cost as much as an epoch.
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
from apviz.tracing.trace import Trace

#: (group, variable)
Key = tuple[str, str]

# of a growing variable, so that an append rewrites little
CHUNK_BYTES = 2**15


class Record:
    """Holds the growing record of one solve in memory: arrays by group and variable, as the schema lays them out.

    What is put together is kept or lost together: an interrupt at any moment leaves the variables of a group
    with one length, since a batch becomes part of the record in a single append.

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
        """Appends to variables that grow, sets the others: `put(epoch={"work": [1.0], ...}, block={...})`."""
        self._batches.append(
            {
                (group, name): np.asarray(value).astype(variable_of((group, name)).dtype)
                for group, values in groups.items()
                for name, value in values.items()
            }
        )

    def values(self) -> dict[Key, np.ndarray]:
        """Returns every variable, whole."""
        if len(self._batches) > 1:
            parts: dict[Key, list[np.ndarray]] = {}
            for batch in self._batches:
                for key, value in batch.items():
                    parts[key] = [*parts.get(key, []), value] if grows(variable_of(key)) else [value]
            self._batches = [{k: p[0] if len(p) == 1 else np.concatenate(p) for k, p in parts.items()}]
        return self._batches[0] if self._batches else {}

    def length(self, key: Key) -> int:
        """Counts the entries of a growing variable."""
        return sum(len(batch[key]) for batch in self._batches if key in batch)

    def attributes(self, key: Key) -> dict[str, Any]:
        """Returns the attributes of a variable: long name, units, and its own."""
        variable = variable_of(key)
        return {"long_name": variable.long_name, "units": variable.units, **self.variable_attrs.get(key, {})}

    def to_trace(self) -> Trace:
        """Copies the record into a trace."""
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
    """Looks a variable up in the schema."""
    group, name = key
    return GROUPS[group][name]


def grows(variable: Variable) -> bool:
    """Tests whether a variable is appended to while a solve runs."""
    return bool(variable.dims) and variable.dims[0] in GROWING


class TraceStore:
    """Mirrors a `Record` in a directory, or below a URL; nothing is written before the first `flush`.

    Only what is this trace's own is ever written to: where something else has come to its place, the trace goes on
    beside it.

    Args:
        path: where nothing is yet. Whoever writes holds the `Claim` to it.
        goes_on: the trace may be there, as of the record when it was shorter.

    Raises:
        FileExistsError: something else is there already.
    """

    def __init__(self, path: Place, record: Record, *, goes_on: bool = False) -> None:
        if is_there(path) and not (goes_on and is_trace_of(path, record.attrs)):
            raise FileExistsError(f"{path} exists; choose another path, for a trace is never overwritten")
        self.path, self.record = path, record
        self._stamp = stamp(path / "zarr.json")
        record.attrs.setdefault(TRACE_ID, uuid.uuid4().hex)
        self._written: dict[Key, np.ndarray] = {}
        self._metadata: dict[str, dict[str, Any]] = {}

    def flush(self) -> None:
        """Writes what was recorded since the last flush.

        Raises:
            OSError: the disk is full or gone; the trace on disk stays as of the last flush, nothing is lost in
                memory, and the next flush tries again.
        """
        self.settle()
        if _begun(self.path):
            self._write(self.path)
        else:
            # built beside its place and moved there whole: a half-made trace is never seen
            self._written, self._metadata = {}, {}
            with made_whole(self.path) as making:
                self._write(making)
        self._stamp = stamp(self.path / "zarr.json")

    def settle(self) -> None:
        """Makes sure that `path` is this trace's, or free: if somebody has taken it, the trace goes on beside it."""
        ours = self._stamp is not None and stamp(self.path / "zarr.json") == self._stamp
        if not (ours or not _begun(self.path) or is_trace_of(self.path, self.record.attrs)):
            self.leave(self.path)

    def leave(self, taken: Place) -> None:
        """Chooses another path to go on at, and warns that something has come to `taken`."""
        names = (f"{self.path.stem}-continued{number}" for number in ("", *(f"-{k}" for k in range(2, 10_000))))
        paths = (self.path.with_name(f"{name}{self.path.suffix}") for name in names)
        self.path = next(each for each in paths if not any(each.parent.glob(f"{glob.escape(each.name)}*")))
        self._written, self._metadata, self._stamp = {}, {}, None
        warnings.warn(
            f"something else has come to {taken}, where a trace was being written; it is left as it is, and the whole "
            f"trace goes on in {self.path}",
            stacklevel=4,
        )

    def _write(self, place: Place) -> None:
        written = dict(self._written)
        write_files(place, self._changed(written))
        # readers want siblings together
        nodes = {name: self._metadata[name] for name in sorted(self._metadata, key=lambda n: (n.count("/"), n))}
        consolidated = {"kind": "inline", "must_understand": False, "metadata": nodes}
        write_whole(place / "zarr.json", _json(_group(self.record.attrs) | {"consolidated_metadata": consolidated}))
        self._written = written

    def _changed(self, written: dict[Key, np.ndarray]) -> Iterator[tuple[str, bytes]]:
        """The files, by name, of what is not among the `written`, where it is put; but for that of the root."""
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


def _begun(path: Place) -> bool:
    """Tests whether anything is at a path of ours; in a store, where a first flush may have been cut, a root."""
    return (path / "zarr.json").exists() if isinstance(path, Remote) else is_there(path)


def is_trace_of(path: Place, attrs: Mapping[Any, Any]) -> bool:
    """Tests whether the folder at a path is the trace with these root attributes, at whatever length."""
    try:
        found = json.loads((path / "zarr.json").read_bytes())["attributes"].get(TRACE_ID)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return found is not None and bool(found == attrs.get(TRACE_ID))


def what_to_do(error: OSError) -> str:
    """Says what to do about a trace that could not be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return "free some space" if full else "make its folder one that can be written"


def stamp(file: Place) -> tuple[int, int, int] | None:
    """Identifies a file that is only ever replaced whole: another stamp after each time, None where there is none.

    An object of a store has none: what is in it says whose it is.
    """
    if isinstance(file, Remote):
        return None
    try:
        return stamp_of(file.stat())
    except OSError:
        return None


def stamp_of(found: os.stat_result) -> tuple[int, int, int]:
    """Returns the stamp of a file of which this is known."""
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
    """Growing variables in chunks of at most `CHUNK_BYTES`, which a flush may write anew; the others in one."""
    shape = tuple(max(1, size) for size in value.shape)
    if not grows(variable_of(key)):
        return shape
    row = int(np.prod(shape[1:])) * value.itemsize
    return (max(1, CHUNK_BYTES // row), *shape[1:])


def _chunks(folder: str, value: np.ndarray, chunk: tuple[int, ...], done: int) -> Iterator[tuple[str, bytes]]:
    """The chunks that hold rows from `done` on; a chunk is always whole, padded where the array ends."""
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
