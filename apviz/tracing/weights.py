"""The weights of a solve in a file, to resume from: after a kill, with another solver or another number of ranks."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from apviz.distributed import records
from apviz.files import file_made_whole, path_of
from apviz.settings import require, require_kind, require_whole
from apviz.solvers.interface import Epoch, Hook, Solution
from apviz.solvers.run import Run
from apviz.system import KernelSystem


class KeepWeights(Hook):
    """Write W to a file while a solve runs, by atomic replacement; `last_weights` reads it.

    Args:
        path: the file, by convention `*.weights.npz`; holds n·(l+1) numbers in float64.
        every: epochs between two writes; the last epoch is always written.

    Raises:
        ValueError: `every` is below 1, or the path is an object store's.
        OSError: the file cannot be written; the previous one stays.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> solver = apviz.AlternatingProjection(block_size=50)
        >>> hooks = [apviz.KeepWeights("w.npz"), apviz.StopHook(max_seconds=0)]
        >>> stopped = apviz.solvers.attempt(system, solver, hooks)
        >>> apviz.solve(system, solver, initial_weights=apviz.last_weights("w.npz", system)).converged
        True
    """

    def __init__(self, path: str | Path, *, every: int = 1) -> None:
        require_whole("every", every, 1)
        require("://" not in str(path), "path", path, "a file of this machine, not of an object store")
        self.path, self.every = path_of(path), every

    def on_start(self, run: Run) -> None:
        self._run, self._data, self._written = run, run.system.fingerprint(), -1

    def on_epoch(self, epoch: Epoch) -> None:
        if epoch.number and epoch.number % self.every == 0:
            with self._run.clock.pause():
                self._write(self._run.weights, epoch.number)

    def on_stop(self, solution: Solution) -> None:
        if self._written != solution.epochs:
            self._write(solution.weights.reshape(self._run.system.n, -1), solution.epochs)

    def _write(self, weights: Tensor, epoch: int) -> None:
        self._written = epoch
        if records():
            with file_made_whole(self.path) as file:
                np.savez(file, weights=weights.cpu().numpy(), epoch=epoch, data=np.array(self._data))


def last_weights(path: str | Path, system: KernelSystem) -> Tensor:
    """Read the weights that `KeepWeights` wrote last: (n, l+1) float64, for `initial_weights` of `apviz.solve`.

    Raises:
        ValueError: the file holds weights of other data, or no weights.
        OSError: the file cannot be read.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.RBF(lengthscale=0.2), noise=0.01, device="cpu")
        >>> solution = apviz.solve(system, apviz.Automatic(), hooks=[apviz.KeepWeights("rbf.weights.npz")])
        >>> bool((apviz.last_weights("rbf.weights.npz", system)[:, 0] == solution.weights).all())
        True
    """
    path = path_of(path)
    require_kind("system", system, KernelSystem, "an apviz.KernelSystem")
    try:
        with np.load(path, allow_pickle=False) as held:
            weights, data = torch.from_numpy(held["weights"]), str(held["data"])
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} does not hold the weights of a solve, as apviz.KeepWeights writes them") from error
    if data != system.fingerprint():
        raise ValueError(f"{path} has the weights of a solve with other inputs or right-hand sides than this system's")
    return weights
