"""What an experiment is: cells computed one after another, tables of them, and figures of their traces.

Tables have numbers as the paper writes them.
"""

from __future__ import annotations

import math
import re
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import plotly.graph_objects as go
import torch

from apviz.plots._style import ThemeName
from apviz.settings import require, require_whole
from apviz.solvers import Hook

#: what a cell leaves: numbers and words, as JSON knows them
Row = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """Settings of a run of an experiment.

    Args:
        n: training rows of each data set; None: all there are, as in the paper.
        device: `auto`, `cpu` or `cuda`.
        seeds: repetitions, each with its own split, probes and start.
        out: the folder under which the experiment's own is made.
        dataset: takes the place of the paper's data set.
        hooks: told about every solve, and every step of a training.

    Raises:
        ValueError: a setting out of range, with what would be accepted.
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
            require(torch.cuda.is_available(), "device", self.device, "auto or cpu, for torch sees no GPU")


@dataclass(frozen=True)
class Cell:
    """One piece of an experiment, kept when it is done: `run` gets the path of a trace, and returns its row.

    Attributes:
        needs: keys of cells before it whose traces it opens.
    """

    key: str
    run: Callable[[Path], Row]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of results; a `paper` column holds only what the paper measured on the same data set.

    Args:
        note: what must be known to read it: n, the device, stand-ins.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str


@dataclass(frozen=True)
class Chart:
    """A figure and the sentences that say what to see in it."""

    heading: str
    text: str
    draw: Callable[[ThemeName], go.Figure]


class Experiment(ABC):
    """One figure or table of the paper."""

    name: ClassVar[str]
    title: ClassVar[str]
    #: where in the paper
    source: ClassVar[str]

    @abstractmethod
    def cells(self, options: Options) -> list[Cell]:
        """The cells to compute, in order; every key once.

        Raises:
            ValueError: options that do not fit.
            DatasetUnavailable: a data set that is not here, with what to do.
        """

    @abstractmethod
    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        """The tables of the cells that are done, some or all."""

    @abstractmethod
    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        """The figures of the cells that are done; `folder` holds `KEY.zarr` of every cell that wrote a trace."""


# --- numbers as a table shows them ------------------------------------------------------------------------------------

#: significant digits of what the paper's decimals would round away
SIGNIFICANT_DIGITS = 3


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean and sample standard deviation, `0.046` of one number or `0.046 ± 0.001`; `–` for none or NaN.

    So many decimals, as in the paper; what is too small to show two digits with them gets three significant ones,
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
    """The format of numbers up to `size`."""
    exponent = math.floor(math.log10(size)) if size else 0
    if exponent >= min(0, 1 - digits):
        return f".{digits}f"
    return f".{SIGNIFICANT_DIGITS - 1 - exponent}f" if exponent >= -4 else f".{SIGNIFICANT_DIGITS - 1}e"


def duration(seconds: float) -> str:
    """Seconds in words: `13.5 s`, `9.6 min`, `2.7 h`; three significant digits below a second."""
    if math.isnan(seconds):
        return "–"
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.{SIGNIFICANT_DIGITS}g} s"
