"""Commands that solve or show results: `compare`, `advise`, `datasets`, `report`, `show`, `doctor`."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from apviz import comparison, datasets
from apviz.advice import ModelAdvice, advise_models, can_forecast
from apviz.advice import advise as advise_on
from apviz.advice.forecast import in_words
from apviz.analysis.verdict import judge
from apviz.cli import options
from apviz.cli.experimenting import EXAMPLES, experiment
from apviz.cli.fitting import EXAMPLES as FIT_EXAMPLES
from apviz.cli.fitting import fit
from apviz.cli.on_workers import asked_for, told
from apviz.cli.parsing import date_orders, decimal_marks, floats, integers, refuse_choices, target_column, words
from apviz.cli.predicting import EXAMPLES as PREDICT_EXAMPLES
from apviz.cli.predicting import predict
from apviz.cli.terminal import console, errors, fail, join_ranks, refuse_ranks, say_notes
from apviz.datasets.tables.reading import FORMATS
from apviz.distributed import records
from apviz.doctor import Finding, examine
from apviz.duplicates import count_distinct
from apviz.hyperparameters import Hyperparameters
from apviz.method import distinct_names
from apviz.methods import choices_in_words
from apviz.places import Place, place_of
from apviz.plots._labels import full_names
from apviz.report import find_traces, terminal_table, write_report
from apviz.solvers import Hook, Solver
from apviz.system import KernelSystem
from apviz.tracing import ProgressHook, Trace, TrainingTrace, open_trace
from apviz.tracing.opening import check_complete
from apviz.tracing.trace import sign_of

app = typer.Typer()
sets = typer.Typer(
    invoke_without_command=True, help="List the data sets, and download or inspect one.",
    epilog=options.examples("apviz datasets", "apviz datasets inspect houses.csv"),
)  # fmt: skip
app.add_typer(sets, name="datasets")

DTYPES = {"float32": torch.float32, "float64": torch.float64}
#: What `--duplicates` takes: the system keeps or merges rows, a table drops some.
DUPLICATES = (*comparison.DUPLICATES, "drop")
#: Number of rows from which a comparison is long enough to be forecast.
FORECAST_ROWS = 10_000


def _dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise ValueError(f"--dtype must be float32 or float64, got {name!r}")
    return DTYPES[name]


def _load(
    name: str, target: str | None, n: int | None, seed: int, dtype: torch.dtype, duplicates: str, **choices: Any
) -> datasets.Dataset:
    """Load a registered data set, or a table of the user's, prepared by `choices`."""
    if duplicates not in DUPLICATES:
        raise ValueError(f"--duplicates must be one of {', '.join(DUPLICATES)}, got {duplicates!r}")
    refuse_choices(name, choices)
    if name in datasets.registry:
        if duplicates == "drop":
            raise ValueError(f"--duplicates drop is for your own tables; {name} has keep and merge")
        return datasets.load(name, seed=seed, n=n, dtype=dtype)
    if Path(name).suffix or Path(name).exists():
        column = target_column(name, target, choices.get("decimal"))
        with warnings.catch_warnings():
            # its notes are shown below, one per line
            warnings.simplefilter("ignore")
            kept: Any = "drop" if duplicates == "drop" else "keep"
            return datasets.load_table(name, column, seed=seed, n=n, dtype=dtype, duplicates=kept, **choices)
    return datasets.load(name, seed=seed)  # raises, with the known names


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


@app.command(
    epilog=options.examples(
        "apviz compare --dataset china --n 2000 --methods ap,cg,auto --out runs/china",
        "apviz compare --dataset houses.csv --target price --block-sizes 50,100",
    )
)
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
        folder = place_of(out)
        precision = _dtype(dtype)
        solvers = comparison.choose_solvers(
            words(methods), rules=words(rules), block_sizes=integers(block_sizes, "--block-sizes"),
            partitions=words(partition), overlap=overlap, ranks=integers(rank, "--rank"), tol=tol,
            max_epochs=max_epochs, seed=seed,
        )  # fmt: skip
        scales = floats(lengthscale, "--lengthscale")
        with ranks.in_turn() if ranks else nullcontext():
            data = _load(
                dataset, target, n, seed, precision, duplicates, inputs=None if inputs is None else words(inputs),
                ids=ids, missing=missing, decimal=decimal_marks(decimal), dates=date_orders(dates),
            )  # fmt: skip
        chosen = comparison.choose_hyperparameters(data, kernel, scales, outputscale, noise)
        data = data.for_comparison()
        build = partial(
            comparison.build_system, data, chosen, rhs=rhs, seed=seed, dtype=precision, device=device,
            operator=operator, duplicates="merge" if duplicates == "merge" else "keep",
        )  # fmt: skip
        system = build()
        on_ranks = ranks is not None
        _check_run(data, system, on_ranks, forecast, scheduler is not None or workers is not None, pictures)
    except (ValueError, OSError, ImportError) as error:
        fail(error)
    _introduce(data, system, chosen)
    hooks: list[Hook] = [ProgressHook(errors)]
    if not on_ranks and (forecast or (forecast is None and system.n >= FORECAST_ROWS)):
        hooks = _forecasting(system, solvers, tol, max_epochs)
    recording = comparison.Recording(data, chosen.mean, pictures, eigenvalues=eigenvalues)
    with asked_for(scheduler, workers) as cluster:
        if cluster is None:
            outcomes = comparison.compare(system, solvers, folder, recording, hooks)
        else:
            console.print(
                f"Running on {cluster}. Solves on one machine slow each other down: compare work, not seconds.",
                highlight=False,
                markup=False,
            )
            outcomes = told(comparison.compare_on(cluster, build, solvers, folder, recording), len(solvers))
        status = _present(outcomes, folder, solvers)
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
    _note(data, system)
    console.print(f"{chosen.kernel}, σ² = {chosen.noise:.3g}: {chosen.provenance}", highlight=False)


