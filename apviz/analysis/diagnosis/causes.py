"""Rules for the cause of a slow run: the second part of a diagnosis, asked only if the run was not quick.

Each rule takes a trace and the other traces of the same system. It returns a diagnosis, or None if it does not hold.
The last rule always holds.
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
from apviz.tracing import Trace
from apviz.tracing.trace import sign_of

# share of this run's work that another method took on the same system, or takes at most by its bound
FAR_LESS_WORK_SHARE, BOUND_SHARE = 0.25, 0.5
# iterations of plain CG if K has few large eigenvalues, and iterations that a limit should have allowed
FEW_ITERATIONS, CAPPED_ITERATIONS = 40, 100
# multiple of the completed epochs to allow if the necessary number is unknown
MORE_EPOCHS = 10
# epochs, or iterations, from which a rate can be measured
RATED_EPOCHS = 6
# a run that would have converged within the first multiple of its epochs hit its limit; a forecast beyond the second
# multiple of the recorded epochs is meaningless
CAP_FACTOR, FARTHEST = 1.5, 100.0
# more noise helps if an amount that is not small would divide κ by this factor
OF_USE_FACTOR = 3.0
# share of the blocks: if fewer blocks cause the decrease of h, updates of the others are useless
BUSY_BLOCKS_SHARE = 1 / 3
# λ_{r+1}/λmin that a preconditioner of rank r may leave to CG, and ratio of eigenvalues worth including
LEFT_RATIO, COUNTED_RATIO = 100.0, 10.0
# share of n: a higher rank is not low
LOW_RANK_SHARE = 0.5
# share of the residual kept per epoch if blocks undo each other's work, and share that is reported as all of it
KEPT_PER_EPOCH, ALL_KEPT_PER_EPOCH = 0.8, 0.995

# plain settings, which `apviz.partitions.with_overlap` makes a partition of: a trace is diagnosed without PyTorch
OVERLAP = {"partition": "principal-axis-tree", "overlap": "auto"}


def method(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Test whether another kind of method took or must take far less work, because K has few large eigenvalues."""
    quickest = quicker(trace, others)
    took = f"{'Converged' if trace.converged else 'Not converged'} after {of.work(trace):.3g} work"
    if quickest is not None and quickest.method.family not in (trace.method.family, CHOLESKY):
        evidence = f"{took}. {said_of(quickest)}"
        return Diagnosis(
            Limit.METHOD, evidence, f"Use {quickest.method_name}, or let apviz choose.", {"solver": "auto"}
        )  # fmt: skip
    if trace.method.family == CONJUGATE_GRADIENT or not math.isfinite(of.kappa(trace)):
        return None
    most, rank = of.iterations_of_cg(trace)
    if most > min(FEW_ITERATIONS, BOUND_SHARE * of.work(trace)):
        return None
    of_k = f" All but the {rank:,} largest eigenvalues of K are close together." if rank else ""
    evidence = (
        f"{took}, at residual {of.residual(trace):.2g}. CG needs up to {most:,} iterations of 1.0 work in exact "
        f"arithmetic, and slightly more with rounding.{of_k} {trace.condition()}."
    )
    return Diagnosis(Limit.METHOD, evidence, "Use CG, or let apviz choose.", {"solver": "auto"})


