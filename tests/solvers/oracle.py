"""The oracle of the solvers' tests: a system in dense float64 NumPy that shares no code with apviz."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import torch

import apviz
from apviz.kernels import KERNELS
from tests.device import DEVICE
from tests.textbook import CORRELATIONS

#: every kernel of apviz, by the name of its class
KERNEL_CLASSES = tuple(kind.__name__ for kind in KERNELS.values())


@dataclass
class Problem:
    """K W = B: `system` is apviz's, everything else NumPy's."""

    system: apviz.KernelSystem
    K: np.ndarray
    B: np.ndarray
    W: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.W = scipy.linalg.cho_solve(scipy.linalg.cho_factor(self.K), self.B)

    def h(self, w: np.ndarray) -> float:
        """Return h(W) = ½tr(WᵀKW) − tr(BᵀW)."""
        return 0.5 * np.trace(w.T @ self.K @ w) - np.trace(self.B.T @ w)

    def squared_error(self, w: np.ndarray) -> float:
        """Return ‖W−W*‖²_K."""
        return np.trace((w - self.W).T @ self.K @ (w - self.W))

    def residual(self, w: Any) -> float:
        """Return the mean of ‖b_i − K w_i‖/‖b_i‖."""
        w = np.asarray(w, dtype=np.float64).reshape(self.B.shape)
        norms = np.linalg.norm(self.B, axis=0)
        return float((np.linalg.norm(self.B - self.K @ w, axis=0) / np.where(norms > 0, norms, 1)).mean())


class Watch(apviz.Hook):
    """Keeps copies of W and R before the first and after every update, in float64."""

    def __init__(self) -> None:
        self.W: list[np.ndarray] = []
        self.R: list[np.ndarray] = []
        self.updates: list[Any] = []
        self.epochs: list[Any] = []
        self.epoch_W: list[np.ndarray] = []

    def on_start(self, run: Any) -> None:
        self.run = run
        self._look()

    def on_update(self, update: Any) -> None:
        self.updates.append(update)
        self._look()

    def on_epoch(self, epoch: Any) -> None:
        self.epochs.append(epoch)
        self.epoch_W.append(self.run.weights.double().numpy().copy())

    def _look(self) -> None:
        self.W.append(self.run.weights.double().numpy().copy())
        self.R.append(self.run.residual_vectors.double().numpy().copy())

    def solved_rows(self, block: int) -> np.ndarray:
        """Return the rows that a block solves on, in the user's order."""
        partition = self.run.partition
        return partition.order[partition.solved(block)].numpy()


def problem(
    n: int = 30,
    d: int = 2,
    rhs: int | None = 2,
    seed: int = 0,
    kernel: str = "Matern32",
    lengthscale: float = 0.5,
    outputscale: float = 1.0,
    noise: float = 0.1,
    dtype: torch.dtype = torch.float64,
    x: np.ndarray | None = None,
    b: np.ndarray | None = None,
    **settings: Any,
) -> Problem:
    """Draw n points in the unit cube and standard normal right-hand sides from a seed (`rhs=None`: one vector)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, d)) if x is None else x
    b = rng.standard_normal(n if rhs is None else (n, rhs)) if b is None else b
    distance = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1)) / lengthscale
    K = outputscale * CORRELATIONS[getattr(apviz, kernel)().name](distance) + noise * np.eye(len(x))
    system = apviz.KernelSystem(
        x,
        b,
        getattr(apviz, kernel)(lengthscale=lengthscale, outputscale=outputscale),
        noise=noise,
        dtype=dtype,
        device=DEVICE,
        **settings,
    )
    return Problem(system, K, b.reshape(len(x), -1))
