"""What runs on a worker: a task, within the worker's memory, until its client cancels it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import shutil
import tempfile
import time
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from apviz import memory
from apviz.cluster.tasks import Task
from apviz.datasets import DatasetUnavailable
from apviz.places import Place, is_there, place_of, write_whole
from apviz.solvers.interface import Epoch, Hook, Update

#: seconds between two checks of a running solve whether it was cancelled
CHECK_SECONDS: Final = 0.5
#: the file in the marker folder; a worker that sees it sees the folder of the run
MARKER: Final = "marker"


@dataclass(frozen=True)
class Job:
    """What all tasks of a run share.

    Attributes:
        out: the folder or URL that they write to, if any.
        marker: the name of a folder in it by which a worker finds out whether it sees the same one.
        versions: those of the client.
    """

    out: str | None
    marker: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """What a worker returns for a task.

    Attributes:
        result: what the task returned, as JSON holds it.
        memory_limit: bytes that the worker may hold, if the task needs more.
        files: a zip file of what the task wrote, if the worker does not see the folder of the run.
    """

    result: Any = None
    error: str = ""
    worker: str = ""
    memory_limit: int = 0
    files: bytes = b""


def versions() -> dict[str, str]:
    """Return the versions that must be the same on client and workers."""
    found = {name: metadata.version(name) for name in ("apviz", "distributed")}
    return {**found, "Python": ".".join(platform.python_version_tuple()[:2])}


def mismatch(worker: str, theirs: dict[str, str], ours: dict[str, str]) -> str:
    """Name the versions in which a worker differs from the client; empty if there are none."""
    differ = [
        f"{name} {theirs.get(name)}, here {number}" for name, number in ours.items() if theirs.get(name) != number
    ]
    return f"the worker {worker} has {'; '.join(differ)}: install the same on both" if differ else ""


def run_task(job: Job, task: Task[Any], shared: Any, *needed: Answer) -> Answer:
    """Run a task in the folder of the run, or in a temporary one if the worker does not see it.

    Args:
        needed: the answers of the tasks whose files it reads.

    Raises:
        OSError: files or the network failed; Dask tries the task again.
    """
    from distributed import get_worker

    worker = get_worker()
    error = mismatch(worker.address, versions(), job.versions)
    if failed := next((each.error for each in needed if each.error), ""):
        error = f"a task that it needs failed: {failed}"
    if error:
        return Answer(error=error, worker=worker.address)
    memory.keep_below(worker.memory_manager.memory_limit)
    if job.out is None:
        return _answer(task, None, shared)
    out = place_of(job.out)
    seen = is_there(out / job.marker / MARKER)
    if not seen and not all(each.files for each in needed):
        return Answer(
            error=f"the worker {worker.address} does not see {out}, where another worker wrote files that the task "
            "needs: make the folder visible to all workers, or to none",
            worker=worker.address,
        )
    if not seen or any(each.files for each in needed):
        return _in_temporary_folder(task, shared, needed)
    # Dask runs a task again if its worker was lost before the client had the result
    kept = out / job.marker / f"{task.name}.json".replace("/", "-")
    with contextlib.suppress(FileNotFoundError, ValueError):
        return Answer(json.loads(kept.read_bytes()), worker=worker.address)
    answer = _answer(task, out, shared)
    if not answer.error:
        write_whole(kept, json.dumps(answer.result).encode())
    return answer


def _in_temporary_folder(task: Task[Any], shared: Any, needed: Sequence[Answer]) -> Answer:
    from distributed import get_worker

    folder = Path(tempfile.mkdtemp(prefix="apviz-", dir=get_worker().local_directory))
    try:
        for each in needed:
            unpack(each.files, folder)
        given = {path for path in folder.rglob("*") if path.is_file()}
        return replace(_answer(task, folder, shared), files=pack(folder, given))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answer(task: Task[Any], folder: Place | None, shared: Any) -> Answer:
    from distributed import get_worker

    worker = get_worker()
    limit = 0
    try:
        result = task.run(folder, [StopIfCancelled()], shared)
        return Answer(json.loads(json.dumps(result)), worker=worker.address)
    except MemoryError as problem:
        error, limit = str(problem), worker.memory_manager.memory_limit or 0
    except DatasetUnavailable as problem:
        folder_there = os.environ.get("APVIZ_DATA")
        where = f"APVIZ_DATA is {folder_there} there" if folder_there else "APVIZ_DATA is not set there"
        error = f"the worker {worker.address} does not see the file of its data ({where}): {problem}"
    except (ValueError, TypeError, RuntimeError, FileExistsError) as problem:
        error = str(problem)
    except KeyboardInterrupt as problem:
        error = f"interrupted: {problem}"
    return Answer(error=error, worker=worker.address, memory_limit=limit)


class StopIfCancelled(Hook):
    """End the solve of a task that was cancelled, or whose client has ended.

    Raises KeyboardInterrupt in the solve, so that its trace is complete up to there and says interrupted.
    """

    def __init__(self) -> None:
        from distributed import get_worker

        self._worker = get_worker()
        self._key = self._worker.get_current_task()
        self._next = time.monotonic() + CHECK_SECONDS

    def on_update(self, update: Update) -> None:
        self._check()

    def on_epoch(self, epoch: Epoch) -> None:
        self._check()

    def _check(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + CHECK_SECONDS
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state not in ("executing", "long-running", "resumed"):
            raise KeyboardInterrupt("the task was cancelled")


def pack(folder: Path, excluded: Collection[Path] = ()) -> bytes:
    """Return a zip file of the files in a folder; no bytes if there are none."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path not in excluded]
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in files:
            archive.write(path, path.relative_to(folder).as_posix())
    return held.getvalue() if files else b""


def unpack(files: bytes, folder: Path) -> None:
    """Unpack what `pack` returned; both ends trust each other, as all members of a Dask cluster do."""
    if files:
        with zipfile.ZipFile(io.BytesIO(files)) as archive:
            archive.extractall(folder)
