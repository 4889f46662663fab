"""Rules on how a run ended and what it predicts: the first part of a diagnosis.

Each rule takes a trace and the other traces of the same system. It returns a diagnosis, None if the rule finds nothing
wrong, or the quantity that was not measured.
"""

from __future__ import annotations

import math

from apviz.analysis import errors
from apviz.analysis.diagnosis import evidence as of
from apviz.analysis.diagnosis.data import NO_GAIN, Answer
from apviz.analysis.diagnosis.engine import NotMeasured
from apviz.analysis.diagnosis.limits import Diagnosis, Limit, share, short
from apviz.tracing import Trace

# share of the final residual due to rounding from which rounding keeps it from falling
DRIFT_SHARE = 0.5
# W = 0 has residual 1, so a poor solution meets a tolerance above this
LOOSE_TOL = 0.5
# test RMSE ÷ the lowest of the runs on the same system above which a run is not solved well enough
WORSE = 1.1
# tolerance to try instead of one that is too loose; the paper's
USUAL_TOL = 0.01
# a test error that never fell by this share below that of the mean explains less than a tenth of the variance
RMSE_GAIN_SHARE = 0.05
# the error of a model is about σ if it has many rows for its flexibility: if few eigenvalues of K exceed σ²
SURE_FACTOR, FEW_EIGENVALUES_SHARE = 3.0, 0.1
# solving longer is useless if the test error is within 1% of its end at this multiple of the tolerance, while at least
# this share of the work, and at least this work, remains
LOOSER_TOL_FACTOR, WORK_AFTER_SHARE, WORK_AFTER = 3.0, 0.5, 5.0
# work that takes no noticeable time
QUICK_WORK = 20.0
# multiple of all other operations that block factors take, and operations that take noticeable time
FACTORS_FACTOR, FACTOR_OPERATIONS = 8.0, 1e9
# number of lengthscales that are written out
SHOWN_LENGTHSCALES = 4
# σ² ÷ outputscale below which the noise alone makes K ill-conditioned
LITTLE_NOISE_RATIO = 1e-3


def interrupted(trace: Trace, others: list[Trace]) -> Answer:
    """Test whether the run was killed, or stopped by a hook."""
    why = trace.attrs.get("stop_message", "killed, or still running")
    again = "Run it again; if a limit stopped it, raise that limit."
    if "epoch" not in trace:
        return Diagnosis(Limit.INTERRUPTED, f"It ended ({why}) before its first epoch.", again)
    if trace.finished and trace.outcome != "stopped":
        return None
    evidence = (
        f"It ended ({why}) at residual {trace.residual_in_words('.2g')} after {of.work(trace):.3g} work. "
        f"Its tolerance is {of.tolerance(trace):g}."
    )
    return Diagnosis(Limit.INTERRUPTED, evidence, again)


def constant(trace: Trace, others: list[Trace]) -> Answer:
    """Test whether all targets equal their mean."""
    if 0 not in trace.attrs.get("zero_right_hand_sides", []):
        return None
    evidence = f"The first right-hand side, the targets minus their mean, is 0 in all {trace.attrs['n']:,} rows."
    return Diagnosis(Limit.CONSTANT, evidence, "Check which column is the target.")


def precision(trace: Trace, others: list[Trace]) -> Answer:
    """Test whether rounding prevented convergence: it stagnated or diverged, or its blocks needed jitter above σ².

    In a trace without passes, such as of GPyTorch's own CG, large drift counts too: the recursion's drift from B − KW
    is at least half of the final residual.
    """
    drift, end = of.largest_drift(trace), of.residual(trace)
    failed, passes, jitter = trace.outcome in ("stagnated", "diverged"), of.passes(trace), of.jitter(trace)
    # a pass corrects drift, and skeletons drift far more than rounding does
    drifted = not passes and drift >= DRIFT_SHARE * end
    # with so much jitter the noise is negligible, and the solve barely includes the smallest eigenvalues
    if not failed and (trace.converged or not (drifted or jitter > trace.attrs["noise"])):
        return None
    precision = of.settings(trace).get("precision")
    dtype = precision.get("recursion", "system") if isinstance(precision, dict) else "system"
    dtype = trace.attrs["dtype"] if dtype == "system" else dtype
    facts = [f"{passes} {'pass' if passes == 1 else 'passes'} corrected its residual"] if passes else []
    if math.isfinite(drift) and not passes:
        facts.append(f"Its residual drifted up to {drift:.2g} from B − KW")
    if jitter > 0:
        facts.append(f"Blocks needed a jitter of up to {jitter:.2g}")
    evidence = (
        f"The solve {trace.outcome if failed else 'did not converge'} in {dtype}: it ended at {end:.2g}, above its "
        f"tolerance of {of.tolerance(trace):g}.{''.join(f' {fact}.' for fact in facts)}"
    )
    if dtype == "float32":
        if trace.attrs["dtype"] == "float64":
            return Diagnosis(Limit.PRECISION, evidence, "Keep the blocks in float64 too.", {"precision": "float64"})
        return Diagnosis(Limit.PRECISION, evidence, "Solve in float64.", {"dtype": "float64"})
    looser = short(10 * of.tolerance(trace))
    if looser >= LOOSE_TOL:
        higher = more_noise(trace)
        return Diagnosis(
            Limit.PRECISION, evidence, f"It is float64 already: try σ² = {higher:g}.", {"noise": higher}
        )  # fmt: skip
    advice = f"It is float64 already: use a tolerance of {looser:g}, or more noise."
    return Diagnosis(Limit.PRECISION, evidence, advice, {"tol": looser})


