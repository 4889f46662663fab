"""The command `fit`: a model of a table, how well it predicts, and how far its numbers can be trusted."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import pandas as pd
import torch
import typer
from rich import box
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from apviz import datasets
from apviz.advice.forecast import in_words
from apviz.cli import kriging_words, options
from apviz.cli.parsing import date_orders, decimal_marks, floats, refuse_choices, target_column, words
from apviz.cli.saved_models import accuracy_of, target_of
from apviz.cli.terminal import (
    check_replaceable,
    console,
    errors,
    fail,
    interruptible,
    refuse_ranks,
    say_notes,
    warnings_as_lines,
)
from apviz.datasets.encoding import Encoding
from apviz.datasets.loading import load_raw
from apviz.datasets.preparing import prepare_table
from apviz.datasets.preprocessing import RawTable, check_enough, shuffle, varying_inputs
from apviz.datasets.tables import TableChoices
from apviz.gp.training_settings import Step, TrainingHook, TrainingSettings
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel, Product, Stationary, kernel_named
from apviz.kernels.algebra import OfInputs
from apviz.solvers import Epoch

if TYPE_CHECKING:
    from apviz.gp.gaussian_process import GaussianProcess
    from apviz.gp.leave_one_out import LeftOut
    from apviz.gp.variogram import Variogram

EXAMPLES: Final = options.examples(
    "apviz fit depth.csv --target z --out depth.apviz",
    "apviz fit houses.parquet --target price --inputs size,town --out houses.apviz",
)
#: Most steps of the training on a quarter and on half of the rows, each with one epoch; a fifth of the usual work.
LESS_WORK: Final[dict[str, Any]] = {"stages": ((0.25, 40), (0.5, 20)), "max_epochs": 1}
FEWEST_STEPS: Final = 70
#: Rows that choose the hyperparameters: 10,000 take a minute or two on a core, all others only enter the solve.
TRAINING_ROWS: Final = 10_000
#: Numbers in the solves that predict rows from all others, which limit how many rows are predicted.
CHECKED_NUMBERS, FEWEST_CHECKED, MOST_CHECKED = 2_000_000, 200, 1_000
#: Number of lengthscales shown.
SHOWN: Final = 20
LEVEL: Final = 0.95


def fit(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=options.SOURCE)],
    *,
    target: options.Target = None,
    inputs: options.Inputs = None,
    ids: options.Ids = "keep",
    missing: options.Missing = "drop",
    drop_duplicates: Annotated[
        bool,
        options.option(options.DATA, None, "Drop rows that equal another, also in the target."),
    ] = False,
    decimal: options.Decimal = None,
    dates: options.Dates = None,
    n: options.Rows = None,
    seed: Annotated[int, options.option(options.DATA, "SEED", "Seed the choice of rows and the training.")] = 0,
    kernel: options.Kernel = None,
    lengthscale: Annotated[
        str | None, options.option(options.MODEL, "NUMBERS", "Set one lengthscale or one per input, in its units.")
    ] = None,
    outputscale: Annotated[
        float | None, options.option(options.MODEL, "NUMBER", "Set the kernel's variance, in the target's units².")
    ] = None,
    noise: Annotated[
        float | None, options.option(options.MODEL, "NUMBER", "Set the noise variance σ², in the target's units².")
    ] = None,
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
    training_rows: Annotated[
        int, options.option(options.MODEL, "N", "Train the hyperparameters on at most N random rows.", min=2)
    ] = TRAINING_ROWS,
    max_steps: Annotated[
        int, options.option(options.MODEL, "N", "Limit the steps of the training.", min=FEWEST_STEPS)
    ] = 200,
    dtype: Annotated[str, options.option(options.RUN, "DTYPE", "Solve in float32, float64 or auto.")] = "auto",
    device: options.Device = "auto",
    operator: options.Engine = "auto",
    out: Annotated[Path, options.option(options.OUTPUT, "FILE", "Write the model here, by convention *.apviz.")],
    check: Annotated[
        int | None,
        options.option(
            options.OUTPUT, "N", "Test the predictions of N rows from all others; default: 200 to 1,000.", min=0
        ),
    ] = None,
    force: options.Force = False,
) -> None:
    """Fit a model to a table: train the hyperparameters, solve for the mean, and say how well it predicts.

    `apviz predict` uses the model. The file holds the training rows.
    """
    refuse_ranks("fit")
    # the line of the status says how far the training is, and σ² in its messages is in scaled units
    logging.getLogger("apviz").setLevel(logging.WARNING)
    start = time.perf_counter()
    with warnings_as_lines(), interruptible(out):
        try:
            from apviz.gp.gaussian_process import GaussianProcess
            from apviz.gp.saved import is_saved

            check_replaceable(out, force, is_saved, "a model of apviz")
            choices = {"inputs": inputs, "ids": ids, "missing": missing, "decimal": decimal_marks(decimal)}
            choices["dates"] = date_orders(dates)
            choices["duplicates"] = "drop" if drop_duplicates else "keep"
            asked = kriging_words.VariogramOptions(
                model=variogram, sill=sill, range=range, nugget=nugget, nu=nu, anis=anis, angles=angles,
                convention=convention,
            )  # fmt: skip
            scales = (lengthscale, outputscale, noise)
            asked.check(scales, kernel=kernel, is_geographic=geographic is not None)
            name, of_variogram = kernel or "matern52", asked.kernel()
            raw = _load(dataset, target, n, seed, choices, geographic)
            given = _given(raw, name, *scales, asked.variogram())
            model = GaussianProcess(
                of_variogram or name if given is not None else _to_train(raw, name, of_variogram),
                drift=drift, max_steps=max_steps, random_state=seed, dtype=dtype, device=device, operator=operator,
                **LESS_WORK,
            )  # fmt: skip
            gp = _fitted(model, raw, given, training_rows, seed)
            _say_model(gp, raw)
            for line in kriging_words.in_words(gp, asked, on_sphere=kriging_words.is_on_sphere(raw)):
                console.print(line, highlight=False, markup=False)
            gp.save(out)
            _say_accuracy(gp, _checked_rows(check, len(raw.target)), seed)
        except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
            fail(error)
    took = in_words(time.perf_counter() - start)
    console.print(f"Model in {out}, {out.stat().st_size / 1e6:.2g} MB, {took}", highlight=False, markup=False)


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
        if n is not None:
            check_enough(total, n, dataset)
            rows = shuffle(total, seed)[:n].numpy()
            raw = replace(raw, inputs=raw.inputs[rows], target=raw.target[rows])
    else:
        raw, total = _load_table(dataset, target, n, seed, choices)
        title = Path(dataset).name
    raw = kriging_words.to_sphere(raw, geographic)
    varies = varying_inputs(raw)
    varies[: 3 * kriging_words.is_on_sphere(raw)] = True
    names = tuple(name for name, each in zip(raw.feature_names, varies, strict=True) if each)
    encodings = raw.encodings or tuple(Encoding(column=name) for name in raw.feature_names)
    encodings = tuple(each for each in encodings if set(each.names) <= set(names))
    if sorted(name for each in encodings for name in each.names) != sorted(names) or len({*names}) < len(names):
        raise ValueError(f"{dataset}: two columns would make inputs with the same name; rename one of them")
    kept = f"{len(raw.target):,} of {total:,} rows" if len(raw.target) < total else f"{total:,} rows"
    console.print(f"[bold]{escape(title)}[/]: {kept}, d = {len(names)}, target {escape(raw.target_name)}",
                  highlight=False)  # fmt: skip
    say_notes(raw.notes)
    return replace(raw, inputs=raw.inputs[:, varies], feature_names=names, encodings=encodings)


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
    kernel: str,
    lengthscale: str | None,
    outputscale: float | None,
    noise: float | None,
    variogram: Variogram | None,
) -> Hyperparameters | None:
    """Return the hyperparameters that the user gave, in the units of the table; None: train them."""
    scales, d, mean = floats(lengthscale, "--lengthscale"), raw.inputs.shape[1], float(raw.target.mean())
    is_on_sphere = kriging_words.is_on_sphere(raw)
    if variogram is not None:
        return kriging_words.hyperparameters_of(variogram, mean, d, on_sphere=is_on_sphere)
    several = (scales, outputscale, noise)
    if several.count(None) == len(several):
        return None
    if scales is None or outputscale is None or noise is None:
        raise ValueError("--lengthscale, --outputscale and --noise go together: give all three, or none to train them")
    if not is_on_sphere and len(scales) not in (1, d):
        raise ValueError(f"--lengthscale takes 1 number or {d}, one per input; got {len(scales)}")
    if not noise > 0:
        raise ValueError(f"--noise is the variance of the noise and must be positive, got {noise:g}")
    found = Hyperparameters(kernel, tuple(scales), outputscale, noise, mean, "as given")
    found.build_kernel()  # raises for invalid values
    return kriging_words.given_on_sphere(found, d) if is_on_sphere else found


def _to_train(raw: RawTable, name: str, of_variogram: Stationary | None) -> str | Kernel:
    """Return the kernel to train: by its name with a range for each input, or with one for all that share a unit."""
    from apviz.gp.scaling import Scaling

    on_sphere = kriging_words.is_on_sphere(raw)
    if not on_sphere and of_variogram is None:
        return name
    kernel = of_variogram or kernel_named(name, 1.0, 1.0)
    return kriging_words.tied_kernel(kernel, Scaling.of(raw.inputs, raw.target), on_sphere=on_sphere)


def _fitted(
    model: GaussianProcess, raw: RawTable, given: Hyperparameters | None, training_rows: int, seed: int
) -> GaussianProcess:
    """Train the hyperparameters on some rows unless they are given, then fit the model to all rows."""
    from apviz.gp.fitting import check_settings, rows_of, scaling_of, train

    check_settings(model)
    scaling, n = scaling_of(model, raw.inputs, raw.target), len(raw.target)
    if given is None and n > training_rows:
        where = f"{training_rows:,} of {n:,} rows, at random"
        console.print(f"  hyperparameters from {where} (--training-rows)", highlight=False, markup=False)
    # the status of a terminal catches what is printed to standard output, so nothing is
    with errors.status("training") as status:
        told = _Told(status, "training")
        if given is not None:
            hyperparameters = scaling.to_scaled(given)
        else:
            rows = shuffle(n, seed)[:training_rows].sort().values.numpy()
            some, targets = scaling.inputs(raw.inputs[rows]), scaling.targets(raw.target[rows])
            distinct, _ = rows_of(torch.from_numpy(some), torch.from_numpy(targets), None)
            hyperparameters, _ = train(model, distinct, scaling, [told])
        told.doing = "solving for the mean"
        x, y = pd.DataFrame(raw.inputs, columns=list(raw.feature_names)), pd.Series(raw.target, name=raw.target_name)
        gp: GaussianProcess = model.set_params(hyperparameters=hyperparameters).fit(x, y, hooks=[told])
    gp.columns_ = raw.encodings
    return gp


class _Told(TrainingHook):
    """A hook that says in one changing line of a terminal what is being done, and how far it is."""

    def __init__(self, status: Status, doing: str) -> None:
        self._status, self.doing = status, doing

    def on_epoch(self, epoch: Epoch) -> None:
        self._status.update(f"{self.doing}: residual {epoch.residual:.2g} after {epoch.number} epochs")

    def on_step(self, step: Step, settings: TrainingSettings) -> None:
        self.doing = f"training: {step.number} of at most {settings.steps} steps done"


# --- what is said -----------------------------------------------------------------------------------------------------


def _say_model(gp: GaussianProcess, raw: RawTable) -> None:
    """Print the hyperparameters in the units of the table, and the bound on the error of the means."""
    h = gp.scaling_.to_raw(gp.hyperparameters_)
    console.print(f"{_kernel_in_words(h.build_kernel())}, {h.provenance}", highlight=False, markup=False)
    if gp.rows_.sentence:
        console.print(gp.rows_.sentence, highlight=False, markup=False)
    table = Table("hyperparameter", "value", "", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for row in _scales_in_words(gp, raw, h):
        table.add_row(*row)
    for name, value in h.kernel_parameters.items():
        table.add_row(name, f"{value:.3g}", "")
    name = escape(raw.target_name)
    if (outputscale := h.build_kernel().numbers.get("outputscale")) is not None:
        table.add_row("outputscale", f"{outputscale:.3g}", f"signal sd {outputscale**0.5:.3g} in units of {name}")
    table.add_row("noise sd", f"{h.noise**0.5:.3g}", f"in units of {name}")
    if gp.drift_ is None:
        table.add_row("prior mean", f"{h.mean:.3g}", f"in units of {name}")
    else:
        of_rows = gp.scaling_.mean + gp.scaling_.std * gp.drift_.mean(gp.rows_.x).numpy()
        table.add_row(f"{gp.drift} drift", "", f"from {of_rows.min():.4g} to {of_rows.max():.4g} in units of {name}")
    console.print(table)
    console.print(accuracy_of(gp), highlight=False, markup=False)


def _kernel_in_words(kernel: Kernel) -> str:
    """Return the name of a kernel, with those of its parts."""
    if isinstance(kernel, Product):
        return " × ".join(map(_kernel_in_words, kernel.kernels))
    if isinstance(kernel, OfInputs):
        return _kernel_in_words(kernel.kernel)
    return kernel.name


def _scales_in_words(gp: GaussianProcess, raw: RawTable, h: Hyperparameters) -> Iterator[tuple[str, str, str]]:
    """Yield rows on the lengthscales, the shortest ones if there are many."""
    if not isinstance(gp.hyperparameters_.kernel, str):
        on_sphere = kriging_words.is_on_sphere(raw)
        for name, value in h.build_kernel().numbers.items():
            if name != "outputscale":
                in_km = on_sphere and name in ("lengthscale", "0.lengthscale")
                yield name, f"{value:.3g}", "in km, along chords of the Earth" if in_km else ""
        return
    scales = np.broadcast_to(np.array(h.lengthscale), len(raw.feature_names))
    # relative to the range of each input, the shortest matter most
    order = np.argsort(np.broadcast_to(np.array(gp.hyperparameters_.lengthscale), len(scales)), kind="stable")
    for place in sorted(order[:SHOWN]):
        low, high = raw.inputs[:, place].min(), raw.inputs[:, place].max()
        about = f"input from {low:.4g} to {high:.4g}"
        yield f"lengthscale of {escape(raw.feature_names[place])}", f"{scales[place]:.3g}", about
    if len(order) > SHOWN:
        yield f"{len(order) - SHOWN} longer lengthscales", f"from {scales[order[SHOWN]]:.3g}", ""


def _checked_rows(asked: int | None, n: int) -> int:
    """Return the number of rows to predict from all others."""
    affordable = min(max(CHECKED_NUMBERS // n, FEWEST_CHECKED), MOST_CHECKED)
    return min(n, affordable if asked is None else asked)


def _say_accuracy(gp: GaussianProcess, count: int, seed: int) -> None:
    """Print how well the model predicts rows from all other rows."""
    from apviz.gp.leave_one_out import leave_one_out

    if not count:
        return
    with errors.status("predicting rows from all others") as status:
        found = leave_one_out(gp, count, seed, [_Told(status, "predicting rows from all others")])
    console.print(_in_words(found, gp), highlight=False, markup=False)


def _in_words(found: LeftOut, gp: GaussianProcess) -> str:
    n = gp.posterior_.system.n
    what = "distinct inputs" if gp.rows_.are_merged else "rows"
    rows = f"{n:,} {what}" if len(found.rows) == n else f"{len(found.rows):,} of {n:,} {what}, at random"
    means = (
        "\n  (rows with equal inputs are left out together, and their mean is predicted)" if gp.rows_.are_merged else ""
    )
    return (
        f"Leave-one-out on {rows}, hyperparameters fixed:{means}\n"
        f"  RMSE {found.rmse:.3g} (sd of {target_of(gp)}: {gp.scaling_.std:.3g}), "
        f"NLL {found.negative_log_likelihood:.3g} nats a row,\n"
        f"  {found.coverage(LEVEL):.1%} of them within their {LEVEL:.0%} interval."
    )
