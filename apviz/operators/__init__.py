"""Operators K = k(X, X) + σ²I without storing K: engines, one per file, behind one interface."""

from __future__ import annotations

import torch
from torch import Tensor

from apviz.distributed import current
from apviz.kernels import Kernel
from apviz.operators.counting import CountingOperator
from apviz.operators.dense import DenseOperator
from apviz.operators.distributed import DistributedOperator
from apviz.operators.fourier.engine import FourierOperator
from apviz.operators.fused import FusedOperator, FusedTF32Operator, is_trusted
from apviz.operators.interface import Noise, Operator
from apviz.operators.keops import KeOpsOperator
from apviz.operators.layout import Rows
from apviz.operators.tiled import TiledOperator

__all__ = [
    "DENSE_MAX_N", "OPERATORS", "CountingOperator", "FourierOperator", "Noise", "Operator", "Rows", "make_operator",
]  # fmt: skip

OPERATORS: dict[str, type[Operator]] = {
    each.name: each
    for each in (DenseOperator, TiledOperator, FourierOperator, KeOpsOperator, FusedOperator, FusedTF32Operator)
}
# up to this n, where K takes 64 MB in float32, reading a stored K beats evaluating tiles in cache
DENSE_MAX_N = 4_000


def make_operator(name: str, x: Tensor, kernel: Kernel, noise: Noise, dtype: torch.dtype | None = None) -> Operator:
    """Make the operator called `name`; `auto` stores K up to n = 4,000 and evaluates tiles above.

    On a GPU, in float32 or float64, `auto` takes the fused kernels above that, if Triton is installed, they support the
    kernel, and they were right on a few hundred of these rows. Ranks (`apviz.distributed`) share the work of all
    engines but `dense`, which is for few rows, and which every rank holds itself; with ranks, `auto` takes tiles.

    Raises:
        ValueError: an unknown name; the message lists the known ones.
    """
    ranks = current()
    if name == "auto":
        name = "dense" if len(x) <= DENSE_MAX_N and ranks is None else "tiled"
        if name == "tiled" and x.is_cuda and is_trusted(x, kernel, noise, dtype):
            name = "fused"
    if name not in OPERATORS:
        raise ValueError(f"operator must be auto, {', '.join(OPERATORS)}, got {name!r}")
    if name == "fourier" and ranks is not None:
        raise ValueError("operator 'fourier' runs in one process, not on ranks; use operator='tiled'")
    operator = OPERATORS[name](x, kernel, noise, dtype)
    return operator if ranks is None or name == "dense" else DistributedOperator(operator, ranks)
