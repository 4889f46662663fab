"""A survey, its model by scikit-learn, and the commands as a user runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from typer.testing import CliRunner, Result

from apviz import cli

#: hyperparameters in the units of the table
EAST, NORTH, OUTPUTSCALE, NOISE = 300.0, 150.0, 90.0, 0.5
GIVEN = ("--lengthscale", f"{EAST},{NORTH}", "--outputscale", str(OUTPUTSCALE), "--noise", str(NOISE))


def soundings(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    east, north = rng.uniform(0, 900, n).round(1), rng.uniform(5000, 5400, n).round(1)
    z = -40 + 8 * np.sin(east / 200) * np.cos(north / 90) + 0.7 * rng.standard_normal(n)
    return pd.DataFrame({"north": north, "z": z, "east": east, "boat": rng.choice(["Gro", "Bo"], n)})


DEPTH = soundings(120)
NEW = soundings(90, seed=1).drop(columns="z").assign(id=np.arange(90))


def scikit_learn() -> tuple[GaussianProcessRegressor, float]:
    """Return the posterior of f at the given hyperparameters, for targets minus their mean, and this mean."""
    kernel = ConstantKernel(OUTPUTSCALE) * Matern([EAST, NORTH], nu=2.5)
    mean = DEPTH["z"].mean()
    gp = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None)
    return gp.fit(DEPTH[["east", "north"]].to_numpy(), DEPTH["z"].to_numpy() - mean), mean


def expected(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gp, mean = scikit_learn()
    found, sd = gp.predict(points, return_std=True)
    return found + mean, sd


def run(*words: object) -> Result:
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def said(done: Result) -> str:
    return " ".join(done.output.split())


def predict(folder: Path, *words: object, out: str, code: int = 0) -> str:
    done = run("predict", folder / "m.apviz", *words, "--out", folder / out)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return said(done)
