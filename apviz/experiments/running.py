"""Running an experiment: cell by cell, each kept when it is done, so that a run that was cut goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import torch

from apviz.comparison import claim_free_path
from apviz.experiments.base import Cell, Experiment, Options, Row
from apviz.files import file_made_whole
from apviz.gp.checkpoint import find_checkpoint
from apviz.tracing import open_trace
from apviz.tracing.claim import Claim
from apviz.tracing.recorder import processor


def folder_of(experiment: Experiment, options: Options) -> Path:
    """The folder of an experiment at its size, data set and device: other options never mix with it."""
    parts = [experiment.name, f"n{options.n}" if options.n else "full", options.dataset or "", options.device]
    return options.out / "-".join(part for part in parts if part not in ("", "auto"))


def run(experiment: Experiment, options: Options) -> Iterator[tuple[Cell, Row]]:
    """Computes the cells that are not there yet; yields every cell with its row, also the kept ones.

    A cell that is cut is begun again, but for a training, which goes on from its checkpoint.
    """
    folder = folder_of(experiment, options)
    for cell in experiment.cells(options):
        kept = folder / f"{cell.key}.json"
        if not kept.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _compute(cell, kept, options)
        yield cell, json.loads(kept.read_text("utf-8"))


def _compute(cell: Cell, kept: Path, options: Options) -> None:
    """Computes one cell.

    Raises:
        FileExistsError: another process computes it, or something is where its trace goes that is no trace.
    """
    trace = kept.with_name(f"{cell.key}.zarr")
    with Claim(kept):
        if kept.exists():  # since it was looked for
            return
        _set_aside(trace)
        row = cell.run(trace) | {"machine": machine(options.device)}
        with file_made_whole(kept) as file:
            file.write((json.dumps(row, indent=1) + "\n").encode())


def _set_aside(trace: Path) -> None:
    """A solve that was cut leaves a trace, which is kept under another name; a training's is gone on with."""
    if not os.path.lexists(trace) or find_checkpoint(trace) is not None:
        return
    try:
        open_trace(trace)
    except ValueError as error:
        raise FileExistsError(
            f"{error}; a trace is to be written there: move it away, or choose another --out"
        ) from error
    with claim_free_path(trace.parent, f"{trace.stem}-interrupted") as free:
        trace.rename(free.path)


def machine(device: str) -> str:
    """The machine that computes on a device, in words."""
    if device != "cpu" and torch.cuda.is_available():
        return torch.cuda.get_device_name(None if device == "auto" else device)
    threads = torch.get_num_threads()
    return f"{processor()}, {threads} thread{'s' if threads > 1 else ''}"
