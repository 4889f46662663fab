"""Low-rank approximation of K⁻¹ by Lanczos, for variances."""

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

#: rank of the paper's variances (section 5.1)
PAPER_LANCZOS_RANK = 1000
# the basis, a copy when it grows or is scaled, and a copy in the engine during a product
BASIS_COPIES = 3


def check_ranks(ranks: Sequence[int]) -> None:
    """Check that ranks are one or more whole numbers, each at least 1."""
    require(isinstance(ranks, Sized) and np.ndim(ranks) == 1 and len(ranks) > 0, "ranks", ranks, "at least one rank")
    for rank in ranks:
        require_whole("each of ranks", rank, 1)


def check_inputs(x_star: Tensor, d: int) -> None:
    """Check that test inputs have shape (m, d)."""
    if x_star.ndim != 2 or x_star.shape[1] != d:
        raise ValueError(f"x_star must have shape (m, {d}) as x has {d} columns, got {tuple(x_star.shape)}")


class LanczosInverse:
    """The approximation Q T⁻¹ Qᵀ ⪯ K⁻¹ of any rank up to the one built; a smaller rank is its leading part.

    It gives low-rank variances (Pleiss et al., ICML 2018; paper, section 5.1).

    Lanczos starts from K·1, the sum of the training covariances (Pleiss et al., section 4). The basis is therefore
    the same for all test points. Q is in the operator's dtype; T and all that follows from it are float64.

    T has no eigenvalue below λmin(K) ≥ σ², so no pivot of its factor LDLᵀ is below σ². Rounding in float32 can break
    this. Such a pivot is raised to σ², which makes the variance larger, never smaller.

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
        """Rank built so far."""
        return len(self._basis) if self._basis else 0

    def extend(self, rank: int) -> None:
        """Extend the basis to `rank`, at most n. The start and each new vector cost a product with K, 1.0 work."""
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
        """Compute cᵀQT⁻¹Qᵀc for c = k(X, x*), the explained variance: (m, d) to (m, len(ranks)) float64.

        It never falls as the rank grows. For any ranks mn entries are evaluated. Memory: m × rank arrays, no n × m
        array.
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
        """Return (D^-½ L⁻¹ a)² for T = LDLᵀ; its first r rows sum to aᵀT⁻¹a of rank r. Overwrites a: (rank, m)."""
        noise = self.operator.noise
        pivot = max(basis.diagonal[0], noise)
        pivots = [pivot]
        for k in range(1, len(a)):
            below = basis.off_diagonal[k - 1] / pivot  # the one entry of L left of its unit diagonal
            pivot = max(basis.diagonal[k] - below * basis.off_diagonal[k - 1], noise)
            pivots.append(pivot)
            a[k].sub_(a[k - 1], alpha=below)
        return a.square_().div_(torch.tensor(pivots, dtype=torch.float64, device=a.device)[:, None])
