"""What the commands write to."""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

console = Console()
errors = Console(stderr=True)


def fail(error: Exception) -> NoReturn:
    """Says what was wrong, and ends the command."""
    errors.print(f"[red]error:[/] {escape(str(error))}", highlight=False)  # a path may hold brackets
    raise typer.Exit(2)
