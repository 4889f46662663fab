"""What limited a run, on runs that each limit really limited."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.diagnosis import Limit, diagnose

N = 400


def system(noise=0.1, lengthscale=0.3, kernel=apviz.Matern52, dtype=torch.float64, n=N, d=2, columns=1):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, d))
    y = np.sin(5 * x[:, :1]) + 0.3 * rng.standard_normal((n, columns))
    return apviz.KernelSystem(x, y, kernel(lengthscale), noise, dtype=dtype, device="cpu")


def recorded(problem, solver, *hooks):
    recorder = apviz.Recorder()
    apviz.solve(problem, solver, [*hooks, recorder])
    return recorder.trace


def dense_matrix(x, lengthscale, noise):
    """Matérn-5/2 plus noise, by its formula."""
    scaled = math.sqrt(5) * cdist(x, x) / lengthscale
    return (1 + scaled + scaled**2 / 3) * np.exp(-scaled) + noise * np.eye(len(x))


def iterations_of_textbook_cg(matrix, b, tol):
    """Iterations of Hestenes & Stiefel's method from 0 until ‖r‖ < tol·‖b‖."""
    r = p = b
    for iteration in range(1, 1000):
        step = r @ r / (p @ matrix @ p)
        previous, r = r, r - step * (matrix @ p)
        if np.linalg.norm(r) < tol * np.linalg.norm(b):
            return iteration
        p = r + r @ r / (previous @ previous) * p
    raise AssertionError("CG did not converge")


def test_a_run_that_converged_quickly_is_left_alone():
    found = diagnose(recorded(system(), apviz.Cholesky()))
    assert found.limit is Limit.NOTHING and not found.change and "work" in found.evidence


def test_a_run_that_was_stopped_says_where_it_ended():
    solver = apviz.AlternatingProjection(20, tol=1e-8)
    found = diagnose(recorded(system(), solver, apviz.StopHook(max_work=2)))
    assert found.limit is Limit.INTERRUPTED and "the work limit of 2 was reached" in found.evidence


def test_a_solve_that_stagnates_in_float32_should_be_done_in_float64():
    single = recorded(system(1e-3, 0.5, dtype=torch.float32), apviz.AlternatingProjection(N, tol=1e-8))
    assert single.outcome in ("stagnated", "diverged")
    found = diagnose(single)
    assert found.limit is Limit.PRECISION and found.change == {"dtype": "float64"} and "drifted" in found.evidence


def test_a_tolerance_that_the_predictions_do_not_need_is_loosened_to_where_the_error_was_flat():
    problem = system()
    rng = np.random.default_rng(1)
    test_x = torch.tensor(rng.uniform(-1, 1, (200, 2)))
    test_y = torch.sin(5 * test_x[:, 0])
    hook = apviz.PredictionHook(test_x, test_y)
    trace = recorded(problem, apviz.AlternatingProjection(50, tol=1e-7), hook)
    found = diagnose(trace)
    assert found.limit is Limit.TOLERANCE
    looser = apviz.solve(problem, apviz.AlternatingProjection(50, **found.change))
    predicted = problem.kernel(test_x, problem.x) @ looser.weights[:, 0]
    rmse = float((predicted - test_y).square().mean().sqrt())
    assert rmse == pytest.approx(float(trace["epoch"]["test_rmse"][-1]), rel=0.05)


def test_noise_far_below_the_outputscale_is_named():
    found = diagnose(recorded(system(noise=1e-4), apviz.ConjugateGradient(tol=1e-3)))
    assert found.limit is Limit.NOISE and found.change == {"noise": 1e-3} and "σ² = 0.0001" in found.evidence


def test_blocks_that_undo_each_others_work_get_neighbours_and_a_margin():
    problem, slow = system(0.03, 0.2, columns=2), apviz.AlternatingProjection(60, tol=1e-3, max_epochs=100)
    before = recorded(problem, slow)
    found = diagnose(before)
    assert found.limit is Limit.BLOCKS and "an epoch keeps" in found.evidence
    after = recorded(problem, dataclasses.replace(slow, **found.change))
    assert float(after["epoch"]["work"][-1]) < 0.5 * float(before["epoch"]["work"][-1])


def test_plain_cg_on_an_ill_conditioned_system_should_let_apviz_choose():
    trace = recorded(system(0.01), apviz.ConjugateGradient(tol=1e-3))
    found = diagnose(trace)
    kappa = float(trace["spectrum"]["kappa"])
    assert found.limit is Limit.CONDITIONING and found.change == {"solver": "auto"}
    assert f"κ ≈ {kappa:.2g}" in found.evidence


@pytest.mark.parametrize(
    ("lengthscale", "noise", "tol", "power"),
    [(0.3, 0.01, 1e-3, 0.0), (0.1, 0.01, 0.01, 0.5), (0.05, 3e-3, 0.5, 0.75), (0.1, 2e-3, 0.5, 0.75)],
)
def test_cg_never_takes_more_iterations_than_the_diagnosis_says_it_may_need(lengthscale, noise, tol, power):
    x = np.random.default_rng(0).uniform(-1, 1, (N, 2))
    matrix = dense_matrix(x, lengthscale, noise)
    values, vectors = np.linalg.eigh(matrix)
    # the more of b lies along small eigenvalues, the further is its residual behind its error in the K-norm
    b = vectors @ (values**-power * np.random.default_rng(1).standard_normal(N))
    problem = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale), noise, dtype=torch.float64, device="cpu")
    trace = recorded(problem, apviz.ConjugateGradient(tol=tol))
    found = diagnose(trace)
    assert found.limit is Limit.CONDITIONING and trace.converged
    most = int(re.search(r"up to ([\d,]+) iterations", found.evidence)[1].replace(",", ""))
    taken = iterations_of_textbook_cg(matrix, b, tol)
    assert taken <= most and int(trace["epoch"]["epoch"][-1]) <= most
    root = math.sqrt(values[-1] / values[0])
    assert most == pytest.approx(0.5 * root * math.log(2 * root / tol), rel=0.02, abs=1)
    if tol == 0.5:  # then what bounds the error in the K-norm does not bound the residual
        assert taken > 1.1 * 0.5 * root * math.log(2 / tol)


def test_overlapping_blocks_that_are_slow_get_a_coarse_space():
    slow = apviz.AlternatingProjection(10, partition="kd-tree", overlap=0.2, tol=1e-6, max_epochs=60)
    found = diagnose(recorded(system(0.01, 1.0), slow))
    assert found.limit is Limit.CONDITIONING and found.change == {"coarse_rank": "auto"}


def test_every_change_is_a_setting_that_exists():
    fields = {field.name for field in dataclasses.fields(apviz.AlternatingProjection)} | {"dtype", "noise", "solver"}
    for trace in (
        recorded(system(0.01), apviz.AlternatingProjection(20, tol=1e-4, max_epochs=60)),
        recorded(system(0.01), apviz.ConjugateGradient(tol=1e-3)),
        recorded(system(1e-4), apviz.ConjugateGradient(tol=1e-3)),
    ):
        assert set(diagnose(trace).change) <= fields
