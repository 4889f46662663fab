"""The state of a training on disk: one NumPy archive, replaced whole after every step, read without pickle."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from apviz.files import file_made_whole
from apviz.tracing.store import is_trace_of

# the entries that are JSON; all others are arrays
IDENTITY, ATTRIBUTES = "identity", "attributes"

# of solvers: former name → name
FORMER_SETTINGS = {"max_iterations": "max_epochs", "min_iterations": "min_epochs"}


def checkpoint_of(trace: Path) -> Path:
    """Where the checkpoint of the training with a trace at this path is written."""
    return trace.with_name(f"{trace.name}.checkpoint.npz")


def former_checkpoint_of(trace: Path) -> Path:
    """Where earlier versions wrote it: `out.1` and `out.2` had one name."""
    return trace.with_suffix(".checkpoint.npz")


def find_checkpoint(trace: Path) -> Path | None:
    """The checkpoint of the training with a trace at this path; under its former name only if it is of that trace."""
    path, former = checkpoint_of(trace), former_checkpoint_of(trace)
    if os.path.lexists(path):
        return path
    return former if former.is_file() and _is_of(former, trace) else None


def _is_of(checkpoint: Path, trace: Path) -> bool:
    try:
        attributes = Checkpoint(checkpoint, {}).read()[1]
    except ValueError:
        return False
    if os.path.lexists(trace):
        return is_trace_of(trace, attributes)
    # the trace was deleted, or lost by a kill: it was called so, unless another beside is the one
    named = [other for other in trace.parent.glob(f"{glob.escape(trace.stem)}.*") if is_trace_of(other, attributes)]
    return trace.suffix == ".zarr" and not named


def fingerprint(x: Tensor, y: Tensor) -> str:
    """Of the data of a training, x: (n, d) and y: (n,), in the dtype they are trained in."""
    return hashlib.sha256(x.cpu().numpy().tobytes() + y.cpu().numpy().tobytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Checkpoint:
    """A file that keeps arrays and attributes for the training it is of.

    Args:
        path: of the file.
        identity: what must be the same for a training to go on: its settings and its data, as JSON knows them.
    """

    path: Path
    identity: Mapping[str, Any]

    def write(self, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> None:
        """Writes the file whole or not at all.

        Raises:
            OSError: the disk is full or gone; what was there stays.
        """
        texts = {IDENTITY: np.array(json.dumps(self.identity)), ATTRIBUTES: np.array(json.dumps(attributes))}
        with file_made_whole(self.path) as file:
            np.savez(file, **arrays, **texts)  # type: ignore[arg-type]

    def read(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The arrays and the attributes.

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
        if isinstance(identity.get("solver"), str):
            for former, name in FORMER_SETTINGS.items():
                identity["solver"] = identity["solver"].replace(f"{former}=", f"{name}=")
        now = json.loads(json.dumps(self.identity))
        changed = [name for name in now if identity.get(name) != now[name]]
        changes = [f"{name} was {identity.get(name)!r}, is {now[name]!r}" for name in changed]
        if changes:
            raise ValueError(
                f"{self.path} is of another training: {'; '.join(changes)}. Choose another path, or the same settings"
            )
        return arrays, attributes
