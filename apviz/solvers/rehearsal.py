"""Rehearsals: how many iterations CG would need, found by CG on a few rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from apviz.operators import Operator
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky

# of the right-hand sides
MOST_SIDES = 4
# iterations, of which so few say little about how fast they grow; how many times fewer than others are few on any rows
FEW, SURE = 3.0, 3.0
# in works: what a low-rank preconditioner of rank r costs is SETUP + SETUP_FLOPS·r²/n, and its application 2r/n
SETUP, SETUP_FLOPS = 0.1, 0.1
# and the pass that ends a solve
PASS = 1.0


class Rehearsal:
    """CG on m random rows with m/n of the noise, for which the eigenvalues are about m/n times those of all rows.

    In float64, for float32 cannot tell what low rank leaves from rounding. A set-up and an iteration take some
    m²·(d + rank) and 2m² operations; no work of the solve.

    Args:
        b: (n, l+1) right-hand sides, in the layout of the operator; None: random ones.
        rank: the most that are asked for.
        rows: m; n where that is less.
        seed: of the rows and the pivots.
    """

    def __init__(self, operator: Operator, b: Tensor | None, rank: int, rows: int, seed: int) -> None:
        m = min(operator.n, rows)
        generator = torch.Generator().manual_seed(int(seed))
        drawn = torch.randperm(operator.n, generator=generator)[:m].to(operator.given.device)
        self._rank, self._seed = min(rank, m // 2), seed
        self._probe = operator.of_rows(drawn, operator.noise_of(drawn) * (m / operator.n))
        noises = self._probe.noises
        # (m, 1) σ² of the least ÷ that of each
        self._weight = torch.ones(1) if noises is None else (noises.min() / noises)[:, None]
        random = torch.randn(m, MOST_SIDES, generator=generator)
        r = (
            random.to(self._probe.x)
            if b is None
            else operator.layout.take(b[:, :MOST_SIDES].to(drawn.device), drawn).double()
        )
        self._r = r / r.abs().amax(0).clamp_min(torch.finfo(r.dtype).tiny)

    def iterations(self, rank: int, tol: float, most: float) -> float | None:
        """Counts the iterations that leave tol of the residual, in fractions as its logarithm falls.

        Args:
            rank: of a randomly pivoted Cholesky factor as preconditioner; 0: none.
            tol: in the mean over right-hand sides.
            most: iterations, beyond which their number does not matter.

        Returns:
            the iterations, or None where `most` do not do.
        """
        r, tiny = self._r, torch.finfo(torch.float64).tiny
        norms = torch.linalg.vector_norm(r, dim=0).clamp_min(tiny)
        factor = self._factor[:, : min(rank, self._rank)]
        weight = self._weight.to(factor)
        inside, failed = torch.linalg.cholesky_ex(
            factor.T @ (weight * factor) + self._probe.noise * torch.eye(factor.shape[1]).to(factor)
        )
        if failed:  # so little noise that rounding hides it: nothing can be told
            return None
        p, inner, left = torch.zeros_like(r), torch.ones_like(norms), 1.0
        for iteration in range(1, math.ceil(most) + 1):
            z = weight * r  # then Woodbury, but for a factor 1/σ²
            z = z - weight * (factor @ torch.cholesky_solve(factor.T @ z, inside))
            before, inner = inner, (r * z).sum(0)
            p = z + p * (inner / before.clamp_min(tiny))
            image = self._k @ p
            r = r - image * (inner / (p * image).sum(0).clamp_min(tiny))
            left_before, left = left, max(float((torch.linalg.vector_norm(r, dim=0) / norms).mean()), tiny)
            if left < tol:
                fraction = math.log(left_before / tol) / math.log(left_before / left) if left_before > tol else 1.0
                return iteration - 1 + fraction
        return None

    @cached_property
    def _k(self) -> Tensor:
        return self._probe.block(slice(0, self._probe.n))

    @cached_property
    def _factor(self) -> Tensor:
        """(m, rank) in the order of the pivots, so that the first columns are a factor of lower rank."""
        return randomly_pivoted_cholesky(self._probe, self._rank, self._seed) if self._rank else self._k[:, :0]


class Plan(NamedTuple):
    """CG with a preconditioner of some rank, 0 for none: about how many iterations, and how much work in all."""

    rank: int
    iterations: float
    work: float


def cheapest(
    operator: Operator,
    b: Tensor | None,
    ranks: Sequence[int],
    tol: float,
    columns: int,
    work: float,
    rows: int,
    seed: int,
) -> Plan | None:
    """Finds the rank with which CG is expected to cost least, or None where it would cost more than `work`.

    Where much of k is so local that few rows do not show it, CG takes more iterations than on those. How fast they
    grow from half of the rows to these says how many more.

    Args:
        b: (n, l+1) right-hand sides to be solved for; None: random ones.
        ranks: that are tried, in this order; where the first would cost too much, no other is.
        tol: what is to be left of the residual.
        columns: right-hand sides, by which an iteration costs.
        rows: of the rehearsal.
    """
    whole, half = (Rehearsal(operator, b, max(ranks), several, seed) for several in (rows, rows // 2))
    best: Plan | None = None
    for rank in ranks:
        setup, each = _prices(operator, columns, rank)
        most = ((work if best is None else best.work) - setup) / each
        needed = whole.iterations(rank, tol, most) if most > 0 else None
        if needed is not None and needed > most / SURE and operator.n > rows:
            of_half = half.iterations(rank, tol, most)
            needed *= growth(needed, of_half, operator.n / rows)
        if needed is not None and needed <= most:
            best = Plan(rank, needed, work_of(operator, columns, rank, needed))
        elif best is None:
            return None
    return best


def growth(needed: float, of_half: float | None, times: float) -> float:
    """Returns how many times the iterations grow on so many times the rows, as from half of them to these; from 1 on.

    Args:
        needed, of_half: iterations on the rows of a rehearsal, and on half of them; None: not known.
    """
    doubling = 1.0 if of_half is None else (needed + FEW) / (of_half + FEW)
    return float(max(1.0, doubling) ** math.log2(max(times, 1.0)))


def affordable_iterations(operator: Operator, columns: int, rank: int, work: float) -> float:
    """Returns the iterations of CG, preconditioned with a low rank, that cost no more than so much work elsewhere."""
    setup, each = _prices(operator, columns, rank)
    return max(0.0, (work - setup) / each)


def work_of(operator: Operator, columns: int, rank: int, iterations: float) -> float:
    """Returns the work of so many iterations of CG, preconditioned with a low rank, set-up and last pass included."""
    setup, each = _prices(operator, columns, rank)
    return setup + each * iterations


def _prices(operator: Operator, columns: int, rank: int) -> tuple[float, float]:
    """The work of all but the iterations, and of each; in what the same seconds evaluate elsewhere."""
    n = operator.n
    setup = SETUP + SETUP_FLOPS * rank**2 / n if rank else 0.0
    return setup + PASS, operator.matmul_price(columns) + 2.0 * rank / n
