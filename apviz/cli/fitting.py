"""The command `fit`: a model of a table, how well it predicts, and how far its numbers can be trusted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from apviz import datasets
from apviz.advice.forecast import in_words
from apviz.cli import kriging_words, options
from apviz.cli.parsing import date_orders, decimal_marks, floats, refuse_choices, target_column, words
from apviz.cli.terminal import check_replaceable, console, errors, say_notes, writing_one_file
from apviz.datasets.loading import load_raw
from apviz.datasets.preprocessing import RawTable
from apviz.datasets.sphere import is_on_sphere
from apviz.datasets.tables.preparing import prepare_table
from apviz.datasets.tables.table import TableChoices
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel, kernel_named
from apviz.table_models.describing import check_in_words, hyperparameters_in_words, kernel_in_words
from apviz.table_models.fitting import (
    TRAINING_ROWS,
    FitProgress,
    checked_rows,
    fit_table,
    some_rows,
    with_varying_inputs,
)
from apviz.table_models.saved import accuracy_of

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess
    from apviz.gp.kriging.variogram import Variogram

EXAMPLES: Final = options.examples(
    "apviz fit depth.csv --target z --out depth.apviz",
    "apviz fit houses.parquet --target price --inputs size,town --out houses.apviz",
)


DEFAULT_KERNEL: Final = "matern52"

DropDuplicates = Annotated[
    bool, options.option(options.DATA, None, "Drop rows that equal another, also in the target.")
]
Seed = Annotated[int, options.option(options.DATA, "SEED", "Seed the choice of rows and the training.")]
Lengthscale = Annotated[
    str | None, options.option(options.MODEL, "NUMBERS", "Set one lengthscale or one per input, in its units.")
]
Outputscale = Annotated[
    float | None, options.option(options.MODEL, "NUMBER", "Set the kernel's variance, in the target's units².")
]
Noise = Annotated[
    float | None, options.option(options.MODEL, "NUMBER", "Set the noise variance σ², in the target's units².")
]
TrainingRows = Annotated[
    int, options.option(options.MODEL, "N", "Train the hyperparameters on at most N random rows.", min=2)
]
MaxSteps = Annotated[int, options.option(options.MODEL, "N", "Limit the steps of the training.", min=1)]
NoiseFloor = Annotated[
    float | None,
    options.option(
        options.MODEL,
        "SHARE",
        "Train σ² down to this share of the target's variance; default: what the dtype bears.",
        min=0.0,
    ),
]
Dtype = Annotated[str, options.option(options.RUN, "DTYPE", "Solve in float32, float64 or auto.")]
Out = Annotated[Path, options.option(options.OUTPUT, "FILE", "Write the model here, by convention *.apviz.")]
Check = Annotated[
    int | None,
    options.option(
        options.OUTPUT, "N", "Test the predictions of N rows from all others; default: 200 to 1,000.", min=0
    ),
]


def fit(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=options.SOURCE)],
    *,
    target: options.Target = None,
    inputs: options.Inputs = None,
    ids: options.Ids = "keep",
    missing: options.Missing = "drop",
    drop_duplicates: DropDuplicates = False,
    decimal: options.Decimal = None,
    dates: options.Dates = None,
    n: options.Rows = None,
    seed: Seed = 0,
    kernel: options.Kernel = None,
    lengthscale: Lengthscale = None,
    outputscale: Outputscale = None,
    noise: Noise = None,
    variogram: kriging_words.VariogramModel = None,
    sill: kriging_words.Sill = None,
    range: kriging_words.Range = None,
    nugget: kriging_words.Nugget = None,
    nu: kriging_words.Nu = None,
    anis: kriging_words.Anis = None,
    angles: kriging_words.Angles = None,
    convention: kriging_words.Convention = "effective",
    drift: kriging_words.Drift = None,
    geographic: kriging_words.Geographic = None,
    training_rows: TrainingRows = TRAINING_ROWS,
    max_steps: MaxSteps = 200,
    noise_floor: NoiseFloor = None,
    dtype: Dtype = "auto",
    device: options.Device = "auto",
    operator: options.Engine = "auto",
    out: Out,
    check: Check = None,
    force: options.Force = False,
) -> None:
    """Fit a model to a table: train the hyperparameters, solve for the mean, and say how well it predicts.

    `apviz predict` uses the model. The file holds the training rows.
    """
    start = time.perf_counter()
    with writing_one_file("fit", out):
        _check_out(out, force)
        asked = kriging_words.VariogramOptions(
            model=variogram, sill=sill, range=range, nugget=nugget, nu=nu, anis=anis, angles=angles,
            convention=convention,
        )  # fmt: skip
        asked.check((lengthscale, outputscale, noise), kernel=kernel, is_geographic=geographic is not None)
        columns = {"inputs": inputs, "ids": ids, "missing": missing, "decimal": decimal_marks(decimal)}
        columns |= {"dates": date_orders(dates), "duplicates": "drop" if drop_duplicates else "keep"}
        raw = _load(dataset, target, n, seed, columns, geographic)
        given = _given(raw, kernel, lengthscale, outputscale, noise, asked.variogram())
        settings: dict[str, Any] = {"drift": drift, "max_steps": max_steps, "dtype": dtype, "device": device}
        settings |= {"operator": operator, "noise_floor": "auto" if noise_floor is None else noise_floor}
        gp = _fitted(raw, _kernel(raw, kernel, asked, given), given, training_rows, seed, settings)
        _say_model(gp, asked, is_on_sphere(raw.encodings))
        gp.save(out)
        _say_accuracy(gp, checked_rows(len(raw.target), check), seed)
    took = in_words(time.perf_counter() - start)
    console.print(f"Model in {out}, {out.stat().st_size / 1e6:.2g} MB, {took}", highlight=False, markup=False)


def _check_out(out: Path, force: bool) -> None:
    """Refuse a file that is not a model of apviz, or must not be replaced, before hours of work."""
    from apviz.gp.estimator.saved import is_saved

    check_replaceable(out, force, is_saved, "a model of apviz")


# --- data and hyperparameters -----------------------------------------------------------------------------------------


def _load(
    dataset: str, target: str | None, n: int | None, seed: int, choices: dict[str, Any], geographic: str | None
) -> RawTable:
    """Return the rows of a data set or a table without inputs that do not vary, and say what they are."""
    refuse_choices(dataset, choices)
    if dataset in datasets.registry:
        raw = load_raw(dataset)
        title = datasets.card(dataset).title
        total = len(raw.target)
        raw = raw if n is None else some_rows(raw, n, seed, dataset)
    else:
        raw, total = _load_table(dataset, target, n, seed, choices)
        title = Path(dataset).name
    raw = with_varying_inputs(kriging_words.to_sphere(raw, geographic), dataset)
    kept = f"{len(raw.target):,} of {total:,} rows" if len(raw.target) < total else f"{total:,} rows"
    console.print(f"[bold]{escape(title)}[/]: {kept}, d = {raw.inputs.shape[1]}, target {escape(raw.target_name)}",
                  highlight=False)  # fmt: skip
    say_notes(raw.notes)
    return raw


def _load_table(
    path: str, target: str | None, n: int | None, seed: int, choices: dict[str, Any]
) -> tuple[RawTable, int]:
    """Return the rows of a user's own table, and the number of rows in the file."""
    if not (Path(path).suffix or Path(path).exists()):
        datasets.load(path)  # raises, with the known names
    column = target_column(path, target, choices["decimal"])
    several = None if choices["inputs"] is None else tuple(words(choices["inputs"]))
    chosen = TableChoices(target=column, **(choices | {"inputs": several}))
    table = datasets.inspect_table(path, target=column, decimal=chosen.decimal, dates=chosen.dates)
    return prepare_table(table, chosen, n=n, seed=seed), table.rows


