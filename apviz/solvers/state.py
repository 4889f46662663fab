"""The state of a solve: weights and residual, which a solver moves, and what it tells the driver about each move."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.solvers.decreases import Waiting


@dataclass(eq=False, kw_only=True)
class State:
    """Weights W and residual R of a solve, in the solver's order of rows and the units of the run.

    A solver moves `w` and `r` together, so that R stays B − KW up to rounding. What else it needs lives in a
    subclass, which its `init` makes.

    Args:
        operator: K, which counts the entries that are evaluated.
        b: (n, l+1) right-hand sides in the dtype they were given in.
        w: (n, l+1) float64.
        r: (n, l+1) in the dtype of `operator`, updated in place.
        share: (l+1,) weights of the squared norms of right-hand sides, by which they count as in the user's units;
            None where all count alike.
        choices: what was chosen in the course of the solve, for the trace.
        epoch, residual: how many epochs are over, and the mean relative residual then, which the driver sets.
    """

    operator: CountingOperator
    b: Tensor
    w: Tensor
    r: Tensor
    share: Tensor | None = None
    choices: dict[str, str] = field(default_factory=dict)
    epoch: int = 0
    residual: float = math.nan

    #: updates between looks at the residual inside an epoch, which then may end early; 0: none
    look_every: int = 0
    #: the most by which the recursion lowers the residual between two evaluations of B − KW; 0: by any amount
    reduction: float = 0.0
    #: whether the recursion drifts from B − KW by more than rounding, until `go_exact` ends that
    drifts: bool = False

    def weights(self) -> Tensor:
        """Returns W so far, (n, l+1) in float64; asking changes nothing, for hooks ask when they like."""
        return self.w

    def block_norms(self) -> Tensor | None:
        """Returns ‖R_I‖² per block and right-hand side, (m, l+1), or None where there are no blocks."""
        return None

    def squared(self) -> Tensor:
        """Returns the squared norms of R, (l+1,)."""
        return self.operator.layout.sum(column_squares(self.r))

    def adopt(self, fresh: Tensor, claimed: bool) -> bool:
        """Replaces the recursion's residual by B − KW, (n, l+1); returns whether it did.

        Args:
            claimed: whether the recursion's residual was where it was to go before.
        """
        self.r.copy_(fresh)
        return True

    def go_exact(self) -> None:
        """Gives up what makes the recursion drift."""


@dataclass(frozen=True)
class Updated:
    """Reports that an update changed W and R; the driver replies whether the epoch ends here.

    Args:
        block: the block projected onto, which may be a 0-d tensor on the device; −1 for all rows at once.
        energy_decrease: (l+1,) float64 decreases of h, one a right-hand side; or what they are computed from later.
        is_whole_epoch: whether it is all of an epoch, as an iteration of a Krylov method is.
    """

    block: int | Tensor
    energy_decrease: Tensor | Waiting
    is_whole_epoch: bool = False


@dataclass(frozen=True)
class EpochEnd:
    """Reports the end of an epoch; the driver evaluates B − KW where due, and closes the generator at the end."""


@dataclass(frozen=True)
class Remeasure:
    """Requests B − KW: the driver replies with it, (n, l+1) in float64, and copies it to `state.r`."""


@dataclass(frozen=True)
class Continue:
    """Continues the solve with another state, at the same weights and in the same order of rows."""

    state: State


#: what a solver's `epochs` yields, and gets in reply
Events = Generator[Updated | EpochEnd | Remeasure | Continue, Any, None]


def column_inner(a: Tensor, b: Tensor) -> Tensor:
    """Sums aᵢᵀbᵢ of every column in float64: (n, p), (n, p) to (p,)."""
    return torch.sum(a * b, 0, dtype=torch.float64)


def column_squares(r: Tensor) -> Tensor:
    """Sums ‖rᵢ‖² of every column in float64, (p,): no square underflows, and no sum rounds."""
    norms: Tensor = torch.linalg.vector_norm(r, dim=0, dtype=torch.float64)
    return norms.square()
