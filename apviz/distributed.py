"""Ranks: the processes of one solve over torch.distributed, and the counts of their messages.

Every rank runs the same program on the same data and takes part in every call of apviz. `torchrun` starts the ranks,
and `init` connects them. `operators.distributed` describes how they share the work. A rank that fails or is killed
ends the others: its connections close, and their next collective raises `RankLost`. A rank that hangs ends them after
the timeout of torch.distributed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import HashStore, PrefixStore, Store, rendezvous  # type: ignore[attr-defined]

T = TypeVar("T")

#: Total size over all ranks up to which gloo gathers in a third of the time of a sum.
GATHERED_BYTES: Final = 2**17
CONNECT_TIMEOUT: Final = timedelta(minutes=5)
#: Key of the reason why a rank failed, for the others.
_FAILURE: Final = "failure"

_current: Ranks | None = None


class RankLost(Exception):
    """Raised on all ranks when one of them has failed, was killed, or does not answer."""


@dataclass
class Traffic:
    """Collectives in which a rank has taken part: broadcasts, sums and gathers, and the bytes of their payload."""

    messages: int = 0
    bytes: int = 0


def init(*, backend: str = "auto", timeout: float = 1800.0) -> Ranks:
    """Connect this process to the others that `torchrun` has started; solves then share their work.

    Call it first, on every rank; a second call returns the same. Without `torchrun` there is one rank.

    Args:
        backend: `gloo` for processors; `nccl` for GPUs, with each rank on the GPU of its local number; `auto` for
            `nccl` if there is a GPU.
        timeout: Seconds after which waiting ranks give a rank up; longer than any download or set-up that one rank does
            alone.

    Raises:
        ValueError: An unknown backend, a timeout that is not positive, or fewer GPUs than ranks on this machine.

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
    if not timeout > 0:
        raise ValueError(f"timeout must be positive, in seconds, got {timeout!r}")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if backend == "nccl":
        if local >= torch.cuda.device_count():
            raise ValueError(
                f"there are {torch.cuda.device_count()} GPUs for {on_this_machine()} ranks on this machine; use "
                "--nproc-per-node with one rank a GPU, or backend='gloo'"
            )
        torch.cuda.set_device(local)
    if "RANK" in os.environ:
        store, rank, size = next(rendezvous("env://", timeout=CONNECT_TIMEOUT))
    else:
        store, rank, size = HashStore(), 0, 1
    dist.init_process_group(
        backend, store=PrefixStore("torch", store), rank=rank, world_size=size, timeout=timedelta(seconds=timeout)
    )
    _current = Ranks(PrefixStore("apviz", store), rank, size, backend, timeout)
    if size > 1 and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _current.end_on_signal)
    return _current


def init_if_started_by_torchrun() -> Ranks | None:
    """Connect if `torchrun` has started more than one process; otherwise return None."""
    return init() if int(os.environ.get("WORLD_SIZE", "1")) > 1 else current()


def current() -> Ranks | None:
    """Return the ranks of this job, or None if this is the only process."""
    return _current if _current is not None and _current.size > 1 else None


def records() -> bool:
    """Test whether this process writes traces and prints; of several ranks, only rank 0 does."""
    return _current is None or _current.rank == 0


