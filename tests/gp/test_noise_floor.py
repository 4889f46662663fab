"""The noise floor of the estimator: as low as float64 bears, relative to the target, and named where it binds."""

import re
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import apviz
from apviz.gp.estimator import choices, noise_floor


def without_noise(n=60):
    x = np.random.default_rng(0).uniform(size=(n, 1))
    return x, np.sin(8 * x[:, 0])


def test_a_noise_on_its_floor_is_named_with_a_smaller_one():
    with pytest.warns(ConvergenceWarning, match=r"σ² = 1e-06 is on its lower bound, .* noise_floor=1e-08 may predict"):
        apviz.GaussianProcess("rbf", scale=True).fit(*without_noise())


def test_a_training_in_float32_on_its_floor_names_float64_too_because_rounding_hides_less_noise():
    with pytest.warns(ConvergenceWarning, match=r"noise_floor=1e-06, dtype='float64' may predict better"):
        apviz.GaussianProcess("matern12", optimiser="scoring", dtype="float32", device="cpu").fit(*without_noise(150))


@pytest.fixture
def iterative(monkeypatch):
    """Train more than 100 rows by scoring in float32, and continue with 120 of them in float64."""
    monkeypatch.setattr(choices, "CHOLESKY_ROWS", 100)
    monkeypatch.setattr(noise_floor, "FACTORED_ROWS", 120)


def nearly_without_noise(sd, n=150):
    x, y = without_noise(n)
    return x, y + sd * np.random.default_rng(1).normal(size=n)


def test_noise_below_the_floor_of_float32_is_found_in_float64_on_some_of_the_rows(iterative, tmp_path):
    x, y = nearly_without_noise(0.003)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        gp = apviz.GaussianProcess("rbf", device="cpu", scale=False, path=tmp_path / "t.zarr").fit(x, y)
    assert gp.hyperparameters_.noise**0.5 == pytest.approx(0.003, rel=0.2)
    assert re.search(r"on 120 rows in float64, after \d+ in float32 on 150 rows$", gp.hyperparameters_.provenance)
    first = apviz.open_trace(tmp_path / "t.zarr")
    noise = first["step"]["noise"].values
    assert (noise <= 1.1 * 1e-4 * y.var(ddof=1)).sum() == 2  # it takes no further steps there
    assert first.attrs["stop_message"] == "stopped: σ² is on the floor of float32; the training continues in float64"
    again = apviz.GaussianProcess("rbf", device="cpu", scale=False, path=tmp_path / "t.zarr").fit(x, y)
    assert again.hyperparameters_ == gp.hyperparameters_
    assert {each.name for each in tmp_path.glob("*.zarr")} == {"t.zarr", "t-float64.zarr"}


def test_a_noise_that_rises_from_the_floor_once_all_rows_are_used_is_not_cut_off(iterative):
    """The rows of the stage have no noise, the others do."""
    rng = np.random.default_rng(1)
    x, noise = rng.uniform(-1, 1, (400, 1)), 0.1 * rng.normal(size=400)
    noise[torch.randperm(400, generator=torch.Generator().manual_seed(0))[:100]] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        gp = apviz.GaussianProcess("matern52", device="cpu", stages=((0.25, 11),), max_steps=60)
        gp.fit(x, 1.4 * np.sin(4 * x[:, 0]) + noise)
    assert "float64" not in gp.hyperparameters_.provenance and gp.hyperparameters_.noise > 5e-3


class StopsAt(apviz.TrainingHook):
    """Asks once to stop, at the start of the solve after a step."""

    def __init__(self, step):
        self.step, self.done = step, 0

    def on_step(self, step, settings):
        self.done += 1

    def on_start(self, run):
        if self.done == self.step:
            self.step = None
            run.request_stop("time is over")


def test_a_stop_that_is_asked_for_on_the_floor_ends_the_training(iterative):
    with pytest.warns(UserWarning, match="the training was stopped by a hook after 9 of at most 200 steps"):
        gp = apviz.GaussianProcess("rbf", device="cpu", scale=False).fit(
            *nearly_without_noise(0.003), hooks=[StopsAt(9)]
        )
    assert "float64" not in gp.hyperparameters_.provenance
    assert gp.trace_.attrs["stop_message"] == "stopped: time is over"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("steps", [7, 8])
