"""Files of a training: its trace, and beside it a checkpoint to go on from.

The checkpoint is one NumPy archive, replaced whole after every step and read without pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from apviz.files import file_made_whole
from apviz.tracing.lock import Lock
from apviz.tracing.store import Record, TraceStore, is_trace_of, stamp, stamp_of, what_to_do

# the entries that are JSON; all others are arrays
IDENTITY, ATTRIBUTES = "identity", "attributes"

#: of a file, see `apviz.tracing.store.stamp`
Stamp = tuple[int, int, int]


def checkpoint_of(trace: Path) -> Path:
    """Names the checkpoint of the training with a trace at this path: `t.zarr.checkpoint.npz` of `t.zarr`."""
    return trace.with_name(f"{trace.name}.checkpoint.npz")


def can_go_on(path: Path) -> bool:
    """Tests whether the trace of a training has a checkpoint."""
    return os.path.lexists(checkpoint_of(path))


@dataclass(frozen=True)
class Checkpoint:
    """A file that keeps arrays and attributes for the training it is of.

    Args:
        path: of the file.
        identity: what must be the same for a training to go on: its settings and its data, as JSON knows them.
    """

    path: Path
    identity: Mapping[str, Any]

    def write(
        self, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any], about: Callable[[Stamp], None]
    ) -> None:
        """Writes the file whole or not at all.

        Args:
            about: is told the stamp that the file will have, before it takes its place.

        Raises:
            OSError: the disk is full or gone; what was there stays.
        """
        texts = {IDENTITY: np.array(json.dumps(self.identity)), ATTRIBUTES: np.array(json.dumps(attributes))}
        with file_made_whole(self.path, durable=True) as file:
            np.savez(file, **arrays, **texts)  # type: ignore[arg-type]
            file.flush()
            about(stamp_of(os.fstat(file.fileno())))

    def read(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Reads the arrays and the attributes.

        Raises:
            ValueError: not such a file, or one of another training; the message names what differs.
        """
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            identity, attributes = (json.loads(str(arrays.pop(name))) for name in (IDENTITY, ATTRIBUTES))
        except Exception as error:
            raise ValueError(
                f"{self.path} is not a checkpoint of a training ({error}); move it away to begin anew"
            ) from error
        now = json.loads(json.dumps(self.identity))
        changed = [name for name in now if identity.get(name) != now[name]]
        changes = [f"{name} was {identity.get(name)!r}, is {now[name]!r}" for name in changed]
        if changes:
            raise ValueError(
                f"{self.path} is of another training: {'; '.join(changes)}. Choose another path, or the same settings"
            )
        return arrays, attributes


class TrainingFiles:
    """Writes and reads the trace and the checkpoint of a training, and touches nobody else's files.

    Args:
        path: of the trace.
        identity: as of `Checkpoint`.

    Attributes:
        path: where the trace is: it goes on beside, if somebody else's file has come to its place.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.identity = path, identity
        self._store: TraceStore | None = None
        # of the checkpoint that this training knows, None: there is none; two while one takes the place of the other
        self._ours: tuple[Stamp | None, ...] = (None,)
        self._warned = False

    def read(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Reads the arrays and the attributes of the checkpoint; None where the training is new.

        Raises:
            FileExistsError: what is at the path is not the trace of a training with a checkpoint beside it.
            ValueError: a checkpoint of another training; the message names what differs.
        """
        path, checkpoint = self.path, checkpoint_of(self.path)
        if not can_go_on(path):
            if os.path.lexists(path):
                raise FileExistsError(
                    f"{path} exists, and has no checkpoint of a training; choose another path, for a trace is never "
                    "overwritten"
                )
            return None
        self._ours = (stamp(checkpoint),)
        arrays, attributes = Checkpoint(checkpoint, self.identity).read()
        if os.path.lexists(path) and not is_trace_of(path, attributes):
            raise FileExistsError(
                f"{path} is not the trace of the training that {checkpoint.name} keeps, and is left as it is; move it "
                "away, so that the trace can be written again, or choose another path"
            )
        return arrays, attributes

    @contextmanager
    def locked(self, record: Record) -> Iterator[None]:
        """Lock the path inside a `with` block, so that `write` may write; what is there must be as `read` found it.

        Raises:
            FileExistsError: another training runs at the path, or has done so since.
        """
        with Lock(self.path):
            if stamp(checkpoint_of(self.path)) not in self._ours:
                raise FileExistsError(
                    f"another training has written to {self.path} since this one was made; make it again to go on "
                    "from there, or choose another path"
                )
            if self._store is None:
                self._store = TraceStore(self.path, record, resumes=can_go_on(self.path))
            yield

    def write(self, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> None:
        """Writes the checkpoint, then the trace, which can be written anew from it: a kill in between loses nothing.

        Warns, once, where the disk does not take them.
        """
        assert self._store is not None  # claimed
        try:
            checkpoint = Checkpoint(self._free_checkpoint(self._store), self.identity)
            checkpoint.write(arrays, attributes, self._about_to_write)
            self._ours = self._ours[-1:]
            self._store.flush()
        except OSError as error:
            if not self._warned:
                warnings.warn(
                    f"the training could not be written to {self.path} ({error}); it is kept in memory, and every "
                    f"later step tries again: {what_to_do(error)}",
                    stacklevel=4,
                )
            self._warned = True

    def _about_to_write(self, checkpoint: Stamp) -> None:
        """Notes what a checkpoint will look like: whatever interrupts its writing, it is known as this training's."""
        self._ours = (self._ours[0], checkpoint)

    def _free_checkpoint(self, store: TraceStore) -> Path:
        """Where to write the checkpoint: beside the trace, which leaves a path that somebody has taken."""
        store.keep_or_move()
        assert isinstance(store.path, Path)  # given one
        path = checkpoint_of(store.path)
        if os.path.lexists(path) and stamp(path) not in self._ours:
            store.move_from(path)
        self.path = store.path
        return checkpoint_of(store.path)


def check_data(path: Path, x: Tensor, y: Tensor) -> None:
    """Refuses other data than the training with a trace at `path` was begun with; without a checkpoint, none.

    Args:
        x, y: (n, d) and (n,), in the dtype in which the training was given them.

    Raises:
        ValueError: it was begun with other data.
    """
    if not can_go_on(path):
        return
    try:
        Checkpoint(checkpoint_of(path), {"data": fingerprint(x, y)}).read()
    except ValueError as error:
        raise ValueError(
            f"the rows found for {path.stem} are not those it was begun with: another split, other rows or other "
            f"scaling ({error})"
        ) from error


def fingerprint(x: Tensor, y: Tensor) -> str:
    """Hashes the data of a training, x: (n, d) and y: (n,), in the dtype they are given in: 16 hex digits."""
    return hashlib.sha256(x.cpu().numpy().tobytes() + y.cpu().numpy().tobytes()).hexdigest()[:16]
