"""Predictions by a model of a table, slice by slice: what is predicted, tables with predictions, and their accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray
from scipy.stats import norm

from apviz.datasets.tables.columns import quoted
from apviz.datasets.tables.new_rows import NewRows
from apviz.gp.prediction.prediction_accuracy import PredictionAccuracy, together
from apviz.gp.prediction.variances import MAX_BATCH
from apviz.settings import require
from apviz.solvers import Hook
from apviz.table_models.saved import accuracy_of, target_of

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

Array = NDArray[np.float64]
#: Rows written at once; a row group of Parquet.
WRITTEN: Final = 65_536
#: Rows whose errors are kept for what is said of all.
MOST_ERRORS: Final = 65_536


@dataclass(frozen=True)
class Asked:
    """What is predicted: an observation y or the function f, with sd and an interval of this level or not."""

    observation: bool = False
    level: float = 0.95
    sd: bool = True

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

    def of(self, gp: GaussianProcess, inputs: Array, hooks: Iterable[Hook] = ()) -> dict[str, Array]:
        """Predict rows (m, d), by name of the column."""
        frame = pd.DataFrame(inputs, columns=list(gp.feature_names_in_))
        if not self.sd:
            return {"mean": np.asarray(gp.predict(frame))}
        mean, sd = gp.predict(frame, return_std=True, include_noise=self.observation, hooks=hooks)
        half = float(norm.ppf(0.5 + self.level / 2)) * sd
        return {"mean": mean, "sd": sd, "lower": mean - half, "upper": mean + half}


@dataclass(frozen=True, eq=False)
class Predictor:
    """A model that predicts slice by slice, so that memory does not grow with the number of rows."""

    gp: GaussianProcess
    asked: Asked
    hooks: Iterable[Hook] = ()
    reached: list[PredictionAccuracy] = field(default_factory=list)

    def predict(self, inputs: Array, advance: Callable[[int], None]) -> dict[str, Array]:
        """Predict rows (m, d), by name of the column; NaN where inputs are missing. `advance` gets numbers of rows."""
        gp, asked = self.gp, self.asked
        found = {name: np.full(len(inputs), np.nan) for name in asked.names}
        complete = np.flatnonzero(~np.isnan(inputs).any(axis=1))
        # each call measures the accuracy of near rows on a sample, which should be of many
        near = gp.posterior_.variance_method(gp.variance, len(complete)) == "neighbours"
        for rows in slices(len(complete), MAX_BATCH if asked.sd and not near else WRITTEN):
            for name, values in asked.of(gp, inputs[complete[rows]], self.hooks).items():
                found[name][complete[rows]] = values
            self._keep(gp.prediction_accuracy_)
            advance(rows.stop - rows.start)
        return found

    def _keep(self, found: PredictionAccuracy) -> None:
        """Keep the accuracy of a slice; a sample of all errors if they become many."""
        self.reached.append(found)
        if sum(each.sampled for each in self.reached[1:]) > MOST_ERRORS:
            self.reached[:] = [together([*self.reached[:1], together(self.reached[1:])]).thinned(MOST_ERRORS)]

    @property
    def accuracy(self) -> str:
        """Say how accurate all slices together are."""
        return accuracy_of(self.gp, together(self.reached) if self.reached else None)


def slices(count: int, size: int) -> Iterator[slice]:
    """Yield slices of at most this size."""
    yield from (slice(start, min(start + size, count)) for start in range(0, count, size))


@dataclass(frozen=True, eq=False)
class ToPredict:
    """Rows to predict, and columns that are written in front of the predictions.

    Attributes:
        count: number of rows.
        schema: these columns and their types.
        batches: returns the columns and the inputs of the model (m, d) of each batch, each time from the start.
    """

    count: int
    schema: pyarrow.Schema
    batches: Callable[[], Iterable[tuple[pd.DataFrame, Array]]]

    @classmethod
    def of_frame(cls, frame: pd.DataFrame, inputs: Array) -> ToPredict:
        """Return rows that are in memory."""
        schema = pyarrow.Schema.from_pandas(frame, preserve_index=False).remove_metadata()
        return cls(len(frame), schema, lambda: ((frame.iloc[s], inputs[s]) for s in slices(len(frame), WRITTEN)))


def to_predict(predictor: Predictor, rows: NewRows) -> tuple[ToPredict, list[str]]:
    """Return the rows of a table, and notes on its rows and columns."""
    notes, names = [], [str(name) for name in predictor.gp.feature_names_in_]
    if rows.incomplete:
        notes.append(f"{rows.incomplete:,} of {rows.count:,} rows lack a value: their predictions are empty")
    if rows.outside:
        where = f"{rows.outside:,} of {rows.count:,} rows"
        notes.append(f"{where} are outside the range of the training inputs: extrapolated")
    taken = [name for name in rows.schema.names if name in predictor.asked.names]
    if dropped := [*rows.left_out, *taken]:
        notes.append(f"columns that are not copied: {quoted(dropped)}")
    schema = pyarrow.schema([each for each in rows.schema if each.name not in taken])
    return ToPredict(
        rows.count, schema, lambda: ((frame[schema.names], inputs) for frame, inputs in rows.batches(names))
    ), notes  # fmt: skip


def write_rows(
    predictor: Predictor, rows: ToPredict, file: BinaryIO, ending: str, advance: Callable[[int], None]
) -> None:
    """Predict rows batch by batch, and write each batch to a CSV or Parquet file."""
    with _writer(file, ending, rows.schema, predictor) as write:
        for frame, inputs in rows.batches():
            write(frame, predictor.predict(inputs, advance))


@contextmanager
def _writer(
    file: BinaryIO, ending: str, copied: pyarrow.Schema, predictor: Predictor
) -> Iterator[Callable[[pd.DataFrame, dict[str, Array]], None]]:
    """Yield a function that appends rows with their predictions to a CSV or Parquet file."""
    asked = predictor.asked
    if ending == ".csv":
        is_first = True

        def to_csv(frame: pd.DataFrame, found: dict[str, Array]) -> None:
            nonlocal is_first
            frame.assign(**found).to_csv(file, mode="wb", index=False, header=is_first)
            is_first = False

        yield to_csv
        return
    require(ending == ".parquet", "ending", ending, ".csv or .parquet")
    fields = [pyarrow.field(name, pyarrow.float64()) for name in asked.names]
    schema = pyarrow.schema([*copied, *fields], metadata={"predictions": asked.sentence(predictor.gp)})
    with pyarrow.parquet.ParquetWriter(file, schema) as parquet:

        def to_parquet(frame: pd.DataFrame, found: dict[str, Array]) -> None:
            part = pyarrow.Table.from_pandas(frame, copied, preserve_index=False)
            values = [pyarrow.array(found[name], mask=np.isnan(found[name])) for name in asked.names]
            parquet.write_table(pyarrow.Table.from_arrays([*part.columns, *values], schema=schema))

        yield to_parquet
        parquet.add_key_value_metadata({"accuracy": predictor.accuracy.removeprefix("Accuracy: ")})
