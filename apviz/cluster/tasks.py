"""Tasks, their results, and a runner in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from apviz.places import Place
from apviz.solvers.interface import Hook

T = TypeVar("T")


@dataclass(frozen=True)
class Task(Generic[T]):
    """A task of a run.

    Attributes:
        name: in words; unique in its run.
        run: gets the folder to write to, or None, hooks for its solves, and what all tasks of the run share; a function
            of a module, or a `partial` of one, so that it can be sent. It returns what JSON can hold.
        needs: names of earlier tasks of the run whose files it reads.
    """

    name: str
    run: Callable[[Any, Sequence[Hook], Any], T]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done(Generic[T]):
    """A task that has ended.

    Attributes:
        result: what it returned, as JSON holds it: tuples are lists; None after an error.
        error: what went wrong, in words; empty if nothing did.
        worker: the address of the worker that it ran on last; empty for this process.
        came_back: a folder here with what it wrote, if its worker does not see the folder of the run; removed when the
            next task is requested.
    """

    task: Task[T]
    result: T | None = None
    error: str = ""
    worker: str = ""
    came_back: Path | None = None


class Here(contextlib.nullcontext["Here"]):
    """Runs tasks in this process, one after another, with the interface of a `Cluster`."""

    def __init__(self) -> None:
        super().__init__(self)

    def run(
        self, tasks: Sequence[Task[T]], out: Place | None = None, shared: Any = None
    ) -> Generator[Done[T], None, None]:
        """Run tasks in order, and yield the result of each; an error of one does not end the others."""
        for task in tasks:
            try:
                done = Done(task, task.run(out, (), shared))
            except (ValueError, OSError, RuntimeError, MemoryError) as error:
                done = Done(task, error=str(error))
            yield done
