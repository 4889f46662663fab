"""Probe vectors: random right-hand sides z with E[zzᵀ] = P, which turn a trace into solves.

tr(K⁻¹ ∂K) = E[(K⁻¹z)ᵀ ∂K (P⁻¹z)] for every P (paper, section 2; Gardner et al., 2018, section 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.operators import Operator
from apviz.preconditioners import PivotedCholesky, RandomlyPivotedCholesky
from apviz.preconditioners.low_rank import LowRankPlusNoise
from apviz.solvers import Prepared, Solver


@dataclass(frozen=True, eq=False)
class Probes:
    """Probes z: (n, l), their dual P⁻¹z: (n, l), and the law they were drawn from, in words."""

    z: Tensor
    dual: Tensor
    law: str


def rademacher(n: int, count: int, seed: int, like: Tensor) -> Probes:
    """Draws entries ±1, so that P = I, as the paper has them for alternating projection (appendix, GP training).

    Examples:
        >>> import torch, apviz
        >>> probes = apviz.rademacher(100, 3, seed=0, like=torch.zeros(1))
        >>> probes.z.shape, probes.z.unique()
        (torch.Size([100, 3]), tensor([-1.,  1.]))
    """
    z = 2.0 * torch.randint(2, (n, count), generator=torch.Generator().manual_seed(seed)) - 1.0
    z = z.to(like)
    return Probes(z, z, "Rademacher")


def draw(solver: Solver, operator: Operator, count: int, seed: int) -> tuple[Probes, Prepared | None]:
    """Draws the probes that suit a solver; also returns what it prepared, where they are drawn from that.

    CG with a low-rank preconditioner P gets z from N(0, P), as in GPyTorch; every other solver Rademacher probes.
    """
    preconditioner = getattr(solver, "preconditioner", None)
    # a two-level Schwarz preconditioner is known by its inverse only, and cannot be drawn from
    if isinstance(preconditioner, PivotedCholesky | RandomlyPivotedCholesky):
        prepared = solver.prepare(operator, count + 1)
        built = prepared.preconditioner
        assert isinstance(built, LowRankPlusNoise)  # as both build it
        z = built.sample(count, torch.Generator().manual_seed(seed))
        return Probes(z, built(z), "N(0, P)"), prepared
    return rademacher(operator.n, count, seed, operator.x), None
