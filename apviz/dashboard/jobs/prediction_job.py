"""The jobs of the page Predict: a fit, which keeps a model, predictions, which keep files, and both for an example."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow.parquet
import xarray as xr

from apviz.dashboard.components.text import without_formulas
from apviz.dashboard.jobs.comparison_job import StopBetweenSolves
from apviz.dashboard.jobs.heard import heard_warnings
from apviz.dashboard.jobs.job import Job, JobQueue, Stopped
from apviz.dashboard.jobs.live import duration
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.systems import SystemSpec
from apviz.dashboard.store.examples import PREFIX
from apviz.dashboard.store.models import PICTURE, TABLE, ModelRecord, Models, PredictionsRecord
from apviz.dashboard.store.own_data import size_limits, without_folder
from apviz.datasets.preprocessing import RawTable
from apviz.datasets.tables.encoding import Encoding
from apviz.datasets.tables.new_rows import NewRows, read_new_rows
from apviz.gp.training.settings import Step, TrainingSettings
from apviz.plots.models.prediction import DRAWN, DRAWN_POINTS, thinned
from apviz.solvers.run import Run
from apviz.table_models.describing import hyperparameters_in_words, kernel_in_words
from apviz.table_models.fitting import FitProgress, checked_rows, fit_table
from apviz.table_models.grids import MOST_DRAWN, Grid, predicted_grid, write_surface
from apviz.table_models.predicting import Asked, Predictor, to_predict, write_rows
from apviz.table_models.saved import accuracy_of, encodings_of, load_model, ranges_of, target_of

#: Most steps of a training; most points of a grid; rows shown of predictions.
MAX_STEPS, MOST_POINTS, HEAD = 200, 1_000_000, 8
#: The example: data of one input, rows few enough that the interval is visible between them, and points of its curve.
EXAMPLE_DATA, EXAMPLE_N, EXAMPLE_POINTS = "china-profile", 100, 400
#: Shares of the training and of training and solve in the progress of a fit.
_TRAINED, _SOLVED = 0.6, 0.8
#: Rows of a piece in which the CSV is written.
_PIECE = 65_536


class FitJob(Job):
    """Job that fits a model to a table, checks it on rows that it leaves out, and keeps it.

    Attributes:
        name: Name of the kept model; empty before.
    """

    title: ClassVar[str] = "A fit"
    #: Start of the names of its models.
    prefix: ClassVar[str] = ""

    def __init__(self, queue: JobQueue, limits: Limits, models: Models, spec: SystemSpec) -> None:
        super().__init__(queue)
        self._limits, self._models, self._spec, self.dataset = limits, models, spec, spec.dataset
        self.name = ""

    def work(self) -> None:
        from apviz.gp.estimator.gaussian_process import GaussianProcess
        from apviz.gp.estimator.leave_one_out import leave_one_out

        spec = self._spec
        self.message = "loading the data"
        raw, total = spec.load_rows(self._limits)
        progress = _Progress(self)
        hooks = [progress, self.stop_hook]
        with heard_warnings() as warned:
            model = GaussianProcess(spec.kernel, max_steps=MAX_STEPS, random_state=spec.seed)
            gp = fit_table(model, raw, None, spec.seed, progress, [self.stop_hook])
            progress.now(_SOLVED, "predicting rows from all others")
            left_out = leave_one_out(gp, checked_rows(len(raw.target)), spec.seed, hooks)
        progress.now(1.0, "saving the model")
        kernel = gp.scaling_.to_raw(gp.hyperparameters_).build_kernel()
        checked = {name: getattr(left_out, name).tolist() for name in ("target", "mean", "std")}
        record = ModelRecord(
            dataset=spec.dataset, target=target_of(gp), kernel=kernel_in_words(kernel), rows=len(raw.target),
            total=total, hyperparameters=[list(row) for row in hyperparameters_in_words(gp)],
            facts=[each for each in (gp.rows_.sentence, accuracy_of(gp)) if each], notes=list(raw.notes),
            warnings=warned(), checked=checked, data=_data_of(raw), decimal=_marks(spec),
        )  # fmt: skip
        name = f"{self.prefix}{spec.dataset}-n{len(raw.target)} {spec.kernel}"
        self.name = self._models.add(name, gp.save, record)
        self.message = f"fitted to {len(raw.target):,} rows, and saved"


class _Progress(FitProgress):
    """Hook that says in a job how far a fit is, and ends it by an exception once it was stopped."""

    def __init__(self, job: Job) -> None:
        super().__init__(lambda words: setattr(job, "message", words), "training")
        self._job = job

    def now(self, progress: float, doing: str) -> None:
        """Begin another part of the fit."""
        if self._job.stopping:
            raise Stopped
        self._job.progress, self._job.message, self.doing = progress, doing, doing

    def on_start(self, run: Run) -> None:
        if self._job.stopping:
            raise Stopped

    def on_step(self, step: Step, settings: TrainingSettings) -> None:
        super().on_step(step, settings)
        self.now(_TRAINED * step.number / settings.steps, self.doing)


class PredictJob(Job):
    """Job that predicts a table or a grid by a kept model, slice by slice, and keeps files for download.

    Args:
        table: Uploaded table, which the job copies, because its page may be closed; None for a grid.
        points: Number of points of a grid along each input.
        observation: Whether to include the noise of a new observation.

    Attributes:
        name: Name of the model.
    """

    title: ClassVar[str] = "A prediction"

    def __init__(
        self, queue: JobQueue, limits: Limits, models: Models, name: str, *, table: Path | None, points: int,
        observation: bool,
    ) -> None:  # fmt: skip
        super().__init__(queue)
        self._limits, self._models, self._points, self.name = limits, models, points, name
        self._asked, self._done, self._total, self._begun = Asked(observation=observation), 0, 0, 0.0
        self._own = tempfile.TemporaryDirectory(prefix="apviz-", ignore_cleanup_errors=True)
        self._table = None if table is None else Path(shutil.copy(table, self._own.name))

    @property
    def status(self) -> str:
        """Return a sentence on the predicted points, with the estimated remaining time."""
        if self.state != "running" or not self._done or self._done == self._total:
            return super().status
        left = (time.monotonic() - self._begun) / self._done * (self._total - self._done)
        about = f" · about {duration(left)} left (estimate)" if left >= 1 else ""
        return f"{self._done:,} of {self._total:,} points predicted{about}"

    def work(self) -> None:
        self.message = "loading the model"
        try:
            with heard_warnings() as warned, self._models.new_predictions(self.name) as (folder, keep):
                gp = load_model(self._models.path_of(self.name), "auto")
                predictor = Predictor(gp, self._asked, [self.stop_hook, StopBetweenSolves(self)])
                if self._table is None:
                    source, notes = self._predict_grid(predictor, folder)
                else:
                    source, notes = self._table.name, self._predict_table(predictor, self._table, folder)
                self.message = "writing the files"
                parquet = folder / f"{TABLE}.parquet"
                _write_csv(parquet, folder / f"{TABLE}.csv")
                keep(PredictionsRecord(
                    source=source, rows=self._total, what=self._asked.sentence(gp), accuracy=predictor.accuracy,
                    notes=notes, warnings=warned(), head=_head(parquet),
                    endings=sorted(each.suffix for each in folder.glob(f"{TABLE}.*")),
                ))  # fmt: skip
        finally:
            self._own.cleanup()
        self.message = f"{self._total:,} points predicted, and saved"

    def _predict_table(self, predictor: Predictor, path: Path, folder: Path) -> list[str]:
        """Predict the rows of a table, and return notes on them."""
        decimal = self._models.record(self.name).decimal
        try:
            limits = size_limits(path, self._limits.max_upload_mb)
            rows = read_new_rows(
                path, encodings_of(predictor.gp), decimal=decimal, limits=limits, ranges=ranges_of(predictor.gp)
            )
        except ValueError as error:
            raise ValueError(without_folder(error, path)) from error
        wanted, notes = to_predict(predictor, rows)
        self._begin(wanted.count)
        with (folder / f"{TABLE}.parquet").open("wb") as file:
            write_rows(predictor, wanted, file, ".parquet", self._advance)
        self._keep_picture(predictor, rows, folder)
        return [*rows.notes, *notes]

    def _predict_grid(self, predictor: Predictor, folder: Path) -> tuple[str, list[str]]:
        """Predict a grid, and return it in words, with notes."""
        grid = Grid.with_points(predictor.gp, self._points)
        grid.check_names(predictor.asked.names, ".nc")
        count = self._points ** len(grid.coordinates)
        if count > MOST_POINTS:
            raise ValueError(
                f"a grid of {self._points:,} points along each of {len(grid.coordinates)} inputs has {count:,} points, "
                f"at most {MOST_POINTS:,} are predicted; take {int(MOST_POINTS ** (1 / len(grid.coordinates))):,} or "
                "fewer"
            )
        self._begin(count)
        found = predicted_grid(predictor, grid, grid.model_inputs(), self.name, self._advance)
        write_surface(found, folder / f"{TABLE}.nc")
        values = {name: found[name].values.ravel() for name in predictor.asked.names}
        grid.frame().assign(**values).to_parquet(folder / f"{TABLE}.parquet", index=False)
        if len(grid.coordinates) <= MOST_DRAWN:
            write_surface(thinned(found), folder / PICTURE)
        size = " × ".join(str(len(each)) for each in grid.coordinates.values())
        return f"Grid of {size}", []

    def _begin(self, total: int) -> None:
        self._total, self._begun = total, time.monotonic()
        self._advance(0)

    def _advance(self, count: int) -> None:
        if self.stopping:
            raise Stopped
        self._done += count
        self.progress = self._done / self._total
        self.message = f"{self._done:,} of {self._total:,} points predicted"

    def _keep_picture(self, predictor: Predictor, rows: NewRows, folder: Path) -> None:
        """Keep the part of the predictions of a table that a curve or a map shows, if it has one or two inputs."""
        encodings, names = encodings_of(predictor.gp), [str(name) for name in predictor.gp.feature_names_in_]
        plain = [each for each in encodings if isinstance(each, Encoding) and each.kind in ("number", "date")]
        if len(names) > MOST_DRAWN or len(plain) < len(encodings):
            return
        inputs = rows.inputs(names)
        complete = np.flatnonzero(~np.isnan(inputs).any(axis=1))
        order = complete[np.argsort(inputs[complete, 0], kind="stable")] if len(names) == 1 else complete
        most = DRAWN if len(names) == 1 else DRAWN_POINTS
        drawn = order[:: max(1, -(-len(order) // most))]
        table = pyarrow.parquet.read_table(folder / f"{TABLE}.parquet", columns=predictor.asked.names).take(drawn)
        words, dim = predictor.asked.words(predictor.gp), names[0] if len(names) == 1 else "point"
        days = {each.column: f"days since {each.first}" for each in plain if each.kind == "date"}
        found = {name: (dim, table[name].to_numpy(), {"long_name": words[name]}) for name in words}
        axes = {n: (dim, inputs[drawn, k], {"units": days.get(n, "unknown")}) for k, n in enumerate(names)}
        write_surface(xr.Dataset(found, axes, {"interval_level": predictor.asked.level}), folder / PICTURE)


class ExampleJob(FitJob):
    """Job that fits the example of the page, and predicts its curve."""

    prefix: ClassVar[str] = PREFIX

    def __init__(self, queue: JobQueue, limits: Limits, models: Models) -> None:
        super().__init__(queue, limits, models, SystemSpec(EXAMPLE_DATA, min(EXAMPLE_N, limits.max_n)))

    def work(self) -> None:
        super().work()
        grid = PredictJob(
            self._queue, self._limits, self._models, self.name, table=None, points=EXAMPLE_POINTS, observation=False
        )
        grid.work()


def _data_of(raw: RawTable) -> list[list[float]]:
    """Return some rows of a table with one input, for a chart: inputs and targets; nothing for more inputs."""
    if raw.inputs.shape[1] != 1:
        return []
    rows = np.linspace(0, len(raw.target) - 1, min(len(raw.target), DRAWN_POINTS)).round().astype(int)
    return [raw.inputs[rows, 0].tolist(), raw.target[rows].tolist()]


def _marks(spec: SystemSpec) -> Any:
    """Return the decimal marks that a visitor chose for the inputs of a table."""
    if spec.own is None:
        return None
    decimal, inputs = spec.own.choices.decimal, spec.own.choices.inputs or ()
    return {name: mark for name, mark in decimal.items() if name in inputs} if isinstance(decimal, dict) else decimal


def _write_csv(parquet: Path, path: Path) -> None:
    """Write a Parquet file as CSV, piece by piece, without formulas that a spreadsheet would run."""
    with pyarrow.parquet.ParquetFile(parquet) as file, path.open("wb") as out:
        for number, piece in enumerate(file.iter_batches(_PIECE)):
            frame = piece.to_pandas()
            texts = frame.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]]
            frame[texts] = without_formulas(frame[texts])
            frame.to_csv(out, index=False, header=number == 0)


def _head(parquet: Path) -> dict[str, list[Any]]:
    """Return the first rows of a Parquet file as plain values, by column."""
    with pyarrow.parquet.ParquetFile(parquet) as file:
        first: pd.DataFrame = next(file.iter_batches(HEAD)).to_pandas()
    plain = first.map(lambda cell: float(f"{cell:.5g}") if isinstance(cell, float) else cell)
    return {str(name): [each if isinstance(each, str | int | float) else str(each) for each in plain[name].tolist()]
            for name in plain}  # fmt: skip
