"""`apviz fit` in the words of kriging: variograms, and latitude and longitude, against dense algebra."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import apviz
from apviz import cli

R = 6371.0
RNG = np.random.default_rng(0)
PLANE = pd.DataFrame({"east": RNG.uniform(0, 900, 80), "north": RNG.uniform(0, 300, 80)})
PLANE["z"] = np.sin(PLANE["east"] / 90) + 0.1 * RNG.standard_normal(80)
GLOBE = pd.DataFrame({"year": RNG.uniform(0, 9, 90), "lon": RNG.uniform(160, 200, 90), "lat": RNG.uniform(-60, 60, 90)})
GLOBE["lon"] -= 360 * (GLOBE["lon"] > 180)  # across the date line
GLOBE["t"] = 20 * np.cos(np.radians(GLOBE["lat"])) + 0.3 * RNG.standard_normal(90)
VARIOGRAM = ("--variogram", "exponential", "--sill", "2", "--range", "300", "--nugget", "0.1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("kriging")
    PLANE.to_csv(folder / "plane.csv", index=False)
    GLOBE.to_csv(folder / "globe.csv", index=False)
    return folder


def run(folder: Path, *words: object, code: int = 0) -> str:
    done = CliRunner().invoke(
        cli.app, [str(folder / word) if str(word).endswith((".csv", ".apviz", ".nc")) else str(word) for word in words]
    )
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def fit(folder: Path, table: str, target: str, *words: object, code: int = 0) -> str:
    return run(folder, "fit", table, "--target", target, "--out", "m.apviz", "--force", "--check", 0, *words, code=code)


def krige(k, x, y, z, nugget):
    """Return the posterior mean and standard deviation for a covariance of differences, with the mean of y."""
    inverse = np.linalg.inv(k(x[:, None] - x[None]) + nugget * np.eye(len(x)))
    c = k(x[:, None] - z[None])
    variance = k(np.zeros(x.shape[1])) - np.einsum("im,ij,jm->m", c, inverse, c)
    return y.mean() + c.T @ inverse @ (y - y.mean()), np.sqrt(variance)


def points(frame: pd.DataFrame) -> np.ndarray:
    lat, lon = np.radians(frame["lat"]), np.radians(frame["lon"])
    return R * np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def test_a_given_variogram_with_rotated_axes_is_the_model_and_is_said_in_both_words(folder):
    text = fit(folder, "plane.csv", "z", *VARIOGRAM, "--convention", "pykrige", "--anis", "2", "--angles", "30")
    assert (
        "As a variogram (GSTools): Exponential, var = 1.9, len_scale = 100, nugget = 0.1, anis = 0.5, angles = 0.5"
        in text
    )
    assert (
        "As a variogram (PyKrige): exponential, psill = 1.9, range = 300, nugget = 0.1, anis = 2, angles = 30" in text
    )
    run(folder, "predict", "m.apviz", "plane.csv", "--out", folder / "p.csv", "--force")
    found = pd.read_csv(folder / "p.csv")
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    x = PLANE[["east", "north"]].to_numpy() @ np.array([[c, -2 * s], [s, 2 * c]]) / 100.0
    mean, sd = krige(lambda h: 1.9 * np.exp(-np.linalg.norm(h, axis=-1)), x, PLANE["z"].to_numpy(), x, 0.1)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-8)
    np.testing.assert_allclose(found["sd"], sd, rtol=1e-7)


def test_a_drift_is_estimated_with_the_predictions_and_kept_in_the_model(folder):
    text = fit(folder, "plane.csv", "z", *VARIOGRAM, "--drift", "linear")
    assert "linear drift from" in text and "prior mean" not in text
    new = pd.DataFrame({"north": [100.0, 900.0], "east": [50.0, 3000.0]})
    new.to_csv(folder / "far.csv", index=False)
    run(folder, "predict", "m.apviz", "far.csv", "--out", folder / "u.csv", "--force")
    x, z = PLANE[["east", "north"]].to_numpy(), new[["east", "north"]].to_numpy()
    f, f_star = (np.column_stack([np.ones(len(each)), each / 500]) for each in (x, z))
    k, c = (1.9 * 0.05 ** (np.linalg.norm(each[:, None] - x, axis=-1) / 300) for each in (x, z))
    inverse = np.linalg.inv(k + 0.1 * np.eye(len(x)))
    covariance = np.linalg.inv(f.T @ inverse @ f)
    beta, u = covariance @ f.T @ inverse @ PLANE["z"], f_star - c @ inverse @ f
    variance = 1.9 - np.einsum("mi,ij,mj->m", c, inverse, c) + np.einsum("mi,ij,mj->m", u, covariance, u)
    found = pd.read_csv(folder / "u.csv")
    np.testing.assert_allclose(found["mean"], f_star @ beta + c @ inverse @ (PLANE["z"] - f @ beta), rtol=1e-7)
    np.testing.assert_allclose(found["sd"] ** 2, variance, rtol=1e-6)


def test_a_variogram_without_numbers_is_trained_with_one_range_for_all_inputs(folder):
    text = fit(folder, "plane.csv", "z", "--variogram", "matern", "--nu", "1.5")
    gp = apviz.GaussianProcess.load(folder / "m.apviz")
    h = gp.scaling_.to_raw(gp.hyperparameters_)
    assert (h.kernel, len(h.lengthscale)) == ("matern32", 1)
    assert f"effective range = {apviz.Variogram.of(h, convention='effective').range:.4g}" in text


def test_a_model_fitted_by_its_kernel_is_said_as_a_variogram_too(folder):
    assert "As a variogram (GSTools): Matern, nu = 2.5, var" in fit(folder, "plane.csv", "z", "--max-steps", "70")


@pytest.mark.parametrize("others", [(), ("year",)])
def test_latitude_and_longitude_are_points_of_the_earth_for_fit_and_predict(folder, others):
    scales = ",".join(["3000", *(["4"] * len(others))])
    given = ("--kernel", "matern12", "--lengthscale", scales, "--outputscale", "50", "--noise", "0.1")
    text = fit(
        folder, "globe.csv", "t", "--inputs", ",".join(["lat", *others, "lon"]), "--geographic", "lat,lon", *given
    )
    assert "lat and lon: points of a sphere with a radius of 6371 km" in text
    if not others:
        assert "len_scale = 3000" in text and "in km along chords of the Earth" in text
    run(folder, "predict", "m.apviz", "globe.csv", "--out", folder / "g.csv", "--force")
    found = pd.read_csv(folder / "g.csv")
    x = np.column_stack([points(GLOBE) / 3000, *(GLOBE[name] / 4 for name in others)])

    def k(h):
        return 50 * np.exp(-np.linalg.norm(h[..., :3], axis=-1) - np.abs(h[..., 3:]).sum(-1))

    mean, sd = krige(k, x, GLOBE["t"].to_numpy(), x, 0.1)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-8)
    np.testing.assert_allclose(found["sd"], sd, rtol=1e-7)


def test_a_trained_model_of_the_earth_has_one_lengthscale_in_km(folder):
    text = fit(folder, "globe.csv", "t", "--inputs", "lat,lon", "--geographic", "lat,lon", "--max-steps", "70")
    gp = apviz.GaussianProcess.load(folder / "m.apviz")
    (scale,) = gp.scaling_.to_raw(gp.hyperparameters_).lengthscale
    assert f"lengthscale {scale:.3g} in km, along chords of the Earth" in text


def test_a_grid_of_the_earth_is_in_degrees_and_crosses_the_date_line(folder):
    given = ("--lengthscale", "3000", "--outputscale", "50", "--noise", "0.1")
    fit(folder, "globe.csv", "t", "--inputs", "lat,lon", "--geographic", "lat,lon", *given)
    run(folder, "predict", "m.apviz", "--grid", "20,10", "--out", "g.nc", "--force")
    found = xr.load_dataset(folder / "g.nc")
    assert (found["lat"][0], found["lon"][0]) == pytest.approx((GLOBE["lat"].min(), (GLOBE["lon"] % 360).min()))
    assert found["mean"].shape == (6, 4) and float(found["lon"].max()) > 180
    at = pd.DataFrame({"lat": [float(found["lat"][2])], "lon": [float(found["lon"][3]) - 360]})
    at.to_csv(folder / "at.csv", index=False)
    run(folder, "predict", "m.apviz", "at.csv", "--out", folder / "one.csv", "--force")
    assert pd.read_csv(folder / "one.csv")["mean"][0] == pytest.approx(float(found["mean"][2, 3]), rel=1e-9)


def test_a_row_without_a_longitude_has_no_prediction(folder):
    given = ("--lengthscale", "3000", "--outputscale", "50", "--noise", "0.1")
    fit(folder, "globe.csv", "t", "--inputs", "lat,lon", "--geographic", "lat,lon", *given)
    pd.DataFrame({"lon": [1.0, np.nan], "lat": [2.0, 3.0]}).to_csv(folder / "new.csv", index=False)
    words = ("predict", "m.apviz", "new.csv", "--out", folder / "some.csv", "--force")
    assert "lat or lon has no value in row 2" in run(folder, *words, code=2)
    run(folder, *words, "--missing", "empty")
    assert pd.read_csv(folder / "some.csv")["mean"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sill", "2"), "need --variogram MODEL"),
        ((*VARIOGRAM, "--noise", "1"), "--variogram replaces --kernel, --lengthscale, --outputscale and --noise"),
        ((*VARIOGRAM, "--kernel", "rbf"), "--variogram replaces --kernel"),
        (("--variogram", "exponential", "--sill", "2"), "--sill, --range and --nugget go together"),
        (
            ("--variogram", "exponential", "--anis", "2"),
            "--anis and --angles are not trained; give --sill, --range and --nugget too",
        ),
        ((*VARIOGRAM, "--anis", "2,3"), "--anis takes a ratio for each input after the first, 1 here, got 2"),
        (
            (*VARIOGRAM, "--anis", "2", "--geographic", "east,north"),
            "--geographic has the same range in all directions",
        ),
        ((*VARIOGRAM, "--convention", "gslib"), "--convention must be one of gstools, pykrige, effective"),
        (("--drift", "cubic"), "drift must be one of constant, linear, quadratic, or None, got 'cubic'"),
        (("--variogram", "circular"), "model must be one of exponential, gaussian, matern, spherical"),
        (("--geographic", "east"), "--geographic takes two columns, latitude and longitude"),
        (("--geographic", "east,west"), "no input west holds numbers; there are east, north"),
        (("--geographic", "east,north"), "east, north: a latitude must be in degrees from −90 to 90"),
    ],
)
def test_options_that_do_not_go_together_are_refused(folder, words, message):
    assert message in fit(folder, "plane.csv", "z", *words, code=2)
