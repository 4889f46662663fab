"""The commands `datasets`, `datasets fetch` and `datasets inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from apviz import datasets
from apviz.cli import options
from apviz.cli.parsing import date_orders, decimal_marks
from apviz.cli.terminal import console, fail, say_notes
from apviz.datasets.tables.reading import FORMATS

sets = typer.Typer(
    invoke_without_command=True, help="List the data sets, and download or inspect one.",
    epilog=options.examples("apviz datasets", "apviz datasets inspect houses.csv"),
)  # fmt: skip


@sets.callback()
def list_datasets(context: typer.Context) -> None:
    """List the data sets."""
    if context.invoked_subcommand is not None:
        return
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for heading in ("name", "n", "d", "here", "licence", "citation"):
        fixed = heading in ("name", "n", "d", "here")
        table.add_column(heading, justify="right" if heading in ("n", "d") else "left", no_wrap=fixed)
    for card in datasets.cards().values():
        here = "yes" if datasets.is_here(card.name) else "no"
        table.add_row(card.name, f"{card.n:,}", str(card.d), here, card.licence, card.citation)
    console.print(table)
    console.print("`apviz datasets fetch NAME` downloads one; files in the folder $APVIZ_DATA are found first.")


@sets.command("fetch", epilog=options.examples("apviz datasets fetch bike", "apviz datasets fetch airquality"))
def fetch(name: Annotated[str, typer.Argument(metavar="NAME", help="Name from `apviz datasets`.")]) -> None:
    """Download a data set, and check it."""
    try:
        console.print(f"{name} is at {datasets.fetch(name)}")
    except (ValueError, OSError) as error:
        fail(error)


@sets.command(
    "inspect",
    epilog=options.examples("apviz datasets inspect houses.csv", "apviz datasets inspect houses.csv --decimal size=."),
)
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"Your table: {FORMATS}.")],
    decimal: options.Decimal = None,
    dates: options.Dates = None,
) -> None:
    """Show how apviz reads a file, what its columns hold, and what looks wrong."""
    try:
        found = datasets.inspect_table(file, decimal=decimal_marks(decimal), dates=date_orders(dates))
    except (ValueError, OSError, ImportError) as error:
        fail(error)
    console.print(
        f"{file.name}: {found.rows:,} rows; {found.text or 'column types as stored in the file'}", highlight=False
    )
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for heading in ("column", "type", "missing", "contents", "first row"):
        table.add_column(heading, justify="right" if heading == "missing" else "left")
    for column in found.columns:
        first = next(iter(found.cells(column)), "")
        table.add_row(*map(escape, (column.name, column.kind, f"{column.missing:,}", column.about, first)))
    console.print(table)
    said = [column.note for column in found.columns if column.note]
    said += [each.message for each in found.oddities()]
    said += [f"{column.question.of(column.name)}: choose {column.question.options_of(column.name)}"
             for column in found.columns if column.question]  # fmt: skip
    say_notes(said, indent="")
