"""Run entrants on systems, and make the page; existing cells are not run again.

python -m benchmarks.leaderboard run [--entrant NAME_OR_FILE]... [--system NAME]... [--n 4000] [--seeds 5]
                                     [--limit 10] [--tightest 0.01] [--loosest 0.01] [--within SECONDS]
                                     [--core NUMBER] [--again] [--scheduler tcp://... | --workers N]
python -m benchmarks.leaderboard page | readme
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import time
from pathlib import Path
from typing import Annotated, Any

import psutil
import torch
import typer

from apviz.cluster import Cluster, Here, Task
from apviz.files import file_made_whole
from benchmarks.leaderboard.cells import TOLERANCES, default_core, measure
from benchmarks.leaderboard.entrants import entrant, has_higp, names
from benchmarks.leaderboard.plan import LIMIT, Asked, some, whole
from benchmarks.leaderboard.systems import SYSTEMS, Given, N
from benchmarks.machine import RESULTS, describe

FOLDER = RESULTS / "leaderboard"
INTERRUPTED = 130
# rows of a system of which only the inputs are counted
FEW = 200

app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)


def read(path: Path) -> dict[str, Any]:
    """Return the cells of a file of results, empty if there is none."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"cells": {}}
    return found


def file_name(system: str) -> str:
    """Return the name of a system's file of results, valid on any file system."""
    plain = system.replace("σ²", "noise").replace("×", "x")
    return re.sub(r"[^a-zA-Z0-9.]+", "-", plain).strip("-") + ".json"


@functools.lru_cache(maxsize=1)
def built(system: str, n: int, seed: int) -> Given:
    """Build a system, and cache it for the next entrants."""
    return SYSTEMS[system](n, seed)


def key_of(asked: Asked) -> str:
    """Return the key of a cell among those of its system."""
    return f"{entrant(asked.entrant).name} | n {asked.n} | seed {asked.seed}"


def takes(asked: Asked) -> bool:
    """Test whether a system has no more inputs than the entrant takes."""
    most = getattr(entrant(asked.entrant), "most_inputs", None)
    return most is None or built(asked.system, FEW, 0).x.shape[1] <= most


def is_missing(asked: Asked, folder: Path) -> bool:
    """Test whether a cell is missing, or was stopped by a limit that is now larger."""
    before = read(folder / file_name(asked.system))["cells"].get(key_of(asked))
    return before is None or _asks_for_more(asked, before)


def measured(asked: Asked, core: int | None, out: object = None, hooks: object = (), shared: object = None) -> dict:
    """Measure a cell, in this process or on a worker; core None: the last available core, or a worker's own."""
    given = built(asked.system, asked.n, asked.seed)
    tolerances = [tol for tol in TOLERANCES if asked.tightest <= tol <= asked.loosest]
    core = own_core() if core is None else core
    cell = measure(asked.entrant, given, asked.n, asked.seed, asked.limit, core=core, tolerances=tolerances)
    return {
        "entrant": entrant(asked.entrant).name, "n": asked.n, "seed": asked.seed, "tightest": asked.tightest,
        "loosest": asked.loosest, **cell,
        "machine": describe() | {"threads": 1},
    }  # fmt: skip


def own_core() -> int:
    """Return a core on which no other worker of this machine measures, if Dask has numbered them."""
    if not hasattr(os, "sched_getaffinity"):
        return default_core()
    with contextlib.suppress(ImportError, ValueError):
        from distributed import get_worker

        number, cores = get_worker().name, sorted(os.sched_getaffinity(0))
        return cores[-1 - number % len(cores)] if isinstance(number, int) else default_core()
    return default_core()


def keep(asked: Asked, cell: dict[str, Any], folder: Path) -> None:
    """Add a cell to the file of results."""
    path, key = folder / file_name(asked.system), key_of(asked)
    kept = read(path)
    kept["cells"][key] = cell
    with file_made_whole(path) as file:
        file.write((json.dumps({"system": asked.system, **kept}, indent=1, ensure_ascii=False) + "\n").encode())
    reached = ", ".join(f"{tol}: {each['seconds']:.3g} s" for tol, each in cell["reached"].items())
    typer.echo(f"{asked.system} | {key}: {reached or '–'}; {cell.get('failure', 'all')}")


