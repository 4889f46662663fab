"""A recorded training again: its settings, and the data it was begun with."""

from __future__ import annotations

import json
from pathlib import Path

from torch import Tensor

from apviz.gp.checkpoint import Checkpoint, find_checkpoint, fingerprint
from apviz.gp.training import TrainingSettings
from apviz.solvers.serialization import from_plain
from apviz.tracing.training_trace import TrainingTrace


def settings_of(trace: TrainingTrace) -> TrainingSettings:
    """The settings that a training was run with.

    Raises:
        ValueError: a solver that is not apviz's own, or a setting that this version does not know.
    """
    plain = json.loads(trace.attrs["training_settings"])
    solver = from_plain(json.loads(trace.attrs["solver_settings"]))
    if solver is None:
        raise ValueError("the trace of this training names no solver")
    try:
        return TrainingSettings(solver=solver, **plain)
    except TypeError as error:
        raise ValueError(f"the settings of this training are not those of this version of apviz: {error}") from error


def can_go_on(path: Path) -> bool:
    """Whether there is a checkpoint beside the trace of a training."""
    return find_checkpoint(path) is not None


def check_data(path: Path, x: Tensor, y: Tensor) -> None:
    """Whether the training with a trace at `path` was begun with these data; nothing is known without a checkpoint.

    Args:
        x, y: (n, d) and (n,), in the dtype of the training.

    Raises:
        ValueError: it was begun with other data.
    """
    checkpoint = find_checkpoint(path)
    if checkpoint is None:
        return
    try:
        Checkpoint(checkpoint, {"data": fingerprint(x, y)}).read()
    except ValueError as error:
        raise ValueError(
            f"the rows found for {path.stem} are not those it was begun with: another split, other rows or other "
            f"scaling ({error})"
        ) from error
