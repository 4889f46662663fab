"""Rows in a plane: the two principal axes of the inputs as the kernel sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace


def principal_plane(trace: Trace) -> xr.Dataset:
    """`position` (row, axis) of each row along the two axes of largest variance of x/ℓ, in lengthscales.

    `share` (axis) is the part of the variance that lies along each axis.

    Raises:
        ValueError: no rows recorded, or one input.
    """
    if "rows" not in trace:
        raise ValueError(f"this trace of {trace.label} has no rows; record them: apviz.Recorder(rows=True)")
    x = trace["rows"]["coordinates"].values
    if x.shape[1] < 2:
        raise ValueError(f"two principal axes need at least two inputs; this trace of {trace.label} has one")
    scaled = x / np.asarray(trace.attrs["lengthscale"])
    scaled = scaled - scaled.mean(axis=0)
    variances, axes = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    first = axes[:, ::-1][:, :2]
    # an axis has no direction; the input that weighs most points to the right, or upwards
    signs = np.sign(np.take_along_axis(first, np.abs(first).argmax(axis=0)[None], axis=0))
    total = float(variances.sum())
    return xr.Dataset(
        {
            "position": (
                ("row", "axis"), scaled @ (first * signs), {"long_name": "place in the plane", "units": "lengthscale"},
            ),
            "share": (
                ("axis",), variances[::-1][:2] / (total or 1.0), {"long_name": "part of the variance", "units": "1"},
            ),
        }
    )  # fmt: skip
