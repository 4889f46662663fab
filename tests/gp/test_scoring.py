"""Scoring: Newton steps with the average information, compared with dense algebra and with exact likelihoods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import apviz
from apviz.factors import NotPositiveDefinite
from apviz.gp.training.information import average_information
from apviz.gp.training.optimisers import Evaluation, Scoring, corrected
from apviz.gp.training.parametrisation import Parametrisation
from apviz.operators import CountingOperator
from tests.device import DEVICE
from tests.gp.small_trainings import CHOLESKY, data

FLOOR = 1e-3


def training(n=300, path=None, x=None, y=None, **settings):
    inputs, targets = data(n)
    settings = {"optimiser": "scoring", "solver": CHOLESKY, "steps": 40, **settings}
    return apviz.Training(
        inputs if x is None else x, targets if y is None else y, apviz.TrainingSettings(**settings), path=path,
        dtype=torch.float64, device=DEVICE,
    )  # fmt: skip


def dense(x, lengthscale, outputscale, noise):
    """Return K of a Matérn-5/2 kernel, in NumPy."""
    r = np.sqrt(5) * np.linalg.norm((x[:, None] - x[None]) / lengthscale, axis=-1)
    return outputscale * (1 + r + r**2 / 3) * np.exp(-r) + noise * np.eye(len(x))


def log_likelihood(x, y, h):
    k, r = dense(x, np.array(h.lengthscale), h.outputscale, h.noise), y - h.mean
    return -0.5 * (r @ np.linalg.solve(k, r) + np.linalg.slogdet(k)[1] + len(x) * np.log(2 * np.pi))


def information_of(x, y, raw, outputs=1):
    """Return the average information of apviz at a raw vector: mean, noise, outputscale and two lengthscales."""
    kernel = apviz.kernels.kernel_named("matern52", (1.0, 1.0), 1.0)
    of = Parametrisation(kernel, FLOOR, transform="log")
    h = of.hyperparameters(raw)
    system = apviz.KernelSystem(x, y - h.mean, h.build_kernel(), noise=h.noise, device=DEVICE)
    weights = apviz.solve(system, CHOLESKY).weights.reshape(len(x), outputs)
    rows = apviz.duplicates.merged(x, y, groups=torch.arange(len(x)))
    return of, *average_information(CountingOperator(system.operator), weights, raw, of, CHOLESKY, rows)


def test_the_average_information_is_that_of_dense_algebra_with_derivatives_by_differences():
    x, y = data(120)
    raw = torch.tensor([0.3, np.log(0.05), np.log(1.3), np.log(0.6), np.log(1.7)], dtype=torch.float64)
    of, found, work = information_of(x, y, raw)
    assert of.names == ("mean", "noise", "outputscale", "lengthscale[0]", "lengthscale[1]")

    def k_at(v):
        return dense(x.numpy(), np.exp(v[3:]), np.exp(v[2]), FLOOR + np.exp(v[1]))

    at, change = raw.numpy(), 1e-5 * np.eye(5)
    k = k_at(at)
    w = np.linalg.solve(k, y.numpy() - 0.3)
    q = np.stack([(k_at(at + change[j]) - k_at(at - change[j])) @ w / 2e-5 for j in range(5)], axis=1)
    expected = 0.5 * q.T @ np.linalg.solve(k, q)
    expected[0, 0] = np.linalg.solve(k, np.ones(120)).sum()
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert (np.abs(found.numpy() - expected) / scale).max() < 0.1  # forward differences of 2%
    assert work > 0


def test_the_information_of_two_outputs_is_the_sum_of_theirs():
    x, y = data(60)
    both = torch.stack([y, y.flip(0)], dim=1)
    raw = torch.tensor([0.2, np.log(0.1), 0.0, 0.0, 0.0], dtype=torch.float64)
    _, found, _ = information_of(x, both, raw, outputs=2)
    each = [information_of(x, both[:, k], raw)[1] for k in (0, 1)]
    torch.testing.assert_close(found, sum(each), rtol=1e-6, atol=1e-8)


def test_scoring_finds_the_optimum_of_exact_likelihoods_in_few_steps():
    x, y = data(300)
    found, exact = training(), training(optimiser="l-bfgs", steps=200)
    h, best = found.run(), exact.run()
    lost = log_likelihood(x.numpy(), y.numpy(), best) - log_likelihood(x.numpy(), y.numpy(), h)
    assert -0.05 < lost < 1.0  # 15 probes are expected to cost 5 / 30 nats
    assert found.steps_done == found.settled_at < 15
    trace = found.trace
    assert trace.finished and trace.outcome == "settled"
    assert "scoring steps with Cholesky" in h.provenance
    assert "a step is expected to increase the log likelihood by less than 0.33" in trace.settled_words
    assert trace["step"]["gain"].values[-1] * 300 < 5 / 15 < trace["step"]["gain"].values[0] * 300


def test_exact_scoring_finds_the_optimum_whatever_the_probes_and_resumes_with_the_same_result(tmp_path):
    x, y = data(300)
    found, best = training(estimator="exact"), training(optimiser="l-bfgs", steps=200).run()
    h = found.run()
    lost = log_likelihood(x.numpy(), y.numpy(), best) - log_likelihood(x.numpy(), y.numpy(), h)
    assert -0.01 < lost < 0.2  # the last step was expected to gain less than 0.05 nats
    assert found.steps_done == found.settled_at < 15
    assert "scoring steps with Cholesky" in h.provenance
    values = found.trace["step"]["negative_log_likelihood"].values
    assert (np.diff(values) < 0.5 / 300).all()
    assert training(estimator="exact", probes=2, seed=5).run() == h
    training(path=tmp_path / "t.zarr", steps=3, estimator="exact").run()
    assert training(path=tmp_path / "t.zarr", estimator="exact").run() == h


def test_a_step_that_exact_values_show_to_be_too_long_is_halved_until_it_gains():
    def evaluate(raw):
        # a curvature of 1 is reported where it is 9: a whole step goes eight times too far, to larger values
        found = quadratic(centre, 9.0 * torch.eye(2, dtype=torch.float64), raw, reported=1 / 9)
        value = 4.5 * float(torch.sum((raw - centre) ** 2))
        evaluations.append(value)
        return replace(found, value=value)

    centre, evaluations = torch.tensor([0.0, 0.2], dtype=torch.float64), []
    of = Scoring(torch.zeros(2, dtype=torch.float64), [(None, None)] * 2, n=100, settled=1e-6)
    assert of.run(evaluate, lambda move: len(evaluations) < 60)
    assert evaluations[1] > evaluations[0] > evaluations[-1]
    torch.testing.assert_close(of.raw, centre, rtol=0, atol=1e-3)


def test_a_step_to_where_k_has_no_factor_is_halved_and_a_start_without_one_raises():
    def evaluate(raw):
        if raw[1] > 0.25:
            raise NotPositiveDefinite("no factor")
        return quadratic(centre, torch.eye(2, dtype=torch.float64), raw, reported=0.5)

    centre = torch.tensor([0.0, 0.2], dtype=torch.float64)  # the first step goes to 0.4
    of = Scoring(torch.zeros(2, dtype=torch.float64), [(None, None)] * 2, n=100, settled=1e-6)
    assert of.run(evaluate, lambda move: True)
    torch.testing.assert_close(of.raw, centre, rtol=0, atol=1e-3)
    with pytest.raises(NotPositiveDefinite):
        Scoring(torch.ones(2, dtype=torch.float64), [(None, None)] * 2, n=100, settled=1e-6).run(evaluate, bool)


def test_a_step_that_a_bound_cuts_is_the_least_of_the_model_within_the_bounds():
    curvature = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.9], [0.0, 0.9, 1.0]], dtype=torch.float64)
    gradient = torch.tensor([0.0, -0.5, -0.5], dtype=torch.float64)
    of = Scoring(torch.zeros(3, dtype=torch.float64), [(None, None), (None, 0.1), (None, None)], n=10**9, settled=1e-6)
    at = Evaluation(gradient, np.nan, None, 0.0, information=curvature, rows=10**9)
    assert not of.run(lambda raw: at, lambda move: False)
    step = of.raw.numpy()
    ways = np.stack(np.meshgrid(np.linspace(-1, 0.1, 111), np.linspace(-1, 1, 2001)), -1).reshape(-1, 2)
    model = ways @ gradient[1:].numpy() + 0.5 * np.einsum("ki,ij,kj->k", ways, curvature[1:, 1:].numpy(), ways)
    assert step[1:] == pytest.approx(ways[model.argmin()], abs=2e-3)


@pytest.mark.parametrize("settings", [{"probes": 100}, {"estimator": "exact"}])
def test_merged_rows_are_trained_as_the_rows_they_stand_for(settings):
    x, y = data(100)
    generator = torch.Generator().manual_seed(1)
    three = torch.cat([y + 0.3 * torch.randn(100, generator=generator, dtype=torch.float64) for _ in range(3)])
    rows = apviz.duplicates.merged(x.repeat(3, 1), three)
    settings = apviz.TrainingSettings(optimiser="scoring", solver=CHOLESKY, steps=40, **settings)
    found = apviz.Training(rows.x, rows.y, settings, rows=rows, dtype=torch.float64, device=DEVICE)
    h, best = found.run(), training(x=x.repeat(3, 1), y=three, optimiser="l-bfgs", steps=200).run()
    all_x, all_y = x.repeat(3, 1).numpy(), three.numpy()
    assert found.settled_at < 15
    assert log_likelihood(all_x, all_y, best) - log_likelihood(all_x, all_y, h) < 0.5


def test_a_training_does_not_end_on_a_share_of_the_rows():
    few = training(stages=((0.25, 12), (0.5, 6)))
    few.run()
    work = few.trace["step"]["work"].values
    assert few.settled_at > 18
    # the work of a step grows with the square of its rows
    assert work[0] < work[13] / 3 < work[-1] / 9


def test_targets_without_noise_settle_with_the_noise_on_its_bound():
    x = torch.linspace(-1, 1, 150, dtype=torch.float64)[:, None]
    h = training(x=x, y=torch.sin(3 * x[:, 0]), noise_floor=1e-4).run()
    assert 1e-4 < h.noise < 1.01e-4


@pytest.mark.parametrize("done", [2, 4])
def test_a_killed_training_by_scoring_resumes_with_the_same_result(tmp_path, done):
    stages = ((0.5, 1),)
    whole = training(stages=stages).run()
    training(path=tmp_path / "t.zarr", steps=done, stages=stages).run()
    resumed = training(path=tmp_path / "t.zarr", stages=stages)
    assert resumed.steps_done == done and resumed.run() == whole


def quadratic(centre, curvature, raw, reported=1.0, rows=100):
    """Return the evaluation of ½ (raw − centre)ᵀ A (raw − centre), per row, with A reported by a factor."""
    gradient = curvature @ (raw - centre)
    return Evaluation(gradient, np.nan, None, 0.0, information=reported * curvature, rows=rows)


def test_a_quadratic_is_solved_in_one_step_but_for_damping_and_a_long_step_is_cut():
    centre = torch.tensor([30.0, 0.4, -5.0], dtype=torch.float64)
    curvature = torch.diag(torch.tensor([1e-9, 2.0, 3.0], dtype=torch.float64))
    of = Scoring(torch.zeros(3, dtype=torch.float64), [(None, None)] * 3, n=100, settled=1e-6)
    places = []
    assert of.run(lambda raw: quadratic(centre, curvature, raw), lambda move: not places.append(move.after))
    assert places[0].tolist() == pytest.approx([30.0, 0.4, -1.0], rel=0.01)  # the mean has any unit; others move by 1
    torch.testing.assert_close(of.raw, centre, rtol=1e-4, atol=1e-4)
    assert "less than 1e-06" in of.message


def test_near_the_optimum_a_wrong_curvature_is_corrected_by_what_steps_show():
    centre, curvature = torch.tensor([0.0, 0.3], dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    of, moves = Scoring(torch.zeros(2, dtype=torch.float64), [(None, None)] * 2, n=100, settled=1e-9), []

    def count(move):
        moves.append(move)
        return len(moves) < 30

    # four times the curvature would make steps of a quarter: 30 of them leave 2e-4 of the distance
    assert of.run(lambda raw: quadratic(centre, curvature, raw, reported=4.0), count)
    assert len(moves) < 8
    torch.testing.assert_close(of.raw, centre, rtol=0, atol=1e-5)


def test_a_correction_reproduces_the_change_of_the_gradient_and_is_left_out_where_it_is_not_credible():
    generator = torch.Generator().manual_seed(3)
    root = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    information, moved = root @ root.T, torch.randn(5, generator=generator, dtype=torch.float64)
    information[0, 1:] = information[1:, 0] = 0.0
    change = 2.0 * information @ moved
    found = corrected(information, moved, change)
    torch.testing.assert_close(found[1:, 1:] @ moved[1:], change[1:])
    assert torch.linalg.eigvalsh(found).min() > 0
    for wrong in (-change, 100.0 * change, torch.zeros(5, dtype=torch.float64)):
        assert torch.equal(corrected(information, moved, wrong), information)


def test_steps_that_overshoot_are_no_end():
    centre, curvature = torch.tensor([0.0, 40.0], dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    of, moves = Scoring(torch.zeros(2, dtype=torch.float64), [(None, None)] * 2, n=100, settled=1e-9), []

    def count(move):
        moves.append(float((move.after - move.before)[1].abs()))
        return len(moves) < 10

    # far away a step is cut to 1, whatever it is expected to gain
    assert not of.run(lambda raw: quadratic(centre, curvature, raw, reported=0.3), count)
    assert moves == pytest.approx([1.0] * 10)


def test_an_information_that_is_not_finite_is_named_and_the_steps_before_it_are_kept(monkeypatch):
    def diverged(system, solver, **settings):
        found = apviz.solvers.attempt(system, solver, **settings)
        return replace(found, weights=found.weights * torch.inf)

    class Then(apviz.TrainingHook):
        def on_step(self, step, settings):
            monkeypatch.setattr("apviz.gp.training.information.attempt", diverged)

    with pytest.raises(apviz.TrainingError, match=r"step 2: the information is not finite; .* 1 steps before it"):
        training(60).run([Then()])


def test_exact_steps_on_shares_of_the_rows_are_rejected():
    with pytest.raises(ValueError, match=r"stages must be \(\), because exact steps use all rows, got \(\(0.5, 2\),\)"):
        apviz.TrainingSettings(optimiser="scoring", estimator="exact", stages=((0.5, 2),))


def test_scoring_on_ranks_is_rejected_before_any_work(monkeypatch):
    monkeypatch.setattr("apviz.gp.training.training.current", lambda: object())
    with pytest.raises(ValueError, match="optimiser must be adam on ranks: scoring runs in one process, got 'scoring'"):
        training(60)


def test_a_training_in_float32_that_iterates_resumes_from_the_same_weights(tmp_path):
    """The weights of the last step are in float64, whatever the dtype of the solves."""

    def training(steps, path=None):
        x, y = data(150)
        settings = apviz.TrainingSettings(optimiser="scoring", steps=steps, max_epochs=1, noise_floor=1e-4)
        return apviz.Training(x, y, settings, path=path, dtype=torch.float32, device=DEVICE)

    whole = training(4).run()
    training(2, tmp_path / "t.zarr").run()
    resumed = training(4, tmp_path / "t.zarr")
    assert resumed.steps_done == 2 and resumed.run() == whole


def test_a_curvature_that_is_too_large_is_corrected_far_from_the_optimum_where_values_are_known():
    """A gradient from probes has errors that are larger there than what the curvature changes."""

    def steps_with(value):
        target, taken = torch.tensor([0.0, 4.0, -3.0], dtype=torch.float64), []

        def evaluate(raw):
            away = raw - target
            found = 50.0 * away.square().sum() if value else torch.tensor(torch.nan)
            information = torch.diag(torch.tensor([100.0, 400.0, 400.0], dtype=torch.float64))  # 4 times too large
            return Evaluation(100.0 * away, float(found), None, 0.0, information=information, rows=100)

        scoring = Scoring(torch.zeros(3, dtype=torch.float64), [(None, None)] * 3, n=100, settled=0.05)
        scoring.run(evaluate, lambda move: taken.append(move) or len(taken) < 60)
        assert scoring.raw.tolist() == pytest.approx(target.tolist(), abs=0.1)
        return len(taken)

    assert steps_with(value=True) < steps_with(value=False)
