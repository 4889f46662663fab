"""Modules of the widgets on single questions against NumPy: zigzag, Cholesky, samples, forecasts, filters."""

from __future__ import annotations

import numpy as np
import pytest

from apviz.widgets import EarlyStopping, Forecast, PositiveDefinite, SamplePaths, Zigzag
from tests.widgets.js.test_agreement import CLOSE, apart


def test_legs_of_the_zigzag_are_orthogonal_projections(compute):
    cases = ((20, 50, 0.01), (90, 30, 0.001), (7, 0, 0.1), (45, 80, 0.5), (60, 60, 0.001), (1, 89, 0.01))
    widgets = [Zigzag(angle=angle, start=start, share=share) for angle, start, share in cases]
    asked = [
        {"angle": np.radians(each.angle), "start": np.radians(each.start), "share": each.share, "count": 40}
        for each in widgets
    ]
    for found, widget in zip(compute("zigzag", asked), widgets, strict=True):
        wanted = widget.residuals
        assert found["legs"] == max(1, len(wanted) - 1)
        count = min(len(wanted), 41)
        assert apart(found["residuals"][:count], wanted[:count]) < CLOSE


def test_cholesky_fails_where_that_of_numpy_fails_and_has_its_pivots_above_rounding(compute):
    widgets = [
        PositiveDefinite(points=points, lengthscale=ell, dtype=dtype, jitter=jitter, kernel=kernel)
        for points, ell, dtype, jitter, kernel in (
            (5, 0.3, "float64", 0.0, "rbf"), (10, 0.3, "float64", 0.0, "rbf"), (30, 0.3, "float64", 0.0, "rbf"),
            (100, 0.3, "float64", 0.0, "rbf"), (30, 0.3, "float64", 1e-10, "rbf"), (5, 0.3, "float32", 0.0, "rbf"),
            (12, 0.3, "float32", 0.0, "rbf"), (12, 0.3, "float32", 1e-4, "rbf"), (100, 0.3, "float64", 0.0, "matern12"),
            (60, 0.3, "float64", 0.0, "matern52"), (60, 0.3, "float32", 0.0, "matern52"),
        )
    ]  # fmt: skip
    for found, widget in zip(compute("cholesky", [each.values for each in widgets]), widgets, strict=True):
        gram = widget.gram.astype(np.float64)
        assert apart(found["gram"], gram) < (1e-7 if widget.dtype == "float32" else 1e-15)
        eigenvalues = np.linalg.eigvalsh(np.array(found["gram"]))[::-1]
        assert apart(found["eigenvalues"], eigenvalues, eigenvalues[0]) < 1e-13
        fails = len(found["pivots"]) < widget.points or not found["pivots"][-1] > 0
        assert fails != widget.works
        if not fails and widget.dtype == "float64":
            L = np.linalg.cholesky(gram)
            assert apart(found["pivots"], np.diag(L) ** 2) < 1e-12
            b = np.sin(2 * np.pi * np.linspace(0, 1, widget.points))
            assert found["missed"] == pytest.approx(widget.jitter * np.abs(np.linalg.solve(gram, b)).max(), rel=0.01)


def test_norms_of_a_sample_and_a_sine_are_those_of_dense_solves_for_every_number_of_points(compute):
    draws = np.random.default_rng(0).standard_normal((5, 129)).astype(np.float32).astype(np.float64)
    kinds = [("matern12", 0.3, 1, 1), ("matern32", 0.1, 2, 3), ("matern52", 0.2, 4, 5)]
    grid, counts = np.linspace(0, 1, 21), [3, 9, 33]
    asked = [
        {"kernel": kernel, "lengthscale": ell, "waves": waves, "sample": sample, "draws": draws.ravel(),
         "counts": counts, "grid": grid}
        for kernel, ell, waves, sample in kinds
    ]  # fmt: skip
    for found, (kernel, ell, waves, sample) in zip(compute("samples", asked), kinds, strict=True):
        x = np.array(found["x"])
        for doublings in range(7):
            widget = SamplePaths(kernel=kernel, lengthscale=ell, waves=waves, sample=sample, doublings=doublings)
            n = len(widget.x)
            assert sorted(x[:n]) == pytest.approx(widget.x.tolist())
            ours = [side["norms"][n - 1] for side in found["sides"]]
            assert ours == pytest.approx(list(widget.norms), rel=1e-4, abs=1e-12)
        kernel_of = widget.gram_between
        for side in found["sides"]:
            for n, curve in zip(counts, side["shortest"], strict=True):
                weights = np.linalg.solve(kernel_of(x[:n], x[:n]), np.array(side["f"])[:n])
                assert apart(curve, kernel_of(grid, x[:n]) @ weights) < 1e-6


