"""Float32 keeps K positive definite even at hyperparameters where a careless distance loses near pairs."""

import itertools

import numpy as np
import pytest
import scipy.linalg
import torch

from apviz import RBF, Matern52, datasets
from apviz.kernels import kernel_named
from apviz.operators.dense import DenseOperator
from apviz.operators.tiled import TiledOperator
from apviz.partitions import KDTree

EPS = torch.finfo(torch.float32).eps


def road_like_points(n):
    """Return points close together on three smooth curves in [-1, 1]³, in random order.

    Hundreds of them lie within a lengthscale of each other, as in the full data; K has hardly any rank, so
    errors show. On 3,000 of them the product form of the distance gives eigenvalues of −0.06 to −0.17.
    """
    rng = np.random.default_rng(0)
    t = np.linspace(0, 0.3, n // 3)[:, None, None]
    frequency, phase = rng.uniform(0.5, 1.5, (1, 3, 3)), rng.uniform(0, 2 * np.pi, (1, 3, 3))
    curves = np.sin(phase + frequency * t)
    return torch.tensor(rng.permutation(curves.reshape(-1, 3)), dtype=torch.float32)


def make(engine, x, kernel, noise):
    if engine == "dense":
        return DenseOperator(x, kernel, noise)
    operator = TiledOperator(x, kernel, noise, compiled=None if engine == "compiled" else False)
    operator.prepare()
    if engine == "compiled" and not operator.engine.startswith("compiled"):
        pytest.skip("no C++ compiler on this machine")
    return operator


def all_eigenvalues_exceed(bound, k):
    """Test whether K − bound·I is positive definite: whether its Cholesky factor in float64 exists."""
    try:
        scipy.linalg.cholesky((k + k.T) / 2 - bound * np.eye(len(k)), check_finite=True)
    except scipy.linalg.LinAlgError:
        return False
    return True


@pytest.mark.parametrize("smallest", [-0.3, 1e-6, 2.0])
def test_the_oracle_of_this_file_finds_the_smallest_eigenvalue(smallest):
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 50)))[0]
    k = q * np.linspace(smallest, 9, 50) @ q.T
    assert scipy.linalg.eigvalsh(k)[0] == pytest.approx(smallest, abs=1e-12)
    assert all_eigenvalues_exceed(smallest - 1e-9, k) and not all_eigenvalues_exceed(smallest + 1e-9, k)


@pytest.fixture(scope="module")
def road():
    published = datasets.card("3droad").hyperparameters
    return (
        road_like_points(3000),
        kernel_named("matern52", published.lengthscale, published.outputscale),
        published.noise,
    )


@pytest.mark.parametrize(
    ("engine", "order"),
    # the order of the rows matters to tiles
    [
        pytest.param(*each, marks=() if each == ("compiled", "kd-tree") else pytest.mark.slow)
        for each in [("dense", "random"), *itertools.product(["in-place", "compiled"], ["random", "kd-tree"])]
    ],
)
def test_k_stays_positive_definite_in_float32_at_3droads_published_hyperparameters(exact_kernel, road, engine, order):
    x, kernel, noise = road
    if order == "kd-tree":
        x = x[KDTree()(kernel.features(x), 200).order]
    operator = make(engine, x, kernel, noise)
    k = operator.columns(slice(0, len(x))).double().numpy()
    # rounding entries of K to eps changes its eigenvalues by about 5e-6; a distance with cancellation, by 0.05
    assert all_eigenvalues_exceed(-0.005 * noise, k)
    # scaling rounds inputs by eps/2, hence r by eps·ρ; |dk/dr| ≤ 0.28 for Matérn-5/2 in r = √5‖(x−z)/ℓ‖
    radius = float(np.linalg.norm(np.sqrt(5) * x.numpy() / np.array(kernel.lengthscale), axis=1).max())
    allowed = EPS * (0.4 * radius + 8) * kernel.outputscale
    np.testing.assert_allclose(k, exact_kernel(kernel, x), rtol=0, atol=allowed)


@pytest.mark.parametrize("engine", ["in-place", "compiled"])
def test_products_with_k_use_the_same_positive_definite_matrix(road, engine):
    x, kernel, noise = road
    x = x[:1000]
    operator = make(engine, x, kernel, noise)
    assert all_eigenvalues_exceed(0.99 * noise, operator.matmul(torch.eye(1000)).double().numpy())


@pytest.mark.parametrize("engine", ["in-place", "compiled"])
def test_inputs_beyond_three_do_not_bring_cancellation_back(road, engine):
    x, kernel, noise = road
    x = torch.cat([x[:1500], torch.linspace(-1, 1, 1500)[:, None].expand(-1, 3)], dim=1)
    operator = make(
        engine, x, Matern52(lengthscale=(*kernel.lengthscale, 2.0, 3.0, 4.0), outputscale=kernel.outputscale), noise
    )
    assert all_eigenvalues_exceed(-0.01 * noise, operator.columns(slice(0, 1500)).double().numpy())


@pytest.mark.parametrize("kind", [RBF, Matern52])
def test_the_product_form_is_used_only_if_it_keeps_k_positive_definite_by_a_wide_margin(kind):
    # all points are within a lengthscale: every pair is near, K has low rank, and all errors add up
    x = torch.rand(1500, 6, generator=torch.Generator().manual_seed(0)) - 0.5
    kernel = kind(lengthscale=3.0)
    radius = kernel.features(x - x.mean(0)).square().sum(1).max().item()
    noise = 1.05e4 * EPS * radius  # just above the noise at which direct differences take over
    operator = TiledOperator(x, kernel, noise, compiled=False)
    assert operator.engine.endswith("matrix-product distances")
    assert all_eigenvalues_exceed(-0.1 * noise, operator.columns(slice(0, 1500)).double().numpy())


def test_long_sums_of_the_compiled_engine_round_like_short_ones():
    """All points coincide, so K is all ones and Ku a sum; adding 256 terms one after another errs by 21 eps."""
    n, u = 4096, torch.full((4096, 1), 0.7)
    operator = make("compiled", torch.zeros(n, 2), Matern52(lengthscale=1.0), noise=1e-12)
    exact = n * float(u[0].double())
    assert abs(operator.matmul(u).double() - exact).max() < 8 * EPS * exact
