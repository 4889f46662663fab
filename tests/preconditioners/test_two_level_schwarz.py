import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import apviz
from apviz import (
    RBF,
    ConjugateGradient,
    KernelSystem,
    Matern12,
    Matern52,
    PivotedCholesky,
    RandomlyPivotedCholesky,
    StopReason,
    TwoLevelSchwarz,
)
from apviz.operators import CountingOperator
from apviz.partitions import KDTree, PrincipalAxisTree, Sequential, partitioner_named
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky
from tests.device import DEVICE

KERNEL, NOISE = Matern52(lengthscale=0.5, outputscale=1.3), 0.05
COARSE = ("low-rank", "galerkin")
EVERY_COARSE = pytest.mark.parametrize("coarse", COARSE)


def system(n=150, d=3, kernel=KERNEL, noise=NOISE, dtype=torch.float64, seed=0, operator="dense", x=None):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, d)) if x is None else x
    return KernelSystem(
        x, rng.standard_normal((len(x), 2)), kernel, noise=noise, operator=operator, dtype=dtype, device=DEVICE
    )


def make(**settings):
    return CountingOperator(system(**settings).operator)


def matrix(operator):
    """Return K in float64."""
    base = operator
    return base.kernel(base.x.double()).numpy() + base.noise * np.eye(base.n)


def held_rows(operator, chosen):
    made = partitioner_named(chosen.partition)(operator.inputs, chosen.block_size)
    return [made.order[made.solved(block)].numpy() for block in range(len(made))]


def schwarz(rows, a):
    """Return Σⱼ D A[I,I]⁻¹ D with D = 1/√(number of blocks with a row), as a dense matrix."""
    m, d = np.zeros_like(a), 1 / np.sqrt(np.bincount(np.concatenate(rows), minlength=len(a)))
    for held in rows:
        m[np.ix_(held, held)] += np.linalg.inv(a[np.ix_(held, held)])
    return d[:, None] * m * d


def applied(operator, chosen, dtype=torch.float64):
    return chosen.build(operator)(torch.eye(operator.n, dtype=dtype, device=DEVICE)).double().numpy()


PROPERTY = settings(max_examples=12)
#: blocks of one row, uneven blocks, one block of all rows, and overlaps that cover all rows
BLOCKS = {"block_size": st.sampled_from([1, 7, 20, 60, 200]), "overlap": st.sampled_from([0.0, 0.5, 1.0, 3.0, 100.0])}
RANKS = st.sampled_from([1, 5, 25])


@PROPERTY
@given(
    partition=st.sampled_from([Sequential(), KDTree(), PrincipalAxisTree()]),
    operator=st.sampled_from(["dense", "tiled"]),
    **BLOCKS,
)
def test_without_a_coarse_space_it_equals_the_weighted_sum_of_inverses_of_blocks(
    partition, operator, block_size, overlap
):
    counting = make(n=60, operator=operator)
    chosen = TwoLevelSchwarz(
        block_size=block_size, partition=partitioner_named(partition, overlap=overlap), coarse_rank=0
    )
    expected = schwarz(held_rows(counting, chosen), matrix(counting))
    np.testing.assert_allclose(applied(counting, chosen), expected, atol=1e-9 * np.abs(expected).max())


@PROPERTY
@given(rank=RANKS | st.just(500), seed=st.integers(0, 99), **BLOCKS)
def test_low_rank_is_the_inverse_of_the_blocks_of_the_remainder_plus_the_factor(block_size, overlap, rank, seed):
    counting = make(n=60)
    chosen = TwoLevelSchwarz(
        block_size=block_size, partition=KDTree(overlap=overlap), coarse_rank=rank, coarse="low-rank", seed=seed
    )
    factor = randomly_pivoted_cholesky(counting, rank, seed).numpy()
    m = schwarz(held_rows(counting, chosen), matrix(counting) - factor @ factor.T)
    expected = np.linalg.inv(np.linalg.inv(m) + factor @ factor.T)
    np.testing.assert_allclose(applied(counting, chosen), expected, atol=1e-9 * np.abs(expected).max())


@PROPERTY
@given(rank=RANKS, seed=st.integers(0, 99), **BLOCKS)
def test_galerkin_balances_the_inverses_of_blocks_by_the_span_of_the_factor(block_size, overlap, rank, seed):
    counting = make(n=60)
    chosen = TwoLevelSchwarz(
        block_size=block_size, partition=KDTree(overlap=overlap), coarse_rank=rank, coarse="galerkin", seed=seed
    )
    k, v = matrix(counting), np.linalg.qr(randomly_pivoted_cholesky(counting, rank, seed).numpy())[0]
    q = v @ np.linalg.solve(v.T @ k @ v, v.T)
    identity = np.eye(60)
    expected = q + (identity - q @ k) @ schwarz(held_rows(counting, chosen), k) @ (identity - k @ q)
    np.testing.assert_allclose(applied(counting, chosen), expected, atol=1e-8 * np.abs(expected).max())


