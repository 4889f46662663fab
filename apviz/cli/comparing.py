"""The command `compare`: one system, many methods."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from apviz import comparison, datasets
from apviz.advice import advise as advise_on
from apviz.advice import can_forecast
from apviz.advice.forecast import in_words
from apviz.cli import options
from apviz.cli.on_workers import asked_for, solve_on
from apviz.cli.parsing import floats, integers, words
from apviz.cli.results import present, say
from apviz.cli.systems import dtype_named, load_data, make_system, say_data_notes
from apviz.cli.terminal import console, errors, fail, join_ranks
from apviz.hyperparameters import Hyperparameters
from apviz.method import distinct_names
from apviz.places import place_of
from apviz.solvers import Hook, Solver
from apviz.system import KernelSystem
from apviz.tracing import ProgressHook

EXAMPLES: Final = options.examples(
    "apviz compare --dataset china --n 2000 --methods ap,cg,auto --out runs/china",
    "apviz compare --dataset houses.csv --target price --block-sizes 50,100",
)
#: Number of rows from which a comparison is long enough to be forecast.
FORECAST_ROWS = 10_000

Forecast = Annotated[
    bool | None,
    options.option(
        options.RUN, None, f"Forecast the time of each method first; default: from {FORECAST_ROWS:,} rows on.",
        "--forecast/--no-forecast",
    ),
]  # fmt: skip
Pictures = Annotated[
    int, options.option(options.OUTPUT, "N", "Draw N updates of gauss-southwell as pictures, if d = 2.")
]
Eigenvalues = Annotated[
    bool,
    options.option(options.OUTPUT, None, "Record all eigenvalues of K and P⁻¹K, up to n = 4,000.", "--eigenvalues"),
]
TracesAndReport = Annotated[str, options.option(options.OUTPUT, "FOLDER", "Write traces and report here, or to a URL.")]


def compare(
    dataset: Annotated[str, options.option(options.DATA, "NAME", options.SOURCE)],
    target: options.Target = None,
    inputs: options.Inputs = None,
    ids: options.Ids = "keep",
    missing: options.Missing = "drop",
    duplicates: options.Duplicates = "keep",
    decimal: options.Decimal = None,
    dates: options.Dates = None,
    n: options.RowsOrN = None,
    seed: options.Seed = 0,
    kernel: options.Kernel = None,
    lengthscale: options.Lengthscale = None,
    outputscale: options.Outputscale = None,
    noise: options.Noise = None,
    rhs: options.RightHandSides = 16,
    methods: options.Methods = "ap,cg,pcg,auto",
    rules: options.Rules = "gauss-southwell,cyclic,random",
    block_sizes: options.BlockSizes = "200,1000",
    partition: options.Partition = "sequential",
    overlap: options.Overlap = 0.0,
    rank: options.Rank = "100",
    tol: options.Tolerance = 1e-2,
    max_epochs: options.MaxEpochs = 100,
    dtype: options.Dtype = "float32",
    device: options.Device = "auto",
    operator: options.Engine = "auto",
    forecast: Forecast = None,
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    pictures: Pictures = 0,
    eigenvalues: Eigenvalues = False,
    out: TracesAndReport = "runs",
) -> None:
    """Solve one system with many methods: print a table, write traces and a report. Runs under torchrun too."""
    ranks = join_ranks()
    try:
        folder, precision, scales = place_of(out), dtype_named(dtype), floats(lengthscale, "--lengthscale")
        solvers = comparison.choose_solvers(
            words(methods), rules=words(rules), block_sizes=integers(block_sizes, "--block-sizes"), tol=tol, seed=seed,
            partitions=words(partition), overlap=overlap, ranks=integers(rank, "--rank"), max_epochs=max_epochs,
        )  # fmt: skip
        columns: Any = {"inputs": inputs, "ids": ids, "missing": missing, "decimal": decimal, "dates": dates}
        with ranks.in_turn() if ranks else nullcontext():
            data = load_data(dataset, target, n, seed, precision, duplicates, **columns).for_comparison()
        settings = {"rhs": rhs, "seed": seed, "dtype": precision, "device": device, "operator": operator}
        chosen, system, build = make_system(data, (kernel, scales, outputscale, noise), duplicates, **settings)
        _check_run(data, system, ranks is not None, forecast, scheduler is not None or workers is not None, pictures)
    except (ValueError, OSError, ImportError) as error:
        fail(error)
    _introduce(data, system, chosen)
    hooks = _hooks(system, solvers, tol, max_epochs, False if ranks else forecast)
    recording = comparison.Recording(data, chosen.mean, pictures, eigenvalues=eigenvalues)
    with asked_for(scheduler, workers) as cluster:
        if cluster is None:
            outcomes = comparison.compare(system, solvers, folder, recording, hooks)
        else:
            outcomes = solve_on(cluster, build, solvers, folder, recording)
        status = present(outcomes, folder, solvers)
    raise typer.Exit(status)


def _check_run(
    data: datasets.Dataset, system: KernelSystem, on_ranks: bool, forecast: bool | None, on_workers: bool, pictures: int
) -> None:
    """Raise ValueError for options of `compare` that exclude each other, or do not suit the system."""
    if on_ranks and forecast:
        raise ValueError("--forecast measures one process; leave it out on many ranks")
    if on_ranks and on_workers:
        raise ValueError("the ranks share each solve, so workers cannot run it; leave out --scheduler and --workers")
    if pictures and system.d != 2:
        raise ValueError(f"--pictures draws inputs with d = 2 columns, {data.card.title} has {system.d}")


def _introduce(data: datasets.Dataset, system: KernelSystem, chosen: Hyperparameters) -> None:
    """Print the data, what was done to them, and the hyperparameters."""
    size = f"{system.n:,} training rows, {len(data.test_x):,} test rows, d = {system.d}"
    console.print(f"[bold]{escape(data.card.title)}[/]: {size}")
    say_data_notes(data, system)
    console.print(f"{chosen.kernel}, σ² = {chosen.noise:.3g}: {chosen.provenance}", highlight=False)


def _hooks(
    system: KernelSystem, solvers: list[Solver], tol: float, max_epochs: int, is_forecast: bool | None
) -> list[Hook]:
    """Return hooks that show progress; after a forecast, they show the time left of each solver too."""
    if is_forecast is False or (is_forecast is None and system.n < FORECAST_ROWS):
        return [ProgressHook(errors)]
    # rehearses the solvers and says which is probably the fastest
    forecast = [each for each in solvers if can_forecast(each)]
    able = dict(zip(distinct_names([each.method for each in forecast]), forecast, strict=True))
    if not able:
        console.print("no forecast: apviz cannot forecast any of these methods", highlight=False)
        return [ProgressHook(errors)]
    try:
        advice = advise_on(system, able, tol=tol, max_epochs=max_epochs)
    except MemoryError as error:
        console.print(f"no forecast: {error}", highlight=False, markup=False)
        return [ProgressHook(errors)]
    say(advice.headline, f"{advice.reason} An estimate, made in {in_words(advice.seconds)} on some of the rows.")
    progress = advice.progress_of_all()
    return [progress, ProgressHook(errors, also=lambda: progress.words)]
