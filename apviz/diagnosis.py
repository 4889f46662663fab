"""From a trace to what limited the run: the evidence, and the one setting to change.

Rules, in the order they are asked; the first that holds is the answer. Every number in them is a constant below.

1. *interrupted*: no stop reason was reached, or a hook stopped the solve.
2. *float32 floor*: the solve stagnated or diverged, or the recursion had drifted from B − KW by half the tolerance.
3. *tolerance too tight*: the test RMSE was within 1% of its last value at a residual 3 times the tolerance or more,
   and half of the work or more came after that.
4. *nothing*: it converged within 20 work.
5. *noise floor*: σ² is under 10⁻³ of the outputscale, and raising it tenfold would halve what √κ costs CG.
6. *blocks fighting*: alternating projection without overlap, whose late epochs keep more than 80% of the residual.
7. *ill-conditioning*: everything else that was slow: CG takes at most ½√κ·log(2√κ/tol) iterations (exact arithmetic).

The last is of the residual, on which solves stop: the theorem on CG (Saad, *Iterative Methods for Sparse Linear
Systems*, 2003, section 6.11.3) bounds the error in the K-norm, ‖e‖_K/‖e₀‖_K ≤ 2((√κ−1)/(√κ+1))^t, and
‖r‖₂/‖b‖₂ ≤ √κ·‖e‖_K/‖e₀‖_K, since r = Ke, so that ‖r‖₂² ≤ λmax‖e‖_K², and ‖e₀‖_K² = bᵀK⁻¹b ≤ ‖b‖₂²/λmin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from apviz.spectrum import conjugate_gradient_iterations

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

# a drift of half the tolerance leaves no room to tell whether it was reached
DRIFT_SHARE = 0.5
# solving on is of no use where the test error is within 1% of its end at a residual so many times the tolerance, with
# so much of the work still to come
LOOSER, WORK_AFTER = 3.0, 0.5
# work that nobody waits for
QUICK = 20.0
# share of the residual that an epoch keeps where blocks undo each other's work
KEPT = 0.8
# σ² ÷ outputscale under which the noise alone makes K ill-conditioned
LITTLE_NOISE = 1e-3


class Limit(Enum):
    """What limited a run or a training, and how a person would say it."""

    NOTHING = "nothing: it converged quickly"
    INTERRUPTED = "it was interrupted"
    PRECISION = "float32 floor: rounding, not the method"
    TOLERANCE = "the tolerance is tighter than the predictions need"
    NOISE = "noise floor: σ² is so small that K is close to singular"
    BLOCKS = "blocks fighting: an update undoes what the others did"
    CONDITIONING = "ill-conditioning: κ is large for this method"
    # of trainings, see apviz.gp.diagnosis
    SETTLED = "nothing limited this training: σ² has settled"
    FLOOR = "noise floor: σ² would be smaller if it were let"
    STEPS = "too few steps: σ² still moves"
    FAILED = "a step could not be taken"


@dataclass(frozen=True)
class Diagnosis:
    """What limited a run.

    Args:
        evidence: the numbers of the trace that say so, in a sentence.
        change: the one setting to change, as keyword and value; empty where there is none.
        advice: the change in words.
    """

    limit: Limit
    evidence: str
    advice: str
    change: Mapping[str, Any] = field(default_factory=dict)


def diagnose(trace: Trace) -> Diagnosis:
    """What limited the run of `trace`, by the rules of this module; needs nothing but the trace."""
    for rule in (_interrupted, _precision, _tolerance, _nothing, _noise, _blocks):
        found = rule(trace)
        if found is not None:
            return found
    return _conditioning(trace)


def _interrupted(trace: Trace) -> Diagnosis | None:
    if trace.finished and trace.outcome != "stopped":
        return None
    last = trace["epoch"].isel(epoch=-1)
    evidence = (
        f"It ended ({trace.attrs.get('stop_message', 'killed, or still running')}) at residual "
        f"{float(last['residual']):.2g} after {float(last['work']):.3g} work, before the tolerance {_tol(trace):g}."
    )
    return Diagnosis(Limit.INTERRUPTED, evidence, "Run it again, with a higher limit if one stopped it.")


def _precision(trace: Trace) -> Diagnosis | None:
    drift = float(trace["epoch"]["drift"].max()) if trace["epoch"]["drift"].notnull().any() else 0.0
    failed = trace.outcome in ("stagnated", "diverged")
    if not failed and (trace.converged or drift < DRIFT_SHARE * _tol(trace)):
        return None
    dtype = trace.attrs["dtype"]
    evidence = (
        f"The solve {trace.outcome if failed else 'did not converge'} in {dtype}: its residual drifted up to "
        f"{drift:.2g} from B − KW, the tolerance is {_tol(trace):g}."
    )
    if dtype == "float32":
        return Diagnosis(Limit.PRECISION, evidence, "Solve in float64.", {"dtype": "float64"})
    looser = 10 * _tol(trace)
    advice = f"It is float64 already: take a tolerance of {looser:g}, or more noise."
    return Diagnosis(Limit.PRECISION, evidence, advice, {"tol": looser})


def _tolerance(trace: Trace) -> Diagnosis | None:
    epoch = trace["epoch"]
    rmse, residual, work = (epoch[name].values for name in ("test_rmse", "residual", "work"))
    first = trace.sufficient_epoch()
    if first is None:
        return None
    end = rmse[np.isfinite(rmse)][-1]
    after = 1 - work[first] / work[-1]
    if residual[first] < LOOSER * _tol(trace) or after < WORK_AFTER:
        return None
    looser = _rounded(float(residual[first]))
    evidence = (
        f"At residual {residual[first]:.2g} the test RMSE was {rmse[first]:.4g}, within 1% of the last, {end:.4g}; "
        f"{after:.0%} of the work came after that."
    )
    return Diagnosis(Limit.TOLERANCE, evidence, f"A tolerance of {looser:g} predicts as well.", {"tol": looser})


def _nothing(trace: Trace) -> Diagnosis | None:
    work = float(trace["epoch"]["work"][-1])
    if not trace.converged or work > QUICK:
        return None
    evidence = f"Residual {float(trace['epoch']['residual'][-1]):.2g} after {work:.3g} work, set-up included."
    return Diagnosis(Limit.NOTHING, evidence, "Leave it as it is.")


def _noise(trace: Trace) -> Diagnosis | None:
    noise, scale = trace.attrs["noise"], trace.attrs["outputscale"]
    if noise >= LITTLE_NOISE * scale or _is_overlapped(trace):
        return None
    evidence = (
        f"σ² = {noise:.2g} is {noise / scale:.1g} of the outputscale, and λmin is close to it: κ ≈ {_kappa(trace):.2g}."
    )
    advice = f"Try σ² = {10 * noise:.2g}, and see in the test RMSE whether the data mind; or blocks that overlap."
    return Diagnosis(Limit.NOISE, evidence, advice, {"noise": 10 * noise})


def _blocks(trace: Trace) -> Diagnosis | None:
    if "partition" not in trace.attrs or _is_overlapped(trace):
        return None
    kept = _kept(trace)
    if not kept > KEPT:
        return None
    evidence = (
        f"{trace.attrs['partition']} blocks without overlap: an epoch keeps {kept:.0%} of the residual, though every "
        "update makes it zero on its own block."
    )
    advice = "Blocks of neighbours that solve on a margin around what they own."
    return Diagnosis(Limit.BLOCKS, evidence, advice, {"partition": "principal-axis-tree", "overlap": "auto"})


def _conditioning(trace: Trace) -> Diagnosis:
    kappa, tol = _kappa(trace), _tol(trace)
    most = math.ceil(conjugate_gradient_iterations(np.array(kappa), tol))
    work = float(trace["epoch"]["work"][-1])
    state = "converged" if trace.converged else f"not converged ({trace.outcome})"
    evidence = (
        f"κ ≈ {kappa:.2g}, for which CG needs up to {most:,} iterations in exact arithmetic; {state} after {work:.3g} "
        "work."
    )
    if _is_overlapped(trace):
        advice = "Add a coarse space for what is smooth, which no block sees."
        return Diagnosis(Limit.CONDITIONING, evidence, advice, {"coarse_rank": "auto"})
    if "partition" in trace.attrs:
        advice = "Overlapping blocks, which depend on κ least."
        return Diagnosis(
            Limit.CONDITIONING, evidence, advice, {"partition": "principal-axis-tree", "overlap": "auto"}
        )  # fmt: skip
    advice = "Let apviz choose: overlapping alternating projection, or CG with a preconditioner of low rank."
    return Diagnosis(Limit.CONDITIONING, evidence, advice, {"solver": "auto"})


def _tol(trace: Trace) -> float:
    return float(trace.attrs["tol"])


def _kappa(trace: Trace) -> float:
    return float(trace["spectrum"]["kappa"])


def _is_overlapped(trace: Trace) -> bool:
    return bool(trace.attrs.get("overlap", 0.0))


def _kept(trace: Trace) -> float:
    """The share of the residual that an epoch of the second half keeps: a geometric mean; NaN for under 4 epochs."""
    residual = trace["epoch"]["residual"].values
    half = len(residual) // 2
    if half < 2:
        return math.nan
    return float((residual[-1] / residual[half]) ** (1 / (len(residual) - 1 - half)))


def _rounded(value: float) -> float:
    """Down to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{next(step for step in (5, 2, 1) if step * power <= value) * power:.0e}")