def loose(trace: Trace, others: list[Trace]) -> Answer:
    """Test whether the run converged to a tolerance that W = 0 almost meets."""
    tol, end = of.tolerance(trace), of.residual(trace)
    if not trace.converged or tol <= LOOSE_TOL or of.is_solved(trace):
        return None
    evidence = (
        f"It converged, but only to its tolerance of {tol:g}: residual {end:.2g} after {of.work(trace):.3g} work. "
        "W = 0 has residual 1. Means, gradients and variances from it can be far off."
    )
    return Diagnosis(Limit.LOOSE, evidence, f"Use a tolerance of {USUAL_TOL:g}.", {"tol": USUAL_TOL})


def worse(trace: Trace, others: list[Trace]) -> Answer:
    """Test whether the run converged and predicts worse than another converged run on the same system."""
    end = of.last_rmse(trace)
    if end is None:
        return NotMeasured("the test error")
    ends = [(rmse, each) for each in others if each.converged and (rmse := of.last_rmse(each)) is not None]
    best, winner = min(ends, key=lambda pair: pair[0], default=(end, trace))
    beyond = NO_GAIN * (of.rmse_of_mean(trace) or 0.0)
    if not trace.converged or end <= max(WORSE * best, best + beyond):
        return None
    tighter = min(
        short(of.tolerance(trace) / 10), *(of.tolerance(each) for each in others if each.method == winner.method)
    )
    evidence = (
        f"It met its tolerance of {of.tolerance(trace):g}, but its test RMSE is {end:.3g}. {winner.method_name} "
        f"reached {best:.3g} on the same system{f', {end / best:.2g} times smaller' if best else ''}."
    )
    return Diagnosis(Limit.LOOSE, evidence, f"Use a tolerance of {tighter:g}.", {"tol": tighter})


def smooth(trace: Trace, others: list[Trace]) -> Answer:
    """Test whether the test error is far above σ although the rows are many for the model's flexibility."""
    end, deviation = of.last_rmse(trace), math.sqrt(trace.attrs["noise"])
    few = of.eigenvalues_above(trace, 2 * trace.attrs["noise"])
    if end is None or few is None:
        return NotMeasured("the test error" if end is None else "the eigenvalues of K")
    if not of.is_solved(trace):
        return None
    n, mean = int(trace.attrs["n"]), of.rmse_of_mean(trace)
    # with few rows, test errors are inconclusive
    if few > FEW_EIGENVALUES_SHARE * n or end < SURE_FACTOR * deviation:
        return None
    of_mean = "" if mean is None else f", that of predicting the mean {mean:.3g}"
    evidence = (
        f"The test RMSE is {end:.3g}{of_mean}; the model expects about σ = {deviation:.2g}. At most {few:,} "
        f"eigenvalues of K are above 2σ², so with {n:,} rows almost all of its uncertainty is noise."
    )
    advice = "Fit the hyperparameters: the lengthscale is too long for these data, or σ² too small."
    return Diagnosis(Limit.SMOOTH, evidence, advice)


def model(trace: Trace, others: list[Trace]) -> Answer:
    """Test whether the system is solved while the test RMSE never fell 5% below that of the mean."""
    mean = of.rmse_of_mean(trace)
    if mean is None or not of.is_solved(trace):
        return None
    lowest, end = of.lowest_rmse(trace), of.last_rmse(trace)
    if lowest < (1 - RMSE_GAIN_SHARE) * mean:
        return None
    scales = ", ".join(f"{value:.3g}" for value in trace.attrs["lengthscale"][:SHOWN_LENGTHSCALES])
    more = ", …" if len(trace.attrs["lengthscale"]) > SHOWN_LENGTHSCALES else ""
    given = f"lengthscales of {scales}{more}" if scales else f"the kernel {trace.attrs['kernel']}"
    evidence = (
        f"Predicting the mean has test RMSE {mean:.4g}; this run's lowest is {lowest:.4g}, at its end {end:.4g}. "
        f"The residual fell to {of.residual(trace):.2g}, so no solver and no tolerance changes that."
    )
    advice = (
        f"Fit the hyperparameters: with {given} the training rows say nothing about the test rows. "
        "If they are fitted already, the inputs do not predict the target."
    )
    return Diagnosis(Limit.MODEL, evidence, advice)


