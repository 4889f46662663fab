"""Bound the seconds and bytes of a case, and define a valid refusal."""

from __future__ import annotations

import os
import resource
import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import apviz

HOUSE = Path(apviz.__file__).parent
#: limits of a case: CPU seconds, and wall-clock seconds on a busy machine
SECONDS, WALL_SECONDS = 10.0, 100.0
#: limit for the growth of memory in a case
GIGABYTES = 1.0
# hard limit for additional data, so that a shared machine does not run out of memory
_MOST_GIGABYTES = 3.0
#: largest number of characters of a message
LONGEST = 1_200


class Endless(BaseException):
    """A case that takes too long; `except Exception` does not catch it."""


class TooLarge(Exception):
    """A case that took too much memory."""


@contextmanager
def bounded(seconds: float = SECONDS, gigabytes: float = GIGABYTES) -> Iterator[None]:
    """Stop the enclosed code after `seconds` processor seconds, and check its memory.

    Raises:
        Endless: after that.
        TooLarge: at the end.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise Endless(f"more than {seconds:g} s")

    before = {each: signal.signal(each, stop) for each in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    had = _forget_peak()
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + int(_MOST_GIGABYTES * 1e9), limits[1]))
    try:
        yield
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for each, handler in before.items():
            signal.signal(each, handler)
        resource.setrlimit(resource.RLIMIT_DATA, limits)
        grown = (_status("VmHWM") - had) / 1e9
        if grown > gigabytes:
            raise TooLarge(f"{grown:.1f} GB")


def _status(name: str) -> int:
    """Return the bytes of an entry of Linux's `/proc/self/status`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def _data_bytes() -> int:
    return _status("VmData")


def _forget_peak() -> int:
    """Reset the peak of the resident memory to its current value, and return that."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _status("VmRSS")


def fault_of(
    error: BaseException,
    kinds: tuple[type[BaseException], ...],
    names: Sequence[str] = (),
    *,
    may_be_long: bool = False,
) -> str:
    """Return the fault of a refusal; empty if it is one sentence, of a documented kind, that says where to look.

    Args:
        kinds: documented kinds of errors.
        may_be_long: of several lines, as scikit-learn's are.
        names: of files, settings and values, of which one must be in the sentence; none where () is given.
    """
    said = str(error)
    if isinstance(error, MemoryError):
        # apviz should raise before the allocator does
        return "" if _raised_by_apviz(error) else f"MemoryError: {said}"
    if not isinstance(error, kinds):
        return f"{type(error).__name__}: {said}"
    if not said.strip():
        return f"{type(error).__name__} without a word"
    if not may_be_long and ("\n" in said.strip() or len(said) > LONGEST):
        return f"not a sentence: {said[:200]!r}"
    if names and not any(name and name in said for name in names):
        return f"names none of {', '.join(names)}: {said}"
    return ""


def _raised_by_apviz(error: BaseException) -> bool:
    """Test whether apviz's own code raised the error."""
    lines = traceback.extract_tb(error.__traceback__)
    return bool(lines) and Path(os.path.abspath(lines[-1].filename)).is_relative_to(HOUSE)
