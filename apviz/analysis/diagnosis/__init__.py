"""Diagnosis: from a trace to what limited the run, the evidence, and the one setting to change.

The engine (`engine`) asks rules in order, and the first rule that holds gives the answer. `data` has the rules shared
by solves, trainings and GPyTorch models. For solves, `endings` covers how a run ended and what it predicts, `causes`
covers reasons for a slow run, and `evidence` reads the quantities from a trace. `training` covers trainings, and
`limits` has the wording. "No problem found" requires that every rule agrees, and lists what could not be measured.
Every threshold is a constant at the head of its file. `python -m benchmarks.causes` tests the rules on systems with
known causes.

The bound on CG is on the residual, because solves stop by the residual. The theorem (Saad, *Iterative Methods for
Sparse Linear Systems*, 2003, section 6.11.3) bounds the error in the K-norm, ‖e‖_K/‖e₀‖_K ≤ 2((√κ−1)/(√κ+1))^t. The
residual satisfies ‖r‖₂/‖b‖₂ ≤ √κ·‖e‖_K/‖e₀‖_K: from r = Ke follows ‖r‖₂² ≤ λmax‖e‖_K², and
‖e₀‖_K² = bᵀK⁻¹b ≤ ‖b‖₂²/λmin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from apviz.analysis.diagnosis import causes, data, endings, evidence
from apviz.analysis.diagnosis.data import LARGE_KAPPA, Answer, Evidence
from apviz.analysis.diagnosis.endings import LITTLE_NOISE_RATIO, LOOSE_TOL, USUAL_TOL
from apviz.analysis.diagnosis.engine import decide
from apviz.analysis.diagnosis.limits import Diagnosis, Limit, share, written_into
from apviz.analysis.diagnosis.training import diagnose_training
from apviz.analysis.sweeps import same_system
from apviz.tracing import Trace, TrainingTrace
from apviz.tracing.trace import traces_in

__all__ = ["LARGE_KAPPA", "LITTLE_NOISE_RATIO", "LOOSE_TOL", "USUAL_TOL", "Diagnosis", "Limit", "diagnose"]


def _asked(rule: Callable[[Evidence], Answer]) -> Callable[[Trace, list[Trace]], Answer]:
    """Adapt a rule on data to a trace."""
    return lambda trace, others: rule(evidence.of_data(trace))


ALWAYS: Final = (
    endings.interrupted, endings.constant, *map(_asked, data.RULES), endings.precision, endings.loose, endings.worse,
    endings.smooth, endings.model, endings.too_tight, endings.large_blocks, causes.capped_early,
)  # fmt: skip
#: Rules for runs that were not quick.
SLOWLY: Final = (
    causes.method, causes.noise, causes.rule, causes.cap, causes.preconditioner, causes.small_blocks, causes.blocks,
)  # fmt: skip

# Limits of slow runs whose diagnosis also lists other large and small parts of the work.
SLOW: Final = (
    Limit.NOISE, Limit.RULE, Limit.PRECONDITIONER, Limit.SMALL_BLOCKS, Limit.BLOCKS, Limit.CONDITIONING, Limit.CAP,
    Limit.METHOD, Limit.DUPLICATES, Limit.PRECISION, Limit.UNKNOWN,
)  # fmt: skip
# Passes are mentioned if there are several and they took this share of the work.
PASSES_SHARE, SEVERAL_PASSES = 1 / 3, 4


def diagnose(trace: Trace, others: Iterable[Trace] = ()) -> Diagnosis:
    """Find what limited the run of `trace`, by the rules of this package.

    A trace that contains a diagnosis, such as one of `apviz.gpytorch.diagnose`, gives that diagnosis. For GPyTorch's
    own CG, the advice uses GPyTorch's settings.

    Args:
        others: Traces to compare with, such as all traces of a chart; they may include the trace itself. Traces of
            other systems are ignored, and so are traces of unnamed data that may differ. Without any, the diagnosis
            uses the trace alone. Trainings ignore them.

    Raises:
        ValueError: A training without a step.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> solution = apviz.solve(system, apviz.ConjugateGradient(), hooks=[recorder])
        >>> found = apviz.diagnose(recorder.trace)
        >>> found.limit.value, found.advice
        ('no problem found', 'No change is needed.')
    """
    if isinstance(trace, TrainingTrace):
        of_training = diagnose_training(trace)
        if of_training is None:
            raise ValueError("a training is diagnosed after its first step; this one has none")
        return of_training
    if not isinstance(trace, Trace):
        raise TypeError(f"diagnose takes a trace, such as apviz.open_trace(path), got {type(trace).__name__}")
    if (told := written_into(trace)) is not None:
        return told
    compared = [other for other in traces_in(others, "others") if other is not trace and same_system(other, trace)]
    found = decide(ALWAYS, _of_a_sound_run, trace, compared)
    if found.limit in SLOW or found.limit is Limit.NOTHING:
        found = _with_facts(found, trace, compared)
    return _for_gpytorch(found) if trace.attrs.get("operator") == "gpytorch" else found


def _of_a_sound_run(trace: Trace, others: list[Trace]) -> Diagnosis:
    """Return "no problem found" if the run was quick, otherwise the reason why it was slow."""
    if endings.is_quick(trace):
        return endings.nothing(trace, others)
    return decide(SLOWLY, causes.conditioning, trace, others)


def _with_facts(found: Diagnosis, trace: Trace, others: list[Trace]) -> Diagnosis:
    """Return the diagnosis with further facts about the run."""
    facts = [found.evidence]
    if found.limit is not Limit.DUPLICATES:
        facts += data.remarks(evidence.of_data(trace))
    if found.limit is Limit.NOTHING:
        return replace(found, evidence=" ".join(facts))
    quickest = causes.quicker(trace, others)
    if quickest is not None and causes.said_of(quickest) not in found.evidence:
        facts.append(causes.said_of(quickest))
    passes, work = evidence.passes(trace), evidence.work(trace)
    if passes >= SEVERAL_PASSES and passes >= PASSES_SHARE * work:
        facts.append(
            f"{passes} passes, evaluations of B − KW of 1.0 work each, took {share(passes / work)} of the work."
        )
    return replace(found, evidence=" ".join(facts))


def _for_gpytorch(found: Diagnosis) -> Diagnosis:
    """Return the advice for a solve of GPyTorch's own: by its settings, or by apviz's context."""
    change, inside = found.change, "train and predict inside apviz.gpytorch.alternating_projection()"
    if found.limit is Limit.PRECISION and "dtype" in change:
        return replace(found, advice="Use float64: model.double(), likelihood.double(), and the data in float64.")
    if found.limit is Limit.LOOSE:
        tol = change["tol"]
        advice = (
            f"Use a tolerance of {tol:g}: gpytorch.settings.cg_tolerance({tol:g}), eval_cg_tolerance in prediction."
        )
        return replace(found, advice=advice)
    if "max_epochs" in change:
        most = f"gpytorch.settings.max_cg_iterations({change['max_epochs']})"
        return replace(found, advice=f"Allow more iterations: {most}.")
    if found.limit is Limit.NOISE:
        advice = f"Try σ² = {change['noise']:g}, and check the test RMSE. Or {inside}."
        return replace(found, advice=advice)
    if found.limit in (Limit.CONDITIONING, Limit.METHOD, Limit.UNKNOWN):
        return replace(found, advice=f"T{inside[1:]}.")
    return found
