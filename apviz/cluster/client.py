"""The client of a cluster: it connects, submits tasks, yields their results, and cancels them on Ctrl-C."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import signal
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psutil
import torch

from apviz import memory
from apviz.cluster.tasks import Done, Task
from apviz.cluster.worker import MARKER, Answer, Job, mismatch, run_task, unpack, versions
from apviz.places import Place, Remote, write_whole

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")

INSTALL: Final = "workers need Dask: pip install 'apviz[cluster]'"
#: timeouts for the scheduler's answer, for the first worker, and while there is no worker during a run
ANSWER_SECONDS, FIRST_WORKER_SECONDS, NO_WORKER_SECONDS = 10.0, 60.0, 60.0
#: how often a task is tried again after an error of files or of the network
RETRIES: Final = 2
#: how many local workers a task may lose; Dask counts a loss also for tasks that were only queued on that worker
ALLOWED_FAILURES: Final = 12
_POLL_SECONDS, _CHECK_WORKERS_SECONDS = 0.05, 2.0
#: how long cancelled tasks have to end by themselves
_GRACE_SECONDS: Final = 5.0
# Ctrl-C at a terminal reaches local workers too, but the client decides what happens
_PRELOAD: Final = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"


class Cluster:
    """Workers of a Dask scheduler, or local processes, which end with the `with` block.

    Local workers share the cores and the free memory of this machine, and run one task at a time.

    Args:
        scheduler: its address, such as `tcp://10.0.0.1:8786`.
        workers: the number of local workers; instead of a scheduler.
        have_children: whether the tasks of local workers may start processes of their own.

    Raises:
        ValueError: neither or both were given; Dask is not installed; a worker has no apviz, or another version of
            apviz, Python or Dask.
        OSError: no scheduler answers at the address, or it has no worker.
    """

    def __init__(
        self, scheduler: str | None = None, *, workers: int | None = None, have_children: bool = False
    ) -> None:  # fmt: skip
        if (scheduler is None) == (workers is None):
            raise ValueError("give either the address of a scheduler or a number of local workers")
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        try:
            from distributed import utils
        except ImportError as error:
            raise ValueError(f"{INSTALL} ({error})") from error
        with contextlib.ExitStack() as ends:
            # of connections and workers that come and go
            ends.enter_context(utils.silence_logging_cmgr(logging.CRITICAL))
            if scheduler is not None:
                self._client, self._where = _connect(scheduler, ends), f"of {scheduler}"
            else:
                self._client, self._where = _start(workers or 1, have_children, ends), "of this machine"
            self._check_workers()
            self._ends = ends.pop_all()

    def _check_workers(self) -> None:
        ours = versions()
        for worker, theirs in self._client.run(versions, on_error="return").items():
            if isinstance(theirs, ImportError):
                raise ValueError(f"the worker {worker} has no apviz {ours['apviz']}: install it there ({theirs})")
            if isinstance(theirs, BaseException):
                raise ValueError(f"the worker {worker} cannot run tasks: {theirs!r}")
            if error := mismatch(worker, theirs, ours):
                raise ValueError(error)

    def workers(self) -> dict[str, dict[str, Any]]:
        """Return Dask's description of each worker that is connected now, by its address."""
        found: dict[str, dict[str, Any]] = self._client.scheduler_info(n_workers=-1)["workers"]
        return found

    def __str__(self) -> str:
        count = len(self.workers())
        return f"{count} worker{'s' * (count != 1)} {self._where}"

    def run(
        self, tasks: Sequence[Task[T]], out: Place | None = None, shared: Any = None
    ) -> Generator[Done[T], None, None]:
        """Run tasks on the workers; yield the result of each when it has ended.

        An error of one task does not end the others. Ctrl-C cancels the tasks; what has ended by then is yielded before
        the exception is raised. Closing the iterator cancels them too.

        Args:
            out: the folder that tasks write to; it is made. None: they leave no files.
            shared: sent once, for all tasks.

        Raises:
            OSError: the scheduler no longer answers, or has had no worker for a minute.
        """
        out = out.absolute() if isinstance(out, Path) else out
        with _deferred_interrupt() as interrupted, _marked(out) as (marker, scratch):
            job = Job(None if out is None else str(out), marker, versions())
            run = _Run(self, job, tasks, shared)
            try:
                for task, answer in run.answers(interrupted):
                    came_back = None
                    if answer.files:
                        came_back = scratch / "came back"
                        came_back.mkdir()
                        unpack(answer.files, came_back)
                    yield Done(task, answer.result, answer.error, answer.worker, came_back)
                    if came_back is not None:
                        shutil.rmtree(came_back, ignore_errors=True)
            finally:
                run.cancel()

    def close(self) -> None:
        """Disconnect, and end local workers."""
        self._ends.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _connect(scheduler: str, ends: contextlib.ExitStack) -> Client:
    from distributed import Client

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions, which `_check_workers` compares
            client: Client = ends.enter_context(Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False))
    except (OSError, ValueError, TimeoutError) as error:
        raise OSError(
            f"no Dask scheduler answers at {scheduler}: start one with `dask scheduler`, and give the address that "
            f"it prints ({str(error) or type(error).__name__})"
        ) from error
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER_SECONDS)
    except TimeoutError as error:
        raise OSError(
            f"the scheduler at {scheduler} has no worker: start some with `dask worker {scheduler} --nthreads 1`"
        ) from error
    most = max(about["nthreads"] for about in client.scheduler_info(n_workers=-1)["workers"].values())
    if most > 1:
        warnings.warn(
            f"a worker has {most} threads, so {most} solves share its memory and cores at the same time: "
            "start workers with --nthreads 1, and OMP_NUM_THREADS for the threads of a solve",
            stacklevel=3,
        )
    return client


