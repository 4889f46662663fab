"""Trainings by L-BFGS, and of any kernel: what they find, record and resume from."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as theirs

import apviz
from apviz.gp.training.objectives import ExactLikelihood
from apviz.gp.training.settings import settings_of
from apviz.gp.training.starts import further_start
from apviz.tracing.opening import check_complete
from apviz.tracing.training_trace import settled_at
from tests.device import DEVICE
from tests.gp.small_trainings import CHOLESKY, data

SUM = 0.5 * apviz.Matern52(lengthscale=0.4).on(0) + apviz.Periodic(lengthscale=0.8, period=0.9).on(1)


def training(path=None, initial=None, n=80, **settings):
    x, y = data(n)
    settings = {"optimiser": "l-bfgs", "steps": 200, "until_settled": True, **settings}
    return apviz.Training(
        x, y, apviz.TrainingSettings(**settings), path=path, initial=initial, dataset="sine", device=DEVICE
    )


@pytest.fixture(scope="module")
def settled(tmp_path_factory):
    """Return a training until it has settled, and the path of its trace."""
    path = tmp_path_factory.mktemp("settled") / "t.zarr"
    found = training(path)
    found.run()
    return found, path


def log_likelihood(h, n=80):
    """Return the log marginal likelihood by dense algebra."""
    x, y = (each.numpy() for each in data(n))
    k = h.build_kernel()(torch.tensor(x)).numpy() + h.noise * np.eye(n)
    r = y - h.mean
    return -0.5 * (r @ np.linalg.solve(k, r) + np.linalg.slogdet(k)[1] + n * np.log(2 * np.pi))


def test_l_bfgs_finds_the_optimum_of_scikit_learn_in_few_evaluations(settled):
    x, y = (each.numpy() for each in data())
    kernel = theirs.ConstantKernel() * theirs.Matern([1.0, 1.0], nu=2.5) + theirs.WhiteKernel()
    model = GaussianProcessRegressor(kernel, alpha=0).fit(x, y - y.mean())
    found, h = settled[0], settled[0].hyperparameters
    # ours also fits a mean
    assert log_likelihood(h) > model.log_marginal_likelihood_value_ - 0.05
    assert found.settled_at == found.steps_done < 60
    assert found.trace["step"]["epochs"].sum() < 100


def test_at_the_end_no_small_change_of_a_parameter_raises_the_likelihood(settled):
    h = settled[0].hyperparameters
    for name, value in [*h.build_kernel().numbers.items(), ("noise", h.noise)]:
        lower, upper = (at(h, name, value * factor) for factor in (0.99, 1.01))
        most = log_likelihood(h)
        assert most > log_likelihood(lower) - 0.05 and most > log_likelihood(upper) - 0.05


def at(h, name, value):
    if name == "noise":
        return apviz.Hyperparameters.of(h.build_kernel(), value, h.mean)
    numbers = h.build_kernel().numbers | {name: value}
    return apviz.Hyperparameters.of(h.build_kernel().with_numbers(list(numbers.values())), h.noise, h.mean)


def test_the_trace_of_l_bfgs_has_values_that_never_rise_and_the_reason_for_its_end(settled):
    h, trace = settled[0].hyperparameters, apviz.open_trace(settled[1])
    check_complete(trace)
    steps, values = trace["step"], trace["step"]["negative_log_likelihood"].values
    first = trace.hyperparameters_at(1)
    assert values[0] == pytest.approx(-log_likelihood(first) / 80, rel=1e-9)
    assert values[-1] - steps["gain"].values[-1] == pytest.approx(-log_likelihood(h) / 80, rel=1e-9)
    assert (np.diff(values) < 0).all()
    assert trace.finished and trace.outcome == "settled" and trace.converged
    assert trace.hyperparameters == h and "iterations of L-BFGS with Cholesky" in h.provenance
    found = apviz.diagnose(trace)
    assert "L-BFGS no longer increases the likelihood" in found.evidence


def test_a_settled_training_does_not_resume_and_an_unfinished_one_resumes_at_its_last_point(settled, tmp_path):
    cut = training(tmp_path / "t.zarr", steps=3)
    cut.run()
    assert cut.steps_done == 3 and cut.trace.outcome == "finished"
    more = training(tmp_path / "t.zarr")
    assert more.steps_done == 3 and more.hyperparameters == cut.hyperparameters
    h = more.run()
    assert more.steps_done > 3 and log_likelihood(h) == pytest.approx(
        log_likelihood(settled[0].hyperparameters), abs=0.01
    )
    again = training(tmp_path / "t.zarr", steps=1000)
    steps = again.steps_done
    assert again.run() == h and again.steps_done == steps


def test_starting_at_the_optimum_takes_at_most_two_steps():
    h = training(noise_floor=1e-6).run()
    again = training(initial=h, noise_floor=1e-6)
    moved = again.run()
    assert again.steps_done <= 2 and moved.noise == pytest.approx(h.noise, rel=0.02)


def test_a_hook_can_stop_a_training_within_a_step_and_is_called_for_every_solve():
    class Stop(apviz.TrainingHook):
        solves = steps = 0

        def on_start(self, run):
            self.solves += 1
            if self.solves == 8:
                run.request_stop("enough")

        def on_step(self, step, settings):
            self.steps += 1

    stop, cut = Stop(), training()
    cut.run([stop])
    assert not cut.finished and cut.trace.attrs["stop_message"].startswith("stopped: ")
    assert cut.steps_done == stop.steps > 0 and stop.solves == 8
    assert int(cut.trace["step"]["epochs"].sum()) <= 7


def test_the_search_avoids_points_without_a_factor_and_a_start_without_one_raises():
    x = torch.linspace(0, 1, 60, dtype=torch.float64)[:, None]
    settings = apviz.TrainingSettings(
        kernel="rbf", optimiser="l-bfgs", steps=100, until_settled=True, noise_floor=0.0
    )  # fmt: skip
    smooth = apviz.Training(x, torch.sin(3 * x[:, 0]), settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        h = smooth.run()
    assert smooth.steps_done > 3 and 0 < h.noise < 1e-4
    start = apviz.Hyperparameters("rbf", (10.0,), 1e4, 1e-15)
    with pytest.raises(apviz.TrainingError, match="training step 1: K with noise 1e-12 has no Cholesky factor"):
        apviz.Training(x, torch.sin(3 * x[:, 0]), settings, initial=start).run()


@pytest.mark.parametrize("multiple", [0.01, 1.0, 100.0])
def test_a_season_is_fitted_whatever_the_units_and_not_taken_for_noise(multiple):
    """From the median distance, 25 times what is right, the nearest optimum has a noise of 0.5."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 300)
    y = np.sqrt(2) * np.sin(10 * np.pi * x) + 0.3 * rng.standard_normal(300)
    settings = apviz.TrainingSettings(optimiser="l-bfgs", until_settled=True)
    h = apviz.Training(multiple * x[:, None], torch.tensor(y), settings).run()
    assert 0.06 < h.noise < 0.13
    assert 0.03 * multiple < h.lengthscale[0] < 0.3 * multiple


