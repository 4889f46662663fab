"""What a trace says about inputs and targets: rows, spreads, correlations, oddities, κ of distinct rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import torch

from apviz.datasets.tables.oddities import find_oddities
from apviz.duplicates import count_distinct, equal_rows, merged
from apviz.kernels import pairwise_distances
from apviz.solvers.run import Run
from apviz.spectrum import Method, spectrum
from apviz.system import KernelSystem
from apviz.tracing.store import Record

#: rows that are searched for oddities
ODDITY_ROWS = 100_000
#: rows whose prior correlations with all others are computed, and the most kernel entries this takes
SAMPLED_ROWS, SAMPLED_ENTRIES = 64, 4_000_000
#: share of duplicate rows from which κ is also computed with duplicates merged
MERGED_SHARE = 0.01


def input_attributes(system: KernelSystem) -> dict[str, Any]:
    """Return root attributes: `distinct_rows`, `input_spreads`, `zero_right_hand_sides`, `oddities`.

    A spread is the standard deviation of an input ÷ its shortest lengthscale, or 0 if the kernel ignores the input.
    Right-hand side 0 is the targets. Oddities are those of `apviz.datasets.tables.oddities`, with kind and message, in
    at most 100,000 evenly spaced rows.
    """
    deviations = system.operator.given.double().std(0, correction=0).cpu()
    spreads = torch.zeros(system.d, dtype=torch.float64)
    for scale, columns in system.kernel.shortest_scales(system.d):
        spreads[columns] = torch.maximum(spreads[columns], deviations[columns] / scale.cpu())
    return {
        "distinct_rows": count_distinct(system.operator.given),
        "input_spreads": spreads.tolist(),
        "zero_right_hand_sides": (system.b == 0).all(0).nonzero()[:, 0].tolist(),
        "oddities": _oddities(system),
    } | model_attributes(system)


def model_attributes(system: KernelSystem) -> dict[str, Any]:
    """Return root attributes on how the prior fits the data.

    `target_mean_square` is that of the targets minus the prior mean; `signal` the mean of k(x, x);
    `nearest_correlation` the median over some rows of their prior correlation with the nearest other row,
    `smallest_correlation` the smallest among these rows; `duplicate_disagreement` the variance of the targets of rows
    with equal inputs, where there are such rows.
    """
    n, targets = system.n, system.b[:, 0].double().cpu().numpy()
    found: dict[str, Any] = {"target_mean_square": float(np.mean(targets**2))}
    groups = pd.Series(targets).groupby(equal_rows(system.operator.given).numpy())
    if (again := n - groups.ngroups) > 0:
        found["duplicate_disagreement"] = float(np.sum((targets - groups.transform("mean")) ** 2) / again)
    count = min(n, SAMPLED_ROWS, max(2, SAMPLED_ENTRIES // n))
    rows = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:count].to(system.device)
    with torch.no_grad():
        features, formula = system.kernel.features(system.operator.given.double()), system.operator.formula
        variances = formula.diagonal(features)
        correlations = formula.values(features[rows], features, pairwise_distances).double().abs()
        correlations /= variances[rows, None].sqrt() * variances.sqrt()
    found["signal"] = float(variances.mean())
    found["smallest_correlation"] = float(correlations[:, rows].min())
    correlations[torch.arange(count, device=rows.device), rows] = 0.0
    found["nearest_correlation"] = float(correlations.amax(1).median())
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _oddities(system: KernelSystem) -> list[dict[str, Any]]:
    """Return what is odd about inputs and targets, as plain values."""
    rows = np.arange(system.n) if system.n <= ODDITY_ROWS else np.linspace(0, system.n - 1, ODDITY_ROWS).astype(np.intp)
    chosen = torch.from_numpy(rows).to(system.device)
    x, y = (values[chosen].double().cpu().numpy() for values in (system.operator.given, system.b[:, :1]))
    found = find_oddities(x, y, numbers=rows)
    return [{"kind": each.kind.value, "count": each.count, "message": each.message} for each in found]


def kappa_of_distinct_rows(system: KernelSystem, distinct: int, method: Method | None, rows: int) -> float | None:
    """Return κ with duplicate rows merged into one, whose noise is σ² ÷ duplicates; None for few duplicates.

    Args:
        distinct: number of distinct rows.
        method, rows: as `apviz.spectrum.spectrum` takes them.
    """
    if not 2 <= distinct <= (1 - MERGED_SHARE) * system.n:
        return None
    noises = torch.as_tensor(system.operator.noise_of(), dtype=torch.float64).cpu().expand(system.n)
    found = merged(system.operator.given, system.given_b, 1 / noises)
    of_distinct = KernelSystem(
        found.x, found.y, system.kernel, noise=found.noises(1.0), dtype=system.dtype, device=system.device
    )
    kappa = spectrum(of_distinct, (), method, rows=rows).kappa.value
    return kappa if math.isfinite(kappa) else None


def put_rows(record: Record, run: Run) -> None:
    """Record inputs, target and owning block of each row, and all pairs of a row and a block that solves on it."""
    record.put(
        rows={"coordinates": run.system.operator.given.double().cpu(), "target": run.system.b[:, 0].double().cpu()}
    )
    if run.partition is None:
        return
    owner = torch.empty(run.system.n, dtype=torch.int64)
    pairs = []
    order = run.partition.order.cpu()
    for block in range(len(run.partition)):
        owner[order[run.partition.owned(block)]] = block
        rows = run.partition.solved(block)
        held = order[rows.cpu() if isinstance(rows, torch.Tensor) else rows]
        pairs.append(torch.stack([held, torch.full_like(held, block)], dim=1))
    record.put(rows={"owner": owner, "membership": torch.cat(pairs)})
