"""The data sets that come with scikit-learn and need no network."""

from __future__ import annotations

from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from apviz.datasets.preprocessing import MINIMUM_ROWS, RawTable, train_size

LUMINANCE = (0.299, 0.587, 0.114)  # ITU-R BT.601
PICTURE_SHAPE = (427, 640)


def read_china(stride: int = 1) -> RawTable:
    """Read pixel position (row, column) → luminance, for every `stride`-th row and column."""
    grey = _read_luminance()[::stride, ::stride].ravel()
    rows, columns = np.meshgrid(*(np.arange(0, size, stride) for size in PICTURE_SHAPE), indexing="ij")
    position = np.column_stack([rows.ravel(), columns.ravel()]).astype(np.float64)
    return RawTable(position, grey, ("row", "column"), "luminance")


def read_china_profile() -> RawTable:
    """Read column → mean luminance of its pixels: a single input, so that functions can be drawn."""
    column = np.arange(PICTURE_SHAPE[1], dtype=np.float64)[:, None]
    return RawTable(column, _read_luminance().mean(axis=0), ("column",), "mean luminance")


def _read_luminance() -> NDArray[np.float64]:
    """Return the photograph in grey, (rows, columns)."""
    datasets = _scikit_learn()
    try:
        picture = datasets.load_sample_image("china.jpg")  # type: ignore[attr-defined]
    except ImportError as error:
        raise ImportError("the data set 'china' is a JPEG file: install Pillow (pip install pillow)") from error
    return np.asarray(picture.astype(np.float64) @ np.array(LUMINANCE))


def grid_shape(stride: int) -> tuple[int, int]:
    """Return rows and columns of the picture, thinned by `stride`."""
    return ceil(PICTURE_SHAPE[0] / stride), ceil(PICTURE_SHAPE[1] / stride)


def grid_stride(n: int | None) -> int:
    """Return the largest stride that leaves at least n training pixels; 1 if there are fewer than n."""
    stride = 1
    while n is not None and train_size(prod(grid_shape(stride + 1))) >= max(n, MINIMUM_ROWS):
        stride += 1
    return stride


def read_diabetes() -> RawTable:
    """Read ten baseline variables → disease progression after one year."""
    bunch = _scikit_learn().load_diabetes(scaled=False)  # type: ignore[attr-defined]
    return RawTable(
        np.asarray(bunch.data, dtype=np.float64),
        np.asarray(bunch.target, dtype=np.float64),
        tuple(bunch.feature_names),
        "progression",
    )


def _scikit_learn() -> object:
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError("this data set comes with scikit-learn (pip install scikit-learn)") from error
    return datasets
