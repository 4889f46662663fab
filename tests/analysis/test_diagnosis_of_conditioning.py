"""Diagnoses of ill-conditioned systems, and the bounds on iterations in them."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.analysis.diagnosis import Limit, diagnose, evidence
from apviz.partitions import KDTree
from tests.analysis.problems import N, dense_matrix, recorded, system


def iterations_of_textbook_cg(matrix, b, tol, orthogonal=False):
    """Count iterations of Hestenes & Stiefel's CG from 0 until ‖r‖ < tol·‖b‖, optionally orthogonalising residuals."""
    r = p = b
    former = []
    for iteration in range(1, 1000):
        step = r @ r / (p @ matrix @ p)
        former.append(r / np.linalg.norm(r))
        previous, r = r, r - step * (matrix @ p)
        for each in former * 2 if orthogonal else ():
            r = r - (each @ r) * each
        if np.linalg.norm(r) < tol * np.linalg.norm(b):
            return iteration
        p = r + r @ r / (previous @ previous) * p
    raise AssertionError("CG did not converge")


def test_plain_cg_on_an_ill_conditioned_system_should_let_apviz_choose():
    trace = recorded(system(0.01), apviz.ConjugateGradient(tol=1e-3))
    found = diagnose(trace)
    kappa = float(trace["spectrum"]["kappa"])
    assert found.limit is Limit.CONDITIONING and found.change == {"solver": "auto"}
    # it is exact for so few rows
    assert f"κ = {kappa:.3g}" in found.evidence


@pytest.mark.parametrize(
    ("lengthscale", "noise", "tol", "power"),
    [(0.3, 0.01, 1e-3, 0.0), (0.1, 0.01, 0.01, 0.5), (0.05, 3e-3, 0.5, 0.75), (0.1, 2e-3, 0.5, 0.75)],
)
def test_cg_never_takes_more_iterations_than_the_bound_in_the_diagnosis(lengthscale, noise, tol, power):
    x = np.random.default_rng(0).uniform(-1, 1, (N, 2))
    matrix = dense_matrix(x, lengthscale, noise)
    values, vectors = np.linalg.eigh(matrix)
    # the more of b lies along small eigenvalues, the slower is its residual compared to its error in the K-norm
    b = vectors @ (values**-power * np.random.default_rng(1).standard_normal(N))
    b /= b.std()
    problem = apviz.KernelSystem(
        x, b, apviz.Matern52(lengthscale=lengthscale), noise=noise, dtype=torch.float64, device="cpu"
    )
    trace = recorded(problem, apviz.ConjugateGradient(tol=tol))
    found = diagnose(trace)
    assert found.limit is Limit.CONDITIONING and trace.converged
    most = int(re.search(r"up to ([\d,]+) iterations", found.evidence)[1].replace(",", ""))
    taken = iterations_of_textbook_cg(matrix, b, tol)
    assert taken <= most and int(trace["epoch"]["epoch"][-1]) <= most
    root = math.sqrt(values[-1] / values[0])
    assert most == pytest.approx(0.5 * root * math.log(2 * root / tol), rel=0.02, abs=1)
    if tol == 0.5:  # then a bound on the error in the K-norm does not bound the residual
        assert taken > 1.1 * 0.5 * root * math.log(2 / tol)


def test_a_coarse_space_is_advised_for_slow_overlapping_blocks():
    slow = apviz.AlternatingProjection(block_size=25, partition=KDTree(overlap=0.2), tol=1e-6, max_epochs=60)
    found = diagnose(recorded(system(0.01, 1.0), slow))
    assert found.limit is Limit.CONDITIONING and not found.change
    assert "two-level Schwarz" in found.advice


def test_cg_that_converges_in_thirty_iterations_at_a_small_kappa_is_not_ill_conditioned():
    problem = system(0.1, 0.08)
    trace = recorded(problem, apviz.ConjugateGradient(tol=1e-3))
    values = np.linalg.eigvalsh(dense_matrix(problem.x.numpy(), 0.08, 0.1))
    assert values[-1] / values[0] < 200 and 20 < float(trace["epoch"]["work"][-1]) < 60
    found = diagnose(trace)
    assert found.limit is Limit.NOTHING and f"κ = {values[-1] / values[0]:.3g}" in found.evidence


def test_a_method_of_another_kind_that_took_far_less_is_named_with_its_work():
    problem = system(0.01, 2.0, apviz.RBF)
    slow = recorded(problem, apviz.AlternatingProjection(block_size=30, partition="kd-tree", max_epochs=100))
    quick = recorded(problem, apviz.ConjugateGradient())
    ends = [float(trace["epoch"]["work"][-1]) for trace in (slow, quick)]
    assert not slow.converged and ends[1] < 20
    found = diagnose(slow, [slow, quick])
    assert found.limit is Limit.METHOD and found.change == {"solver": "auto"}
    assert f"CG converged on the same system after {ends[1]:.3g} work" in found.evidence and "Use CG" in found.advice
    # also without a measurement, from the eigenvalues
    alone = diagnose(slow)
    assert alone.limit is Limit.METHOD
    most = int(re.search(r"CG needs up to (\d+) iterations", alone.evidence)[1])
    assert int(quick["epoch"]["epoch"][-1]) <= most <= 40


@pytest.mark.parametrize("large", [0, 3, 12])
@pytest.mark.parametrize("seed", range(3))
def test_cg_takes_no_more_iterations_than_the_bound_by_its_large_eigenvalues(large, seed):
    """The matrix has a few eigenvalues far above the rest; residuals are kept orthogonal, like exact ones."""
    rng = np.random.default_rng(seed)
    values = np.sort(np.concatenate([rng.uniform(1, 30, 100 - large), rng.uniform(1e3, 1e5, large)]))[::-1]
    vectors = np.linalg.qr(rng.standard_normal((100, 100)))[0]
    matrix = vectors * values @ vectors.T
    trace = recorded(system(n=50), apviz.ConjugateGradient(tol=1e-3))
    group = trace["spectrum"].assign(kappa=values[0] / values[-1], lambda_min=values[-1])
    trace.tree["spectrum"] = group.assign_attrs(
        leading_ranks=list(range(0, 100, 3)), leading_eigenvalues=values[::3].tolist()
    )
    most, rank = evidence.iterations_of_cg(trace)
    b = rng.standard_normal(100)
    taken = iterations_of_textbook_cg(matrix, b, 1e-3, orthogonal=True)
    assert taken <= most and rank == large
    # rounding adds little
    assert iterations_of_textbook_cg(matrix, b, 1e-3) <= 1.5 * most


def test_noise_is_not_blamed_if_more_noise_changes_nothing():
    """With such a rough kernel, λmin is far above σ²."""
    problem = system(1e-4, 3.0, apviz.Matern12)
    trace = recorded(problem, apviz.ConjugateGradient(tol=1e-8))
    values = np.linalg.eigvalsh(np.exp(-cdist(problem.x, problem.x) / 3.0) + 1e-4 * np.eye(N))
    assert values[-1] / values[0] > 500 and values[0] > 1.5e-4
    blamed = (values[0] + 1e-3) / values[0] >= 3
    assert (diagnose(trace).limit is Limit.NOISE) == blamed
