"""A cluster as those see it who send tasks: connecting, sending, what comes back, Ctrl-C."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import shutil
import signal
import tempfile
import threading
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psutil
import torch

from apviz import memory
from apviz.cluster.tasks import Done, Task
from apviz.cluster.worker import HERE, Job, Returned, on_worker, unlike, unpack, versions
from apviz.places import Place, Remote, write_whole

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")

INSTALL: Final = "workers need Dask: pip install 'apviz[cluster]'"
#: seconds until a scheduler answers, until there is a worker, and that there may be none
ANSWER_SECONDS, FIRST_WORKER_SECONDS, NO_WORKER_SECONDS = 10.0, 60.0, 60.0
#: more tries of a task that an error of files or of the network ended
RETRIES: Final = 2
#: more tries of a task that Dask has given up, for its workers were lost; it counts those that only waited there
LOST_AGAIN: Final = 2
# seconds between two looks, at what is done and at the workers, and those that running tasks have after Ctrl-C
_LOOK, _LOOK_AT_WORKERS, _GRACE = 0.05, 2.0, 5.0
# of a worker that is started here: Ctrl-C at a terminal comes to it too, and is for this process to answer
_PRELOAD: Final = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"


class Cluster:
    """Workers of Dask: those of a scheduler, or processes of this machine, which end with the `with`.

    Workers of this machine share its cores and its free memory, and have one task at a time.

    Args:
        scheduler: its address, such as `tcp://10.0.0.1:8786`.
        workers: how many to start here, in place of a scheduler.
        have_children: tasks of workers that are started here may start processes of their own.

    Raises:
        ValueError: neither or both were given; Dask is not installed; a worker has no apviz, or another version of it,
            of Python or of Dask.
        OSError: no scheduler answers at the address, or it has no worker.
    """

    def __init__(
        self, scheduler: str | None = None, *, workers: int | None = None, have_children: bool = False
    ) -> None:  # fmt: skip
        if (scheduler is None) == (workers is None):
            raise ValueError("workers are those of a scheduler, by its address, or so many here: one of the two")
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        try:
            import distributed  # noqa: F401
        except ImportError as error:
            raise ValueError(f"{INSTALL} ({error})") from error
        self._ends = contextlib.ExitStack()
        self._ends.enter_context(_quiet())
        with contextlib.ExitStack() as until_it_is_right:
            until_it_is_right.callback(self.close)
            if scheduler is not None:
                self._client, self._where = self._connected(scheduler), scheduler
            else:
                self._client, self._where = self._started(workers or 1, have_children), "this machine"
            self._check_workers()
            until_it_is_right.pop_all()

    def _connected(self, scheduler: str) -> Client:
        from distributed import Client

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of versions, which are looked at below
                client: Client = Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False)
                self._ends.enter_context(client)
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
                f"workers have up to {most} threads, and so many solves at once, which share memory and cores without "
                "knowing of each other: start them with --nthreads 1, and OMP_NUM_THREADS for the threads of a solve",
                stacklevel=4,
            )
        return client

    def _started(self, workers: int, have_children: bool) -> Client:
        import dask
        from distributed import Client, LocalCluster

        threads = str(max(1, _cores() // workers))
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        limit = int(memory.SHARE * memory.free_memory(torch.device("cpu")) / workers)
        # as long as workers may be started
        self._ends.enter_context(dask.config.set({"distributed.worker.daemon": not have_children}))
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, memory_limit=limit,
            env={name: os.environ.get(name, threads) for name in names}, preload=[_PRELOAD],
            silence_logs=logging.CRITICAL, scheduler_kwargs={"dashboard": False},
            # Dask's own pages would listen to everybody
            dashboard_address="127.0.0.1:0", worker_dashboard_address="127.0.0.1:0",
        )  # fmt: skip
        self._ends.enter_context(cluster)
        client: Client = Client(cluster, set_as_default=False)
        self._ends.enter_context(client)
        client.wait_for_workers(workers, timeout=FIRST_WORKER_SECONDS)
        return client

    def _check_workers(self) -> None:
        ours = versions()
        for worker, theirs in self._client.run(versions, on_error="return").items():
            if isinstance(theirs, ImportError):
                raise ValueError(f"the worker {worker} has no apviz {ours['apviz']}: install it there ({theirs})")
            if isinstance(theirs, BaseException):
                raise ValueError(f"the worker {worker} does not run what it is sent: {theirs!r}")
            if theirs != ours:
                raise ValueError(unlike(worker, theirs, ours))

    def workers(self) -> dict[str, dict[str, Any]]:
        """Describes the workers there are now, by their addresses, as Dask does."""
        found: dict[str, dict[str, Any]] = self._client.scheduler_info(n_workers=-1)["workers"]
        return found

    def __str__(self) -> str:
        count = len(self.workers())
        return f"{count} worker{'s' * (count != 1)} of {self._where}"

    def run(
        self, tasks: Sequence[Task[T]], out: Place | None = None, shared: Any = None
    ) -> Generator[Done[T], None, None]:
        """Runs tasks on the workers, and yields what came of each as it comes.

        An error of one does not end the others. After Ctrl-C no more begin, those that run end within an update, and
        what is done is yielded before the exception; the end of the iterator ends them too.

        Args:
            out: the folder that they write to; it is made. None: they leave no files.
            shared: is sent once, for all tasks.

        Raises:
            OSError: the scheduler is gone, or has had no worker for a minute.
        """
        out = out.absolute() if isinstance(out, Path) else out
        with _interrupts() as interrupted, _meeting(out) as (meeting, scratch):
            job = Job(None if out is None else str(out), meeting, versions(), secrets.token_bytes())
            run = _Run(self, job, tasks, shared)
            try:
                for task, returned in run.returned(interrupted):
                    came_back = None
                    if returned.files:
                        came_back = scratch / "came back"
                        came_back.mkdir()
                        unpack(returned.files, came_back)
                    yield Done(task, returned.result, returned.error, returned.worker, came_back)
                    if came_back is not None:
                        shutil.rmtree(came_back, ignore_errors=True)
            finally:
                run.end()

    def close(self) -> None:
        """Ends the connection, and the workers that were started for it."""
        self._ends.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Run:
    """Tasks that were sent together.

    Attributes:
        name: the ending of their keys.
    """

    def __init__(self, cluster: Cluster, job: Job, tasks: Iterable[Task[Any]], shared: Any) -> None:
        from distributed import as_completed

        self.name = f"-{uuid.uuid4().hex[:8]}"
        self._cluster, self._client, self._job = cluster, cluster._client, job
        self._by_key: dict[str, Task[Any]] = {}
        self._lost: Counter[str] = Counter()
        self._futures: dict[str, Future[Any]] = {}
        # a task like the others: where the worker that has it is lost, it is sent again
        self._shared = self._client.submit(_itself, shared, key=f"shared{self.name}", pure=False)
        # else tasks would wait for the one worker that has it
        self._client.replicate([self._shared])
        for task in tasks:
            self._futures[task.name] = self._send(task)
        self._waiting = as_completed(list(self._futures.values()), loop=self._client.loop)
        self._next_look = time.monotonic()
        # when it was first seen that there is no worker; between two looks a caller may take his time
        self._without_since: float | None = None

    def _send(self, task: Task[Any], workers: Sequence[str] | None = None) -> Future[Any]:
        key = f"{task.name} {len(self._by_key)}{self.name}"
        needed = [self._futures[name] for name in task.needs]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            future = self._client.submit(
                partial(on_worker, self._job, task), self._shared, *needed, key=key, workers=workers, retries=RETRIES,
                pure=False,
            )  # fmt: skip
        self._by_key[key] = task
        return future

    def returned(self, interrupted: Callable[[], bool]) -> Iterator[tuple[Task[Any], Returned[Any]]]:
        """Yields tasks as they end, with what came of them."""
        while not self._waiting.is_empty():
            yield from self._batch()
            if interrupted():
                raise KeyboardInterrupt
            self._look_at_workers()
            time.sleep(_LOOK)

    def _batch(self) -> Iterator[tuple[Task[Any], Returned[Any]]]:
        for future in self._waiting.next_batch(block=False):
            task = self._by_key[future.key]
            if self._is_lost(future) and self._lost[task.name] < LOST_AGAIN:
                self._lost[task.name] += 1
                self._futures[task.name] = self._send(task)
                self._waiting.add(self._futures[task.name])
                continue
            returned = self._result(task, future)
            if returned is None:
                self._waiting.add(future)
            elif larger := self._larger_than(returned.memory_limit):
                again = self._futures[task.name] = self._send(task, larger)
                self._waiting.add(again)
            else:
                yield task, returned

    def _is_lost(self, future: Future[Any]) -> bool:
        from distributed.scheduler import KilledWorker

        return future.status == "error" and isinstance(future.exception(), KilledWorker)

    def _result(self, task: Task[Any], future: Future[Any]) -> Returned[Any] | None:
        """What came of a task; None where it was lost on the way here, and is computed again."""
        if future.status == "finished":
            try:
                found: Returned[Any] = future.result(timeout=NO_WORKER_SECONDS)
            except TimeoutError:
                return None
            if not found.memory_limit:
                return found
            largest = f"the largest worker may hold {found.memory_limit / 2**30:.1f} GiB"
            return Returned(error=f"{found.error}; {largest}", worker=found.worker, memory_limit=found.memory_limit)
        error: Any = future.exception() if future.status == "error" else None
        if self._is_lost(future):
            lost = (error.allowed_failures + 1) * (self._lost[task.name] + 1)
            return Returned(
                error=f"{lost} workers were lost one after another while they had it, the last "
                f"{error.last_worker.address}: as where memory does not suffice, so give workers more, or take less"
            )
        if error is None:
            raise OSError("the scheduler is gone, or has let go of what was asked; what is done is kept")
        return Returned(error=str(error) or type(error).__name__)

    def _larger_than(self, limit: int) -> list[str]:
        """The workers that may hold more, where a limit did not suffice."""
        if not limit:
            return []
        return [each for each, about in self._cluster.workers().items() if (about["memory_limit"] or math.inf) > limit]

    def _look_at_workers(self) -> None:
        """Nothing is waited for that nobody is there to do.

        Raises:
            OSError: the scheduler is gone, or has had no worker for a minute.
        """
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_AT_WORKERS
        if self._client.status not in ("running", "connecting"):
            raise OSError("the scheduler is gone, or has let go of what was asked; what is done is kept")
        if self._client.scheduler_info(n_workers=-1)["workers"]:
            self._without_since = None
        elif self._without_since is None:
            self._without_since = now
        elif now - self._without_since > NO_WORKER_SECONDS:
            raise OSError(f"there has been no worker for {NO_WORKER_SECONDS:.0f} s; what is done is kept")

    def end(self) -> None:
        """Cancels what is not done, and gives what runs a moment to end as it should."""
        left = [future for future in self._futures.values() if not future.done()]
        if not left or self._client.status != "running":
            return
        self._client.cancel(left, force=True)
        until = time.monotonic() + _GRACE
        while time.monotonic() < until:
            busy = self._client.run(_has_any, self.name, on_error="ignore")
            if not any(busy.values()):
                return
            time.sleep(_LOOK)


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Tells whether Ctrl-C was pressed, so that it comes between two tasks and loses none; a second comes at once."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours or threading.current_thread() is not threading.main_thread():
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
        if pressed:  # after the last task, or where no more are asked for
            signal.raise_signal(signal.SIGINT)


def _has_any(ending: str, dask_worker: Any = None) -> bool:
    """Whether a worker still computes a task of a run."""
    return any(task.key.endswith(ending) for task in dask_worker.state.executing)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask's log without what it says of connections and workers that come and go."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    before = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in before:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


def _itself(value: T) -> T:
    return value


def _cores() -> int:
    process = psutil.Process()
    return len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _meeting(out: Place | None) -> Iterator[tuple[str, Path]]:
    """A hidden folder by which workers know whether they see the same `out`, and one of this machine, for a time."""
    name = f".apviz-{uuid.uuid4().hex[:8]}"
    if isinstance(out, Path):
        (out / name).mkdir(parents=True)
        try:
            (out / name / HERE).touch()
            # what comes back is moved from there into `out`
            yield name, out / name
        finally:
            shutil.rmtree(out / name, ignore_errors=True)
        return
    with tempfile.TemporaryDirectory(prefix="apviz-") as scratch:
        if out is not None:
            write_whole(out / name / HERE, b"")
        try:
            yield name, Path(scratch)
        finally:
            if isinstance(out, Remote):
                for each in (out / name).files():
                    (out / name / each).unlink()
