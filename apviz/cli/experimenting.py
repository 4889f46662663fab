"""The command `experiment`: the paper's figures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from apviz.cli import options
from apviz.cli.on_workers import asked_for
from apviz.cli.terminal import console, errors, fail, refuse_ranks
from apviz.cluster import Cluster
from apviz.experiments import EXPERIMENTS, Experiment, Options, Row
from apviz.experiments import report as experiment_report
from apviz.experiments import run as run_experiment
from apviz.gp.training.settings import TrainingProgress
from apviz.tracing import ProgressHook

EXAMPLES = options.examples(
    "apviz experiment rules --dataset china --n 1000", "apviz experiment batch-size --n 10000 --workers 2"
)


def experiment(
    name: Annotated[str, typer.Argument(metavar="NAME", help=options.among(EXPERIMENTS))],
    dataset: Annotated[str | None, options.option(options.DATA, "NAME", "Replace the paper's data set.")] = None,
    n: Annotated[
        int | None, options.option(options.DATA, "N", "Keep N training rows; default: all, as in the paper.")
    ] = None,
    seeds: Annotated[int, options.option(options.RUN, "N", "Repeat N times, with new splits and probes.")] = 1,
    device: options.Device = "auto",
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    out: Annotated[
        Path, options.option(options.OUTPUT, "FOLDER", "Write a folder for the experiment below this one.")
    ] = Path("runs/experiments"),
) -> None:
    """Recompute a figure or table of the paper, with a table next to the paper's numbers, traces and a report.

    Repeat the same command to resume an interrupted run.
    """
    refuse_ranks("experiment")
    try:
        if name not in EXPERIMENTS:
            raise ValueError(f"the experiment must be one of {', '.join(EXPERIMENTS)}, got {name!r}")
        # progress lines overwrite themselves in a terminal; in a file, every solve would leave one
        hooks = (*([ProgressHook(errors, transient=True)] if errors.is_terminal else []), TrainingProgress(errors))
        chosen, options = EXPERIMENTS[name], Options(n, device, seeds, out, dataset, hooks)
        with asked_for(scheduler, workers) as cluster:
            done = _run_cells(chosen, options, cluster)
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        fail(error)
    raise typer.Exit(done)


def _run_cells(experiment: Experiment, options: Options, cluster: Cluster | None) -> int:
    """Run the cells, show the tables and write the report, also after Ctrl-C; return the exit status."""
    rows, keys, cut = dict[str, Row](), [cell.key for cell in experiment.cells(options)], None
    console.print(f"[bold]{experiment.title}[/] (paper, {experiment.source})", highlight=False)
    try:
        for cell, row in run_experiment(experiment, options, cluster):
            rows[cell.key] = row
            errors.print(f"{len(rows)} of {len(keys)}: {cell.key}", highlight=False)
    except KeyboardInterrupt:
        cut = 130
        errors.print("interrupted: the table so far; repeat the command to resume")
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        if not rows:
            raise
        cut = 2
        errors.print(f"[red]failed:[/] {escape(str(error))}. Finished cells are kept; table so far", highlight=False)
    # workers return them in order of completion
    rows = {key: rows[key] for key in keys if key in rows}
    if rows:
        for table in experiment.tables(rows, options):
            console.print(experiment_report.TerminalTable(table))
            console.print(table.note, highlight=False, markup=False)
        written = experiment_report.write_experiment_report(experiment, rows, options)
        console.print(f"traces and report: {written}", highlight=False, markup=False)
    return cut or 0
