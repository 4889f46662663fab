"""Rows with equal inputs, merged into one without a change of the posterior; and rows with nearly equal ones.

Row i has noise σ²/wᵢ, with weight wᵢ = 1 unless told otherwise. Given f, the targets of a group g of equal inputs
enter the likelihood only through their mean ȳ = Σwᵢyᵢ/W, W = Σwᵢ, whose noise is σ²/W:

    Π N(yᵢ; f, σ²/wᵢ) = N(ȳ; f, σ²/W) · c(σ²)
    log c(σ²) = −½ (count − 1) log 2πσ² + ½ (Σ log wᵢ − log W) − ½ Σ wᵢ(yᵢ − ȳ)² / σ²

So one row (x, ȳ) with noise σ²/W gives the same posterior, and Σ log c(σ²) completes the log marginal likelihood.
This holds for any split of equal rows into groups.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from apviz.settings import require

Array = NDArray[np.float64]

#: largest difference of near-duplicate rows in any input, in lengthscales
NEAR = 1e-6
#: rows are sorted along a direction, and compared with neighbours up to this many places away
NEIGHBOURS = 8


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Observations with equal inputs merged into one row; all tensors are on the CPU.

    Args:
        x: (m, d) distinct inputs, in the order in which they first occur.
        y: (m,) or (m, p) weighted means of their targets, float64.
        weights: (m,) float64, W: the noise of a row is σ²/W.
        counts: (m,) float64, the number of merged rows.
        spread: of y's shape, Σ wᵢ(yᵢ − ȳ)².
        log_weights: (m,) Σ log wᵢ − log W.
    """

    x: Tensor
    y: Tensor
    weights: Tensor
    counts: Tensor
    spread: Tensor
    log_weights: Tensor

    @property
    def n(self) -> int:
        """Number of rows before they were merged."""
        return int(self.counts.sum())

    @property
    def are_merged(self) -> bool:
        """Whether any rows were merged."""
        return len(self.x) < self.n

    @property
    def sentence(self) -> str:
        """What was merged, in words; empty if nothing was."""
        if not self.are_merged:
            return ""
        rows = len(self.x)
        are_all_equal = rows == 2 and torch.equal(self.x[0], self.x[1])
        places = "1 distinct input" if are_all_equal else f"{rows:,} distinct inputs"
        return f"{self.n:,} rows at {places}: solved as {rows:,} rows"

    def noises(self, noise: float) -> float | Tensor:
        """Return the noise of the rows: σ² if all weights are 1, else (m,)."""
        return noise if bool((self.weights == 1).all()) else noise / self.weights

    def log_density(self, noise: float) -> float:
        """Return Σ log c(σ²), which the log marginal likelihood of the merged rows lacks, in nats."""
        outputs = self.spread[0].numel()
        weights = 0.5 * float(self.log_weights.sum()) * outputs
        normal = 0.5 * (self.n - len(self.x)) * outputs * math.log(2 * math.pi * noise)
        return weights - normal - 0.5 * float(self.spread.sum()) / noise

    def noise_derivative(self, found: Tensor, noise: float) -> float:
        """Return the derivative of −log p(y) in σ², from those of the merged rows, (m,), or 0-d for one σ²."""
        outputs = self.spread[0].numel()
        merged = float((found.cpu() / (self.weights if found.ndim else 1.0)).sum())
        within = 0.5 * (self.n - len(self.x)) * outputs / noise - 0.5 * float(self.spread.sum()) / noise**2
        return merged + within

    def of(self, rows: Tensor) -> DistinctRows:
        """Return a subset of the merged rows."""
        return DistinctRows(*(each[rows.cpu()] for each in self.tensors))

    def fingerprint(self) -> str:
        """Return a hash of everything, 16 hex digits."""
        return hashlib.sha256(b"".join(each.numpy().tobytes() for each in self.tensors)).hexdigest()[:16]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All fields, in their order."""
        return self.x, self.y, self.weights, self.counts, self.spread, self.log_weights


def merged(x: Tensor, y: Tensor, weights: Tensor | None = None, groups: Tensor | None = None) -> DistinctRows:
    """Merge rows whose inputs are equal.

    Args:
        x: (n, d) inputs, finite.
        y: (n,) or (n, p) targets.
        weights: (n,) positive weights: the noise of row i is σ²/weights[i]. None: 1. For known noises, give 1/noises
            and use σ² = 1.
        groups: (n,) group of each row; None: those of `groups_of`. `torch.arange(n)` merges nothing.

    Raises:
        ValueError: a weight is not positive and finite.

    Examples:
        >>> import torch
        >>> from apviz.duplicates import merged
        >>> rows = merged(torch.tensor([[0.0], [1.0], [0.0]]), torch.tensor([1.0, 5.0, 2.0]))
        >>> rows.y, rows.noises(0.1)
        (tensor([1.5000, 5.0000], dtype=torch.float64), tensor([0.0500, 0.1000], dtype=torch.float64))
        >>> rows.sentence
        '3 rows at 2 distinct inputs: solved as 2 rows'
    """
    groups = groups_of(x) if groups is None else groups
    x, y, n, m = x.detach().cpu(), y.detach().cpu().double(), len(x), int(groups.max()) + 1
    w = torch.ones(n, dtype=torch.float64) if weights is None else weights.detach().cpu().double()
    bad = ~(torch.isfinite(w) & (w > 0))
    if bad.any():
        require(False, "weights", float(w[bad][0]), "positive, finite numbers")
    if m == n:
        return DistinctRows(x, y, w, torch.ones_like(w), torch.zeros_like(y), torch.zeros_like(w))

    def sums(values: Tensor) -> Tensor:
        return values.new_zeros(m, *values.shape[1:]).index_add_(0, groups, values)

    first, shape = first_of(groups), (-1, *[1] * (y.ndim - 1))
    counts, each = sums(torch.ones_like(w)), w.reshape(shape)
    alone = counts == 1
    total = torch.where(alone, w[first], sums(w))
    # around the first target, so that large targets keep their digits
    mean = y[first] + sums(each * (y - y[first][groups])) / total.reshape(shape)
    spread = sums(each * (y - mean[groups]).square())
    log_weights = torch.where(alone, 0.0, sums(w.log()) - total.log())
    return DistinctRows(x[first], mean, total, counts, spread, log_weights)


def as_two(row: DistinctRows) -> DistinctRows:
    """Split a single row into two with half its weight each: a system needs two rows. The posterior stays the same.

    Each counts as half a row, so that the log marginal likelihood stays the same too.
    """
    x, y, weights, counts, spread, log_weights = (torch.cat([each, each]) for each in row.tensors)
    halved = weights / 2
    return DistinctRows(x, y, halved, counts / 2, spread / 2, (log_weights + weights.log()) / 2 - halved.log())


def groups_of(x: Tensor) -> Tensor:
    """Return the group of each row to merge, (n,) int64: of equal rows, as numbered by `equal_rows`.

    If all rows are equal, the first is a group of its own: a system needs two rows.
    """
    groups = equal_rows(x)
    if len(groups) > 1 and not groups.any():
        groups[1:] = 1
    return groups


def equal_rows(x: Tensor) -> Tensor:
    """Return the same number for equal rows, (n,) int64, from 0 on as they occur; −0.0 equals 0.0."""
    rows = x.detach().cpu().numpy() + 0.0
    keys = pd.util.hash_pandas_object(pd.DataFrame(rows), index=False).to_numpy()
    groups = torch.from_numpy(pd.factorize(keys)[0].astype(np.int64))
    if not (rows[first_of(groups).numpy()][groups.numpy()] == rows).all():  # two different rows share a hash
        inverse = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        groups = torch.from_numpy(pd.factorize(inverse)[0].astype(np.int64))
    return groups


def count_distinct(x: Tensor) -> int:
    """Count the different rows of (n, d)."""
    return int(equal_rows(x).max()) + 1


def first_of(groups: Tensor) -> Tensor:
    """Return the first row of each group."""
    highest = torch.cummax(groups, 0).values
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.nonzero(highest.diff())[:, 0] + 1])


# --- nearly equal rows -----------------------------------------------------------------------------------------------


def near_duplicates(x: Array, scales: Array) -> NDArray[np.intp]:
    """Return pairs of rows that differ by at most 1e-6 lengthscales in every input, (p, 2).

    Args:
        x: (n, d) different rows.
        scales: (d,) positive lengthscales.

    Examples:
        >>> import numpy as np
        >>> from apviz.duplicates import near_duplicates
        >>> near_duplicates(np.array([[0.0], [1.0], [1e-9]]), np.array([0.5]))
        array([[0, 2]])
    """
    direction: Array = np.random.default_rng(0).uniform(0.5, 1.0, (x.shape[1],))
    return near_pairs((x - np.median(x, axis=0)) / scales, NEAR, direction)


def near_pairs(scaled: Array, width: float, direction: Array) -> NDArray[np.intp]:
    """Return pairs of rows that differ by at most `width` in every column, the smaller position first.

    Such rows are neighbours along any direction, so that sorting finds them. Each row is compared with 8 neighbours on
    either side: where more are that close, the row still has pairs, but not all of them.

    Args:
        scaled: (n, d).
        direction: (d,), positive.
    """
    along = scaled @ direction
    order = np.argsort(along, kind="stable")
    along, scaled, found = along[order], scaled[order], [np.empty((0, 2), dtype=np.intp)]
    for lag in range(1, min(NEIGHBOURS, len(scaled) - 1) + 1):
        start = np.flatnonzero(along[lag:] - along[:-lag] <= width * direction.sum())
        start = start[np.abs(scaled[start] - scaled[start + lag]).max(axis=1, initial=0.0) <= width]
        found.append(np.column_stack([order[start], order[start + lag]]))
    return np.asarray(np.sort(np.concatenate(found), axis=1))
