"""Sums, products and multiples of kernels: their entries and derivatives, in every engine."""

import doctest
import inspect
import math

import gpytorch
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import apviz
from apviz import (
    RBF,
    Constant,
    Cosine,
    Groups,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    PiecewisePolynomial,
    Polynomial,
    RationalQuadratic,
    SpectralMixture,
    White,
)
from apviz.kernels import Evaluated, from_expression, from_plain, to_plain
from apviz.operators import native
from apviz.operators.dense import DenseOperator
from apviz.operators.tiled import TiledOperator
from tests.device import DEVICE

NOISE = 0.1


def r(x, z, lengthscale=1.0):
    return np.sqrt((((x[:, None] - z[None]) / np.asarray(lengthscale)) ** 2).sum(-1))


def rbf(x, z, lengthscale=1.0):
    return np.exp(-0.5 * r(x, z, lengthscale) ** 2)


def periodic(x, z, lengthscale, period):
    s = np.sin(math.pi * (x[:, None] - z[None]) / np.asarray(period)) / np.asarray(lengthscale)
    return np.exp(-2 * (s**2).sum(-1))


def mixture(x, z, weights, means, scales):
    gap, total = x[:, None] - z[None], 0.0
    for w, m, s in zip(weights, means, scales, strict=True):
        wave = np.cos(2 * math.pi * gap * np.asarray(m)).prod(-1)
        total = total + w * np.exp(-2 * math.pi**2 * (gap**2 * np.asarray(s) ** 2).sum(-1)) * wave
    return total


def equal(x, z):
    return (x[:, None] == z[None]).all(-1).astype(float)


def group(column, factor, variances):
    table = np.asarray(factor) @ np.asarray(factor).T + np.diag(variances)
    return lambda x, z: table[x[:, column].astype(int)[:, None], z[:, column].astype(int)[None]]


