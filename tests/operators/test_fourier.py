"""Products of the Fourier operator against NumPy's formulas: no entry errs by more than the stated bound."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.special import j0

import apviz
from apviz import RBF, Matern12, Matern32, Matern52, RationalQuadratic
from apviz.operators import CountingOperator, DenseOperator, FourierOperator, make_operator
from apviz.operators.fourier import near_far, radial_product
from apviz.operators.fourier.engine import with_fourier_products
from apviz.operators.tiled import TiledOperator
from tests.device import only_on_the_cpu
from tests.textbook import CORRELATIONS

pytestmark = only_on_the_cpu("the Fourier operator runs there")

KERNELS = (Matern12, Matern32, Matern52, RBF, RationalQuadratic)


def entries(kernel, z, x):
    """k(z, x), for a kernel or a sum of kernels."""
    terms = kernel.kernels if isinstance(kernel, apviz.kernels.Sum) else (kernel,)
    return sum(
        term.outputscale
        * CORRELATIONS[term.name](
            cdist(z / np.array(term.lengthscale), x / np.array(term.lengthscale)), **term.parameters
        )
        for term in terms
    )


def scale_of(kernel):
    return sum(t.outputscale for t in (kernel.kernels if isinstance(kernel, apviz.kernels.Sum) else (kernel,)))


def points(kind, n, d, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "clustered":
        return rng.uniform(0, 1, (8, d))[rng.integers(0, 8, n)] + 0.01 * rng.standard_normal((n, d))
    if kind == "gridded":
        return np.stack(np.meshgrid(*[np.linspace(0, 1, round(n ** (1 / d)))] * d), -1).reshape(-1, d)
    if kind == "duplicated":
        return rng.uniform(0, 1, (n // 10, d))[rng.integers(0, n // 10, n)]
    if kind == "spherical":
        x = rng.standard_normal((n, d))
        return x / np.linalg.norm(x, axis=1, keepdims=True)
    return rng.uniform(0, 1, (n, d)) + (1e5 if kind == "far-offset" else 0.0)


def worst(operator, x, columns=12):
    """The largest error of an entry of some columns of K, found by products with unit vectors; and K's own scale."""
    rows = np.linspace(0, len(x) - 1, columns).astype(int)
    units = torch.zeros(len(x), columns, dtype=operator.x.dtype)
    units[rows, np.arange(columns)] = 1.0
    found = operator.matmul(units).double().numpy()
    found[rows, np.arange(columns)] -= operator.noise
    return np.abs(found - entries(operator.kernel, x, x[rows])).max() / scale_of(operator.kernel)


def allowed(operator):
    """The stated bound; float32 also rounds the inputs."""
    return operator.error + (operator.entry_rounding if operator.x.dtype == torch.float32 else 1e-12)


def test_where_frequencies_do_not_fit_there_are_fewer_and_more_neighbours_and_the_same_bound(monkeypatch):
    x, kernel = points("uniform", 3000, 3), Matern32(lengthscale=0.4)
    usual = FourierOperator(torch.from_numpy(x), kernel, 0.1, torch.float64)
    least = usual.modes * radial_product.memory_of_mode(np.dtype(np.float64))
    monkeypatch.setattr(radial_product, "free_memory", lambda device: 0.5 * least / radial_product.MEMORY_SHARE)
    small = FourierOperator(torch.from_numpy(x), kernel, 0.1, torch.float64)
    assert worst(small, x) <= allowed(small) and small.error == usual.error
    assert small.modes <= 0.5 * usual.modes


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", KERNELS)
def test_every_entry_is_within_the_bound(kind, d):
    x = points("uniform", 700, d)
    # both dtypes with every kernel, number of inputs and lengthscale; a bound of its own takes each dtype seconds
    dtype = (torch.float32, torch.float64)[(d + KERNELS.index(kind)) % 2]
    for lengthscale in (0.05, 0.4, 3.0):
        operator = FourierOperator(torch.from_numpy(x), kind(lengthscale=lengthscale, outputscale=1.7), 0.1, dtype)
        assert worst(operator, x) <= allowed(operator), lengthscale
        assert operator.measured_error <= operator.error


