"""The command `advise`: which method, or which model, before anything is solved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from apviz import comparison
from apviz.advice import Advice, ModelAdvice, advise_models
from apviz.advice import advise as advise_on
from apviz.cli import options
from apviz.cli.parsing import floats
from apviz.cli.results import present, say, table_of
from apviz.cli.systems import dtype_named, load_data, make_system, say_data_notes
from apviz.cli.terminal import console, errors, fail, refuse_ranks
from apviz.duplicates import count_distinct
from apviz.tracing import ProgressHook

EXAMPLES: Final = options.examples(
    "apviz advise airquality --n 14000 --solve --out runs/advised",
    "apviz advise houses.csv --target price --minutes 5",
)


def advise(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=options.SOURCE)],
    target: options.Target = None,
    inputs: options.Inputs = None,
    ids: options.Ids = "keep",
    missing: options.Missing = "drop",
    decimal: options.Decimal = None,
    dates: options.Dates = None,
    duplicates: options.Duplicates = "merge",
    n: options.Rows = None,
    seed: options.Seed = 0,
    kernel: options.Kernel = None,
    lengthscale: options.Lengthscale = None,
    outputscale: options.Outputscale = None,
    noise: options.Noise = None,
    rhs: options.RightHandSides = 1,
    tol: options.Tolerance = 1e-2,
    max_epochs: options.MaxEpochs = 1000,
    dtype: options.Dtype = "float32",
    device: options.Device = "auto",
    minutes: Annotated[
        float | None,
        options.option(options.RUN, "MINUTES", "Recommend a model too, for this many minutes of a core."),
    ] = None,
    thorough: Annotated[
        bool,
        options.option(options.RUN, None, "Test every method, even if that takes as long as a solve.", "--thorough"),
    ] = False,
    solve: Annotated[bool, options.option(options.RUN, None, "Solve with the advised method.", "--solve")] = False,
    out: Annotated[
        Path, options.option(options.OUTPUT, "FOLDER", "Write the trace and the report of --solve here.")
    ] = Path("runs"),
) -> None:
    """Recommend a method, and forecast the time and memory of each, before you solve."""
    refuse_ranks("advise")
    try:
        precision, scales = dtype_named(dtype), (kernel, floats(lengthscale, "--lengthscale"), outputscale, noise)
        columns: Any = {"inputs": inputs, "ids": ids, "missing": missing, "decimal": decimal, "dates": dates}
        data = load_data(dataset, target, n, seed, precision, duplicates, **columns)
        settings = {"rhs": rhs, "seed": seed, "dtype": precision, "device": device}
        chosen, system, _ = make_system(data, scales, duplicates, **settings)
        if minutes is not None:
            rows = len(data.train_y)
            _say_model(advise_models(rows, system.d, minutes=minutes, distinct=count_distinct(data.train_x)))
        advice = advise_on(system, tol=tol, max_epochs=max_epochs, seed=seed, thorough=thorough)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        fail(error)
    console.print(f"{advice.system}, σ² = {chosen.noise:.3g}, to {tol:g}", highlight=False, markup=False)
    say_data_notes(data, system)
    _say_advice(advice)
    if solve:
        progress = advice.progress()
        shown = ProgressHook(errors, also=lambda: progress.words)
        recording = comparison.Recording(data.for_comparison(), chosen.mean)
        outcomes = comparison.compare(system, [advice.best.solver], out, recording, [progress, shown])
        raise typer.Exit(present(outcomes, out))


def _say_advice(advice: Advice) -> None:
    """Print which method to take, and the forecasts of all."""
    say(advice.headline, advice.reason)
    console.print(table_of(advice.rows()))
    for each in advice.alternatives:
        console.print(each.sentence, highlight=False, markup=False)
    for sentence in (*advice.left_out, advice.origin):
        console.print(sentence, highlight=False, markup=False)


def _say_model(advice: ModelAdvice) -> None:
    """Print which model to fit, and a table of all."""
    say(advice.headline, advice.reason, advice.action)
    console.print(table_of(advice.rows()))
    for name, why in advice.left_out.items():
        console.print(f"{name} was left out: it {why}.", highlight=False, markup=False)
    console.print(f"{advice.origin}\n", highlight=False, markup=False)
