"""More data for a model after a prediction, and leave-one-out, against GPyTorch by Cholesky in float64."""

from __future__ import annotations

import gpytorch
import pytest
import torch

import apviz
from benchmarks.model_cases import MODELS, batch, data
from benchmarks.models import native

X, Y, Z = data(2)
SHAPES = {
    "a few points": ((4, 2), (4,)),
    "several targets at the same points": ((4, 2), (5, 4)),
    "batches of points": ((5, 4, 2), (5, 4)),
    "several targets at batches of points": ((5, 4, 2), (3, 5, 4)),
}


def random(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def made(case=MODELS["Matérn-5/2, ARD"]):
    model, likelihood = case.make()
    return model.double().eval(), likelihood.double().eval()


def exact(**more):
    return apviz.gpytorch.alternating_projection(solver=apviz.ConjugateGradient(tol=1e-11), **more)


@pytest.mark.parametrize("name", SHAPES)
def test_fantasies_predict_like_those_by_cholesky(name):
    x, y = (random(*shape) for shape in SHAPES[name])
    predicted = []
    for context in (native(), exact()):
        model, _ = made()
        with context, torch.no_grad():
            _ = model(Z).mean
            found = model.get_fantasy_model(x, y)(Z)
            predicted.append((found.mean, found.variance, found.covariance_matrix))
        assert len(model.train_targets) == len(Y)
    torch.testing.assert_close(*predicted, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("fantasies", [(), (7,)])
def test_fantasies_of_a_batch_of_models_predict_like_those_by_cholesky(fantasies):
    x, y, predicted = random(3, 4, 2), random(*fantasies, 3, 4), []
    for context in (native(), exact()):
        model, _ = made(batch(3))
        with context, torch.no_grad():
            _ = model(Z.expand(3, -1, -1)).mean
            found = model.get_fantasy_model(x, y)(Z)
            predicted.append((found.mean, found.variance))
    torch.testing.assert_close(*predicted, rtol=1e-7, atol=1e-8)


def test_a_fantasy_is_solved_from_the_known_weights():
    recorder, known = apviz.Recorder(), apviz.Recorder()
    solver = apviz.ConjugateGradient(tol=1e-6)
    for hook, update in ((recorder, False), (known, True)):
        model, _ = made()
        with apviz.gpytorch.alternating_projection(solver=solver, hooks=[hook]), torch.no_grad():
            if update:
                _ = model(Z).mean
                _ = model.get_fantasy_model(random(1, 2), random(1))(Z).mean
            else:
                model.set_train_data(torch.cat([X, random(1, 2)]), torch.cat([Y, random(1)]), strict=False)
                _ = model(Z).mean
    assert float(known.traces[-1]["epoch"]["residual"][0]) < 0.5 * float(recorder.traces[-1]["epoch"]["residual"][0])


def test_several_targets_share_their_variances():
    recorder = apviz.Recorder()
    model, _ = made()
    with exact(hooks=[recorder]), torch.no_grad():
        _ = model(Z).mean
        fantasy = model.get_fantasy_model(random(4, 2), random(6, 4))
        before = len(recorder.traces)
        variance = fantasy(Z).variance
    # one solve for each mean, and one for the variances
    assert len(recorder.traces) - before == 6 + 1
    assert (variance == variance[0]).all()


@pytest.mark.parametrize("case", [MODELS["Matérn-5/2, ARD"], MODELS["fixed noises and a learned one"], batch(3)])
@pytest.mark.parametrize("rows_to_factor", [2_000, 10])
def test_leave_one_out_and_its_gradient_agree_with_cholesky(case, rows_to_factor, monkeypatch):
    monkeypatch.setattr("apviz.gpytorch.solves.CHOLESKY_ROWS", rows_to_factor)
    monkeypatch.setattr("apviz.gpytorch.solves.VALUE_TOL", 1e-11)
    found = []
    for context in (native(), exact()):
        model, likelihood = (each.train() for each in made(case))
        objective = gpytorch.mlls.LeaveOneOutPseudoLikelihood(likelihood, model)
        with context:
            value = objective(model(*model.train_inputs), model.train_targets, *model.train_inputs)
            value.sum().backward()
        found.append((value.detach(), *(p.grad for p in model.parameters())))
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-7)


def test_second_derivatives_of_leave_one_out_raise():
    model, likelihood = (each.train() for each in made())
    objective = gpytorch.mlls.LeaveOneOutPseudoLikelihood(likelihood, model)
    with exact():
        value = objective(model(X), Y)
        gradient = torch.autograd.grad(value, model.mean.constant, create_graph=True)[0]
        with pytest.raises(RuntimeError, match="no second derivatives of the leave-one-out objective"):
            gradient.sum().backward()