@pytest.mark.slow
def test_further_starts_find_an_optimum_that_the_first_start_misses():
    """For a periodic target, the likelihood has an optimum at each multiple of the period, and others in between."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 4, 60)[:, None]
    y = np.sin(2 * np.pi * x[:, 0] / 0.5) + 0.1 * rng.standard_normal(60)
    kernel = apviz.Periodic(lengthscale=1.0, period=1.9)

    def period(restarts):
        settings = apviz.TrainingSettings(
            kernel=kernel, optimiser="l-bfgs", until_settled=True, search_rows=60, restarts=restarts
        )
        return apviz.Training(x, torch.tensor(y), settings).run().build_kernel().period

    assert abs(0.5 / period(0) % 1) > 0.01
    found = period(12)
    assert min(found / 0.5 % 1, 1 - found / 0.5 % 1) < 0.01


def test_adam_starts_at_the_optimum_of_few_rows_too():
    plain, searched = (training(optimiser="adam", solver=CHOLESKY, n=300, search_rows=rows) for rows in (0, 100))
    first, second = plain.run(), searched.run()
    assert searched.steps_done < plain.steps_done
    assert log_likelihood(second, 300) > log_likelihood(first, 300) - 3.0


def test_the_trace_records_the_cost_of_the_search_for_a_start_outside_its_steps(tmp_path, monkeypatch):
    taken, evaluate = [], ExactLikelihood.evaluate

    def counted(*args):
        found = evaluate(*args)
        taken.append(found.work)
        return found

    monkeypatch.setattr(ExactLikelihood, "evaluate", counted)
    of_adam = {"optimiser": "adam", "solver": CHOLESKY, "n": 300, "steps": 4, "until_settled": False}
    training(tmp_path / "t.zarr", search_rows=100, restarts=2, **of_adam).run()
    trace = apviz.open_trace(tmp_path / "t.zarr")
    # each evaluation reads 100² entries at least once, and 300² entries are work 1.0
    assert len(taken) > 10 and trace.search_work == pytest.approx(sum(taken) / 9) and trace.search_work > len(taken) / 9
    assert trace.attrs["search_seconds"] > 0 and trace.work == trace.search_work + float(trace["step"]["work"].sum())
    # as lists of runs show it
    assert trace.attrs["work"] == pytest.approx(trace.work) and trace.attrs["seconds"] == pytest.approx(trace.seconds)
    assert f"{trace.search_work:.3g} of it in the search for a start" in trace.work_words
    plain = training(**of_adam)
    plain.run()
    assert plain.trace.search_work == 0 and plain.trace.work == float(plain.trace["step"]["work"].sum())
    assert "search" not in plain.trace.work_words


# --- any kernel -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimiser", ["adam", "l-bfgs"])
def test_all_parameters_of_a_sum_are_trained_and_recorded_by_name(tmp_path, optimiser):
    found = training(tmp_path / "t.zarr", kernel=SUM, optimiser=optimiser, solver=CHOLESKY, steps=4, probes=5)
    h = found.run()
    assert all(a != b for a, b in zip(h.kernel.numbers.values(), SUM.numbers.values(), strict=True))
    trace = apviz.open_trace(tmp_path / "t.zarr")
    check_complete(trace)
    assert trace["step"]["kernel_number"].attrs["names"] == list(SUM.numbers)
    np.testing.assert_allclose(trace["step"]["kernel_number"].values[0], list(SUM.numbers.values()), rtol=1e-12)
    assert "lengthscale" not in trace["step"] and trace.attrs["kernel"] == repr(SUM)
    assert trace.hyperparameters == h and settings_of(trace) == found.settings
    third = trace.hyperparameters_at(3)
    assert list(third.kernel.numbers.values()) == trace["step"]["kernel_number"].values[2].tolist()
    assert apviz.diagnose(trace) is not None


def test_adam_on_a_sum_resumes_from_a_checkpoint_with_the_same_result(tmp_path):
    settings = {"kernel": SUM, "optimiser": "adam", "solver": CHOLESKY, "until_settled": False}
    training(tmp_path / "t.zarr", steps=3, **settings).run()
    longer = training(tmp_path / "t.zarr", steps=6, **settings)
    assert longer.steps_done == 3 and longer.run() == training(steps=6, **settings).run()
    training(tmp_path / "t.zarr", steps=6, **settings).run()  # without another step
    assert apviz.open_trace(tmp_path / "t.zarr")["step"]["kernel_number"].attrs["names"] == list(SUM.numbers)
    with pytest.raises(ValueError, match="belongs to another training: kernel was .*, is .*"):
        training(tmp_path / "t.zarr", steps=6, **settings | {"kernel": SUM + apviz.Linear()})


def test_the_first_step_of_adam_has_the_signs_of_the_gradient_of_scikit_learn():
    x, y = data()
    kernel = theirs.Matern(0.4, nu=2.5) + theirs.DotProduct(0.5) + theirs.WhiteKernel(0.1)
    mine, noise = apviz.kernels.from_sklearn(kernel, 2)
    settings = apviz.TrainingSettings(kernel=mine, solver=CHOLESKY, steps=1, probes=4000, noise_floor=0.0)
    found = apviz.Training(x, y, settings, initial=apviz.Hyperparameters.of(mine, noise))
    found.run()
    model = GaussianProcessRegressor(kernel, alpha=0, optimizer=None).fit(x.numpy(), y.numpy())
    slopes = model.log_marginal_likelihood(kernel.theta, eval_gradient=True)[1]
    # the first step of Adam has the signs of the gradient, and the step size in every entry
    moved = {name: value - mine.numbers[name] for name, value in found.hyperparameters.build_kernel().numbers.items()}
    assert np.sign(moved["0.lengthscale"]) == np.sign(slopes[0])
    assert np.sign(moved["2.outputscale"]) == np.sign(slopes[1])  # σ₀², the constant added to the linear kernel
    assert np.sign(found.hyperparameters.noise - noise) == np.sign(slopes[2])


def test_alpha_is_trained_for_a_kernel_object_and_fixed_for_a_kernel_name():
    given = training(kernel=apviz.RationalQuadratic(lengthscale=(0.5, 0.5), alpha=0.4), steps=5).run()
    assert given.kernel == "rational-quadratic" and given.kernel_parameters["alpha"] != 0.4
    assert training(kernel="rational-quadratic", steps=5).run().kernel_parameters["alpha"] == 1.0


def test_a_custom_kernel_is_trained_and_its_trace_cannot_rebuild_it(tmp_path):
    class Own(apviz.Stationary):
        distance_scale = 1.0

        def correlation_(self, u, spare):
            return u.add_(1.0).reciprocal_()

        def slope(self, u):
            return -((1.0 + u) ** -2)

    found = training(tmp_path / "t.zarr", kernel=Own(lengthscale=0.5), steps=3)
    h = found.run()
    assert type(h.kernel) is Own and h.kernel.lengthscale != 0.5
    trace = apviz.open_trace(tmp_path / "t.zarr")
    assert "Own" in trace.attrs["kernel"] and trace["step"]["kernel_number"].shape == (3, 2)
    with pytest.raises(ValueError, match="kernel must be one of matern12"):
        trace.hyperparameters.build_kernel()


def test_figures_of_a_sum_draw_the_lengthscales_of_its_parts_and_raise_if_there_are_none():
    trace = run(kernel=SUM, steps=3)
    figure = apviz.plots.lengthscales(trace)
    assert sorted(line.name for line in figure.data) == ["0.lengthscale", "1.lengthscale"]
    assert figure.layout.xaxis.title.text == "step"
    assert apviz.plots.training(trace).data
    with pytest.raises(ValueError, match=r"the kernel Constant\(.*\) has no lengthscales; trace\['step'\]"):
        apviz.plots.lengthscales(run(kernel=apviz.Constant(), steps=2))


def run(**settings):
    found = training(**settings)
    found.run()
    return found.trace


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"optimiser": "sgd"}, "optimiser must be one of adam, scoring, l-bfgs, got 'sgd'"),
        (
            {"restarts": 2},
            "search_rows must be a positive number of rows, such as 500, on which restarts are compared, got 0",
        ),
        ({"kernel": 3}, r"kernel must be one of matern12, .*, or a kernel such as apviz.Matern52\(\), got 3"),
    ],
)
def test_a_setting_out_of_range_is_rejected(setting, message):
    with pytest.raises(ValueError, match=message):
        apviz.TrainingSettings(**setting)


# --- when a training has settled --------------------------------------------------------------------------------------


def test_with_known_gains_it_has_settled_after_five_steps_of_little_gain_and_steady_noise():
    rest, n = np.full(12, 0.1), 10_000
    gain = np.array([1e-2] * 4 + [1e-5] * 7)
    assert settled_at(rest, gain, n) == 9
    assert settled_at(rest, np.full(11, 1e-3), n) is None
    assert settled_at(rest, np.full(11, -1e-3), n) is None
    # models that differ by less than half a nat are equivalent, and estimated gains change sign
    assert settled_at(rest, np.full(11, 9e-4), n=100) == 5
    assert settled_at(rest, 4e-4 * (-1.0) ** np.arange(11), n) == 5
    assert settled_at(0.1 * 1.02 ** np.arange(12), gain, n) is None
    assert settled_at(rest * (1 + 0.03 * (np.arange(12) % 2)), gain, n) == 9


def test_steps_with_unknown_gain_are_judged_by_the_noise_alone():
    noise = np.full(12, 0.1)
    gain = np.array([np.nan] * 6 + [1e-5] * 5)
    assert settled_at(noise, gain, 1000) == settled_at(noise) == 5
    assert json.dumps(settled_at(noise)) == "5"


def test_further_starts_differ_and_lie_within_narrow_bounds():
    first, bounds = torch.tensor([0.0, 0.0, 1.0, 5.0]).double(), [(None, None), (-0.1, 0.1), (0.9, 30.0), (4.0, 5.0)]
    generator = torch.Generator().manual_seed(0)
    starts = torch.stack([further_start(first, bounds, generator) for _ in range(50)])
    assert all(len(column.unique()) == 50 for column in starts.T)
    for column, (low, high) in zip(starts.T[1:], bounds[1:], strict=True):
        assert (column >= low).all() and (column <= high).all()
