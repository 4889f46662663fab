"""Parts of an experiment: cells computed one after another, tables of their rows, and figures of their traces.

Tables show numbers in the paper's format.
"""

from __future__ import annotations

import math
import re
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch

from apviz.report.rendering import Draw
from apviz.settings import require, require_whole
from apviz.solvers import Hook

#: Result of a cell: numbers and text that JSON can store.
Row = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """Settings for a run of an experiment.

    Args:
        n: Number of training rows of each data set; None for all, as in the paper.
        device: `auto`, `cpu` or `cuda`.
        seeds: Number of repetitions, each with its own split, probes and start.
        out: Folder in which the experiment creates its own folder.
        dataset: Data set that replaces the paper's.
        hooks: Hooks of every solve, and of every step of a training.

    Raises:
        ValueError: A setting out of range, with the accepted values.
    """

    n: int | None = None
    device: str = "auto"
    seeds: int = 1
    out: Path = Path("runs/experiments")
    dataset: str | None = None
    hooks: Sequence[Hook] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.n is not None:
            require_whole("n", self.n, 200)
        require_whole("seeds", self.seeds, 1)
        if self.device not in ("auto", "cpu"):
            require(re.fullmatch(r"cuda(:\d+)?", self.device) is not None, "device", self.device, "auto, cpu or cuda")
            require(torch.cuda.is_available(), "device", self.device, "auto or cpu, because PyTorch finds no GPU")


@dataclass(frozen=True)
class Cell:
    """One part of an experiment, kept when it is done; `run` takes the path of a trace and returns the cell's row.

    Attributes:
        needs: Keys of earlier cells whose traces it opens.
    """

    key: str
    run: Callable[[Path], Row]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """Table of results; a `paper` column has only numbers that the paper measured on the same data set.

    Args:
        note: Facts needed to read it: n, the device, data sets that replace the paper's.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str


@dataclass(frozen=True)
class Chart:
    """Figure, and sentences that explain it."""

    heading: str
    text: str
    draw: Draw


class Experiment(ABC):
    """One figure or table of the paper."""

    name: ClassVar[str]
    title: ClassVar[str]
    #: Place in the paper.
    source: ClassVar[str]

    @abstractmethod
    def cells(self, options: Options) -> list[Cell]:
        """Return the cells to compute, in order and with distinct keys.

        Raises:
            ValueError: Options that do not fit.
            DatasetUnavailable: A data set is missing; the message says how to get it.
        """

    @abstractmethod
    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        """Return the tables of the completed cells, possibly a part of all."""

    @abstractmethod
    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        """Return the figures of the completed cells; `folder` has `KEY.zarr` of every cell that wrote a trace."""


def cell_key(*parts: str, seed: int) -> str:
    """Return the key of a cell, in lower case, with hyphens instead of spaces."""
    return "-".join(part.lower().replace(" ", "-") for part in (*parts, f"seed{seed}"))


def grouped(rows: Iterable[Row], key: str) -> dict[Any, list[Row]]:
    """Return rows by one of their values, in the order in which it first occurs."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


# --- numbers as a table shows them ------------------------------------------------------------------------------------

#: Significant digits of numbers too small for the paper's decimals.
SIGNIFICANT_DIGITS = 3


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Format mean and sample standard deviation: `0.046` for one number, `0.046 ± 0.001`, `–` for none or NaN.

    The number of decimals is as in the paper. Numbers too small to show two digits get three significant digits,
    `0.00120 ± 0.00004`.
    """
    if not values or any(math.isnan(value) for value in values):
        return "–"
    if any(math.isinf(value) for value in values):
        return "∞"
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    form = _form(max(abs(mean), deviation), digits)
    return f"{mean:{form}}" if len(values) == 1 else f"{mean:{form}} ± {deviation:{form}}"


def _form(size: float, digits: int) -> str:
    """Return the format of numbers up to `size`."""
    exponent = math.floor(math.log10(size)) if size else 0
    if exponent >= min(0, 1 - digits):
        return f".{digits}f"
    return f".{SIGNIFICANT_DIGITS - 1 - exponent}f" if exponent >= -4 else f".{SIGNIFICANT_DIGITS - 1}e"


def duration(seconds: float) -> str:
    """Format seconds: `13.5 s`, `9.6 min`, `2.7 h`; three significant digits below a second."""
    if math.isnan(seconds):
        return "–"
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.{SIGNIFICANT_DIGITS}g} s"
