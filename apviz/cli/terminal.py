"""Output streams of the commands."""

from __future__ import annotations

import contextlib
import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

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
        fail(ValueError(f"apviz {command} is of one process; of the commands, compare runs on many ranks"))


def fail(error: Exception) -> NoReturn:
    """Print an error, and end the command."""
    errors.print(f"[red]error:[/] {escape(str(error))}", highlight=False)  # a path may contain brackets
    raise typer.Exit(2)


def leave(why: str) -> NoReturn:
    """End a process whose output is closed, so that the rest is not written again at exit."""
    with contextlib.suppress(OSError):
        if why:
            errors.print(f"[red]error:[/] {escape(why)}", highlight=False)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
