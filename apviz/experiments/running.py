"""Run an experiment cell by cell, and keep each finished cell, so that an interrupted run resumes."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from apviz.cluster import Cluster, Task
from apviz.cluster.worker import pack, unpack
from apviz.comparison import lock_free_path
from apviz.experiments.base import Cell, Experiment, Options, Row
from apviz.files import file_made_whole
from apviz.gp.training.checkpoint import can_resume
from apviz.solvers import Hook
from apviz.tracing import open_trace
from apviz.tracing.attributes import processor
from apviz.tracing.lock import Lock


def folder_of(experiment: Experiment, options: Options) -> Path:
    """Return the folder of an experiment for its size, data set and device; other options have other folders."""
    parts = [experiment.name, f"n{options.n}" if options.n else "full", options.dataset or "", options.device]
    return options.out / "-".join(part for part in parts if part not in ("", "auto"))


def run(experiment: Experiment, options: Options, cluster: Cluster | None = None) -> Iterator[tuple[Cell, Row]]:
    """Compute the missing cells; yield every cell with its row, including completed ones.

    An interrupted cell starts again, except a training, which resumes from its checkpoint.

    Args:
        cluster: Cluster that computes several cells at once, yielded as they complete. Its workers have no hooks.

    Raises:
        RuntimeError: A cell failed on the cluster; raised after the others are done.
    """
    folder = folder_of(experiment, options)
    cells = experiment.cells(options)
    if cluster is not None:
        yield from _run_on(cluster, experiment, options, cells)
        return
    for cell in cells:
        kept = folder / f"{cell.key}.json"
        if not kept.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _compute(cell, kept, options)
        yield cell, json.loads(kept.read_text("utf-8"))


def _run_on(
    cluster: Cluster, experiment: Experiment, options: Options, cells: list[Cell]
) -> Iterator[tuple[Cell, Row]]:
    folder = folder_of(experiment, options)
    folder.mkdir(parents=True, exist_ok=True)
    missing = {cell.key: cell for cell in cells if not (folder / f"{cell.key}.json").exists()}
    yield from ((cell, _row(folder, cell)) for cell in cells if cell.key not in missing)
    # hooks report and ask here; workers create the cells again, with their own hooks
    plain = replace(options, hooks=(), out=options.out.absolute())
    tasks = [
        Task(cell.key, partial(_compute_there, experiment, plain, cell.key), tuple(set(cell.needs) & set(missing)))
        for cell in missing.values()
    ]
    # for workers that do not see the folder
    wanted = {key for cell in missing.values() for key in cell.needs if key not in missing}
    failed = []
    with closing(cluster.run(tasks, options.out, {key: pack(folder / f"{key}.zarr") for key in wanted})) as done:
        for each in done:
            cell = missing[each.task.name]
            if each.error:
                failed.append(f"{cell.key}: {each.error}")
                continue
            if each.came_back is not None:
                _bring(each.came_back / folder.name, folder, cell)
            yield cell, _row(folder, cell)
    if failed:
        raise RuntimeError("; ".join(failed))


def _row(folder: Path, cell: Cell) -> Row:
    row: Row = json.loads((folder / f"{cell.key}.json").read_text("utf-8"))
    return row


def _compute_there(
    experiment: Experiment, options: Options, key: str, out: Path, hooks: Sequence[Hook], kept: Mapping[str, bytes]
) -> None:
    """Compute one cell of an experiment on a worker, below `out`."""
    options = replace(options, out=Path(out), hooks=hooks)
    folder = folder_of(experiment, options)
    folder.mkdir(parents=True, exist_ok=True)
    cell = next(each for each in experiment.cells(options) if each.key == key)
    for each in cell.needs:
        if not (folder / f"{each}.zarr").exists():
            unpack(kept[each], folder / f"{each}.zarr")
    if not (folder / f"{key}.json").exists():
        _compute(cell, folder / f"{key}.json", options)


def _bring(source: Path, folder: Path, cell: Cell) -> None:
    """Move the results of a worker's own folder to the experiment's, with the file that marks completion last."""
    kept = folder / f"{cell.key}.json"
    with Lock(kept):
        if kept.exists():
            return
        _set_aside(folder / f"{cell.key}.zarr")
        sent = {f"{key}.zarr" for key in cell.needs}
        mine = [path for path in source.iterdir() if path.name not in sent]
        for each in sorted(mine, key=lambda path: path.suffix == ".json"):
            target = folder / each.name
            if os.path.lexists(target):  # left by an interrupted training, which was started again
                target.rename(target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}"))
            each.rename(target)


def _compute(cell: Cell, kept: Path, options: Options) -> None:
    """Compute one cell; FileExistsError if another process does, or its trace's path is taken."""
    trace = kept.with_name(f"{cell.key}.zarr")
    with Lock(kept):
        if kept.exists():  # written since the last look
            return
        _set_aside(trace)
        row = cell.run(trace) | {"machine": machine(options.device)}
        with file_made_whole(kept) as file:
            file.write((json.dumps(row, indent=1) + "\n").encode())


def _set_aside(trace: Path) -> None:
    """Keep the trace of an interrupted solve under another name; a training resumes its own."""
    if not os.path.lexists(trace) or can_resume(trace):
        return
    try:
        open_trace(trace)
    except ValueError as error:
        raise FileExistsError(
            f"{error}; the experiment would write a trace there: move it away, or choose another --out"
        ) from error
    with lock_free_path(trace.parent, f"{trace.stem}-interrupted") as free:
        trace.rename(free.path)


def machine(device: str) -> str:
    """Return the machine that computes on a device, in words."""
    if device != "cpu" and torch.cuda.is_available():
        return torch.cuda.get_device_name(None if device == "auto" else device)
    threads = torch.get_num_threads()
    return f"{processor()}, {threads} thread{'s' if threads > 1 else ''}"
