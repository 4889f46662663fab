"""The covariance of a GPyTorch model's prediction, solved for by apviz when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from linear_operator import to_linear_operator
from linear_operator.operators import LinearOperator
from torch import Tensor

from apviz.gp.posterior import Posterior
from apviz.gpytorch.refused import PREDICTION, without_gradient
from apviz.gpytorch.solves import Solves


class PosteriorCovariance(LinearOperator):  # type: ignore[misc]
    """The covariance of f at test inputs z: (m, d) given the data. Nothing is solved before it is asked for.

    The diagonal alone, which is all that variances need, takes solves in batches; the whole takes the same solves, and
    (n, m) and (m, m) arrays. Both stay. Neither has a gradient in `depends_on`: backward raises.

    Args:
        part_of: the covariance at more test inputs, and those of them that z is; what the whole has solved is taken
            from it, and what is asked of a part is solved for the whole, so that both have the same numbers.
    """

    def __init__(
        self,
        z: Tensor,
        posterior: Posterior,
        solves: Solves,
        depends_on: Sequence[Tensor] = (),
        part_of: tuple[PosteriorCovariance, slice] | None = None,
    ) -> None:
        super().__init__(z, posterior=posterior, solves=solves, depends_on=depends_on, part_of=part_of)
        self.z, self.posterior, self.solves, self.depends_on = z, posterior, solves, depends_on
        self.part_of = part_of
        self._variance: Tensor | None = None
        self._covariance: Tensor | None = None

    def _size(self) -> torch.Size:
        return torch.Size((len(self.z), len(self.z)))

    def _transpose_nonbatch(self) -> PosteriorCovariance:
        return self

    def _matmul(self, rhs: Tensor) -> Tensor:
        product: Tensor = self.to_dense() @ rhs
        return product

    def _diagonal(self) -> Tensor:
        if self._variance is None:
            if self.part_of is not None:
                found = self.part_of[0]._diagonal()[self.part_of[1]].detach()
            elif self._covariance is None:
                found = self.posterior.variance(self.z, hooks=self.solves.hooks)
            else:
                found = self._covariance.diagonal()
            self._variance = found.to(self.z)
        return without_gradient(self._variance, self.depends_on, PREDICTION)

    def to_dense(self) -> Tensor:
        if self._covariance is None:
            if self.part_of is not None:
                found = self.part_of[0].to_dense()[self.part_of[1], self.part_of[1]].detach()
            else:
                found = self.posterior.covariance(self.z, hooks=self.solves.hooks)
                if self._variance is not None:  # the same but for rounding
                    found.diagonal().copy_(self._variance)
            self._covariance = found.to(self.z)
        return without_gradient(self._covariance, self.depends_on, PREDICTION)

    def evaluate_kernel(self) -> Any:
        return to_linear_operator(self.to_dense())

    # GPyTorch takes operators apart and puts them together again: from what was solved, not to be solved anew
    def representation(self) -> Any:
        return self.evaluate_kernel().representation()

    def representation_tree(self) -> Any:
        return self.evaluate_kernel().representation_tree()

    # LinearOperator's own select parts by products with ones and zeros, with batch dimensions that z does not have
    def _getitem(self, row_index: Any, col_index: Any, *batch_indices: Any) -> Any:
        for index in (row_index, col_index):
            if not isinstance(index, slice) and not (isinstance(index, Tensor) and index.dtype != torch.bool):
                what = "a mask" if isinstance(index, Tensor) else repr(index)
                raise IndexError(
                    f"a prediction was indexed with {what}; it takes an int, a slice or a tensor of positions, such "
                    "as mask.nonzero()[:, 0], and unsqueeze(0) where a dimension is wanted"
                )
        if isinstance(row_index, slice) and row_index == col_index:
            if row_index == slice(None):
                return self
            part_of = self, row_index
            return PosteriorCovariance(self.z[row_index], self.posterior, self.solves, self.depends_on, part_of)
        return self.evaluate_kernel()._getitem(row_index, col_index)

    def _get_indices(self, row_index: Tensor, col_index: Tensor, *batch_indices: Any) -> Tensor:
        if torch.equal(row_index, col_index):
            return self._diagonal()[row_index]
        return self.to_dense()[row_index, col_index]

    def _unsqueeze_batch(self, dim: int) -> Any:
        return self.evaluate_kernel()._unsqueeze_batch(dim)
