"""Steps: apply an update alone, or together with steps along past updates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor

from apviz.factors import Block
from apviz.operators import Operator, Rows
from apviz.operators.interface import add_rows_
from apviz.operators.layout import Layout
from apviz.registry import Registry
from apviz.settings import Auto, chosen, require_whole_or_auto
from apviz.skeletons import Columns
from apviz.solvers.measuring.decreases import Waiting
from apviz.solvers.state import column_inner
from apviz.stacked_factors import is_asynchronous

#: largest number of updates not yet added to W
MOST_WAITING: Final = 64


class Step(ABC):
    """A setting of alternating projection: how an update is applied."""

    #: number of past updates to step along again
    length: int | Auto = 0

    @abstractmethod
    def bind(self, operator: Operator, columns: Columns, like: Tensor, rows: int) -> BoundStep:
        """Make the step of one solve.

        Args:
            operator: K, in the stored order.
            columns: evaluates K[:, I] U of the updates.
            like: (n, l+1) tensor such as the residual, for shape, dtype and device.
            rows: largest number of rows of an update.
        """


STEPS: Final = Registry[Step]("step", "apviz.solvers")


@STEPS.register("plain")
@dataclass(frozen=True, kw_only=True)
class PlainStep(Step):
    """The update alone, as in the paper (Algorithm 1, lines 7 and 8)."""

    def bind(self, operator: Operator, columns: Columns, like: Tensor, rows: int) -> BoundStep:
        return WaitingUpdates(columns) if is_asynchronous(operator) else PlainUpdates(columns, operator.layout)


@STEPS.register("subspace")
@dataclass(frozen=True, kw_only=True)
class Subspace(Step):
    """Minimiser of h over the span of the last updates (sequential subspace optimisation, Narkiss & Zibulevsky, 2005).

    Args:
        length: q, number of past updates to step along with every new one: n·(l+1) numbers each; `auto`: the most that
            cost no more than the entries of a new update.

    Raises:
        ValueError: a length below 1.

    Examples:
        >>> import apviz
        >>> apviz.AlternatingProjection(step=apviz.solvers.Subspace(length=8)).method.history
        8
    """

    length: int | Auto = "auto"

    def __post_init__(self) -> None:
        require_whole_or_auto("length", self.length, 1)

    def bind(self, operator: Operator, columns: Columns, like: Tensor, rows: int) -> BoundStep:
        return SubspaceUpdates(operator, columns, int(chosen("length", self.length)), like, rows)


class BoundStep(Protocol):
    """The step of one solve: applies the update U = K[I, I]⁻¹R_I to W and R."""

    def project_(self, w: Tensor, r: Tensor, block: Block, rows: Rows, u: Tensor) -> Tensor | Waiting:
        """Apply the update u: (|I|, l+1) on the rows I of a block to W and R; return the decreases of h.

        The decreases are (l+1,) float64, exact if the columns are. The change of W, (n, l+1) float64, may wait until
        `flush_to_weights_`.
        """
        ...

    def with_waiting(self, w: Tensor) -> Tensor:
        """Return W with the waiting updates, `w` itself or a copy, without any change of state."""
        ...

    def use_(self, columns: Columns) -> None:
        """Use other columns of K from now on; no update may be waiting."""
        ...

    def flush_to_weights_(self, w: Tensor) -> None:
        """Add the waiting updates to `w`."""
        ...


class PlainUpdates:
    """The update alone: W_I += U; R −= K[:, I]U (paper, Algorithm 1, lines 7 and 8)."""

    def __init__(self, columns: Columns, layout: Layout) -> None:
        self.columns, self.layout = columns, layout

    def use_(self, columns: Columns) -> None:
        self.columns = columns

    def project_(self, w: Tensor, r: Tensor, block: Block, rows: Rows, u: Tensor) -> Tensor:
        here, mine = self.layout.part(rows, u)
        before = r[here].clone()
        add_rows_(w, here, mine.to(w))
        self.columns.subtract_(r, block, u)
        # h is quadratic, so the trapezoid rule is exact along the step, even with jitter or rounding
        return self.layout.sum(0.5 * column_inner(mine, before + r[here]))

    def with_waiting(self, w: Tensor) -> Tensor:
        return w

    def flush_to_weights_(self, w: Tensor) -> None:
        pass


class WaitingUpdates:
    """The update alone in R, with deferred W and decreases of h, which no update needs.

    On a device that gets its operations from the host, launching an operation takes longer than adding few numbers.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._waiting: list[tuple[Tensor, Tensor]] = []  # rows and updates not yet added to W

    def use_(self, columns: Columns) -> None:
        self.columns = columns

    def project_(self, w: Tensor, r: Tensor, block: Block, rows: Rows, u: Tensor) -> Waiting:
        before = r[rows].clone() if isinstance(rows, slice) else r[rows]
        if isinstance(rows, slice):
            w[rows].add_(u)
        else:
            self._waiting.append((rows, u))
            if len(self._waiting) == MOST_WAITING:
                self.flush_to_weights_(w)
        self.columns.subtract_(r, block, u)
        return Waiting(u, before, r[rows].clone() if isinstance(rows, slice) else r[rows])

    def with_waiting(self, w: Tensor) -> Tensor:
        return self._added_(w.clone()) if self._waiting else w

    def flush_to_weights_(self, w: Tensor) -> None:
        self._added_(w)
        self._waiting = []

    def _added_(self, w: Tensor) -> Tensor:
        if self._waiting:
            rows, updates = (torch.cat(of) for of in zip(*self._waiting, strict=True))
            # not index_add_, which on a GPU adds duplicate rows in any order
            w.index_put_((rows,), updates.to(w), accumulate=True)
        return w


