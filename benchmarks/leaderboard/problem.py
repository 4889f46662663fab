"""The input of an entrant: data as NumPy arrays, and entries of K, which are counted."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch

import apviz
from apviz.kernels import KERNELS
from apviz.operators import CountingOperator
from benchmarks.leaderboard.systems import Given


class Entrant(Protocol):
    """A method on the leaderboard.

    It may also have `counts_work = False` where it evaluates entries by itself, and `most_inputs`: systems with more
    are not given to it.
    """

    name: str

    def prepare(self, problem: Problem) -> None:
        """Build the parts that do not depend on B."""
        ...

    def solve(self, b: np.ndarray, tol: float) -> np.ndarray:
        """Return W, (n, l+1), with a mean relative residual below `tol`."""
        ...


class Problem:
    """K = k(X, X) + σ²I, float64.

    Attributes:
        x: (n, d).
        kernel: its name: `rbf`, `matern12`, `matern32`, `matern52`.
        lengthscale: (d,).
        outputscale, noise: numbers.
        seed: of the method's random numbers, a different one in every repetition.
    """

    def __init__(self, given: Given) -> None:
        self.x, self.kernel, self.lengthscale = given.x, given.kernel, given.lengthscale
        self.outputscale, self.noise, self.given = given.outputscale, given.noise, given
        self.seed = given.seed
        self._operator = CountingOperator(self.system(torch.float64).operator)

    def system(self, dtype: torch.dtype) -> apviz.KernelSystem:
        """Return the same system for apviz's own solvers, which count their own work."""
        kernel: Any = KERNELS[self.kernel]
        made = kernel(lengthscale=tuple(self.lengthscale), outputscale=self.outputscale)
        return apviz.KernelSystem(self.x, self.given.b, made, noise=self.noise, dtype=dtype, operator="tiled")

    @property
    def work(self) -> float:
        """Return the number of entries so far ÷ n²."""
        return self._operator.work

    def matmul(self, v: np.ndarray) -> np.ndarray:
        """Compute K v, v: (n,) or (n, p): n² entries."""
        product = self._operator.matmul(torch.from_numpy(np.ascontiguousarray(v, dtype=np.float64).reshape(len(v), -1)))
        return product.numpy().reshape(v.shape)

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Evaluate K[:, I], (n, |I|): n|I| entries."""
        found = self._operator.columns(torch.as_tensor(rows)).numpy()
        found[rows, np.arange(len(rows))] += self.noise
        return found

    def columns_matmul(self, rows: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Compute K[:, I] u, u: (|I|, p), without holding the columns: n|I| entries."""
        return self._operator.columns_matmul(torch.as_tensor(rows), torch.from_numpy(np.ascontiguousarray(u))).numpy()

    def block(self, rows: np.ndarray) -> np.ndarray:
        """Evaluate K[I, I]: |I|² entries."""
        return self._operator.block(torch.as_tensor(rows)).numpy()
