import doctest
import math

import gpytorch
import numpy as np
import pytest
import sklearn.gaussian_process
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from apviz import RBF, Matern12, Matern32, Matern52, RationalQuadratic
from apviz.kernels import KERNELS, kernel_named
from tests.textbook import CORRELATIONS

EVERY_KERNEL = pytest.mark.parametrize("kind", KERNELS.values(), ids=KERNELS.keys())


def gpytorch_kernel(kernel, d):
    ard = d if isinstance(kernel.lengthscale, tuple) else None
    name, chosen = kernel.gpytorch
    base = getattr(gpytorch.kernels, name)(**chosen, ard_num_dims=ard)
    theirs = gpytorch.kernels.ScaleKernel(base).double()
    base.initialize(**{name: torch.tensor(value, dtype=torch.float64) for name, value in kernel.parameters.items()})
    theirs.base_kernel.lengthscale = torch.as_tensor(kernel.lengthscale, dtype=torch.float64)
    theirs.outputscale = torch.tensor(kernel.outputscale, dtype=torch.float64)
    return theirs


@pytest.mark.parametrize("kind", [kind for kind in KERNELS.values() if kind.gpytorch])
@pytest.mark.parametrize("lengthscale", [0.7, (0.2, 0.5, 3.0)], ids=["one", "ard"])
def test_a_kernel_equals_that_of_gpytorch(kind, lengthscale):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(40, 3, generator=generator, dtype=torch.float64)
    z = torch.rand(15, 3, generator=generator, dtype=torch.float64)
    kernel = kind(lengthscale=lengthscale, outputscale=1.7)
    theirs = gpytorch_kernel(kernel, 3)
    # GPyTorch uses the product form of the distance, which errs by about √eps between equal points
    torch.testing.assert_close(kernel(x, z), theirs(x, z).to_dense().detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(kernel(x), theirs(x).to_dense().detach(), rtol=1e-6, atol=1e-6)


@EVERY_KERNEL
@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(1, 30), m=st.integers(1, 30), d=st.integers(1, 40), ard=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]), outputscale=st.floats(1e-3, 1e3), seed=st.integers(0, 2**31),
)  # fmt: skip
def test_a_kernel_equals_the_textbook_formula(kind, n, m, d, ard, dtype, outputscale, seed):
    rng = np.random.default_rng(seed)
    x = torch.tensor(rng.uniform(-1, 1, (n, d)), dtype=dtype)
    z = torch.tensor(rng.uniform(-1, 1, (m, d)), dtype=dtype)
    lengthscale = rng.uniform(0.05, 3.0, d if ard else 1)
    kernel = kind(lengthscale=lengthscale.tolist(), outputscale=outputscale)
    expected = outputscale * CORRELATIONS[kernel.name](
        cdist(x.double().numpy() / lengthscale, z.double().numpy() / lengthscale)
    )
    # scaling rounds each input by eps, so r by eps times the largest norm ρ; |dk/dr| ≤ 2 for these kernels
    radius = math.sqrt(d) / lengthscale.min()
    allowed = torch.finfo(dtype).eps * (16 + 4 * radius) * outputscale
    np.testing.assert_allclose(kernel(x, z), expected, rtol=0, atol=allowed)


@EVERY_KERNEL
def test_points_from_touching_to_a_billion_lengthscales_apart_stay_finite_and_decay(kind):
    gaps = torch.tensor([0.0, 1e-30, 1e-12, 1e-6, 1.0, 1e2, 1e6, 1e9])[:, None]
    k = kind(lengthscale=1.0)(gaps, torch.zeros(1, 1))[:, 0]
    assert k.isfinite().all()
    assert k[0] == 1 and (k[1:] <= k[:-1]).all() and k[-1] < 1e-6


@EVERY_KERNEL
def test_correlation_is_one_at_distance_zero_for_duplicate_points(kind):
    x = torch.rand(1, 5, generator=torch.Generator().manual_seed(1)).repeat(4, 1)
    assert torch.equal(kind(lengthscale=0.01, outputscale=2.5)(x), torch.full((4, 4), 2.5))


@EVERY_KERNEL
def test_calling_a_kernel_does_not_modify_its_inputs(kind):
    x = torch.rand(6, 2, generator=torch.Generator().manual_seed(2))
    before = x.clone()
    kind(lengthscale=1.0)(x, x)
    assert torch.equal(x, before)


@pytest.mark.parametrize(
    "given_as", [(0.2, 0.5), [0.2, 0.5], torch.tensor([0.2, 0.5], dtype=torch.float64), np.array([0.2, 0.5])]
)
def test_lengthscales_are_stored_as_numbers_whatever_their_type(given_as):
    assert Matern32(lengthscale=given_as) == Matern32(lengthscale=(0.2, 0.5))
    assert Matern32(lengthscale=given_as).lengthscale == (0.2, 0.5)


