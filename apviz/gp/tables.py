"""What the estimator is given: arrays, frames and tensors as arrays, texts refused, and what rounding takes away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from apviz.rounding import lost, merged_rows
from apviz.system import refuse_masked

# of a text that is shown
MOST_CHARACTERS = 30


def array_of(values: Any, name: str) -> Any:
    """Return a tensor as an array, wherever it is; all else as it is.

    Raises:
        TypeError: a tensor that is not dense; masked values.
    """
    refuse_masked(values, name)
    if not isinstance(values, Tensor):
        return values
    if values.is_quantized or values.layout != torch.strided or values.is_meta:
        raise TypeError(f"expected an array of dense numbers, got a tensor of {values.dtype}, {values.layout}")
    values = values.detach().cpu()
    # NumPy has no bfloat16
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def inputs_of(x: Any) -> Any:
    """Return inputs as scikit-learn takes them, (n, d).

    Raises:
        ValueError: a column of texts; which, and what to encode it with. A column of dates beside others.
    """
    x = array_of(x, "X")
    for name, values in _columns_of_objects(x):
        date = next((value for value in values if hasattr(value, "year") or isinstance(value, timedelta)), None)
        if date is not None:
            raise ValueError(
                f"{name} of X holds dates or times, such as {date}, and a Gaussian process takes numbers: make numbers "
                "of them first, such as the days since the first of them"
            )
        text = next((value for value in values if isinstance(value, str) and not _is_number(value)), None)
        if text is not None:
            shown = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
            raise ValueError(
                f"{name} of X holds texts, such as {shown!r}, and a Gaussian process takes numbers: encode it first, "
                "for instance by sklearn.preprocessing.OneHotEncoder in a sklearn.compose.ColumnTransformer, "
                "make_column_transformer((OneHotEncoder(sparse_output=False), ["
                f"{name.removeprefix('column ')}]), remainder='passthrough')"
            )
    return x


def _columns_of_objects(x: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """Columns that are not of numbers, with what to call them; dates alone are numbers to scikit-learn."""
    if hasattr(x, "columns") and hasattr(x, "iloc"):
        kinds = [getattr(dtype, "kind", "O") for dtype in x.dtypes]
        numbers = "mM" if set(kinds) <= {"m", "M"} else "biufc"
        for place, name in enumerate(x.columns):
            if kinds[place] not in numbers:
                yield f"column {name!r}", x.iloc[:, place].to_numpy(dtype=object)
    elif isinstance(x, list | tuple | np.ndarray):
        try:
            array = np.asarray(x)
        except ValueError:  # rows of several lengths, of which scikit-learn speaks
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


def rounding_notes(
    names: Sequence[str], x: NDArray[np.float64], y: NDArray[np.float64], inputs: Tensor, targets: Tensor,
    dtype: torch.dtype,
) -> Iterator[str]:  # fmt: skip
    """Report where values or rows as they are solved with have become alike.

    Args:
        names: of the columns.
        x, y: (n, d) and (n,) as they were given.
        inputs, targets: scaled.
        dtype: in which they are solved with.
    """
    rounded_x, rounded_y = inputs.to(dtype).numpy(), targets.to(dtype)[:, None].numpy()
    yield from lost(tuple(names), x, rounded_x)
    yield from lost(("y",), y[:, None], rounded_y)
    yield from merged_rows(x, inputs.numpy(), rounded_x)
