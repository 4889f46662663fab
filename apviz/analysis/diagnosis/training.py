"""Diagnosis of a training: from its trace to what limited it, the evidence, and the one setting to change.

Rules, in the order in which they are asked; the first that holds gives the answer:

1. *a training step failed*: its solve diverged, a factor failed, or the gradient was not finite.
2. *interrupted*: requested steps are missing.
3. *precision limit*: rounding prevented the convergence of all solves that did not converge.
4. *ill-conditioning*: the solve of a step did not converge, so its gradient is less accurate than requested; unless a
   budget of epochs ends every solve.
5. *tolerance too loose*: the solves of at least half of the steps left a residual above 0.5, within their tolerance or
   their budget; W = 0 has residual 1.
6. *a hyperparameter has collapsed or exploded*: it moved from its start by orders of magnitude. *a step was too large*:
   the likelihood per row fell by more than 1 nat from its best.
7. *noise floor*: σ² is at the lower bound that the settings give, and the last steps have not raised it.
8. *too few steps*: the training has not settled (`TrainingTrace.settled_at`): σ² still moves, or the likelihood still
   improves.
9. *nothing*: it has settled, which is the sign of the end (paper, appendix, "Additional Discussions").
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from apviz.analysis.diagnosis.data import FLOOR_FACTOR, ON_FLOOR_FACTOR, stepped_too_far
from apviz.analysis.diagnosis.endings import LOOSE_TOL
from apviz.analysis.diagnosis.engine import decide
from apviz.analysis.diagnosis.limits import Diagnosis, Limit
from apviz.tracing import TrainingTrace
from apviz.tracing.schema import FAILED
from apviz.tracing.training_trace import SETTLED_STEPS

# a lengthscale or an outputscale beyond this multiple of its start, or below its inverse, no longer describes the data
ASTRAY = 1e6
# lower bound of σ² to try if there was none
USUAL_NOISE_FLOOR = 1e-4


def diagnose_training(trace: TrainingTrace) -> Diagnosis | None:
    """Find what limited a training, by the rules of this module; return None before its first step.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 50)
        >>> training = apviz.Training(x, torch.sin(6 * x), apviz.TrainingSettings(steps=2), device="cpu")
        >>> h = training.run()
        >>> apviz.analysis.diagnose_training(training.trace).limit.value
        'too few steps: σ² still moves'
    """
    if not trace["step"].sizes["step"]:
        return None
    rules = (_failed, _interrupted, _rounded, _unconverged, _loose, _astray, _risen, _on_floor, _unsettled)
    return decide(rules, _settled, trace)


def _settled(trace: TrainingTrace) -> Diagnosis:
    evidence = trace.settled_words
    if budget := trace.budget:
        residual = float(trace["step"]["residual"].values.max())
        evidence += f" Solves had a limit of {budget} epochs, which left residuals of up to {residual:.2g}."
    return Diagnosis(Limit.NOTHING, evidence, "No change is needed.")


def _failed(trace: TrainingTrace) -> Diagnosis | None:
    if trace.attrs.get("stop_reason") != FAILED:
        return None
    evidence = f"Step {_done(trace) + 1} of {_settings(trace)['steps']}: {trace.attrs.get('stop_message', FAILED)}."
    if trace.attrs["dtype"] == "float32":
        return Diagnosis(Limit.FAILED, evidence, "Train in float64.", {"dtype": "float64"})
    higher = _higher_floor(trace)
    return Diagnosis(Limit.FAILED, evidence, f"Use a noise floor of {higher:g}.", {"noise_floor": higher})


def _interrupted(trace: TrainingTrace) -> Diagnosis | None:
    if trace.finished:
        return None
    wanted = int(_settings(trace)["steps"])
    evidence = f"It ended ({trace.attrs.get('stop_message', 'killed, or still running')}) after {_done(trace)} steps."
    return Diagnosis(Limit.INTERRUPTED, evidence, f"Resume the training up to step {wanted}.", {"steps": wanted})


def _rounded(trace: TrainingTrace) -> Diagnosis | None:
    steps = trace["step"]
    failed = np.flatnonzero(steps["converged"].values == 0)
    if not len(failed) or trace.attrs.get("stagnated_steps", 0) < len(failed):
        return None
    dtype, residual = trace.attrs["dtype"], float(steps["residual"].values[failed].max())
    evidence = (
        f"Rounding in {dtype} kept the solves of {len(failed)} of {_done(trace)} steps above their tolerance. "
        f"Their residuals are up to {residual:.2g}."
    )
    if dtype == "float32":
        return Diagnosis(
            Limit.PRECISION, evidence, "Train in float64, or with a larger tolerance.", {"dtype": "float64"}
        )
    higher = _higher_floor(trace)
    advice = f"It is float64 already: use a larger tolerance, or a noise floor of {higher:g}."
    return Diagnosis(Limit.PRECISION, evidence, advice, {"noise_floor": higher})


def _unconverged(trace: TrainingTrace) -> Diagnosis | None:
    steps = trace["step"]
    failed = np.flatnonzero(steps["converged"].values == 0)
    if not len(failed) or trace.budget:
        return None
    first = steps.isel(step=int(failed[0]))
    evidence = (
        f"The solves of {len(failed)} of {_done(trace)} steps did not converge, the first at step "
        f"{int(first['step'])}. There σ² = {float(first['noise']):.2g}, and the residual ended at "
        f"{float(first['residual']):.2g}. The gradients of these steps are less accurate than requested."
    )
    if trace.method.has_blocks and trace.method.overlap:
        return Diagnosis(Limit.CONDITIONING, evidence, "Give each solve more epochs, or raise the noise floor.")
    advice = "Solve every step on overlapping blocks, which depend on κ least."
    return Diagnosis(Limit.CONDITIONING, evidence, advice, {"solver": "overlap"})


def _loose(trace: TrainingTrace) -> Diagnosis | None:
    residual = trace["step"]["residual"].values
    little = residual > LOOSE_TOL
    if little.mean() < 0.5:
        return None
    budget = trace.budget
    within = f"at their limit of {budget} epochs" if budget else "within their tolerance"
    evidence = (
        f"The solves of {little.sum()} of {_done(trace)} steps ended {within} at residuals of up to "
        f"{residual.max():.2g}. W = 0 has residual 1: the gradients of these steps can be far off."
    )
    if budget:
        return Diagnosis(Limit.LOOSE, evidence, f"Give every step {2 * budget} epochs, or solve on overlapping blocks.")
    advice = "Solve every step to a tolerance of 0.01, on overlapping blocks."
    return Diagnosis(Limit.LOOSE, evidence, advice, {"solver": "overlap"})


def _astray(trace: TrainingTrace) -> Diagnosis | None:
    """Test whether a hyperparameter moved by orders of magnitude from its start, which suits the data."""
    steps, now = trace["step"], trace.hyperparameters
    pairs = [("noise", steps["noise"].values[0], now.noise)]
    if now.lengthscale and "lengthscale" in steps:
        starts = steps["lengthscale"].values[0]
        pairs += [("lengthscale", *pair) for pair in zip(starts, now.lengthscale, strict=False)]
        pairs.append(("outputscale", steps["outputscale"].values[0], now.outputscale))
    for name, start, end in pairs:
        least = 0.0 if name == "noise" else start / ASTRAY  # data without noise lead to a small noise
        if not least <= end <= start * ASTRAY:
            evidence = f"The {name} went from {start:.3g} to {end:.3g} in {_done(trace)} steps."
            by_adam = _settings(trace).get("optimiser", "adam") == "adam"
            again = "with a smaller step_size" if by_adam else "from other starts, such as n_restarts=5"
            return Diagnosis(Limit.COLLAPSED, evidence, f"Train again {again}.")
    return None


def _risen(trace: TrainingTrace) -> Diagnosis | None:
    losses = trace["step"]["negative_log_likelihood"].values
    return stepped_too_far([float(each) for each in losses[np.isfinite(losses)]], 1)


def _on_floor(trace: TrainingTrace) -> Diagnosis | None:
    noise, floor = trace.hyperparameters.noise, float(_settings(trace)["noise_floor"])
    recent = trace.noise_path[-SETTLED_STEPS - 1 :]
    if noise > ON_FLOOR_FACTOR * floor or noise > recent[0]:
        return None
    lower = float(f"{floor / FLOOR_FACTOR:.3g}")
    evidence = f"σ² = {noise:.3g} is at its floor of {floor:g}: the likelihood favours less noise."
    advice = f"If the data have so little noise, use a floor of {lower:g}. That makes the solves harder."
    return Diagnosis(Limit.FLOOR, evidence, advice, {"noise_floor": lower})


def _unsettled(trace: TrainingTrace) -> Diagnosis | None:
    if trace.settled_at is not None:
        return None
    more = 2 * _done(trace)
    return Diagnosis(Limit.STEPS, trace.settled_words, f"Resume the training up to step {more}.", {"steps": more})


def _higher_floor(trace: TrainingTrace) -> float:
    return float(f"{max(FLOOR_FACTOR * float(_settings(trace)['noise_floor']), USUAL_NOISE_FLOOR):.3g}")


def _settings(trace: TrainingTrace) -> dict[str, Any]:
    return dict(json.loads(trace.attrs["training_settings"]))


def _done(trace: TrainingTrace) -> int:
    return int(trace["step"].sizes["step"])
