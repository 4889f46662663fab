"""Quantities that the rules of a diagnosis read from a trace: how a run went, its cost, and the known facts about K."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from apviz.analysis.diagnosis.data import NO_GAIN, Evidence, Odd
from apviz.analysis.errors import conjugate_gradient_iterations
from apviz.tracing import Trace

# W = 0 has residual 1; above this residual, much of the system is not solved
SOLVED_RESIDUAL = 0.1
# operations per entry of K in addition to two for every right-hand side: a distance and its kernel value
OPERATIONS_PER_ENTRY = 16


def tolerance(trace: Trace) -> float:
    """Return the tolerance of the run."""
    return float(trace.attrs["tol"])


def work(trace: Trace) -> float:
    """Return the work of the run, set-up included."""
    return float(trace["epoch"]["work"][-1])


def epochs(trace: Trace) -> int:
    """Return the number of epochs, or iterations."""
    return int(trace["epoch"]["epoch"][-1])


def residual(trace: Trace) -> float:
    """Return the residual at the end."""
    return float(trace["epoch"]["residual"][-1])


def is_solved(trace: Trace) -> bool:
    """Test whether the residual is far below 1, the residual of W = 0."""
    return residual(trace) <= SOLVED_RESIDUAL


def kappa(trace: Trace) -> float:
    """Return the condition number of K; NaN if it was not computed."""
    return float(trace["spectrum"]["kappa"])


def noise_ratio(trace: Trace) -> float:
    """Return σ² ÷ outputscale."""
    return float(trace.attrs["noise"] / trace.attrs["outputscale"])


def last_rmse(trace: Trace) -> float | None:
    """Return the test error at the end; None if none was recorded."""
    rmse = trace["epoch"]["test_rmse"].values
    known = rmse[np.isfinite(rmse)]
    return float(known[-1]) if len(known) else None


def rmse_of_mean(trace: Trace) -> float | None:
    """Return the test error of W = 0, which predicts the mean; None if the run started elsewhere or recorded none."""
    rmse = trace["epoch"]["test_rmse"].values
    # the energy of W = 0 is 0
    if trace.attrs.get("initial_energy") != 0 or int(trace["epoch"]["epoch"][0]):
        return None
    return float(rmse[0]) if np.isfinite(rmse[0]) and np.isfinite(rmse).sum() > 1 else None


def lowest_rmse(trace: Trace) -> float:
    """Return the lowest test error of a trace that has one."""
    return float(np.nanmin(trace["epoch"]["test_rmse"].values))


def passes(trace: Trace) -> int:
    """Count the evaluations of B − KW."""
    return int(trace["pass"].sizes["pass"]) if "pass" in trace else 0


def largest_drift(trace: Trace) -> float:
    """Return the largest drift of the recursion from B − KW; NaN if it was never measured."""
    drift = trace["epoch"]["drift"]
    return float(drift.max()) if drift.notnull().any() else math.nan


def jitter(trace: Trace) -> float:
    """Return the most jitter that a block needed on its diagonal; 0 for a method without blocks."""
    return float(trace["block"]["jitter"].max()) if "block" in trace else 0.0


def settings(trace: Trace) -> dict[str, Any]:
    """Return the settings of the solver; empty for a trace from elsewhere whose settings apviz cannot read."""
    try:
        return dict(json.loads(trace.attrs["solver_settings"]))
    except (ValueError, TypeError):
        return {}


def forced_epochs(trace: Trace) -> int:
    """Return the number of epochs or iterations that the settings force; 0 for none."""
    forced = settings(trace).get("min_epochs")
    return forced if isinstance(forced, int) else 0


def is_overlapped(trace: Trace) -> bool:
    """Test whether the method is alternating projection on overlapping blocks."""
    return bool(trace.method.has_blocks and trace.method.overlap)


def kept_per_epoch(trace: Trace) -> float:
    """Return the share of the residual kept per epoch of the second half, a geometric mean; NaN for under 4 epochs."""
    values = trace["epoch"]["residual"].values
    half = len(values) // 2
    if half < 2:
        return math.nan
    return float((values[-1] / values[half]) ** (1 / (len(values) - 1 - half)))


def forecast(trace: Trace) -> float:
    """Return the epoch at which the run would have converged at its rate; infinite if its residual did not fall.

    The rate is that of the late epochs, or of all if there are few.
    """
    kept, end, done = kept_per_epoch(trace), residual(trace), epochs(trace)
    if math.isnan(kept) and done:
        kept = end ** (1 / done)  # W = 0 has residual 1
    if not 0 < kept < 1:
        return math.inf
    return done + max(1.0, math.ceil(math.log(tolerance(trace) / end) / math.log(kept)))


def of_data(trace: Trace) -> Evidence:
    """Return the recorded quantities of data and hyperparameters."""
    attrs, spectrum = trace.attrs, trace["spectrum"].attrs if "spectrum" in trace else {}

    def number(name: str, found: Mapping[str, Any] = attrs) -> float | None:
        value = found.get(name)
        return float(value) if isinstance(value, int | float) else None

    spreads = [float(each) for each in attrs.get("input_spreads", []) if isinstance(each, int | float)]
    scales = [float(each) for each in attrs.get("lengthscale", [])]
    scales = scales * len(spreads) if len(scales) == 1 else scales
    distinct, known, mean = attrs.get("distinct_rows"), kappa(trace), rmse_of_mean(trace)
    gain = only_mean = None
    if mean and is_solved(trace):
        rmse = trace["epoch"]["test_rmse"].values
        gain, only_mean = float(np.nanmin(rmse)) / mean, bool(np.nanmax(np.abs(rmse - mean)) <= NO_GAIN * mean)
    return Evidence(
        rows=int(attrs["n"]), oddities=oddities(trace), distinct=distinct if isinstance(distinct, int) else None,
        kappa=known if math.isfinite(known) else None, merged_kappa=number("kappa_of_distinct_rows", spectrum),
        disagreement=number("duplicate_disagreement"), noise=float(attrs["noise"]), signal=number("signal") or math.nan,
        target_square=number("target_mean_square"), nearest=number("nearest_correlation"),
        smallest=number("smallest_correlation"), spreads=[each for each in spreads if each > 0],
        deviations=[s * scale for s, scale in zip(spreads, scales, strict=False) if s > 0],
        standardised=bool(trace.preparation), gain=gain, only_mean=only_mean,
    )  # fmt: skip


def oddities(trace: Trace) -> list[Odd] | None:
    """Return the recorded outliers, equal columns, …; None where they were not looked for or cannot be read."""
    try:
        return [Odd(str(each["kind"]), str(each["message"])) for each in trace.attrs["oddities"]]
    except (KeyError, TypeError, ValueError):
        return None


def eigenvalues_above(trace: Trace, level: float) -> int | None:
    """Return the least recorded number of eigenvalues of K after which all are at most `level`; None if unknown."""
    return next((rank for rank, value in leading(trace) if value <= level), None)


def leading(trace: Trace) -> list[tuple[int, float]]:
    """Return pairs of a number r and λ_{r+1} of K; empty if they were not estimated."""
    attrs = trace["spectrum"].attrs
    ranks, values = attrs.get("leading_ranks", []), attrs.get("leading_eigenvalues", [])
    try:
        return [(int(rank), float(value)) for rank, value in zip(ranks, values, strict=False)]
    except TypeError as error:
        raise ValueError(f"its leading eigenvalues are not numbers: {ranks!r:.80}, {values!r:.80}") from error


def iterations_of_cg(trace: Trace) -> tuple[int, int]:
    """Return a bound on the iterations of plain CG in exact arithmetic, and how many of them large eigenvalues take.

    A polynomial that is zero at the r largest eigenvalues leaves the others to CG: after r iterations it converges as
    on κ = λ_{r+1}/λmin (Axelsson, *Iterative Solution Methods*, 1994, section 13.2). r is the best of those recorded.
    If the eigenvalues are estimates, so is the bound.
    """
    largest, tol = kappa(trace), tolerance(trace)
    smallest = float(trace["spectrum"]["lambda_min"])
    whole = conjugate_gradient_iterations(np.array(largest), tol)
    found = [(math.ceil(whole), 0)]
    for rank, value in leading(trace):
        if value >= smallest:
            # the κ of all of K relates the residual to the error in the K-norm
            rest = 0.5 * math.sqrt(value / smallest) * math.log(2 * math.sqrt(largest) / tol)
            found.append((rank + math.ceil(rest), rank))
    return min(found)


def busy_blocks(trace: Trace) -> tuple[int, int] | None:
    """Return how many blocks caused 99% of the decrease of h in the second half of the epochs, and how many there are.

    Return None if it is unknown.
    """
    if "update" not in trace or "block" not in trace:
        return None
    update, count = trace["update"], int(trace["block"].sizes["block"])
    number, block = update["epoch_of_update"].values, update["block"].values
    late = (number > number.max(initial=0) // 2) & (block >= 0)
    falls = np.bincount(block[late], np.clip(update["energy_decrease"].values[late], 0, None), minlength=count)
    if not falls.sum() > 0:
        return None
    shares = np.cumsum(np.sort(falls)[::-1]) / falls.sum()
    return int(np.searchsorted(shares, 0.99)) + 1, count


def operations_of_factors(trace: Trace) -> float:
    """Return the operations of the Cholesky factors of all blocks: a third of each size cubed; 0 without blocks."""
    sizes = trace["block"]["solved_size"].values.astype(float) if "block" in trace else np.zeros(0)
    return float((sizes**3).sum() / 3)


def operations_of_entries(trace: Trace) -> float:
    """Return the operations to evaluate and multiply every kernel entry of the run's work."""
    each = 2 * int(trace.attrs["right_hand_sides"]) + OPERATIONS_PER_ENTRY
    return work(trace) * float(trace.attrs["n"]) ** 2 * each