def _start(workers: int, have_children: bool, ends: contextlib.ExitStack) -> Client:
    import dask
    from distributed import LocalCluster

    process = psutil.Process()
    cores = len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else os.cpu_count() or 1
    threads = str(max(1, cores // workers))
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    # a lost worker is started again later, with these settings
    ends.enter_context(dask.config.set({
        "distributed.worker.daemon": not have_children, "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        # Dask drops a worker that has not restarted by then; importing the script alone may take its default of 15 s
        "distributed.deploy.lost-worker-timeout": "300s",
    }))  # fmt: skip
    cluster = ends.enter_context(LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, preload=[_PRELOAD], silence_logs=logging.CRITICAL,
        memory_limit=int(memory.SHARE * memory.free_memory(torch.device("cpu")) / workers),
        env={name: os.environ.get(name, threads) for name in names}, scheduler_kwargs={"dashboard": False},
        # Dask's own pages would listen to all addresses
        dashboard_address="127.0.0.1:0", worker_dashboard_address="127.0.0.1:0",
    ))  # fmt: skip
    client: Client = ends.enter_context(cluster.get_client())
    client.wait_for_workers(workers, timeout=FIRST_WORKER_SECONDS)
    return client


class _Run:
    """Tasks that were submitted together, and their futures."""

    def __init__(self, cluster: Cluster, job: Job, tasks: Sequence[Task[Any]], shared: Any) -> None:
        from distributed import as_completed

        self._cluster, self._client, self._job = cluster, cluster._client, job
        self._suffix = f"-{uuid.uuid4().hex[:8]}"
        self._tasks: dict[str, Task[Any]] = {}
        self._futures: dict[str, Future[Any]] = {}
        # a task, since scattered data is lost with its worker; replicated, else tasks would queue for that one worker
        self._shared = self._client.submit(_identity, shared, key=f"shared{self._suffix}", pure=False)
        self._client.replicate([self._shared])
        self._completed = as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        for task in tasks:
            self._submit(task)
        self._next_check = time.monotonic()
        self._no_worker_since: float | None = None

    def _submit(self, task: Task[Any], workers: Sequence[str] | None = None) -> None:
        key = f"{task.name} {len(self._tasks)}{self._suffix}"
        needed = [self._futures[name] for name in task.needs]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            future = self._client.submit(
                partial(run_task, self._job, task), self._shared, *needed, key=key, workers=workers, retries=RETRIES,
                pure=False,
            )  # fmt: skip
        self._tasks[key], self._futures[task.name] = task, future
        self._completed.add(future)

    def answers(self, interrupted: Callable[[], bool]) -> Iterator[tuple[Task[Any], Answer]]:
        """Yield tasks as they end, with their answers."""
        while not self._completed.is_empty():
            for future, found in self._completed.next_batch(block=False):
                task, answer = self._tasks[future.key], _answer_of(future, found)
                limit = answer.memory_limit
                if larger := self._larger_workers(limit):
                    self._submit(task, larger)
                    continue
                if limit:
                    error = f"{answer.error}; the largest worker may hold {limit / 2**30:.1f} GiB"
                    answer = Answer(error=error, worker=answer.worker)
                yield task, answer
            if interrupted():
                raise KeyboardInterrupt
            self._require_workers()
            time.sleep(_POLL_SECONDS)

    def _larger_workers(self, limit: int) -> list[str]:
        """Return the workers that may hold more than a limit that was too small."""
        workers = self._cluster.workers() if limit else {}
        return [address for address, about in workers.items() if (about["memory_limit"] or math.inf) > limit]

    def _require_workers(self) -> None:
        """Raise OSError if there has been no worker for a minute; Dask would wait for one without limit."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _CHECK_WORKERS_SECONDS
        if self._cluster.workers():
            self._no_worker_since = None
        elif self._no_worker_since is None:
            self._no_worker_since = now
        elif now - self._no_worker_since > NO_WORKER_SECONDS:
            raise OSError(f"there has been no worker for {NO_WORKER_SECONDS:.0f} s; finished tasks are kept")

    def cancel(self) -> None:
        """Cancel what has not ended, and wait a moment for running solves to close their traces."""
        pending = [future for future in self._futures.values() if not future.done()]
        if not pending or self._client.status != "running":
            return
        self._client.cancel(pending, force=True)
        until = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < until:
            if not any(self._client.run(_is_running, self._suffix, on_error="ignore").values()):
                return
            time.sleep(_POLL_SECONDS)


def _answer_of(future: Future[Any], found: Any) -> Answer:
    """Return the answer of a future, of which Dask gave the result or an exception with its type and traceback."""
    if future.status == "finished":
        answer: Answer = found
        return answer
    if future.status == "error":
        return Answer(error=str(found[1]) or found[0].__name__)
    raise OSError("the scheduler has ended, or cancelled the tasks; finished tasks are kept")


def _is_running(suffix: str, dask_worker: Any = None) -> bool:
    """Tell whether a worker still executes a task of a run."""
    return any(task.key.endswith(suffix) for task in dask_worker.state.executing)


def _identity(value: T) -> T:
    return value


@contextlib.contextmanager
def _deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed, so that it loses no result; a second one acts at once."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_default or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed = list[int]()

    def press(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    except KeyboardInterrupt:
        pressed.clear()
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if pressed:  # after the last task, or when the iterator was closed
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def _marked(out: Place | None) -> Iterator[tuple[str, Path]]:
    """Make a hidden folder in `out`, by which workers find out whether they see `out`; yield it and a scratch folder.

    The scratch folder is on the file system of `out`, so that files move from there into `out` in one step.
    """
    name = f".apviz-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="apviz-") as elsewhere:
        if out is not None:
            write_whole(out / name / MARKER, b"")
        try:
            yield name, out / name if isinstance(out, Path) else Path(elsewhere)
        finally:
            if isinstance(out, Path):
                shutil.rmtree(out / name, ignore_errors=True)
            elif isinstance(out, Remote):
                for each in (out / name).files():
                    (out / name / each).unlink()
