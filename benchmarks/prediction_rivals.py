"""One cell of `benchmarks.prediction_seconds`: a method fits survey tracks, or a table, and predicts new points.

`python benchmarks/prediction_rivals.py METHOD N [TABLE.npz]` prints JSON. It needs NumPy and the package of the method
alone, so that a rival may be installed in an environment of its own. A table has the arrays x, y of the rows to fit and
z, observed of the rows to predict.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
#: predicts mean and standard deviation of an observation
Predict: TypeAlias = Callable[[Array], tuple[Array, Array]]

LINES, ROWS, POINTS, NOISE = 200, 116_000, 2_000, 0.2
#: metres
SIDE, OFFSET = 20_000.0, 5e5


def tracks() -> tuple[Array, Array]:
    """Return an invented survey: positions along 200 lines in metres, with their offset, and depths with noise."""
    rng = np.random.default_rng(44)
    line = np.repeat(np.arange(LINES), ROWS // LINES)
    along = np.tile(np.linspace(0, SIDE, ROWS // LINES), LINES)
    x = np.column_stack([along, SIDE * line / (LINES - 1)]) + rng.normal(0, 5.0, (ROWS, 2))
    return x + OFFSET, depth(x) + NOISE * rng.standard_normal(ROWS)


def depth(x: Array) -> Array:
    """Return the depth in metres without noise, at positions without their offset."""
    rng = np.random.default_rng(1)
    scales = 10 ** rng.uniform(np.log10(600), np.log10(6_000), 60)
    angle, phase = rng.uniform(0, 2 * np.pi, (2, 60))
    waves = np.column_stack([np.cos(angle), np.sin(angle)]) / scales[:, None]
    found = np.zeros(len(x))
    for wave, scale, shift in zip(waves, scales, phase, strict=True):
        found += (scale / 6_000) ** 0.8 * np.sin(2 * np.pi * x @ wave + shift)
    return -40 + 2 * found


def survey(n: int) -> tuple[Array, ...]:
    """Return n random rows of the survey, 2,000 points, what is observed there, and the truth without noise."""
    x, y = tracks()
    rng = np.random.default_rng(n)
    rows = rng.permutation(ROWS)[:n]
    z = rng.uniform(0, SIDE, (POINTS, 2))
    return x[rows], y[rows], z + OFFSET, depth(z) + NOISE * rng.standard_normal(POINTS), depth(z)


def cell(method: str, n: int, table: str | None = None) -> dict[str, float]:
    """Fit n rows and predict others: seconds of the processor, errors and negative log likelihood."""
    if table is None:
        x, y, z, observed, truth = survey(n)
    else:
        x, y, z, observed = (np.load(table)[name] for name in ("x", "y", "z", "observed"))
        truth = observed
    fit = METHODS[method]
    warnings.simplefilter("ignore")
    fit(x[:200], y[:200])(z[:10])  # compiles what is compiled once
    started, wall = seconds(), time.perf_counter()
    predict = fit(x, y)
    fitted = seconds()
    mean, sd = predict(z)
    done = seconds()
    nats = 0.5 * np.mean(np.log(2 * np.pi * sd**2) + ((observed - mean) / sd) ** 2)
    return {
        "fit": fitted - started, "predict": done - fitted, "wall": time.perf_counter() - wall,
        "rmse": float(np.sqrt(np.mean((mean - truth) ** 2))), "nll": float(nats),
        "coverage": float(np.mean(np.abs(observed - mean) <= 1.96 * sd)),
    }  # fmt: skip


def seconds() -> float:
    """Return the seconds of the processor that this process and its children took."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


# --- methods, each as its documentation uses it -----------------------------------------------------------------------


def by_apviz(x: Array, y: Array) -> Predict:
    """Fit as `apviz fit` does: up to 10,000 rows choose the hyperparameters."""
    import apviz
    from apviz.gp import Scaling

    few = np.random.default_rng(0).permutation(len(x))[:10_000]
    gp = apviz.GaussianProcess("matern52", device="cpu").fit(x[few], y[few])
    if len(few) < len(x):
        h = Scaling.of(x, y).to_scaled(gp.scaling_.to_raw(gp.hyperparameters_))
        gp = apviz.GaussianProcess(hyperparameters=h, device="cpu").fit(x, y)
    return lambda z: gp.predict(z, return_std=True, include_noise=True)  # type: ignore[return-value]


def by_scikit_learn(x: Array, y: Array) -> Predict:
    """Fit by L-BFGS on the exact likelihood, inputs standardised."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kernel = ConstantKernel(1.0) * Matern([1.0, 1.0], nu=2.5) + WhiteKernel(0.1)
    gp = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True)).fit(x, y)
    return lambda z: gp.predict(z, return_std=True)


def by_pykrige(x: Array, y: Array) -> Predict:
    """Fit a variogram by least squares on bins; predict with all rows."""
    from pykrige.ok import OrdinaryKriging

    ok = OrdinaryKriging(*x.T, y, variogram_model="exponential", nlags=20, exact_values=False)

    def predict(z: Array) -> tuple[Array, Array]:
        mean, variance = ok.execute("points", *z.T)
        return np.asarray(mean), np.sqrt(np.asarray(variance))

    return predict


def by_pykrige_nearby(x: Array, y: Array) -> Predict:
    """Predict with the 50 nearest rows of each point."""
    from pykrige.ok import OrdinaryKriging

    few = np.random.default_rng(0).permutation(len(x))[:5_000]  # the variogram compares all pairs of rows
    model = OrdinaryKriging(*x[few].T, y[few], variogram_model="exponential", nlags=20, exact_values=False)
    ok = OrdinaryKriging(
        *x.T, y, variogram_model="exponential", variogram_parameters=list(model.variogram_model_parameters),
        exact_values=False,
    )  # fmt: skip

    def predict(z: Array) -> tuple[Array, Array]:
        mean, variance = ok.execute("points", *z.T, backend="loop", n_closest_points=50)
        return np.asarray(mean), np.sqrt(np.asarray(variance))

    return predict


def by_gpboost(x: Array, y: Array) -> Predict:
    """Fit Vecchia's approximation with its default number of neighbours, and a constant mean.

    A map has one lengthscale; a table has one for each column.
    """
    import gpboost

    centre, ard = x.mean(0), "_ard" if x.shape[1] > 2 else ""
    unit = float(x.std()) / 6  # about 1 km of the survey
    settings = {"cov_function": f"matern{ard}", "cov_fct_shape": 2.5, "gp_approx": "vecchia", "likelihood": "gaussian"}
    model = gpboost.GPModel(gp_coords=(x - centre) / unit, **settings)
    one = np.ones((len(x), 1))
    model.fit(y=y, X=one)

    def predict(z: Array) -> tuple[Array, Array]:
        found = model.predict(
            gp_coords_pred=(z - centre) / unit, X_pred=np.ones((len(z), 1)), predict_var=True, predict_response=True
        )
        return found["mu"], np.sqrt(found["var"])

    return predict


METHODS: dict[str, Callable[[Array, Array], Predict]] = {
    "apviz": by_apviz,
    "scikit-learn": by_scikit_learn,
    "PyKrige": by_pykrige,
    "PyKrige, 50 nearest rows": by_pykrige_nearby,
    "GPBoost, Vecchia": by_gpboost,
}

if __name__ == "__main__":
    print(json.dumps(cell(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])))
