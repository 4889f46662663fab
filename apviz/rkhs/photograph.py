"""Photographs solved block by block, with pictures of the residual and of what is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from apviz.datasets import load
from apviz.datasets.bundled import grid_shape
from apviz.datasets.preprocessing import train_size
from apviz.kernels import Matern52
from apviz.rkhs.span import Floats
from apviz.settings import require
from apviz.solvers import AlternatingProjection, attempt
from apviz.system import KernelSystem
from apviz.tracing import Recorder, Trace

#: every so many-th row and column is kept, by the number of pixels that leaves
STRIDES = {height * width: stride for stride in (20, 16, 14, 12, 11) for height, width in [grid_shape(stride)]}

#: updates kept one by one, and the ratio of one number kept after them to the one before
_CONSECUTIVE, _GROWTH = 64, 1.1


@dataclass(frozen=True, eq=False)
class Photograph:
    """Solve of pixel position → grey value, whose trace has rows and snapshots with weights.

    Args:
        trace: of the solve.
        mean: (snapshots, n) the posterior mean at the pixels, standardised grey: Kw − σ²w = b − r − σ²w.
    """

    trace: Trace
    mean: Floats

    @property
    def updates(self) -> list[int]:
        """Numbers of the updates after which there is a picture; the last is where the solve ended."""
        return [int(number) for number in self.trace["snapshot"]["update"].values]

    def pictures(self, most: int) -> list[int]:
        """Chooses up to `most` pictures: the first half one after another, then evenly spread to the last."""
        count = len(self.updates)
        if count <= most:
            return list(range(count))
        first = most // 2
        rest = np.linspace(first, count - 1, most - first)
        return [*range(first), *np.rint(rest).astype(int).tolist()]


def photograph(
    pixels: int,
    *,
    block_size: int,
    partition: str = "sequential",
    overlap: float = 0.0,
    rule: str = "gauss-southwell",
    tol: float = 1e-2,
    lengthscale: float = 0.1,
    noise: float = 0.05,
    max_epochs: int = 100,
) -> Photograph:
    """Solves the system of all pixels of 'china', thinned on a regular grid, in float32.

    Rows are in the shuffled order of `apviz.datasets`, so that `sequential` blocks are scattered, as the paper's are.

    Args:
        pixels: n, one of `STRIDES`.
        block_size, partition, overlap, rule, tol, max_epochs: of `apviz.AlternatingProjection`.
        lengthscale: of the Matérn-5/2 kernel; both sides of the picture have length 2.

    Raises:
        ValueError: another number of pixels; a setting the solver refuses.
    """
    require(pixels in STRIDES, "pixels", pixels, f"one of {', '.join(map(str, STRIDES))}")
    data = load("china", n=train_size(pixels))
    x, b = torch.cat([data.train_x, data.test_x]), torch.cat([data.train_y, data.test_y])
    system = KernelSystem(
        x, b, Matern52(lengthscale=lengthscale), noise=noise, operator="dense", device="cpu", dataset="china"
    )
    recorder = Recorder(
        rows=True, final_snapshot=True, snapshots=_snapshot_updates(max_epochs * -(-pixels // block_size)), weights=True
    )
    attempt(
        system,
        AlternatingProjection(
            block_size=block_size, rule=rule, partition=partition, overlap=overlap, tol=tol, max_epochs=max_epochs
        ),
        [recorder],
    )
    trace = recorder.trace
    snapshot = trace["snapshot"]
    mean = trace["rows"]["target"].values - snapshot["residual"].values - noise * snapshot["weights"].values
    return Photograph(trace, mean)


def _snapshot_updates(updates: int) -> list[int]:
    """Numbers of updates to keep, of so many at most."""
    numbers = list(range(min(_CONSECUTIVE, updates) + 1))
    while (following := int(np.ceil(_GROWTH * numbers[-1]))) <= updates:
        numbers.append(following)
    return numbers
