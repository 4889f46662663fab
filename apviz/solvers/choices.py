"""Values of `auto` settings, from n, d, the right-hand sides and the free memory, with the reasons."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from apviz.memory import free_memory
from apviz.operators import Operator
from apviz.partitions import Partition, overlap_of

S = TypeVar("S")

# With at most this number of inputs a block has little surface and few neighbours.
FEW_INPUTS = 3
# Share of the free memory for the set-up: factors, skeletons, near rows and history.
MEMORY_SHARE = 0.45
# Maximum number of past updates. A step along them reads history·(l+1) numbers a row; an update evaluates one entry
# a row for each solved row.
MAX_HISTORY = 32
# Share of the free memory for past updates.
HISTORY_SHARE = 0.1
# Skeletons save seconds from this number of rows; from 8,000 rows they save work (`benchmarks/notes.md`).
SKELETON_ROWS = 30_000
SKELETON_RANK = 80
# Ranks to try, as multiples of the rank above.
RANK_STEPS = (0.25, 0.5, 1.0, 2.0)
# Rank of CG's preconditioner if projections are slow. CG then needs many iterations too, fewer at a high rank.
FALLBACK_RANK = 500
# Noise below this share of the outputscale makes blocks need jitter in float32.
FLOAT32_NOISE = 1e-6
# Near rows of a block, as multiples of its solved rows: minimum and maximum.
LEAST_NEAR, MOST_NEAR = 3, 12
# Bytes of a row index, and of a half-precision number.
INDEX, HALF = 8, 2


def resolve(settings: S, operator: Operator, columns: int) -> tuple[S, dict[str, str]]:
    """Choose a value for every `auto` field of a dataclass; return the dataclass and the reasons.

    Args:
        operator: operator of the system.
        columns: number of right-hand sides.
    """
    if not dataclasses.is_dataclass(settings):
        return settings, {}
    n, d = operator.inputs.shape
    given = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    partition = given.get("partition", "")
    given["overlap"] = overlap_of(partition)
    if "auto" not in given.values():
        return settings, {}
    found: dict[str, Any] = {}
    reasons: dict[str, str] = {}

    def choose(name: str, value: float | int | str, why: str) -> None:
        if given.get(name) == "auto":
            found[name], reasons[name] = value, f"{value}: {why}"

    flat = d <= FEW_INPUTS
    choose("inner_dtype", *inner_dtype(operator))
    rank, why = skeleton_rank(n)
    choose("skeleton_rank", rank, why)
    skeleton = int(found.get("skeleton_rank", given.get("skeleton_rank", 0)))
    choose("overlap", 0.5 if flat else 1.0, f"d = {d}, {'few' if flat else 'many'} neighbours around a block")
    overlap = found.get("overlap", given["overlap"])
    item = 4 if found.get("inner_dtype", given.get("inner_dtype")) == "float32" else operator.inputs.element_size()
    layout = operator.layout  # the ranks share the stored factors
    free = layout.ranks * layout.agreed(free_memory(operator.inputs.device))
    plan = _Plan(n, columns, overlap, skeleton, item, free)
    wished = solved_rows(n, d, has_skeletons=skeleton > 0) / (1 + overlap)
    dtype, why = plan.factor_dtype(wished, operator)
    choose("factor_dtype", dtype, why)
    kept = HALF if found.get("factor_dtype", given.get("factor_dtype")) == "float16" else item
    choose("block_size", *plan.block_size(wished, kept, d))
    b = found.get("block_size", given["block_size"])
    choose(
        "history", plan.history(b), f"{columns} right-hand sides; stepping along more would cost as much as the entries"
    )
    choose("fallback_rank", min(FALLBACK_RANK, n // 8), "of CG, should the epochs turn out to be slow")
    choose("coarse_rank", coarse_rank(n), f"1.5 √n for n = {n:,}: set-up of a few iterations")
    if "overlap" in found:
        found["partition"] = dataclasses.replace(partition, overlap=found.pop("overlap"))
    return dataclasses.replace(settings, **found), reasons  # type: ignore[type-var]


def inner_dtype(operator: Operator) -> tuple[str, str]:
    """Choose the dtype inside the refinement, and return it with the reason."""
    if operator.x.dtype == torch.float32:
        return "system", "float32, as the system"
    # Rounding moves the eigenvalues of blocks by about ε √n k(x, x); if that exceeds σ², projections diverge.
    share = max(FLOAT32_NOISE, torch.finfo(torch.float32).eps * math.sqrt(operator.n))
    if operator.noise < share * operator.largest_signal:
        return "system", f"float64, as the system: σ² is below {share:.1g} of the outputscale"
    return "float32", "the residual is evaluated in float64, so this is no less exact"


def skeleton_rank(n: int) -> tuple[int, str]:
    """Choose the initial rank of skeletons, and return it with the reason; 0 if most rows are near."""
    if n < SKELETON_ROWS:
        return 0, f"n = {n:,} is below {SKELETON_ROWS:,}"
    return SKELETON_RANK, "to begin with"


def near_size(partition: Partition) -> int:
    """Return the number of near rows of a block: n/5, bounded to 3 to 12 times its solved rows."""
    n, solved = len(partition.order), max(partition.solved_sizes())
    return int(min(n, solved * min(max(n / (5 * solved), LEAST_NEAR), MOST_NEAR)))


def near_sizes(partition: Partition) -> list[int]:
    """Return the numbers of near rows to try, from `near_size` down, each half the previous one."""
    found = [near_size(partition)]
    while found[-1] >= 2 * LEAST_NEAR * max(partition.solved_sizes()):
        found.append(found[-1] // 2)
    return found


@dataclass(frozen=True)
class _Plan:
    """Sizes of the stored parts of a set-up, within the free memory of this process.

    Args:
        item: bytes of a number of the recursion.
        free: free memory in bytes.
    """

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
        return "float16", f"those of the recursion would take {self._factors(wished, self.item) / 2**30:.2g} GiB"

    def block_size(self, wished: float, kept: int, d: int) -> tuple[int, str]:
        """Return the rows a block owns, `wished` or the most that fit, and the reason; `kept`: bytes a number."""
        left = max(0.0, MEMORY_SHARE * self.free - self._others(wished, kept))
        fits = left / self._factors(1.0, kept)
        b = max(1, min(self.n, round(min(wished, fits))))
        gib = self._factors(b, kept) / 2**30
        if fits < wished:
            return b, f"what is kept may take {MEMORY_SHARE:.0%} of the free memory, factors of {gib:.2g} GiB"
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
