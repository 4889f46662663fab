"""Output streams of the commands."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from apviz.distributed import Ranks

for _stream in (sys.stdout, sys.stderr):
    # a pipe on Windows rejects σ; a replacement character is better than an error
    if isinstance(_stream, TextIOWrapper):
        _stream.reconfigure(errors="replace")

console = Console()
errors = Console(stderr=True)


def join_ranks() -> Ranks | None:
    """Join the ranks started by torchrun; only rank 0 writes to the terminal. Return None for a single process."""
    from apviz import distributed

    ranks = distributed.init_if_started_by_torchrun()
    console.quiet = errors.quiet = not distributed.records()
    return ranks


def refuse_ranks(command: str) -> None:
    """End a command that several ranks would each run alone instead of together."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        errors.quiet = os.environ.get("RANK") != "0"
        fail(ValueError(f"apviz {command} runs in one process; only apviz compare runs on many ranks"))


def say_notes(notes: Iterable[str], indent: str = "  ") -> None:
    """Print what was found in a table or done to it, a sentence a line, with the word that leaves out an ID."""
    from apviz.datasets.tables.oddities import NUMBERS_ROWS

    for note in notes:
        hint = " (--ids drop)" if NUMBERS_ROWS in note and "left out" not in note else ""
        console.print(f"{indent}{note}{hint}", highlight=False, markup=False)


def fail(error: Exception) -> NoReturn:
    """Print an error, and end the command."""
    errors.print(f"[red]error:[/] {escape(str(error))}", highlight=False)  # a path may contain brackets
    raise typer.Exit(2)


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each warning as one line without the place in the code, and only once if it returns with other numbers."""
    said = set[str]()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        words = re.sub(r"\d[\d.,e+−-]*", "", str(message))
        if words not in said:
            said.add(words)
            errors.print(f"[yellow]warning:[/] {escape(str(message))}", highlight=False)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def interruptible(path: Path) -> Iterator[None]:
    """End the command on Ctrl-C, and say whether its file exists. Files are complete or absent."""
    before = path.stat().st_mtime_ns if path.exists() else None
    try:
        yield
    except KeyboardInterrupt:
        after = path.stat().st_mtime_ns if path.exists() else None
        what = "nothing was written" if before == after else f"{path} is complete"
        errors.print(f"interrupted: {what}", highlight=False, markup=False)
        raise typer.Exit(130) from None


@contextlib.contextmanager
def writing_one_file(command: str, out: Path) -> Iterator[None]:
    """Run the body of a command that writes one file: errors and warnings are lines, and several ranks are refused."""
    refuse_ranks(command)
    # the line of the status says how far a solve is, and messages of training have σ² in scaled units
    logging.getLogger("apviz").setLevel(logging.WARNING)
    with warnings_as_lines(), interruptible(out):
        try:
            yield
        except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
            fail(error)


def check_replaceable(path: Path, force: bool, is_ours: Callable[[Path], bool], ours: str) -> None:
    """Refuse a file that cannot be written later, before hours of work.

    Args:
        is_ours: whether `--force` may replace an existing file.
        ours: what such a file is, in words.

    Raises:
        OSError: the file exists and must not be replaced, or its folder cannot be written.
    """
    if os.path.lexists(path):
        if not is_ours(path):
            raise FileExistsError(f"{path} exists and is not {ours}; choose another --out")
        if not force:
            raise FileExistsError(f"{path} exists; replace it with --force, or choose another --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path.parent} cannot be written; choose another --out")


def leave(why: str) -> NoReturn:
    """End a process whose output is closed, so that the rest is not written again at exit."""
    with contextlib.suppress(OSError):
        if why:
            errors.print(f"[red]error:[/] {escape(why)}", highlight=False)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
