"""Build the trace of an iterative solver of another library, one epoch an iteration, from what is known of it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from apviz.method import Method
from apviz.solvers.interface import StopReason
from apviz.spectrum import Eigenvalue, Spectrum
from apviz.tracing.attributes import surroundings
from apviz.tracing.schema import FINISHED
from apviz.tracing.spectra import put_spectrum
from apviz.tracing.store import Record

UNKNOWN: Final = "not computed"
#: bounds on positive eigenvalues of which nothing is known
ANY: Final = (sys.float_info.max, sys.float_info.min)
#: how residuals are known, in words
MEASURED: Final = "b − Ax in float64, recomputed after every iteration"
ESTIMATED: Final = "an estimate: the solver's own recursion, not recomputed from b − Ax"


@dataclass(frozen=True, kw_only=True)
class Iterations:
    """Rows of consecutive iterations.

    Args:
        numbers: the iterations, 0 before the first.
        work: products with A so far; one product counts as one evaluation of all n² entries.
        seconds: since the start; NaN if unknown.
        residual: relative residual ‖b − Ax‖/‖b‖.
        energy: h(x) = ½xᵀAx − bᵀx; NaN if unknown.
        checked: recomputed residual; NaN if it was not recomputed.
        rounding: what float64 may have rounded the residual and h by; NaN if unknown, empty if residuals were not
            recomputed.
        how: how residuals are known, in words.
    """

    numbers: Sequence[int]
    work: Sequence[float]
    seconds: Sequence[float]
    residual: Sequence[float]
    energy: Sequence[float] = ()
    checked: Sequence[float] = ()
    rounding: Sequence[tuple[float, float]] = ()
    how: str = ESTIMATED


def record_of(
    method: Method, *, n: int, tol: float, settings: dict[str, Any], engine: str, dtype: str, b_norm: float,
    diagonal: float = math.nan, noise: float = 0.0, initial_energy: float = 0.0, spectrum: Spectrum | None = None,
) -> Record:  # fmt: skip
    """Start the record of a solve Ax = b.

    Args:
        method: of the library `method.source`.
        engine: what computes products with A.
        dtype: of the solve.
        b_norm: ‖b‖.
        diagonal: mean of A's diagonal; NaN if unknown.
        noise: σ² if A = K + σ²I.
        spectrum: of A; None if unknown.
    """
    assert method.source is not None  # a solve by another library
    attrs = surroundings(torch.device("cpu"), torch.float64) | {
        "dataset": "", "n": n, "d": None, "kernel": "a matrix", "lengthscale": [],
        "outputscale": diagonal - noise if math.isfinite(diagonal) else 1.0, "noise": noise,
        "right_hand_sides": 1, "rhs_norms": [b_norm], "method": method.plain(), "method_name": method.name,
        "method_details": method.details, "solver": method.source, "solver_settings": json.dumps(settings),
        "choices": "{}", "operator": method.source, "engine": engine, "tol": tol, "dtype": dtype, "setup_work": 0.0,
        "setup_seconds": 0.0, "initial_energy": initial_energy,
    }  # fmt: skip
    record = Record(attrs)
    put_spectrum(record, spectrum or unknown_spectrum())
    return record


def unknown_spectrum(largest: float = ANY[0]) -> Spectrum:
    """Return a spectrum of which bounds alone are known."""
    highest, lowest, of_blocks = (Eigenvalue(math.nan, UNKNOWN, True, bound) for bound in (largest, ANY[1], math.nan))
    return Spectrum(highest, lowest, of_blocks, torch.empty(0))


def put(record: Record, rows: Iterations, before: float = math.nan) -> None:
    """Append iterations to a record.

    Args:
        before: h before the first of them, if that is not iteration 0.
    """
    nothing = [math.nan] * len(rows.numbers)
    energy, checked = list(rows.energy) or nothing, list(rows.checked) or nothing
    epoch: dict[str, Any] = {
        "epoch": rows.numbers, "work": rows.work, "seconds": rows.seconds, "residual": rows.residual,
        "residual_per_rhs": [[each] for each in rows.residual], "checked_residual": checked, "drift": nothing,
        "energy": energy, "test_rmse": nothing, "prediction_work": [0.0] * len(nothing),
    }  # fmt: skip
    if rows.rounding:
        epoch["residual_rounding"], epoch["energy_rounding"] = map(list, zip(*rows.rounding, strict=True))
    groups = {"epoch": epoch}
    first = 1 if rows.numbers[0] == 0 else 0
    if len(rows.numbers) > first:
        past = [before, *energy] if not first else energy
        falls = [high - low for high, low in zip(past, past[1:], strict=False)]
        numbers = list(rows.numbers[first:])
        groups["update"] = {
            "update": numbers, "block": [-1] * len(numbers), "epoch_of_update": numbers,
            "work": rows.work[first:], "seconds": rows.seconds[first:], "energy_decrease": falls,
            "guaranteed_decrease": [math.nan] * len(numbers), "residual": [[each] for each in rows.residual[first:]],
        }  # fmt: skip
    record.variable_attrs["epoch", "residual"] = {"how": rows.how}
    record.put(**groups)


def finish(record: Record, reason: StopReason, message: str, rows: Iterations) -> None:
    """Say how the solve ended, with the numbers of its last iteration."""
    residual = float(rows.residual[-1])
    record.attrs |= {
        "status": FINISHED, "stop_reason": str(reason), "stop_message": message,
        "residual": residual if math.isfinite(residual) else str(residual), "epochs": int(rows.numbers[-1]),
        "work": float(rows.work[-1]),
    }  # fmt: skip
    if rows.rounding and math.isfinite(rows.rounding[-1][0]):
        record.attrs["certificate"] = "exact"
    if math.isfinite(seconds := float(rows.seconds[-1])):
        record.attrs["seconds"] = seconds
