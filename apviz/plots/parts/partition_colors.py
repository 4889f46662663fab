"""One colour per partition, for figures in which the rule is the same and the partition differs."""

from __future__ import annotations

from typing import Final

from apviz.plots.parts.style import COLORS, ThemeName, theme_named

#: on white, on black; those of the methods that have them, all of gauss-southwell
PARTITION_COLORS: Final[dict[str, tuple[str, str]]] = {
    "sequential": COLORS["gauss-southwell"],
    "kd-tree": COLORS["AP kd-tree"],
    "shuffled": COLORS["Cholesky"],
    "principal-axis-tree": COLORS["AP pa-tree"],
}


def partition_color(name: str, theme: ThemeName = "light") -> str:
    """The colour of a partition by its name in `apviz.partitions`.

    Raises:
        ValueError: an unknown partition or theme.
    """
    if name not in PARTITION_COLORS:
        raise ValueError(f"partition must be one of {', '.join(PARTITION_COLORS)}, got {name!r}")
    return PARTITION_COLORS[name][theme_named(theme).name == "dark"]
