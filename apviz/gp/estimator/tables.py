"""Input of the estimator: arrays, frames and tensors are checked and converted, texts rejected; warns of rounding."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data
from torch import Tensor

from apviz.kernels import centre_of
from apviz.rounding import lost, merged_rows
from apviz.settings import require
from apviz.system import check_finite, refuse_masked

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

Array = NDArray[np.float64]
# longest text shown in a message, in characters
MOST_CHARACTERS = 30


def array_of(values: Any, name: str) -> Any:
    """Convert a tensor on any device to an array. Other values are returned unchanged."""
    refuse_masked(values, name)
    if not isinstance(values, Tensor):
        return values
    if values.is_quantized or values.layout != torch.strided or values.is_meta:
        raise TypeError(f"expected an array of dense numbers, got a tensor of {values.dtype}, {values.layout}")
    values = values.detach().cpu()
    # NumPy has no bfloat16
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def inputs_of(x: Any) -> Any:
    """Return inputs (n, d) in a form that scikit-learn accepts.

    Raises:
        ValueError: a column holds texts; the message names it and says how to encode it. Or a column of dates is mixed
            with other columns.
    """
    x = array_of(x, "X")
    for name, values in _columns_of_objects(x):
        date = next((value for value in values if hasattr(value, "year") or isinstance(value, timedelta)), None)
        if date is not None:
            raise ValueError(
                f"{name} of X holds dates or times, such as {date}, but a Gaussian process needs numbers: convert them "
                "first, for instance to days since the first date"
            )
        text = next((value for value in values if isinstance(value, str) and not _is_number(value)), None)
        if text is not None:
            shown = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
            raise ValueError(
                f"{name} of X holds texts, such as {shown!r}, but a Gaussian process needs numbers: encode it first, "
                "for instance by sklearn.preprocessing.OneHotEncoder in a sklearn.compose.ColumnTransformer, "
                "make_column_transformer((OneHotEncoder(sparse_output=False), ["
                f"{name.removeprefix('column ')}]), remainder='passthrough')"
            )
    return x


def _columns_of_objects(x: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the name and values of columns without numbers. scikit-learn reads a frame of dates alone as numbers."""
    if hasattr(x, "columns") and hasattr(x, "iloc"):
        kinds = [getattr(dtype, "kind", "O") for dtype in x.dtypes]
        numbers = "mM" if set(kinds) <= {"m", "M"} else "biufc"
        for place, name in enumerate(x.columns):
            if kinds[place] not in numbers:
                yield f"column {name!r}", x.iloc[:, place].to_numpy(dtype=object)
    elif isinstance(x, list | tuple | np.ndarray):
        try:
            array = np.asarray(x)
        except ValueError:  # rows differ in length; scikit-learn raises a clear error
            return
        if array.ndim == 2 and array.dtype.kind in "OUS":
            for place in range(array.shape[1]):
                yield f"column {place}", array[:, place].tolist()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def weights_of(sample_weight: Any, n: int) -> tuple[NDArray[np.float64] | None, NDArray[np.intp] | None]:
    """Return the positive weights and the rows that have them; None, None: all rows have weight 1."""
    if sample_weight is None:
        return None, None
    given = np.asarray(array_of(sample_weight, "sample_weight"), dtype=np.float64)
    given = np.full(n, float(given)) if given.ndim == 0 else given
    require(given.shape == (n,), "sample_weight", f"shape {given.shape}", f"one number, or ({n},): one for each row")
    bad = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if len(bad):
        where = f"in row {bad[0]}, of {len(bad)} such"
        raise ValueError(f"sample_weight must be finite and at least 0, got {given[bad[0]]:g} {where}")
    used = np.flatnonzero(given)
    if not len(used):
        raise ValueError("at least 1 row needs a sample_weight above zero, got none")
    return given[used], used


def training_data(
    gp: GaussianProcess, x: Any, y: Any, sample_weight: Any
) -> tuple[Array, Array, Array | None, NDArray[np.intp]]:
    """Return inputs, targets and weights of rows with positive weights, and the numbers of these rows."""
    x, y = checked_rows(gp, x, y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    require(gp.drift is None or y.ndim == 1, "drift", gp.drift, "None for several outputs: fit each alone")
    check_finite(torch.from_numpy(y).reshape(len(y), -1), "y")
    weights, used = weights_of(sample_weight, len(x))
    return (x, y, None, np.arange(len(x))) if used is None else (x[used], y[used], weights, used)


@contextmanager
def unchanged_if_failed(gp: GaussianProcess) -> Iterator[None]:
    """Restore all attributes if the block raises, so that names of inputs stay those that the model was fitted to."""
    before = dict(gp.__dict__)
    try:
        yield
    except BaseException:
        gp.__dict__.clear()
        gp.__dict__.update(before)
        raise


def checked_rows(gp: GaussianProcess, x: Any, y: Any, *, reset: bool = True) -> tuple[Array, Array]:
    """Return inputs and targets, checked as scikit-learn checks them; `reset` keeps the number and names of inputs."""
    x, y = validate_data(
        gp, inputs_of(x), array_of(y, "y"), dtype=np.float64, y_numeric=True, multi_output=True, reset=reset
    )
    return x, y.astype(np.float64)


def points_of(gp: GaussianProcess, x: Any) -> Array:
    """Return test inputs x: (m, d), checked as scikit-learn checks them."""
    points: Array = validate_data(gp, inputs_of(x), dtype=np.float64, reset=False)
    return points


def scaled_points(gp: GaussianProcess, x: Any) -> Array:
    """Return test inputs x: (m, d) of a fitted estimator as its posterior takes them. Warns if it ignores values."""
    x, scaling = points_of(gp, x), gp.scaling_
    ignored = (scaling.half_width == 0) & (x != scaling.centre).any(axis=0)
    if ignored.any():
        column = int(ignored.argmax())
        warnings.warn(
            f"column {column} of X was {scaling.centre[column]:g} in all training rows; its other values are ignored. "
            "With scale=False the kernel uses them",
            stacklevel=3,
        )
    return scaling.inputs(x)


def warn_of_rounding(
    gp: GaussianProcess, x: Array, y: Array, inputs: Tensor, targets: Tensor, dtype: torch.dtype
) -> None:
    """Warn for each column or row of raw x, y whose distinct values became equal when scaled and rounded."""
    names = getattr(gp, "feature_names_in_", [f"x[:, {column}]" for column in range(x.shape[1])])
    of_y = ("y",) if y.ndim == 1 else tuple(f"y[:, {output}]" for output in range(y.shape[1]))
    centred = inputs - centre_of(inputs)  # as engines do before they round
    rounded_x, rounded_y = centred.to(dtype).numpy(), targets.to(dtype).numpy().reshape(len(y), -1)
    for note in (
        *lost(tuple(names), x, rounded_x),
        *lost(of_y, y.reshape(len(y), -1), rounded_y),
        *merged_rows(x, centred.numpy(), rounded_x),
    ):
        warnings.warn(f"{note} (dtype={gp.dtype!r}, scale={gp.scale})", stacklevel=4)
