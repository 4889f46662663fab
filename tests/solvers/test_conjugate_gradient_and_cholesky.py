"""Conjugate gradients against linear_operator, and the direct solve against SciPy."""

import math
import warnings

import linear_operator.utils
import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import apviz
from tests.device import DEVICE
from tests.solvers.oracle import KERNEL_CLASSES, Watch, problem

few = settings(max_examples=30, deadline=None)
systems = st.fixed_dictionaries(
    {
        "n": st.integers(12, 40),
        "d": st.integers(1, 3),
        "rhs": st.sampled_from((None, 1, 3)),
        "seed": st.integers(0, 2**16),
        "kernel": st.sampled_from(KERNEL_CLASSES),
        "noise": st.sampled_from((0.1, 0.5)),
    }
)


def pivoted_cholesky(k, rank):
    """Factor a dense matrix by Algorithm 1 of Harbrecht, Peters & Schneider (2012)."""
    left, L = k.diagonal().copy(), np.zeros((len(k), rank))
    for j in range(rank):
        pivot = int(np.argmax(left))
        L[:, j] = (k[:, pivot] - L[:, :j] @ L[pivot, :j]) / np.sqrt(left[pivot])
        left -= L[:, j] ** 2
        left[pivot] = 0
    return L


def theirs(p, iterations, preconditioner=None, tolerance=0.0):
    """Return the weights by linear_operator's CG, and its number of products with K."""
    k, products = torch.tensor(p.K), []

    def matmul(v):
        products.append(v)
        return k @ v

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when it stops at its cap
        w = linear_operator.utils.linear_cg(
            matmul, torch.tensor(p.B), max_iter=iterations, max_tridiag_iter=0, tolerance=tolerance,
            preconditioner=preconditioner, eps=1e-300, stop_updating_after=1e-300,
        )  # fmt: skip
    return w.numpy(), len(products) - 1  # the first product is that of the initial guess


def watched(p, solver, **start):
    seen = Watch()
    seen.solution = apviz.solve(p.system, solver, hooks=[seen], **start)
    return seen


