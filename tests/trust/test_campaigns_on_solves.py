"""A slice of every campaign on solves and predictions, and lies that these campaigns find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import apviz
from apviz.solvers.measuring.residuals import ApproximateResidual, ExactResidual
from tests.trust import bands, certificates, posterior, truth
from tests.trust.slices import of_which_one_is_quick, wrong


@pytest.mark.parametrize("first", of_which_one_is_quick(range(0, 200, 50)))
def test_claims_of_convergence_hold_and_no_other_error_is_raised(first):
    assert not wrong(truth, first, 50)


def test_the_campaign_finds_a_false_claim(monkeypatch):
    solve, seed = apviz.solve, next(seed for seed in range(99) if truth.judge(seed).how == "converged")

    def boasting(system, solver):
        solution = solve(system, solver)
        return replace(solution, weights=solution.weights * 1.5 + 1.0)

    monkeypatch.setattr(apviz, "solve", boasting)
    assert truth.judge(seed).how == "false"


def test_the_campaign_finds_an_undocumented_error(monkeypatch):
    def failing(system, solver):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(apviz, "solve", failing)
    assert truth.judge(0).how == "error"


def test_the_cases_have_what_users_have():
    cases = [truth.case(seed) for seed in range(400)]
    words = [case.words for case in cases]
    assert {case.dtype for case in cases} == {torch.float32, torch.float64}
    for name in ("uniform", "clusters", "duplicates", "grid", "one far"):
        assert any(each["points"] == name for each in words)
    assert any(not case.x.is_contiguous() for case in cases) and any("zero column" in each for each in words)
    assert {type(case.solver).__name__ for case in cases} >= {
        "AlternatingProjection", "ConjugateGradient", "Cholesky", "Automatic", "ASkotch", "StochasticDualDescent",
    }  # fmt: skip


@pytest.mark.parametrize("first", of_which_one_is_quick(range(0, 40, 2)))
def test_no_certificate_of_a_fourier_solve_is_false(first):
    assert not wrong(certificates, first, 2)


def test_the_campaign_finds_a_certificate_that_leaves_its_error_out(monkeypatch):
    def careless(self, b, w, tol):
        found = ExactResidual.residual(self, b, w, tol)
        return found._replace(squared=found.squared * 0.9)

    monkeypatch.setattr(ApproximateResidual, "residual", careless)
    assert {certificates.judge(seed).how for seed in range(2)} & {"false"}


@pytest.mark.parametrize("first", of_which_one_is_quick(range(0, 100, 10)))
def test_bands_contain_the_truth_and_recorded_numbers_match_the_weights(first):
    assert not wrong(bands, first, 10)


@pytest.mark.parametrize("what", ["band", "bound", "weights", "eigenvalues", "test error"])
def test_the_campaign_finds_wrong_bands_and_numbers(monkeypatch, what):
    band, eigenvalues, weights = bands.k_norm_error, apviz.tracing.recorder.spectrum, apviz.solvers.run.Run.weights

    def lied(trace):
        found = band(trace)
        change = {"upper": found["lower"] * 0.99} if what == "band" else {"bound": 0 * found["bound"]}
        return found.assign(change)

    def too_small(*args, **settings):
        found = eigenvalues(*args, **settings)
        return replace(found, lambda_max=replace(found.lambda_max, bound=0.9 * found.lambda_max.value))

    seed = next(
        seed
        for seed in range(99)
        if (made := bands.solve_of(seed)).case.dtype == torch.float64
        and getattr(made.case.solver, "rule", "") == "gauss-southwell"
        # there is no bound for steps along past updates
        and (
            what != "bound"
            or (not made.case.solver.method.history and bands.judge(seed).how == "band after every epoch")
        )
    )
    assert not bands.judge(seed).is_wrong
    if what in ("band", "bound"):
        monkeypatch.setattr(bands, "k_norm_error", lied)
    elif what == "weights":
        monkeypatch.setattr(apviz.solvers.run.Run, "weights", property(lambda run: weights.fget(run) * (1 + 1e-6)))
    elif what == "eigenvalues":
        monkeypatch.setattr(apviz.tracing.recorder, "spectrum", too_small)
    else:
        monkeypatch.setattr(apviz.PredictionHook, "measure", lambda hook, run: {"test_rmse": 0.123})
    assert bands.judge(seed).how == "false"


@pytest.mark.parametrize("first", of_which_one_is_quick([0, 12]))
def test_numbers_of_small_processes_are_within_their_stated_errors(first):
    assert not wrong(posterior, first, 12)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("mean", lambda found: found + 0.01),
        ("variance", lambda found: found * 0.9),
        ("covariance", lambda found: found * 0.9),
    ],
)
def test_the_campaign_finds_wrong_predictions(monkeypatch, method, change):
    seeds = [seed for seed in range(40) if posterior.case(seed).face == "posterior"][:6]
    predict = getattr(apviz.Posterior, method)
    monkeypatch.setattr(apviz.Posterior, method, lambda self, *args, **given: change(predict(self, *args, **given)))
    assert any(posterior.judge(seed).how == "false" for seed in seeds)


def test_the_campaign_finds_wrong_likelihoods_and_gradients(monkeypatch):
    seeds = [seed for seed in range(60) if posterior.case(seed).face.startswith("estimator")][:6]
    likelihood = apviz.GaussianProcess.log_marginal_likelihood

    def off(by):
        def found(self, *args, **given):
            value, gradient = likelihood(self, *args, **given)
            return value * (1 + by[0]), gradient * (1 + by[1])

        return found

    for by in ((1e-6, 0.0), (0.0, 1e-4)):
        monkeypatch.setattr(apviz.GaussianProcess, "log_marginal_likelihood", off(by))
        assert any(posterior.judge(seed).how == "false" for seed in seeds)


def test_a_process_in_sixty_digits_agrees_with_an_accurate_one_in_float64():
    from tests.trust import exact

    for seed in range(12):
        made = posterior.case(seed)
        n = min(len(made.x), 8)
        given = (made.expression, list(made.kernel.numbers.values()), 0.5, made.mu, made.x[:n], made.y[:n], made.z)
        in_float64 = exact.exact(*given)
        with exact.mpmath.workdps(exact.DIGITS):
            in_mpmath = exact._in_mpmath(*given)
        for name in ("mean", "covariance", "log_determinant", "log_likelihood", "gradient"):
            np.testing.assert_allclose(getattr(in_float64, name), getattr(in_mpmath, name), rtol=1e-8, atol=1e-10)