def test_a_sequence_of_one_lengthscale_applies_to_any_number_of_inputs():
    assert RBF(lengthscale=[0.3]) == RBF(lengthscale=0.3)
    assert RBF(lengthscale=torch.tensor([[0.5]])).lengthscale == 0.5


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, (0.1, 0.0), (0.1, math.nan)])
def test_a_lengthscale_that_is_not_finite_and_positive_is_refused(bad):
    worst = bad[1] if isinstance(bad, tuple) else bad
    with pytest.raises(ValueError, match=f"lengthscale must be finite and positive, got {worst!r}"):
        Matern52(lengthscale=bad)


def test_an_empty_lengthscale_is_refused():
    with pytest.raises(ValueError, match="lengthscale"):
        Matern52(lengthscale=[])


@pytest.mark.parametrize("bad", [0.0, -2.0, math.nan, math.inf])
def test_an_outputscale_that_is_not_finite_and_positive_is_refused(bad):
    with pytest.raises(ValueError, match=f"outputscale must be finite and positive, got {bad!r}"):
        Matern12(lengthscale=0.1, outputscale=bad)


def test_an_error_about_the_number_of_lengthscales_states_the_number_of_inputs():
    with pytest.raises(ValueError, match="3 lengthscales were given for inputs with 2 columns"):
        RBF(lengthscale=(0.1, 0.2, 0.3))(torch.zeros(4, 2))


def test_kernels_are_found_by_name_and_an_unknown_name_lists_them():
    assert kernel_named("matern32", 0.2, 1.5) == Matern32(lengthscale=0.2, outputscale=1.5)
    with pytest.raises(ValueError, match=f"one of {', '.join(KERNELS)}, got 'periodic'"):
        kernel_named("periodic", 0.2, 1.0)


@EVERY_KERNEL
def test_the_slope_is_the_derivative_of_the_correlation_in_the_squared_distance(kind):
    kernel, u = kind(), torch.logspace(-3, 2, 200, dtype=torch.float64)
    h = 1e-5 * u
    above, below = (kernel.correlation_(at.clone(), torch.empty_like(u)) for at in (u + h, u - h))
    torch.testing.assert_close(kernel.slope(u), (above - below) / (2 * h), rtol=1e-7, atol=1e-9)


@EVERY_KERNEL
def test_a_kernel_has_a_title_and_an_example_that_runs(kind):
    assert KERNELS[kind().name] is kind and kind.title
    found = doctest.DocTestFinder(recurse=False).find(kind, kind.__name__, globs={kind.__name__: kind})
    assert found[0].examples
    assert doctest.DocTestRunner().run(found[0]).failed == 0


def test_a_subclass_of_a_kernel_has_its_own_name():
    class Halved(RBF):
        pass

    assert Halved().name == Halved.title == "Halved" and (RBF().name, RBF.title) == ("rbf", "RBF")


# --- rational quadratic ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.05, 1.0, 7.5])
def test_a_rational_quadratic_agrees_with_scikit_learn_and_gpytorch(alpha):
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-2, 2, (30, 3)), rng.uniform(-2, 2, (20, 3))
    kernel = RationalQuadratic(lengthscale=0.4, outputscale=1.7, alpha=alpha)
    found = kernel(torch.tensor(x), torch.tensor(z))
    learned = sklearn.gaussian_process.kernels.RationalQuadratic(length_scale=0.4, alpha=alpha)
    np.testing.assert_allclose(found, 1.7 * learned(x, z), rtol=1e-12)
    theirs = gpytorch_kernel(kernel, 3)(torch.tensor(x), torch.tensor(z)).to_dense().detach()
    torch.testing.assert_close(found, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_rational_quadratic_of_large_alpha_is_nearly_an_rbf(dtype):
    x = torch.linspace(0, 3, 50, dtype=dtype)[:, None]
    # log((1 + u/α)^−α) = −u + u²/(2α) − …, so the two differ by at most max u²exp(−u)/(2α) < 0.3/α
    difference = RationalQuadratic(alpha=1e5)(x) - RBF()(x)
    assert difference.abs().max() < 0.3e-5 + 4 * torch.finfo(dtype).eps


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_an_alpha_that_is_not_finite_and_positive_is_refused(bad):
    with pytest.raises(ValueError, match=f"alpha must be finite and positive, got {bad!r}"):
        RationalQuadratic(alpha=bad)


def test_kernels_with_different_alpha_differ():
    assert RationalQuadratic(alpha=2.0) == RationalQuadratic(alpha=2.0) != RationalQuadratic(alpha=1.0)
    assert kernel_named("rational-quadratic", 0.2, 1.5, alpha=2.0) == RationalQuadratic(
        lengthscale=0.2, outputscale=1.5, alpha=2.0
    )
    assert len({RationalQuadratic(alpha=alpha) for alpha in (1.0, 2.0, 2.0)}) == 2


def test_an_unknown_parameter_of_a_kernel_is_rejected_by_name():
    with pytest.raises(ValueError, match="kernel matern52 has the parameters none, got alpha"):
        kernel_named("matern52", 0.2, 1.0, alpha=2.0)
    with pytest.raises(ValueError, match="kernel rational-quadratic has the parameters alpha, got beta"):
        kernel_named("rational-quadratic", 0.2, 1.0, beta=2.0)
