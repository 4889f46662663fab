"""Files of a training: its trace, and next to it a checkpoint to resume from.

The checkpoint is one NumPy archive. It is replaced atomically after every step and read without pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from apviz.files import file_made_whole
from apviz.tracing.lock import Lock
from apviz.tracing.store import Record, TraceStore, is_trace_of, stamp, stamp_of, what_to_do

# these entries are JSON; all others are arrays
IDENTITY, ATTRIBUTES = "identity", "attributes"

#: identifies one version of a file, see `apviz.tracing.store.stamp`
Stamp = tuple[int, int, int]


def checkpoint_of(trace: Path) -> Path:
    """Return the path of the checkpoint for the path of a trace: `t.zarr.checkpoint.npz` for `t.zarr`."""
    return trace.with_name(f"{trace.name}.checkpoint.npz")


def can_resume(path: Path) -> bool:
    """Return whether the trace of a training has a checkpoint."""
    return os.path.lexists(checkpoint_of(path))


def _write(
    path: Path, identity: Mapping[str, Any], arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any],
    before_replacing: Callable[[Stamp], None],
) -> None:  # fmt: skip
    """Write a checkpoint atomically; `before_replacing` gets the stamp of the new file while the old one is there."""
    texts = {IDENTITY: np.array(json.dumps(identity)), ATTRIBUTES: np.array(json.dumps(attributes))}
    with file_made_whole(path, durable=True) as file:
        np.savez(file, **arrays, **texts)  # type: ignore[arg-type]
        file.flush()
        before_replacing(stamp_of(os.fstat(file.fileno())))


def _read(path: Path, identity: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the attributes of a checkpoint.

    Args:
        path: of the checkpoint.
        identity: settings and data that must match for a training to resume, as JSON values.

    Raises:
        ValueError: the file is not a checkpoint, or belongs to another training; the message names the difference.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        then, attributes = (json.loads(str(arrays.pop(name))) for name in (IDENTITY, ATTRIBUTES))
    except Exception as error:
        raise ValueError(f"{path} is not a checkpoint of a training ({error}); move it away to start again") from error
    now = json.loads(json.dumps(identity))
    changed = [name for name in now if then.get(name) != now[name]]
    changes = [f"{name} was {then.get(name)!r}, is {now[name]!r}" for name in changed]
    if changes:
        raise ValueError(
            f"{path} belongs to another training: {'; '.join(changes)}. Choose another path, or use the same settings"
        )
    return arrays, attributes


class TrainingFiles:
    """The trace and the checkpoint of one training on disk. Files of other programs are never modified.

    Attributes:
        path: current path of the trace. It moves to a neighbouring path if another program takes the original one.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.identity = path, identity
        self._store: TraceStore | None = None
        # stamps of this training's checkpoint; None: no file yet; two while a new file replaces the old one
        self._ours: tuple[Stamp | None, ...] = (None,)
        self._warned = False

    def read(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Return the arrays and the attributes of the checkpoint, or None if the training is new.

        Raises:
            FileExistsError: the path exists and is not the trace of a training with a checkpoint.
            ValueError: the checkpoint belongs to another training; the message names the difference.
        """
        path, checkpoint = self.path, checkpoint_of(self.path)
        if not can_resume(path):
            if os.path.lexists(path):
                raise FileExistsError(
                    f"{path} exists and has no checkpoint of a training; choose another path: traces are never "
                    "overwritten"
                )
            return None
        self._ours = (stamp(checkpoint),)
        arrays, attributes = _read(checkpoint, self.identity)
        if os.path.lexists(path) and not is_trace_of(path, attributes):
            raise FileExistsError(
                f"{path} is not the trace that belongs to {checkpoint.name}, and is left unchanged; move it away so "
                "that the trace can be written again, or choose another path"
            )
        return arrays, attributes

    @contextmanager
    def locked(self, record: Record) -> Iterator[None]:
        """Lock the path inside a `with`, so that `write` may write. The files must be unchanged since `read`.

        Raises:
            FileExistsError: another training runs at the path, or has run there since `read`.
        """
        with Lock(self.path):
            if stamp(checkpoint_of(self.path)) not in self._ours:
                raise FileExistsError(
                    f"another training has written to {self.path} since this one was created; create it again to "
                    "resume from there, or choose another path"
                )
            if self._store is None:
                self._store = TraceStore(self.path, record, resumes=can_resume(self.path))
            yield

    def write(self, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> None:
        """Write the checkpoint, then the trace. A process killed in between can rewrite the trace from the checkpoint.

        Warns once if the disk rejects them.
        """
        assert self._store is not None  # locked
        try:
            path = self._free_checkpoint(self._store)
            _write(path, self.identity, arrays, attributes, self._about_to_write)
            self._ours = self._ours[-1:]
            self._store.flush()
        except OSError as error:
            if not self._warned:
                warnings.warn(
                    f"the training could not be written to {self.path} ({error}); it stays in memory, and every "
                    f"later step tries again: {what_to_do(error)}",
                    stacklevel=4,
                )
            self._warned = True

    def _about_to_write(self, checkpoint: Stamp) -> None:
        """Record the stamp of a new checkpoint, so that it is recognised even if writing is interrupted."""
        self._ours = (self._ours[0], checkpoint)

    def _free_checkpoint(self, store: TraceStore) -> Path:
        """Return where to write the checkpoint. The trace moves if another program has taken either path."""
        store.keep_or_move()
        assert isinstance(store.path, Path)  # it was created with one
        path = checkpoint_of(store.path)
        if os.path.lexists(path) and stamp(path) not in self._ours:
            store.move_from(path)
        self.path = store.path
        return checkpoint_of(store.path)


def check_data(path: Path, x: Tensor, y: Tensor) -> None:
    """Check that data are those of the training with a trace at `path`. Accepts any data if it has no checkpoint.

    Args:
        x, y: (n, d) and (n,), in the dtype in which they were given to the training.

    Raises:
        ValueError: the training started with other data.
    """
    if not can_resume(path):
        return
    try:
        _read(checkpoint_of(path), {"data": fingerprint(x, y)})
    except ValueError as error:
        raise ValueError(
            f"the rows found for {path.stem} differ from those it started with: another split, other rows or another "
            f"scaling ({error})"
        ) from error


def fingerprint(x: Tensor, y: Tensor) -> str:
    """Hash the data of a training, x: (n, d) and y: (n,), in their own dtype, to 16 hex digits."""
    return hashlib.sha256(x.cpu().numpy().tobytes() + y.cpu().numpy().tobytes()).hexdigest()[:16]
