"""Runs entrants on systems, and makes the page; cells that are there are not run again.

python -m benchmarks.leaderboard run [--entrant NAME_OR_FILE]... [--system NAME]... [--seeds 5] [--limit 60]
                                     [--within SECONDS] [--n 4000] [--again]
python -m benchmarks.leaderboard page
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.leaderboard.cells import measure
from benchmarks.leaderboard.entrants import NAMES, entrant
from benchmarks.leaderboard.systems import SYSTEMS, N
from benchmarks.machine import RESULTS, describe

FOLDER = RESULTS / "leaderboard"

app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)


def name_of(given: str) -> str:
    """What an entrant is called in the table."""
    return entrant(given).name


def read(path: Path) -> dict[str, Any]:
    """The cells of a file of results, empty where there is none."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"cells": {}}
    return found


@app.command()
def run(
    entrants: Annotated[list[str] | None, typer.Option("--entrant", help="A name, or file.py:ClassName.")] = None,
    systems: Annotated[list[str] | None, typer.Option("--system", help="All where none is named.")] = None,
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    limit: Annotated[float, typer.Option(min=1.0, help="Seconds of one task.")] = 60.0,
    within: Annotated[float, typer.Option(help="Seconds after which no cell is begun.")] = float("inf"),
    n: Annotated[int, typer.Option(min=200)] = N,
    folder: Annotated[Path, typer.Option(help="Of the results.")] = FOLDER,
    again: Annotated[bool, typer.Option(help="Also what is there already.")] = False,
) -> None:
    """Runs what is not there yet."""
    unknown = sorted(set(systems or ()) - set(SYSTEMS))
    if unknown:
        raise typer.BadParameter(f"there is no system {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    for seed in range(seeds):
        for system in systems or SYSTEMS:
            path = folder / f"{system.replace('/', '-')}.json"
            for given in entrants or NAMES:
                kept, key = read(path), f"{name_of(given)} | seed {seed}"
                if key in kept["cells"] and not again:
                    continue
                if time.monotonic() - started > within:
                    typer.echo("time is up; run it again to go on")
                    return
                cell = measure(given, system, n, seed, limit) | {"machine": describe()}
                kept["cells"][key] = cell
                path.write_text(json.dumps({"system": system, **kept}, indent=1, ensure_ascii=False) + "\n")
                reached = ", ".join(f"{tol}: {each['seconds']:.3g} s" for tol, each in cell["reached"].items())
                typer.echo(f"{system} | {key}: {reached}; {cell.get('failure', 'all')}")


@app.command()
def page() -> None:
    """Makes the page of all results."""
    from benchmarks.leaderboard.page import make

    typer.echo(make(FOLDER))


if __name__ == "__main__":
    app()
