"""Diagnosis: from a trace to what limited the run, the evidence, and the one setting to change.

Rules, in the order they are asked; the first that holds is the answer. Every number in them is a constant below.

1. *interrupted*: no stop reason was reached, or a hook stopped the solve.
2. *floor of the precision*: the solve stagnated or diverged, though B − KW in float64 was what it went on from; or
   it did not converge with blocks that needed more jitter than σ². In a trace of a former version or of GPyTorch's own
   CG, which has no passes, also where the recursion's drift from B − KW is half of the residual it ended at, or more.
3. *tolerance too loose*: it converged to a tolerance above 0.5, at a residual above 0.1; W = 0 has residual 1.
4. *nothing is predicted*: the test RMSE never was 2% below that of W = 0, which predicts the mean, though the system is
   solved to 0.1.
5. *tolerance too tight*: the test RMSE was within 1% of the best end known at a residual 3 times the tolerance or more,
   and half of the work or more came after that. An end counts if its run converged.
6. *nothing*: it converged within 20 work, or in no more epochs than its settings force it to take.
7. *noise floor*: σ² is under 10⁻³ of the outputscale, and raising it tenfold would halve what √κ costs CG.
8. *blocks fighting*: alternating projection without overlap, whose late epochs keep more than 80% of the residual.
9. *ill-conditioning*: everything else that was slow, where κ is 500 or more: CG takes at most ½√κ·log(2√κ/tol)
   iterations (exact arithmetic), some 95 at κ = 500 to 0.01.
10. *the cap*, *the method*, *nothing*: where κ is smaller, a run that did not converge was cut off, and one that took
    more work than CG at most needs was slow by its method.

The bound on CG is of the residual, on which solves stop: the theorem (Saad, *Iterative Methods for Sparse Linear
Systems*, 2003, section 6.11.3) bounds the error in the K-norm, ‖e‖_K/‖e₀‖_K ≤ 2((√κ−1)/(√κ+1))^t, and
‖r‖₂/‖b‖₂ ≤ √κ·‖e‖_K/‖e₀‖_K, since r = Ke, so that ‖r‖₂² ≤ λmax‖e‖_K², and ‖e₀‖_K² = bᵀK⁻¹b ≤ ‖b‖₂²/λmin.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np

from apviz.analysis import errors
from apviz.analysis.errors import conjugate_gradient_iterations
from apviz.analysis.sweeps import same_system
from apviz.tracing import Trace, TrainingTrace

# of the residual that a run ended at: where rounding makes up so much of it, rounding keeps it from falling
DRIFT_SHARE = 0.5
# passes are worth a word where there are several, and they took so much of the work
PASSES_SHARE, SEVERAL_PASSES = 1 / 3, 4
# W = 0 has residual 1: a tolerance above the first is met by little, and a residual above the second is much of it
LOOSE_TOL, SOLVED_RESIDUAL = 0.5, 0.1
# a test error that never was so much below the mean's predicts nothing
RMSE_GAIN_SHARE = 0.02
# solving on is of no use where the test error is within 1% of its end at a residual so many times the tolerance, with
# so much of the work still to come
LOOSER_TOL_FACTOR, WORK_AFTER_SHARE = 3.0, 0.5
# work that nobody waits for
QUICK_WORK = 20.0
# share of the residual that an epoch keeps where blocks undo each other's work
KEPT_PER_EPOCH = 0.8
# and that reads as all of it
ALL_KEPT_PER_EPOCH = 0.995
# σ² ÷ outputscale under which the noise alone makes K ill-conditioned
LITTLE_NOISE_RATIO = 1e-3
# κ under which plain CG is done within 100 iterations to a tolerance of 0.01
LARGE_KAPPA = 500.0
# a method that took so much of the work of another on the same system is worth a word
FAR_LESS_WORK_SHARE = 0.25
# lengthscales that are written out
SHOWN_LENGTHSCALES = 4
# what to try in place of a tolerance that is too loose: the paper's
USUAL_TOL = 0.01


class Limit(Enum):
    """Limits of a run or a training, and how a person would say them.

    Examples:
        >>> from apviz.analysis import Limit
        >>> Limit.CONDITIONING.value
        'ill-conditioning: κ is large for this method'
    """

    NOTHING = "nothing: it converged quickly"
    INTERRUPTED = "it was interrupted"
    PRECISION = "floor of the precision: rounding, not the method"
    LOOSE = "the tolerance is so loose that little was solved"
    MODEL = "nothing is predicted: the test error is that of the mean"
    TOLERANCE = "the tolerance is tighter than the predictions need"
    NOISE = "noise floor: σ² is so small that K is close to singular"
    BLOCKS = "blocks fighting: an update undoes what the others did"
    CONDITIONING = "ill-conditioning: κ is large for this method"
    CAP = "the cap came first: it was still on its way"
    METHOD = "the method: CG needs less work where κ is so small"
    UNKNOWN = "not known: κ was not computed for this run"
    # of trainings, see apviz.analysis.training_diagnosis
    SETTLED = "nothing limited this training: σ² has settled"
    FLOOR = "noise floor: σ² would be smaller if it were let"
    STEPS = "too few steps: σ² still moves"
    FAILED = "a step could not be taken"
    # of models, see apviz.gpytorch.diagnose
    SOUND = "nothing is wrong with this model, as far as it was measured"
    TARGETS = "the targets are not all finite"
    INPUTS = "the inputs are not all finite"
    STEP = "a step of the optimiser was too large"
    SCALE = "the data are not scaled"
    COPIES = "rows that come again make K close to singular"
    INDEFINITE = "K is not positive definite: the kernel is not a covariance function of these inputs"
    RANK = "fast predictive variances: the rank of their Lanczos decomposition is too low"


@dataclass(frozen=True)
class Diagnosis:
    """A diagnosis: what limited a run, how one sees that, and what to change.

    Args:
        evidence: the numbers of the trace that say so, in a sentence.
        change: the one setting to change, as keyword and value; empty where there is none.
        advice: the change in words.
        figures: rows of a table, one as it is and one with the change, where the change was tried.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> solution = apviz.solve(system, apviz.ConjugateGradient(tol=0.9), hooks=[recorder])
        >>> found = apviz.diagnose(recorder.trace)
        >>> found.limit.name, found.change
        ('LOOSE', {'tol': 0.01})
    """

    limit: Limit
    evidence: str
    advice: str
    change: Mapping[str, Any] = field(default_factory=dict)
    figures: tuple[Mapping[str, str], ...] = ()

    def write_into(self, trace: Trace) -> None:
        """Makes this the diagnosis of a trace: of one whose cause was found outside of it, as in a GPyTorch model."""
        found = {"limit": self.limit.name, "evidence": self.evidence, "advice": self.advice, "change": {**self.change}}
        trace.attrs["diagnosis"] = json.dumps(found | {"figures": [{**row} for row in self.figures]})


def diagnose(trace: Trace, others: Iterable[Trace] = ()) -> Diagnosis:
    """Finds what limited the run of `trace`, by the rules of this module.

    Of a trace that a diagnosis was written into, such as one of `apviz.gpytorch.diagnose`, it is that; of GPyTorch's
    own CG the advice is in GPyTorch's words.

    Args:
        others: traces it can be compared with, such as all of a chart; those of other systems are left out, as are
            those of data without a name that may be other data, and the trace itself may be among them. Without any
            it needs nothing but the trace. Of a training they are not looked at.

    Raises:
        ValueError: a training without a step.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> solution = apviz.solve(system, apviz.ConjugateGradient(), hooks=[recorder])
        >>> found = apviz.diagnose(recorder.trace)
        >>> found.limit.value, found.advice
        ('nothing: it converged quickly', 'Leave it as it is.')
    """
    if isinstance(trace, TrainingTrace):
        from apviz.analysis.training_diagnosis import diagnose_training  # which stands on this module

        found = diagnose_training(trace)
        if found is None:
            raise ValueError("a training is diagnosed after its first step; this one has none")
        return found
    if not isinstance(trace, Trace):
        raise TypeError(f"diagnose takes a trace, such as apviz.open_trace(path), got {type(trace).__name__}")
    if (told := _told(trace)) is not None:
        return told
    compared = [other for other in others if other is not trace and same_system(other, trace)]
    found = _with_facts(_found(trace, compared), trace, compared)
    return _for_gpytorch(found) if trace.attrs.get("operator") == "gpytorch" else found


def _told(trace: Trace) -> Diagnosis | None:
    """What was found outside of the trace, if anything, and if this version knows its words."""
    try:
        found = json.loads(trace.attrs["diagnosis"])
        rows = tuple({str(name): str(value) for name, value in row.items()} for row in found.get("figures", ()))
        return Diagnosis(
            Limit[found["limit"]], str(found["evidence"]), str(found["advice"]), dict(found["change"]), rows
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _for_gpytorch(found: Diagnosis) -> Diagnosis:
    """The advice for a solve of GPyTorch's own: in its settings, or in apviz's context."""
    change, inside = found.change, "train and predict inside apviz.gpytorch.alternating_projection()"
    if found.limit is Limit.PRECISION and "dtype" in change:
        return replace(found, advice="Use float64: model.double(), likelihood.double(), and the data in float64.")
    if found.limit is Limit.LOOSE:
        tol = change["tol"]
        advice = (
            f"Take a tolerance of {tol:g}: gpytorch.settings.cg_tolerance({tol:g}), eval_cg_tolerance in prediction."
        )
        return replace(found, advice=advice)
    if "max_epochs" in change:
        most = f"gpytorch.settings.max_cg_iterations({change['max_epochs']})"
        return replace(found, advice=f"Let it take more iterations: {most}.")
    if found.limit is Limit.NOISE:
        advice = f"Try σ² = {change['noise']:g}, and see in the test RMSE whether the data mind; or {inside}."
        return replace(found, advice=advice)
    if found.limit in (Limit.CONDITIONING, Limit.METHOD, Limit.UNKNOWN):
        return replace(found, advice=f"T{inside[1:]}.")
    return found


def _found(trace: Trace, others: list[Trace]) -> Diagnosis:
    found = _interrupted(trace) or _precision(trace) or _loose(trace) or _model(trace) or _tolerance(trace, others)
    for rule in (_nothing, _noise, _blocks):
        found = found or rule(trace)
    return found or _conditioning(trace)


def _with_facts(found: Diagnosis, trace: Trace, others: list[Trace]) -> Diagnosis:
    """The diagnosis with what else is known of a run that was slow."""
    if found.limit not in (Limit.NOISE, Limit.BLOCKS, Limit.CONDITIONING, Limit.CAP, Limit.METHOD, Limit.UNKNOWN):
        return found
    facts = [found.evidence]
    as_far = [other for other in others if other.converged and _tol(other) <= _tol(trace)]
    quickest = min(as_far, key=_work, default=None)
    if quickest is not None and _work(quickest) <= FAR_LESS_WORK_SHARE * _work(trace):
        facts.append(f"{quickest.label} converged on the same system after {_work(quickest):.3g} work.")
    passes = _passes(trace)
    if passes >= SEVERAL_PASSES and passes >= PASSES_SHARE * _work(trace):
        facts.append(
            f"{passes} passes, evaluations of B − KW of 1.0 work each, took {passes / _work(trace):.0%} of the work."
        )
    if "rows" in trace:
        distinct, rows = _distinct(trace)
        if distinct < rows:
            facts.append(
                f"Only {distinct:,} of the {rows:,} training rows are distinct: a row that comes again adds an "
                "eigenvalue of σ² to K."
            )
    return replace(found, evidence=" ".join(facts))


def _distinct(trace: Trace) -> tuple[int, int]:
    rows = trace["rows"]["coordinates"].values
    return len(np.unique(rows, axis=0)), len(rows)


def _interrupted(trace: Trace) -> Diagnosis | None:
    why = trace.attrs.get("stop_message", "killed, or still running")
    again = "Run it again, with a higher limit if one stopped it."
    if "epoch" not in trace:
        return Diagnosis(Limit.INTERRUPTED, f"It ended ({why}) before its first epoch.", again)
    if trace.finished and trace.outcome != "stopped":
        return None
    last = trace["epoch"].isel(epoch=-1)
    evidence = (
        f"It ended ({why}) at residual {float(last['residual']):.2g} after {float(last['work']):.3g} work, before the "
        f"tolerance {_tol(trace):g}."
    )
    return Diagnosis(Limit.INTERRUPTED, evidence, again)


def _precision(trace: Trace) -> Diagnosis | None:
    drift = float(trace["epoch"]["drift"].max()) if trace["epoch"]["drift"].notnull().any() else math.nan
    failed, end = trace.outcome in ("stagnated", "diverged"), _residual(trace)
    passes, jitter = _passes(trace), _jitter(trace)
    # a pass puts right what has drifted, and skeletons drift by far more than rounding
    drifted = not passes and drift >= DRIFT_SHARE * end
    # beside so much jitter the noise does not count: the smallest eigenvalues are hardly solved for
    if not failed and (trace.converged or not (drifted or jitter > trace.attrs["noise"])):
        return None
    dtype = _settings(trace).get("inner_dtype", "system")
    dtype = trace.attrs["dtype"] if dtype == "system" else dtype
    facts = [f"{passes} {'pass' if passes == 1 else 'passes'} put its residual right"] if passes else []
    if math.isfinite(drift) and not passes:
        facts.append(f"its residual drifted up to {drift:.2g} from B − KW")
    if jitter > 0:
        facts.append(f"blocks needed a jitter of up to {jitter:.2g}")
    evidence = (
        f"The solve {trace.outcome if failed else 'did not converge'} in {dtype}: "
        f"{', '.join([*facts, f'it ended at {end:.2g}'])}, the tolerance is {_tol(trace):g}."
    )
    if dtype == "float32":
        if trace.attrs["dtype"] == "float64":
            return Diagnosis(Limit.PRECISION, evidence, "Let the blocks be in float64 too.", {"inner_dtype": "float64"})
        return Diagnosis(Limit.PRECISION, evidence, "Solve in float64.", {"dtype": "float64"})
    looser = _short(10 * _tol(trace))
    if looser >= LOOSE_TOL:
        higher = _more_noise(trace)
        return Diagnosis(
            Limit.PRECISION, evidence, f"It is float64 already: try σ² = {higher:g}.", {"noise": higher}
        )  # fmt: skip
    advice = f"It is float64 already: take a tolerance of {looser:g}, or more noise."
    return Diagnosis(Limit.PRECISION, evidence, advice, {"tol": looser})


def _loose(trace: Trace) -> Diagnosis | None:
    tol, end = _tol(trace), _residual(trace)
    if not trace.converged or tol <= LOOSE_TOL or end <= SOLVED_RESIDUAL:
        return None
    evidence = (
        f"It converged, but only to its tolerance of {tol:g}: it ended at residual {end:.2g} after {_work(trace):.3g} "
        "work, and W = 0 has residual 1. Means, gradients and variances from it can be far off."
    )
    return Diagnosis(Limit.LOOSE, evidence, f"Take a tolerance of {USUAL_TOL:g}.", {"tol": USUAL_TOL})


def _model(trace: Trace) -> Diagnosis | None:
    rmse = trace["epoch"]["test_rmse"].values
    # from W = 0, whose energy is 0, the first epoch predicts the mean
    if (
        trace.attrs.get("initial_energy") != 0
        or int(trace["epoch"]["epoch"][0])
        or not _residual(trace) <= SOLVED_RESIDUAL
    ):
        return None
    if not np.isfinite(rmse[0]) or np.isfinite(rmse).sum() < 2 or np.nanmin(rmse) < (1 - RMSE_GAIN_SHARE) * rmse[0]:
        return None
    scales = ", ".join(f"{value:.3g}" for value in trace.attrs["lengthscale"][:SHOWN_LENGTHSCALES])
    more = ", …" if len(trace.attrs["lengthscale"]) > SHOWN_LENGTHSCALES else ""
    given = f"lengthscales of {scales}{more}" if scales else f"the kernel {trace.attrs['kernel']}"
    evidence = (
        f"Predicting the mean has test RMSE {rmse[0]:.4g}; this run's lowest is {np.nanmin(rmse):.4g}, at its end "
        f"{rmse[np.isfinite(rmse)][-1]:.4g}, though the residual fell to {_residual(trace):.2g}: no solver and no "
        "tolerance changes that."
    )
    advice = (
        f"Fit the hyperparameters: with {given} the training rows say nothing of the test rows. "
        "Where they are fitted, the inputs do not tell the target."
    )
    return Diagnosis(Limit.MODEL, evidence, advice)


def _tolerance(trace: Trace, others: list[Trace]) -> Diagnosis | None:
    epoch = trace["epoch"]
    rmse, residual, work = (epoch[name].values for name in ("test_rmse", "residual", "work"))
    ends = [end for each in (trace, *others) if each.converged and (end := _last_rmse(each)) is not None]
    if not ends:
        return None
    end = min(ends)
    first = errors.sufficient_epoch(trace, end=end)
    if first is None:
        return None
    after = 1 - work[first] / work[-1]
    # a solve stops at the first residual below its tolerance, and residuals may rise
    looser = _rounded(float(residual[: first + 1].min()))
    if first == 0 or looser < LOOSER_TOL_FACTOR * _tol(trace) or after < WORK_AFTER_SHARE:
        return None
    whose = "the last" if end == _last_rmse(trace) else "the best of the runs that converged on this system"
    evidence = (
        f"At residual {residual[first]:.2g} the test RMSE was {rmse[first]:.4g}, within 1% of {whose}, {end:.4g}; "
        f"{after:.0%} of the work came after that."
    )
    return Diagnosis(Limit.TOLERANCE, evidence, f"A tolerance of {looser:g} predicts as well.", {"tol": looser})


def _nothing(trace: Trace) -> Diagnosis | None:
    forced, epochs = _forced(trace), int(trace["epoch"]["epoch"][-1])
    if not trace.converged or (_work(trace) > QUICK_WORK and epochs > forced):
        return None
    evidence = f"Residual {_residual(trace):.2g} after {_work(trace):.3g} work, set-up included"
    if 1 < epochs <= forced:
        evidence += f"; its settings force it to take {forced} epochs, or iterations"
    if _tol(trace) > LOOSE_TOL:
        evidence += f"; its tolerance of {_tol(trace):g} asked for next to nothing"
    return Diagnosis(Limit.NOTHING, f"{evidence}.", "Leave it as it is.")


def _noise(trace: Trace) -> Diagnosis | None:
    noise, scale = trace.attrs["noise"], trace.attrs["outputscale"]
    if noise >= LITTLE_NOISE_RATIO * scale or _is_overlapped(trace) or _kappa(trace) < LARGE_KAPPA:
        return None
    known = f", and λmin is close to it: {trace.condition()}" if math.isfinite(_kappa(trace)) else ""
    evidence = f"σ² = {noise:.2g} is {noise / scale:.1g} of the outputscale{known}."
    higher = _more_noise(trace)
    advice = f"Try σ² = {higher:g}, and see in the test RMSE whether the data mind; or blocks that overlap."
    return Diagnosis(Limit.NOISE, evidence, advice, {"noise": higher})


def _blocks(trace: Trace) -> Diagnosis | None:
    if not trace.method.has_blocks or _is_overlapped(trace):
        return None
    kept = _kept(trace)
    if not kept > KEPT_PER_EPOCH:
        return None
    keeps = "does not lower the residual" if kept >= 1 else "takes less than 0.5% off the residual"
    if kept < ALL_KEPT_PER_EPOCH:
        keeps = f"keeps {kept:.0%} of the residual"
    evidence = (
        f"{trace.method.partition} blocks without overlap: an epoch {keeps}, though every update makes it zero on "
        "its own block."
    )
    advice = "Blocks of neighbours that solve on a margin around what they own."
    return Diagnosis(Limit.BLOCKS, evidence, advice, {"partition": "principal-axis-tree", "overlap": "auto"})


def _conditioning(trace: Trace) -> Diagnosis:
    kappa, work = _kappa(trace), _work(trace)
    state = "converged" if trace.converged else f"not converged ({trace.outcome})"
    if not math.isfinite(kappa):
        evidence = f"κ was not computed; {state} after {work:.3g} work, at residual {_residual(trace):.2g}."
        advice = "Solve with a kernel that apviz has, or compare with another solver on the same system."
        return Diagnosis(Limit.UNKNOWN, evidence, advice)
    most = math.ceil(conjugate_gradient_iterations(np.array(kappa), _tol(trace)))
    evidence = (
        f"{trace.condition()}, for which CG needs up to {most:,} iterations in exact arithmetic; {state} "
        f"after {work:.3g} work."
    )
    if kappa < LARGE_KAPPA:
        return _well_conditioned(trace, evidence, most)
    if (takeover := json.loads(trace.attrs.get("choices", "{}")).get("takeover")) is not None:
        evidence += f" Projections were slow, and CG took over ({takeover})."
        return Diagnosis(Limit.CONDITIONING, evidence, "Take CG with a preconditioner of low rank from the start.")
    if _is_overlapped(trace):
        advice = "Add a coarse space for what is smooth, which no block sees."
        return Diagnosis(Limit.CONDITIONING, evidence, advice, {"coarse_rank": "auto"})
    if trace.method.has_blocks:
        advice = "Overlapping blocks, which depend on κ least."
        return Diagnosis(
            Limit.CONDITIONING, evidence, advice, {"partition": "principal-axis-tree", "overlap": "auto"}
        )  # fmt: skip
    advice = "Let apviz choose: overlapping alternating projection, or CG with a preconditioner of low rank."
    return Diagnosis(Limit.CONDITIONING, evidence, advice, {"solver": "auto"})


def _well_conditioned(trace: Trace, evidence: str, most: int) -> Diagnosis:
    """Of a run that took a while though κ is small."""
    done = int(trace["epoch"]["epoch"][-1])
    if not trace.converged and done < (goal := _forecast(trace, done, most)):
        change: dict[str, Any] = {"max_epochs": goal} if "max_epochs" in _settings(trace) else {}
        return Diagnosis(Limit.CAP, evidence, f"Let it take up to {goal:,} epochs, or iterations.", change)
    if trace.converged and _work(trace) <= most:
        return Diagnosis(Limit.NOTHING, evidence, "Leave it as it is.")
    return Diagnosis(Limit.METHOD, evidence, "Take CG, or let apviz choose.", {"solver": "auto"})


def _forecast(trace: Trace, done: int, most: int) -> int:
    """Epochs after which it is at its tolerance: the bound for CG, for projections at the rate of the late epochs."""
    kept = _kept(trace)
    if not trace.method.has_blocks or not 0 < kept < 1:
        return most
    return done + math.ceil(math.log(_tol(trace) / _residual(trace)) / math.log(kept))


def _tol(trace: Trace) -> float:
    return float(trace.attrs["tol"])


def _work(trace: Trace) -> float:
    return float(trace["epoch"]["work"][-1])


def _residual(trace: Trace) -> float:
    """At the end."""
    return float(trace["epoch"]["residual"][-1])


def _kappa(trace: Trace) -> float:
    return float(trace["spectrum"]["kappa"])


def _last_rmse(trace: Trace) -> float | None:
    rmse = trace["epoch"]["test_rmse"].values
    known = rmse[np.isfinite(rmse)]
    return float(known[-1]) if len(known) else None


def _passes(trace: Trace) -> int:
    return int(trace["pass"].sizes["pass"]) if "pass" in trace else 0


def _jitter(trace: Trace) -> float:
    """The most that a block needed on its diagonal; 0 of a method without blocks."""
    return float(trace["block"]["jitter"].max()) if "block" in trace else 0.0


def _settings(trace: Trace) -> dict[str, Any]:
    """Of the solver; none of a trace from elsewhere that has them in no form of apviz's."""
    try:
        return dict(json.loads(trace.attrs["solver_settings"]))
    except (ValueError, TypeError):
        return {}


def _forced(trace: Trace) -> int:
    """Epochs or iterations before which its settings do not let it end; 0 for none."""
    forced = _settings(trace).get("min_epochs")
    return forced if isinstance(forced, int) else 0


def _is_overlapped(trace: Trace) -> bool:
    return bool(trace.method.has_blocks and trace.method.overlap)


def _kept(trace: Trace) -> float:
    """The share of the residual that an epoch of the second half keeps: a geometric mean; NaN for under 4 epochs."""
    residual = trace["epoch"]["residual"].values
    half = len(residual) // 2
    if half < 2:
        return math.nan
    return float((residual[-1] / residual[half]) ** (1 / (len(residual) - 1 - half)))


def _more_noise(trace: Trace) -> float:
    return _short(10 * trace.attrs["noise"] or LITTLE_NOISE_RATIO * trace.attrs["outputscale"])


def _short(value: float) -> float:
    """To three digits: what a person would type."""
    return float(f"{value:.3g}")


def _rounded(value: float) -> float:
    """Down to 1, 2 or 5 times a power of ten; 0 for what has no logarithm."""
    if not 0 < value < math.inf:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{next(step for step in (5, 2, 1) if step * power <= value) * power:.0e}")