@pytest.mark.parametrize("layout", ["clustered", "gridded", "duplicated", "spherical", "far-offset"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_bound_holds_wherever_the_points_are(layout, d):
    x = points(layout, 1000, d)
    operator = FourierOperator(torch.from_numpy(x), Matern32(lengthscale=0.2), 0.1, torch.float64)
    tolerance = 1e-9 if layout == "far-offset" else 0.0  # of the coordinates themselves, at 1e5
    assert worst(operator, x) <= allowed(operator) + tolerance


@pytest.mark.parametrize("d", [1, 2])
def test_short_lengthscales_leave_the_bound_as_it_is(d):
    x = points("uniform", 3000, d)
    for kernel in (Matern12(lengthscale=0.01), RBF(lengthscale=0.01)):
        assert worst(operator := FourierOperator(torch.from_numpy(x), kernel, 0.1), x) <= allowed(operator)


@settings(max_examples=25)
@given(
    kind=st.sampled_from(KERNELS), d=st.integers(1, 3), seed=st.integers(0, 99),
    logarithms=st.lists(st.floats(-1.2, 0.5), min_size=3, max_size=3), digits=st.floats(3.0, 9.0),
    layout=st.sampled_from(["uniform", "clustered", "duplicated"]),
)  # fmt: skip
def test_no_entry_exceeds_the_stated_bound(kind, d, seed, logarithms, digits, layout):
    x, lengthscale = points(layout, 400, d, seed), tuple(10.0**each for each in logarithms[:d])
    kernel = kind(lengthscale=lengthscale if d > 1 else lengthscale[0], outputscale=0.3)
    operator = FourierOperator(torch.from_numpy(x), kernel, 0.1, torch.float64, error=10.0**-digits)
    assert worst(operator, x) <= allowed(operator)


SUM = 0.7 * Matern52(lengthscale=0.3) + Matern12(lengthscale=0.6) + RationalQuadratic(lengthscale=(0.2, 0.5), alpha=0.8)


def test_sums_of_kernels_have_one_split_a_metric():
    x = points("uniform", 800, 2)
    operator = FourierOperator(torch.from_numpy(x), SUM, 0.1)
    assert worst(operator, x) <= allowed(operator)
    assert len(operator._metrics) == 2


def test_one_and_several_right_hand_sides_agree():
    x = torch.from_numpy(points("uniform", 900, 3))
    operator = FourierOperator(x, Matern52(lengthscale=0.3), 0.1)
    v = torch.randn(900, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    together = operator.matmul(v)
    for columns in (1, 2, 3):
        parts = torch.cat([operator.matmul(each) for each in v.split(columns, 1)], 1)
        torch.testing.assert_close(parts, together, rtol=0, atol=1e-9 * float(v.abs().sum(0).max()))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_cross_products_hold_inside_the_box_and_outside(d, monkeypatch):
    x, z = points("uniform", 1500, d), 1.4 * points("uniform", 300, d, seed=1) - 0.2
    kernel = Matern32(lengthscale=0.3, outputscale=1.3)
    v = np.random.default_rng(0).standard_normal((1500, 3))
    expected = entries(kernel, z, x) @ v
    for few in (10**7, 0):  # exact rows outside; a larger box
        monkeypatch.setattr("apviz.operators.fourier.engine.FEW_ENTRIES", few)
        operator = FourierOperator(torch.from_numpy(x), kernel, 0.1)
        found = operator.cross_matmul(torch.from_numpy(z), torch.from_numpy(v)).numpy()
        assert np.abs(found - expected).max() <= 1.3 * operator.error * np.abs(v).sum(0).max()


@pytest.mark.parametrize("kernel", [Matern12(lengthscale=0.3), Matern52(lengthscale=(0.2, 0.6), outputscale=1.4), SUM])
def test_derivatives_are_those_of_finite_differences(kernel):
    x, rng = points("uniform", 400, 2), np.random.default_rng(0)
    a, b = rng.standard_normal((2, 400, 3))
    operator = FourierOperator(torch.from_numpy(x), kernel, 0.1, error=1e-10)
    found = operator.bilinear_derivatives(torch.from_numpy(a), torch.from_numpy(b), with_inputs=True)
    numbers, slopes = list(kernel.numbers.values()), []
    for k, number in enumerate(numbers):
        steps = [[*numbers[:k], number * (1 + h), *numbers[k + 1 :]] for h in (1e-5, -1e-5)]
        above, below = (np.sum(a * (entries(kernel.with_numbers(each), x, x) @ b)) for each in steps)
        slopes.append((above - below) / (2e-5 * number))
    np.testing.assert_allclose(torch.cat(list(found.kernel.values())), slopes, rtol=1e-5, atol=1e-3)
    by_modes = operator.bilinear_derivatives(torch.from_numpy(a), torch.from_numpy(b)).kernel
    np.testing.assert_allclose(torch.cat(list(by_modes.values())), slopes, rtol=1e-5, atol=1e-3)
    moved = []
    for h in (1e-5, -1e-5):
        shifted = x.copy()
        shifted[7, 1] += h
        moved.append(np.sum(a * (entries(kernel, shifted, shifted) @ b)))
    assert float(found.inputs[7, 1]) == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", [Matern12, Matern32, RBF])
def test_sums_over_frequencies_are_the_derivatives_row_by_row(kind, d):
    x, rng = torch.from_numpy(points("clustered", 500, d)), np.random.default_rng(0)
    a, b = torch.from_numpy(rng.standard_normal((2, 500, 2)))
    kernel = kind(lengthscale=(0.2, 0.5, 0.3)[:d], outputscale=1.7)
    found = FourierOperator(x, kernel, 0.1, torch.float64).bilinear_derivatives(a, b)
    tiles = make_operator("tiled", x, kernel, 0.1).bilinear_derivatives(a, b)
    for name, each in tiles.kernel.items():
        np.testing.assert_allclose(found.kernel[name], each, rtol=1e-5, atol=1e-4 * float(a.norm() * b.norm()) / 500)
    assert float(found.noise) == pytest.approx(float((a * b).sum()))


def test_kernels_of_rotated_inputs_have_the_derivatives_of_tiles():
    x, rng = torch.from_numpy(points("uniform", 400, 2)), np.random.default_rng(0)
    a, b = torch.from_numpy(rng.standard_normal((2, 400, 2)))
    kernel = apviz.kernels.Transformed(Matern52(lengthscale=(0.3, 0.6)), ((0.8, 0.6), (-0.6, 0.8)))
    found, tiles = (
        each.bilinear_derivatives(a, b).kernel
        for each in (FourierOperator(x, kernel, 0.1, torch.float64), make_operator("tiled", x, kernel, 0.1))
    )
    for name, each in tiles.items():
        np.testing.assert_allclose(found[name], each, rtol=1e-5, atol=1e-4)


def test_rows_of_many_points_agree_with_exact_ones():
    x = torch.rand(50_000, 2, generator=torch.Generator().manual_seed(0))
    operator = FourierOperator(x, Matern52(lengthscale=0.1), 0.1)
    v, rows = torch.randn(50_000, 2, generator=torch.Generator().manual_seed(1)), torch.arange(0, 50_000, 500)
    error = (operator.matmul(v)[rows].double() - operator.exact().rows_matmul(rows, v.double())).abs().max()
    assert error <= allowed(operator) * float(v.norm(dim=0).max()) * 10


def test_without_a_compiler_scipy_finds_the_neighbours(monkeypatch):
    x = points("duplicated", 600, 2)
    monkeypatch.setattr("apviz.operators.fourier.cell_list.is_compiled", lambda: False)
    for dtype in (torch.float32, torch.float64):
        operator = FourierOperator(torch.from_numpy(x), Matern12(lengthscale=0.1), 0.1, dtype, compiled=False)
        assert worst(operator, x) <= allowed(operator)
        assert "SciPy's k-d trees" in operator.engine
    v = torch.ones(600, 2, dtype=torch.float64)
    with_trees = operator.bilinear_derivatives(v, v).kernel["lengthscale"]
    monkeypatch.undo()
    compiled = operator.with_error(1e-8).bilinear_derivatives(v, v).kernel["lengthscale"]
    torch.testing.assert_close(with_trees, compiled, rtol=1e-5, atol=1e-3)


def test_blocks_columns_and_passes_are_exact():
    x = torch.from_numpy(points("uniform", 300, 2))
    fourier, tiled = (kind(x, Matern52(lengthscale=0.2), 0.1) for kind in (FourierOperator, TiledOperator))
    rows, u = torch.arange(0, 300, 7), torch.ones(43, 1, dtype=torch.float64)
    assert torch.equal(fourier.block(rows), tiled.block(rows))
    assert torch.equal(fourier.columns_matmul(rows, u), tiled.columns_matmul(rows, u))
    assert torch.equal(fourier.diagonal(), tiled.diagonal())
    assert type(fourier.exact()) is TiledOperator


def test_a_solve_converges_by_exact_passes():
    x, rng = torch.from_numpy(points("uniform", 1500, 2)), np.random.default_rng(0)
    y = rng.standard_normal(1500)
    system = apviz.KernelSystem(x, y, Matern32(lengthscale=0.2), noise=0.5, operator="fourier", dtype=torch.float64)
    for solver in (apviz.ConjugateGradient(tol=1e-4), apviz.AlternatingProjection(block_size=150, tol=1e-4)):
        solution = apviz.solve(system, solver)
        k = entries(system.kernel, x.numpy(), x.numpy()) + 0.5 * np.eye(1500)
        assert solution.converged
        assert np.linalg.norm(y - k @ solution.weights.double().numpy()) < 1.01e-4 * np.linalg.norm(y)


def test_with_error_keeps_points_and_kernel_and_changes_the_error():
    operator = FourierOperator(torch.rand(300, 2), Matern52(lengthscale=0.2), 0.1)
    finer = operator.with_error(1e-9, torch.float64)
    assert (operator.error, finer.error) == (1e-5, 1e-9) and finer.x.dtype == torch.float64
    assert operator.in_dtype(torch.float64).error == 1e-8


def test_a_product_counts_as_the_entries_that_its_seconds_would_have_evaluated():
    counting = CountingOperator(FourierOperator(torch.rand(5_000, 1), Matern52(lengthscale=0.2), 0.1))
    counting.matmul(torch.ones(5_000, 1))
    price = counting.uncounted.matmul_price(1)
    assert price > 0 and counting.entries == round(price * 5_000**2)


@pytest.mark.parametrize(
    ("kernel", "d", "message"),
    [
        (Matern52() * RBF(), 2, "It lacks a product of kernels; use operator='tiled'"),
        (apviz.Linear(), 2, "It lacks Linear, which is not a function of the distance"),
        (Matern52(), 4, "It lacks Matern52 of 4 inputs"),
        (apviz.PiecewisePolynomial(), 2, "operator 'fourier' takes Matérn, RBF and rational quadratic kernels"),
    ],
)
def test_what_is_not_supported_is_refused_with_what_to_take(kernel, d, message):
    with pytest.raises(ValueError, match=message):
        make_operator("fourier", torch.rand(20, d), kernel, 0.1)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_spectrum_of_near_is_its_fourier_transform(d):
    kernel, x = Matern12(lengthscale=0.1), torch.from_numpy(points("uniform", 1000, d))
    (split,) = FourierOperator(x, kernel, 0.1).splits
    wave = {1: np.cos, 2: j0, 3: lambda u: np.sinc(u / np.pi)}[d]
    area = {1: 2.0, 2: 2.0 * np.pi, 3: 4.0 * np.pi}[d]
    w = split.band * np.array([0.05, 0.5, 2.0])
    expected = [
        quad(lambda r, v=v: area * r ** (d - 1) * wave(v * r) * split.near.values(np.array([r]))[0], 0,
             split.near.cutoff, limit=200, epsabs=1e-12)[0]
        for v in w
    ]  # fmt: skip
    np.testing.assert_allclose(split.near_spectrum(w), expected, atol=1e-6 * split.spectrum(w).max())
    alone = near_far.Split(split.radial, split.band, None, 0.0)
    assert not alone.near_spectrum(w).any()
    np.testing.assert_array_equal(alone.remaining_slopes(w), split.radial.slopes(w))


def test_points_that_are_all_outside_are_evaluated_exactly_and_others_must_have_the_same_inputs():
    x, v = torch.from_numpy(points("uniform", 300, 2)), torch.ones(300, 1, dtype=torch.float64)
    operator, z = FourierOperator(x, Matern52(lengthscale=0.3), 0.1), 2.0 + x[:7]
    expected = entries(operator.kernel, z.numpy(), x.numpy()).sum(1, keepdims=True)
    np.testing.assert_allclose(operator.cross_matmul(z, v).numpy(), expected, rtol=1e-12)
    with pytest.raises(ValueError, match=r"z must have shape \(m, 2\), got \(7, 1\)"):
        operator.cross_matmul(z[:, :1], v)


def test_fourier_products_of_an_operator_are_of_the_same_matrix_or_none_where_it_has_none():
    x, kernel = torch.from_numpy(points("uniform", 400, 2)), Matern52(lengthscale=0.3)
    fourier = with_fourier_products(TiledOperator(x, kernel, 0.1))
    assert worst(fourier, x.numpy()) <= allowed(fourier) and fourier.x.dtype == torch.float32
    assert with_fourier_products(fourier, torch.float64).x.dtype == torch.float64
    four = torch.rand(20, 4, dtype=torch.float64)
    for without in (
        TiledOperator(four, kernel, 0.1),
        TiledOperator(x, apviz.Linear(), 0.1),
        DenseOperator(x, kernel, 0.1),
    ):
        assert with_fourier_products(without) is None


@pytest.mark.parametrize(("error", "dtype"), [(1e-6, torch.float32), (1e-13, torch.float64), (0.1, torch.float64)])
def test_an_error_out_of_range_is_refused_with_what_is_accepted(error, dtype):
    with pytest.raises(ValueError, match=f"error must be from .* got {error:g}"):
        FourierOperator(torch.rand(20, 2), RBF(), 0.1, dtype, error=error)


def test_a_kernel_on_some_columns_of_many_is_supported():
    x = points("uniform", 300, 5)
    operator = FourierOperator(torch.from_numpy(x), Matern32(lengthscale=0.3).on([0, 3]), 0.1)
    found = operator.matmul(torch.eye(300, dtype=torch.float64)).numpy() - 0.1 * np.eye(300)
    assert np.abs(found - entries(Matern32(lengthscale=0.3), x[:, [0, 3]], x[:, [0, 3]])).max() <= allowed(operator)


@pytest.mark.parametrize("width", [2, 3])
def test_the_chosen_split_costs_least_of_all_bands_though_low_ones_cost_the_same(width):
    few = FourierOperator(torch.rand(50, width, dtype=torch.float64), Matern52(lengthscale=0.7), noise=0.1, error=1e-4)
    radial, n, error = few.splits[0].radial, 100_000, 1e-8
    steps = range(-12, 56)

    def cost(split: near_far.Split) -> float:  # all rows are neighbours from a cut-off of 4
        share = min(1.0, (split.near.cutoff / 4) ** width) if split.near else 0.0
        return n * n * share + 50 * split.band**width

    splits = [each for step in steps if (each := near_far.shortest(radial, step, error)) is not None]
    assert cost(splits[0]) < cost(splits[1])  # flat, and then a little more
    assert cost(near_far.cheapest(radial, error, cost, steps)) == min(map(cost, splits))
