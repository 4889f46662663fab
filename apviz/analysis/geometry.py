"""Geometry of a trace: the function of its weights, and its rows in a plane."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import torch
import xarray as xr

from apviz.operators.tiled import TiledOperator
from apviz.tracing.trace import Trace

#: Number of grid points in the shortest lengthscale, and least and most grid points in total.
PER_LENGTHSCALE: Final = 8
PLACES: Final = (400, 2000)


def functions(trace: Trace) -> xr.Dataset:
    """Return s(x) = Σᵢ wᵢ k(xᵢ, x) on a grid over the data, `value` (update, x), with the weights of each snapshot.

    Away from the data, it is s⁽ʲ⁾ of the paper (section 4), because the noise σ²δ of its kernel is zero there. It is
    also the predictive mean of the current weights, minus the prior mean.

    Raises:
        ValueError: More than one input, no weights recorded, or a kernel that is not part of apviz.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder(rows=True, snapshots=[0, 1, 2], weights=True)
        >>> solution = apviz.solve(system, apviz.AlternatingProjection(block_size=50), hooks=[recorder])
        >>> s = apviz.analysis.functions(recorder.trace)["value"]
        >>> s.sizes["update"], float(abs(s.sel(update=0)).max())  # it begins at zero
        (3, 0.0)
    """
    if trace.attrs["d"] != 1:
        raise ValueError(
            f"functions are drawn over one input, such as that of 'china-profile'; this trace of {trace.method_name} "
            f"has d = {trace.attrs['d']}"
        )
    if "rows" not in trace or "snapshot" not in trace or "weights" not in trace["snapshot"]:
        raise ValueError(
            f"this trace of {trace.method_name} has no weights; record them while solving: "
            "hooks=[apviz.Recorder(rows=True, snapshots=range(0, 60), weights=True)]"
        )
    a, x, snapshot = trace.attrs, trace["rows"]["coordinates"].values, trace["snapshot"]
    kernel, span = trace.kernel, float(np.ptp(x))
    shortest = min((float(scales.min()) for scales, _ in kernel.shortest_scales(1)), default=math.inf)
    places = min(max(math.ceil(PER_LENGTHSCALE * span / shortest), PLACES[0]), PLACES[1])
    grid = np.linspace(x.min(), x.max(), places)
    operator = TiledOperator(torch.as_tensor(x), kernel, a["noise"], compiled=False)
    weights = torch.as_tensor(snapshot["weights"].values.T).contiguous()
    value = operator.cross_matmul(torch.as_tensor(grid[:, None]), weights).T.numpy()
    return xr.Dataset(
        {"value": (("update", "x"), value, {"long_name": "s(x)", "units": "target unit"})},
        coords={"update": snapshot["update"].values, "x": grid},
    )


def principal_plane(trace: Trace) -> xr.Dataset:
    """Project each row onto the two axes of largest variance of x/ℓ: `position` (row, axis), in lengthscales.

    `share` (axis) is the share of the variance along each axis.

    Raises:
        ValueError: No rows recorded, or one input.

    Examples:
        >>> import torch, apviz
        >>> x = torch.stack(torch.meshgrid(torch.arange(9.0), torch.arange(5.0), indexing="ij"), -1).reshape(-1, 2)
        >>> recorder = apviz.Recorder(rows=True)
        >>> system = apviz.KernelSystem(x, x.sum(1), apviz.RBF(lengthscale=[1.0, 2.0]), noise=0.1, device="cpu")
        >>> solution = apviz.solve(system, apviz.Cholesky(), hooks=[recorder])
        >>> apviz.analysis.principal_plane(recorder.trace)["share"].values.round(2)  # of variances 20/3 and 2/4
        array([0.93, 0.07])
    """
    if "rows" not in trace:
        raise ValueError(f"this trace of {trace.method_name} has no rows; record them: apviz.Recorder(rows=True)")
    x = trace["rows"]["coordinates"].values
    if x.shape[1] < 2:
        raise ValueError(f"two principal axes need at least two inputs; this trace of {trace.method_name} has one")
    scaled = x / np.asarray(trace.attrs["lengthscale"] or 1.0)  # a sum or product of kernels has several lengthscales
    scaled = scaled - scaled.mean(axis=0)
    variances, axes = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    first = axes[:, ::-1][:, :2]
    # an axis has no direction, so the input with the largest weight points to the right, or upwards
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
