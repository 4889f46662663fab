"""Kernels of linearly transformed inputs, against formulas in NumPy of the transformed rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz.kernels import Transformed, from_expression, from_plain, to_plain

MATRIX = np.array([[0.8, 0.6, 0.0], [-0.3, 0.4, 2.0]])
ROTATED = Transformed(apviz.Matern32(lengthscale=(0.7, 1.3), outputscale=2.0), MATRIX)


def rows(n: int, d: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 5.0


def textbook(x: np.ndarray) -> np.ndarray:
    u = x @ MATRIX.T / (0.7, 1.3)
    r = np.sqrt(3.0) * np.linalg.norm(u[:, None] - u[None], axis=2)
    return 2.0 * (1.0 + r) * np.exp(-r)


def test_its_values_are_those_of_the_kernel_at_the_transformed_inputs():
    x = rows(40)
    np.testing.assert_allclose(ROTATED(x).numpy(), textbook(x.numpy()), rtol=1e-12)


@pytest.mark.parametrize("engine", ["dense", "tiled"])
def test_every_engine_multiplies_by_it(engine):
    x, v = rows(300), rows(300, 2, seed=1)
    system = apviz.KernelSystem(x, v, ROTATED, noise=0.1, operator=engine, device="cpu")
    exact = textbook(x.numpy()) @ v.numpy() + 0.1 * v.numpy()
    np.testing.assert_allclose(system.operator.matmul(v).numpy(), exact, rtol=1e-10)


def test_a_kernel_of_shifted_and_scaled_inputs_has_the_same_values():
    x, centre, unit = rows(30), np.array([5.2, 4.0, 1e3]), np.array([0.1, 7.0, 2.0])
    scaled = torch.from_numpy((x.numpy() - centre) / unit)
    np.testing.assert_allclose(ROTATED.rescaled(centre, unit)(scaled).numpy(), textbook(x.numpy()), rtol=1e-9)


def test_rescaling_back_to_the_identity_leaves_the_kernel_itself():
    kernel = apviz.RBF(lengthscale=3.0)
    assert Transformed(kernel, np.diag([0.1, 7.0])).rescaled([1.0, 2.0], [1 / 0.1, 1 / 7.0]) == kernel


def test_a_kernel_that_depends_on_the_origin_keeps_it():
    x, matrix = rows(20, 2), [[1.0, 1.0]]
    kernel = Transformed(apviz.Linear(), matrix)
    np.testing.assert_allclose(kernel(x).numpy(), np.outer(x.sum(1), x.sum(1)), rtol=1e-12)
    with pytest.raises(ValueError, match="depends on the origin of its inputs"):
        kernel.rescaled([1.0, 0.0], [1.0, 1.0])


def test_it_is_read_back_from_a_file_and_from_a_trace():
    kernel = ROTATED.on([2, 0, 1]) + 2.0 * Transformed(apviz.Linear(), [[1.0, 0.5, 0.0]])
    assert from_plain(to_plain(kernel)) == from_expression(repr(kernel)) == kernel


def test_training_changes_the_kernel_and_not_the_matrix():
    assert list(ROTATED.numbers) == ["outputscale", "lengthscale[0]", "lengthscale[1]"]
    assert ROTATED.with_numbers([3.0, 1.0, 2.0]) == Transformed(
        apviz.Matern32(lengthscale=(1.0, 2.0), outputscale=3.0), MATRIX
    )


def test_along_an_input_it_changes_over_the_lengthscale_divided_by_its_coefficients():
    ((scales, columns),) = ROTATED.shortest_scales(3)
    np.testing.assert_allclose(scales, 1.0 / np.linalg.norm(MATRIX / [[0.7], [1.3]], axis=0), rtol=1e-12)
    assert columns == [0, 1, 2]


@pytest.mark.parametrize(
    "matrix", [[1.0, 2.0], [[0.0, 0.0]], [[np.nan, 1.0]], [[1.0], [1.0, 2.0]], "a", np.ones((0, 2))]
)
def test_what_is_not_a_matrix_is_refused(matrix):
    with pytest.raises(ValueError, match=r"matrix must be a matrix \(k, d\) of finite numbers"):
        Transformed(apviz.RBF(), matrix)


def test_inputs_of_another_width_are_refused():
    with pytest.raises(ValueError, match="has 3 columns, the inputs have 2"):
        ROTATED(rows(5, 2))