class SubspaceUpdates:
    """Minimisation of h over the span of the last q updates instead of along the new one alone, per right-hand side.

    Sequential subspace optimisation (Narkiss & Zibulevsky, 2005) is to projections what conjugacy is to CG. K times a
    past update is stored, so it costs no entries; memory q·n·(l+1). `rows` is the largest number of rows of an update.
    """

    def __init__(self, operator: Operator, columns: Columns, length: int, like: Tensor, rows: int) -> None:
        self.operator, self.columns = operator, columns
        n, width = like.shape
        self.images = like.new_zeros(length, n, width)  # K[:, Iᵢ] Uᵢ
        self.updates = like.new_zeros(length, rows, width)  # Uᵢ, zero beyond |Iᵢ| and on rows of other ranks
        #: total step along each update since it was made; added to W once, when the update is dropped
        self.taken = like.new_zeros(length, width)
        self.rows = torch.zeros(length, rows, dtype=torch.int64, device=like.device)  # Iᵢ, zero beyond |Iᵢ|
        self.gram = torch.eye(length, dtype=torch.float64, device=like.device).expand(width, -1, -1).clone()
        # two updates count as one below this rounding of the Gram matrix
        self.ridge = 8 * torch.finfo(like.dtype).eps
        self.made = 0

    def use_(self, columns: Columns) -> None:
        """Use other columns of K, and drop the past updates, which are already in W."""
        self.columns, self.made = columns, 0
        for held in (self.images, self.updates, self.taken, self.rows):
            held.zero_()
        self.gram[:] = torch.eye(len(self.images), dtype=self.gram.dtype, device=self.gram.device)

    def project_(self, w: Tensor, r: Tensor, block: Block, rows: Rows, u: Tensor) -> Tensor:
        """Add the update to the history and step to the minimum; in `r` at once, in `w` after `flush_to_weights_`."""
        slot, size = self.made % len(self.images), len(u)
        self._add_to_(w, slot)
        self.taken[slot] = 0
        self.made += 1
        used = min(self.made, len(self.images))
        indices = torch.arange(rows.start, rows.stop, device=u.device) if isinstance(rows, slice) else rows
        self.rows[slot], self.updates[slot] = 0, 0
        here, mine = self.operator.layout.part(indices, u)
        assert isinstance(here, Tensor)  # as the indices are
        self.rows[slot, :size], self.updates[slot, :size] = here, mine
        image = self.images[slot].zero_()
        self.columns.subtract_(image, block, -u)

        held, updates = self.rows[:used], self.updates[:used]
        products = [self.operator.gathered_products(updates, held, of).T for of in (image, r)]
        inner, gradient = self.operator.layout.sum(torch.stack(products))  # Uᵢᵀ K U and Uᵢᵀ R, (l+1, used)
        self.gram[:, slot, :used] = self.gram[:, :used, slot] = inner
        steps = minimum(self.gram[:, :used, :used], gradient, slot, self.ridge)  # (l+1, used)
        taken = steps.T.to(r)
        self.taken[:used] += taken
        self.operator.subtract_combination_(r, self.images[:used], taken)
        curvature = (self.gram[:, :used, :used] @ steps[..., None])[..., 0]
        return torch.sum(steps * (gradient - 0.5 * curvature), dim=1)

    def with_waiting(self, w: Tensor) -> Tensor:
        w = w.clone()
        for slot in range(min(self.made, len(self.images))):
            self._add_to_(w, slot)
        return w

    def flush_to_weights_(self, w: Tensor) -> None:
        for slot in range(min(self.made, len(self.images))):
            self._add_to_(w, slot)
            self.taken[slot] = 0

    def _add_to_(self, w: Tensor, slot: int) -> None:
        add_rows_(w, self.rows[slot], (self.updates[slot] * self.taken[slot]).to(w))


def minimum(gram: Tensor, gradient: Tensor, newest: int, ridge: float) -> Tensor:
    """Return Gram⁻¹ gradient per right-hand side, (p, q); if Gram is singular, step along the newest update alone.

    Args:
        gram: (p, q, q) float64, the products Uᵢᵀ K Uⱼ of updates; gradient: (p, q), the products Uᵢᵀ R.
        ridge: relative rounding of Gram, below which two updates count as one.
    """
    scale = gram.diagonal(dim1=1, dim2=2).clamp_min(torch.finfo(torch.float64).tiny).rsqrt()
    scaled = gram * scale[:, :, None] * scale[:, None, :]
    scaled.diagonal(dim1=1, dim2=2).add_(ridge)
    factor, info = torch.linalg.cholesky_ex(scaled)
    steps = torch.cholesky_solve((gradient * scale)[..., None], factor)[..., 0] * scale
    alone = torch.zeros_like(steps)
    alone[:, newest] = 1.0
    return torch.where((info == 0)[:, None] & steps.isfinite().all(1, keepdim=True), steps, alone)
