"""Columns: how the residual is updated by K[:, I] U, exactly or by skeletons far from a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apviz.registry import Registry
from apviz.settings import Auto, require_whole, require_whole_or_auto


class ColumnsSetting:
    """A setting of alternating projection: how many columns stand for those of a block where it is far; 0: all."""

    rank: int | Auto = 0
    near: int = 0


COLUMNS: Final = Registry[ColumnsSetting]("columns", "apviz.solvers")


@COLUMNS.register("exact")
@dataclass(frozen=True, kw_only=True)
class Exact(ColumnsSetting):
    """Evaluates every column of a block as it is, as the paper does: n|I| entries an update."""


@COLUMNS.register("skeletons")
@dataclass(frozen=True, kw_only=True)
class Skeletons(ColumnsSetting):
    """Has few columns stand for those of a block in all rows but the nearest (`apviz.skeletons`).

    Args:
        rank: columns that stand for those of a block; `auto`: chosen by a few blocks, none where most rows are near.
        near: rows around a block whose entries are evaluated all the same; 0: chosen with the rank, else a fifth of
            all, but 3 to 12 times those it solves on.

    Raises:
        ValueError: a setting out of range.

    Examples:
        >>> import apviz
        >>> apviz.AlternatingProjection(columns=apviz.solvers.Skeletons(rank=40)).method.skeleton_rank
        40
    """

    rank: int | Auto = "auto"
    near: int = 0

    def __post_init__(self) -> None:
        require_whole_or_auto("rank", self.rank, 1)
        require_whole("near", self.near, 0)
