"""The KeOps operator: pykeops' map-reduce, the engine of the paper's experiments and of GPyTorch's KeOps kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from apviz.operators.interface import Operator


class KeOpsOperator(Operator):
    """K through `pykeops.torch.LazyTensor`. Needs a C++ compiler; compiles each formula at its first use."""

    name = "keops"

    @property
    def engine(self) -> str:
        import pykeops

        return f"KeOps {pykeops.__version__}"

    def prepare(self, columns: int = 1) -> None:
        # KeOps compiles one module per number of columns
        self.cross_matmul(self.x[:2], torch.zeros(self.n, columns, dtype=self.x.dtype, device=self.x.device))

    def fix_engine(self, expected_entries: float, columns: int) -> None:
        self.prepare(columns)

    def _accumulate(self, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        from pykeops.torch import LazyTensor

        x, z = LazyTensor(rows[:, None, :].contiguous()), LazyTensor(columns[None, :, :].contiguous())
        squared = ((x - z) ** 2).sum(-1)
        if self.kernel.name == "rbf":
            k = (-squared).exp()
        else:
            # the derivative of sqrt at 0 is not taken here, but KeOps simplifies formulas symbolically
            r = (squared + torch.finfo(rows.dtype).tiny).sqrt()
            polynomial = {"matern12": 1.0, "matern32": 1.0 + r, "matern52": 1.0 + r + squared / 3.0}
            k = polynomial[self.kernel.name] * (-r).exp()
        out += k @ u.contiguous()