def _asks_for_more(asked: Asked, cell: dict[str, Any]) -> bool:
    """Test whether the request has more time, or a tighter tolerance, than the limit that ended a cell."""
    if "failure" in cell:
        return bool(cell["failure"] == "limit" and cell["limit"] < asked.limit)
    return bool(asked.tightest < cell["tightest"] or asked.loosest > cell.get("loosest", 1.0))


@app.command()
def run(
    entrants: Annotated[list[str] | None, typer.Option("--entrant", help="A name, or file.py:ClassName.")] = None,
    systems: Annotated[list[str] | None, typer.Option("--system", help="All where none is named.")] = None,
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    limit: Annotated[float, typer.Option(min=1.0, help="Processor seconds of one task.")] = LIMIT,
    within: Annotated[float, typer.Option(help="Seconds after which no cell is begun.")] = float("inf"),
    n: Annotated[int, typer.Option(min=200)] = N,
    tightest: Annotated[float, typer.Option(help="Skip smaller tolerances.")] = 0.0,
    loosest: Annotated[float, typer.Option(help="Skip larger tolerances.")] = 1.0,
    core: Annotated[int | None, typer.Option(help="Run on this core; default: the last one available.")] = None,
    folder: Annotated[Path, typer.Option(help="Folder of the results.")] = FOLDER,
    again: Annotated[bool, typer.Option(help="Run existing cells again too.")] = False,
    scheduler: Annotated[
        str | None, typer.Option(help="Run on this Dask scheduler, one worker a machine: tcp://….")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Run on N local workers instead, one core each.")] = None,
) -> None:
    """Run the missing cells: all that the page shows, or the named entrants, systems, seeds or rows."""
    unknown = sorted(set(systems or ()) - set(SYSTEMS))
    if unknown:
        raise typer.BadParameter(f"there is no system {', '.join(unknown)}; there are {', '.join(SYSTEMS)}")
    cores = psutil.Process().cpu_affinity() if hasattr(psutil.Process, "cpu_affinity") else None
    if core is not None and cores is not None and core not in cores:
        raise typer.BadParameter(f"core {core} may not be used; there are {', '.join(map(str, cores))}")
    torch.set_num_threads(1)
    if not entrants and not has_higp():
        typer.echo("HiGP is left out, which is not installed: pip install higp")
    named = entrants or systems or seeds > 1 or n != N
    chosen = some(entrants or names(), systems or tuple(SYSTEMS), n, range(seeds), limit, tightest, loosest)
    todo = chosen if named else whole(limit)
    missing = [asked for asked in todo if (again or is_missing(asked, folder)) and takes(asked)]
    of = {f"{number} {asked.system} {asked.entrant}": asked for number, asked in enumerate(missing)}
    started, failed = time.monotonic(), False
    # tasks start a process for each cell
    alone = scheduler is None and workers is None
    with Here() if alone else Cluster(scheduler, workers=workers, have_children=True) as place:
        tasks = [Task(name, functools.partial(measured, asked, core)) for name, asked in of.items()]
        try:
            with contextlib.closing(place.run(tasks)) as run_there:
                for done in run_there:
                    if done.error:
                        failed = True
                        typer.echo(f"{done.task.name}: failed, {done.error}")
                    else:
                        keep(of[done.task.name], done.result, folder)
                    if time.monotonic() - started > within:
                        typer.echo("time is up; run it again to continue")
                        return
        except KeyboardInterrupt:
            typer.echo("stopped; what is measured is kept, run it again to continue")
            raise typer.Exit(INTERRUPTED) from None
    if failed:
        raise typer.Exit(1)
    typer.echo("all is measured")


@app.command()
def page() -> None:
    """Makes the page of all results."""
    from benchmarks.leaderboard.page import make

    typer.echo(make(FOLDER))


@app.command()
def readme() -> None:
    """Writes the section of `benchmarks/README.md` on the field."""
    from benchmarks.leaderboard.readme import write

    write(FOLDER)


if __name__ == "__main__":
    app()