F, V = [[0.5, 1.0], [-1.0, 0.3], [0.2, 0.0]], [0.1, 0.0, 0.4]
MEANS, SCALES = [[0.1, 0.5, 0.2], [2.0, 1.0, 0.0]], [[0.3, 0.2, 0.4], [0.5, 0.1, 0.2]]
#: kernels of three inputs, the last of them a group, and their textbook formulas in NumPy
KERNELS = {
    "linear": (Linear(lengthscale=(0.5, 2.0, 1.0), outputscale=1.3),
               lambda x, z: 1.3 * (x / [0.5, 2.0, 1.0]) @ (z / [0.5, 2.0, 1.0]).T),
    "polynomial": (Polynomial(degree=3, offset=0.7, outputscale=0.4), lambda x, z: 0.4 * (x @ z.T + 0.7) ** 3),
    "constant": (Constant(outputscale=2.0) + White(outputscale=0.3), lambda x, z: 2.0 + 0.3 * equal(x, z)),
    "periodic": (Periodic(lengthscale=(0.8, 1.5, 2.0), period=(0.5, 1.0, 3.0)),
                 lambda x, z: periodic(x, z, (0.8, 1.5, 2.0), (0.5, 1.0, 3.0))),
    "cosine": (Cosine(period=0.8).on(1), lambda x, z: np.cos(2 * math.pi * (x[:, None, 1] - z[None, :, 1]) / 0.8)),
    "mixture": (SpectralMixture(weights=[1.0, 0.4], means=MEANS, scales=SCALES),
                lambda x, z: mixture(x, z, [1.0, 0.4], MEANS, SCALES)),
    "groups": (Groups(factor=F, variances=V).on(2) * RBF(lengthscale=0.6).on([0, 1]),
               lambda x, z: group(2, F, V)(x, z) * rbf(x[:, :2], z[:, :2], 0.6)),
    "sum of products": (
        RBF(lengthscale=0.4).on([0, 1]) * Linear().on(0) + 0.5 * (Periodic(period=0.7).on(1) + Constant()),
        lambda x, z: rbf(x[:, :2], z[:, :2], 0.4) * (x[:, :1] @ z[:, :1].T)
        + 0.5 * (periodic(x[:, 1:2], z[:, 1:2], 1.0, 0.7) + 1.0),
    ),
    "product of sums": (
        (RBF() + Linear()) * (RBF(lengthscale=0.3) + Constant(outputscale=0.2)),
        lambda x, z: (rbf(x, z) + x @ z.T) * (rbf(x, z, 0.3) + 0.2),
    ),
    "square": (Matern12() * Matern12(), lambda x, z: np.exp(-2 * r(x, z))),
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", KERNELS)


def inputs(n, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(-1, 1, (n, 2)), rng.integers(0, 3, n)])
    return torch.tensor(x, dtype=dtype)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in ("groups", "sum of products", "square") else pytest.mark.slow) for n in KERNELS],
)
def test_a_kernel_equals_its_formula_in_every_engine(name):
    kernel, formula = KERNELS[name]
    x, z = inputs(150), inputs(40, seed=1)
    z[:5] = x[:5]
    expected = formula(x.numpy(), x.numpy())
    np.testing.assert_allclose(kernel(x), expected, atol=1e-12)
    np.testing.assert_allclose(kernel(z, x), formula(z.numpy(), x.numpy()), atol=1e-12)
    v = torch.randn(150, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for operator in (
        DenseOperator(x, kernel, NOISE),
        *(TiledOperator(x, kernel, NOISE, compiled=c) for c in engines(x, kernel)),
    ):
        np.testing.assert_allclose(operator.matmul(v), expected @ v.numpy() + NOISE * v.numpy(), atol=1e-10)
        np.testing.assert_allclose(operator.signal(), np.diag(expected), atol=1e-12)
        np.testing.assert_allclose(operator.block(slice(3, 20)), expected[3:20, 3:20] + NOISE * np.eye(17), atol=1e-12)
        np.testing.assert_allclose(operator.columns(slice(5, 9)), expected[:, 5:9], atol=1e-12)
        np.testing.assert_allclose(operator.rows_matmul(torch.tensor([4, 9]), v), (expected @ v.numpy())[[4, 9]]
                                   + NOISE * v.numpy()[[4, 9]], atol=1e-10)  # fmt: skip
        np.testing.assert_allclose(operator.cross_matmul(z, v), formula(z.numpy(), x.numpy()) @ v.numpy(), atol=1e-10)


def engines(x, kernel):
    """A wheel brings the engine of simple kernels; others need a compiler."""
    return [False, True] if native.supports(TiledOperator(x, kernel, NOISE).formula) else [False]


@EVERY
def test_float32_entries_agree_up_to_rounding(name):
    kernel, formula = KERNELS[name]
    x = inputs(90, dtype=torch.float32)
    expected = formula(x.double().numpy(), x.double().numpy())
    scale = np.abs(expected).max()
    for compiled in engines(x, kernel):
        entries = TiledOperator(x, kernel, NOISE, compiled=compiled).columns(slice(0, 90))
        np.testing.assert_allclose(entries, expected, atol=5e-6 * scale)


@EVERY
def test_derivatives_in_every_hyperparameter_agree_with_differences(name):
    kernel, _ = KERNELS[name]
    x, generator = inputs(60), torch.Generator().manual_seed(1)
    a, b = (torch.randn(60, 2, dtype=torch.float64, generator=generator) for _ in range(2))

    def total(changed):
        return float((a * (changed(x) @ b)).sum())

    for compiled in engines(x, kernel):
        found = TiledOperator(x, kernel, NOISE, compiled=compiled).bilinear_derivatives(a, b)
        assert list(found.kernel) == list(kernel.hyperparameters)
        torch.testing.assert_close(found.noise, (a * b).sum())
        for hyperparameter, value in kernel.hyperparameters.items():
            numbers = torch.as_tensor(value, dtype=torch.float64).flatten()
            for k, number in enumerate(numbers.tolist()):
                if number == 0:
                    continue  # at its bound
                h = 1e-6 * abs(number)
                ends = []
                for sign in (1, -1):
                    moved = numbers.clone()
                    moved[k] += sign * h
                    given = moved.tolist() if len(moved) > 1 else moved.item()
                    ends.append(total(kernel.with_hyperparameters({hyperparameter: given})))
                expected = (ends[0] - ends[1]) / (2 * h)
                assert float(found.kernel[hyperparameter][k]) == pytest.approx(expected, rel=1e-6, abs=1e-5)


@EVERY
def test_derivatives_in_test_inputs_agree_with_differences(name):
    kernel, _ = KERNELS[name]
    x, z, generator = inputs(50), inputs(4, seed=1), torch.Generator().manual_seed(1)
    z[:, 2] = 1.0  # a group cannot be varied
    b = torch.randn(50, 1, dtype=torch.float64, generator=generator)
    a = torch.randn(4, 1, dtype=torch.float64, generator=generator)
    for compiled in engines(x, kernel):
        operator = TiledOperator(x, kernel, NOISE, compiled=compiled)
        found = operator.cross_derivatives(z, a, b)
        of_prior = operator.prior_derivatives(z, a @ a.T)
        for k in range(2):
            h = torch.zeros(3, dtype=torch.float64)
            h[k] = 1e-6
            ends = [(a * operator.cross_matmul(z + sign * h, b)).sum(1) for sign in (1, -1)]
            torch.testing.assert_close(found.z[:, k], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-6)
            for i in range(4):
                h = torch.zeros(4, 3, dtype=torch.float64)
                h[i, k] = 1e-6
                ends = [(a @ a.T * kernel(z + sign * h)).sum() for sign in (1, -1)]
                expected = (ends[0] - ends[1]) / 2e-6
                torch.testing.assert_close(of_prior.z[i, k], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("q", [0, *(pytest.param(q, marks=pytest.mark.slow) for q in (1, 2)), 3])
@pytest.mark.parametrize("d", [1, pytest.param(2, marks=pytest.mark.slow), 5])
def test_a_piecewise_polynomial_agrees_with_the_textbook_and_gpytorch(q, d):
    rng = torch.Generator().manual_seed(0)
    x, z = (torch.rand(n, d, generator=rng, dtype=torch.float64) for n in (30, 20))
    theirs = gpytorch.kernels.PiecewisePolynomialKernel(q=q).double()
    theirs.lengthscale = 0.8
    kernel = PiecewisePolynomial(q=q, lengthscale=0.8)
    gap, j = r(x.numpy(), z.numpy(), 0.8), d // 2 + q + 1
    polynomial = {  # Rasmussen & Williams, equation 4.21
        0: 1.0,
        1: (j + 1) * gap + 1,
        2: ((j**2 + 4 * j + 3) * gap**2 + (3 * j + 6) * gap + 3) / 3,
        3: ((j**3 + 9 * j**2 + 23 * j + 15) * gap**3 + (6 * j**2 + 36 * j + 45) * gap**2 + (15 * j + 45) * gap + 15)
        / 15,
    }[q]
    np.testing.assert_allclose(kernel(x, z), np.maximum(1 - gap, 0) ** (j + q) * polynomial, atol=1e-12)
    if q != 2:  # for q = 2, GPyTorch 1.15 has j + 4j + 3 instead of j² + 4j + 3
        torch.testing.assert_close(kernel(x, z), theirs(x, z).to_dense().detach(), rtol=1e-6, atol=1e-7)
    for compiled in engines(x, kernel):
        found = TiledOperator(x, kernel, NOISE, compiled=compiled).columns(slice(0, 30))
        torch.testing.assert_close(found, kernel(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("q", [0, 1, 2, 3])
def test_the_slope_of_a_piecewise_polynomial_is_its_derivative(q, d):
    function = PiecewisePolynomial(q=q).function(d)
    u = torch.tensor([0.0, 1e-6, 1e-3, 0.1, 0.5, 0.9, 1.5], dtype=torch.float64)
    h = 1e-4 * u[1:]
    above, below = (function.correlation_(at.clone(), torch.empty_like(at)) for at in (u[1:] + h, u[1:] - h))
    torch.testing.assert_close(function.slope(u)[1:], (above - below) / (2 * h), rtol=1e-5, atol=1e-7)
    if q:
        torch.testing.assert_close(function.slope(u)[0], function.slope(u)[1], rtol=1e-2, atol=0)


@pytest.mark.parametrize("q", [0, 1, 2, 3])
def test_pairs_beyond_the_support_of_a_piecewise_polynomial_have_no_derivatives(q):
    # for one input, (1 - r)^1 ends in a kink, where its slope is a power 0 of 0
    x = torch.tensor([[0.0], [0.3], [5.0], [9.0]], dtype=torch.float64)
    m = torch.ones(4, 1, dtype=torch.float64)
    gaps, h = np.abs(x.numpy() - x.numpy().T), 1e-6

    def total(lengthscale):
        r, power = gaps / lengthscale, 2 * q + 1
        c = {0: (1,), 1: (1, 3), 2: (1, 5, 8), 3: (1, 7, 19, 21)}[q]
        return (np.maximum(1 - r, 0) ** power * sum(each * r**k for k, each in enumerate(c))).sum()

    for compiled in engines(x, PiecewisePolynomial(q=q)):
        operator = TiledOperator(x, PiecewisePolynomial(q=q, lengthscale=0.8), NOISE, compiled=compiled)
        found = operator.bilinear_derivatives(m, m, with_inputs=True)
        expected = (total(0.8 + h) - total(0.8 - h)) / (2 * h)
        np.testing.assert_allclose(found.kernel["lengthscale"].item(), expected, rtol=1e-6)
        np.testing.assert_array_equal(found.inputs[2:], 0.0)


def test_kernels_are_equal_if_their_form_and_parameters_are_equal():
    assert RBF() + Linear() == RBF() + Linear() != Linear() + RBF()
    assert RBF() + Linear() + Constant() == RBF() + (Linear() + Constant())
    assert 2.0 * RBF() == RBF() * 2.0 == RBF(outputscale=2.0)
    assert 2.0 * (RBF() + Linear()) == 4.0 * (0.5 * (RBF() + Linear()))
    assert len({RBF() * Linear(), RBF() * Linear(), RBF().on(0), RBF().on([0])}) == 2
    assert repr(2.0 * (RBF() + Linear()).on([0, 1]) * Constant()) == (
        "(2.0 * (RBF(lengthscale=1.0, outputscale=1.0) + Linear(lengthscale=1.0, outputscale=1.0))).on([0, 1])"
        " * Constant(outputscale=1.0)"
    )


@EVERY
def test_a_printed_kernel_can_be_evaluated_and_a_saved_one_read_back(name):
    kernel, _ = KERNELS[name]
    assert eval(repr(kernel), vars(apviz.kernels)) == kernel
    assert from_expression(repr(kernel)) == from_plain(to_plain(kernel)) == kernel


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_expression_is_symmetric_positive_definite_and_the_same_in_both_engines(data):
    leaves = st.sampled_from([
        RBF(lengthscale=0.7), Matern32(lengthscale=0.4).on(0), Linear(lengthscale=2.0), Periodic(period=0.6).on([1]),
        Constant(outputscale=0.2), RationalQuadratic(alpha=0.6), Polynomial(degree=2).on([0, 1]), Matern52().on(1),
    ])  # fmt: skip
    kernel = data.draw(
        st.recursive(leaves, lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
            st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
            inner.map(lambda one: 0.5 * one),
        ), max_leaves=4)
    )  # fmt: skip
    x = inputs(25)
    assert from_expression(repr(kernel)) == kernel
    k = kernel(x)
    assert torch.equal(k, k.T)
    assert float(torch.linalg.eigvalsh(k).min()) > -1e-10 * float(k.diagonal().max())
    torch.testing.assert_close(TiledOperator(x, kernel, NOISE, compiled=False).columns(slice(0, 25)), k)


def test_invalid_combinations_are_rejected_with_the_reason():
    x = torch.zeros(4, 2)
    with pytest.raises(ValueError, match="takes column 3, the inputs have columns 0 to 1"):
        RBF().on(3)(x)
    with pytest.raises(ValueError, match="2 periods were given for inputs with 1 columns"):
        Periodic(period=(1.0, 2.0)).on(0)(x)
    with pytest.raises(ValueError, match="Cosine takes one input, got 2"):
        Cosine()(x)
    with pytest.raises(ValueError, match="columns must be different whole numbers from 0"):
        RBF().on([1, 1])
    with pytest.raises(ValueError, match="groups must be whole numbers from 0 to 1, got 0.5"):
        Groups(factor=[1.0, 1.0], variances=[0.0, 0.0]).on(0)(x + 0.5)
    with pytest.raises(ValueError, match="a factor of a kernel must be finite and positive, got -1.0"):
        -1.0 * (RBF() + Linear())
    with pytest.raises(ValueError, match="degree must be a whole number, at least 1, at most 16, got 2.5"):
        Polynomial(degree=2.5)
    with pytest.raises(ValueError, match="q must be 0, 1, 2 or 3, got 4"):
        PiecewisePolynomial(q=4)
    with pytest.raises(ValueError, match="has no hyperparameter 2.lengthscale; it has 0.outputscale, 0.lengthscale"):
        (RBF() + Linear()).with_hyperparameters({"2.lengthscale": 1.0})
    mixture_of_one = SpectralMixture(weights=[1.0], means=[0.5], scales=[0.1])
    for kernel in (RBF(), mixture_of_one, Evaluated(lambda x, z, values: x @ z.T, {}, {}, "own")):
        with pytest.raises(ValueError, match="has no hyperparameter width; it has"):
            kernel.with_hyperparameters({"width": 1.0})
    with pytest.raises(TypeError, match="unsupported operand"):
        RBF() + 1.0
    with pytest.raises(ValueError, match="a kernel must be Sum, Product, Scaled, On"):
        from_plain({"kernel": "os.system"})
    with pytest.raises(ValueError, match="the kernel RBF cannot be read"):
        from_plain({"kernel": "RBF", "width": 1.0})


@pytest.mark.parametrize(
    "text",
    [
        "", "Theirs", "RBF", "RBF(1.0)", "RBF(width=1.0)", "RBF(**{})", "RBF(lengthscale=open('x'))", "RBF() - RBF()",
        "__import__('os').system('true')", "RBF().on()", "RBF().on([0], 1)", "-1.0 * RBF()", "RBF() + 1.0",
        "(" * 500 + "RBF()" + ")" * 500, " + ".join(["RBF()"] * 5000),
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_text_that_is_not_a_printed_kernel_is_rejected_and_never_executed(text):
    with pytest.raises(ValueError, match="cannot be read as a kernel of apviz"):
        from_expression(text)


@pytest.mark.parametrize(
    "kind", [Constant, Cosine, Groups, Linear, Periodic, PiecewisePolynomial, Polynomial, SpectralMixture, White,
             apviz.Kernel, apviz.Stationary], ids=lambda kind: kind.__name__,
)  # fmt: skip
def test_every_kernel_has_an_example_that_runs(kind):
    (found,) = doctest.DocTestFinder(recurse=False).find(kind, kind.__name__, globs={})
    assert found.examples and doctest.DocTestRunner().run(found).failed == 0
    assert inspect.getdoc(kind)


def test_a_composite_kernel_compiles_once_for_all_its_parameters():
    one, other = (
        TiledOperator(inputs(10), RBF(lengthscale=scale) + Linear(outputscale=scale), scale).formula
        for scale in (0.3, 2.0)
    )
    if not native.supports(one):
        pytest.skip("no compiler")
    assert native.library(one.structure) is native.library(other.structure)


# --- solved ---------------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize(
    "solver", [apviz.Automatic(tol=1e-6), apviz.ConjugateGradient(tol=1e-6), apviz.solvers.overlapping(tol=1e-6)],
    ids=["automatic", "cg", "ap"],
)  # fmt: skip
def test_systems_of_any_kernel_are_solved_like_by_dense_algebra(name, solver):
    kernel, formula = KERNELS[name]
    x = inputs(400)
    b = torch.sin(3 * x[:, 0]) + 0.1 * x[:, 1]
    system = apviz.KernelSystem(x, b, kernel, noise=NOISE, device=DEVICE)
    solution = apviz.solve(system, solver)
    k = formula(x.numpy(), x.numpy()) + NOISE * np.eye(400)
    assert solution.converged
    assert np.linalg.norm(k @ solution.weights.numpy() - b.numpy()) < 1.01e-6 * np.linalg.norm(b.numpy())


@pytest.mark.parametrize("name", ["linear", "sum of products", "groups"])
def test_a_posterior_of_any_kernel_agrees_with_dense_algebra(name):
    kernel, formula = KERNELS[name]
    x, z = inputs(200), inputs(30, seed=1)
    y = torch.sin(3 * x[:, 0])
    h = apviz.Hyperparameters.of(kernel, noise=NOISE, mean=0.2)
    posterior = apviz.Posterior(x, y, h, apviz.Automatic(tol=1e-8), device=DEVICE)
    k, c = formula(x.numpy(), x.numpy()) + NOISE * np.eye(200), formula(x.numpy(), z.numpy())
    np.testing.assert_allclose(posterior.mean(z), 0.2 + c.T @ np.linalg.solve(k, y.numpy() - 0.2), atol=1e-6)
    expected = np.diag(formula(z.numpy(), z.numpy()) - c.T @ np.linalg.solve(k, c))
    np.testing.assert_allclose(posterior.variance(z), expected, atol=1e-6)


def test_a_trace_records_its_kernel():
    recorder = apviz.Recorder()
    system = apviz.KernelSystem(inputs(50), torch.ones(50), RBF().on(0) + Linear(), noise=NOISE, device=DEVICE)
    apviz.solve(system, apviz.ConjugateGradient(), [recorder])
    attrs = recorder.trace.attrs
    assert attrs["kernel"] == repr(system.kernel) and attrs["lengthscale"] == []
    assert attrs["outputscale"] == pytest.approx(float(system.kernel(system.x.double()).diagonal().max()))


def test_bounds_on_eigenvalues_hold_for_negative_entries():
    x = torch.linspace(-1, 1, 300, dtype=torch.float64)[:, None]
    for kernel in (Cosine(period=0.3), Linear(), Cosine(period=0.3) * RBF(lengthscale=0.4)):
        system = apviz.KernelSystem(x, x[:, 0], kernel, noise=NOISE, device=DEVICE)
        largest = float(torch.linalg.eigvalsh(kernel(x)).max()) + NOISE
        blocks = [system.operator.block(slice(0, 150))]
        found = apviz.spectrum.spectrum(system, blocks, method="lanczos")
        assert found.lambda_max.value <= largest * (1 + 1e-9) and largest <= found.lambda_max.bound * (1 + 1e-9)
        of_block = float(torch.linalg.eigvalsh(blocks[0]).max())
        assert found.lambda_max_block.value <= of_block * (1 + 1e-9) and of_block <= found.lambda_max_block.bound


def test_a_gaussian_process_with_any_kernel_predicts_and_is_read_back(tmp_path):
    x = inputs(80).numpy()
    y = np.sin(3 * x[:, 0]) + x[:, 1]
    h = apviz.Hyperparameters.of(RBF(lengthscale=0.5).on(0) + Linear().on([1, 2]), noise=0.01)
    gp = apviz.GaussianProcess(hyperparameters=h, device=DEVICE).fit(x, y)
    assert np.sqrt(np.mean((gp.predict(x) - y) ** 2)) < 0.05
    gp.save(tmp_path / "gp.npz")
    again = apviz.GaussianProcess.load(tmp_path / "gp.npz")
    assert again.hyperparameters_ == gp.hyperparameters_
    np.testing.assert_array_equal(again.predict(x), gp.predict(x))


@pytest.mark.parametrize("compiled", [False, True])
def test_white_noise_distinguishes_inputs_that_are_equal_in_float32(compiled):
    x = torch.tensor([[0.0], [1e8], [1e8 + 1], [1e8]], dtype=torch.float64)
    if compiled not in engines(x, White(outputscale=2.0)):
        pytest.skip("no compiler")
    operator = TiledOperator(x, White(outputscale=2.0), NOISE, torch.float32, compiled=compiled)
    expected = 2.0 * torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 1, 0, 1]])
    torch.testing.assert_close(operator.columns(slice(0, 4)), expected)


def test_a_product_of_many_sums_is_rejected_before_it_is_expanded():
    kernel = RBF() + Linear()
    for _ in range(10):
        kernel = kernel * (RBF() + Linear())
    with pytest.raises(ValueError, match="has 2,048 terms when it is written out; at most 1,024 are taken"):
        kernel(torch.zeros(2, 1))