@PROPERTY
@given(
    coarse=st.sampled_from(COARSE), rank=RANKS | st.just(0), dtype=st.sampled_from([torch.float32, torch.float64]),
    **BLOCKS,
)  # fmt: skip
def test_it_is_symmetric_and_positive_definite(coarse, rank, dtype, block_size, overlap):
    counting = make(n=100, dtype=dtype)
    p = applied(
        counting,
        TwoLevelSchwarz(
            block_size=block_size, partition=PrincipalAxisTree(overlap=overlap), coarse_rank=rank, coarse=coarse
        ),
        dtype,
    )
    np.testing.assert_allclose(p, p.T, atol=50 * torch.finfo(dtype).eps * np.abs(p).max())
    assert np.linalg.eigvalsh((p + p.T) / 2)[0] > 0


@pytest.fixture(scope="module")
def nearly_singular():
    """Return 500 points for which λmax of K / outputscale is 1e7 times the noise, 3e-5, and the eigenvectors of K."""
    x = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    eigenvalues, vectors = np.linalg.eigh(matrix(make(x=x, kernel=RBF(lengthscale=1.0), noise=3e-5)))
    assert eigenvalues[-1] > 0.9e7 * 3e-5
    return x, eigenvalues[-8:], vectors[:, -8:]


@pytest.mark.parametrize(
    ("coarse", "rank", "block_size", "outputscale"),
    [
        ("low-rank", 0, 150, 1.0), ("low-rank", 5, 50, 1000.0), ("low-rank", 100, 150, 1000.0),
        ("galerkin", 5, 150, 1.0), ("galerkin", 100, 50, 1000.0), ("galerkin", 100, 150, 1.0),
    ],
)  # fmt: skip
def test_in_float32_it_stays_definite_if_the_largest_eigenvalue_is_1e7_times_the_noise(
    nearly_singular, coarse, rank, block_size, outputscale
):
    x, eigenvalues, vectors = nearly_singular
    noise = outputscale * 3e-5
    counting = make(x=x, kernel=RBF(lengthscale=1.0, outputscale=outputscale), noise=noise, dtype=torch.float32)
    apply = TwoLevelSchwarz(
        block_size=block_size, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=rank, coarse=coarse
    ).build(counting)
    p = apply(torch.eye(500, device=DEVICE)).double().numpy()
    assert np.abs(p - p.T).max() < 1e-4 * np.abs(p).max()
    # all eigenvalues are between 0 and 1/σ², up to rounding
    spectrum = np.linalg.eigvalsh((p + p.T) / 2)
    assert spectrum[-1] < 2 / noise and spectrum[0] > 0
    v = torch.tensor(vectors, dtype=torch.float32, device=DEVICE)
    leading = (v * apply(v)).sum(0).double().numpy() * eigenvalues * outputscale
    assert (leading > 0).all()
    if rank == 100:  # the coarse space contains these
        np.testing.assert_allclose(leading, 1, atol=0.1)


@EVERY_COARSE
@pytest.mark.parametrize(("noise", "seed"), [(0.03, 0), (0.03, 1), (0.01, 0)])
def test_in_float32_cg_converges_if_the_largest_eigenvalue_is_1e7_times_the_noise(coarse, noise, seed):
    x = np.random.default_rng(seed).uniform(-1, 1, (500, 2))
    problem = KernelSystem(
        x,
        np.sin(3 * x).sum(1),
        RBF(lengthscale=1.0, outputscale=1000.0),
        noise=noise,
        operator="dense",
        dtype=torch.float32,
        device=DEVICE,
    )
    preconditioner = TwoLevelSchwarz(
        block_size=150, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=100, coarse=coarse
    )
    solution = apviz.solve(problem, ConjugateGradient(preconditioner=preconditioner, tol=1e-2, max_epochs=100))
    assert solution.stop_reason is StopReason.CONVERGED


