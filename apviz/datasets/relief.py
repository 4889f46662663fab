"""The earth's relief as points of the unit sphere, from the HDF5 file that comes with pvlib."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apviz.datasets.preprocessing import RawTable

# pvlib's encoding of heights (`pvlib.location.lookup_altitude`)
METRES_PER_STEP, LOWEST_METRES, NO_DATA = 28.0, -450.0, 255


def read_earth(path: Path) -> RawTable:
    """Read point of the unit sphere → height in metres; 0 where the file has none, as for the seas.

    Raises:
        ImportError: h5py is not installed.
        ValueError: not HDF5, or without a grid of bytes called Altitude.
    """
    raw = _read_grid(path)
    height = METRES_PER_STEP * raw.astype(np.float64) + LOWEST_METRES
    height[raw == NO_DATA] = 0.0
    return RawTable(sphere_points(*raw.shape), height.ravel(), ("x", "y", "z"), "height")


def sphere_points(rows: int, columns: int) -> NDArray[np.float64]:
    """Return cell centres of a grid of latitudes from the north, and longitudes from 180° west; (rows · columns, 3)."""
    latitude = np.pi * (0.5 - (np.arange(rows) + 0.5) / rows)[:, None]
    longitude = np.pi * (2.0 * (np.arange(columns) + 0.5) / columns - 1.0)
    points = np.empty((rows, columns, 3))
    points[..., 0] = np.cos(latitude) * np.cos(longitude)
    points[..., 1] = np.cos(latitude) * np.sin(longitude)
    points[..., 2] = np.sin(latitude)
    return points.reshape(-1, 3)


def _read_grid(path: Path) -> NDArray[np.uint8]:
    try:
        import h5py
    except ImportError as error:
        raise ImportError("the data set 'earth' is an HDF5 file: install h5py (pip install h5py)") from error
    try:
        with h5py.File(path, "r") as file:
            grid = np.asarray(file["Altitude"][()])
    except (OSError, KeyError) as error:
        raise ValueError(f"{path} is not an HDF5 file with the data set Altitude ({error}); fetch it again") from error
    if grid.dtype != np.uint8 or grid.ndim != 2:
        raise ValueError(f"{path}: Altitude is {grid.dtype} of shape {grid.shape}; expected a grid of bytes")
    return grid