def on_this_machine() -> int:
    """Return the number of ranks that share the memory of this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def fail(error: BaseException) -> None:
    """End all ranks because of an error on this one, which does not reach the collectives they wait in.

    Raises:
        RankLost: Chained to the error, if there are several ranks; not for Ctrl-C, or if another rank was lost before.
    """
    ranks = current()
    if ranks is None:
        return
    is_own = not isinstance(error, RankLost)
    why = f"rank {ranks.rank} of {ranks.size} ended by {type(error).__name__}: {error}".rstrip(": ")
    ranks.disconnect(why if is_own else "")
    if isinstance(error, Exception) and is_own:
        raise RankLost(f"{why}; the other ranks end too") from error


def finish() -> None:
    """Disconnect; for scripts that continue in single processes."""
    global _current  # noqa: PLW0603  # a process has one
    if _current is not None:
        if _current.size > 1 and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _current = None
        if dist.is_initialized():
            dist.destroy_process_group()


class Ranks:
    """Ranks of a job, seen from one of them, with the collectives in which it has taken part."""

    def __init__(self, store: Store, rank: int, size: int, backend: str, timeout: float) -> None:
        self.rank, self.size, self.backend, self.timeout = rank, size, backend, timeout
        self.traffic = Traffic()
        self._store, self._is_ending = store, False

    def sum_(self, a: Tensor) -> Tensor:
        """Add `a`, contiguous, over all ranks, in place; the result is equal on all ranks to the last bit."""
        if self.backend == "gloo" and self.size > 1 and a.nbytes * self.size <= GATHERED_BYTES:
            parts = a.new_empty(self.size, *a.shape)
            self._run(lambda: dist.all_gather(list(parts), a), a.nbytes)
            torch.sum(parts, 0, out=a)
        else:
            self._run(lambda: dist.all_reduce(a), a.nbytes)
        return a

    def broadcast_(self, a: Tensor, source: int) -> Tensor:
        """Overwrite `a`, contiguous, with that of one rank."""
        self._run(lambda: dist.broadcast(a, source), a.nbytes)
        return a

    def reduce_(self, a: Tensor, destination: int) -> Tensor:
        """Add `a`, contiguous, over all ranks, on one of them; on the others the content becomes undefined."""
        self._run(lambda: dist.reduce(a, destination), a.nbytes)
        return a

    def gathered(self, a: Tensor) -> list[Tensor]:
        """Return the `a` of every rank; contiguous and of the same shape on all."""
        found = [torch.empty_like(a) for _ in range(self.size)]
        self._run(lambda: dist.all_gather(found, a), a.nbytes * self.size)
        return found

    def agreed(self, value: T) -> T:
        """Return the value of rank 0; for choices that depend on measurements, such as free memory."""
        device = torch.device("cuda", torch.cuda.current_device()) if self.backend == "nccl" else torch.device("cpu")
        content = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8).to(device)
        length = self.broadcast_(torch.tensor(len(content), device=device), 0)
        if self.rank:
            content = torch.empty(int(length), dtype=torch.uint8, device=device)
        self.broadcast_(content, 0)
        found: T = pickle.loads(content.cpu().numpy().tobytes())  # from rank 0 of the same program
        return found

    def meet(self) -> None:
        """Wait until all ranks have called it."""
        self.sum_(torch.zeros(1, device="cuda" if self.backend == "nccl" else "cpu"))

    @contextlib.contextmanager
    def in_turn(self) -> Iterator[None]:
        """Let rank 0 run the block first, then the others, which find its results in caches."""
        if self.rank:
            self.meet()
        yield
        if not self.rank:
            self.meet()

    def disconnect(self, why: str) -> None:
        """Close the connections, so that the other ranks end; the first reason is stored for them."""
        self._is_ending = True
        with contextlib.suppress(RuntimeError):  # the store may have ended with rank 0
            if why:
                self._store.compare_set(_FAILURE, "", why)
        # with NCCL the connections close with the process, because closing them may wait for the other ranks
        if self.backend == "gloo" and dist.is_initialized():
            dist.destroy_process_group()

    def end_on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raise `RankLost` on SIGTERM, which torchrun sends if another rank has failed, so that traces are complete."""
        if not self._is_ending:  # else the traces are being completed now
            raise self._lost("received SIGTERM, which torchrun sends if another rank has failed")

    def _run(self, collective: Callable[[], Any], size: int) -> None:
        self.traffic.messages += 1
        self.traffic.bytes += size
        if self.size == 1:
            return
        try:
            collective()
        except (RuntimeError, ValueError) as error:  # ValueError: this rank has disconnected before
            cause = str(error).partition(". ")[0]
            raise self._lost(
                "lost the connection to another rank, which was killed, has ended, or did not answer for "
                f"{self.timeout:g} s ({cause})"
            ) from error

    def _lost(self, what: str) -> RankLost:
        self._is_ending = True
        with contextlib.suppress(RuntimeError):
            if self._store.check([_FAILURE]):
                return RankLost(f"{self._store.get(_FAILURE).decode()}; the other ranks end too")
        return RankLost(f"rank {self.rank} of {self.size} {what}; see the output of the others, or torchrun's report")
