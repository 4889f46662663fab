"""The state of a solve: weights and residual, which a solver updates, and the events it reports to the driver."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.solvers.measuring.decreases import Waiting


@dataclass(eq=False, kw_only=True)
class State:
    """Weights W and residual R of a solve, in the solver's order of rows and the units of the run.

    A solver updates `w` and `r` together, so that R equals B − KW up to rounding. A subclass, which `init` makes, holds
    anything else that a solver needs.

    Args:
        operator: K, which counts the evaluated entries.
        b: (n, l+1) right-hand sides in their given dtype.
        w: (n, l+1) float64.
        r: (n, l+1) in the dtype of `operator`, updated in place.
        share: (l+1,) weights of the squared norms of right-hand sides, which convert them to the user's units; None if
            all are equal.
        choices: choices made during the solve, for the trace.
        epoch, residual: number of finished epochs, and the mean relative residual then; the driver sets both.
    """

    operator: CountingOperator
    b: Tensor
    w: Tensor
    r: Tensor
    share: Tensor | None = None
    choices: dict[str, str] = field(default_factory=dict)
    epoch: int = 0
    residual: float = math.nan

    #: updates between checks of the residual inside an epoch, which may then end early; 0: none
    look_every: int = 0
    #: largest factor by which the recursion lowers the residual between two evaluations of B − KW; 0: no limit
    reduction: float = 0.0
    #: whether the recursion drifts from B − KW by more than rounding; `go_exact` ends this
    drifts: bool = False

    def weights(self) -> Tensor:
        """Return the current W, (n, l+1) in float64, without any change of state, because hooks may ask at any time."""
        return self.w

    def residuals(self) -> Tensor:
        """Return the residual of `weights()`, (n, l+1) in the dtype of `r`, in the same way."""
        return self.r

    def block_norms(self) -> Tensor | None:
        """Return ‖R_I‖² per block and right-hand side, (m, l+1), or None for a method without blocks."""
        return None

    def squared(self) -> Tensor:
        """Return the squared norms of R, (l+1,); NaN where an update left R known on some rows alone."""
        return self.operator.layout.sum(column_squares(self.r))

    def adopt(self, fresh: Tensor, claimed: bool) -> bool:
        """Replace the recursion's residual by B − KW, (n, l+1); return whether it did.

        Args:
            fresh: B − KW.
            claimed: whether the recursion's residual had reached its aim.
        """
        self.r.copy_(fresh)
        return True

    def go_exact(self) -> None:
        """Give up the approximations that make the recursion drift."""


@dataclass(frozen=True)
class Updated:
    """Event: an update changed W and R; the driver replies whether the epoch ends here.

    Args:
        block: the block projected onto, or the colour of several; it may be a 0-d tensor on the device; −1 for all
            rows at once.
        energy_decrease: (l+1,) float64 decreases of h, one a right-hand side; or the data to compute them later.
        is_whole_epoch: whether the update is a whole epoch, as an iteration of a Krylov method is.
    """

    block: int | Tensor
    energy_decrease: Tensor | Waiting
    is_whole_epoch: bool = False


@dataclass(frozen=True)
class EpochEnd:
    """Event: the end of an epoch; the driver evaluates B − KW if due, and closes the generator at the end."""


@dataclass(frozen=True)
class Remeasure:
    """Request for B − KW, (n, l+1) in float64; the driver replies with it and copies it to `state.r`."""


@dataclass(frozen=True)
class Continue:
    """Request to continue the solve with another state, at the same weights and in the same order of rows."""

    state: State


#: events that `epochs` of a solver yields, and the replies it gets
Events = Generator[Updated | EpochEnd | Remeasure | Continue, Any, None]


def column_inner(a: Tensor, b: Tensor) -> Tensor:
    """Return aᵢᵀbᵢ of every column, summed in float64: (n, p), (n, p) to (p,)."""
    return torch.sum(a * b, 0, dtype=torch.float64)


def column_squares(r: Tensor) -> Tensor:
    """Return ‖rᵢ‖² of every column, summed in float64, (p,): no square underflows, and no sum rounds."""
    norms: Tensor = torch.linalg.vector_norm(r, dim=0, dtype=torch.float64)
    return norms.square()
