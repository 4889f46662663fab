"""Adam, L-BFGS and the fit of BoTorch inside the context agree with GPyTorch by Cholesky."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import warnings

import gpytorch
import linear_operator
import numpy as np
import pytest
import torch
from test_gpytorch_examples import exactly, example

import apviz

kernels = gpytorch.kernels
alternating_projection = apviz.gpytorch.alternating_projection
# nats per point by which the end may be worse
CLOSE = 0.01
CHANGED = (
    (linear_operator.settings._fast_log_prob, "_default"),
    (linear_operator.settings._fast_solves, "_default"),
    (linear_operator.settings._fast_covar_root_decomposition, "_default"),
    (linear_operator.settings.max_cholesky_size, "_global_value"),
    (linear_operator.settings.cholesky_max_tries, "_global_value"),
    (gpytorch.settings.max_eager_kernel_size, "_global_value"),
)


@pytest.fixture
def botorch():
    """Import BoTorch, and restore the defaults of GPyTorch afterwards."""
    pytest.importorskip("botorch")
    before = [getattr(*place) for place in CHANGED]
    module = importlib.reload(sys.modules["botorch"])
    assert gpytorch.settings.fast_computations.log_prob.off()
    yield module
    for place, value in zip(CHANGED, before, strict=True):
        setattr(*place, value)


# an import above would be too early for the fixture to save the defaults
BEFORE = [getattr(*place) for place in CHANGED]
if importlib.util.find_spec("botorch"):
    import botorch as _  # noqa: F401

    for place, value in zip(CHANGED, BEFORE, strict=True):
        setattr(*place, value)


def points(n):
    rng = np.random.default_rng(1)
    x = torch.tensor(rng.uniform(size=(n, 2)))
    return x, torch.sin(6 * x.sum(1, keepdim=True)) + 0.1 * torch.tensor(rng.standard_normal((n, 1)))


def exact_value(model):
    """Return the marginal log likelihood ÷ n, with priors, by Cholesky."""
    model.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    with exactly(), torch.no_grad():
        return objective(model(*model.train_inputs), model.train_targets).item()


def by_adam(e):
    e.train(60)


def by_lbfgs(e):
    lbfgs = torch.optim.LBFGS(e.model.parameters(), max_iter=50, line_search_fn="strong_wolfe")

    def closure():
        lbfgs.zero_grad()
        loss = e.loss()
        loss.backward()
        return loss

    lbfgs.step(closure)


@pytest.mark.filterwarnings("ignore:the value of the marginal log likelihood leaves out")
@pytest.mark.parametrize("n", [60, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "settings",
    [{}, {"block_size": 50}, {"block_size": 50, "log_determinant": "lanczos"}],
    ids=["auto", "AP", "lanczos"],
)
@pytest.mark.parametrize("optimise", [pytest.param(by_adam, marks=pytest.mark.slow), by_lbfgs])
def test_an_optimiser_ends_like_by_cholesky(optimise, settings, n):
    def ended(context):
        e = example(n, 2, kernels.ScaleKernel(kernels.MaternKernel(2.5, ard_num_dims=2)))
        with context:
            optimise(e)
        return exact_value(e.model)

    assert ended(alternating_projection(**settings)) > ended(exactly()) - CLOSE


@pytest.mark.parametrize("n", [60, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("settings", [{}, {"block_size": 50}], ids=["auto", "AP"])
def test_the_fit_of_botorch_ends_like_by_cholesky(botorch, settings, n):
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP

    def fitted(context):
        model = SingleTaskGP(*points(n))
        with context, warnings.catch_warnings():
            warnings.simplefilter("error")
            fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
        return model

    ours, theirs = fitted(alternating_projection(**settings)), fitted(exactly())
    assert exact_value(ours) > exact_value(theirs) - CLOSE
    z = points(7)[0]
    with torch.no_grad():
        there = theirs.posterior(z)
        with alternating_projection(**{**settings, "tol": 1e-8} if settings else {}):
            here = ours.posterior(z)
            np.testing.assert_allclose(here.mean, there.mean, atol=0.02)
            np.testing.assert_allclose(here.variance, there.variance, atol=1e-3)


def test_adam_of_botorch_which_stops_by_values_gets_complete_values(botorch):
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim.fit import fit_gpytorch_mll_torch

    ended = []
    for context in (alternating_projection(block_size=20, tol=1e-4), contextlib.nullcontext()):
        torch.manual_seed(0)
        model = SingleTaskGP(*points(60))
        with context:
            objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
            fit_gpytorch_mll(objective, optimizer=fit_gpytorch_mll_torch, optimizer_kwargs={"step_limit": 60})
        ended.append(exact_value(model))
    assert ended[0] == pytest.approx(ended[1], abs=CLOSE)
    with alternating_projection(block_size=20, log_determinant="skip"), pytest.raises(Exception, match="botorch"):
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model.train())
        fit_gpytorch_mll_torch(objective, step_limit=3)


@pytest.mark.slow
def test_the_fit_of_botorch_by_lanczos_ends_close_to_cholesky(botorch):
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP

    ended = []
    for context in (alternating_projection(block_size=50, log_determinant="lanczos", tol=1e-4), exactly()):
        model = SingleTaskGP(*points(200))
        with context:
            fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
        ended.append(exact_value(model))
    assert ended[0] > ended[1] - CLOSE


def botorch_model(kind, x, y):
    """Return a model of BoTorch, its objective, and a function that reduces its outputs to one."""
    from botorch.acquisition.objective import ScalarizedPosteriorTransform
    from botorch.models import ModelListGP, SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize

    def single(targets, **more):
        transforms = {"input_transform": Normalize(x.shape[1]), "outcome_transform": Standardize(targets.shape[1])}
        return SingleTaskGP(x, targets, **transforms, **more)

    both = torch.cat([y, x[:, :1] - y], 1)
    summed = ScalarizedPosteriorTransform(torch.tensor([1.0, 0.2], dtype=torch.float64))
    if kind == "one output":
        return single(y), None
    if kind == "fixed noises":
        return single(y, train_Yvar=0.005 + 0.01 * torch.rand_like(y)), None
    if kind == "two outputs":
        return single(both), summed
    return ModelListGP(single(y), single(both[:, 1:])), summed


@pytest.mark.parametrize(
    ("kind", "acquisition"),
    [
        ("one output", "LogEI"),
        ("one output", "qLogNEI"),
        pytest.param("one output", "qKG", marks=pytest.mark.slow),
        ("fixed noises", "LogEI"),
        pytest.param("two outputs", "LogEI", marks=pytest.mark.slow),
        ("two outputs", "qLogNEI"),
        ("list of models", "LogEI"),
    ],
)
@pytest.mark.parametrize("n", [80, pytest.param(400, marks=pytest.mark.slow)])
def test_a_step_of_bayesian_optimisation_proposes_the_same_point_as_by_cholesky(botorch, kind, acquisition, n):
    from botorch.acquisition import LogExpectedImprovement, qKnowledgeGradient, qLogNoisyExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import ModelListGP
    from botorch.optim import optimize_acqf
    from botorch.sampling import SobolQMCNormalSampler

    x, y = points(n)
    bounds = torch.stack([x.amin(0), x.amax(0)])
    sampler, proposed = SobolQMCNormalSampler(torch.Size([16]), seed=0), []
    for context in (contextlib.nullcontext(), alternating_projection(solver=apviz.Automatic(tol=1e-8))):
        torch.manual_seed(0)
        with context:
            model, transform = botorch_model(kind, x, y)
            several = isinstance(model, ModelListGP)
            objective = gpytorch.mlls.SumMarginalLogLikelihood if several else gpytorch.mlls.ExactMarginalLogLikelihood
            fit_gpytorch_mll(objective(model.likelihood, model))
            more = {} if transform is None else {"posterior_transform": transform}
            if acquisition == "LogEI":
                function, q = LogExpectedImprovement(model, best_f=y.max(), **more), 1
            elif acquisition == "qKG":
                function, q = qKnowledgeGradient(model, num_fantasies=2), 1
            else:
                settings = {"prune_baseline": False, "sampler": sampler, **more}
                if transform is not None:
                    from botorch.acquisition.objective import LinearMCObjective

                    settings = {**settings, "objective": LinearMCObjective(transform.weights)}
                    del settings["posterior_transform"]
                function, q = qLogNoisyExpectedImprovement(model, x[:10], **settings), 2
            torch.manual_seed(1)
            tries = {"num_restarts": 2, "raw_samples": 8, "options": {"maxiter": 10}}
            proposed.append(optimize_acqf(function, bounds, q=q, **tries))
    (theirs, value), (ours, found) = proposed
    torch.testing.assert_close(found, value, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(ours, theirs, rtol=5e-3, atol=5e-3)


def test_after_importing_botorch_models_work_and_only_settings_of_the_user_are_rejected(botorch):
    e = example(60, 2)
    with gpytorch.settings.fast_computations(), exactly():
        theirs = e.gradients()
    with alternating_projection():
        for name, found in e.gradients().items():
            np.testing.assert_allclose(found, theirs[name], atol=1e-10)
        assert torch.isfinite(e.predict().variance).all()
        with gpytorch.settings.fast_computations(log_prob=False), pytest.raises(ValueError, match="requests Cholesky"):
            e.loss()


def test_after_importing_botorch_record_cg_explains_why_it_records_nothing(botorch):
    recorder = apviz.Recorder()
    with (
        pytest.warns(
            UserWarning, match=r"max_cholesky_size is 4,096, and fast_computations\(log_prob=False\) .*BoTorch"
        ),
        apviz.gpytorch.record_cg(recorder),
    ):
        example(60, 2).gradients()
    assert not recorder.traces
    with (
        gpytorch.settings.max_cholesky_size(0),
        gpytorch.settings.fast_computations(),
        apviz.gpytorch.record_cg(recorder),
    ):
        example(60, 2).gradients()
    assert recorder.traces


@pytest.mark.parametrize(
    "solver", [apviz.Cholesky(), apviz.AlternatingProjection(block_size=20)], ids=["Cholesky", "AP"]
)
def test_an_optimiser_that_compares_values_raises_without_the_log_determinant(solver):
    import scipy.optimize

    def by_scipy(e):
        def value(theta):
            e.likelihood.raw_noise.data.fill_(theta[0])
            return e.loss().item()

        scipy.optimize.minimize(value, [0.0])

    e = example(60, 2)
    before = [p.clone() for p in e.model.parameters()]
    with alternating_projection(solver=solver, log_determinant="skip"):
        for optimise, name in ((by_lbfgs, "torch.optim.lbfgs"), (by_scipy, "scipy.optimize")):
            with pytest.raises(ValueError, match=rf"{name}.* compares values of the loss.*log_determinant is 'skip'"):
                optimise(e)
    with (
        alternating_projection(solver=solver),
        gpytorch.settings.skip_logdet_forward(),
        pytest.raises(ValueError, match="skip_logdet_forward is on"),
    ):
        by_lbfgs(e)
    assert all(torch.equal(a, b) for a, b in zip(before, e.model.parameters(), strict=True))
