"""Probe vectors: random right-hand sides z with E[zzᵀ] = P, which turn a trace into solves.

tr(K⁻¹ ∂K) = E[(K⁻¹z)ᵀ ∂K (P⁻¹z)] for every P (paper, section 2; Gardner et al., 2018, section 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.preconditioners import PivotedCholesky, RandomlyPivotedCholesky
from apviz.preconditioners.base import Built
from apviz.solvers import ConjugateGradient, Solver


@dataclass(frozen=True, eq=False)
class Probes:
    """z: (n, l), dual = P⁻¹z: (n, l), and what they were drawn from, in words."""

    z: Tensor
    dual: Tensor
    law: str


def rademacher(n: int, count: int, seed: int, like: Tensor) -> Probes:
    """Entries ±1: P = I, as the paper has them for alternating projection (appendix, GP training)."""
    z = 2.0 * torch.randint(2, (n, count), generator=torch.Generator().manual_seed(seed)) - 1.0
    z = z.to(like)
    return Probes(z, z, "Rademacher")


def draw(solver: Solver, operator: CountingOperator, count: int, seed: int) -> tuple[Probes, Solver]:
    """The probes that suit a solver, and the solver to use with them.

    CG with a low-rank preconditioner P gets z from N(0, P), as in GPyTorch, and P as it was built for them; every
    other solver Rademacher probes.
    """
    preconditioner = getattr(solver, "preconditioner", None)
    # a two-level Schwarz preconditioner is known by its inverse only, and cannot be drawn from
    if isinstance(solver, ConjugateGradient) and isinstance(preconditioner, PivotedCholesky | RandomlyPivotedCholesky):
        built = preconditioner.build(operator)
        z = built.sample(count, torch.Generator().manual_seed(seed))
        return Probes(z, built(z), "N(0, P)"), replace(solver, preconditioner=Built(preconditioner, built))
    return rademacher(operator.operator.n, count, seed, operator.operator.x), solver
