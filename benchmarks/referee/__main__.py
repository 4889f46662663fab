"""Run entrants of the referee, and make its page; existing results are not measured again.

python -m benchmarks.referee [--data NAME]... [--n 1000]... [--budget 10]... [--seed 0]... [--track same|own]
                             [--entrant NAME_OR_FILE]... [--within SECONDS] [--again]
python -m benchmarks.referee page | readme | advice
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from apviz.datasets import DatasetUnavailable
from benchmarks.machine import describe, version
from benchmarks.referee.entrants import ENTRANTS, missing
from benchmarks.referee.reference import reference
from benchmarks.referee.results import FOLDER, Asked, keep, path_of, read
from benchmarks.referee.running import Ended, run
from benchmarks.referee.scores import distance, scores
from benchmarks.referee.task import DATA, built

TRACKS = ("same", "own")
BUDGETS = (1.0, 10.0, 60.0, 600.0)
#: seconds after which no run is begun: a part takes less than ten minutes
WITHIN = 480.0
#: share of a budget before which no entrant asks whether it is used
FIRST_LOOK = 0.5
LIBRARIES = ("apviz", "torch", "gpytorch", "gpboost", "lightgbm", "scikit-learn")
INTERRUPTED = 130

app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def measure(
    context: typer.Context,
    data: Annotated[list[str] | None, typer.Option(help="Data set; all if not given.")] = None,
    n: Annotated[list[int] | None, typer.Option(min=100, help="Training rows, at most.")] = None,
    budget: Annotated[list[float] | None, typer.Option(help="Processor seconds; 1, 10 and 60 if not given.")] = None,
    seed: Annotated[list[int] | None, typer.Option(min=0)] = None,
    track: Annotated[list[str] | None, typer.Option(help="same, own; both if not given.")] = None,
    entrant: Annotated[list[str] | None, typer.Option(help="A name, or file.py:ClassName; all if not given.")] = None,
    within: Annotated[float, typer.Option(help="Seconds after which no run is begun.")] = WITHIN,
    again: Annotated[bool, typer.Option(help="Measure existing results again.")] = False,
    core: Annotated[int | None, typer.Option(help="Run on this core; default: the last one available.")] = None,
    folder: Annotated[Path, typer.Option(help="Folder of the results.")] = FOLDER,
) -> None:
    """Measure what is missing: small budgets first, one data set after another."""
    if context.invoked_subcommand:
        return
    for given, accepted, what in ((data, DATA, "data set"), (track, TRACKS, "track")):
        if unknown := sorted(set(given or ()) - set(accepted)):
            raise typer.BadParameter(f"there is no {what} {', '.join(unknown)}; there are {', '.join(accepted)}")
    torch.set_num_threads(1)
    names = [name for name in entrant or ENTRANTS if not _is_left_out(name)]
    began = time.monotonic()
    try:
        for rows, number, seconds, name in itertools.product(
            n or [1_000], seed or [0], budget or BUDGETS[:3], data or DATA
        ):
            asked = [Asked(each, name, which, rows, number, seconds) for each in names for which in track or TRACKS]
            for one in asked if again else _todo(asked, folder):
                if time.monotonic() - began > within:
                    typer.echo("time is up; run it again to continue")
                    return
                try:
                    _measure(one, core, folder)
                except DatasetUnavailable as error:
                    typer.echo(f"{name} is left out: {error}")
                    break
    except KeyboardInterrupt:
        typer.echo("stopped; what is measured is kept, run it again to continue")
        raise typer.Exit(INTERRUPTED) from None
    typer.echo("all is measured")


def _is_left_out(name: str) -> bool:
    package = missing(name)
    if package:
        typer.echo(f"{name} is left out: {package} is not installed (pip install 'apviz[field]')")
    return bool(package)


def _todo(asked: list[Asked], folder: Path) -> Iterator[Asked]:
    """Yield the runs that have no result."""
    for one in asked:
        if one.key not in read(path_of(one.data, folder))["cells"]:
            yield one


def _measure(asked: Asked, core: int | None, folder: Path) -> None:
    """Measure a run and keep it; of an entrant that ended by itself early in both budgets one run is enough."""
    cell = _of_another_budget(asked, folder)
    if cell is None:
        problem = built(asked.data, asked.n, asked.seed)
        # before the entrant runs, so that nothing else of this process runs next to it
        exact = reference(asked.data, asked.n, asked.seed) if asked.track == "same" else None
        cell = cell_of(asked, run(asked.entrant, problem.of_track(asked.track), asked.budget, core=core), exact)
    machine = describe() | {"versions": {name: version(name) for name in LIBRARIES}}
    keep(asked, cell, machine, folder)
    found = f"NLL {cell['scores']['nll']:.3f} after {cell['seconds']:.2f} s" if "scores" in cell else cell["outcome"]
    typer.echo(f"{asked.data} | {asked.key}: {found}")


def _of_another_budget(asked: Asked, folder: Path) -> dict[str, Any] | None:
    """Return the result with another budget, if this one would not change it."""
    for cell in read(path_of(asked.data, folder))["cells"].values():
        if any(cell[name] != getattr(asked, name) for name in ("entrant", "track", "n", "seed")):
            continue
        is_settled = cell["is_complete"] and "seconds" in cell and cell["seconds"] <= FIRST_LOOK * asked.budget
        if is_settled or cell["outcome"].startswith("does not apply"):
            return cell | {"budget": asked.budget, "measured with": cell.get("measured with", cell["budget"])}
    return None


def cell_of(asked: Asked, ended: Ended, exact: Any) -> dict[str, Any]:
    """Return the result of a run: how it ended, and where there is a prediction its scores."""
    problem = built(asked.data, asked.n, asked.seed)
    cell: dict[str, Any] = {
        "entrant": asked.entrant, "data": asked.data, "track": asked.track, "n": asked.n, "seed": asked.seed,
        "budget": asked.budget, "rows": len(problem.task.y), "inputs": problem.task.x.shape[1],
        "test rows": len(problem.targets), "outcome": ended.outcome, "is_complete": ended.is_complete,
    }  # fmt: skip
    if ended.note:
        cell["note"] = ended.note
    if ended.prediction is None:
        return cell
    try:
        found = scores(ended.prediction, problem.targets)
    except ValueError as error:
        return cell | {"outcome": f"error: {error}"}
    assert ended.seconds is not None and ended.wall is not None and ended.memory is not None  # of the prediction
    cell |= {"seconds": round(ended.seconds, 3), "wall": round(ended.wall, 3), "memory": ended.memory}
    cell["scores"] = _rounded(found)
    if exact is not None:
        prediction, certificate = exact
        cell |= {"distance": _rounded(distance(ended.prediction, prediction)), "certificate": _rounded(certificate)}
    return cell


def _rounded(found: Any) -> Any:
    """Round all numbers to five digits."""
    if isinstance(found, dict):
        return {name: _rounded(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_rounded(value) for value in found]
    return float(f"{found:.5g}") if isinstance(found, float) else found


@app.command()
def page() -> None:
    """Make the page of all results."""
    from benchmarks.referee.page import make

    typer.echo(make(FOLDER))


@app.command()
def readme() -> None:
    """Write the table of the project's README."""
    from benchmarks.referee.readme import write

    write(FOLDER)


@app.command()
def advice() -> None:
    """Write what the advice on models is learned from, and judge it."""
    from benchmarks.referee.advice import write

    typer.echo(write(FOLDER))


if __name__ == "__main__":
    app()
