"""What the rules of a diagnosis read off a trace: how a run went, what it cost, and what is known of K."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from apviz.analysis.diagnosis.data import NO_GAIN, Evidence, Odd
from apviz.analysis.errors import conjugate_gradient_iterations
from apviz.tracing import Trace

# W = 0 has residual 1: with a residual above this, much of the system is not solved
SOLVED_RESIDUAL = 0.1
# operations of an entry of K in addition to two for every right-hand side: a distance and its kernel
OPERATIONS_PER_ENTRY = 16


def tolerance(trace: Trace) -> float:
    """The tolerance it was to reach."""
    return float(trace.attrs["tol"])


def work(trace: Trace) -> float:
    """In all, set-up included."""
    return float(trace["epoch"]["work"][-1])


def epochs(trace: Trace) -> int:
    """Epochs, or iterations."""
    return int(trace["epoch"]["epoch"][-1])


def residual(trace: Trace) -> float:
    """At the end."""
    return float(trace["epoch"]["residual"][-1])


def is_solved(trace: Trace) -> bool:
    """Whether its residual is far below 1, that of W = 0."""
    return residual(trace) <= SOLVED_RESIDUAL


def kappa(trace: Trace) -> float:
    """The condition number of K; NaN where it was not computed."""
    return float(trace["spectrum"]["kappa"])


def noise_ratio(trace: Trace) -> float:
    """σ² ÷ outputscale."""
    return float(trace.attrs["noise"] / trace.attrs["outputscale"])


def last_rmse(trace: Trace) -> float | None:
    """The test error it ended with; None where none was recorded."""
    rmse = trace["epoch"]["test_rmse"].values
    known = rmse[np.isfinite(rmse)]
    return float(known[-1]) if len(known) else None


def rmse_of_mean(trace: Trace) -> float | None:
    """The test error of W = 0, which predicts the mean; None where it did not start there, or recorded none."""
    rmse = trace["epoch"]["test_rmse"].values
    # the energy of W = 0 is 0
    if trace.attrs.get("initial_energy") != 0 or int(trace["epoch"]["epoch"][0]):
        return None
    return float(rmse[0]) if np.isfinite(rmse[0]) and np.isfinite(rmse).sum() > 1 else None


def lowest_rmse(trace: Trace) -> float:
    """The lowest test error on the way; of a trace that has one."""
    return float(np.nanmin(trace["epoch"]["test_rmse"].values))


def passes(trace: Trace) -> int:
    """Count the evaluations of B − KW."""
    return int(trace["pass"].sizes["pass"]) if "pass" in trace else 0


def largest_drift(trace: Trace) -> float:
    """Of the recursion from B − KW; NaN where it was never looked at."""
    drift = trace["epoch"]["drift"]
    return float(drift.max()) if drift.notnull().any() else math.nan


def jitter(trace: Trace) -> float:
    """The most that a block needed on its diagonal; 0 of a method without blocks."""
    return float(trace["block"]["jitter"].max()) if "block" in trace else 0.0


def settings(trace: Trace) -> dict[str, Any]:
    """Those of the solver; none of a trace from elsewhere that has them in no form of apviz's."""
    try:
        return dict(json.loads(trace.attrs["solver_settings"]))
    except (ValueError, TypeError):
        return {}


def forced_epochs(trace: Trace) -> int:
    """Epochs or iterations before which its settings do not let it end; 0 for none."""
    forced = settings(trace).get("min_epochs")
    return forced if isinstance(forced, int) else 0


def is_overlapped(trace: Trace) -> bool:
    """Whether it is alternating projection on blocks that overlap."""
    return bool(trace.method.has_blocks and trace.method.overlap)


def kept_per_epoch(trace: Trace) -> float:
    """The share of the residual that an epoch of the second half keeps: a geometric mean; NaN for under 4 epochs."""
    values = trace["epoch"]["residual"].values
    half = len(values) // 2
    if half < 2:
        return math.nan
    return float((values[-1] / values[half]) ** (1 / (len(values) - 1 - half)))