@EVERY_COARSE
@pytest.mark.parametrize(("rank", "block_size"), [(0, 80), (20, 10**6), (500, 80)])
def test_one_block_of_all_rows_is_exact_and_takes_one_iteration(coarse, rank, block_size):
    problem = system(n=80, kernel=Matern12(lengthscale=0.5, outputscale=1.3))
    chosen = TwoLevelSchwarz(
        block_size=block_size, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=rank, coarse=coarse
    )
    operator = CountingOperator(problem.operator)
    np.testing.assert_allclose(applied(operator, chosen) @ matrix(operator), np.eye(80), atol=1e-9)
    solution = apviz.solve(problem, ConjugateGradient(preconditioner=chosen, tol=1e-8, max_epochs=10))
    assert solution.epochs == 1


def test_blocks_that_all_solve_on_all_rows_are_exact_too():
    counting = make(n=60)
    p = applied(counting, TwoLevelSchwarz(block_size=20, partition=PrincipalAxisTree(overlap=1000.0), coarse_rank=0))
    np.testing.assert_allclose(p @ matrix(counting), np.eye(60), atol=1e-9)


@pytest.mark.parametrize("partition", ["kd-tree", "principal-axis-tree"])
@pytest.mark.parametrize("overlap", [0.0, 2.0])
def test_permuting_the_rows_permutes_the_result(partition, overlap):
    x = np.random.default_rng(0).uniform(-1, 1, (160, 2))
    order = np.random.default_rng(1).permutation(160)
    chosen = TwoLevelSchwarz(block_size=20, partition=partitioner_named(partition, overlap=overlap), coarse_rank=0)
    plain, permuted = applied(make(x=x), chosen), applied(make(x=x[order]), chosen)
    np.testing.assert_allclose(permuted, plain[np.ix_(order, order)], atol=1e-10 * np.abs(plain).max())


def test_rescaling_inputs_and_lengthscale_together_changes_nothing():
    x = np.random.default_rng(0).uniform(-1, 1, (160, 2))
    chosen = TwoLevelSchwarz(block_size=20, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=10)
    plain = applied(make(x=x, kernel=Matern52(lengthscale=(0.5, 0.1))), chosen)
    scaled = applied(make(x=x * [4.0, 16.0], kernel=Matern52(lengthscale=(2.0, 1.6))), chosen)
    np.testing.assert_allclose(scaled, plain, atol=1e-9 * np.abs(plain).max())


def test_only_the_seed_determines_the_coarse_space():
    counting = make()
    first, again, other = (
        applied(
            counting,
            TwoLevelSchwarz(block_size=30, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=10, seed=seed),
        )
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again) and not np.allclose(first, other, rtol=1e-3)


def test_the_seed_determines_the_rows_of_shuffled_blocks():
    counting = make()
    chosen = [TwoLevelSchwarz(block_size=30, coarse_rank=0, partition="shuffled", seed=k) for k in (1, 2)]
    for seed, each in enumerate(chosen, start=1):
        made = partitioner_named("shuffled", seed)(counting.inputs, 30)
        rows = [made.order[made.solved(block)].numpy() for block in range(len(made))]
        np.testing.assert_allclose(applied(counting, each), schwarz(rows, matrix(counting)), atol=1e-8)


@EVERY_COARSE
def test_applying_it_does_not_modify_the_residual_and_accepts_any_number_of_columns(coarse):
    counting = make()
    apply = TwoLevelSchwarz(
        block_size=30, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=10, coarse=coarse
    ).build(counting)
    r = torch.tensor(np.random.default_rng(0).standard_normal((150, 5)), device=DEVICE)
    kept = r.clone()
    together = apply(r)
    assert torch.equal(r, kept)
    apart = torch.cat([apply(r[:, k : k + 1]) for k in range(5)], 1)
    torch.testing.assert_close(together, apart, rtol=1e-10, atol=1e-10)


@PROPERTY
@given(coarse=st.sampled_from(COARSE), rank=RANKS | st.just(0), **BLOCKS)
def test_the_blocks_the_factor_and_one_product_for_galerkin_are_counted_as_work(coarse, rank, block_size, overlap):
    counting, alone = make(), make()
    chosen = TwoLevelSchwarz(
        block_size=block_size, partition=PrincipalAxisTree(overlap=overlap), coarse_rank=rank, coarse=coarse
    )
    expected = sum(len(held) ** 2 for held in held_rows(counting, chosen))
    if rank:
        randomly_pivoted_cholesky(alone, rank, 0)
        assert alone.entries >= 150 * rank + rank**2  # columns of pivots and blocks of proposals
        expected += alone.entries + (150**2 if coarse == "galerkin" else 0)
    apply = chosen.build(counting)
    assert counting.entries == expected
    apply(torch.ones(150, 1, dtype=torch.float64, device=DEVICE))
    assert counting.entries == expected


