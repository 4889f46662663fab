"""From the trace of a training to what limited it: the evidence, and the one setting to change.

Rules, in the order they are asked; the first that holds is the answer:

1. *interrupted*: steps that were asked for are not done.
2. *ill-conditioning*: the solve of a step did not converge, so that its gradient is not the one that was asked for.
3. *noise floor*: σ² lies on the floor that the settings keep it above.
4. *too few steps*: σ² has not settled (`TrainingTrace.settled_at`; paper, section 5.1).
5. *nothing*: σ² has settled.
"""

from __future__ import annotations

import json

import numpy as np

from apviz.diagnosis import Diagnosis, Limit
from apviz.tracing import TrainingTrace

# σ² so near to its floor lies on it
ON_FLOOR = 1.1
# steps over which a change of σ² is told, as those by which it settles
RECENT = 5


def diagnose_training(trace: TrainingTrace) -> Diagnosis | None:
    """What limited a training, by the rules of this module; None before its first step."""
    if not trace["step"].sizes["step"]:
        return None
    for rule in (_interrupted, _unconverged, _on_floor, _unsettled):
        found = rule(trace)
        if found is not None:
            return found
    evidence = (
        f"σ² = {trace.hyperparameters.noise:.3g}: the five steps up to step {trace.settled_at} of {_done(trace)} "
        "changed it by less than 1% in all."
    )
    return Diagnosis(Limit.SETTLED, evidence, "Leave it as it is.")


def _interrupted(trace: TrainingTrace) -> Diagnosis | None:
    if trace.finished:
        return None
    wanted = int(json.loads(trace.attrs["training_settings"])["steps"])
    evidence = f"It ended ({trace.attrs.get('stop_message', 'killed, or still running')}) after {_done(trace)} steps."
    return Diagnosis(Limit.INTERRUPTED, evidence, f"Let it go on to step {wanted}.", {"steps": wanted})


def _unconverged(trace: TrainingTrace) -> Diagnosis | None:
    steps = trace["step"]
    failed = np.flatnonzero(steps["converged"].values == 0)
    if not len(failed):
        return None
    first = steps.isel(step=int(failed[0]))
    evidence = (
        f"The solves of {len(failed)} of {_done(trace)} steps did not converge, the first at step "
        f"{int(first['step'])}, where σ² = {float(first['noise']):.2g} and a residual of "
        f"{float(first['residual']):.2g} was left: these steps were taken with gradients less exact than asked for."
    )
    solver = trace.attrs["solver_settings"]
    if "overlap=" in solver and "overlap=0.0" not in solver:
        return Diagnosis(Limit.CONDITIONING, evidence, "Give each solve more epochs, or raise the noise floor.")
    advice = "Solve every step on overlapping blocks, which depend on κ least."
    return Diagnosis(Limit.CONDITIONING, evidence, advice, {"solver": "overlap"})


def _on_floor(trace: TrainingTrace) -> Diagnosis | None:
    noise, floor = trace.hyperparameters.noise, float(json.loads(trace.attrs["training_settings"])["noise_floor"])
    if noise > ON_FLOOR * floor:
        return None
    lower = float(f"{floor / 10:.3g}")
    evidence = f"σ² = {noise:.3g} lies on its floor of {floor:g}: the likelihood asks for less."
    advice = f"If the data have so little noise, take a floor of {lower:g}; the solves get harder by it."
    return Diagnosis(Limit.FLOOR, evidence, advice, {"noise_floor": lower})


def _unsettled(trace: TrainingTrace) -> Diagnosis | None:
    if trace.settled_at is not None:
        return None
    noise = np.append(trace["step"]["noise"].values, trace.hyperparameters.noise)[-RECENT - 1 :]
    evidence = f"The last {len(noise) - 1} of {_done(trace)} steps moved σ² from {noise[0]:.3g} to {noise[-1]:.3g}."
    more = 2 * _done(trace)
    return Diagnosis(Limit.STEPS, evidence, f"Let it go on to step {more}.", {"steps": more})


def _done(trace: TrainingTrace) -> int:
    return int(trace["step"].sizes["step"])
