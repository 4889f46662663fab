"""Rules that look for what made a run slow: the second part of a diagnosis, asked where it was not quick.

Each takes a trace and the others on the same system, and returns a diagnosis, or None where it does not hold; the last
one always does.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from apviz.analysis.diagnosis import evidence as of
from apviz.analysis.diagnosis.data import LARGE_KAPPA
from apviz.analysis.diagnosis.endings import LITTLE_NOISE_RATIO, QUICK_WORK, more_noise
from apviz.analysis.diagnosis.limits import Diagnosis, Limit, share, short
from apviz.analysis.errors import conjugate_gradient_iterations
from apviz.methods import CHOLESKY, CONJUGATE_GRADIENT
from apviz.partitions import PrincipalAxisTree
from apviz.tracing import Trace
from apviz.tracing.trace import sign_of

# a method that took so much of the work of another on the same system, or by its bound takes at most so much
FAR_LESS_WORK_SHARE, BOUND_SHARE = 0.25, 0.5
# iterations in which plain CG is done where few eigenvalues are large, and that a cap should have allowed for
FEW_ITERATIONS, CAPPED_ITERATIONS = 40, 100
# epochs to allow where nothing is known of how many are needed, ÷ those that were done
MORE_EPOCHS = 10
# epochs, or iterations, whose rate says something
RATED_EPOCHS = 6
# a run that would have converged within this multiple of its epochs hit its limit; a forecast over more epochs than
# this multiple of those seen says nothing
CAP_FACTOR, FARTHEST = 1.5, 100.0
# more noise is of use where as much as is not little would make κ a third or less
OF_USE_FACTOR = 3.0
# of the blocks: where so few bring what h falls by, updates of the others are for nothing
BUSY_BLOCKS_SHARE = 1 / 3
# λ_{r+1}/λmin of what a preconditioner of rank r may leave to CG, and of what is worth standing for
LEFT_RATIO, COUNTED_RATIO = 100.0, 10.0
# of n: a rank above is no longer low
LOW_RANK_SHARE = 0.5
# share of the residual that an epoch keeps where blocks undo each other's work, and that reads as all of it
KEPT_PER_EPOCH, ALL_KEPT_PER_EPOCH = 0.8, 0.995

OVERLAP = {"partition": PrincipalAxisTree(overlap="auto")}


def method(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Another kind of method took far less on this system, or is bound to: the large eigenvalues of K are few."""
    quickest = quicker(trace, others)
    took = f"{'Converged' if trace.converged else 'Not converged'} after {of.work(trace):.3g} work"
    if quickest is not None and quickest.method.family not in (trace.method.family, CHOLESKY):
        evidence = f"{took}. {said_of(quickest)}"
        return Diagnosis(
            Limit.METHOD, evidence, f"Take {quickest.method_name}, or let apviz choose.", {"solver": "auto"}
        )  # fmt: skip
    if trace.method.family == CONJUGATE_GRADIENT or not math.isfinite(of.kappa(trace)):
        return None
    most, rank = of.iterations_of_cg(trace)
    if most > min(FEW_ITERATIONS, BOUND_SHARE * of.work(trace)):
        return None
    of_k = f" All but the {rank:,} largest eigenvalues of K are close together." if rank else ""
    evidence = (
        f"{took}, at residual {of.residual(trace):.2g}. CG needs up to {most:,} iterations of 1.0 work in exact "
        f"arithmetic, and little more by rounding.{of_k} {trace.condition()}."
    )
    return Diagnosis(Limit.METHOD, evidence, "Take CG, or let apviz choose.", {"solver": "auto"})


