"""Columns: how K[:, I] U updates the residual, exactly or by skeletons far from a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apviz.registry import Registry
from apviz.settings import Auto, require, require_whole, require_whole_or_auto


class ColumnsSetting:
    """Setting of alternating projection: the number of columns that approximate a block's far from it; 0 for all."""

    rank: int | Auto = 0
    near: int = 0
    may_grow: bool = False


COLUMNS: Final = Registry[ColumnsSetting]("columns", "apviz.solvers")


@COLUMNS.register("exact")
@dataclass(frozen=True, kw_only=True)
class Exact(ColumnsSetting):
    """Exact columns of a block, as in the paper: n|I| entries an update."""


@COLUMNS.register("skeletons")
@dataclass(frozen=True, kw_only=True)
class Skeletons(ColumnsSetting):
    """Few columns that represent those of a block in all rows but the nearest (`apviz.skeletons`).

    Args:
        rank: columns that represent those of a block; `auto`: chosen on a few blocks, none if most rows are near.
        near: rows around a block whose entries are always evaluated; 0: chosen with the rank, else n/5 bounded to 3 to
            12 times the solved rows.
        may_grow: whether a solve doubles both for itself if a pass finds that the residual has drifted too far; a rank
            that `auto` chose may grow.

    Raises:
        ValueError: a setting out of range.

    Examples:
        >>> import apviz
        >>> apviz.AlternatingProjection(columns=apviz.solvers.Skeletons(rank=40)).method.skeleton_rank
        40
    """

    rank: int | Auto = "auto"
    near: int = 0
    may_grow: bool = False

    def __post_init__(self) -> None:
        require_whole_or_auto("rank", self.rank, 1)
        require_whole("near", self.near, 0)
        require(isinstance(self.may_grow, bool), "may_grow", self.may_grow, "True or False")