def _given(
    raw: RawTable,
    kernel: str | None,
    lengthscale: str | None,
    outputscale: float | None,
    noise: float | None,
    variogram: Variogram | None,
) -> Hyperparameters | None:
    """Return the hyperparameters that the user gave, in the units of the table; None: train them."""
    scales, d, mean = floats(lengthscale, "--lengthscale"), raw.inputs.shape[1], float(raw.target.mean())
    on_sphere = is_on_sphere(raw.encodings)
    if variogram is not None:
        return kriging_words.hyperparameters_of(variogram, mean, d, on_sphere=on_sphere)
    several = (scales, outputscale, noise)
    if several.count(None) == len(several):
        return None
    if scales is None or outputscale is None or noise is None:
        raise ValueError("--lengthscale, --outputscale and --noise go together: give all three, or none to train them")
    if not on_sphere and len(scales) not in (1, d):
        raise ValueError(f"--lengthscale takes 1 number or {d}, one per input; got {len(scales)}")
    if not noise > 0:
        raise ValueError(f"--noise is the variance of the noise and must be positive, got {noise:g}")
    found = Hyperparameters(kernel or DEFAULT_KERNEL, tuple(scales), outputscale, noise, mean, "as given")
    found.build_kernel()  # raises for invalid values
    return kriging_words.given_on_sphere(found, d) if on_sphere else found


