"""Input of the estimator: conversion of arrays, frames and tensors, rejection of texts, and notes on rounding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from apviz.rounding import lost, merged_rows
from apviz.settings import require
from apviz.system import refuse_masked

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


def rounding_notes(
    names: Sequence[str], x: NDArray[np.float64], y: NDArray[np.float64], inputs: Tensor, targets: Tensor,
    dtype: torch.dtype,
) -> Iterator[str]:  # fmt: skip
    """Yield a note for each column or row of raw x, y whose distinct values became equal when scaled and rounded."""
    of_y = ("y",) if y.ndim == 1 else tuple(f"y[:, {output}]" for output in range(y.shape[1]))
    rounded_x, rounded_y = inputs.to(dtype).numpy(), targets.to(dtype).numpy().reshape(len(y), -1)
    yield from lost(tuple(names), x, rounded_x)
    yield from lost(of_y, y.reshape(len(y), -1), rounded_y)
    yield from merged_rows(x, inputs.numpy(), rounded_x)