def noise(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Test whether σ² is small and alone determines the smallest eigenvalues of K, so that more noise reduces κ."""
    ratio, smallest, higher = of.noise_ratio(trace), float(trace["spectrum"]["lambda_min"]), more_noise(trace)
    not_little = LITTLE_NOISE_RATIO * trace.attrs["outputscale"]
    if ratio >= LITTLE_NOISE_RATIO or of.is_overlapped(trace) or of.kappa(trace) < LARGE_KAPPA:
        return None
    lower = 1 + (not_little - trace.attrs["noise"]) / smallest  # which increases with the noise
    if lower < OF_USE_FACTOR:
        return None
    sign = sign_of(trace["spectrum"], "lambda_min")
    known = (
        f" λmin of K {sign} {smallest:.2g}, so {trace.condition()}. With σ² = {not_little:.2g}, κ would be "
        f"{lower:.2g} times smaller."
    )
    evidence = (
        f"σ² = {trace.attrs['noise']:.2g} is {ratio:.1g} of the outputscale.{known if math.isfinite(lower) else ''}"
    )
    advice = f"Try σ² = {higher:g}, and check the test RMSE. Or use blocks that overlap."
    return Diagnosis(Limit.NOISE, evidence, advice, {"noise": higher})


def rule(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Test whether only few blocks have residual left while the rule ignores which."""
    found = of.busy_blocks(trace) if trace.method.has_blocks and trace.method.rule != "gauss-southwell" else None
    if found is None or found[0] > BUSY_BLOCKS_SHARE * found[1]:
        return None
    busy, count = found
    evidence = (
        f"{busy} of {count} blocks account for 99% of the decrease of h in the second half of the epochs. The rule "
        f"{trace.method.rule} updates all blocks equally often."
    )
    advice = "Use the greedy rule, which chooses the block with the largest residual."
    return Diagnosis(Limit.RULE, evidence, advice, {"rule": "gauss-southwell"})


def capped_early(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Test whether the run had almost no epochs, so that the epoch limit ended it in any case."""
    if trace.outcome != "max_epochs" or of.work(trace) > QUICK_WORK:
        return None
    done, goal = of.epochs(trace), of.forecast(trace)
    # the first few iterations of CG do not predict the later ones
    is_rated = trace.method.family != CONJUGATE_GRADIENT or done >= RATED_EPOCHS
    if is_rated and goal <= FARTHEST * done:
        return _capped(trace, math.ceil(goal), f"at its rate it needs about {math.ceil(goal):,}")
    if trace.method.has_blocks and done >= RATED_EPOCHS:
        return None  # it had enough epochs to show that it does not converge
    if trace.method.is_plain_cg and math.isfinite(of.kappa(trace)):
        most = max(of.iterations_of_cg(trace)[0], done + 1)
        return _capped(trace, most, f"CG needs up to {most:,} in exact arithmetic")
    return _capped(trace, MORE_EPOCHS * done, "these are too few to say how many it needs")


def cap(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Test whether the run hit its epoch limit shortly before convergence."""
    if trace.outcome != "max_epochs":
        return None
    done, goal = of.epochs(trace), of.forecast(trace)
    if trace.method.family == CONJUGATE_GRADIENT and math.isfinite(of.kappa(trace)):
        # the early rate of CG predicts little; a preconditioner does not increase the number of iterations
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
    """Test whether the rank of a low-rank preconditioner of CG is below the number of eigenvalues that matter."""
    rank, n = trace.method.rank, int(trace.attrs["n"])
    if trace.method.family != CONJUGATE_GRADIENT or not rank or trace.method.has_blocks:
        return None
    smallest = float(trace["spectrum"]["lambda_min"])
    left = next((value for number, value in of.leading(trace) if number >= rank), math.nan)
    needed = of.eigenvalues_above(trace, COUNTED_RATIO * smallest)
    if needed is None or not left > LEFT_RATIO * smallest or not rank < needed <= LOW_RANK_SHARE * n:
        return None
    evidence = (
        f"Even the best preconditioner of rank {rank:,} leaves CG with eigenvalues of up to {left / smallest:,.2g} "
        f"λmin. About {needed:,} of {n:,} are above {COUNTED_RATIO:g} λmin. {trace.condition()}."
    )
    return Diagnosis(Limit.PRECONDITIONER, evidence, f"Use a rank of {needed:,}.")


def small_blocks(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Test whether blocks own fewer than √n rows; factors of four times larger blocks cost less than two epochs."""
    size, n = trace.method.block_size, int(trace.attrs["n"])  # includes the blocks of a preconditioner
    if not isinstance(size, int) or size >= math.sqrt(n):
        return None
    larger = int(short(min(n / 4, 4 * math.sqrt(n))))
    if larger < 2 * size:
        return None
    # negligible per epoch: m·b³/3 operations compared to 2n² for every right-hand side
    evidence = (
        f"A block owns {size:,} of {n:,} rows, so an update sees little of K: {of.epochs(trace):,} epochs, "
        f"residual {of.residual(trace):.2g}. An epoch costs the same with any block size. Factors of blocks of "
        f"{larger:,} rows cost {_factors_in_epochs(n, larger, int(trace.attrs['right_hand_sides']))}."
    )
    change = {"block_size": larger} if trace.method.has_blocks else {}
    return Diagnosis(Limit.SMALL_BLOCKS, evidence, f"Use blocks of {larger:,} rows.", change)


def _factors_in_epochs(n: int, size: int, columns: int) -> str:
    epochs = size**2 / 3 / (n * (2 * columns + of.OPERATIONS_PER_ENTRY))
    return "less than one epoch" if epochs < 1 else f"about {epochs:.0f} epochs"


def blocks(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    """Test whether late epochs of alternating projection without overlap keep more than 80% of the residual.

    If the run converged with at most the work that CG may need, and κ is small, nothing is wrong.
    """
    if not trace.method.has_blocks or of.is_overlapped(trace):
        return None
    if trace.converged and of.kappa(trace) < LARGE_KAPPA and of.work(trace) <= _most_of_cg(trace):
        return None
    kept = of.kept_per_epoch(trace)
    if not kept > KEPT_PER_EPOCH:
        return None
    keeps = "does not lower the whole residual" if kept >= 1 else "lowers the whole residual by less than 0.5%"
    if kept < ALL_KEPT_PER_EPOCH:
        keeps = f"removes only {share(1 - kept)} of the whole residual"
    evidence = (
        "The blocks do not overlap. Each update zeroes the residual on its own block. But an epoch, one pass over all "
        f"blocks, {keeps}."
    )
    advice = "Use overlapping blocks of neighbouring rows."
    return Diagnosis(Limit.BLOCKS, evidence, advice, OVERLAP)


def conditioning(trace: Trace, others: list[Trace]) -> Diagnosis:
    """Diagnose all remaining runs: κ is large, or the method is slow although κ is small, or κ is unknown."""
    kappa, work = of.kappa(trace), of.work(trace)
    state = trace.status(with_residual=False)
    if not math.isfinite(kappa):
        evidence = f"κ was not computed. {state}, after {work:.3g} work, at residual {of.residual(trace):.2g}."
        advice = "Use one of apviz's own kernels, or compare with another solver on the same system."
        return Diagnosis(Limit.UNKNOWN, evidence, advice)
    most = _most_of_cg(trace)
    evidence = (
        f"{trace.condition()}, for which CG needs up to {most:,} iterations in exact arithmetic. {state}, after "
        f"{work:.3g} work."
    )
    if kappa < LARGE_KAPPA:
        return _well_conditioned(trace, evidence, most)
    if (handover := json.loads(trace.attrs.get("choices", "{}")).get("handover")) is not None:
        evidence += f" It was slow and handed over to {handover}."
        if "CG with rank" in handover:
            return Diagnosis(Limit.CONDITIONING, evidence, "Use CG + randomly pivoted Cholesky from the start.")
        return Diagnosis(Limit.CONDITIONING, evidence, "Use overlapping projections from the start.", OVERLAP)
    if of.is_overlapped(trace):
        advice = "Use CG + two-level Schwarz. Its coarse space reduces the smooth error, which no single block can."
        return Diagnosis(Limit.CONDITIONING, evidence, advice)
    if trace.method.has_blocks:
        return Diagnosis(Limit.CONDITIONING, evidence, "Use overlapping projections, which depend on κ least.", OVERLAP)
    advice = "Let apviz choose: overlapping projections, or CG + randomly pivoted Cholesky."
    return Diagnosis(Limit.CONDITIONING, evidence, advice, {"solver": "auto"})


def _most_of_cg(trace: Trace) -> int:
    """Return the most iterations that CG needs in exact arithmetic, by κ alone."""
    return math.ceil(conjugate_gradient_iterations(np.array(of.kappa(trace)), of.tolerance(trace)))


def _well_conditioned(trace: Trace, evidence: str, most: int) -> Diagnosis:
    """Diagnose a slow run with a small κ."""
    if trace.converged and of.work(trace) <= most:
        return Diagnosis(Limit.NOTHING, evidence, "No change is needed.")
    return Diagnosis(Limit.METHOD, evidence, "Use CG, or let apviz choose.", {"solver": "auto"})


def quicker(trace: Trace, others: list[Trace]) -> Trace | None:
    """Return the run with the least work to the same tolerance on this system, if that is far less than this run's."""
    as_far = [other for other in others if other.converged and of.tolerance(other) <= of.tolerance(trace)]
    quickest = min(as_far, key=of.work, default=None)
    if quickest is None or of.work(quickest) > FAR_LESS_WORK_SHARE * of.work(trace):
        return None
    return quickest


def said_of(run: Trace) -> str:
    """Return a sentence on a quicker run."""
    return f"{run.method_name} converged on the same system after {of.work(run):.3g} work."
