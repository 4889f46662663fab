"""What the commands write to."""

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
    # a pipe on Windows takes no σ: better a sign that is not there than no answer
    if isinstance(_stream, TextIOWrapper):
        _stream.reconfigure(errors="replace")

console = Console()
errors = Console(stderr=True)


def join_ranks() -> Ranks | None:
    """Joins the ranks that torchrun has started, of which rank 0 alone writes to the terminal; None of one process."""
    from apviz import distributed

    ranks = distributed.init_if_started_by_torchrun()
    console.quiet = errors.quiet = not distributed.records()
    return ranks


def refuse_ranks(command: str) -> None:
    """Ends a command that many ranks would all run alike, and not together."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        errors.quiet = os.environ.get("RANK") != "0"
        fail(ValueError(f"apviz {command} is of one process; of the commands, compare runs on many ranks"))


def fail(error: Exception) -> NoReturn:
    """Print what was wrong, and end the command."""
    errors.print(f"[red]error:[/] {escape(str(error))}", highlight=False)  # a path may hold brackets
    raise typer.Exit(2)


def leave(why: str) -> NoReturn:
    """Ends the process where its output leads nowhere, so that what is left of it is not tried again."""
    with contextlib.suppress(OSError):
        if why:
            errors.print(f"[red]error:[/] {escape(why)}", highlight=False)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