PRECONDITIONERS = {
    "none": None,
    "pivoted": PivotedCholesky(rank=20),
    "randomly pivoted": RandomlyPivotedCholesky(rank=20),
    "one level": TwoLevelSchwarz(block_size=30, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=0),
    "low rank": TwoLevelSchwarz(block_size=30, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=20),
    "galerkin": TwoLevelSchwarz(
        block_size=30, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=20, coarse="galerkin"
    ),
    "k-d tree": TwoLevelSchwarz(block_size=30, partition=KDTree(overlap=0.5), coarse_rank=20),
    "principal axes": TwoLevelSchwarz(block_size=30, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=20),
    "rank above n": TwoLevelSchwarz(block_size=30, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=1000),
    "blocks of one row": TwoLevelSchwarz(block_size=1, partition=PrincipalAxisTree(overlap=0.0), coarse_rank=20),
}


@pytest.mark.parametrize("preconditioner", PRECONDITIONERS.values(), ids=PRECONDITIONERS.keys())
def test_cg_finds_the_direct_solution(preconditioner):
    problem = system()
    solution = apviz.solve(problem, ConjugateGradient(preconditioner=preconditioner, tol=1e-10, max_epochs=500))
    k = matrix(CountingOperator(problem.operator))
    assert solution.stop_reason is StopReason.CONVERGED
    np.testing.assert_allclose(solution.weights, np.linalg.solve(k, problem.b.numpy()), rtol=0, atol=1e-6)


@EVERY_COARSE
def test_duplicate_rows_are_handled(coarse):
    x = np.tile(np.random.default_rng(0).uniform(-1, 1, (15, 2)), (8, 1))
    problem = system(x=x)
    preconditioner = TwoLevelSchwarz(
        block_size=25, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=40, coarse=coarse
    )
    solution = apviz.solve(problem, ConjugateGradient(preconditioner=preconditioner, tol=1e-10, max_epochs=100))
    expected = np.linalg.solve(matrix(CountingOperator(problem.operator)), problem.b.numpy())
    np.testing.assert_allclose(solution.weights, expected, rtol=0, atol=1e-6)


@pytest.fixture(scope="module")
def photograph():
    """Return 2,000 pixels of a photograph with the hyperparameters of its card."""
    data = apviz.datasets.load("china", seed=0, n=2000)
    fitted = data.card.hyperparameters
    kernel = Matern52(lengthscale=fitted.lengthscale, outputscale=fitted.outputscale)
    return KernelSystem(data.train_x, data.train_y - fitted.mean, kernel, noise=fitted.noise, device=DEVICE)


def iterations(problem, preconditioner, tol=1e-3):
    solution = apviz.solve(problem, ConjugateGradient(preconditioner=preconditioner, tol=tol, max_epochs=500))
    assert solution.stop_reason is StopReason.CONVERGED
    return solution.epochs


@EVERY_COARSE
def test_on_a_photograph_it_halves_the_iterations_of_pivoted_cholesky_of_the_same_rank(photograph, coarse):
    assert 2 * iterations(
        photograph,
        TwoLevelSchwarz(block_size=50, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=50, coarse=coarse),
    ) < iterations(photograph, PivotedCholesky(rank=50))


def test_on_a_photograph_both_levels_and_overlap_reduce_iterations(photograph):
    both = iterations(
        photograph, TwoLevelSchwarz(block_size=50, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=50)
    )
    assert both < iterations(
        photograph, TwoLevelSchwarz(block_size=50, partition=PrincipalAxisTree(overlap=0.0), coarse_rank=50)
    )
    assert (
        both
        < iterations(
            photograph, TwoLevelSchwarz(block_size=50, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=0)
        )
        < iterations(photograph, None)
    )


@pytest.mark.parametrize(
    ("given_settings", "message"),
    [
        ({"block_size": 0}, "block_size must be a whole number, at least 1, got 0"),
        ({"coarse_rank": -1}, "coarse_rank must be a whole number, at least 0, got -1"),
        ({"block_size": "best"}, "block_size must be a whole number, at least 1, or 'auto', got 'best'"),
        ({"seed": -1}, "seed must be a whole number, at least 0, at most 4611686018427387904, got -1"),
        ({"coarse": "smooth"}, "coarse must be one of low-rank, galerkin.*, got 'smooth'"),
        ({"partition": "ball-tree"}, "partition must be one of sequential, .*, got 'ball-tree'"),
    ],
)
def test_an_error_about_a_setting_states_the_accepted_range(given_settings, message):
    with pytest.raises(ValueError, match=message):
        TwoLevelSchwarz(**given_settings)