def test_forecasts_bands_and_counts_are_those_of_dense_solves(compute):
    widgets = [
        Forecast(),
        Forecast(end=2.0, lengthscale=0.8, noise=0.2, kernel="rbf"),
        Forecast(end=0.3, drift="line", kernel="matern12"),
        Forecast(end=0.9, drift="line", noise=0.005),
    ]
    given = Forecast.given()
    x, y = np.array(given["x"]), np.array(given["y"])
    held = np.arange(len(x)) % 3 != 0
    for found, widget in zip(
        compute("forecast", [each.values | {"given": given} for each in widgets]), widgets, strict=True
    ):
        mean, sd = widget.predict(np.array(found["grid"]))
        assert apart(found["mean"], mean) < 1e-8 and apart(found["ofF"], sd) < 1e-6
        assert apart(found["ofY"], np.sqrt(sd**2 + widget.noise)) < 1e-6
        mean, sd = widget.predict(x[held])
        for counted, band, rows in zip(
            found["inside"], [sd, np.sqrt(sd**2 + widget.noise)] * 2,
            [x[held] <= widget.end] * 2 + [x[held] > widget.end] * 2, strict=True,
        ):  # fmt: skip
            near = np.abs(y[held] - mean)[rows] < 1.96 * band[rows]
            assert counted == {"inside": near.sum(), "of": rows.sum()}


def test_filters_are_descent_noise_and_least_squares_over_krylov_spaces(compute):
    steps = [1, 3, 8, 60]
    cases = [("matern32", 0.2, 0.1, "MINRES"), ("matern12", 0.1, 0.5, "CG"), ("matern52", 0.3, 0.02, "MINRES")]
    asked = [
        {"kernel": kernel, "lengthscale": ell, "noise": noise, "method": method, "steps": steps,
         "given": EarlyStopping.given()}
        for kernel, ell, noise, method in cases
    ]  # fmt: skip
    for found, (kernel, ell, noise, method) in zip(compute("stopping", asked), cases, strict=True):
        widget = EarlyStopping(kernel=kernel, lengthscale=ell, noise=noise, method=method)
        K, cross, y = widget.system
        assert apart(found["values"], np.linalg.eigvalsh(K)[::-1], 10) < CLOSE
        for k, t in enumerate(steps):
            widget.step = t
            descent, krylov, ridge = (each[k] for each in found["fits"])
            assert apart(descent, widget.fits["descent"]) < 1e-6 and apart(ridge, widget.fits["ridge"]) < 1e-6
            if t < 10:
                assert apart(krylov, cross @ least(K, y, t, method)) < 1e-5
                # zeros are where the polynomial vanishes
                assert found["zeros"][k] == pytest.approx(found["left"][k], abs=1e-6)
            else:
                assert apart(krylov, cross @ np.linalg.solve(K, y)) < 1e-5


def least(K, y, t, method):
    """Return the weights in span{y, Ky, …} with the least residual, or the least K-norm of the error."""
    basis = [y / np.linalg.norm(y)]
    for _ in range(t - 1):
        v = K @ basis[-1]
        for q in basis * 2:
            v = v - (q @ v) * q
        basis.append(v / np.linalg.norm(v))
    Q = np.array(basis).T
    if method == "MINRES":
        return Q @ np.linalg.lstsq(K @ Q, y, rcond=None)[0]
    return Q @ np.linalg.solve(Q.T @ K @ Q, Q.T @ y)
