"""Running products K Z against dense NumPy, while Z grows on one group of rows after another."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import apviz
from apviz.operators import CountingOperator, FourierOperator, make_operator
from tests.device import only_on_the_cpu
from tests.textbook import CORRELATIONS

pytestmark = only_on_the_cpu("the Fourier operator runs there")
N = 700


def grown(operator, groups, columns, steps, seed):
    """Additions on groups in some order; each reading and the final product, next to dense ones."""
    distances, parts = cdist(operator.given, operator.given), getattr(operator.kernel, "kernels", (operator.kernel,))
    matrix = operator.noise * np.eye(N)
    for part in parts:
        matrix += part.outputscale * CORRELATIONS[part.name](distances / part.lengthscale)
    rng, z = np.random.default_rng(seed), np.zeros((N, columns))
    running = operator.running_product([torch.from_numpy(rows) for rows in groups])
    running.begin(columns)
    for group in steps:
        rows = groups[group]
        yield running.at(group).numpy(), (matrix @ z)[rows], z
        u = rng.standard_normal((len(rows), columns))
        z[rows] += u
        running.add_(group, torch.from_numpy(u).to(operator.x.dtype))
    assert np.allclose(running.z.numpy(), z, atol=1e-5)
    yield running.product().numpy(), matrix @ z, z


@settings(max_examples=25, deadline=None)
@given(
    d=st.integers(1, 3), columns=st.integers(1, 3), seed=st.integers(0, 99), compiled=st.booleans(),
    steps=st.lists(st.integers(0, 2), min_size=1, max_size=5), summed=st.booleans(),
)  # fmt: skip
def test_readings_are_within_the_error_of_entries(d, columns, seed, steps, compiled, summed):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.uniform(0, 1, (N, d)))
    kernel = apviz.Matern32(lengthscale=0.2, outputscale=1.3)
    if summed:
        kernel = kernel + apviz.RBF(lengthscale=0.1)
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr("apviz.operators.fourier.cell_list.is_compiled", lambda: False)
        operator = FourierOperator(x, kernel, 0.1)
        groups = [np.sort(rng.permutation(N)[:size]) for size in (1, 250, N)]
        for found, exact, z in grown(operator, groups, columns, steps, seed):
            assert np.abs(found - exact).max() <= 3 * operator.error * np.abs(z).sum(0).max() + 1e-12


def test_tiles_give_the_exact_product_and_count_its_entries():
    x = torch.rand(N, 2, dtype=torch.float64)
    groups = [np.arange(0, 200), np.arange(150, N)]
    operator = make_operator("tiled", x, apviz.Matern52(lengthscale=0.3), 0.1)
    for found, exact, _ in grown(operator, groups, 2, [0, 1, 0], 1):
        assert np.allclose(found, exact, rtol=1e-12, atol=1e-10)
    counting = CountingOperator(operator)
    running = counting.running_product([torch.from_numpy(rows) for rows in groups])
    running.begin(1)
    running.add_(0, torch.ones(200, 1, dtype=torch.float64))
    assert counting.entries == 200 * N


def test_fourier_readings_count_converted_seconds():
    x = torch.rand(5_000, 2, dtype=torch.float64)
    counting = CountingOperator(FourierOperator(x, apviz.Matern52(lengthscale=0.3), 0.1))
    running = counting.running_product([torch.arange(2_000)])
    running.begin(1)
    before = counting.entries
    running.add_(0, torch.ones(2_000, 1, dtype=torch.float64))
    after = counting.entries
    running.at(0)
    assert before < after < counting.entries
