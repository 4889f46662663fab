"""Rehearsals: how many iterations CG would need, found by CG on a few rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from apviz.operators import Operator, make_operator
from apviz.preconditioners.base import Apply
from apviz.preconditioners.low_rank import LowRankPlusNoise
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky

# of the right-hand sides
MOST_SIDES = 4
# iterations, of which so few say little about how fast they grow
FEW = 3.0
# in works: what a low-rank preconditioner of rank r costs is SETUP + SETUP_FLOPS·r²/n, and its application 2r/n
SETUP, SETUP_FLOPS = 0.4, 0.55
# and the pass that ends a solve
PASS = 1.0


def rehearse(
    operator: Operator, b: Tensor | None, rank: int, tol: float, most: float, rows: int, seed: int
) -> float | None:
    """Estimates the iterations of CG, preconditioned with a low rank, that lower the residual to tol.

    The eigenvalues of k(X, X) are about n/m times those of k on m random rows; so CG on those with m/n of the noise
    takes about as many iterations, but fewer where much of k is so local that few rows do not show it. How fast they
    grow from m/2 to m says how much. At most some 2m²·iterations operations, in float64 for float32 cannot tell what
    low rank leaves from rounding; no work of the solve.

    Args:
        b: (n, l+1) right-hand sides; None: random ones.
        rank: of a randomly pivoted Cholesky factor; 0: none.
        tol: the mean over right-hand sides of what is left of ‖b‖.
        most: iterations, beyond which their number does not matter.
        rows: m.

    Returns:
        the iterations, or None where `most` do not do.
    """
    n, m = operator.n, min(operator.n, rows)
    of_m = iterations_on(m, operator, b, rank, tol, most, seed)
    if of_m is None or n <= m:
        return of_m
    of_half = iterations_on(m // 2, operator, b, rank, tol, most, seed)
    growth = (of_m + FEW) / (of_half + FEW) if of_half is not None else 1.0
    expected = of_m * max(1.0, growth) ** math.log2(n / m)
    return expected if expected <= most else None


def iterations_on(
    m: int, operator: Operator, b: Tensor | None, rank: int, tol: float, most: float, seed: int
) -> float | None:
    """Counts the iterations of CG on m random rows with m/n of the noise, in fractions as the logarithm falls.

    Takes what `rehearse` does; None where `most` do not do.
    """
    m = min(m, operator.n)
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(operator.n, generator=generator)[:m].to(operator.given.device)
    noise = operator.noise * m / operator.n
    probe = make_operator("tiled", operator.given[drawn], operator.kernel, noise, torch.float64)
    probe.fix_engine(0.0, 1)
    r = torch.randn(m, MOST_SIDES, generator=generator).to(probe.x) if b is None else b[drawn, :MOST_SIDES].double()
    tiny = torch.finfo(r.dtype).tiny
    r = r / r.abs().amax(0).clamp_min(tiny)
    precondition: Apply = torch.clone
    if rank:
        precondition = LowRankPlusNoise(randomly_pivoted_cholesky(probe, min(rank, m // 2), seed), noise)
    k = probe.block(slice(0, m))
    norms = torch.linalg.vector_norm(r, dim=0).clamp_min(tiny)
    p, inner, left = torch.zeros_like(r), torch.ones_like(norms), 1.0
    for iteration in range(1, math.ceil(most) + 1):
        z = precondition(r)
        before, inner = inner, (r * z).sum(0)
        p = z + p * (inner / before.clamp_min(tiny))
        image = k @ p
        r = r - image * (inner / (p * image).sum(0).clamp_min(tiny))
        left_before, left = left, max(float((torch.linalg.vector_norm(r, dim=0) / norms).mean()), tiny)
        if left < tol:
            return iteration - 1 + math.log(left_before / tol) / math.log(left_before / left)
    return None


def affordable_iterations(operator: Operator, columns: int, rank: int, work: float) -> float:
    """Returns the iterations of CG, preconditioned with a low rank, that cost no more than so much work elsewhere."""
    n = operator.n
    setup = SETUP + SETUP_FLOPS * rank**2 / n if rank else 0.0
    each = operator.matmul_price(columns) + 2.0 * rank / n
    return max(0.0, (work - setup - PASS) / each)
