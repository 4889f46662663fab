"""What `auto` means: values of settings from n, d, the right-hand sides and the free memory, with the reasons.

A solver resolves its settings once, before it builds anything (`apviz.solvers.interface.Solver.prepare`). Everything
after that has values only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch
from torch import Tensor

from apviz.memory import free_memory
from apviz.operators import CountingOperator, Operator
from apviz.partitions import Partition
from apviz.settings import chosen
from apviz.skeletons import suggest
from apviz.solvers.blocks import LEAST_NEAR, MOST_NEAR, cut, near_size
from apviz.solvers.choosing.costs import SKELETON_ROWS
from apviz.solvers.columns import Exact, Skeletons

if TYPE_CHECKING:
    from apviz.solvers.projection import AlternatingProjection

S = TypeVar("S")

#: settings that may be `auto`, by the names under which their reasons are recorded
CHOSEN: Final = {
    "precision.recursion": "precision.recursion", "columns.rank": "columns.rank", "overlap": "partition.overlap",
    "precision.factors": "precision.factors", "block_size": "block_size", "step.length": "step.length",
    "fallback_rank": "fallback_rank", "coarse_rank": "coarse_rank",
}  # fmt: skip
# With at most this number of inputs a block has little surface and few neighbours.
FEW_INPUTS = 3
# Share of the free memory for the set-up: factors, skeletons, near rows and history.
MEMORY_SHARE = 0.45
# Maximum number of past updates. A step along them reads history·(l+1) numbers a row; an update evaluates one entry
# a row for each solved row.
MAX_HISTORY = 32
# Share of the free memory for past updates.
HISTORY_SHARE = 0.1
SKELETON_RANK = 80
# Ranks to try, as multiples of the rank above.
RANK_STEPS = (0.25, 0.5, 1.0, 2.0)
# Rank of CG's preconditioner if projections are slow. CG then needs many iterations too, fewer at a high rank.
FALLBACK_RANK = 500
# Noise below this share of the outputscale makes blocks need jitter in float32.
FLOAT32_NOISE = 1e-6
# Skeletons with which the residual drifts beyond this share, by an estimate, cost more passes than they save.
MAX_DRIFT = 0.3
# Bytes of a row index, and of a half-precision number.
INDEX, HALF = 8, 2


def resolve(settings: S, operator: Operator, columns: int) -> tuple[S, dict[str, str]]:
    """Choose a value for every `auto` of a solver, a preconditioner and their parts; return them and the reasons."""
    given = {name: _value(settings, path.split(".")) for name, path in CHOSEN.items()}
    if "auto" not in given.values():
        return settings, {}
    n, d = operator.inputs.shape
    found, reasons = dict(given), dict[str, str]()

    def choose(name: str, value: float | int | str, why: str) -> None:
        if given[name] == "auto":
            found[name], reasons[name] = value, f"{value}: {why}"

    flat = d <= FEW_INPUTS
    choose("precision.recursion", *inner_dtype(operator))
    choose("columns.rank", *skeleton_rank(n))
    choose("overlap", 0.5 if flat else 1.0, f"d = {d}, {'few' if flat else 'many'} neighbours around a block")
    skeleton, overlap = int(found["columns.rank"] or 0), found["overlap"] or 0.0
    item = 4 if found["precision.recursion"] == "float32" else operator.inputs.element_size()
    layout = operator.layout  # the ranks share the stored factors
    free = layout.ranks * layout.agreed(free_memory(operator.inputs.device))
    plan = _Plan(n, columns, overlap, skeleton, item, free)
    wished = solved_rows(n, d, has_skeletons=skeleton > 0) / (1 + overlap)
    choose("precision.factors", *plan.factor_dtype(wished, operator))
    kept = HALF if found["precision.factors"] == "float16" else item
    choose("block_size", *plan.block_size(wished, kept, d))
    choose(
        "step.length", plan.history(found["block_size"]),
        f"{columns} right-hand sides; steps along more would cost as much as the entries of K",
    )  # fmt: skip
    choose("fallback_rank", min(FALLBACK_RANK, n // 8), "if projections turn out to be slow")
    choose("coarse_rank", coarse_rank(n), f"1.5 √n for n = {n:,}, set up in the time of a few iterations")
    for name in reasons:
        if name == "columns.rank" and not found[name]:
            settings = replace(settings, columns=Exact())  # type: ignore[type-var]
        else:
            settings = _with(settings, CHOSEN[name].split("."), found[name])
    return settings, reasons


def resolve_by_trials(
    asked: AlternatingProjection, operator: CountingOperator, columns: int, like: Tensor | None
) -> tuple[AlternatingProjection, dict[str, str]]:
    """Resolve settings, and try skeletons on a few blocks, whose entries count; without them if none pay off.

    like: (n, columns) similar right-hand sides, or None.
    """
    settings, reasons = resolve(asked, operator.uncounted, columns)
    if asked.columns.rank != "auto" or not settings.columns.rank:
        return settings, reasons
    partition, stored = cut(settings, operator)
    rank, near, why = _tried(settings, stored, partition, like)
    others = dict[str, str]()
    if rank:
        settings = replace(settings, columns=Skeletons(rank=rank, near=near, may_grow=True))
    else:
        precision = replace(asked.precision, recursion=settings.precision.recursion)
        settings, others = resolve(replace(asked, columns=Exact(), precision=precision), stored.uncounted, columns)
    return settings, {**reasons, **others, "columns.rank": why}


def _tried(
    settings: AlternatingProjection, stored: CountingOperator, partition: Partition, like: Tensor | None
) -> tuple[int, int, str]:
    """Return the skeleton rank and the near rows that a few blocks suggest, and the reason; rank 0 if none pays off."""
    first = int(chosen("rank", settings.columns.rank))
    ranks, nears = [max(1, round(first * step)) for step in RANK_STEPS], near_sizes(partition)
    nears = [settings.columns.near] if settings.columns.near else nears
    if like is not None:
        like = like if partition.is_identity else like[partition.order]
    found = stored.layout.agreed(suggest(stored, partition, ranks, nears, settings.tol, like, settings.seed))
    if found.drift > MAX_DRIFT:
        return 0, 0, f"0: skeletons of rank {found.rank} would let the residual drift by about {found.drift:.0%}"
    why = f"lets the residual drift by about {found.drift:.1%} (an estimate) beyond {found.near:,} near rows"
    return found.rank, found.near, f"{found.rank}: {why}"


def _value(settings: object, path: Iterable[str]) -> Any:
    """Return a setting of an object or of a part of it; None if there is no such setting."""
    return reduce(lambda part, name: getattr(part, name, None), path, settings)


def _with(settings: Any, path: list[str], value: Any) -> Any:
    """Return settings with another value of one setting, or of a setting of a part."""
    name, *inside = path
    if not inside:
        return replace(settings, **{name: value})
    return replace(settings, **{name: _with(getattr(settings, name), inside, value)})


def inner_dtype(operator: Operator) -> tuple[str, str]:
    """Choose the dtype inside the refinement, and return it with the reason."""
    if operator.x.dtype == torch.float32:
        return "system", "float32"
    # Rounding moves the eigenvalues of blocks by about ε √n k(x, x); if that exceeds σ², projections diverge.
    share = max(FLOAT32_NOISE, torch.finfo(torch.float32).eps * math.sqrt(operator.n))
    if operator.noise < share * operator.largest_signal:
        return "system", f"float64, because σ² is below {share:.1g} of the outputscale"
    return "float32", "the residual is evaluated in float64, so this is no less exact"


def skeleton_rank(n: int) -> tuple[int, str]:
    """Choose the initial rank of skeletons, and return it with the reason; 0 if most rows are near."""
    if n < SKELETON_ROWS:
        return 0, f"n = {n:,} is below {SKELETON_ROWS:,}"
    return SKELETON_RANK, "the first to be tried"


def near_sizes(partition: Partition) -> list[int]:
    """Return the numbers of near rows to try, from `near_size` down, each half the previous one."""
    found = [near_size(partition)]
    while found[-1] >= 2 * LEAST_NEAR * max(partition.solved_sizes()):
        found.append(found[-1] // 2)
    return found


@dataclass(frozen=True)
class _Plan:
    """Sizes of the stored parts of a set-up within the free bytes; `item`: those of a number of the recursion."""

    n: int
    columns: int
    overlap: float
    skeleton_rank: int
    item: int
    free: int

    def factor_dtype(self, wished: float, operator: Operator) -> tuple[str, str]:
        """Return the dtype of factors and maps with which blocks of `wished` rows fit, and the reason."""
        if operator.noise < FLOAT32_NOISE * operator.largest_signal:
            return "recursion", f"σ² is below {FLOAT32_NOISE:g} of the outputscale"
        if self._factors(wished, self.item) + self._others(wished, self.item) <= MEMORY_SHARE * self.free:
            return "recursion", "the factors fit the free memory"
        return "float16", f"in the dtype of the recursion they need {self._factors(wished, self.item) / 2**30:.2g} GiB"

    def block_size(self, wished: float, kept: int, d: int) -> tuple[int, str]:
        """Return the rows a block owns, `wished` or the most that fit, and the reason; `kept`: bytes a number."""
        left = max(0.0, MEMORY_SHARE * self.free - self._others(wished, kept))
        fits = left / self._factors(1.0, kept)
        b = max(1, min(self.n, round(min(wished, fits))))
        gib = self._factors(b, kept) / 2**30
        if fits < wished:
            return b, f"the most that fits {MEMORY_SHARE:.0%} of the free memory, factors of {gib:.2g} GiB"
        each = solved_rows(1, d, has_skeletons=self.skeleton_rank > 0)
        return b, f"{each:g} √n solved rows for d = {d}, factors of {gib:.2g} GiB"

    def history(self, b: float) -> int:
        """Return the number of past updates, which cost no more than the entries of a new one and fit the memory."""
        s = self.skeleton_rank
        evaluated, most = (2 * s, MAX_HISTORY // 2) if s else (b * (1 + self.overlap), MAX_HISTORY)
        each = self.item * self.n * self.columns
        return max(
            1,
            min(
                most, math.ceil(self.n / b), int(evaluated / (2 * self.columns)), int(HISTORY_SHARE * self.free / each)
            ),
        )

    def _factors(self, b: float, kept: int) -> float:
        """Return the bytes of the factors; two share a square."""
        return kept * self.n * b * (1 + self.overlap) ** 2 / 2

    def _others(self, b: float, kept: int) -> float:
        """Return the bytes of the history, the maps onto skeletons and the near rows."""
        solved = self.n * (1 + self.overlap)  # solved rows of all blocks together
        near = min(MOST_NEAR * solved, self.n**2 / (5 * b)) * INDEX if self.skeleton_rank else 0.0
        return self.history(b) * self.item * self.n * self.columns + kept * solved * self.skeleton_rank + near


def solved_rows(n: int, d: int, *, has_skeletons: bool = False) -> float:
    """Return the recommended solved rows of a block: 6.7 √n for up to three inputs, 9.5 √n for more.

    With skeletons, which make an epoch cheaper, 5 √n and 7.5 √n.

    Factoring then costs about a third and two thirds of a CG iteration, (2/3)n·solved² flops to n²·90. The optimum is
    flat, within a fifth between 6 and 11 on most systems, but with many inputs the hardest take twice the time at 6.7.
    """
    few, many = (5.0, 7.5) if has_skeletons else (6.7, 9.5)
    return (few if d <= FEW_INPUTS else many) * math.sqrt(n)


def coarse_rank(n: int) -> int:
    """Return the rank of a coarse space: 1.5 √n, at most 500 and at most n/2."""
    return max(1, min(500, n // 2, round(1.5 * math.sqrt(n))))