def too_tight(trace: Trace, others: list[Trace]) -> Answer:
    """Test whether the test RMSE settled long before the solve reached its tolerance.

    Its end is the lowest final RMSE of any run on this system. One of the runs must have converged: an interrupted run
    may end far from the solution.
    """
    runs = [(each, of.last_rmse(each)) for each in (trace, *others) if "epoch" in each]
    ends = [rmse for _, rmse in runs if rmse is not None]
    if not any(each.converged and rmse is not None for each, rmse in runs):
        return None
    end = min(ends)
    first = errors.sufficient_epoch(trace, end=end)
    if first is None:
        return None
    epoch = trace["epoch"]
    rmse, residual, work = (epoch[name].values for name in ("test_rmse", "residual", "work"))
    after = float(work[-1] - work[first])
    looser = min(_sufficient_residual(each, end) for each, _ in runs if each is trace or each.converged)
    enough = after >= max(WORK_AFTER, WORK_AFTER_SHARE * work[-1])
    if first == 0 or looser < LOOSER_TOL_FACTOR * of.tolerance(trace) or not enough:
        return None
    whose = "its last value" if end == of.last_rmse(trace) else "the best final value on this system"
    evidence = (
        f"At residual {residual[first]:.2g} the test RMSE was {rmse[first]:.4g}, within 1% of {whose}, {end:.4g}. "
        f"{share(after / work[-1])} of the work came after that."
    )
    return Diagnosis(Limit.TOLERANCE, evidence, f"A tolerance of {looser:g} predicts as well.", {"tol": looser})


def _sufficient_residual(trace: Trace, end: float) -> float:
    """Return the rounded residual at which the test RMSE of a run settles; infinity if it does not before its end.

    The smallest of these over the runs on a system is advised, so that all their diagnoses agree.
    """
    first, residual = errors.sufficient_epoch(trace, end=end), trace["epoch"]["residual"].values
    # Cholesky has a single epoch, which tells nothing about looser tolerances
    if not first or first == len(residual) - 1:
        return math.inf
    # a solve stops at the first residual below its tolerance, and residuals may rise
    return _rounded(float(residual[: first + 1].min()))


def large_blocks(trace: Trace, others: list[Trace]) -> Answer:
    """Test whether block factors took most operations; work counts kernel entries only, so it excludes them."""
    factors, entries = of.operations_of_factors(trace), of.operations_of_entries(trace)
    if factors < FACTOR_OPERATIONS or factors < FACTORS_FACTOR * entries:
        return None
    rows, n = int(trace["block"]["solved_size"].max()), int(trace.attrs["n"])
    seconds = float(trace["epoch"]["seconds"][-1])
    evidence = (
        f"Factors of blocks of {rows:,} rows took about {factors:.1g} operations, {factors / entries:.0f} times those "
        f"of all {of.work(trace):.2g} work. Set-up was {trace.attrs['setup_seconds']:.2g} of {seconds:.2g} s."
    )
    smaller = max(1, min(int(short(n / 10)), (trace.block_size or rows) // 2))
    return Diagnosis(Limit.LARGE_BLOCKS, evidence, f"Use blocks of {smaller:,} rows.", {"block_size": smaller})


def is_quick(trace: Trace) -> bool:
    """Test whether the run converged with little work, or in no more epochs than its settings force."""
    return trace.converged and (of.work(trace) <= QUICK_WORK or of.epochs(trace) <= of.forced_epochs(trace))


def nothing(trace: Trace, others: list[Trace]) -> Diagnosis:
    """Diagnose a quick run for which no rule holds."""
    forced, epochs = of.forced_epochs(trace), of.epochs(trace)
    count = int(trace.attrs["right_hand_sides"])
    mean = f" (mean of {count} right-hand sides)" if count > 1 else ""
    evidence = f"Residual {of.residual(trace):.2g}{mean} after {of.work(trace):.3g} work, set-up included"
    if 1 < epochs <= forced:
        evidence += f"; its settings require at least {forced} epochs or iterations"
    if of.tolerance(trace) > LOOSE_TOL:
        evidence += f"; its tolerance of {of.tolerance(trace):g} asks for almost nothing"
    return Diagnosis(Limit.NOTHING, f"{evidence}.", "No change is needed.")


def more_noise(trace: Trace) -> float:
    """Return the σ² to try: ten times as much, or a small one if there is none."""
    return short(10 * trace.attrs["noise"] or LITTLE_NOISE_RATIO * trace.attrs["outputscale"])


def _rounded(value: float) -> float:
    """Round down to 1, 2 or 5 times a power of ten; return 0 for values without a logarithm."""
    if not 0 < value < math.inf:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{next(step for step in (5, 2, 1) if step * power <= value) * power:.0e}")
