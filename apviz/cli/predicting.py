"""The command `predict`: means, standard deviations and intervals of a saved model, for a table or on a grid."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
import xarray as xr
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from apviz.advice.forecast import in_words
from apviz.cli import options
from apviz.cli.parsing import date_orders, decimal_marks, floats
from apviz.cli.terminal import check_replaceable, console, errors, writing_one_file
from apviz.datasets.tables.new_rows import NewRows, read_new_rows
from apviz.datasets.tables.reading import FORMATS
from apviz.files import file_made_whole
from apviz.plots.models.prediction import prediction
from apviz.report.rendering import embedded, write_page
from apviz.table_models.grids import ENDINGS as GRID_ENDINGS
from apviz.table_models.grids import MOST_DRAWN, Grid, is_surface, predicted_grid, write_surface
from apviz.table_models.predicting import Asked, Predictor, ToPredict, to_predict, write_rows
from apviz.table_models.saved import encodings_of, load_model, ranges_of

EXAMPLES: Final = options.examples(
    "apviz predict depth.apviz grid.csv --out predictions.csv", "apviz predict depth.apviz --grid 25 --out surface.nc"
)
TABLE_ENDINGS: Final = (".csv", ".parquet")
MISSING: Final = ("refuse", "empty")


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
    start = time.perf_counter()
    with writing_one_file("predict", out):
        _check(out, level, missing, table, grid, model, force)
        gp = load_model(model, device)
        asked = Asked(observation, level, sd)
        console.print(asked.sentence(gp), highlight=False, markup=False)
        predictor = Predictor(gp, asked)
        if table is not None:
            marks, orders = decimal_marks(decimal), date_orders(dates)
            rows = read_new_rows(table, encodings_of(gp), decimal=marks, dates=orders, ranges=ranges_of(gp))
            written = _predict_table(predictor, rows, missing == "empty", table, out)
        else:
            written = _predict_grid(predictor, floats(grid, "--grid") or [], model, out)
    console.print(predictor.accuracy, highlight=False, markup=False)
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


def _predict_table(predictor: Predictor, rows: NewRows, may_be_empty: bool, table: Path, out: Path) -> str:
    """Predict the rows of a table, write them next to its columns, and say what was written.

    Raises:
        ValueError: rows without a value of every input, unless their predictions may be empty.
    """
    for note in rows.notes:
        console.print(f"  {note}", highlight=False, markup=False)
    if rows.first_incomplete and not may_be_empty:
        row, column = rows.first_incomplete
        raise ValueError(
            f"{table}: {column} has no value in row {row + 1:,}; {rows.incomplete:,} of {rows.count:,} rows lack a "
            "value. Fill them in, or leave their predictions empty with --missing empty"
        )
    wanted, notes = to_predict(predictor, rows)
    for note in notes:
        console.print(f"  {note}", highlight=False, markup=False)
    _write_rows(predictor, wanted, out)
    return f"{rows.count:,} rows in {out}"


def _write_rows(predictor: Predictor, rows: ToPredict, out: Path) -> None:
    """Predict and write batch by batch, to a temporary file that gets its name at the end."""
    with file_made_whole(out) as file, _progress(rows.count) as advance:
        write_rows(predictor, rows, file, out.suffix, advance)


# --- grids ------------------------------------------------------------------------------------------------------------


def _predict_grid(predictor: Predictor, steps: Sequence[float], model: Path, out: Path) -> str:
    """Predict a grid over the training inputs, write it, and say what was written."""
    grid = Grid.over(predictor.gp, steps, setting="--grid")
    grid.check_names(predictor.asked.names, out.suffix)
    points, size = grid.model_inputs(), " × ".join(str(len(each)) for each in grid.coordinates.values())
    done = f"{size} points in {out}"
    if out.suffix in TABLE_ENDINGS:
        _write_rows(predictor, ToPredict.of_frame(grid.frame(), points), out)
        return done
    with _progress(len(points)) as advance:
        predictions = predicted_grid(predictor, grid, points, model.name, advance)
    write_surface(predictions, out)
    if len(grid.coordinates) > MOST_DRAWN:
        return f"{done}, no picture of {len(grid.coordinates)} inputs"
    return f"{done}, picture in {_write_page(predictions, out.with_suffix('.html'))}"


def _write_page(predictions: xr.Dataset, path: Path) -> Path:
    """Write a page with the charts and attributes of predictions over one or two inputs; return its path.

    Another file of this name is not replaced; the page gets another name.
    """
    figures = []
    for name in ("mean", "sd"):
        if name in predictions:
            text = str(predictions[name].attrs["long_name"])
            if name == "mean" and "lower" in predictions and len(predictions.sizes) == 1:
                text += ", with its interval"
            figures.append(embedded(name, f"{text[0].upper()}{text[1:]}.", partial(prediction, predictions, name)))
    facts = {name.replace("_", " "): str(value) for name, value in predictions.attrs.items() if name != "title"}
    return write_page(path, "surface.html.jinja", title=predictions.attrs["title"], facts_=facts, figures=figures)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar with the rows done, and yield a function that advances it."""
    columns = (TextColumn("predicting"), BarColumn(30), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.advance(task, count)
