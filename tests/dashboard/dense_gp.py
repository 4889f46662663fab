"""Predictions by dense float64 algebra in NumPy, with the hyperparameters of a stored model."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import apviz


def matern52(x: np.ndarray, z: np.ndarray, lengthscale: tuple[float, ...], outputscale: float) -> np.ndarray:
    r = np.sqrt(5 * (((x[:, None] - z[None]) / np.array(lengthscale)) ** 2).sum(-1))
    return outputscale * (1 + r + r**2 / 3) * np.exp(-r)


def predictions(model: Path, x: np.ndarray, y: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sd of f at points (m, d), given all rows x: (n, d), y: (n,), in their own units."""
    gp = apviz.GaussianProcess.load(model, device="cpu")
    h = gp.scaling_.to_raw(gp.hyperparameters_)
    k = matern52(x, x, h.lengthscale, h.outputscale) + h.noise * np.eye(len(x))
    c = matern52(x, points, h.lengthscale, h.outputscale)
    mean = h.mean + c.T @ np.linalg.solve(k, y - h.mean)
    return mean, np.sqrt(h.outputscale - np.einsum("ij,ij->j", c, np.linalg.solve(k, c)))
