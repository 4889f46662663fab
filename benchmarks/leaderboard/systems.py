"""The systems of the leaderboard: published hyperparameters, and the hard corner."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import apviz
from apviz import comparison

N, RHS = 4_000, 16
# training rows of the smaller of the sets
FEWER = {"diabetes": 353}


@dataclass(frozen=True, eq=False)
class Given:
    """A system as numbers.

    Args:
        x: (n, d) float64; b: (n, l+1) float64.
        kernel: a name of `apviz.kernels`.
        lengthscale: (d,).
        noise: σ².
        seed: of a solver's random numbers.
    """

    x: np.ndarray
    b: np.ndarray
    kernel: str
    lengthscale: np.ndarray
    outputscale: float
    noise: float
    seed: int = 0


def registered(name: str, noise: float = 1.0) -> Callable[[int, int], Given]:
    """Return a data set with the hyperparameters of its card, and a multiple of their noise."""

    def build(n: int, seed: int) -> Given:
        data = apviz.datasets.load(name, n=min(n, FEWER.get(name, n)), seed=seed)
        h = comparison.choose_hyperparameters(data)
        x, y = data.train_x.double().numpy(), data.train_y.double().numpy() - h.mean
        scales = np.broadcast_to(np.asarray(h.lengthscale), (x.shape[1],))
        assert isinstance(h.kernel, str)
        return Given(x, _with_probes(y, seed), h.kernel, scales, h.outputscale, noise * h.noise, seed)

    return build


def made(
    d: int, kernel: str, lengthscale: float, noise: float, *, clusters: int = 0, copies: int = 1
) -> Callable[[int, int], Given]:
    """Return a smooth function of normal points with noise, with or without clusters and duplicate rows."""

    def build(n: int, seed: int) -> Given:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(math.ceil(n / copies), d))
        if clusters:
            x = rng.normal(size=(clusters, d))[rng.integers(clusters, size=len(x))] + 0.02 * x
        x = np.repeat(x, copies, axis=0)[rng.permutation(len(x) * copies)[:n]]
        y = np.sin(2 * x @ rng.normal(size=d) / math.sqrt(d)) + math.sqrt(noise) * rng.normal(size=len(x))
        return Given(x, _with_probes(y, seed), kernel, np.full(d, lengthscale), 1.0, noise, seed)

    return build


def _with_probes(y: np.ndarray, seed: int) -> np.ndarray:
    probes = np.random.default_rng([seed, 1]).choice([-1.0, 1.0], size=(len(y), RHS - 1))
    return np.concatenate([y[:, None], probes], axis=1)


PUBLISHED = {
    name: registered(name)
    for name in (
        "airquality",
        "bike",
        "china",
        "diabetes",
        "keggundirected",
        "kin40k",
        "protein",
        "sgemm",
    )
}
HARD = {
    "china, σ² × 0.01": registered("china", 0.01),
    "keggundirected, σ² × 0.1": registered("keggundirected", 0.1),
    "d = 2, lengthscale 0.02": made(2, "matern52", 0.02, 1e-4),
    "d = 2, lengthscale 2": made(2, "matern52", 2.0, 1e-4),
    "d = 2, σ² 1e-6": made(2, "matern32", 0.5, 1e-6),
    "d = 10, RBF, lengthscale 1": made(10, "rbf", 1.0, 1e-2),
    "d = 10, lengthscale 4": made(10, "matern52", 4.0, 1e-3),
    "d = 20, lengthscale 8": made(20, "matern52", 8.0, 1e-2),
    "d = 20, lengthscale 20": made(20, "matern52", 20.0, 1e-3),
    "d = 385, lengthscale 20": made(385, "matern32", 20.0, 1e-2),
    "5 clusters, σ² 1e-4": made(4, "matern52", 0.3, 1e-4, clusters=5),
    "50 clusters, σ² 1e-5": made(4, "matern32", 0.5, 1e-5, clusters=50),
    "every row 10 times": made(3, "matern52", 0.5, 1e-3, copies=10),
}
SYSTEMS = PUBLISHED | HARD


def family(name: str) -> str:
    """Return the family of a system."""
    return "published" if name in PUBLISHED else "hard"


def small(given: Given, n: int = 200) -> Given:
    """Return the first rows, to warm up on."""
    return replace(given, x=given.x[:n], b=given.b[:n])
