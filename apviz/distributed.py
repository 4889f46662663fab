"""Ranks: processes that share one solve, by torch.distributed: messages counted, and nobody waits for one that is gone.

Every rank runs the same program on the same data, and takes part in every call of apviz: `torchrun` starts it so many
times, and `init` makes them known to each other. What they share is said in `operators.distributed`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import HashStore, PrefixStore, Store, rendezvous  # type: ignore[attr-defined]

T = TypeVar("T")

#: seconds between two signs of life of a rank, and between two looks at those of others
BEAT: Final = 1.0
#: of the time between two beats, the processor time of a rank that is at work
ALIVE_SHARE: Final = 0.02
#: of the seconds without a beat, those after which a rank whose connections have closed is taken for dead
DEAD_SECONDS: Final = 5.0
#: up to so many bytes of all ranks gloo gathers in a third of the time that it takes to add them
GATHERED_BYTES: Final = 2**17
#: no collective is given up by torch itself before this
NEVER: Final = timedelta(days=365)

_current: Ranks | None = None


class RankLost(Exception):
    """Raised on all ranks when one has failed, has ended, or shows no sign of life; names it.

    Attributes:
        rank: which.
    """

    def __init__(self, message: str, rank: int) -> None:
        super().__init__(message)
        self.rank = rank


@dataclass
class Traffic:
    """What a rank has taken part in.

    Attributes:
        messages: collectives: broadcasts, sums and gathers.
        bytes: of their payload; what a network carries of it depends on the algorithm of each.
    """

    messages: int = 0
    bytes: int = 0


def init(*, backend: str = "auto", patience: float = 20.0) -> Ranks:
    """Joins this process to the others of its job, which `torchrun` has started; solves then share their work.

    Call it first, on every rank; a second call returns the same. Without `torchrun` it makes a job of one.

    Args:
        backend: `gloo` for processors, `nccl` for GPUs, each rank then on the GPU of its local number; `auto`: by
            whether there is a GPU.
        patience: seconds after which a rank that shows no sign of life, while others wait for it, is given up.

    Raises:
        ValueError: an unknown backend, a patience that is not positive, or too few GPUs for the ranks of this machine.

    Examples:
        >>> import apviz
        >>> ranks = apviz.distributed.init()  # in a script that torchrun starts
        >>> ranks.rank, ranks.size
        (0, 1)
        >>> apviz.distributed.finish()
    """
    global _current  # noqa: PLW0603  # a process has one
    if _current is not None:
        return _current
    if backend == "auto":
        backend = "nccl" if torch.cuda.is_available() else "gloo"
    if backend not in ("gloo", "nccl"):
        raise ValueError(f"backend must be auto, gloo or nccl, got {backend!r}")
    if not patience > 0:
        raise ValueError(f"patience must be positive, in seconds, got {patience!r}")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if backend == "nccl":
        if local >= torch.cuda.device_count():
            raise ValueError(
                f"there are {torch.cuda.device_count()} GPUs for {on_this_machine()} ranks on this machine; use "
                "--nproc-per-node with one rank a GPU, or backend='gloo'"
            )
        torch.cuda.set_device(local)
    if "RANK" in os.environ:
        store, rank, size = next(rendezvous("env://", timeout=timedelta(minutes=5)))
    else:
        store, rank, size = HashStore(), 0, 1
    dist.init_process_group(backend, store=PrefixStore("torch", store), rank=rank, world_size=size, timeout=NEVER)
    _current = Ranks(PrefixStore("apviz", store), rank, size, backend, patience)
    return _current


def init_if_started_by_torchrun() -> Ranks | None:
    """Joins where `torchrun` has started more than one process; else returns None."""
    return init() if int(os.environ.get("WORLD_SIZE", "1")) > 1 else current()


def current() -> Ranks | None:
    """Returns the ranks of this job, or None where there is but this process."""
    return _current if _current is not None and _current.size > 1 else None


def records() -> bool:
    """Whether this process writes what is recorded, and prints: rank 0 does, of many."""
    return _current is None or _current.rank == 0


def on_this_machine() -> int:
    """Counts the ranks that share the memory of this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _is_store_of_torchrun() -> bool:
    """Whether what ranks meet by outlives all of them."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def fail(error: BaseException) -> None:
    """Ends all ranks with an error of this one: what the others wait for will not come.

    Raises:
        RankLost: from the error, on many ranks, but where it is Ctrl-C, or another rank's.
    """
    ranks = current()
    if ranks is None:
        return
    why = f"ended by {type(error).__name__}: {error}".rstrip(": ")
    ranks.end(getattr(error, "rank", ranks.rank), why)
    if isinstance(error, Exception) and not isinstance(error, RankLost):
        raise RankLost(f"rank {ranks.rank} of {ranks.size} {why}; the others end with it", ranks.rank) from error


def finish() -> None:
    """Leaves the job; for scripts that go on alone."""
    global _current  # noqa: PLW0603  # a process has one
    if _current is not None:
        _current.leave()
        _current = None
        dist.destroy_process_group()


class Ranks:
    """The ranks of a job, and this one's place among them.

    Attributes:
        rank, size: this one's number, from 0, of so many.
        traffic: what it took part in so far.
    """

    def __init__(self, store: Store, rank: int, size: int, backend: str, patience: float) -> None:
        self.rank, self.size, self.backend, self.patience = rank, size, backend, patience
        self.traffic = Traffic()
        self._watch = _Watch(store, rank, size, patience, alone=backend == "nccl")

    # --- collectives ----------------------------------------------------------------------------------------------

    def sum_(self, a: Tensor) -> Tensor:
        """Adds `a`, contiguous, over all ranks, in place: to the last bit the same on all."""
        if self.backend == "gloo" and a.nbytes * self.size <= GATHERED_BYTES:
            parts = a.new_empty(self.size, *a.shape)
            self._run(lambda: dist.all_gather(list(parts), a, async_op=True), a.nbytes)
            torch.sum(parts, 0, out=a)
        else:
            self._run(lambda: dist.all_reduce(a, async_op=True), a.nbytes)
        return a

    def broadcast_(self, a: Tensor, source: int) -> Tensor:
        """Overwrites `a`, contiguous, with that of one rank."""
        self._run(lambda: dist.broadcast(a, source, async_op=True), a.nbytes)
        return a

    def reduce_(self, a: Tensor, destination: int) -> Tensor:
        """Adds `a`, contiguous, over all ranks, on one of them; it holds nothing of use on the others."""
        self._run(lambda: dist.reduce(a, destination, async_op=True), a.nbytes)
        return a

    def gathered(self, a: Tensor) -> list[Tensor]:
        """Returns `a`, contiguous and of one shape on all ranks, of each."""
        found = [torch.empty_like(a) for _ in range(self.size)]
        self._run(lambda: dist.all_gather(found, a, async_op=True), a.nbytes * self.size)
        return found

    def agreed(self, value: T) -> T:
        """Returns what rank 0 has: of choices by what is measured, such as free memory, which may differ."""
        device = torch.device("cuda", torch.cuda.current_device()) if self.backend == "nccl" else torch.device("cpu")
        said = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8).to(device)
        length = self.broadcast_(torch.tensor(len(said), device=device), 0)
        if self.rank:
            said = torch.empty(int(length), dtype=torch.uint8, device=device)
        self.broadcast_(said, 0)
        found: T = pickle.loads(said.cpu().numpy().tobytes())  # of rank 0 of the same program
        return found

    def meet(self) -> None:
        """Waits until all ranks have come here."""
        self.sum_(torch.zeros(1, device="cuda" if self.backend == "nccl" else "cpu"))

    @contextlib.contextmanager
    def in_turn(self) -> Iterator[None]:
        """Rank 0 goes first, then the others: what it fetches into a cache is there for them."""
        if self.rank:
            self.meet()
        with self._watch.patient():
            yield
        if not self.rank:
            self.meet()

    def end(self, blamed: int, why: str) -> None:
        """Tells the others why this rank ends, and for which rank's sake."""
        self._watch.fail(blamed, why)

    def leave(self) -> None:
        """Says that this rank is done."""
        self._watch.stop()

    def _run(self, begin: Callable[[], Any], size: int) -> None:
        self.traffic.messages += 1
        self.traffic.bytes += size
        if self.size > 1:
            self._watch.wait(begin)


