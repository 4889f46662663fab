"""Whitening by near rows: each block of rows is conditioned on the nearest rows of the blocks before it.

This is Vecchia's approximation V of a matrix, for blocks that share their neighbours. V⁻¹ = LᵀL has a sparse triangular
factor L, so log det V is a sum over its diagonal. With few inputs, a few hundred neighbours say almost all that other
rows say about a row, where a low rank would need thousands of columns.

References: Vecchia, JRSS B 50, 1988; Schäfer, Katzfuss & Owhadi, SIAM J. Sci. Comput. 43, 2021 (shared neighbours);
Kaminetz & Webber, arXiv:2603.05709, 2026 (of what a low rank leaves).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from apviz.factors import cholesky_with_jitter
from apviz.memory import require_memory
from apviz.operators import Operator
from apviz.partitions import PrincipalAxisTree

#: rows of a block, and neighbours on which it is conditioned
BLOCK, NEIGHBOURS = 64, 256
#: rows of near blocks that are searched, ÷ the number of neighbours
SEARCHED = 3
#: share of the squared distance to the centre of a block that is added to that to its box
TOWARDS_CENTRE = 1e-3
#: blocks that are multiplied at once
AT_ONCE = 256


class NeighbourWhitening:
    """A matrix L with L V Lᵀ = I for Vecchia's approximation V of K − FFᵀ.

    Blocks are taken in random order. L is stored in float32; products convert it, so that they are with what is stored.

    Args:
        operator: K.
        factor: (n, r) F with FFᵀ ⪯ K − σ²I; None: no columns.
        seed: seed of the order.

    Attributes:
        log_determinant: of V, 0-d float64.
        largest_eigenvalue: of V, estimated from above by the trace of K.

    Raises:
        MemoryError: L, about 1.3 kB a row, does not fit.

    Examples:
        >>> import torch, apviz
        >>> from apviz.preconditioners import NeighbourWhitening
        >>> x = torch.linspace(0, 1, 500, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, x, apviz.Matern52(lengthscale=0.2), noise=0.1, device="cpu")
        >>> whitening = NeighbourWhitening(system.operator)
        >>> exact = torch.logdet(system.operator.matmul(torch.eye(500, dtype=torch.float64)))
        >>> bool((whitening.log_determinant - exact).abs() < 0.5)
        True
    """

    def __init__(self, operator: Operator, factor: Tensor | None = None, seed: int = 0) -> None:
        n, device = operator.n, operator.x.device
        size = min(BLOCK, n)
        inputs, exact = operator.inputs, operator.exact()
        blocks = torch.split(PrincipalAxisTree().order(inputs, size), size)
        order = torch.randperm(len(blocks), generator=torch.Generator().manual_seed(int(seed)))
        blocks = tuple(blocks[k] for k in order.tolist())
        count, width = len(blocks), size + min(NEIGHBOURS, n - size)
        what = f"the whitening of {n:,} rows by their neighbours needs"
        require_memory(count * width * (4.0 * size + 8.0), device, what, "use fewer rows, or solver=apviz.Cholesky()")
        # shorter blocks, and the first ones with few rows before them, are padded by weights of 0
        self._n = n
        self._own = torch.zeros(count, size, dtype=torch.int64, device=device)
        self._near = torch.zeros(count, width, dtype=torch.int64, device=device)
        self._weights = torch.zeros(count, width, size, device=device)
        centres, logarithms = torch.stack([inputs[own].mean(0) for own in blocks]), 0.0
        for k, own in enumerate(blocks):
            near = _nearest(k, blocks, inputs, centres, width - size)
            rows = torch.cat([near, own])
            matrix = exact.block(rows)
            if factor is not None:
                matrix.addmm_(factor[rows].double(), factor[rows].double().T, alpha=-1.0)
            root, _ = cholesky_with_jitter(matrix, "a block of near rows", operator.largest_signal)
            unit = torch.eye(len(rows), dtype=root.dtype, device=device)[:, len(near) :]
            weights = torch.linalg.solve_triangular(root.T, unit, upper=True).float()
            self._own[k, : len(own)], self._near[k, : len(rows)] = own, rows
            self._weights[k, : len(rows), : len(own)] = weights
            logarithms += float(weights[len(near) :].diagonal().double().log().sum())
        self.log_determinant = torch.tensor(-2.0 * logarithms, dtype=torch.float64, device=device)
        self.largest_eigenvalue = float(operator.diagonal().double().sum())

    def __call__(self, r: Tensor) -> Tensor:
        """Compute L r for r: (n, p)."""
        out = torch.zeros_like(r)
        for own, near, weights in self._chunks():
            found = torch.bmm(weights.to(r).mT, r[near])
            out.index_add_(0, own.flatten(), found.flatten(0, 1))
        return out

    def transposed(self, r: Tensor) -> Tensor:
        """Compute Lᵀ r for r: (n, p)."""
        out = torch.zeros_like(r)
        for own, near, weights in self._chunks():
            found = torch.bmm(weights.to(r), r[own])
            out.index_add_(0, near.flatten(), found.flatten(0, 1))
        return out

    def _chunks(self) -> zip[tuple[Tensor, Tensor, Tensor]]:
        return zip(*(torch.split(each, AT_ONCE) for each in (self._own, self._near, self._weights)), strict=True)


def _nearest(block: int, blocks: tuple[Tensor, ...], inputs: Tensor, centres: Tensor, count: int) -> Tensor:
    """Return up to `count` rows of the blocks before a block, nearest to its box, from blocks with near centres."""
    own = blocks[block]
    if not block or not count:
        return own[:0]
    looked_at = math.ceil(SEARCHED * count / len(own)) + 2
    apart = (centres[:block] - centres[block]).square().sum(1)
    around = apart.topk(min(looked_at, block), largest=False).indices.tolist()
    rows = torch.cat([blocks[k] for k in around])
    points, low, high = inputs[rows], inputs[own].amin(0), inputs[own].amax(0)
    # of rows inside the box, those near its centre come first
    distance = (points - points.clamp(low, high)).square().sum(1)
    distance += TOWARDS_CENTRE * (points - centres[block]).square().sum(1)
    return rows[distance.topk(min(count, len(rows)), largest=False).indices]
