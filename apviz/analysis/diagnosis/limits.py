"""Wording of a diagnosis: what can limit a run, and how to say it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from apviz.tracing import Trace


class Limit(Enum):
    """Cause that can limit a solve, a training or a model, in words.

    Examples:
        >>> from apviz.analysis import Limit
        >>> Limit.CONDITIONING.value
        'ill-conditioning: κ is large for this method'
    """

    NOTHING = "no problem found"
    # any run, training or model: data and hyperparameters
    FEW_ROWS = "too few rows"
    OUTLIERS = "outliers"
    EQUAL_COLUMNS = "some input columns are equal"
    DUPLICATES = "duplicate rows"
    ID_COLUMN = "an input column only counts the rows"
    SCALE = "the data are not scaled"
    COLLAPSED = "a hyperparameter has collapsed or exploded"
    INDEPENDENT = "the lengthscale is too short: K is nearly diagonal"
    EXTRAPOLATION = "the test rows are far from all training rows"
    SMOOTH = "the model is too smooth or too confident for these data"
    # solves
    INTERRUPTED = "it was interrupted"
    CONSTANT = "the targets are all the same: there is nothing to solve for"
    PRECISION = "precision limit: rounding, not the method"
    LOOSE = "the tolerance is too loose"
    MODEL = "the model predicts almost nothing: its test error is near that of the mean"
    TOLERANCE = "the tolerance is tighter than the predictions need"
    LARGE_BLOCKS = "the blocks are too large: their factors cost more than everything else"
    METHOD = "the method is slow here: another needs far less work on this system"
    NOISE = "noise floor: σ² is so small that K is close to singular"
    RULE = "the rule wastes updates: most go to blocks with little residual left"
    PRECONDITIONER = "the preconditioner's rank is too low"
    SMALL_BLOCKS = "the blocks are too small"
    BLOCKS = "updates undo part of each other's work: the blocks interfere"
    CONDITIONING = "ill-conditioning: κ is large for this method"
    CAP = "the epoch limit is too low: the run was still converging"
    UNKNOWN = "the cause is unknown: κ was not computed for this run"
    # trainings
    FLOOR = "noise floor: σ² is at its lower bound"
    STEPS = "too few steps: σ² still moves"
    FAILED = "a training step failed"
    # GPyTorch models
    TARGETS = "the targets are not all finite"
    INPUTS = "the inputs are not all finite"
    STEP = "a step of the optimiser was too large"
    VARIANCES = "some predictive variances are negative"
    RANK = "fast predictive variances: the rank of their Lanczos decomposition is too low"
    INDEFINITE = "K is not positive definite: the kernel is not a covariance function of these inputs"


@dataclass(frozen=True)
class Diagnosis:
    """Diagnosis: what limited a run, the evidence, and what to change.

    Args:
        evidence: Sentence with the numbers of the trace that show the limit.
        change: Single setting to change, as keyword and value; empty if there is none.
        advice: The change in words.
        figures: Rows of a table, one without and one with the change, if the change was tried.

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
        """Store this as the diagnosis of a trace whose cause was found outside of it, as in a GPyTorch model."""
        found = {"limit": self.limit.name, "evidence": self.evidence, "advice": self.advice, "change": {**self.change}}
        trace.attrs["diagnosis"] = json.dumps(found | {"figures": [{**row} for row in self.figures]})


def written_into(trace: Trace) -> Diagnosis | None:
    """Return a diagnosis that was stored in the trace; None if there is none, or this version cannot read it."""
    try:
        found = json.loads(trace.attrs["diagnosis"])
        rows = tuple({str(name): str(value) for name, value in row.items()} for row in found.get("figures", ()))
        return Diagnosis(
            Limit[found["limit"]], str(found["evidence"]), str(found["advice"]), dict(found["change"]), rows
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def share(part: float) -> str:
    """Format a share in percent, with 100% only for all and 0% only for nothing: `99.7%`, `more than 99.9%`."""
    if not 0 < part < 1:
        return f"{part:.0%}"
    if 0.01 <= part < 0.99:
        return f"{part:.0%}"
    if part < 0.001 or part >= 0.9995:
        return "under 0.1%" if part < 0.5 else "more than 99.9%"
    return f"{part:.1%}"


def short(value: float) -> float:
    """Round to three digits, as a person would type it."""
    return float(f"{value:.3g}")