def test_a_training_cut_by_its_steps_on_the_floor_resumes_to_the_same_result(iterative, tmp_path, steps):
    def fit(path, **settings):
        gp = apviz.GaussianProcess("rbf", device="cpu", scale=False, path=path, **settings)
        return gp.fit(*nearly_without_noise(0.003)).hyperparameters_

    assert "float64" not in fit(tmp_path / "t.zarr", max_steps=steps).provenance
    assert fit(tmp_path / "t.zarr") == fit(None)


def test_a_trace_where_the_training_would_continue_is_refused_before_any_step(iterative, tmp_path):
    (tmp_path / "t-float64.zarr").mkdir()
    with pytest.raises(
        FileExistsError, match=r"t-float64.zarr exists, where a training at .* would continue in float64"
    ):
        apviz.GaussianProcess("rbf", device="cpu", path=tmp_path / "t.zarr").fit(*nearly_without_noise(0.003))
    assert not (tmp_path / "t.zarr").exists()


@pytest.mark.parametrize(
    "settings", [{"dtype": "float32"}, {"noise_floor": 1e-4}, {"solver": apviz.Cholesky()}, {"optimiser": "adam"}]
)
def test_settings_that_forbid_less_noise_keep_the_floor_and_a_warning_names_it(iterative, settings):
    x, y = nearly_without_noise(0.003)
    with pytest.warns(ConvergenceWarning, match="noise_floor = .* may predict better"):
        gp = apviz.GaussianProcess("rbf", device="cpu", scale=False, **settings).fit(x, y)
    assert "float64" not in gp.hyperparameters_.provenance


def test_a_model_of_so_many_rows_that_float64_bears_hardly_less_noise_keeps_the_floor(iterative, monkeypatch):
    x, y = nearly_without_noise(0.003)
    monkeypatch.setattr(noise_floor, "CERTIFIED_ROWS", 30)
    with pytest.warns(ConvergenceWarning, match="noise_floor = .* may predict better"):
        gp = apviz.GaussianProcess("rbf", device="cpu", scale=False).fit(x, y)
    assert "float64" not in gp.hyperparameters_.provenance


@pytest.mark.parametrize("settings", [{"dtype": "float64"}, {"trace_estimator": "exact"}])
def test_a_training_in_float64_has_its_floor(iterative, settings):
    x, y = nearly_without_noise(0.003)
    gp = apviz.GaussianProcess("rbf", device="cpu", scale=False, **settings).fit(x, y)
    assert "float32" not in gp.hyperparameters_.provenance
    assert gp.hyperparameters_.noise**0.5 == pytest.approx(0.003, rel=0.2)


def test_the_likelihood_does_rise_below_a_floor_that_is_named():
    x, y = without_noise()
    with pytest.warns(ConvergenceWarning, match="is on its lower bound"):
        gp = apviz.GaussianProcess("rbf").fit(x, y)
    lower = gp.theta_.copy()
    lower[0] -= 0.1  # the logarithm of σ²
    assert gp.log_marginal_likelihood(lower) > gp.log_marginal_likelihood_value_


def test_data_with_noise_do_not_warn():
    x, y = without_noise()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        gp = apviz.GaussianProcess("rbf").fit(x, y + 0.1 * np.random.default_rng(1).normal(size=60))
    assert gp.hyperparameters_.noise > 1e-3


def test_the_default_predicts_data_without_noise_better_than_the_floor_of_the_paper():
    (x, y), z = without_noise(), np.linspace(0.1, 0.9, 50)[:, None]
    errors = []
    for floor in ("auto", 1e-4):
        with pytest.warns(ConvergenceWarning, match="lower bound"):
            gp = apviz.GaussianProcess("rbf", noise_floor=floor).fit(x, y)
        errors.append(np.abs(gp.predict(z) - np.sin(8 * z[:, 0])).max())
    assert errors[0] < errors[1] / 3


@pytest.mark.parametrize("unit", [0.1, 1e4])
def test_without_scaling_the_floor_has_the_units_of_the_target(unit):
    x, y = without_noise()
    with pytest.warns(ConvergenceWarning, match="lower bound"):
        gp = apviz.GaussianProcess("rbf", scale=False).fit(x, unit * y)
    assert gp.hyperparameters_.noise / unit**2 == pytest.approx(1e-6 * y.var(ddof=1), rel=0.01)


@pytest.mark.parametrize("floor", [-1.0, "low", None])
def test_another_floor_is_rejected(floor):
    with pytest.raises(ValueError, match="noise_floor must be a number, at least 0, or 'auto'"):
        apviz.GaussianProcess(noise_floor=floor).fit(*without_noise())