def _kernel(
    raw: RawTable, name: str | None, asked: kriging_words.VariogramOptions, given: Hyperparameters | None
) -> str | Kernel:
    """Return the model's kernel: to be trained by its name, with a range for each input, or one for all of a unit."""
    from apviz.gp.scaling import Scaling

    on_sphere, of_variogram = is_on_sphere(raw.encodings), asked.kernel()
    if given is not None or (not on_sphere and of_variogram is None):
        return of_variogram or name or DEFAULT_KERNEL
    kernel = of_variogram or kernel_named(name or DEFAULT_KERNEL, 1.0, 1.0)
    return kriging_words.tied_kernel(kernel, Scaling.of(raw.inputs, raw.target), on_sphere=on_sphere)


def _fitted(
    raw: RawTable,
    kernel: str | Kernel,
    given: Hyperparameters | None,
    training_rows: int,
    seed: int,
    settings: dict[str, Any],
) -> GaussianProcess:
    """Fit a model to the table, and say how far it is."""
    from apviz.gp.estimator.gaussian_process import GaussianProcess

    model = GaussianProcess(kernel, random_state=seed, **settings)
    n = len(raw.target)
    if given is None and n > training_rows:
        where = f"{training_rows:,} of {n:,} rows, at random"
        console.print(f"  hyperparameters from {where} (--training-rows)", highlight=False, markup=False)
    # the status of a terminal catches what is printed to standard output, so nothing is
    with errors.status("training") as status:
        progress = FitProgress(status.update, "training")
        return fit_table(model, raw, given, seed, progress, training_rows=training_rows)


# --- what is said -----------------------------------------------------------------------------------------------------


def _say_model(gp: GaussianProcess, asked: kriging_words.VariogramOptions, on_sphere: bool) -> None:
    """Print the hyperparameters in the units of the table, the bound on the error of the means, and the variogram."""
    h = gp.scaling_.to_raw(gp.hyperparameters_)
    console.print(f"{kernel_in_words(h.build_kernel())}, {h.provenance}", highlight=False, markup=False)
    if gp.rows_.sentence:
        console.print(gp.rows_.sentence, highlight=False, markup=False)
    table = Table("hyperparameter", "value", "", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for row in hyperparameters_in_words(gp):
        table.add_row(*map(escape, row))
    console.print(table)
    console.print(accuracy_of(gp), highlight=False, markup=False)
    for line in kriging_words.in_words(gp, asked, on_sphere=on_sphere):
        console.print(line, highlight=False, markup=False)


def _say_accuracy(gp: GaussianProcess, count: int, seed: int) -> None:
    """Print how well the model predicts rows from all other rows."""
    from apviz.gp.estimator.leave_one_out import leave_one_out

    if not count:
        return
    with errors.status("predicting rows from all others") as status:
        found = leave_one_out(gp, count, seed, [FitProgress(status.update, "predicting rows from all others")])
    console.print(check_in_words(found, gp), highlight=False, markup=False)
