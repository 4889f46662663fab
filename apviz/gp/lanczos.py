"""Lanczos on K: K⁻¹ of low rank for variances."""

from __future__ import annotations

from collections.abc import Sequence, Sized

import numpy as np
import torch
from torch import Tensor

from apviz.memory import require_memory
from apviz.operators import CountingOperator
from apviz.settings import require, require_whole
from apviz.spectrum import LanczosBasis
from apviz.system import tensor_of

# the basis, its copy when it grows or is scaled, and the engine's own of it in a product
BASIS_COPIES = 3


def check_ranks(ranks: Sequence[int]) -> None:
    """Refuses all but one or several whole numbers from 1."""
    require(isinstance(ranks, Sized) and np.ndim(ranks) == 1 and len(ranks) > 0, "ranks", ranks, "at least one rank")
    for rank in ranks:
        require_whole("each of ranks", rank, 1)


def check_inputs(x_star: Tensor, d: int) -> None:
    """Refuses test inputs of another shape."""
    if x_star.ndim != 2 or x_star.shape[1] != d:
        raise ValueError(f"x_star must have shape (m, {d}) as x has {d} columns, got {tuple(x_star.shape)}")


class LanczosInverse:
    """Approximates K⁻¹ by Q T⁻¹ Qᵀ ⪯ K⁻¹ of any rank up to the one built; a smaller rank is its leading part.

    For variances of low rank (Pleiss et al., ICML 2018; paper, section 5.1).

    The start is K·1, the sum of the training covariances (Pleiss et al., section 4), so the basis does not depend on
    the test points and serves all of them. Q is in the operator's dtype, T and all that follows from it in float64.

    T has no eigenvalue below λmin(K) ≥ σ², so no pivot of its factor LDLᵀ lies below σ². Products in float32 can put
    one there; such a pivot is raised to σ², which makes the variance larger, never smaller.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> from apviz.operators import CountingOperator
        >>> inverse = apviz.LanczosInverse(CountingOperator(system.operator))
        >>> explained = inverse.explained(torch.tensor([[0.5]]), ranks=[1, 5, 20])[0]
        >>> inverse.rank, bool((explained.diff() > 0).all()), bool(explained[-1] < system.kernel.outputscale)
        (20, True, True)
    """

    def __init__(self, operator: CountingOperator) -> None:
        self.operator = operator
        self._basis: LanczosBasis | None = None

    @property
    def rank(self) -> int:
        """The rank built so far."""
        return len(self._basis) if self._basis else 0

    def extend(self, rank: int) -> None:
        """Extends the basis to `rank`, at most n: one product with K, 1.0 work, for each new vector and the start.

        Raises:
            ValueError: a rank that is not a whole number from 1.
            MemoryError: n·rank numbers, held up to three times, would not fit the free memory.
        """
        require_whole("rank", rank, 1)
        x = self.operator.x
        rank = min(int(rank), len(x))
        if rank <= self.rank:
            return
        require_memory(
            BASIS_COPIES * rank * len(x) * x.element_size(),
            x.device,
            f"a Lanczos basis of rank {rank:,} for n = {len(x):,} and its copies need",
            "use a smaller rank, or method='solves'",
        )
        if self._basis is None:
            self._basis = LanczosBasis(self._matmul, self._matmul(x.new_ones(len(x))), restart_seed=0)
        self._basis.extend(rank)

    def _matmul(self, v: Tensor) -> Tensor:
        return self.operator.matmul(v[:, None].contiguous())[:, 0]

    def explained(self, x_star: Tensor, ranks: Sequence[int]) -> Tensor:
        """Computes cᵀQT⁻¹Qᵀc for c = k(X, x*), a part of the prior's variance: (m, d) to (m, len(ranks)) float64.

        It never falls with the rank. Evaluates mn entries, whatever the ranks; m × rank arrays are formed,
        no n × m array.
        """
        x_star = tensor_of(x_star, "x_star")
        check_inputs(x_star, self.operator.x.shape[1])
        check_ranks(ranks)
        wanted = torch.tensor([min(int(rank), len(self.operator.x)) for rank in ranks])
        most = int(wanted.max())
        self.extend(most)
        basis = self._basis
        assert basis is not None  # extend made it
        a = self.operator.cross_matmul(x_star, basis.vectors[:most].T).double()
        return self._squares(a.T.contiguous(), basis).cumsum(0)[wanted.to(a.device) - 1].T

    def _squares(self, a: Tensor, basis: LanczosBasis) -> Tensor:
        """(D^-½ L⁻¹ a)², whose first r rows sum to aᵀT⁻¹a of rank r, for T = LDLᵀ; a: (rank, m), overwritten."""
        noise = self.operator.noise
        pivot = max(basis.diagonal[0], noise)
        pivots = [pivot]
        for k in range(1, len(a)):
            below = basis.off_diagonal[k - 1] / pivot  # the one entry of L beside its unit diagonal
            pivot = max(basis.diagonal[k] - below * basis.off_diagonal[k - 1], noise)
            pivots.append(pivot)
            a[k].sub_(a[k - 1], alpha=below)
        return a.square_().div_(torch.tensor(pivots, dtype=torch.float64, device=a.device)[:, None])
