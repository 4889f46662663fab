"""The command `predict`: means, standard deviations and intervals of a saved model, for a table or on a grid."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import typer
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from scipy.stats import norm

from apviz.advice.forecast import in_words
from apviz.cli import options
from apviz.cli.parsing import date_orders, decimal_marks
from apviz.cli.saved_models import accuracy_of, encodings_of, load_model, target_of, training_range
from apviz.cli.surfaces import ENDINGS as GRID_ENDINGS
from apviz.cli.surfaces import Grid, attributes, is_surface, write_surface
from apviz.cli.terminal import check_replaceable, console, errors, fail, interruptible, refuse_ranks, warnings_as_lines
from apviz.datasets.columns import quoted
from apviz.datasets.new_rows import NewRows, read_new_rows
from apviz.datasets.reading import FORMATS
from apviz.files import file_made_whole
from apviz.gp.prediction_accuracy import PredictionAccuracy, together
from apviz.gp.variances import MAX_BATCH
from apviz.report.surface import write_surface_page

if TYPE_CHECKING:
    from apviz.gp.gaussian_process import GaussianProcess

Array = NDArray[np.float64]
EXAMPLES: Final = options.examples(
    "apviz predict depth.apviz grid.csv --out predictions.csv", "apviz predict depth.apviz --grid 25 --out surface.nc"
)
#: Rows written at once; a row group of Parquet.
WRITTEN: Final = 65_536
#: Largest number of inputs of a picture.
MOST_DRAWN: Final = 2
TABLE_ENDINGS: Final = (".csv", ".parquet")
MISSING: Final = ("refuse", "empty")


@dataclass(frozen=True)
class Asked:
    """What is predicted.

    Attributes:
        observation: whether of an observation y instead of the function f.
        level: of the interval.
        sd: whether with standard deviation and interval.
    """

    observation: bool
    level: float
    sd: bool

    @property
    def what(self) -> str:
        """What is predicted, in words."""
        return "a new observation y, noise included" if self.observation else "the function f, without noise"

    @property
    def names(self) -> list[str]:
        """Names of the columns that are predicted."""
        return ["mean", "sd", "lower", "upper"] if self.sd else ["mean"]

    def sentence(self, gp: GaussianProcess) -> str:
        """Say what is predicted, and in which units."""
        interval = f", sd and {100 * self.level:.6g}% interval of {self.what}" if self.sd else ""
        return f"{target_of(gp)}: mean{interval}; in units of {target_of(gp)}"

    def words(self, gp: GaussianProcess) -> dict[str, str]:
        """Describe each column."""
        of, interval = "y" if self.observation else "f", f"end of the {100 * self.level:.6g}% interval"
        words = (
            f"posterior mean of {target_of(gp)}", f"posterior standard deviation of {of}", f"lower {interval} of {of}",
            f"upper {interval} of {of}",
        )  # fmt: skip
        return dict(zip(self.names, words, strict=False))

    def of(self, gp: GaussianProcess, inputs: Array) -> dict[str, Array]:
        """Predict rows (m, d), by name of the column."""
        frame = pd.DataFrame(inputs, columns=list(gp.feature_names_in_))
        if not self.sd:
            return {"mean": np.asarray(gp.predict(frame))}
        mean, sd = gp.predict(frame, return_std=True, include_noise=self.observation)
        half = float(norm.ppf(0.5 + self.level / 2)) * sd
        return {"mean": mean, "sd": sd, "lower": mean - half, "upper": mean + half}


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model that `apviz fit` wrote.")],
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help=f"Rows to predict: {FORMATS}; or use --grid.")
    ] = None,
    *,
    grid: Annotated[
        str | None,
        options.option(options.DATA, "STEPS", "Predict a grid over the training inputs: one step, or one per input."),
    ] = None,
    missing: Annotated[
        str, options.option(options.DATA, "HOW", "Treat rows with missing inputs: refuse, or predict empty cells.")
    ] = "refuse",
    decimal: options.Decimal = None,
    dates: options.Dates = None,
    level: Annotated[float, options.option(options.MODEL, "SHARE", "Set the level of the interval.")] = 0.95,
    observation: Annotated[
        bool,
        options.option(
            options.MODEL,
            None,
            "Predict a new observation y, noise included, or the function f.",
            "--observation/--function",
        ),
    ] = False,
    sd: Annotated[
        bool, options.option(options.MODEL, None, "Write sd, lower and upper, or only the mean (fast).", "--sd/--no-sd")
    ] = True,
    device: options.Device = "auto",
    out: Annotated[
        Path,
        options.option(
            options.OUTPUT, "FILE", "Write .csv or .parquet; with --grid also .nc (NetCDF) or .zarr, and a picture."
        ),
    ],
    force: options.Force = False,
) -> None:
    """Predict by a fitted model: mean, sd and interval (lower, upper) in the target's units.

    By default sd and interval are of the function f, without the noise of a new observation. Columns are found by name.
    """
    refuse_ranks("predict")
    # how solves for standard deviations go is of no interest here
    logging.getLogger("apviz").setLevel(logging.WARNING)
    start = time.perf_counter()
    with warnings_as_lines(), interruptible(out):
        try:
            _check(out, level, missing, table, grid, model, force)
            gp = load_model(model, device)
            asked = Asked(observation, level, sd)
            console.print(asked.sentence(gp), highlight=False, markup=False)
            reached: list[PredictionAccuracy] = []
            if table is not None:
                answers = {"decimal": decimal_marks(decimal), "dates": date_orders(dates)}
                rows = read_new_rows(table, encodings_of(gp), **answers)
                written = _predict_table(gp, asked, rows, missing == "empty", table, out, reached)
            else:
                written = _predict_grid(gp, asked, str(grid), model, out, reached)
        except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
            fail(error)
    console.print(_accuracy(gp, reached), highlight=False, markup=False)
    took = in_words(time.perf_counter() - start)
    console.print(f"{written}, {took}", highlight=False, markup=False)


def _check(
    out: Path, level: float, missing: str, table: Path | None, grid: str | None, model: Path, force: bool
) -> None:
    """Check all options before anything is read.

    Raises:
        ValueError: names the option.
        OSError: the file to write exists.
    """
    if not 0 < level < 1:
        raise ValueError(f"--level must be between 0 and 1, got {level:g}")
    if missing not in MISSING:
        raise ValueError(f"--missing must be {' or '.join(MISSING)}, got {missing!r}")
    if (table is None) == (grid is None):
        raise ValueError("give either a table of rows to predict, or --grid STEP")
    endings = TABLE_ENDINGS if grid is None else (*TABLE_ENDINGS, *GRID_ENDINGS)
    if out.suffix not in endings:
        raise ValueError(f"--out must end in {', '.join(endings)}, got {out}")
    for given in filter(None, (model, table)):
        if out.exists() and given.exists() and out.samefile(given):
            raise ValueError(f"--out {out} is the file to read; choose another name")
    is_table = out.suffix in TABLE_ENDINGS
    is_ours: Callable[[Path], bool] = Path.is_file if is_table else is_surface
    check_replaceable(out, force, is_ours, "a table" if is_table else "a NetCDF file or Zarr folder")


# --- tables -----------------------------------------------------------------------------------------------------------


def _predict_table(
    gp: GaussianProcess, asked: Asked, rows: NewRows, may_be_empty: bool, table: Path, out: Path,
    reached: list[PredictionAccuracy],
) -> str:  # fmt: skip
    """Predict the rows of a table, write them next to its columns, and say what was written.

    Args:
        reached: list to which the accuracies of the predictions are appended.

    Raises:
        ValueError: rows without a value of every input, unless their predictions may be empty.
    """
    for note in rows.notes:
        console.print(f"  {note}", highlight=False, markup=False)
    lacking = np.flatnonzero(rows.incomplete)
    if len(lacking) and not may_be_empty:
        column = rows.sources[int(np.isnan(rows.inputs[lacking[0]]).argmax())]
        raise ValueError(
            f"{table}: {column} has no value in row {lacking[0] + 1:,}; {len(lacking):,} of {len(rows.inputs):,} rows "
            "lack a value. Fill them in, or leave their predictions empty with --missing empty"
        )
    if len(lacking):
        lack = f"{len(lacking):,} of {len(rows.inputs):,} rows lack a value"
        console.print(f"  {lack}: their predictions are empty", highlight=False)
    places = [list(rows.names).index(name) for name in gp.feature_names_in_]
    inputs = rows.inputs[:, places]
    _say_outside(gp, inputs)
    taken = [name for name in rows.frame.columns if name in asked.names]
    if dropped := [*rows.left_out, *taken]:
        console.print(f"  columns that are not copied: {quoted(dropped)}", highlight=False, markup=False)
    _write_rows(gp, asked, rows.frame.drop(columns=taken), inputs, out, reached)
    return f"{len(inputs):,} rows in {out}"


def _say_outside(gp: GaussianProcess, inputs: Array) -> None:
    """Say how many rows are outside the range of the training inputs."""
    low, high = training_range(gp)
    margin = 1e-9 * (high - low)
    outside = int(((inputs < low - margin) | (inputs > high + margin)).any(axis=1).sum())
    if outside:
        where = f"{outside:,} of {len(inputs):,} rows"
        console.print(f"  {where} are outside the range of the training inputs: extrapolated", highlight=False)


def _write_rows(
    gp: GaussianProcess, asked: Asked, copied: pd.DataFrame, inputs: Array, out: Path, reached: list[PredictionAccuracy]
) -> None:
    """Predict and write slice by slice, to a temporary file that gets its name at the end."""
    with (
        file_made_whole(out) as file,
        _writer(file, out.suffix, copied, asked, gp, reached) as write,
        _progress(len(inputs)) as advance,
    ):
        for rows in _slices(len(inputs), WRITTEN):
            write(rows, _predicted(gp, asked, inputs[rows], advance, reached))


@contextmanager
def _writer(
    file: BinaryIO,
    ending: str,
    copied: pd.DataFrame,
    asked: Asked,
    gp: GaussianProcess,
    reached: list[PredictionAccuracy],
) -> Iterator[Callable[[slice, dict[str, Array]], None]]:
    """Yield a function that appends rows with their predictions to a CSV or Parquet file."""
    if ending == ".csv":

        def to_csv(rows: slice, found: dict[str, Array]) -> None:
            frame = copied.iloc[rows].assign(**found)
            frame.to_csv(file, mode="wb", index=False, header=rows.start == 0)

        yield to_csv
        return
    plain = pyarrow.Table.from_pandas(copied, preserve_index=False)
    fields = [pyarrow.field(name, pyarrow.float64()) for name in asked.names]
    schema = pyarrow.schema([*plain.schema, *fields], metadata={"predictions": asked.sentence(gp)})
    with pyarrow.parquet.ParquetWriter(file, schema) as parquet:

        def to_parquet(rows: slice, found: dict[str, Array]) -> None:
            part = plain.slice(rows.start, rows.stop - rows.start)
            values = [pyarrow.array(found[name], mask=np.isnan(found[name])) for name in asked.names]
            parquet.write_table(pyarrow.Table.from_arrays([*part.columns, *values], schema=schema))

        yield to_parquet
        parquet.add_key_value_metadata({"accuracy": _accuracy(gp, reached).removeprefix("Accuracy: ")})


# --- grids ------------------------------------------------------------------------------------------------------------


def _predict_grid(
    gp: GaussianProcess, asked: Asked, steps: str, model: Path, out: Path, reached: list[PredictionAccuracy]
) -> str:
    """Predict a grid over the training inputs, write it, and say what was written."""
    grid = Grid.over(gp, steps)
    _check_names(grid, asked, out)
    points, size = grid.model_inputs(), " × ".join(str(len(each)) for each in grid.coordinates.values())
    done = f"{size} points in {out}"
    if out.suffix in TABLE_ENDINGS:
        _write_rows(gp, asked, grid.frame(), points, out, reached)
        return done
    with _progress(len(points)) as advance:
        found = _predicted(gp, asked, points, advance, reached)
    about = attributes(gp, model, asked.what, asked.level)
    about["accuracy"] = _accuracy(gp, reached).removeprefix("Accuracy: ")
    predictions = grid.dataset(found, asked.words(gp), about)
    write_surface(predictions, out)
    if len(grid.coordinates) > MOST_DRAWN:
        return f"{done}, no picture of {len(grid.coordinates)} inputs"
    return f"{done}, picture in {write_surface_page(predictions, out.with_suffix('.html'))}"


def _check_names(grid: Grid, asked: Asked, out: Path) -> None:
    """Refuse names of inputs that the file cannot hold, before anything is predicted."""
    for name in grid.coordinates:
        if name in asked.names:
            raise ValueError(f"the input {name} has the name of a predicted column; rename it and fit again")
        if "/" in name and out.suffix in GRID_ENDINGS:
            raise ValueError(f"NetCDF and Zarr allow no / in a name such as {name}; write {' or '.join(TABLE_ENDINGS)}")


# --- slices -----------------------------------------------------------------------------------------------------------


def _accuracy(gp: GaussianProcess, reached: list[PredictionAccuracy]) -> str:
    """Say how accurate all slices together are."""
    return accuracy_of(gp, together(reached) if reached else None)


def _predicted(
    gp: GaussianProcess, asked: Asked, inputs: Array, advance: Callable[[int], None], reached: list[PredictionAccuracy]
) -> dict[str, Array]:
    """Predict rows slice by slice, by name of the column; NaN for rows with missing inputs."""
    found = {name: np.full(len(inputs), np.nan) for name in asked.names}
    complete = np.flatnonzero(~np.isnan(inputs).any(axis=1))
    # each call measures the accuracy of near rows on a sample, which should be of many
    near = gp.posterior_.variance_method(gp.variance, len(complete)) == "neighbours"
    for rows in _slices(len(complete), MAX_BATCH if asked.sd and not near else WRITTEN):
        for name, values in asked.of(gp, inputs[complete[rows]]).items():
            found[name][complete[rows]] = values
        reached.append(gp.prediction_accuracy_)
        advance(rows.stop - rows.start)
    return found


def _slices(count: int, size: int) -> Iterator[slice]:
    yield from (slice(start, min(start + size, count)) for start in range(0, count, size))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar with the rows done, and yield a function that advances it."""
    columns = (TextColumn("predicting"), BarColumn(30), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.advance(task, count)
