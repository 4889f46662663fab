"""The oracle has the same system as apviz, and is consistent."""

import numpy as np
import torch

from apviz.kernels import KERNELS
from tests.solvers.oracle import problem


def test_the_matrix_of_the_oracle_equals_that_of_the_system():
    for kernel in (kind.__name__ for kind in KERNELS.values()):
        p = problem(kernel=kernel, outputscale=2.0)
        np.testing.assert_allclose(p.system.operator.matmul(torch.eye(30, dtype=torch.float64)), p.K, atol=1e-12)


def test_the_oracles_error_is_twice_the_gap_of_h():
    p = problem()
    w = np.ones_like(p.B)
    np.testing.assert_allclose(p.squared_error(w), 2 * (p.h(w) - p.h(p.W)), rtol=1e-10)