def forecast(trace: Trace) -> float:
    """Epochs after which it would have met its tolerance, had it continued at its rate; infinite if it gained nothing.

    The rate is that of the late epochs, and of all where they are few.
    """
    kept, end, done = kept_per_epoch(trace), residual(trace), epochs(trace)
    if math.isnan(kept) and done:
        kept = end ** (1 / done)  # W = 0 has residual 1
    if not 0 < kept < 1:
        return math.inf
    return done + max(1.0, math.ceil(math.log(tolerance(trace) / end) / math.log(kept)))


def of_data(trace: Trace) -> Evidence:
    """What the trace says of data and hyperparameters."""
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
        rows=int(attrs["n"]),
        oddities=oddities(trace),
        distinct=distinct if isinstance(distinct, int) else None,
        kappa=known if math.isfinite(known) else None,
        merged_kappa=number("kappa_of_distinct_rows", spectrum),
        disagreement=number("duplicate_disagreement"),
        noise=float(attrs["noise"]),
        signal=number("signal") or math.nan,
        target_square=number("target_mean_square"),
        nearest=number("nearest_correlation"),
        smallest=number("smallest_correlation"),
        spreads=[each for each in spreads if each > 0],
        deviations=[s * scale for s, scale in zip(spreads, scales, strict=False) if s > 0],
        standardised=bool(trace.preparation),
        gain=gain,
        only_mean=only_mean,
    )


def oddities(trace: Trace) -> list[Odd] | None:
    """Return the recorded outliers, equal columns, …; None where they were not looked for or cannot be read."""
    try:
        return [Odd(str(each["kind"]), str(each["message"])) for each in trace.attrs["oddities"]]
    except (KeyError, TypeError, ValueError):
        return None


def eigenvalues_above(trace: Trace, level: float) -> int | None:
    """A number of eigenvalues of K after which all are at most `level`, next to the least; None where unknown."""
    return next((rank for rank, value in leading(trace) if value <= level), None)


def leading(trace: Trace) -> list[tuple[int, float]]:
    """Pairs of a number r and λ_{r+1} of K; none where they were not estimated."""
    attrs = trace["spectrum"].attrs
    ranks, values = attrs.get("leading_ranks", []), attrs.get("leading_eigenvalues", [])
    try:
        return [(int(rank), float(value)) for rank, value in zip(ranks, values, strict=False)]
    except TypeError as error:
        raise ValueError(f"its leading eigenvalues are not numbers: {ranks!r:.80}, {values!r:.80}") from error


def iterations_of_cg(trace: Trace) -> tuple[int, int]:
    """Bounds the iterations of plain CG in exact arithmetic; and how many of them it spends on large eigenvalues.

    A polynomial that is zero at the r largest eigenvalues leaves CG with the rest: after r iterations it converges as
    on κ = λ_{r+1}/λmin (Axelsson, *Iterative Solution Methods*, 1994, section 13.2). r is the best of those recorded;
    of estimated eigenvalues so is the bound.
    """
    largest, tol = kappa(trace), tolerance(trace)
    smallest = float(trace["spectrum"]["lambda_min"])
    whole = conjugate_gradient_iterations(np.array(largest), tol)
    found = [(math.ceil(whole), 0)]
    for rank, value in leading(trace):
        if value >= smallest:
            # the residual is compared with the error in the K-norm by the κ of all of K
            rest = 0.5 * math.sqrt(value / smallest) * math.log(2 * math.sqrt(largest) / tol)
            found.append((rank + math.ceil(rest), rank))
    return min(found)


def busy_blocks(trace: Trace) -> tuple[int, int] | None:
    """Blocks that brought 99% of what h fell by in the second half of the epochs, and all; None where unknown."""
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
    """Of the Cholesky factors of all blocks: a third of the cube of what each solves on; 0 without blocks."""
    sizes = trace["block"]["solved_size"].values.astype(float) if "block" in trace else np.zeros(0)
    return float((sizes**3).sum() / 3)


def operations_of_entries(trace: Trace) -> float:
    """Of evaluating and multiplying every kernel entry of its work."""
    each = 2 * int(trace.attrs["right_hand_sides"]) + OPERATIONS_PER_ENTRY
    return work(trace) * float(trace.attrs["n"]) ** 2 * each
