"""Cheaper training: probes that are samples of the prior, a budget of epochs per step, first steps on few rows."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis.diagnosis import Limit
from apviz.analysis.diagnosis.training import diagnose_training
from apviz.gp.training.gradient import marginal_likelihood_gradient, step_system
from apviz.gp.training.probes import pathwise
from apviz.gp.training.settings import settings_of
from apviz.operators import CountingOperator, make_operator
from tests.device import DEVICE
from tests.gp.small_trainings import CHOLESKY, data, training
from tests.gp.test_gradient import LENGTHSCALE, MEAN, NOISE, SCALE, dense_gradient
from tests.gp.test_gradient import data as gradient_data
from tests.textbook import matern52

KERNEL = apviz.Matern52(lengthscale=LENGTHSCALE, outputscale=SCALE)
ONE_EPOCH = {"solver": apviz.AlternatingProjection(block_size=20, tol=1e-8), "max_epochs": 1}


def dense(x):
    gaps = ((x[:, None] - x[None]) / torch.tensor(LENGTHSCALE)).norm(dim=-1)
    return SCALE * torch.from_numpy(matern52(gaps.numpy())) + NOISE * torch.eye(len(x), dtype=torch.float64)


# --- the estimator ----------------------------------------------------------------------------------------------------


def test_pathwise_probes_have_the_covariance_of_the_targets():
    x, _ = gradient_data(30)
    operator = make_operator("dense", x, KERNEL, NOISE)
    z = torch.cat([pathwise(operator, 500, seed).z for seed in range(20)], 1)
    k = dense(x)
    scale = k.diagonal().sqrt()
    assert ((z @ z.T / 10_000 - k) / torch.outer(scale, scale)).abs().max() < 6 / 100
    assert (z.mean(1) / scale).abs().max() < 5 / 100


def test_the_mean_gradient_from_samples_of_the_prior_equals_that_of_the_dense_likelihood():
    """The mean of 60 estimates by 50 probes, each with its own features, is within four of its standard errors."""
    x, y = gradient_data()
    operator, k = CountingOperator(make_operator("dense", x, KERNEL, NOISE)), dense(x)
    estimates = []
    for seed in range(60):
        probes = pathwise(operator.uncounted, 50, seed)
        weights = torch.linalg.solve(k, torch.cat([(y - MEAN)[:, None], probes.z], 1))
        g = marginal_likelihood_gradient(operator, weights, probes.dual_of(weights))
        estimates.append([g.mean, g.noise, *g.kernel["outputscale"], *g.kernel["lengthscale"]])
    found, exact = torch.tensor(estimates), torch.cat(dense_gradient(apviz.Matern52, LENGTHSCALE, x, y))
    error = (found.mean(0) - exact)[1:]
    assert (error.abs() < 4 * found.std(0)[1:] / 60**0.5).all()
    assert found[:, 0].std() < 1e-8 and found[0, 0] == pytest.approx(float(exact[0]), rel=1e-8)


def test_pathwise_probes_of_one_seed_change_little_with_the_hyperparameters():
    x, _ = gradient_data()
    one, other, away = (
        pathwise(make_operator("dense", x, kernel, noise), 8, seed).z
        for kernel, noise, seed in [
            (KERNEL, NOISE, 3),
            (apviz.Matern52(lengthscale=[1.001 * each for each in LENGTHSCALE], outputscale=SCALE), 1.001 * NOISE, 3),
            (KERNEL, NOISE, 4),
        ]
    )
    assert 0 < (one - other).norm() < 0.01 * one.norm() and (one - away).norm() > 0.5 * one.norm()


def test_pathwise_probes_use_the_noise_of_each_row():
    x, _ = gradient_data(30)
    noises = torch.linspace(0.01, 4.0, 30, dtype=torch.float64)
    z = torch.cat([pathwise(make_operator("dense", x, KERNEL, noises), 500, seed).z for seed in range(8)], 1)
    torch.testing.assert_close(z.square().mean(1), SCALE + noises, rtol=0.15, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("warm_start", [False, True])
def test_training_with_samples_of_the_prior_agrees_with_other_probes(warm_start):
    expected = training(n=200, probes=40, steps=40).run()
    found = training(n=200, probes=40, steps=40, estimator="pathwise", warm_start=warm_start).run()
    assert found.noise == pytest.approx(expected.noise, rel=0.1)
    np.testing.assert_allclose(found.lengthscale, expected.lengthscale, rtol=0.15)


def test_samples_of_the_prior_are_probes_for_sums_and_products_too():
    kernel = apviz.RBF(lengthscale=0.5).on(0) + apviz.Linear().on(1) * apviz.Periodic(period=0.7).on(0)
    steps = training(kernel=kernel, estimator="pathwise", steps=3)
    steps.run()
    assert steps.trace.converged and np.isfinite(steps.trace["step"]["gradient_norm"]).all()


# --- a budget ---------------------------------------------------------------------------------------------------------


def test_steps_that_end_at_their_budget_do_not_warn_and_the_trace_keeps_their_residuals():
    trained = training(steps=4, **ONE_EPOCH)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained.run()
    steps = trained.trace["step"]
    assert (steps["epochs"] == 1).all() and (steps["converged"] == 0).all() and (steps["residual"] > 1e-8).all()
    assert trained.trace.finished and not trained.trace.converged


def test_stagnation_by_rounding_warns_despite_a_budget():
    solver = apviz.AlternatingProjection(block_size=40, tol=1e-15)
    with pytest.warns(apviz.NotConverged, match="training step 1 stagnated"):
        training(steps=1, solver=solver, max_epochs=2000).run()


def test_warm_starts_within_a_budget_reach_smaller_residuals():
    cold, warm = training(steps=30, **ONE_EPOCH), training(steps=30, warm_start=True, **ONE_EPOCH)
    cold.run(), warm.run()
    assert warm.trace["step"]["residual"][-5:].mean() < 0.5 * cold.trace["step"]["residual"][-5:].mean()


@pytest.mark.slow
def test_the_diagnosis_of_a_training_with_a_budget_states_the_residual_and_no_failure():
    solver = apviz.solvers.overlapping(
        block_size=50, partition=apviz.partitions.PrincipalAxisTree(overlap=1.0), tol=1e-12
    )
    trained = training(n=200, steps=150, probes=50, solver=solver, max_epochs=2)
    trained.run()
    found = diagnose_training(trained.trace)
    left = float(trained.trace["step"]["residual"].max())
    assert found.limit is Limit.NOTHING
    assert f"Solves had a budget, max_epochs = 2, which left residuals of up to {left:.2g}" in found.evidence


def test_a_budget_that_leaves_most_of_the_residual_is_reported_as_too_small():
    paper = apviz.AlternatingProjection(block_size=4, tol=1e-8, rule="cyclic")
    trained = training(n=200, steps=3, solver=paper, max_epochs=1, noise_floor=1e-6)
    trained.run()
    assert (trained.trace["step"]["residual"] > 0.5).all()
    found = diagnose_training(trained.trace)
    assert found.limit is Limit.LOOSE and "ended at their limit of 1 epochs at residuals" in found.evidence
    assert found.advice.startswith("Give every step 2 epochs")


# --- first steps on few rows ------------------------------------------------------------------------------------------


def test_first_steps_on_few_rows_equal_a_training_on_these_rows_at_its_share_of_the_work():
    x, y = data()
    staged = training(stages=((0.25, 3), (0.5, 2)), steps=6)
    rows = staged.settings.rows_of(1, 80)
    few = apviz.Training(x[rows], y[rows], apviz.TrainingSettings(solver=CHOLESKY, steps=3), dtype=torch.float64)
    few.run()
    staged.run()
    steps = staged.trace["step"]
    np.testing.assert_allclose(steps["noise"][:3], few.trace["step"]["noise"], rtol=1e-12)
    np.testing.assert_allclose(steps["work"][:3], few.trace["step"]["work"] / 16, rtol=1e-12)
    assert float(steps["work"][5]) == pytest.approx(4 * float(steps["work"][4]))
    assert staged.hyperparameters != few.hyperparameters


def test_the_rows_of_a_larger_share_include_those_of_a_smaller_and_the_last_steps_use_all():
    settings = apviz.TrainingSettings(stages=((0.1, 2), (0.3, 1)), steps=5, seed=3)
    first, again, second, all_rows = (settings.rows_of(step, 1000) for step in (1, 2, 3, 4))
    assert len(first) == 100 and len(second) == 300 and all_rows is None
    assert torch.equal(first, again) and set(first.tolist()) < set(second.tolist()) and second.unique().numel() == 300


@pytest.mark.parametrize("at", [2, 4, 5])
@pytest.mark.parametrize("warm_start", [False, True])
def test_an_interrupted_training_in_stages_resumes_to_the_same_result(tmp_path, at, warm_start):
    class Cut(apviz.Hook):
        solves = 0

        def on_start(self, run):
            self.solves += 1
            if self.solves == at:
                raise KeyboardInterrupt

    settings = {"stages": ((0.25, 3), (0.5, 1)), "steps": 6, "warm_start": warm_start, "estimator": "pathwise"}
    with pytest.raises(KeyboardInterrupt):
        training(tmp_path / "t.zarr", **settings).run([Cut()])
    gone_on, whole = training(tmp_path / "t.zarr", **settings), training(**settings)
    assert gone_on.steps_done == at - 1
    assert gone_on.run().lengthscale == whole.run().lengthscale


def test_a_training_does_not_end_as_settled_on_few_rows():
    trained = training(n=200, stages=((0.5, 60),), steps=70, until_settled=True, step_size=0.001)
    trained.run()
    assert trained.steps_done > 60


def test_the_solve_of_a_step_on_few_rows_can_be_repeated_from_the_trace_alone():
    recorder = apviz.Recorder()
    trained = training(stages=((0.5, 2),), steps=3, estimator="pathwise", **ONE_EPOCH)
    trained.run([recorder])
    trace, (x, y) = trained.trace, data()
    settings = settings_of(trace)
    assert settings == trained.settings
    rows = settings.rows_of(2, len(x))
    of_step = settings.probes, settings.seed_of(2)
    step = step_system(
        x[rows].to(DEVICE), y[rows].to(DEVICE), trace.hyperparameters_at(2), settings.solver_of_step, *of_step,
        estimator=settings.estimator,
    )  # fmt: skip
    again = apviz.Recorder()
    apviz.solvers.attempt(step.system, settings.solver_of_step, [again])
    np.testing.assert_array_equal(again.trace["epoch"]["residual"], recorder.traces[1]["epoch"]["residual"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "best"}, "estimator must be one of standard, pathwise, exact, got 'best'"),
        ({"max_epochs": 0}, "max_epochs must be a whole number, at least 1, got 0"),
        ({"solver": apviz.gp.PAPER_SOLVER, "max_epochs": 5}, "min_epochs"),
        ({"stages": ((1.5, 3),)}, "stages must be pairs of a share of the rows, below 1, and a number of steps"),
        ({"stages": ((0.5, 0),)}, "stages must be pairs"),
        ({"stages": ((0.5, 1.5),)}, "stages must be pairs"),
        ({"stages": 4}, "stages must be pairs"),
        ({"stages": ((0.5,),)}, "stages must be pairs"),
        ({"stages": ((0.5, 50),)}, "steps must be more than the 50 steps of the stages, got 50"),
        ({"stages": ((0.5, 5),), "optimiser": "l-bfgs"}, "stages must be (), because exact steps use all rows"),
    ],
)
def test_settings_out_of_range_are_rejected(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        apviz.TrainingSettings(**settings)