class _Watch:
    """Signs of life of all ranks, in the store they met by; what waits for others looks at them.

    A rank beats while it waits for others, or its processor time goes on; a thread of its own says so. It does not
    while it is stopped, sleeps, or waits for a disk that does not answer.
    """

    def __init__(self, store: Store, rank: int, size: int, patience: float, *, alone: bool) -> None:
        self._store, self._rank, self._size, self._patience = store, rank, size, patience
        self._waits = self._is_patient = self._is_done = self._has_failed = False
        self._collectives, self._beats = 0, 0
        self._seen = {other: (b"", time.monotonic()) for other in range(size) if other != rank}
        if size == 1:
            return
        self._alone = alone
        self._ours = threading.Lock()
        self._beat()
        threading.Thread(target=self._go_on_beating, daemon=True, name="apviz-beats").start()
        atexit.register(self.stop)
        self._excepthook, sys.excepthook = sys.excepthook, self._uncaught
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._told_to_end)

    # --- this rank ------------------------------------------------------------------------------------------------

    def wait(self, begin: Callable[[], Any]) -> None:
        """Begins a collective and waits for it, as long as all ranks are alive."""
        self._collectives += 1
        self._waits = True
        try:
            try:
                work = begin()
            except RuntimeError as error:
                self._connection_closed(error)
            while True:
                try:
                    work.wait(timedelta(seconds=BEAT))
                    return
                except RuntimeError as error:
                    if work.is_completed():
                        self._connection_closed(error)
                self.look_around()
        finally:
            self._waits = False

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """Beats in any case: something is known to take its time, such as a download."""
        self._is_patient = True
        try:
            yield
        finally:
            self._is_patient = False

    def stop(self) -> None:
        """Says that this rank has ended by itself."""
        if not self._is_done and self._size > 1:
            self.note(self._rank, "has ended before the others")
        elif self._has_failed and self._rank == 0 and not _is_store_of_torchrun():
            self._wait_for_readers()
        self._is_done = True

    def _wait_for_readers(self) -> None:
        """The store ends with rank 0: who has not yet read in it why would take rank 0 for the one that was lost."""
        until = time.monotonic() + DEAD_SECONDS + BEAT
        with contextlib.suppress(RuntimeError):
            while time.monotonic() < until:
                self._look_at_beats()
                alive = [rank for rank, (_, at) in self._seen.items() if time.monotonic() - at < DEAD_SECONDS]
                if self._store.check([f"end/{rank}" for rank in alive]):
                    return
                time.sleep(BEAT / 4)

    def _go_on_beating(self) -> None:
        used, collectives, at = time.process_time(), 0, time.monotonic()
        while not self._is_done:
            time.sleep(BEAT)
            now = time.monotonic()
            works = time.process_time() - used > ALIVE_SHARE * (now - at)
            if self._waits or self._is_patient or works or self._collectives != collectives:
                used, collectives, at = time.process_time(), self._collectives, now
                with contextlib.suppress(RuntimeError):  # who waits finds out
                    self._beat()
            if self._alone:
                self._end_where_nobody_can_say_so()

    def _beat(self) -> None:
        self._beats += 1
        with self._ours:
            self._store.set(f"beat/{self._rank}", f"{self._beats} {self._collectives}")

    def fail(self, blamed: int, why: str) -> None:
        """Tells the others why this rank ends before its work is done, and for which rank's sake."""
        self._has_failed = True
        self.note(blamed, why)

    def note(self, blamed: int, why: str) -> None:
        """Writes why this rank ends; the first word stands."""
        with contextlib.suppress(RuntimeError), self._ours:
            if not self._store.check([f"end/{self._rank}"]):
                self._store.set(f"end/{self._rank}", json.dumps({"blamed": blamed, "why": why}))
        self._is_done = True

    def _uncaught(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        blamed = getattr(error, "rank", self._rank)
        self.fail(blamed, f"ended by {kind.__name__}: {error}".rstrip(": "))
        if isinstance(error, RankLost):
            print(f"rank {self._rank}: {error}", file=sys.stderr, flush=True)
            if error.rank == self._rank and error.__cause__ is not None:
                self._excepthook(type(error.__cause__), error.__cause__, error.__cause__.__traceback__)
        else:
            self._excepthook(kind, error, traceback)

    def _told_to_end(self, number: int, frame: FrameType | None) -> NoReturn:
        """By torchrun, which ends all where one has failed; or by whoever ends the job."""
        raise self._lost(until=time.monotonic() + DEAD_SECONDS + BEAT) or SystemExit(
            f"rank {self._rank}: ended by SIGTERM"
        )

    # --- the others -----------------------------------------------------------------------------------------------

    def look_around(self) -> None:
        """Raises `RankLost` where a rank has ended, or has shown no sign of life for too long."""
        lost = self._ended() or self._silent(self._patience)
        if lost:
            raise lost

    def _connection_closed(self, error: RuntimeError) -> NoReturn:
        """Finds out whose: it has said so, or its beats end."""
        lost = self._lost(until=time.monotonic() + self._patience)
        raise (lost or RankLost(f"the connection to another rank closed: {error}", self._rank)) from error

    def _lost(self, until: float) -> RankLost | None:
        while time.monotonic() < until:
            if lost := self._ended() or self._silent(DEAD_SECONDS):
                return lost
            time.sleep(BEAT / 4)
        return None

    def _ended(self) -> RankLost | None:
        """By what others have said: who was the first to end, not who ended for another's sake."""
        try:
            with self._ours:
                said = [rank for rank in self._seen if self._store.check([f"end/{rank}"])]
                notes = {rank: json.loads(self._store.get(f"end/{rank}")) for rank in said}
        except RuntimeError:
            return self._without_store()
        for rank, note in sorted(notes.items(), key=lambda each: each[0] != each[1]["blamed"]):
            if rank == note["blamed"]:
                return RankLost(f"rank {rank} of {self._size} {note['why']}; the others end with it", rank)
            if note["blamed"] != self._rank:
                return RankLost(note["why"].partition(": ")[2], note["blamed"])
        return None

    def _silent(self, seconds: float) -> RankLost | None:
        try:
            self._look_at_beats()
        except RuntimeError:
            return self._without_store()
        now = time.monotonic()
        rank, (_, at) = min(self._seen.items(), key=lambda each: each[1][1])
        if now - at < seconds:
            return None
        return RankLost(
            f"rank {rank} of {self._size} has shown no sign of life for {now - at:.0f} s: it was killed, is stopped, "
            "or hangs; the others end with it, and what was recorded can be opened",
            rank,
        )

    def _look_at_beats(self) -> None:
        with self._ours:
            others = [rank for rank in self._seen if self._store.check([f"beat/{rank}"])]
            beats = {rank: self._store.get(f"beat/{rank}") for rank in others}
        now = time.monotonic()
        for rank, beat in beats.items():
            before, at = self._seen[rank]
            self._seen[rank] = (beat, now) if beat != before else (beat, at)

    def _without_store(self) -> RankLost:
        return RankLost(f"rank 0 of {self._size}, or what started it, is gone: nobody can be met any more", 0)

    def _end_where_nobody_can_say_so(self) -> None:
        """A rank that waits for a GPU, which waits for others, cannot raise: it ends here."""
        try:
            self.look_around()
        except RankLost as lost:
            time.sleep(DEAD_SECONDS)  # it may yet come back, and say so itself
            if not self._is_done:
                print(f"rank {self._rank}: {lost}", file=sys.stderr, flush=True)
                os._exit(1)
