"""Predictions on a grid over the training inputs, as NetCDF or Zarr."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

import apviz
from apviz.datasets.sphere import AnyEncoding, SphereEncoding, range_in_degrees
from apviz.files import file_made_whole, folder_made_whole
from apviz.table_models.predicting import Predictor
from apviz.table_models.saved import encodings_of, target_of, training_range

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

Array = NDArray[np.float64]
ENDINGS: Final = (".nc", ".zarr")
MOST_INPUTS: Final = 3
#: Largest number of inputs of a picture.
MOST_DRAWN: Final = 2
#: Largest number of points; their predictions are held in memory.
MOST_POINTS: Final = 5_000_000
#: Rounding error of a range, as a share of a step.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid over the range of the training inputs.

    Attributes:
        coordinates: values along each axis, by its name: the inputs, and latitude and longitude in degrees.
        encodings: how axes become the inputs.
        inputs: names of the inputs, in the order of the model.
    """

    coordinates: Mapping[str, Array]
    encodings: tuple[AnyEncoding, ...]
    inputs: tuple[str, ...]

    @classmethod
    def over(cls, gp: GaussianProcess, steps: Sequence[float], *, setting: str = "steps") -> Grid:
        """Return the grid that starts at the smallest training value of each input; messages name the setting."""
        names, low, high = _ranges(gp, setting)
        steps, text = _of_each(steps, names, setting), ",".join(f"{step:g}" for step in steps)
        short = [place for place, step in enumerate(steps) if step > high[place] - low[place]]
        if short:
            at = short[0]
            raise ValueError(
                f"{setting} {text}: the step {steps[at]:g} is larger than the range of {names[at]}, {low[at]:.6g} to "
                f"{high[at]:.6g}; give one step for each input"
            )
        counts = _counts(high - low, steps)
        if math.prod(counts) > MOST_POINTS:
            wider = ",".join(f"{step:g}" for step in _wider(high - low, steps))
            raise ValueError(
                f"{setting} {text} has {math.prod(counts):,} points, at most {MOST_POINTS:,} are predicted at once; "
                f"use {setting} {wider}"
            )
        return cls._of(gp, {name: low[k] + steps[k] * np.arange(counts[k]) for k, name in enumerate(names)})

    @classmethod
    def with_points(cls, gp: GaussianProcess, points: int) -> Grid:
        """Return the grid with this number of points along each input, from smallest to largest training value."""
        names, low, high = _ranges(gp, "a grid")
        return cls._of(gp, {name: np.linspace(low[k], high[k], points) for k, name in enumerate(names)})

    @classmethod
    def _of(cls, gp: GaussianProcess, axes: Mapping[str, Array]) -> Grid:
        return cls(axes, encodings_of(gp), tuple(str(name) for name in gp.feature_names_in_))

    @property
    def days(self) -> dict[str, str]:
        """Day 0 of axes that are dates, by name."""
        dates = (each for each in self.encodings if not isinstance(each, SphereEncoding) and each.kind == "date")
        return {each.column: each.first for each in dates}

    def model_inputs(self) -> Array:
        """Return the inputs of the model at all points, (m, d)."""
        by_axis = dict(zip(self.coordinates, self.points().T, strict=True))
        made: dict[str, Array] = {}
        for each in self.encodings:
            own = [by_axis[name] for name in each.columns]
            parts = each.of_degrees(*own).T if isinstance(each, SphereEncoding) else own
            made |= dict(zip(each.names, parts, strict=True))
        return np.column_stack([made[name] for name in self.inputs])

    def points(self) -> Array:
        """Return all points, (m, d), the last input fastest."""
        parts = np.meshgrid(*self.coordinates.values(), indexing="ij")
        return np.column_stack([part.ravel() for part in parts])

    def frame(self) -> pd.DataFrame:
        """Return all points as a table, in which dates are dates."""
        frame = pd.DataFrame(self.points(), columns=list(self.coordinates))
        for name, first in self.days.items():
            frame[name] = pd.Timestamp(first).tz_localize(None) + pd.to_timedelta(frame[name], unit="D")
        return frame

    def check_names(self, predicted: Sequence[str], ending: str) -> None:
        """Refuse names of inputs that a file of this ending cannot hold, before anything is predicted."""
        for name in self.coordinates:
            if name in predicted:
                raise ValueError(f"the input {name} has the name of a predicted column; rename it and fit again")
            if "/" in name and ending in ENDINGS:
                raise ValueError(f"NetCDF and Zarr allow no / in a name such as {name}; write .csv or .parquet")

    def dataset(self, found: Mapping[str, Array], words: Mapping[str, str], attrs: Mapping[str, object]) -> xr.Dataset:
        """Return predictions (m,) by name at all points as variables over the inputs, with a description of each."""
        shape, dims = [len(each) for each in self.coordinates.values()], list(self.coordinates)
        coordinates = {name: (name, values, self._about(name)) for name, values in self.coordinates.items()}
        variables = {
            name: (dims, values.reshape(shape), {"long_name": words[name], "units": "unknown"})
            for name, values in found.items()
        }
        return xr.Dataset(variables, coordinates, dict(attrs))

    def _about(self, name: str) -> dict[str, str]:
        units = f"days since {self.days[name]}" if name in self.days else "unknown"
        return {"long_name": name, "units": units}


