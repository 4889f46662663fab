"""Geometry for pictures beyond the record: the plane of the rows, and the function over one input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis import geometry


def solved(x, solver=None, lengthscale=0.3, kernel=None, **recording):
    y = torch.sin(5 * x.sum(1))
    kernel = kernel or apviz.Matern32(lengthscale=lengthscale, outputscale=0.7)
    system = apviz.KernelSystem(x, y, kernel, noise=0.05, dtype=torch.float64, device="cpu")
    recorder = apviz.Recorder(**{"rows": True, "snapshots": range(4), "weights": True} | recording)
    apviz.solve(system, solver or apviz.AlternatingProjection(block_size=20, rule="cyclic", max_epochs=1), [recorder])
    return recorder.trace


@pytest.fixture(scope="module")
def line():
    return solved(2 * torch.rand(60, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 1)


def test_the_plane_is_spanned_by_the_singular_vectors_of_the_inputs_in_lengthscales():
    x = torch.rand(80, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    lengthscale = (0.1, 0.3, 2.0, 0.7)
    plane = geometry.principal_plane(solved(x, lengthscale=lengthscale))
    scaled = x.numpy() / lengthscale
    scaled -= scaled.mean(axis=0)
    u, s, _ = np.linalg.svd(scaled, full_matrices=False)
    np.testing.assert_allclose(np.abs(plane["position"].values), np.abs(u[:, :2] * s[:2]), atol=1e-10)
    np.testing.assert_allclose(plane["share"].values, s[:2] ** 2 / (s**2).sum())


def test_a_plane_needs_two_inputs_and_recorded_rows(line):
    with pytest.raises(ValueError, match="two principal axes need at least two inputs"):
        geometry.principal_plane(line)
    bare = solved(torch.rand(40, 2, dtype=torch.float64), rows=False)
    with pytest.raises(ValueError, match=r"has no rows; record them: apviz\.Recorder\(rows=True\)"):
        geometry.principal_plane(bare)


def test_the_function_equals_the_kernel_formula_times_the_weights(line):
    found, x = geometry.functions(line), line["rows"]["coordinates"].values[:, 0]
    r = np.sqrt(3) * np.abs(found["x"].values[:, None] - x) / 0.3
    expected = line["snapshot"]["weights"].values @ (0.7 * (1 + r) * np.exp(-r)).T
    np.testing.assert_allclose(found["value"].values, expected, atol=1e-12)
    assert found["update"].values.tolist() == [0, 1, 2, 3] and not found["value"][0].any()
    assert (found["x"].values[0], found["x"].values[-1]) == (x.min(), x.max())


def test_the_function_of_a_sum_of_kernels_is_computed_from_its_trace(line, tmp_path):
    x = torch.as_tensor(line["rows"]["coordinates"].values)
    solved(x, kernel=0.5 * (apviz.RBF(lengthscale=0.2) * apviz.Linear() + apviz.Periodic(period=0.7))).save(
        tmp_path / "sum.zarr"
    )
    trace = apviz.open_trace(tmp_path / "sum.zarr")
    found = geometry.functions(trace)
    grid, x = found["x"].values[:, None], trace["rows"]["coordinates"].values[:, 0]
    k = np.exp(-((grid - x) ** 2) / (2 * 0.2**2)) * grid * x + np.exp(-2 * np.sin(np.pi * (grid - x) / 0.7) ** 2)
    np.testing.assert_allclose(found["value"].values, trace["snapshot"]["weights"].values @ (0.5 * k).T, atol=1e-12)
    assert apviz.plots.FittedFunction(trace).figure(2).layout.title.text


class Exponential(apviz.Stationary):
    """A custom kernel with the name of another one in apviz."""

    distance_scale = 1.0

    def correlation_(self, u, spare):
        return u.sqrt_().neg_().exp_()

    def slope(self, u):
        return -torch.exp(-u.sqrt()) / (2 * u.sqrt())


@pytest.mark.parametrize("name", ["Exponential", "RBF", "rbf"])
def test_the_function_of_a_custom_kernel_is_not_computed_with_another_kernel(name):
    own = type(name, (Exponential,), {})
    trace = solved(torch.rand(40, 1, dtype=torch.float64), kernel=own(lengthscale=0.4))
    with pytest.raises(
        ValueError, match=f"the code of the kernel {name}, which is not apviz's: create the kernel again"
    ):
        geometry.functions(trace)
    trace = solved(torch.rand(40, 1, dtype=torch.float64), kernel=own(lengthscale=0.4) + apviz.Linear())
    with pytest.raises(ValueError, match=rf"the code of the kernel {name}\(lengthscale=0.4.*, which is not apviz's"):
        geometry.functions(trace)


def test_the_grid_has_eight_points_per_lengthscale(line):
    fine = solved(torch.as_tensor(line["rows"]["coordinates"].values), lengthscale=0.02)
    assert 7.9 < 0.02 / np.diff(geometry.functions(fine)["x"].values)[0] < 8.1
    assert geometry.functions(line).sizes["x"] == 400


def test_functions_need_one_input_and_weights():
    x = torch.rand(40, 1, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"has no weights; record them.*weights=True"):
        geometry.functions(solved(x, weights=False))
    with pytest.raises(ValueError, match="functions are drawn over one input.*has d = 2"):
        geometry.functions(solved(torch.rand(40, 2, dtype=torch.float64)))
