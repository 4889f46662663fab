"""The Zarr v3 directory of a trace, appended to while the solve runs; a kill at any moment leaves one that opens.

Readers take the shapes of all arrays from the consolidated metadata in the root's `zarr.json`, which is replaced
in one atomic rename after the data of a flush are in place. Whatever a kill interrupts, that file describes the
last complete flush.
"""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import zarr

from apviz.tracing.record import Record, grows, variable_of

CHUNK_ROWS = 4096


class TraceStore:
    """Mirrors a `Record` in a new directory.

    Raises:
        FileExistsError: something is there already.
    """

    def __init__(self, path: Path, record: Record) -> None:
        if path.exists():
            raise FileExistsError(f"{path} exists; choose another path, for a trace is never overwritten")
        self.path, self.record = path, record
        self._written: dict[tuple[str, str], int] = {}
        # built beside its place and moved there whole: a half-made trace is never seen
        path.parent.mkdir(parents=True, exist_ok=True)
        making = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            self._root = zarr.create_group(str(making), zarr_format=3, overwrite=True)
            self.flush()
            making.rename(path)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        self._root = zarr.open_group(str(path), mode="r+", use_consolidated=False)

    def flush(self) -> None:
        """Writes what was recorded since the last flush.

        Raises:
            OSError: the disk is full or gone; the trace on disk stays as of the last flush, nothing is lost in
                memory, and the next flush tries again.
        """
        for key in self.record.keys():
            if grows(variable_of(*key)):
                self._append(key)
            else:
                self._replace(key)
        for group, attrs in self.record.group_attrs.items():
            self._root.require_group(group).attrs.put(attrs)
        self._root.attrs.put(self.record.attrs)
        with warnings.catch_warnings():
            # Zarr v3's specification does not have consolidated metadata yet; its readers and xarray do
            warnings.filterwarnings("ignore", message="Consolidated metadata")
            zarr.consolidate_metadata(self._root.store)

    def _array(self, key: tuple[str, str]) -> Any:
        group, name = key
        parent = self._root.require_group(group)
        if name in parent:
            return parent[name]
        variable, value = variable_of(group, name), self.record.value(key)
        growing = grows(variable)
        return parent.create_array(
            name,
            shape=(0, *value.shape[1:]) if growing else value.shape,
            chunks=(CHUNK_ROWS, *(max(1, s) for s in value.shape[1:])) if growing else value.shape or "auto",
            dtype=value.dtype,
            dimension_names=variable.dims,
            attributes=self.record.attributes(key),
        )

    def _append(self, key: tuple[str, str]) -> None:
        value, done = self.record.value(key), self._written.get(key, 0)
        if len(value) == done and done:
            return
        array = self._array(key)
        array.resize((len(value), *value.shape[1:]))
        array[done:] = value[done:]
        self._written[key] = len(value)

    def _replace(self, key: tuple[str, str]) -> None:
        self._array(key)[...] = self.record.value(key)
