"""The statements of docs/mathematics.md on dense matrices; updates and CG are written out in this file."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

import apviz

N, SIZE = 48, 8
BLOCKS = [np.arange(first, first + SIZE) for first in range(0, N, SIZE)]


@pytest.fixture(params=range(3))
def system(request):
    """Return K: (n, n) of a squared exponential with noise, by NumPy alone, and B: (n, 3)."""
    random = np.random.default_rng(request.param)
    x = random.uniform(size=(N, 2))
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    return np.exp(-squares / 0.1) + 0.05 * np.eye(N), random.standard_normal((N, 3))


def h(k, b, w):
    return 0.5 * np.trace(w.T @ k @ w) - np.trace(b.T @ w)


def squared(k, w):
    return np.trace(w.T @ k @ w)


def largest(k, r):
    return max(BLOCKS, key=lambda block: np.sum(r[block] ** 2))


def steepest(k, r):
    return max(BLOCKS, key=lambda block: np.trace(r[block].T @ np.linalg.solve(k[np.ix_(block, block)], r[block])))


def updates(k, b, choose, number):
    """Yield the states before and after every update, its block, and the decrease of h."""
    w, r = np.zeros_like(b), b.copy()
    for _ in range(number):
        block = choose(k, r)
        u = np.linalg.solve(k[np.ix_(block, block)], r[block])
        fall = 0.5 * np.trace(r[block].T @ u)
        before = (w.copy(), r.copy())
        w[block] += u
        r -= k[:, block] @ u
        yield before, (w.copy(), r.copy()), block, fall


def condition_numbers(k):
    low, high = np.linalg.eigvalsh(k)[[0, -1]]
    return high / low, max(np.linalg.eigvalsh(k[np.ix_(block, block)])[-1] for block in BLOCKS) / low


def test_proposition_1_the_shortest_function_through_the_data_has_the_weights_of_the_solve(system):
    k, b = system
    # functions over all points with the data at the first ones, and one more equation for each other point
    fewer = N - 5
    w = np.linalg.solve(k[:fewer, :fewer], b[:fewer])
    shortest = squared(k[:fewer, :fewer], w)
    assert shortest == pytest.approx(np.trace(b[:fewer].T @ w))
    for seed in range(20):
        values = np.vstack([b[:fewer], np.random.default_rng(seed).standard_normal((5, 3))])
        assert squared(k, np.linalg.solve(k, values)) > shortest


def test_lemmas_3_and_4_the_state_is_a_projected_residual_whose_norm_in_h_never_rises(system):
    k, b = system
    low, high = np.linalg.eigvalsh(k)[[0, -1]]
    solution, rises = np.linalg.solve(k, b), 0
    for (_, before), (w, r), block, _ in updates(k, b, largest, 40):
        np.testing.assert_allclose(r, b - k @ w, atol=1e-10)
        assert np.abs(r[block]).max() < 1e-10
        # functions as vectors with the same inner product: r − P r is the residual of a least-squares fit
        root = np.linalg.cholesky(k).T
        coordinates = root @ np.linalg.solve(k, before)
        fitted = root[:, block] @ np.linalg.lstsq(root[:, block], coordinates, rcond=None)[0]
        np.testing.assert_allclose(root @ np.linalg.solve(k, r), coordinates - fitted, atol=1e-8)
        error = squared(k, w - solution)
        assert error == pytest.approx(np.trace(r.T @ np.linalg.solve(k, r)))
        assert np.sum(r**2) / high <= error * (1 + 1e-9) and error <= np.sum(r**2) / low * (1 + 1e-9)
        assert error <= np.trace(before.T @ np.linalg.solve(k, before)) * (1 + 1e-12)
        rises += np.sum(r**2) > np.sum(before**2)
    assert rises  # the Euclidean norm does rise


def test_theorem_5_the_energies_that_fall_later_sum_to_the_error(system):
    k, b = system
    solution = np.linalg.solve(k, b)
    states, falls = [(np.zeros_like(b), b)], []
    for before, after, _, fall in updates(k, b, largest, 60):
        assert h(k, b, before[0]) - h(k, b, after[0]) == pytest.approx(fall, abs=1e-10)
        states.append(after)
        falls.append(fall)
    left = squared(k, states[-1][0] - solution)
    for j, (w, r) in enumerate(states):
        assert h(k, b, w) == pytest.approx(-0.5 * np.trace(w.T @ (b + r)))
        assert h(k, b, w) - h(k, b, solution) == pytest.approx(0.5 * squared(k, w - solution), abs=1e-9)
        assert squared(k, w - solution) == pytest.approx(2 * sum(falls[j:]) + left, rel=1e-9)
    any_u, block = np.random.default_rng(0).standard_normal((SIZE, 3)), BLOCKS[1]
    w, r = states[7]
    moved = w.copy()
    moved[block] += any_u
    fall = np.trace(r[block].T @ any_u) - 0.5 * squared(k[np.ix_(block, block)], any_u)
    assert h(k, b, w) - h(k, b, moved) == pytest.approx(fall)


def test_theorem_1_holds_at_every_update_and_the_guaranteed_decrease_is_less_than_the_decrease(system):
    k, b = system
    kappa, kappa_prime = condition_numbers(k)
    assert 1 <= kappa_prime <= kappa
    solution, m = np.linalg.solve(k, b), len(BLOCKS)
    block_high = kappa_prime * np.linalg.eigvalsh(k)[0]
    for j, ((_, before), (w, _), _, fall) in enumerate(updates(k, b, largest, 20 * m), start=1):
        assert fall >= np.sum(before**2) / (2 * m * block_high)
        assert squared(k, w - solution) <= np.exp(-j / (m * kappa_prime)) * squared(k, solution)


def test_for_random_blocks_theorem_1_holds_for_the_mean_over_all_choices(system):
    k, b = system
    _, kappa_prime = condition_numbers(k)
    solution, m = np.linalg.solve(k, b), len(BLOCKS)
    for (w, r), _, _, _ in updates(k, b, largest, 10):
        falls = [0.5 * np.trace(r[rows].T @ np.linalg.solve(k[np.ix_(rows, rows)], r[rows])) for rows in BLOCKS]
        left = 0.5 * squared(k, w - solution)
        assert left - np.mean(falls) <= (1 - 1 / (m * kappa_prime)) * left


def test_for_shuffled_blocks_the_mean_over_all_orders_of_an_epoch_satisfies_its_bound_from_any_state(system):
    k, b = system
    blocks = [np.arange(first, first + 12) for first in range(0, N, 12)]
    low = np.linalg.eigvalsh(k)[0]
    kappa_prime = max(np.linalg.eigvalsh(k[np.ix_(rows, rows)])[-1] for rows in blocks) / low
    orders = [[blocks[place] for place in order] for order in permutations(range(4))]
    # E ‖Tf‖² = fᵀ E[TᵀT] f: the largest eigenvalue bounds what an epoch leaves in expectation
    maps = [sweep(k, order) for order in orders]
    mean = np.mean([each.T @ each for each in maps], axis=0)
    bound = 1 - 1 / (4 * kappa_prime)
    assert np.linalg.eigvalsh(mean)[-1] <= bound <= np.exp(-1 / (4 * kappa_prime))
    # the same after t epochs, with independent orders
    root = np.linalg.cholesky(k).T
    start = root @ np.linalg.solve(k, b)
    expected = np.eye(N)
    for t in range(1, 6):
        expected = np.mean([each.T @ expected @ each for each in maps], axis=0)
        assert np.trace(start.T @ expected @ start) <= bound**t * np.sum(start**2)
    # a single run may leave more than random blocks do in expectation, but no update raises the error
    for order in orders:
        left = [np.eye(N)]
        for rows in order:
            basis = np.linalg.qr(root[:, rows])[0]
            left.append(left[-1] - basis @ (basis.T @ left[-1]))
        norms = [np.linalg.norm(each @ start) for each in left]
        assert all(after <= before * (1 + 1e-12) for before, after in pairwise(norms))


@pytest.mark.parametrize("c", [0.3, 0.9, 0.999])
def test_for_two_shuffled_blocks_of_one_row_the_mean_equals_the_formula_of_the_proof(c):
    k, r, left = np.array([[1, c], [c, 1]]), np.array([1.0, -1.0]), {1: [], 2: []}
    for order in ((0, 1), (1, 0)):
        now = r
        for done, j in enumerate(order, start=1):
            now = now - k[:, j] * now[j]
            left[done].append(now @ np.linalg.solve(k, now) / (r @ np.linalg.solve(k, r)))
    bound = 1 - (1 - c) / 2  # m = 2, and κ′ = 1/(1 − c)
    assert np.mean(left[1]) == pytest.approx(bound)  # for the uniform draw the bound is an equality here
    assert np.mean(left[2]) == pytest.approx(c**2 * (1 + c) / 2) and np.mean(left[2]) <= bound


def test_theorem_1_holds_with_overlap_for_the_solved_sets(system):
    k, b = system
    solved = [np.arange(max(0, block[0] - 3), min(N, block[-1] + 4)) for block in BLOCKS]
    high = max(np.linalg.eigvalsh(k[np.ix_(rows, rows)])[-1] for rows in solved)
    kappa_prime = high / np.linalg.eigvalsh(k)[0]
    w, r, solution = np.zeros_like(b), b.copy(), np.linalg.solve(k, b)
    for j in range(1, 60):
        rows = solved[max(range(len(BLOCKS)), key=lambda place: np.sum(r[BLOCKS[place]] ** 2))]
        u = np.linalg.solve(k[np.ix_(rows, rows)], r[rows])
        w[rows] += u
        r -= k[:, rows] @ u
        assert squared(k, w - solution) <= np.exp(-j / (len(BLOCKS) * kappa_prime)) * squared(k, solution)


def test_proposition_6_bounds_the_error_by_mu_which_is_at_least_1_over_kappa_prime(system):
    k, b = system
    diagonal = np.zeros_like(k)
    for block in BLOCKS:
        diagonal[np.ix_(block, block)] = k[np.ix_(block, block)]
    mu = np.linalg.eigvals(np.linalg.solve(diagonal, k)).real.min()
    assert mu >= 1 / condition_numbers(k)[1]
    solution, m = np.linalg.solve(k, b), len(BLOCKS)
    for j, (_, (w, _), _, _) in enumerate(updates(k, b, steepest, 10 * m), start=1):
        assert squared(k, w - solution) <= np.exp(-j * mu / m) * squared(k, solution) * (1 + 1e-9) + 1e-18


def sweep(k, blocks):
    """Return the matrix of one sweep of updates over the blocks, in orthonormal coordinates."""
    root = np.linalg.cholesky(k).T  # column i is k(xᵢ, ·)
    matrix = np.eye(len(k))
    for block in blocks:
        basis = np.linalg.qr(root[:, block])[0]
        matrix = matrix - basis @ (basis.T @ matrix)
    return matrix


def test_theorem_7_a_sweep_has_norm_below_1_in_any_order(system):
    k, _ = system
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(BLOCKS))
        assert np.linalg.norm(sweep(k, [BLOCKS[place] for place in order]), 2) < 1


@pytest.mark.parametrize("first", [8, 20, 30])
def test_theorem_8_k_sweeps_over_two_blocks_leave_c_to_the_power_2k_minus_1(system, first):
    k, _ = system
    i, j = np.arange(first), np.arange(first, N)
    product = np.linalg.solve(k[np.ix_(i, i)], k[np.ix_(i, j)]) @ np.linalg.solve(k[np.ix_(j, j)], k[np.ix_(j, i)])
    c = np.sqrt(np.linalg.eigvals(product).real.max())
    assert c < 1
    root = np.linalg.cholesky(k).T
    bases = (np.linalg.qr(root[:, rows])[0] for rows in (i, j))
    assert np.linalg.svd(next(bases).T @ next(bases), compute_uv=False)[0] == pytest.approx(c, rel=1e-8)
    once = sweep(k, [i, j])
    for count in (1, 2, 5):
        assert np.linalg.norm(np.linalg.matrix_power(once, count), 2) == pytest.approx(c ** (2 * count - 1), rel=1e-7)


def test_cg_minimises_the_error_over_its_krylov_space_within_the_chebyshev_bound(system):
    k, b = system
    b = b[:, 0]
    kappa, solution = condition_numbers(k)[0], np.linalg.solve(k, b)
    w, r = np.zeros(N), b.copy()
    p = r.copy()
    for t in range(1, 9):
        kp = k @ p
        alpha = r @ r / (p @ kp)
        w, before, r = w + alpha * p, r @ r, r - alpha * kp
        p = r + r @ r / before * p
        if t == 1:
            cosine = b @ (k @ b) / np.linalg.norm(b) / np.linalg.norm(k @ b)
            assert np.linalg.norm(r) / np.linalg.norm(b) == pytest.approx(np.tan(np.arccos(cosine)))
        error = squared(k, (w - solution)[:, None])
        # Σ (β²/λ) p(λ)², p(0) = 1: a least-squares problem in the other coefficients of p
        values, vectors = np.linalg.eigh(k)
        weights = vectors.T @ b / np.sqrt(values)
        powers = weights[:, None] * (values[:, None] / values[-1]) ** np.arange(1, t + 1)
        coefficients = np.linalg.lstsq(powers, -weights, rcond=None)[0]
        assert error == pytest.approx(np.sum((weights + powers @ coefficients) ** 2), rel=1e-5)
        bound = 4 * ((np.sqrt(kappa) - 1) / (np.sqrt(kappa) + 1)) ** (2 * t)
        assert error <= bound * squared(k, solution[:, None])


def test_apviz_makes_the_same_updates_and_tracks_the_same_energies():
    x = torch.rand(N, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    b = torch.sin(7 * x)
    system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.3), noise=0.05, device="cpu")
    recorder = apviz.Recorder()
    apviz.solve(system, apviz.AlternatingProjection(block_size=SIZE, tol=1e-6), hooks=[recorder])
    falls = recorder.trace["update"]["energy_decrease"].values
    k = system.kernel(x).numpy() + 0.05 * np.eye(N)
    expected = [fall for *_, fall in updates(k, b.numpy(), largest, len(falls))]
    np.testing.assert_allclose(falls, expected, rtol=1e-5, atol=1e-12)