def _forecasting(system: KernelSystem, solvers: list[Solver], tol: float, max_epochs: int) -> list[Hook]:
    """Rehearse the solvers and print which is probably the fastest; return hooks that show the time left of each."""
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
    _say(advice.headline, f"{advice.reason} An estimate, made in {in_words(advice.seconds)} on some of the rows.")
    progress = advice.progress_of_all()
    return [progress, ProgressHook(errors, also=lambda: progress.words)]


@app.command(
    epilog=options.examples(
        "apviz advise airquality --n 14000 --solve --out runs/advised",
        "apviz advise houses.csv --target price --minutes 5",
    )
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
    solve: Annotated[bool, options.option(options.RUN, None, "Solve with the advised method.", "--solve")] = False,
    out: Annotated[
        Path, options.option(options.OUTPUT, "FOLDER", "Write the trace and the report of --solve here.")
    ] = Path("runs"),
) -> None:
    """Recommend a method, and forecast the time and memory of each, before you solve."""
    refuse_ranks("advise")
    try:
        precision, scales = _dtype(dtype), floats(lengthscale, "--lengthscale")
        data = _load(
            dataset, target, n, seed, precision, duplicates, inputs=None if inputs is None else words(inputs), ids=ids,
            missing=missing, decimal=decimal_marks(decimal), dates=date_orders(dates),
        )  # fmt: skip
        chosen = comparison.choose_hyperparameters(data, kernel, scales, outputscale, noise)
        system = comparison.build_system(
            data, chosen, rhs=rhs, seed=seed, dtype=precision, device=device,
            duplicates="merge" if duplicates == "merge" else "keep",
        )  # fmt: skip
        if minutes is not None:
            rows = len(data.train_y)
            _say_model(advise_models(rows, system.d, minutes=minutes, distinct=count_distinct(data.train_x)))
        advice = advise_on(system, tol=tol, max_epochs=max_epochs, seed=seed)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        fail(error)
    console.print(f"{advice.system}, σ² = {chosen.noise:.3g}, to {tol:g}", highlight=False, markup=False)
    _note(data, system)
    _say(advice.headline, advice.reason)
    console.print(_table(advice.rows()))
    for each in advice.alternatives:
        console.print(each.sentence, highlight=False, markup=False)
    for sentence in (*advice.left_out, advice.origin):
        console.print(sentence, highlight=False, markup=False)
    if solve:
        data, progress = data.for_comparison(), advice.progress()
        shown = ProgressHook(errors, also=lambda: progress.words)
        recording = comparison.Recording(data, chosen.mean)
        outcomes = comparison.compare(system, [advice.best.solver], out, recording, [progress, shown])
        raise typer.Exit(_present(outcomes, out))


def _say_model(advice: ModelAdvice) -> None:
    """Print which model to fit, and a table of all."""
    _say(advice.headline, advice.reason, advice.action)
    console.print(_table(advice.rows()))
    for name, why in advice.left_out.items():
        console.print(f"{name} was left out: it {why}.", highlight=False, markup=False)
    console.print(f"{advice.origin}\n", highlight=False, markup=False)


def _table(rows: Sequence[dict[str, str]]) -> Table:
    table = Table(*rows[0], box=box.SIMPLE, padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*map(escape, row.values()))
    return table


def _note(data: datasets.Dataset, system: KernelSystem) -> None:
    """Print what was done to the data, and what happens to rows with equal inputs."""
    say_notes(filter(None, (*data.notes, comparison.duplicates_in_words(data, system))))


def _say(answer: str, *rest: str) -> None:
    """Print an answer, and below it the reason and the action, if there are any."""
    console.print(f"[bold]{escape(answer)}[/]", highlight=False)
    for line in filter(None, rest):
        console.print(line, highlight=False, markup=False)