@few
@given(system=systems, rank=st.sampled_from((None, 1, 5)))
def test_the_iterates_equal_those_of_linear_operator(system, rank):
    p = problem(**{**system, "noise": 1.0})  # if K is worse conditioned, two roundings of CG separate
    preconditioner = inverse = None
    if rank:
        L = pivoted_cholesky(p.K - p.system.noise * np.eye(len(p.K)), rank)
        factor = scipy.linalg.cho_factor(L @ L.T + p.system.noise * np.eye(len(p.K)))
        preconditioner = apviz.PivotedCholesky(rank=rank)
        inverse = lambda r: torch.tensor(scipy.linalg.cho_solve(factor, r.numpy()))  # noqa: E731
    seen = watched(p, apviz.ConjugateGradient(preconditioner=preconditioner, tol=1e-300, max_epochs=6))
    for k in range(1, 7):
        w, _ = theirs(p, k, inverse)
        np.testing.assert_allclose(seen.W[k], w, atol=1e-7 * np.abs(w).max())
        assert seen.epochs[k].residual == pytest.approx(p.residual(w), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_with_at_least_eleven_iterations_it_stops_when_gpytorch_stops(seed):
    p = problem(n=80, d=3, seed=seed, noise=0.5)
    # up to the twelfth, two roundings of CG are 1e-4 apart; later 10%, and it depends on the processor
    between = math.sqrt(p.residual(theirs(p, 11)[0]) * p.residual(theirs(p, 12)[0]))
    for tol in (1.0, 1e-1, 1e-2, between):
        solution = apviz.solve(p.system, apviz.ConjugateGradient(tol=tol, min_epochs=11))
        _, iterations = theirs(p, 1000, tolerance=tol)
        assert solution.converged and solution.epochs == iterations >= 11


def test_the_minimum_number_of_iterations_is_done_even_if_the_first_one_suffices():
    p = problem(noise=100.0)
    assert apviz.solve(p.system, apviz.ConjugateGradient(tol=0.1)).epochs < 5
    assert apviz.solve(p.system, apviz.ConjugateGradient(tol=0.1, min_epochs=7)).epochs == 7


@few
@given(system=systems)
def test_the_residual_is_b_minus_kw_the_energy_is_h_and_the_error_never_rises(system):
    p = problem(**system)
    seen = watched(p, apviz.ConjugateGradient(tol=1e-300, max_epochs=10), initial_weights=torch.ones_like(p.system.b))
    energies, errors = [p.h(w) for w in seen.W], np.array([p.squared_error(w) for w in seen.W])
    for w, r in zip(seen.W, seen.R, strict=True):
        np.testing.assert_allclose(r, p.B - p.K @ w, atol=1e-9)
    np.testing.assert_allclose([e.energy for e in seen.epochs], energies, atol=1e-9 * max(map(abs, energies)))
    assert (np.diff(errors) <= 1e-11 * errors[0]).all()


@few
@given(system=systems)
def test_in_float64_cg_converges_within_n_iterations(system):
    p = problem(**{**system, "noise": 0.5})
    solution = apviz.solve(p.system, apviz.ConjugateGradient(tol=1e-8, max_epochs=system["n"]))
    # rounding loses some conjugacy in the textbook's recurrence and in ours: a little more residual may remain
    left = textbook_residual(p.K, p.B)
    assert solution.converged or left > 1e-8
    assert p.residual(solution.weights) < max(1.01e-8, 2 * left)


def textbook_residual(K: np.ndarray, B: np.ndarray) -> float:
    """Return the mean of ‖B − KW‖/‖B‖ after n iterations of Hestenes and Stiefel's recurrence in float64."""
    left = []
    for b in B.reshape(len(K), -1).T:
        w, r, d = np.zeros_like(b), b.copy(), b.copy()
        for _ in range(len(K)):
            if np.linalg.norm(r) < 1e-15 * np.linalg.norm(b):
                break
            step = (r @ r) / (d @ K @ d)
            w, after = w + step * d, r - step * (K @ d)
            d, r = after + (after @ after) / (r @ r) * d, after
        left.append(np.linalg.norm(b - K @ w) / np.linalg.norm(b))
    return float(np.mean(left))


@pytest.mark.parametrize("distinct", [1, 2, 3])
def test_cg_converges_in_as_many_iterations_as_k_has_distinct_eigenvalues(distinct):
    # far-apart clusters of 1, 2, ..., points that coincide: eigenvalues noise + size, and noise
    x = np.concatenate([np.full((1, 1), 100.0 * i) for i in range(5)])
    x = np.concatenate([x] + [np.full((size, 1), 1000.0 * size) for size in range(2, distinct + 1)] * (distinct > 1))
    p = problem(n=len(x), x=x, rhs=1, noise=0.5, kernel="RBF")
    eigenvalues = len(set(np.linalg.eigvalsh(p.K).round(9)))
    solution = apviz.solve(p.system, apviz.ConjugateGradient(tol=1e-10))
    assert solution.converged and solution.epochs == eigenvalues


@pytest.mark.parametrize(
    "solver", [apviz.ConjugateGradient(tol=1e-10), apviz.AlternatingProjection(block_size=7, tol=1e-10)]
)
def test_a_zero_right_hand_side_has_zero_weights_and_does_not_change_the_others(solver):
    b = np.random.default_rng(0).standard_normal((30, 3))
    b[:, 1] = 0
    p = problem(b=b, noise=1.0, lengthscale=0.3)
    solution = apviz.solve(p.system, solver)
    assert solution.converged and float(solution.residual_per_rhs[1]) == 0
    np.testing.assert_array_equal(solution.weights[:, 1], 0)
    np.testing.assert_allclose(solution.weights, p.W, atol=1e-8)


@pytest.mark.parametrize(
    "solver", [apviz.ConjugateGradient(), apviz.AlternatingProjection(block_size=7), apviz.Cholesky()]
)
def test_if_all_right_hand_sides_are_zero_the_solution_is_zero(solver):
    solution = apviz.solve(problem(b=np.zeros((30, 2))).system, solver)
    assert solution.converged and solution.residual == 0
    np.testing.assert_array_equal(solution.weights, 0)


@pytest.mark.parametrize("preconditioner", [None, apviz.PivotedCholesky(rank=5)])
def test_a_column_that_is_already_solved_stays_solved(preconditioner):
    p = problem(rhs=3)
    start = torch.zeros_like(p.system.b)
    start[:, 2] = torch.tensor(p.W[:, 2])
    solution = apviz.solve(
        p.system, apviz.ConjugateGradient(preconditioner=preconditioner, tol=1e-11), initial_weights=start
    )
    assert solution.converged
    np.testing.assert_allclose(solution.weights, p.W, atol=1e-8)


@few
@given(system=systems)
def test_cholesky_equals_scipys_cho_solve(system):
    p = problem(**system)
    solution = apviz.solve(p.system, apviz.Cholesky(tol=1e-9))
    assert solution.converged and solution.epochs == 1
    np.testing.assert_allclose(solution.weights.reshape(p.W.shape), p.W, atol=1e-9 * (1 + np.abs(p.W).max()))
    assert solution.energy == pytest.approx(p.h(p.W), rel=1e-9)


def test_a_matrix_that_cannot_fit_the_memory_is_refused_before_any_is_allocated():
    from apviz.operators import TiledOperator

    n = 1_000_000
    x = torch.linspace(0, 1, n)[:, None]
    operator = TiledOperator(x, apviz.RBF(lengthscale=0.1), 0.1, compiled=False)
    system = apviz.KernelSystem(
        x, torch.ones(n), apviz.RBF(lengthscale=0.1), noise=0.1, operator=operator, device=DEVICE
    )
    with pytest.raises(MemoryError, match=r"n = 1000000 rows needs \d+\.\d GiB, .* are free; use an iterative solver"):
        apviz.solve(system, apviz.Cholesky())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: apviz.ConjugateGradient(tol=0), "tol must be a positive relative residual.* got 0"),
        (lambda: apviz.ConjugateGradient(tol=np.nan), "tol must be a positive relative residual.* got nan"),
        (lambda: apviz.ConjugateGradient(max_epochs=0), "max_epochs must be .*at least 1, got 0"),
        (lambda: apviz.ConjugateGradient(min_epochs=1001), "min_epochs must be .* at most 1000, got 1001"),
        (lambda: apviz.ConjugateGradient(check_every=0), "check_every must be .*at least 1, got 0"),
        (lambda: apviz.PivotedCholesky(rank=0), "rank must be .*at least 1.* got 0"),
        (lambda: apviz.PivotedCholesky(rank=2.5), "rank must be a whole number.* got 2.5"),
        (lambda: apviz.Cholesky(tol=0), "tol must be a positive relative residual.* got 0"),
        (lambda: apviz.Cholesky(tol=np.nan), "tol must be a positive relative residual.* got nan"),
    ],
)
def test_an_error_about_a_setting_states_its_value_and_the_accepted_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()