def noise(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """σ² is little, and the smallest eigenvalues of K are nothing else: more of it would make κ smaller."""
    ratio, smallest, higher = of.noise_ratio(trace), float(trace["spectrum"]["lambda_min"]), more_noise(trace)
    not_little = LITTLE_NOISE_RATIO * trace.attrs["outputscale"]
    if ratio >= LITTLE_NOISE_RATIO or of.is_overlapped(trace) or of.kappa(trace) < LARGE_KAPPA:
        return None
    lower = 1 + (not_little - trace.attrs["noise"]) / smallest  # which goes up with it
    if lower < OF_USE_FACTOR:
        return None
    sign = sign_of(trace["spectrum"], "lambda_min")
    known = (
        f" λmin of K {sign} {smallest:.2g}, so {trace.condition()}. With σ² = {not_little:.2g} it would be "
        f"{lower:.2g} times less."
    )
    evidence = (
        f"σ² = {trace.attrs['noise']:.2g} is {ratio:.1g} of the outputscale.{known if math.isfinite(lower) else ''}"
    )
    advice = f"Try σ² = {higher:g}, and check the test RMSE. Or take blocks that overlap."
    return Diagnosis(Limit.NOISE, evidence, advice, {"noise": higher})


def rule(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Few blocks have anything left, and the rule does not look where."""
    found = of.busy_blocks(trace) if trace.method.has_blocks and trace.method.rule != "gauss-southwell" else None
    if found is None or found[0] > BUSY_BLOCKS_SHARE * found[1]:
        return None
    busy, count = found
    evidence = (
        f"{busy} of {count} blocks brought 99% of what h fell by in the second half of the epochs. The rule "
        f"{trace.method.rule} updates all alike."
    )
    advice = "Let the rule choose the block with the largest residual."
    return Diagnosis(Limit.RULE, evidence, advice, {"rule": "gauss-southwell"})


def capped_early(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """It was given next to no epochs: whatever else there is to say, the limit ended it."""
    if trace.outcome != "max_epochs" or of.work(trace) > QUICK_WORK:
        return None
    done, goal = of.epochs(trace), of.forecast(trace)
    # what few iterations of CG gain says nothing of those that follow
    is_rated = trace.method.family != CONJUGATE_GRADIENT or done >= RATED_EPOCHS
    if is_rated and goal <= FARTHEST * done:
        return _capped(trace, math.ceil(goal), f"at its rate it needs about {math.ceil(goal):,}")
    if trace.method.has_blocks and done >= RATED_EPOCHS:
        return None  # it had epochs enough to show that it does not get there
    if trace.method.is_plain_cg and math.isfinite(of.kappa(trace)):
        most = max(of.iterations_of_cg(trace)[0], done + 1)
        return _capped(trace, most, f"CG needs up to {most:,} in exact arithmetic")
    return _capped(trace, MORE_EPOCHS * done, "they are too few to tell how many it needs")


def cap(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """It was ended where not much more would have done."""
    if trace.outcome != "max_epochs":
        return None
    done, goal = of.epochs(trace), of.forecast(trace)
    if trace.method.family == CONJUGATE_GRADIENT and math.isfinite(of.kappa(trace)):
        # early on its rate says little, and a preconditioner makes no more iterations of it
        bound = of.iterations_of_cg(trace)[0]
        if done < bound <= CAPPED_ITERATIONS:
            return _capped(trace, bound, f"CG needs up to {bound:,} in exact arithmetic")
    if not done < goal <= CAP_FACTOR * done:
        return None
    return _capped(trace, math.ceil(goal), f"at its rate it needs about {math.ceil(goal):,}")


def _capped(trace: Trace, goal: int, needs: str) -> Diagnosis:
    known = f"; {trace.condition()}" if math.isfinite(of.kappa(trace)) else ""
    evidence = (
        f"It reached its limit of {of.epochs(trace):,} epochs or iterations at residual {of.residual(trace):.2g}. For "
        f"its tolerance of {of.tolerance(trace):g} {needs}{known}."
    )
    change: dict[str, Any] = {"max_epochs": goal} if "max_epochs" in of.settings(trace) else {}
    return Diagnosis(Limit.CAP, evidence, f"Allow up to {goal:,} epochs or iterations.", change)


def preconditioner(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """CG with a low-rank preconditioner whose rank is below the number of eigenvalues that count."""
    rank, n = trace.method.rank, int(trace.attrs["n"])
    if trace.method.family != CONJUGATE_GRADIENT or not rank or trace.method.has_blocks:
        return None
    smallest = float(trace["spectrum"]["lambda_min"])
    left = next((value for number, value in of.leading(trace) if number >= rank), math.nan)
    needed = of.eigenvalues_above(trace, COUNTED_RATIO * smallest)
    if needed is None or not left > LEFT_RATIO * smallest or not rank < needed <= LOW_RANK_SHARE * n:
        return None
    evidence = (
        f"A rank of {rank:,} leaves eigenvalues of K of up to {left / smallest:,.2g} λmin to CG, at best. Some "
        f"{needed:,} of {n:,} are above {COUNTED_RATIO:g} λmin. {trace.condition()}."
    )
    return Diagnosis(Limit.PRECONDITIONER, evidence, f"Take a rank of {needed:,}.")


def small_blocks(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Blocks own fewer than √n rows: factors of four times larger ones would cost less than two epochs."""
    size, n = trace.method.block_size, int(trace.attrs["n"])  # those of a preconditioner too
    if not isinstance(size, int) or size >= math.sqrt(n):
        return None
    larger = int(short(min(n / 4, 4 * math.sqrt(n))))
    if larger < 2 * size:
        return None
    # per epoch, negligible: m·b³/3 operations compared to 2n² for every right-hand side
    evidence = (
        f"A block owns {size:,} of {n:,} rows, so that an update sees little of K: {of.epochs(trace):,} epochs, "
        f"residual {of.residual(trace):.2g}. An epoch costs the same with any size. Factors of blocks of "
        f"{larger:,} rows cost {_factors_in_epochs(n, larger, int(trace.attrs['right_hand_sides']))}."
    )
    change = {"block_size": larger} if trace.method.has_blocks else {}
    return Diagnosis(Limit.SMALL_BLOCKS, evidence, f"Take blocks of {larger:,} rows.", change)


def _factors_in_epochs(n: int, size: int, columns: int) -> str:
    epochs = size**2 / 3 / (n * (2 * columns + of.OPERATIONS_PER_ENTRY))
    return "less than one epoch" if epochs < 1 else f"about {epochs:.0f} epochs"


def blocks(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Alternating projection without overlap, whose late epochs keep more than 80% of the residual.

    Not where it converged in no more work than CG may need, and κ is small: then nothing is wrong.
    """
    if not trace.method.has_blocks or of.is_overlapped(trace):
        return None
    if trace.converged and of.kappa(trace) < LARGE_KAPPA and of.work(trace) <= _most_of_cg(trace):
        return None
    kept = of.kept_per_epoch(trace)
    if not kept > KEPT_PER_EPOCH:
        return None
    keeps = "does not lower it" if kept >= 1 else "takes less than 0.5% off it"
    if kept < ALL_KEPT_PER_EPOCH:
        keeps = f"keeps {share(kept)} of it"
    evidence = (
        f"The blocks do not overlap. Every update makes the residual zero on its own block, but an epoch {keeps}."
    )
    advice = "Take blocks of neighbours that solve on a margin around what they own."
    return Diagnosis(Limit.BLOCKS, evidence, advice, OVERLAP)


def conditioning(trace: Trace, others: list[Trace]) -> Diagnosis:
    """Everything else: κ is large, or the method slow where it is not, or κ not known."""
    kappa, work = of.kappa(trace), of.work(trace)
    state = trace.status(with_residual=False)
    if not math.isfinite(kappa):
        evidence = f"κ was not computed. {state}, after {work:.3g} work, at residual {of.residual(trace):.2g}."
        advice = "Solve with a kernel that apviz has, or compare with another solver on the same system."
        return Diagnosis(Limit.UNKNOWN, evidence, advice)
    most = _most_of_cg(trace)
    evidence = (
        f"{trace.condition()}, for which CG needs up to {most:,} iterations in exact arithmetic. {state}, after "
        f"{work:.3g} work."
    )
    if kappa < LARGE_KAPPA:
        return _well_conditioned(trace, evidence, most)
    if (handover := json.loads(trace.attrs.get("choices", "{}")).get("handover")) is not None:
        evidence += f" Projections were slow, and CG took over ({handover})."
        return Diagnosis(Limit.CONDITIONING, evidence, "Take CG + randomly pivoted Cholesky from the start.")
    if of.is_overlapped(trace):
        advice = "Take CG + two-level Schwarz. Its coarse space holds what is smooth, which no block sees."
        return Diagnosis(Limit.CONDITIONING, evidence, advice)
    if trace.method.has_blocks:
        return Diagnosis(
            Limit.CONDITIONING, evidence, "Take overlapping projections, which depend on κ least.", OVERLAP
        )
    advice = "Let apviz choose: overlapping projections, or CG + randomly pivoted Cholesky."
    return Diagnosis(Limit.CONDITIONING, evidence, advice, {"solver": "auto"})


def _most_of_cg(trace: Trace) -> int:
    """Iterations that CG needs at most by κ alone, in exact arithmetic."""
    return math.ceil(conjugate_gradient_iterations(np.array(of.kappa(trace)), of.tolerance(trace)))


def _well_conditioned(trace: Trace, evidence: str, most: int) -> Diagnosis:
    """Of a run that took a while though κ is small."""
    if trace.converged and of.work(trace) <= most:
        return Diagnosis(Limit.NOTHING, evidence, "Leave it as it is.")
    return Diagnosis(Limit.METHOD, evidence, "Take CG, or let apviz choose.", {"solver": "auto"})


def quicker(trace: Trace, others: list[Trace]) -> Trace | None:
    """The run that took least work to as small a tolerance on this system, where that is far less than this one's."""
    as_far = [other for other in others if other.converged and of.tolerance(other) <= of.tolerance(trace)]
    quickest = min(as_far, key=of.work, default=None)
    if quickest is None or of.work(quickest) > FAR_LESS_WORK_SHARE * of.work(trace):
        return None
    return quickest


def said_of(run: Trace) -> str:
    """A sentence on a run that was quicker."""
    return f"{run.method_name} converged on the same system after {of.work(run):.3g} work."