def _ranges(gp: GaussianProcess, setting: str) -> tuple[list[str], Array, Array]:
    """Return the names of the axes, and the smallest and largest training value along each."""
    encodings, inputs = encodings_of(gp), [str(name) for name in gp.feature_names_in_]
    if texts := [each.column for each in encodings if each.kind == "text"]:
        raise ValueError(f"{setting} needs inputs that are numbers or dates, but {texts[0]} is text; predict a table")
    low, high = training_range(gp)
    found: dict[str, tuple[float, float]] = {}
    for each in sorted(encodings, key=lambda each: inputs.index(each.names[0])):
        places = [inputs.index(name) for name in each.names]
        if isinstance(each, SphereEncoding):
            points = gp.scaling_.centre + gp.scaling_.half_width * gp.rows_.x.numpy()
            found |= zip(each.columns, np.stack(range_in_degrees(points[:, places]), axis=1).tolist(), strict=True)
        else:
            found[each.column] = (low[places[0]], high[places[0]])
    if len(found) > MOST_INPUTS:
        raise ValueError(f"{setting} takes up to {MOST_INPUTS} inputs, the model has {len(found)}; predict a table")
    ranges = np.array([*found.values()])
    return [*found], ranges[:, 0], ranges[:, 1]


def _of_each(steps: Sequence[float], names: Sequence[str], setting: str) -> list[float]:
    """Return one step for each input."""
    text = ",".join(f"{step:g}" for step in steps)
    if len(steps) not in (1, len(names)):
        raise ValueError(f"{setting} takes one step, or one for each of {', '.join(names)}; got {text!r}")
    if not all(0 < step < math.inf for step in steps):
        raise ValueError(f"{setting} takes positive steps, got {text!r}")
    return [*steps] * (len(names) if len(steps) == 1 else 1)


def _counts(spans: Array, steps: Sequence[float]) -> list[int]:
    return [math.floor(span / step + _ROUNDING) + 1 for span, step in zip(spans.tolist(), steps, strict=True)]


def _wider(spans: Array, steps: Sequence[float]) -> list[float]:
    """Return larger steps, with three digits, at which the grid is small enough."""
    wider = list(steps)
    while math.prod(_counts(spans, wider)) > MOST_POINTS:
        larger = [float(f"{1.05 * step:.3g}") for step in wider]
        wider = [new if new <= span else old for new, old, span in zip(larger, wider, spans.tolist(), strict=True)]
    return wider


def predicted_grid(
    predictor: Predictor, grid: Grid, points: Array, model: str, advance: Callable[[int], None]
) -> xr.Dataset:
    """Predict a grid, whose points as inputs of the model are (m, d), by a model of this name."""
    gp, asked = predictor.gp, predictor.asked
    found = predictor.predict(points, advance)
    about = _attributes(gp, model, asked.what, asked.level)
    about["accuracy"] = predictor.accuracy.removeprefix("Accuracy: ")
    return grid.dataset(found, asked.words(gp), about)


def _attributes(gp: GaussianProcess, model: str, what: str, level: float) -> dict[str, object]:
    """Return the attributes of predictions: what they are, and the model, by its name."""
    return {
        "title": f"{target_of(gp)} predicted by {model}",
        "prediction_of": what,
        "interval_level": level,
        "model": _model_in_words(gp),
        "training_rows": gp.posterior_.system.n,
        "created_by": f"apviz {apviz.__version__}",
    }


def _model_in_words(gp: GaussianProcess) -> str:
    h = gp.scaling_.to_raw(gp.hyperparameters_)
    kernel = repr(h.kernel)
    if isinstance(h.kernel, str):
        scales = ", ".join(f"{scale:.6g}" for scale in h.lengthscale)
        kernel = f"{h.kernel}, lengthscale {scales}, outputscale {h.outputscale:.6g}"
    mean = f"prior mean {h.mean:.6g}" if gp.drift is None else f"{gp.drift} drift"
    return f"Gaussian process, {kernel}, noise variance {h.noise:.6g}, {mean}"


def is_surface(path: Path) -> bool:
    """Return whether a path is a NetCDF file or a Zarr folder, which `--force` may replace."""
    if path.is_dir():
        return (path / "zarr.json").is_file()
    with path.open("rb") as file:
        return file.read(3) == b"CDF"


def write_surface(predictions: xr.Dataset, path: Path) -> None:
    """Write NetCDF or Zarr, by the ending of the path, completely or not at all."""
    if path.suffix == ".zarr":
        with folder_made_whole(path) as folder:
            predictions.to_zarr(folder, mode="w", consolidated=False)
            if path.exists():
                shutil.rmtree(path)
        return
    with file_made_whole(path) as file:
        file.write(predictions.to_netcdf(engine="scipy"))
