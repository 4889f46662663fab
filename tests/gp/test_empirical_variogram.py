"""Empirical variograms against sums over pairs and, if it is installed, GSTools."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import apviz
from apviz.gp import empirical_variogram

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, (60, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(60)
LIMIT, BINS = 6.0, 4


def by_pairs() -> list[list[tuple[float, float]]]:
    """Return distance and difference of every pair, by bin."""
    found: list[list[tuple[float, float]]] = [[] for _ in range(BINS)]
    for i, j in itertools.combinations(range(60), 2):
        distance = float(np.hypot(*(X[i] - X[j])))
        if distance <= LIMIT:
            found[int(distance // (LIMIT / BINS))].append((distance, abs(Y[i] - Y[j])))
    return found


@pytest.mark.parametrize("estimator", ["matheron", "cressie"])
def test_it_is_the_mean_over_all_pairs_of_a_bin(estimator):
    found = empirical_variogram(X, Y, bins=BINS, max_distance=LIMIT, estimator=estimator)
    for place, pairs in enumerate(by_pairs()):
        n, differences = len(pairs), np.array([difference for _, difference in pairs])
        robust = np.mean(np.sqrt(differences)) ** 4 / (0.457 + 0.494 / n + 0.045 / n**2) / 2
        expected = np.mean(differences**2) / 2 if estimator == "matheron" else robust
        assert found.semivariances[place] == pytest.approx(expected, rel=1e-12)
        assert found.distances[place] == pytest.approx(np.mean([distance for distance, _ in pairs]), rel=1e-12)
        assert found.counts[place] == n
    assert found.sentence == "all 1,770 pairs"


@pytest.mark.parametrize("estimator", ["matheron", "cressie"])
def test_gstools_finds_the_same(estimator):
    gstools = pytest.importorskip("gstools")
    ours = empirical_variogram(X, Y, bins=BINS, max_distance=LIMIT, estimator=estimator)
    edges = np.linspace(0, LIMIT, BINS + 1)
    _, theirs, counts = gstools.vario_estimate(X.T, Y, edges, estimator=estimator, return_counts=True)
    np.testing.assert_allclose(ours.semivariances, theirs, rtol=1e-9)
    np.testing.assert_array_equal(ours.counts, counts)


def test_random_pairs_estimate_what_all_pairs_give():
    every = empirical_variogram(X, Y, bins=BINS, max_distance=LIMIT)
    some = empirical_variogram(X, Y, bins=BINS, max_distance=LIMIT, max_pairs=1_769)
    many = empirical_variogram(np.tile(X, (20, 1)), np.tile(Y, 20), bins=BINS, max_distance=LIMIT, max_pairs=200_000)
    assert some.sentence == "1,769 random pairs of 1,770"
    assert many.sentence == "200,000 random pairs of 719,400"
    # the copies of a row add pairs at distance 0 to the first bin
    np.testing.assert_allclose(many.semivariances[1:], every.semivariances[1:], rtol=0.03)


def test_without_a_largest_distance_it_is_a_third_of_the_diagonal():
    diagonal = float(np.linalg.norm(np.ptp(X, axis=0)))
    found = empirical_variogram(X, Y, bins=3)
    np.testing.assert_array_equal(found.counts, empirical_variogram(X, Y, bins=3, max_distance=diagonal / 3).counts)


def test_isotropic_inputs_have_the_distances_of_the_first_axis():
    model = apviz.Variogram("gaussian", sill=1.0, range=3.0, convention="effective", anis=0.5, angles=90.0)
    moved = model.isotropic([[0.0, 0.0], [0.0, 3.0], [1.5, 0.0]])
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), [0, 3, 3], rtol=1e-12)
    with pytest.raises(ValueError, match=r"x must have shape \(m, 2\), got \(3, 3\)"):
        model.isotropic(np.ones((3, 3)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bins": 0}, "bins must be a whole number, at least 1"),
        ({"max_distance": -1.0}, "max_distance must be finite and positive"),
        ({"max_distance": 1e-9}, "no pair of rows is within the largest distance"),
        ({"estimator": "dowd"}, "estimator must be one of matheron, cressie"),
        ({"max_pairs": 0}, "max_pairs must be a whole number"),
        ({"y": Y[:-1]}, r"x must have shape \(n, d\) and y \(n,\), got \(60, 2\) and \(59,\)"),
        ({"x": np.full_like(X, np.nan)}, "x has .*NaN"),
    ],
)
def test_invalid_settings_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        empirical_variogram(**({"x": X, "y": Y} | change))