def _present(outcomes: Iterator[comparison.Outcome], out: Place, order: Sequence[Solver] = ()) -> int:
    """Print the table in an order, write the report, also after Ctrl-C, and return the exit status."""
    done, failures, interrupted = list[comparison.Outcome](), list[str](), False
    try:
        done.extend(outcomes)
    except KeyboardInterrupt:
        interrupted = True
        errors.print("interrupted: the table so far")
    except OSError as error:
        failures.append(str(error))
    done.sort(key=lambda outcome: order.index(outcome.solver) if order else 0)
    traces = [outcome.trace for outcome in done if outcome.trace is not None]
    failures += [f"{outcome.solver.method.name}: {outcome.error}" for outcome in done if outcome.error]
    if traces and records():
        console.print(terminal_table(traces))
        names = full_names(traces)
        verdict = judge(traces, names)
        _say(verdict.headline, verdict.others, verdict.change)
        for name, trace in zip(names, traces, strict=True):
            choices = json.loads(trace.attrs.get("choices", "{}"))
            if choices:
                console.print(f"Chosen for {name}:", highlight=False, markup=False)
            for line in choices_in_words(choices):
                console.print(f"  {line}", highlight=False, markup=False)
        try:
            written = write_report(find_traces(out), out / "report.html")
            console.print(f"{len(traces)} traces in {out}, report: {written}")
        except OSError as error:
            failures.append(f"the report: {error}")
    for failure in failures:
        errors.print(f"[red]failed:[/] {escape(failure)}", highlight=False)
    return 130 if interrupted else int(bool(failures))


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
    """Download a data set, check it, and resume an interrupted download."""
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


app.command(epilog=FIT_EXAMPLES)(fit)
app.command(epilog=PREDICT_EXAMPLES)(predict)
app.command(epilog=EXAMPLES)(experiment)


@app.command(epilog=options.examples("apviz report runs/diabetes", "apviz report s3://bucket/runs"))
def report(folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder of traces, or a URL.")]) -> None:
    """Rebuild the report of a folder from its traces."""
    try:
        place = place_of(folder)
        traces = find_traces(place)
    except (ValueError, OSError) as error:
        fail(error)
    console.print(terminal_table(traces))
    try:
        console.print(f"report: {write_report(traces, place / 'report.html')}")
    except OSError as error:
        fail(error)


@app.command(epilog=options.examples("apviz show runs/ap.zarr", "apviz show s3://bucket/runs/ap.zarr"))
def show(path: Annotated[str, typer.Argument(metavar="TRACE", help="Trace, such as runs/ap.zarr or s3://….")]) -> None:
    """Print one trace: the system, how the solve ended, the spectrum and the last epochs."""
    try:
        trace = open_trace(path)
        check_complete(trace)
        if isinstance(trace, TrainingTrace):
            raise ValueError(
                f"{path} is the trace of a training, not of one solve; open it on the page Training of "
                "`apviz dashboard`"
            )
        _print_trace(trace)
    except (ValueError, OSError) as error:
        fail(error)
    except Exception as error:  # an invalid trace may hold any numbers
        fail(ValueError(f"{path} cannot be shown: {type(error).__name__} {error}"))


def _print_trace(trace: Trace) -> None:
    a = trace.attrs
    merged = f" (merged from {a['merged_rows']:,})" if "merged_rows" in a else ""
    console.print(f"[bold]{escape(trace.method_name)}[/] on {a['dataset'] or 'unnamed data'}, n = {a['n']:,}{merged}, "
                  f"d = {a['d']}, {a['right_hand_sides']} right-hand sides")  # fmt: skip
    if trace.details:
        console.print(trace.details, highlight=False, markup=False)
    console.print(f"{a['kernel']}, σ² = {trace.noise_in_words(6)}, {a['dtype']} on {a['device_name']}, {a['engine']}")
    console.print(f"settings: {json.loads(a['solver_settings'])}", highlight=False)
    console.print(trace.status(), highlight=False, markup=False)
    if trace.advice:
        console.print(trace.advice, highlight=False, markup=False)
    console.print(terminal_table([trace]))
    spectrum = Table("eigenvalues", "value", "method")
    for name, value in trace["spectrum"].data_vars.items():
        label = str(value.attrs["long_name"])
        sign = sign_of(trace["spectrum"], str(name)).replace("=", "")
        shown = f"{sign} {float(value):.4g}".strip() if math.isfinite(value) else "unknown"
        spectrum.add_row(f"{name}: {label}", shown, str(value.attrs["how"]))
    console.print(spectrum)
    epochs = trace.to_dataframe("epoch").tail(10)
    table = Table("epoch", *map(str, epochs.columns), title="last epochs", title_justify="left")
    for number, values in epochs.iterrows():
        table.add_row(str(number), *(f"{value:.4g}" for value in values))
    console.print(table)


@app.command(epilog=options.examples("apviz doctor", "apviz doctor --no-keops"))
def doctor(
    keops: Annotated[bool, typer.Option(help="Test KeOps too; it compiles for a while the first time.")] = True,
) -> None:
    """Test every engine on this machine, measure its speed, and say what to fix; takes a minute."""
    found = list[Finding]()
    for each in examine(keops=keops):
        found.append(each)
        mark = "[red]✗[/]" if each.is_wrong else "[yellow]![/]" if each.advice else "[green]✓[/]"
        console.print(f"{mark} [bold]{escape(each.subject)}[/]: {escape(each.found)}", highlight=False)
        if each.advice:
            console.print(f"  → {escape(each.advice)}", highlight=False)
    wrong = [each.subject for each in found if each.is_wrong]
    if wrong:
        fail(RuntimeError(f"wrong results on this machine: {', '.join(wrong)}"))
