"""The last updates as a subspace: how far to go along each is chosen again with every new one."""

from __future__ import annotations

import torch
from torch import Tensor

from apviz.operators import CountingOperator, Rows
from apviz.operators.interface import add_rows_


class History:
    """Minimises h over the span of the last q updates instead of along the new one alone, per right-hand side.

    Sequential subspace optimisation (Narkiss & Zibulevsky, 2005): what conjugacy is to CG, for projections. K times
    an old update is known from when it was made, so no entries are evaluated; memory q·n·(l+1).

    Args:
        length: q.
        shape: (n, l+1) of the residual.
        rows: most rows an update can have.
    """

    def __init__(self, length: int, like: Tensor, rows: int) -> None:
        n, columns = like.shape
        self.images = like.new_zeros(length, n, columns)  # K[:, Iᵢ] Uᵢ
        self.updates = like.new_zeros(length, rows, columns)  # Uᵢ, zero beyond |Iᵢ|
        #: how far W has gone along each since it was made, which is added to W once, when the update is forgotten
        self.taken = like.new_zeros(length, columns)
        self.rows = torch.zeros(length, rows, dtype=torch.int64, device=like.device)  # Iᵢ, zero beyond |Iᵢ|
        self.gram = torch.eye(length, dtype=torch.float64, device=like.device).expand(columns, -1, -1).clone()
        # rounding of the Gram matrix, below which two updates count as one
        self.ridge = 8 * torch.finfo(like.dtype).eps
        self.made = 0

    def project_(self, operator: CountingOperator, w: Tensor, r: Tensor, rows: Rows, u: Tensor) -> Tensor:
        """Adds the update u on `rows` to the history and steps to the minimum; returns the (l+1,) decreases of h.

        The steps are in `r` at once, and in `w` after `settle_`.
        """
        slot, size = self.made % len(self.images), len(u)
        self._add_to_(w, slot)
        self.made += 1
        used = min(self.made, len(self.images))
        indices = torch.arange(rows.start, rows.stop, device=u.device) if isinstance(rows, slice) else rows
        self.updates[slot, :size], self.updates[slot, size:] = u, 0
        self.rows[slot, :size], self.rows[slot, size:] = indices, 0
        image = self.images[slot].zero_()
        operator.subtract_columns_(image, rows, -u)

        held, updates = self.rows[:used], self.updates[:used]
        inner = operator.operator.gathered_products(updates, held, image).T  # Uᵢᵀ K U, (l+1, used)
        self.gram[:, slot, :used] = self.gram[:, :used, slot] = inner
        gradient = operator.operator.gathered_products(updates, held, r).T
        steps = self._minimum(used, slot, gradient)  # (l+1, used)
        taken = steps.T.to(r)
        self.taken[:used] += taken
        operator.operator.subtract_combination_(r, self.images[:used], taken)
        curvature = (self.gram[:, :used, :used] @ steps[..., None])[..., 0]
        return torch.sum(steps * (gradient - 0.5 * curvature), dim=1)

    def settle_(self, w: Tensor) -> None:
        """Adds to `w` the steps that are not in it yet."""
        for slot in range(min(self.made, len(self.images))):
            self._add_to_(w, slot)

    def _add_to_(self, w: Tensor, slot: int) -> None:
        add_rows_(w, self.rows[slot], self.updates[slot] * self.taken[slot])
        self.taken[slot] = 0

    def _minimum(self, used: int, slot: int, gradient: Tensor) -> Tensor:
        """Gram⁻¹ gradient per right-hand side, (l+1, used); one step along the new update where that is singular."""
        gram = self.gram[:, :used, :used]
        scale = gram.diagonal(dim1=1, dim2=2).clamp_min(torch.finfo(torch.float64).tiny).rsqrt()
        scaled = gram * scale[:, :, None] * scale[:, None, :]
        scaled.diagonal(dim1=1, dim2=2).add_(self.ridge)
        factor, info = torch.linalg.cholesky_ex(scaled)
        steps = torch.cholesky_solve((gradient * scale)[..., None], factor)[..., 0] * scale
        alone = torch.zeros_like(steps)
        alone[:, slot] = 1.0
        return torch.where((info == 0)[:, None] & steps.isfinite().all(1, keepdim=True), steps, alone)
