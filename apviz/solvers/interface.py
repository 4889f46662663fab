"""How a solve ended, and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from torch import Tensor


class StopReason(Enum):
    """Every way a solve can end; the value is what a person can do about it."""

    CONVERGED = "converged: the residual, recomputed from B − KW, is below the tolerance"
    MAX_EPOCHS = "max_epochs: the cap was reached first; raise it, or change the solver: this solution is not converged"
    STAGNATED = "stagnated: rounding, or jitter, keeps the residual above the tolerance; use float64 or a larger tol"
    DIVERGED = "diverged: the residual is no longer finite or has exploded; use float64, more noise or more jitter"
    STOPPED = "stopped: a hook asked for it; this solution is not converged"

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def advice(self) -> str:
        return self.value.partition(": ")[2]


@dataclass(frozen=True)
class Solution:
    """What every solver returns.

    Args:
        weights: W, of the shape B was given in.
        stop_reason: why the solve ended; `converged` is true for one reason only.
        residual: mean over right-hand sides of ‖r_i‖/‖b_i‖; if the solve converged, of B − KW in float64 and of the
            inputs as they were given: of all rows up to n = 2,048, beyond it an estimate from the operator's dtype on
            all and float64 on 512 rows, two standard errors on the safe side. A column of zeros counts as 0.
        residual_per_rhs: (l+1,) float64.
        epochs: epochs, or iterations of a Krylov method.
        work: kernel entries evaluated or read ÷ n², set-up, initial residual and checks included.
        seconds: wall-clock time, set-up included.
        setup_work, setup_seconds: the part of both that came before the first update.
        energy: h(W) = ½tr(WᵀKW) − tr(BᵀW), from the recorded decreases.
    """

    weights: Tensor
    stop_reason: StopReason
    stop_message: str
    residual: float
    residual_per_rhs: Tensor
    epochs: int
    work: float
    seconds: float
    setup_work: float
    setup_seconds: float
    energy: float

    @property
    def converged(self) -> bool:
        return self.stop_reason is StopReason.CONVERGED
