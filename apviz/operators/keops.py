"""The KeOps operator: pykeops' map-reduce, the engine of the paper's experiments and of GPyTorch's KeOps kernels."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from apviz.kernels import Kernel, Stationary
from apviz.operators.interface import Noise
from apviz.operators.tiled import ByTiles

# the correlation of each kernel, as a function of u, the squared distance of scaled inputs, r = √u, and its shape
FORMULAS: dict[str, Callable[[Any, Any, float], Any]] = {
    "matern12": lambda u, r, shape: (-r).exp(),
    "matern32": lambda u, r, shape: (1.0 + r) * (-r).exp(),
    "matern52": lambda u, r, shape: (1.0 + r + u / 3.0) * (-r).exp(),
    "rbf": lambda u, r, shape: (-u).exp(),
    "rational-quadratic": lambda u, r, shape: (-shape * (1.0 + u).log()).exp(),
}


@cache
def find_cache() -> tempfile.TemporaryDirectory[str] | None:
    """Give KeOps a folder of this process if the home folder is not writable: otherwise its import fails.

    A `KEOPS_CACHE_FOLDER` that is set is kept.
    """
    if "KEOPS_CACHE_FOLDER" in os.environ or find_spec("pykeops") is None:
        return None
    folder = Path("~/.cache").expanduser()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if os.access(folder, os.W_OK):
        return None
    made = tempfile.TemporaryDirectory(prefix="apviz-keops-", ignore_cleanup_errors=True)
    os.environ["KEOPS_CACHE_FOLDER"] = made.name
    return made


class KeOpsOperator(ByTiles):
    """An operator on `pykeops.torch.LazyTensor`; needs a C++ compiler, which compiles each formula at first use."""

    name = "keops"

    def __init__(self, x: Tensor, kernel: Kernel, noise: Noise, dtype: torch.dtype | None = None) -> None:
        if not isinstance(kernel, Stationary) or kernel.name not in FORMULAS:
            raise ValueError(
                f"operator 'keops' has the kernels {', '.join(FORMULAS)}, not {kernel.name}; use operator='tiled'"
            )
        self._form, self._shape = kernel.name, kernel.shape
        find_cache()
        super().__init__(x, kernel, noise, dtype)

    @property
    def engine(self) -> str:
        import pykeops

        return f"KeOps {pykeops.__version__}"

    def prepare(self, columns: int = 1) -> None:
        # KeOps compiles one module per number of columns
        try:
            self.cross_matmul(self.x[:2], torch.zeros(self.n, columns, dtype=self.x.dtype, device=self.x.device))
        except (ImportError, OSError) as error:
            raise RuntimeError(
                f"operator 'keops' cannot compile here ({error}): KeOps needs a C++ compiler on the path, or named by "
                "CXX, and a writable cache folder, or KEOPS_CACHE_FOLDER; use operator='auto'"
            ) from error

    def fix_engine(self, expected_entries: float, columns: int) -> None:
        self.prepare(columns)

    def _accumulate(self, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        from pykeops.torch import LazyTensor

        x, z = LazyTensor(rows[:, None, :].contiguous()), LazyTensor(columns[None, :, :].contiguous())
        squared = ((x - z) ** 2).sum(-1)
        # the derivative of sqrt at 0 is not needed here, but KeOps simplifies formulas symbolically
        r = (squared + torch.finfo(rows.dtype).tiny).sqrt()
        k = FORMULAS[self._form](squared, r, self._shape)
        out += k @ (u * self.formula.weights[0])
