"""CG and alternating projection along the eigenvectors of K, against NumPy and SciPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
import torch

import apviz
from apviz.partitions import Sequential
from apviz.rkhs import Span, eigen_path, eigenvector_pair, trajectory

N, NOISE, LENGTHSCALE = 24, 0.05, 0.2


def dense() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, K and a random right-hand side."""
    draws = np.random.default_rng(5)
    x = np.sort(draws.uniform(0, 1, N))
    r = np.sqrt(5) * np.abs(x[:, None] - x[None]) / LENGTHSCALE
    return x, (1 + r + r**2 / 3) * np.exp(-r) + NOISE * np.eye(N), draws.standard_normal(N)


@pytest.fixture(scope="module")
def paths():
    x, _, b = dense()
    span = Span(x, apviz.Matern52(lengthscale=LENGTHSCALE), NOISE)
    ap = trajectory(span, b, block_size=5, steps=60)
    return eigen_path(trajectory(span, b, method="cg", steps=15)), eigen_path(ap)


def test_coordinates_describe_the_error_in_an_orthonormal_basis_of_h(paths):
    _, k, b = dense()
    values, vectors = scipy.linalg.eigh(k)
    values, vectors = values[::-1], vectors[:, ::-1]
    # φᵢ has the weights vᵢ/√λᵢ; ⟨φᵢ, φⱼ⟩ = φᵢᵀKφⱼ
    basis = vectors / np.sqrt(values)
    np.testing.assert_allclose(basis.T @ k @ basis, np.eye(N), atol=1e-10)
    for path in paths:
        for row, step in zip(path.coordinates, path.trajectory.steps, strict=True):
            inner = basis.T @ k @ (step.weights - scipy.linalg.solve(k, b))
            # the smallest λ are so close that rounding rotates their eigenvectors slightly
            np.testing.assert_allclose(np.abs(row), np.abs(inner), atol=1e-6)
        assert (path.coordinates[0] >= 0).all()


def test_squares_add_up_to_the_error_and_weighted_by_lambda_to_the_residual(paths):
    _, k, b = dense()
    for path in paths:
        for c, step in zip(path.coordinates, path.trajectory.steps, strict=True):
            gap = step.weights - scipy.linalg.solve(k, b)
            assert (c**2).sum() == pytest.approx(gap @ k @ gap, rel=1e-8, abs=1e-12)
            assert path.eigenvalues @ c**2 == pytest.approx(((b - k @ step.weights) ** 2).sum(), rel=1e-8, abs=1e-10)


def test_the_error_never_rises_and_the_residual_of_cg_rises_first(paths):
    for path in paths:
        assert (np.diff(path.error.sum(1)) <= 1e-12).all()
    residual = paths[0].residual.sum(1)
    assert residual[1] > residual[0]


def test_the_first_cg_step_changes_the_residual_by_the_moments_of_lambda(paths):
    _, k, b = dense()
    # steepest descent, step by step
    r = b - (b @ b) / (b @ k @ b) * (k @ b)
    growth = (r @ r) / (b @ b)
    assert paths[0].first_cg_step() == pytest.approx(growth, rel=1e-8)
    assert paths[0].residual[1].sum() / paths[0].residual[0].sum() == pytest.approx(growth, rel=1e-8)


def test_the_iterates_of_cg_equal_those_of_scipy(paths):
    _, k, b = dense()
    seen: list[np.ndarray] = []
    scipy.sparse.linalg.cg(k, b, rtol=0, maxiter=8, callback=lambda w: seen.append(w.copy()))
    for step, w in zip(paths[0].trajectory.steps[1:], seen, strict=False):
        np.testing.assert_allclose(step.weights, w, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("overlap", [0.0, 0.5])
@pytest.mark.parametrize("epochs", [1, 4])
def test_work_equals_that_of_the_solver(overlap, epochs):
    x, _, b = dense()
    kernel = apviz.Matern52(lengthscale=LENGTHSCALE)
    span = Span(x, kernel, NOISE)
    path = eigen_path(trajectory(span, b, block_size=5, overlap=overlap, steps=epochs * 5))
    system = apviz.KernelSystem(x, b, kernel, noise=NOISE, operator="dense", dtype=torch.float64, device="cpu")
    solver = apviz.AlternatingProjection(
        block_size=5, partition=Sequential(overlap=overlap), tol=1e-15, max_epochs=epochs
    )
    # a stopped solve ends with a pass, which measures its residual
    assert path.work[-1] + 1 == pytest.approx(apviz.solve(system, solver).work, rel=1e-12)
    cg = eigen_path(trajectory(span, b, method="cg", steps=epochs))
    gradient = apviz.ConjugateGradient(tol=1e-15, max_epochs=epochs)
    assert cg.work[-1] == epochs
    assert apviz.solve(system, gradient).work == epochs + 1


def test_a_step_counts_once_its_work_is_done(paths):
    cg, ap = paths
    assert [cg.at(work) for work in (0, 0.9, 1, 7.5)] == [0, 0, 1, 7]
    # factors of blocks of 5, 5, 5, 5 and 4 points, then columns of a block at a time
    assert ap.work[0] == pytest.approx((4 * 25 + 16) / N**2) and ap.at(0) == -1
    for number, work in enumerate(ap.work):
        assert ap.at(work) == number


def test_the_condition_numbers_equal_those_of_numpy(paths):
    _, k, _ = dense()
    assert paths[0].kappa == pytest.approx(np.linalg.cond(k), rel=1e-8)
    assert paths[0].kappa_prime() == paths[0].kappa
    largest = max(np.linalg.norm(k[i : i + 5, i : i + 5], 2) for i in range(0, N, 5))
    assert paths[1].kappa_prime() == pytest.approx(largest / np.linalg.eigvalsh(k)[0], rel=1e-8)


def test_no_error_is_above_its_bound(paths):
    for path in paths:
        bound = path.bound()
        assert np.isfinite(bound).all()
        assert (path.error.sum(1) <= bound * path.error[0].sum() * (1 + 1e-12)).all()


def test_for_other_rules_there_is_no_bound_for_every_step():
    x, _, b = dense()
    span = Span(x, apviz.Matern52(lengthscale=LENGTHSCALE), NOISE)
    for rule in ("cyclic", "random", "shuffled"):
        assert np.isnan(eigen_path(trajectory(span, b, block_size=5, rule=rule, steps=5)).bound()).all()


def test_planes_are_chosen_by_their_content(paths):
    cg, _ = paths
    error, residual = cg.error[0], cg.residual[0]
    assert eigenvector_pair(cg, "largest and smallest λ") == (0, N - 1)
    first, second = eigenvector_pair(cg, "largest λ and most error")
    assert first == 0 and error[second] == error[1:].max()
    for plane, share in (("the two with most error", error), ("the two with most residual", residual)):
        pair = eigenvector_pair(cg, plane)
        assert pair[0] < pair[1] and set(pair) == set(np.argsort(-share)[:2])
    with pytest.raises(ValueError, match="plane must be one of .*, got 'ellipse'"):
        eigenvector_pair(cg, "ellipse")
