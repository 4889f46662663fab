"""What runs on a worker: a task, within the worker's memory, while somebody waits for it."""

from __future__ import annotations

import hmac
import io
import os
import pickle
import platform
import shutil
import tempfile
import time
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from apviz import memory
from apviz.cluster.tasks import Task
from apviz.datasets import DatasetUnavailable
from apviz.places import Place, is_there, place_of, write_whole
from apviz.solvers.interface import Epoch, Hook, Update

T = TypeVar("T")

#: seconds between two looks of a solve at whether it is waited for
LOOK_SECONDS: Final = 0.5
#: in the meeting folder: who sees it, sees the folder of the run
HERE: Final = "here"
_SIGNATURE_BYTES: Final = 32


@dataclass(frozen=True)
class Job:
    """What all tasks of a run are told.

    Attributes:
        out: the folder or URL that they write to; None: nowhere.
        meeting: the name of a folder in it by which a worker knows whether it sees the same one.
        versions: of the process that waits for them.
        key: signs what workers keep in that folder for one another; it is in no file.
    """

    out: str | None
    meeting: str
    versions: dict[str, str]
    key: bytes


@dataclass(frozen=True)
class Returned(Generic[T]):
    """What a worker sends back of a task.

    Attributes:
        memory_limit: the bytes that its worker may hold, where they did not suffice.
        files: what the task wrote, as a zip file, where it comes back.
    """

    result: T | None = None
    error: str = ""
    worker: str = ""
    memory_limit: int = 0
    files: bytes = b""


def versions() -> dict[str, str]:
    """Tells what must be alike where tasks are sent from and where they run."""
    found = {name: metadata.version(name) for name in ("apviz", "distributed")}
    return {**found, "Python": ".".join(platform.python_version_tuple()[:2])}


def on_worker(job: Job, task: Task[T], shared: Any, *needed: Returned[Any]) -> Returned[T]:
    """Runs a task.

    Args:
        needed: what came back of the tasks whose files it reads.

    Raises:
        OSError: files or the network failed it, so that it may be tried again.
    """
    from distributed import get_worker

    worker = get_worker()
    if versions() != job.versions:
        return Returned(error=unlike(worker.address, versions(), job.versions), worker=worker.address)
    failed = next((each.error for each in needed if each.error), "")
    if failed:
        return Returned(error=f"what it needs was not computed: {failed}", worker=worker.address)
    limit = worker.memory_manager.memory_limit
    memory.keep_below(limit)
    out = None if job.out is None else place_of(job.out)
    seen = out is not None and is_there(out / job.meeting / HERE)
    if not seen and out is not None and not all(each.files for each in needed):
        said = (
            f"the worker {worker.address} does not see {out}, where another has written what it needs: let all see it"
        )
        return Returned(error=said, worker=worker.address)
    if out is None or not seen or any(each.files for each in needed):
        return _apart(task, shared, needed, limit, with_files=out is not None)
    kept = out / job.meeting / f"{task.name}.done".replace("/", "-")
    # what it returned may have been lost with a worker, after it had written all
    found: Returned[T] | None = signed_by(job.key, task.name, kept.read_bytes()) if is_there(kept) else None
    if found is not None:
        return found
    returned = _run(task, out, shared, limit)
    if not returned.error:
        write_whole(kept, signed(job.key, task.name, returned))
    return returned


def signed(key: bytes, name: str, value: Any) -> bytes:
    """Pickle what came of a task, behind a signature: who can write to the folder must not run code on workers."""
    content = pickle.dumps(value)
    return _signature(key, name, content) + content


def signed_by(key: bytes, name: str, kept: bytes) -> Any:
    """Return what was signed with a key for a task; None, and nothing is unpickled, where it was not."""
    signature, content = kept[:_SIGNATURE_BYTES], kept[_SIGNATURE_BYTES:]
    return pickle.loads(content) if hmac.compare_digest(signature, _signature(key, name, content)) else None


def _signature(key: bytes, name: str, content: bytes) -> bytes:
    return hmac.digest(key, name.encode() + b"\0" + content, "sha256")


def _apart(
    task: Task[T], shared: Any, needed: tuple[Returned[Any], ...], limit: int | None, *, with_files: bool
) -> Returned[T]:
    """Runs a task in a folder of the worker's own."""
    from distributed import get_worker

    folder = Path(tempfile.mkdtemp(prefix="apviz-", dir=get_worker().local_directory))
    try:
        for each in needed:
            unpack(each.files, folder)
        before = {path for path in folder.rglob("*") if path.is_file()}
        returned = _run(task, folder, shared, limit)
        files = pack(folder, before) if with_files else b""
        return Returned(returned.result, returned.error, returned.worker, returned.memory_limit, files)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(task: Task[T], folder: Place, shared: Any, limit: int | None) -> Returned[T]:
    from distributed import get_worker

    worker = get_worker().address
    try:
        return Returned(task.run(folder, [Awaited()], shared), worker=worker)
    except MemoryError as error:
        return Returned(error=str(error), worker=worker, memory_limit=limit or 0)
    except DatasetUnavailable as error:
        said = os.environ.get("APVIZ_DATA")
        there = f"APVIZ_DATA is {said} there" if said else "APVIZ_DATA is not set there"
        return Returned(
            error=f"the worker {worker} does not see the file of its data ({there}): {error}", worker=worker
        )
    except (ValueError, RuntimeError, FileExistsError) as error:
        return Returned(error=str(error), worker=worker)
    except KeyboardInterrupt as error:
        return Returned(error=f"interrupted: {error}", worker=worker)


def unlike(worker: str, theirs: dict[str, str], ours: dict[str, str]) -> str:
    """Says in which versions a worker differs."""
    differ = [
        f"{name} {theirs.get(name)}, here {number}" for name, number in ours.items() if theirs.get(name) != number
    ]
    return f"the worker {worker} has {'; '.join(differ)}: install the same on both"


class Awaited(Hook):
    """Ends the solve of a task that nobody waits for any more: it was cancelled, or whoever had sent it is gone.

    Raises KeyboardInterrupt in the solve, so that its trace is kept, and says interrupted.
    """

    def __init__(self) -> None:
        from distributed import get_worker

        self._worker = get_worker()
        self._key = self._worker.get_current_task()
        self._next = time.monotonic() + LOOK_SECONDS

    def on_update(self, update: Update) -> None:
        self._look()

    def on_epoch(self, epoch: Epoch) -> None:
        self._look()

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state not in ("executing", "long-running", "resumed"):
            raise KeyboardInterrupt("nobody waits for it any more")


def pack(folder: Path, but: Collection[Path] = ()) -> bytes:
    """Packs the files of a folder, except for some; nothing, where there are none."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path not in but]
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in files:
            archive.write(path, path.relative_to(folder).as_posix())
    return held.getvalue() if files else b""


def unpack(files: bytes, folder: Path) -> None:
    """Unpacks what `pack` made; both ends trust each other, as all who share a Dask cluster do."""
    if files:
        with zipfile.ZipFile(io.BytesIO(files)) as archive:
            archive.extractall(folder)
