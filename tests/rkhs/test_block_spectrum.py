"""Eigenvalues of K and its blocks, checked by SciPy in float64, and Theorem 1, checked by a solve."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg

import apviz
from apviz.rkhs import Span, block_spectrum, blocks_of, compare_with_bound, lambda_max_by_size


def plane(n: int = 60, noise: float = 0.05) -> tuple[Span, np.ndarray, np.ndarray]:
    """Return points in a square, K by the formula of the kernel, and data."""
    draws = np.random.default_rng(1)
    x = draws.uniform(-1, 1, (n, 2))
    r = np.sqrt(5) * np.sqrt(((x[:, None] - x[None]) ** 2).sum(2)) / 0.3
    k = (1 + r + r**2 / 3) * np.exp(-r) + noise * np.eye(n)
    return (
        Span(x, apviz.Matern52(lengthscale=0.3), noise),
        k,
        np.sin(4 * x[:, 0]) * x[:, 1] + 0.1 * draws.standard_normal(n),
    )


@pytest.mark.parametrize("partition", ["sequential", "kd-tree"])
def test_kappa_and_kappa_prime_agree_with_dense_eigenvalues(partition):
    span, k, _ = plane()
    blocks = blocks_of(span, 15, partition)
    assert sorted(row for block in blocks for row in block) == list(range(60)) and {len(b) for b in blocks} == {15}
    found = block_spectrum(span, blocks)
    values = scipy.linalg.eigvalsh(k)
    largest = max(scipy.linalg.eigvalsh(k[np.ix_(rows, rows)])[-1] for rows in blocks)
    np.testing.assert_allclose(found.eigenvalues, values[::-1], rtol=1e-8)
    assert found.lambda_max_block == pytest.approx(largest, rel=1e-10)
    assert found.kappa == pytest.approx(values[-1] / values[0], rel=1e-8)
    assert found.kappa_prime == pytest.approx(largest / values[0], rel=1e-8)


@pytest.mark.parametrize("partition", ["sequential", "kd-tree"])
def test_the_rate_with_couplings_is_a_generalised_eigenvalue_and_at_most_kappa_prime(partition):
    span, k, _ = plane()
    blocks = blocks_of(span, 15, partition)
    d = np.zeros_like(k)
    for rows in blocks:
        d[np.ix_(rows, rows)] = k[np.ix_(rows, rows)]
    found = block_spectrum(span, blocks)
    assert found.coupling == pytest.approx(scipy.linalg.eigh(k, d, eigvals_only=True)[0], rel=1e-8)
    assert 1 <= found.kappa_coupled <= found.kappa_prime <= found.kappa


def test_eigenvalues_of_a_block_interlace_with_those_of_k():
    span, _, _ = plane()
    found = block_spectrum(span, blocks_of(span, 12, "kd-tree"))
    for block in found.blocks:
        assert (block <= found.eigenvalues[:12] * (1 + 1e-12)).all()
        assert (block >= found.eigenvalues[-12:] * (1 - 1e-12)).all()


def test_uncorrelated_blocks_have_a_coupling_of_one():
    x = np.concatenate([np.linspace(0, 1, 6), np.linspace(1000, 1001, 6)])
    found = block_spectrum(Span(x, apviz.RBF(lengthscale=0.3), 0.1), [range(6), range(6, 12)])
    assert found.coupling == pytest.approx(1, abs=1e-12)


def test_the_largest_block_eigenvalue_grows_from_one_point_to_all():
    span, k, _ = plane()
    for partition in ("sequential", "kd-tree"):
        # if sizes are n halved repeatedly, every block of twice the size contains two smaller ones
        found = lambda_max_by_size(span, [1, 15, 30, 60], partition)
        assert (np.diff(found) > 0).all()
        assert found[0] == pytest.approx(1.05, rel=1e-10)
        assert found[-1] == pytest.approx(scipy.linalg.eigvalsh(k)[-1], rel=1e-10)


def test_the_blocks_equal_those_of_a_solve():
    span, _, b = plane()
    assert compare_with_bound(span, b, block_size=15, partition="kd-tree", epochs=1).trajectory.blocks == blocks_of(
        span, 15, "kd-tree"
    )


@pytest.mark.parametrize("partition", ["sequential", "kd-tree"])
@pytest.mark.parametrize("noise", [0.05, 2.0])
def test_the_measured_error_is_never_above_the_bound_of_theorem_1(partition, noise):
    span, k, b = plane(noise=noise)
    found = compare_with_bound(span, b, block_size=10, partition=partition, epochs=8)
    assert (found.errors <= found.bound * (1 + 1e-9)).all()
    np.testing.assert_allclose(found.epochs, np.arange(len(found.epochs)) / 6)
    np.testing.assert_allclose(found.bound, np.exp(-found.epochs / found.spectrum.kappa_prime))
    goal = np.linalg.solve(k, b)
    for number in (0, 7, 20):
        gap = found.trajectory.steps[number].weights - goal
        assert found.errors[number] == pytest.approx(gap @ k @ gap / (b @ goal), rel=1e-6)


def test_epochs_to_a_share_count_up_to_the_first_update_below_it():
    span, _, b = plane(noise=1.0)
    found = compare_with_bound(span, b, block_size=10, partition="sequential", epochs=6)
    at = round(6 * found.epochs_to(1e-2))
    assert found.errors[at] <= 1e-2 < found.errors[at - 1]
    assert found.epochs_to(0.0) == math.inf and found.epochs_to(1.0) == 0
    assert found.bound_epochs_to(1e-2) == pytest.approx(found.spectrum.kappa_prime * np.log(100), rel=1e-12)
    assert found.epochs_to(1e-2) <= found.bound_epochs_to(1e-2)


def test_an_unknown_partition_raises():
    with pytest.raises(ValueError, match="partition must be one of sequential, shuffled, kd-tree"):
        blocks_of(plane()[0], 10, "kd")
