"""Simple, ordinary and universal kriging against PyKrige and GSTools on 1,000 rows, and dense algebra on few."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import apviz
from apviz.gp import Variogram
from tests.gp.kriging_references import CASES, FILE, MEAN, Case, computed, kriging_of_pykrige, problem

KEPT = json.loads(FILE.read_text(encoding="utf-8"))
MODEL = Variogram("matern", sill=2.0, range=0.3, nugget=0.05, nu=1.5, convention="gstools", anis=0.5, angles=0.7)


def variogram(case: Case) -> Variogram:
    """Return the variogram of a case, from the words of its package."""
    k = case.numbers
    if case.package == "gstools":
        return Variogram(
            case.model.lower(), sill=k["var"] + k["nugget"], range=k["len_scale"], nugget=k["nugget"], nu=k.get("nu"),
            convention="gstools", anis=k.get("anis", ()), angles=k.get("angles", ()),
        )  # fmt: skip
    return Variogram(
        case.model, sill=k["psill"] + k["nugget"], range=k["range"], nugget=k["nugget"], convention="pykrige",
        anis=[k[name] for name in k if "scaling" in name], angles=[k[name] for name in k if "angle" in name],
    )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_means_and_variances_are_those_of_the_package(name):
    case = CASES[name]
    x, y, z = problem(case)
    if "latlon" in case.numbers:
        x, z = (apviz.datasets.points_on_sphere(*each.T) for each in (x, z))
    mean = MEAN if case.drift is None else None
    kriging = apviz.Kriging(x, y, variogram(case), drift=case.drift, mean=mean, device="cpu")
    found = kriging.predict(z, include_noise=True)
    np.testing.assert_allclose(found, KEPT[name], rtol=1e-7)


@pytest.mark.parametrize("name", ["linear drift, Matern-5/2, rotated", "linear drift, Gaussian of PyKrige"])
def test_the_kept_numbers_are_those_of_the_installed_package(name):
    pytest.importorskip(CASES[name].package)
    np.testing.assert_allclose(computed(CASES[name]), KEPT[name], rtol=1e-7)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.package == "pykrige"])
def test_the_variogram_of_an_object_of_pykrige_is_read(name):
    pytest.importorskip("pykrige")
    ours, theirs = variogram(CASES[name]), Variogram.from_pykrige(kriging_of_pykrige(CASES[name], rows=20))
    assert theirs == ours if CASES[name].drift == "constant" else theirs.kernel == ours.kernel


# --- dense algebra ----------------------------------------------------------------------------------------------------


def rows(n: int = 150):
    rng = np.random.default_rng(0)
    x, z = rng.uniform(10.0, 11.0, (n, 2)), rng.uniform(9.5, 12.0, (20, 2))
    return x, 3.0 + x[:, 0] + np.sin(9 * x[:, 1]) + 0.2 * rng.standard_normal(n), z


def monomials(x: np.ndarray, degree: int) -> np.ndarray:
    a, b = (x - 10.5).T
    return np.stack([a**0, a, b, a * a, a * b, b * b][: (degree + 1) * (degree + 2) // 2], 1)


def universal(x, y, z, f, f_star):
    """Return the mean and variance of kriging, the drift and its variance, by inverses."""
    kernel = MODEL.kernel
    x, z = torch.from_numpy(x), torch.from_numpy(z)
    inverse = np.linalg.inv(kernel(x).numpy() + MODEL.nugget * np.eye(len(x)))
    c = kernel(x, z).numpy()
    covariance = np.linalg.inv(f.T @ inverse @ f)
    beta = covariance @ f.T @ inverse @ y
    u = f_star - c.T @ inverse @ f
    variance = MODEL.psill - np.einsum("im,ij,jm->m", c, inverse, c) + np.einsum("mi,ij,mj->m", u, covariance, u)
    return f_star @ beta + c.T @ inverse @ (y - f @ beta), variance, f_star @ beta


@pytest.mark.parametrize(("drift", "degree"), [("constant", 0), ("linear", 1), ("quadratic", 2)])
@pytest.mark.parametrize("settings", [{}, {"dtype": torch.float32}, {"solver": apviz.ConjugateGradient(tol=1e-5)}])
def test_universal_kriging_is_generalised_least_squares(drift, degree, settings):
    x, y, z = rows()
    kriging = apviz.Kriging(x, y, MODEL, drift=drift, device="cpu", **settings)
    mean, variance, trend = universal(x, y, z, monomials(x, degree), monomials(z, degree))
    found_mean, found_variance = kriging.predict(z)
    assert (np.abs(found_mean - mean) <= 1e-7 + kriging.mean_error * np.sqrt(variance)).all()
    assert kriging.mean_error < 0.05
    np.testing.assert_allclose(found_variance, variance, rtol=0.01 if settings else 1e-8)
    np.testing.assert_allclose(kriging.drift(z), trend, rtol=1e-3 if settings else 1e-9)


def test_a_function_adds_its_columns_to_the_constant():
    x, y, z = rows()
    kriging = apviz.Kriging(x, y, MODEL, drift=lambda x: (x - 10.5) ** 3, device="cpu")
    f, f_star = (np.column_stack([np.ones(len(each)), (each - 10.5) ** 3]) for each in (x, z))
    mean, variance, _ = universal(x, y, z, f, f_star)
    np.testing.assert_allclose(kriging.predict(z), (mean, variance), rtol=1e-8)
    assert kriging.coefficients.shape == (3,)
    assert kriging.covariance.shape == (3, 3)


def test_a_target_on_the_drift_is_predicted_on_it_everywhere():
    x, _, z = rows()
    kriging = apviz.Kriging(x, 2.0 - 3.0 * x[:, 0] + 5.0 * x[:, 1] ** 2, MODEL, drift="quadratic", device="cpu")
    np.testing.assert_allclose(kriging.mean(100 * z), 2.0 - 300.0 * z[:, 0] + 5e4 * z[:, 1] ** 2, rtol=1e-8)


def test_a_given_solver_is_used_as_given_and_warns_if_it_is_rough():
    x, y, _ = rows()
    with pytest.warns(UserWarning) as told:
        kriging = apviz.Kriging(x, y, MODEL, drift="linear", solver=apviz.ConjugateGradient(tol=0.3), device="cpu")
    assert any("kriging means may be off by up to" in str(each.message) for each in told)
    assert kriging.mean_error > 0.1


def test_errors_of_means_stay_below_the_bound_where_the_solver_is_rough():
    x, y, z = rows()
    with pytest.warns(UserWarning):
        kriging = apviz.Kriging(x, y, MODEL, drift="linear", solver=apviz.ConjugateGradient(tol=0.1), device="cpu")
    mean, variance, _ = universal(x, y, z, monomials(x, 1), monomials(z, 1))
    off = np.abs(kriging.mean(z) - mean) / np.sqrt(variance)
    assert 1e-6 < off.max() <= kriging.mean_error


def test_simple_kriging_is_the_posterior():
    x, y, z = rows()
    h = MODEL.hyperparameters(mean=4.0)
    posterior = apviz.Posterior(x, y, h, device="cpu")
    for kriging in (
        apviz.Kriging(x, y, h, drift=None, device="cpu"), apviz.Kriging(x, y, MODEL, drift=None, mean=4.0, device="cpu")
    ):  # fmt: skip
        mean, variance = kriging.predict(z)
        np.testing.assert_allclose(mean, posterior.mean(z), rtol=1e-12)
        np.testing.assert_allclose(variance, posterior.variance(z), rtol=1e-9)
        assert (kriging.drift(z) == 4.0).all()


def test_basis_functions_that_depend_on_each_other_are_refused():
    x, y, _ = rows()
    on_a_line = np.column_stack([x[:, 0], 2 * x[:, 0] - 1])
    for given, drift in ((on_a_line, "linear"), (x[:3], "linear"), (x, lambda x: np.ones(len(x)))):
        with pytest.raises(ValueError, match=r"basis functions depend on each other at the \d+ training rows"):
            apviz.Kriging(given, y[: len(given)], MODEL, drift=drift, device="cpu")


def test_the_example_of_the_guide_runs():
    text = (Path(__file__).parents[2] / "docs/guide/kriging.md").read_text("utf-8")
    names: dict[str, Any] = {}
    code = text.split("```python")[1].split("```")[0].replace("2000", "100")
    exec(code, names)
    assert str(names["model"].in_convention("gstools")) in text
    assert names["fitted"].convention == "pykrige"


def test_unknown_drifts_and_a_known_mean_next_to_a_drift_are_refused():
    x, y, _ = rows(20)
    with pytest.raises(ValueError, match="drift must be one of constant, linear, quadratic, a function"):
        apviz.Kriging(x, y, MODEL, drift="cubic", device="cpu")
    with pytest.raises(ValueError, match="mean must be None with a drift"):
        apviz.Kriging(x, y, MODEL, mean=1.0, device="cpu")
    with pytest.raises(ValueError, match=r"drift must return finite numbers of shape \(20, q\)"):
        apviz.Kriging(x, y, MODEL, drift=lambda x: np.ones(3), device="cpu")
