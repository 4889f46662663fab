"""The limit on the memory of block factors."""

from __future__ import annotations

from torch import Tensor

from apviz.dashboard.limits import Limits
from apviz.factors import factor_bytes
from apviz.solvers import AlternatingProjection, Solver


def too_large(solver: Solver, x: Tensor, limits: Limits) -> str:
    """Why the block factors of a solver on the inputs x: (n, d) are refused; empty where they are not.

    Blocks whose size apviz chooses are sized by the memory that is free.
    """
    if not isinstance(solver, AlternatingProjection) or "auto" in (solver.block_size, solver.overlap):
        return ""
    needed = factor_bytes(x, int(solver.block_size), float(solver.overlap))
    if needed <= limits.max_block_gb * 1e9:
        return ""
    return (
        f"{solver.label}: the block factors take {needed / 1e9:.1f} GB, this server allows "
        f"{limits.max_block_gb:g} GB a solve; take smaller blocks or less overlap: memory grows as n·b·(1 + overlap)²"
    )
