"""Tasks, what comes of them, and running them in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from apviz.places import Place
from apviz.solvers.interface import Hook

T = TypeVar("T")


@dataclass(frozen=True)
class Task(Generic[T]):
    """A task of a run.

    Attributes:
        name: in words; each of a run has its own.
        run: gets the folder to write to, or None, hooks for its solves, and what all tasks of the run share; a function
            of a module, or a `partial` of one, so that it can be sent.
        needs: names of tasks, earlier in the run, whose files it reads.
    """

    name: str
    run: Callable[[Any, Sequence[Hook], Any], T]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done(Generic[T]):
    """What came of a task.

    Attributes:
        result: what it returned; None after an error.
        error: why it did not, in words.
        worker: the address of the one that it ran on last; empty for this process.
        came_back: a folder here with what it wrote, where its worker did not see the folder that was asked for; it is
            removed when the next task is asked for.
    """

    task: Task[T]
    result: T | None = None
    error: str = ""
    worker: str = ""
    came_back: Path | None = None


class Here:
    """Runs tasks in this process, one after another, with the face of a `Cluster`."""

    def run(
        self, tasks: Sequence[Task[T]], out: Place | None = None, shared: Any = None
    ) -> Generator[Done[T], None, None]:
        """Runs tasks in order, and yields what came of each; an error of one does not end the others."""
        for task in tasks:
            try:
                done = Done(task, task.run(out, (), shared))
            except (ValueError, OSError, RuntimeError, MemoryError) as error:
                done = Done(task, error=str(error))
            yield done

    def __enter__(self) -> Here:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing was begun that is to be ended."""
