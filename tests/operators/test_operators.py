"""Every engine against K in float64; n exceeds the sizes of tiles, 256 × 256 compiled and 768 × 512 in place."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apviz import RBF, KernelSystem, Matern12, Matern32, Matern52, RationalQuadratic, Stationary
from apviz.kernels import KERNELS
from apviz.operators import CountingOperator, make_operator
from apviz.operators.dense import DenseOperator
from apviz.operators.tiled import TiledOperator
from tests.device import DEVICE, only_on_a_gpu, only_on_the_cpu

NOISE = 0.05


def on(values):
    """Return a copy on the device of the tests."""
    return values.to(DEVICE)


ENGINES = {
    "dense": DenseOperator,
    "in-place": lambda x, kernel, noise: TiledOperator(x, kernel, noise, compiled=False),
    "compiled": lambda x, kernel, noise: _compiled(x, kernel, noise),
}
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)
EVERY_KERNEL = pytest.mark.parametrize("kind", KERNELS.values(), ids=KERNELS.keys())
SIZES = st.one_of(st.integers(1, 40), st.sampled_from([255, 256, 257, 511, 513, 769, 1031]))


def _compiled(x, kernel, noise):
    if x.device.type != "cpu":
        pytest.skip("the compiled engine runs on the CPU")
    operator = TiledOperator(x, kernel, noise)
    operator.prepare()
    if not operator.engine.startswith("compiled"):
        pytest.skip("no C++ compiler on this machine")
    return operator


@dataclass
class Problem:
    operator: object
    kernel: object
    x: torch.Tensor
    exact: np.ndarray  # k(X, X), float64, no noise
    rng: np.random.Generator

    def random(self, *shape):
        return torch.tensor(self.rng.standard_normal(shape), dtype=self.x.dtype).to(DEVICE)

    @property
    def exact_with_noise(self):
        return self.exact + NOISE * np.eye(len(self.x))

    def allowed(self, u=None):
        """Return the rounding allowed in an entry of K, or in an entry of a product of K with u.

        Scaling rounds an input by eps, which moves distances by eps·ρ, ρ the largest norm; the product form of
        the distance, used in place for d > 4, errs by eps·ρ². |dk/dr| ≤ 2. A sum of m terms errs by m·eps·Σ|terms|.
        """
        eps, scale = torch.finfo(self.x.dtype).eps, self.kernel.outputscale + NOISE
        radius = 1 + float(self.operator.inputs.norm(dim=1).max())
        product_form = "matrix-product" in self.operator.engine
        entry = eps * scale * (8 + 4 * radius ** (2 if product_form else 1))
        return entry if u is None else (entry + len(u) * eps * scale) * (1 + float(u.abs().sum(0).max()))


@st.composite
def shapes(draw):
    return {
        "n": draw(SIZES), "d": draw(st.sampled_from([1, 2, 3, 4, 5, 13, 40])),
        "p": draw(st.sampled_from([1, 2, 9, 17])),
        "ard": draw(st.booleans()), "dtype": draw(st.sampled_from([torch.float32, torch.float64])),
        "duplicates": draw(st.booleans()), "as_slice": draw(st.booleans()), "seed": draw(st.integers(0, 2**31)),
    }  # fmt: skip


@pytest.fixture(scope="session")
def make_problem(exact_kernel):
    def make(engine, kind, *, n, d, ard, dtype, duplicates=False, seed=0, **_):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, (n, d))
        if duplicates:
            x[n // 2 :] = x[: n - n // 2]
        x = torch.tensor(x, dtype=dtype).to(DEVICE)
        kernel = kind(lengthscale=rng.uniform(0.3, 2.0, d if ard else 1).tolist(), outputscale=rng.uniform(0.5, 2.0))
        return Problem(ENGINES[engine](x, kernel, NOISE), kernel, x, exact_kernel(kernel, x), rng)

    return make


def some_rows(problem, as_slice):
    """Return rows in the form for the operator, and in that for NumPy."""
    n = len(problem.x)
    if as_slice:
        first, last = sorted(problem.rng.choice(n + 1, 2, replace=False).tolist())
        return slice(first, last), np.arange(first, last)
    indices = problem.rng.permutation(n)[: problem.rng.integers(1, n + 1)]
    return torch.tensor(indices).to(DEVICE), indices


def every_case(examples):
    def decorate(test):
        return EVERY_ENGINE(EVERY_KERNEL(settings(deadline=None, max_examples=examples)(given(shapes())(test))))

    return decorate


@every_case(examples=7)
def test_matmul_equals_the_dense_matrix_times_v(make_problem, engine, kind, shape):
    problem = make_problem(engine, kind, **shape)
    v = problem.random(shape["n"], shape["p"])
    expected = problem.exact_with_noise @ v.double().numpy()
    np.testing.assert_allclose(problem.operator.matmul(v), expected, rtol=0, atol=problem.allowed(v))


@every_case(examples=7)
def test_columns_matmul_equals_the_dense_columns_times_u_and_subtracting_them_undoes_it(
    make_problem, engine, kind, shape
):
    problem = make_problem(engine, kind, **shape)
    rows, indices = some_rows(problem, shape["as_slice"])
    u = problem.random(len(indices), shape["p"])
    expected = problem.exact_with_noise[:, indices] @ u.double().numpy()
    np.testing.assert_allclose(problem.operator.columns_matmul(rows, u), expected, rtol=0, atol=problem.allowed(u))
    r = problem.random(shape["n"], shape["p"])
    expected = r.double().numpy() - expected
    problem.operator.subtract_columns_(r, rows, u)
    np.testing.assert_allclose(r, expected, rtol=0, atol=problem.allowed(u) + 8 * torch.finfo(r.dtype).eps)


@every_case(examples=7)
def test_block_and_columns_are_parts_of_the_dense_matrix(make_problem, engine, kind, shape):
    problem = make_problem(engine, kind, **shape)
    rows, indices = some_rows(problem, shape["as_slice"])
    block, columns = problem.operator.block(rows), problem.operator.columns(rows)
    allowed = problem.allowed()
    np.testing.assert_allclose(block, problem.exact_with_noise[np.ix_(indices, indices)], rtol=0, atol=allowed)
    np.testing.assert_allclose(columns, problem.exact[:, indices], rtol=0, atol=allowed)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_stored_k_predicts_more_rows_than_it_evaluates_at_once(is_compiled, monkeypatch):
    if is_compiled:
        _compiled(torch.zeros(2, 3, device=DEVICE), Matern32(lengthscale=0.7), NOISE)
    else:
        monkeypatch.setattr("apviz.operators.dense.native.is_built", lambda formula: False)
    shapes = (50, 3), (2_345, 3), (50, 2)
    x, z, v = (torch.randn(shape, generator=torch.manual_seed(0)).to(DEVICE) for shape in shapes)
    operator = DenseOperator(x, Matern32(lengthscale=0.7), NOISE)
    u = np.sqrt(3) * np.linalg.norm(z.double().numpy()[:, None] - x.double().numpy(), axis=2) / 0.7
    expected = ((1 + u) * np.exp(-u)) @ v.double().numpy()
    np.testing.assert_allclose(operator.cross_matmul(z, v), expected, atol=1e-5)


@every_case(examples=5)
def test_cross_matmul_equals_the_dense_cross_kernel_times_v_without_noise(
    make_problem, exact_kernel, engine, kind, shape
):
    problem = make_problem(engine, kind, **shape)
    z = torch.cat([problem.random(5, shape["d"]), problem.x[:3]])  # test points may be training points too
    v = problem.random(shape["n"], shape["p"])
    expected = exact_kernel(problem.kernel, z, problem.x) @ v.double().numpy()
    allowed = problem.allowed(v) * (1 + float(problem.kernel.features(z).norm(dim=1).max()))
    np.testing.assert_allclose(problem.operator.cross_matmul(z, v), expected, rtol=0, atol=allowed)


@every_case(examples=4)
def test_a_reordered_operator_represents_the_permuted_matrix_on_the_same_engine(make_problem, engine, kind, shape):
    problem = make_problem(engine, kind, **shape)
    order = problem.rng.permutation(shape["n"])
    reordered = problem.operator.reordered(torch.tensor(order).to(DEVICE))
    assert reordered.engine == problem.operator.engine and torch.equal(reordered.x, problem.x[order])
    everything = slice(0, shape["n"])
    permuted = problem.exact_with_noise[np.ix_(order, order)]
    np.testing.assert_allclose(reordered.block(everything), permuted, rtol=0, atol=problem.allowed())
    identity = torch.eye(shape["n"], dtype=shape["dtype"], device=DEVICE)
    np.testing.assert_allclose(reordered.matmul(identity), permuted, rtol=0, atol=problem.allowed(identity))


@EVERY_ENGINE
@EVERY_KERNEL
def test_the_diagonal_equals_outputscale_plus_noise_as_in_a_block(make_problem, engine, kind):
    problem = make_problem(engine, kind, n=20, d=6, ard=True, dtype=torch.float32, duplicates=True)
    diagonal = problem.operator.diagonal()
    np.testing.assert_allclose(diagonal, np.diag(problem.exact_with_noise), rtol=1e-6)
    assert torch.equal(problem.operator.block(slice(0, 20)).diagonal(), diagonal)


@EVERY_ENGINE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [0.05, 2.5, 1e4])
def test_every_engine_uses_the_shape_parameter(make_problem, engine, alpha, dtype):
    kind = partial(RationalQuadratic, alpha=alpha)
    problem = make_problem(engine, kind, n=300, d=3, ard=True, dtype=dtype, duplicates=True)
    everything, v = slice(0, 300), problem.random(300, 3)
    np.testing.assert_allclose(problem.operator.block(everything), problem.exact_with_noise, atol=problem.allowed())
    expected = problem.exact_with_noise @ v.double().numpy()
    np.testing.assert_allclose(problem.operator.matmul(v), expected, rtol=0, atol=problem.allowed(v))


@EVERY_ENGINE
@pytest.mark.parametrize("kind", [*KERNELS.values(), partial(RationalQuadratic, alpha=0.3)])
def test_derivatives_agree_with_differences_of_the_textbook_formula(exact_kernel, engine, kind):
    rng = np.random.default_rng(0)
    x, a, b = (torch.tensor(rng.standard_normal(shape)).to(DEVICE) for shape in ((70, 2), (70, 3), (70, 3)))

    def product(first, second, outputscale):
        """Return tr(Aᵀ k(X, X) B)."""
        kernel = kind(lengthscale=(first, second), outputscale=outputscale)
        return np.trace(a.numpy().T @ exact_kernel(kernel, x) @ b.numpy())

    at, h = np.array([0.7, 1.3, 1.6]), 1e-5
    expected = [(product(*(at + h * e)) - product(*(at - h * e))) / (2 * h) for e in np.eye(3)]
    found = ENGINES[engine](x, kind(lengthscale=(0.7, 1.3), outputscale=1.6), NOISE).bilinear_derivatives(a, b)
    np.testing.assert_allclose(
        [*found.kernel["lengthscale"].tolist(), *found.kernel["outputscale"].tolist()], expected, rtol=1e-7, atol=1e-7
    )
    np.testing.assert_allclose(found.noise, (a * b).sum())


class Cauchy(Stationary):
    """The kernel 1/(1 + r²), which no compiled engine has."""

    distance_scale = 1.0

    def correlation_(self, u, spare):
        return u.add_(1.0).reciprocal_()

    def slope(self, u):
        return -(1.0 + u).square().reciprocal()


def test_a_kernel_without_compiled_code_runs_in_torch_tiles():
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel, same = (
        Cauchy(lengthscale=0.4, outputscale=1.3),
        RationalQuadratic(lengthscale=0.4 / 2**0.5, outputscale=1.3, alpha=1.0),
    )
    operator, dense = TiledOperator(x, kernel, NOISE), DenseOperator(x, kernel, NOISE)
    operator.prepare()
    assert operator.engine.startswith("in-place torch tiles")
    expected = DenseOperator(x, same, NOISE)
    torch.testing.assert_close(operator.matmul(x), expected.matmul(x))
    for each in (operator, dense):
        torch.testing.assert_close(
            each.bilinear_derivatives(x, x).kernel["lengthscale"] * 0.4,
            expected.bilinear_derivatives(x, x).kernel["lengthscale"] * same.lengthscale,
        )


def test_a_kernel_that_keops_lacks_is_rejected_with_an_alternative():
    with pytest.raises(ValueError, match="operator 'keops' has the kernels .*, not Cauchy; use operator='tiled'"):
        make_operator("keops", torch.zeros(3, 1), Cauchy(), 0.1)


@EVERY_ENGINE
@EVERY_KERNEL
def test_a_block_is_symmetric_and_positive_definite(make_problem, engine, kind):
    problem = make_problem(engine, kind, n=300, d=3, ard=False, dtype=torch.float32, duplicates=True)
    block = problem.operator.block(torch.arange(0, 300, 2, device=DEVICE))
    # the product form of a tile may round its two halves differently; d = 3 uses differences
    assert torch.equal(block, block.T)
    assert torch.linalg.cholesky(block).isfinite().all()


@EVERY_ENGINE
def test_small_entries_keep_their_relative_accuracy_in_float32(engine):
    # float32 represents these gaps exactly, so only exp(−r) can err
    gaps = torch.arange(0, 80, 1 / 64, device=DEVICE)[:, None]
    entries = ENGINES[engine](gaps, Matern12(lengthscale=1.0), NOISE).columns(slice(0, 1))[:, 0]
    expected = np.exp(-gaps[:, 0].double().numpy())
    np.testing.assert_allclose(entries[1:], expected[1:], rtol=2 * torch.finfo(torch.float32).eps)


@EVERY_ENGINE
@pytest.mark.parametrize("d", [3, 7])
def test_arguments_need_not_be_contiguous(make_problem, engine, d):
    wide = torch.rand(30, 2 * d, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    kernel = Matern52(lengthscale=0.6, outputscale=1.3)
    strided = ENGINES[engine](wide[:, ::2], kernel, NOISE)
    plain = ENGINES[engine](wide[:, ::2].clone(memory_format=torch.contiguous_format), kernel, NOISE)
    v = torch.rand(4, 30, generator=torch.Generator().manual_seed(1)).to(DEVICE).T
    z = torch.rand(d, 6, generator=torch.Generator().manual_seed(2)).to(DEVICE).T
    torch.testing.assert_close(strided.matmul(v), plain.matmul(v.contiguous()))
    torch.testing.assert_close(strided.cross_matmul(z, v), plain.cross_matmul(z.contiguous(), v.contiguous()))
    rows = torch.arange(30, device=DEVICE)[5:25:3]
    r, u = torch.zeros(4, 30, device=DEVICE).T, v[rows]
    strided.subtract_columns_(r, rows, u)
    torch.testing.assert_close(r, -plain.columns_matmul(rows, u.contiguous()))


@EVERY_ENGINE
def test_overwriting_a_block_or_columns_does_not_change_the_operator(make_problem, engine):
    problem = make_problem(engine, Matern52, n=12, d=2, ard=False, dtype=torch.float64)
    for rows in (slice(0, 12), torch.arange(12, device=DEVICE)):
        problem.operator.block(rows).zero_()
        problem.operator.columns(rows).zero_()
    np.testing.assert_allclose(problem.operator.block(slice(0, 12)), problem.exact_with_noise, atol=1e-13)


@EVERY_ENGINE
def test_arguments_are_not_modified(make_problem, engine):
    problem = make_problem(engine, Matern32, n=40, d=3, ard=False, dtype=torch.float32)
    v, u, x = problem.random(40, 2), problem.random(4, 2), problem.x.clone()
    kept = v.clone(), u.clone()
    problem.operator.matmul(v)
    problem.operator.cross_matmul(problem.x, v)
    problem.operator.columns_matmul(slice(3, 7), u)
    assert torch.equal(v, kept[0]) and torch.equal(u, kept[1]) and torch.equal(problem.operator.x, x)


@EVERY_ENGINE
@pytest.mark.parametrize(
    "call",
    [
        lambda op: op.matmul(on(torch.ones(50, 2, dtype=torch.float64))),
        lambda op: op.matmul(on(torch.ones(49, 2))),
        lambda op: op.matmul(on(torch.ones(51, 2))),
        lambda op: op.subtract_columns_(on(torch.zeros(50, 3)), slice(0, 5), on(torch.ones(5, 2))),
        lambda op: op.cross_matmul(on(torch.zeros(4, 3)), on(torch.ones(60, 2))),
        lambda op: op.cross_matmul(on(torch.zeros(4, 3)), on(torch.ones(50, 2, dtype=torch.float64))),
        lambda op: op.cross_matmul(on(torch.zeros(4, 2)), on(torch.ones(50, 2))),
    ],
    ids=["dtype", "too few rows", "too many rows", "other width", "cross rows", "cross dtype", "cross inputs"],
)
def test_arguments_of_another_dtype_or_shape_are_rejected_instead_of_read_out_of_bounds(make_problem, engine, call):
    problem = make_problem(engine, Matern52, n=50, d=3, ard=False, dtype=torch.float32)
    with pytest.raises((ValueError, RuntimeError)):
        call(problem.operator)


@only_on_the_cpu("on a GPU `auto` takes the fused engine beyond 4,000 points")
@pytest.mark.parametrize(("n", "name"), [(4_000, "dense"), (4_001, "tiled")])
def test_auto_stores_k_up_to_4000_points_and_names_its_engine(n, name):
    operator = KernelSystem(
        torch.linspace(0, 1, n), torch.ones(n), Matern52(lengthscale=0.2), noise=0.1, device=DEVICE
    ).operator
    assert operator.name == name
    assert operator.engine.startswith({"dense": "stored matrix", "tiled": "in-place torch tiles"}[name])


def test_the_tiled_engine_changes_only_in_prepare_and_names_itself():
    x = torch.rand(10, 6, generator=torch.Generator().manual_seed(0))
    operator = TiledOperator(x, Matern52(lengthscale=1.0), 0.1)
    assert operator.engine == "in-place torch tiles, matrix-product distances"
    operator.matmul(torch.ones(10, 1))
    assert operator.engine.startswith("in-place")
    assert _compiled(x, Matern52(lengthscale=1.0), 0.1).engine == "compiled C++ tiles, direct differences"


def test_a_settled_operator_keeps_its_engine():
    operator = TiledOperator(torch.rand(10, 2), Matern52(lengthscale=1.0), 0.1, compiled=False)
    for change in (lambda: operator.fix_engine(1e12, 1), operator.prepare):
        change()
        assert operator.engine.startswith("in-place")


@pytest.mark.parametrize(
    ("kind", "d", "lengthscale", "direct"),
    [("rbf", 4, 1.0, True), ("rbf", 5, 1.0, False), ("matern12", 5, 1.0, True), ("rbf", 5, 1e-3, True)],
    ids=["few inputs", "many inputs", "a kink at zero", "many lengthscales across"],
)
def test_direct_differences_are_used_if_the_product_form_would_cost_accuracy(kind, d, lengthscale, direct):
    x = torch.rand(50, d, generator=torch.Generator().manual_seed(0))
    engine = TiledOperator(x, KERNELS[kind](lengthscale=lengthscale), 0.1, compiled=False).engine
    assert engine.endswith("direct differences" if direct else "matrix-product distances")


def test_an_unknown_operator_name_lists_the_known_ones():
    with pytest.raises(
        ValueError, match="operator must be auto, dense, tiled, fourier, keops, fused, fused-tf32x3, got 'sparse'"
    ):
        make_operator("sparse", torch.zeros(3, 1), Matern52(), 0.1)


@EVERY_ENGINE
def test_inputs_a_billion_lengthscales_apart_are_rejected_before_their_squares_overflow(engine):
    x = torch.tensor([[0.0], [1.0], [2.0]], device=DEVICE)
    with pytest.raises(ValueError, match=r"the inputs span .* lengthscales, more than 1e"):
        ENGINES[engine](x, Matern52(lengthscale=1e-10), NOISE)


@EVERY_ENGINE
def test_counting_adds_up_the_requested_entries_and_changes_no_number(make_problem, engine):
    problem = make_problem(engine, Matern52, n=30, d=2, ard=False, dtype=torch.float64)
    plain, counting = problem.operator, CountingOperator(problem.operator)
    v, rows = problem.random(30, 2), torch.tensor([4, 1, 9], device=DEVICE)
    assert counting.work == 0
    assert torch.equal(counting.matmul(v), plain.matmul(v)) and counting.entries == 900
    assert torch.equal(counting.block(rows), plain.block(rows)) and counting.entries == 909
    assert torch.equal(counting.columns(slice(2, 6)), plain.columns(slice(2, 6))) and counting.entries == 1029
    r, expected = v.clone(), v.clone()
    counting.subtract_columns_(r, rows, v[:3])
    plain.subtract_columns_(expected, rows, v[:3])
    assert torch.equal(r, expected) and counting.entries == 1119
    assert counting.work == 1119 / 900


@EVERY_ENGINE
@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=8), equal=st.booleans(), columns=st.integers(1, 20),
    transposed=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_squared_norms_are_sums_of_squares_between_the_starts(engine, sizes, equal, columns, transposed, seed):
    if equal:  # equal except the last, as partitioners make them; otherwise any sizes
        sizes = [sizes[0]] * (len(sizes) - 1) + [min(sizes[0], sizes[-1])]
    starts = (0, *np.cumsum(sizes).tolist())
    r = np.random.default_rng(seed).standard_normal((starts[-1], columns))
    given_r = (torch.tensor(r.T).contiguous().T if transposed else torch.tensor(r)).to(DEVICE)
    operator = ENGINES[engine](torch.zeros(2, 1, dtype=torch.float64, device=DEVICE), Matern52(lengthscale=1.0), NOISE)
    norms = operator.squared_norms(given_r, starts, torch.empty_like(given_r))
    np.testing.assert_allclose(norms, np.add.reduceat(r**2, starts[:-1], axis=0), rtol=1e-12)


@EVERY_ENGINE
@settings(deadline=None, max_examples=40)
@given(
    n=SIZES, columns=st.integers(1, 20), q=st.integers(0, 6), dtype=st.sampled_from([torch.float32, torch.float64]),
    layout=st.sampled_from(["plain", "a part of more images", "transposed"]), seed=st.integers(0, 99),
)  # fmt: skip
def test_subtracting_a_combination_works_in_place_with_one_step_per_image_and_column(
    engine, n, columns, q, dtype, layout, seed
):
    rng = np.random.default_rng(seed)
    shapes = (n, columns), (8, n, columns), (8, 1), (8, columns)
    r, images, steps, each = (torch.tensor(rng.standard_normal(s), dtype=dtype).to(DEVICE) for s in shapes)
    steps = steps * each
    images, steps = images[:q], steps[:q]
    if layout == "plain":
        images, steps = images.clone(), steps.clone()
    if layout == "transposed":
        r, steps = r.T.contiguous().T, steps.T.contiguous().T
        images = images.transpose(1, 2).contiguous().transpose(1, 2)
    terms = images.double().numpy(), steps.double().numpy()
    expected = r.double().numpy() - np.einsum("qnp,qp->np", *terms)
    allowed = (q + 2) * torch.finfo(dtype).eps * (r.abs().cpu().numpy() + np.einsum("qnp,qp->np", *map(np.abs, terms)))
    operator = ENGINES[engine](torch.zeros(n, 1, dtype=dtype, device=DEVICE), Matern52(lengthscale=1.0), NOISE)
    kept, given_r = (images.clone(), steps.clone()), r
    operator.subtract_combination_(r, images, steps)
    assert r is given_r and (np.abs(r.double().numpy() - expected) <= allowed).all()
    assert torch.equal(images, kept[0]) and torch.equal(steps, kept[1])


@EVERY_ENGINE
@settings(deadline=None, max_examples=40)
@given(
    n=SIZES, columns=st.integers(1, 20), q=st.integers(0, 6), length=st.sampled_from([1, 7, 16, 17, 40]),
    dtype=st.sampled_from([torch.float32, torch.float64]), transposed=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_gathered_products_equal_those_of_each_update_with_its_rows_of_a_right_hand_side(
    engine, n, columns, q, length, dtype, transposed, seed
):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, n, (q, length))
    updates = torch.tensor(rng.standard_normal((q, length, columns)), dtype=dtype).to(DEVICE)
    a = torch.tensor(rng.standard_normal((n, columns)), dtype=dtype).to(DEVICE)
    if transposed:
        a = a.T.contiguous().T
    terms = updates.double().numpy(), a.double().numpy()[rows]
    operator = ENGINES[engine](torch.zeros(n, 1, dtype=dtype, device=DEVICE), Matern52(lengthscale=1.0), NOISE)
    products = operator.gathered_products(updates, torch.tensor(rows).to(DEVICE), a)
    assert products.dtype == torch.float64
    allowed = 18 * torch.finfo(dtype).eps * np.einsum("qkp,qkp->qp", *map(np.abs, terms))
    assert (np.abs(products.numpy() - np.einsum("qkp,qkp->qp", *terms)) <= allowed).all()


@EVERY_ENGINE
def test_subtracting_the_image_of_its_own_update_cancels_r_exactly(make_problem, engine):
    problem = make_problem(engine, Matern52, n=300, d=2, ard=False, dtype=torch.float64)
    u = problem.random(4, 3)
    r = torch.zeros(300, 3, dtype=torch.float64, device=DEVICE)
    problem.operator.subtract_columns_(r, slice(2, 6), u)
    images = r.clone()[None]  # −K[:, I] u
    problem.operator.subtract_combination_(r, images, torch.ones(1, 3, dtype=torch.float64, device=DEVICE))
    assert not r.any()


@every_case(examples=5)
def test_parts_of_the_matrix_and_their_products_agree_with_the_dense_matrix(make_problem, engine, kind, shape):
    problem = make_problem(engine, kind, **shape)
    columns, indices = some_rows(problem, shape["as_slice"])
    others = np.setdiff1d(np.arange(shape["n"]), indices)
    near = np.sort(np.concatenate([indices, others[::3]]))
    far = torch.tensor(others[1::3], dtype=torch.int64).to(DEVICE)
    np.testing.assert_allclose(
        problem.operator.part(far, columns), problem.exact[np.ix_(far, indices)], rtol=0, atol=problem.allowed()
    )
    r, u = problem.random(shape["n"], shape["p"]), problem.random(len(indices), shape["p"])
    expected = r.double().cpu().numpy().copy()
    expected[near] -= problem.exact_with_noise[np.ix_(near, indices)] @ u.double().numpy()
    problem.operator.subtract_part_(r, torch.tensor(near).to(DEVICE), columns, u)
    np.testing.assert_allclose(r, expected, rtol=0, atol=problem.allowed(u) + 8 * torch.finfo(r.dtype).eps)


@EVERY_ENGINE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_operator_in_another_dtype_has_entries_accurate_in_that_dtype(make_problem, engine, dtype):
    problem = make_problem(engine, Matern52, n=50, d=3, ard=True, dtype=torch.float32)
    other = problem.operator.in_dtype(dtype)
    tol = 1e-14 if dtype == torch.float64 else 1e-5
    np.testing.assert_allclose(other.block(slice(0, 50)), problem.exact_with_noise, rtol=0, atol=tol * 50)
    assert other.x.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("columns", [1, 3, 8, 16, 17])
def test_a_product_with_k_is_bitwise_the_same_with_any_number_of_threads(make_problem, dtype, columns):
    problem = make_problem("compiled", Matern32, n=1031, d=3, ard=False, dtype=dtype)
    v, threads, found = problem.random(1031, columns), torch.get_num_threads(), []
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            found.append(problem.operator.matmul(v))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


GPU_KERNELS = [
    Matern12(lengthscale=0.4), Matern32(lengthscale=0.4), Matern52(lengthscale=0.4), RBF(lengthscale=0.4),
    Matern32(lengthscale=0.4) + 0.3 * RBF(lengthscale=1.5),
]  # fmt: skip


def points(n, d=3):
    generator = torch.Generator().manual_seed(0)
    return torch.rand(n, d, generator=generator), torch.randn(n, 5, generator=generator)


@only_on_a_gpu("test_fused.py has the interpreter")
@pytest.mark.parametrize("kernel", GPU_KERNELS, ids=str)
@pytest.mark.parametrize("name", ["tiled", "fused", "fused-tf32x3"])
@pytest.mark.parametrize("n", [1, 63, 64, 1000])
def test_a_product_on_a_gpu_agrees_with_dense_float64(kernel, name, n):
    x, v = points(n)
    exact = make_operator("dense", x.double(), kernel, 0.1).matmul(v.double())
    found = make_operator(name, on(x), kernel, 0.1).matmul(on(v))
    torch.testing.assert_close(found.cpu().double(), exact, rtol=1e-4, atol=1e-4 * float(exact.abs().max()))


@only_on_a_gpu("test_fused.py has the interpreter")
@pytest.mark.parametrize("kernel", GPU_KERNELS, ids=str)
@pytest.mark.parametrize("name", ["tiled", "fused"])
def test_derivatives_on_a_gpu_agree_with_dense_float64(kernel, name):
    x, v = points(500)
    exact = make_operator("dense", x.double(), kernel, 0.1).bilinear_derivatives(v.double(), v.double())
    found = make_operator(name, on(x), kernel, 0.1).bilinear_derivatives(on(v), on(v))
    for key, value in exact.kernel.items():
        torch.testing.assert_close(found.kernel[key].cpu(), value, rtol=1e-3, atol=1e-3)


@only_on_a_gpu("the CPU has no fused engine")
def test_auto_uses_the_fused_engine_on_a_gpu():
    x, b = points(4_001)
    operator = KernelSystem(x, b, Matern52(lengthscale=0.2), noise=0.1, device=DEVICE).operator
    assert operator.name == "fused" and operator.engine.startswith("Triton")
