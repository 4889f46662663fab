"""Photograph, block by block: scattered blocks next to blocks of neighbours, solved in the page."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Final

import numpy as np
import torch
import traitlets

from apviz.datasets.bundled import PICTURE_SHAPE, grid_shape, read_china
from apviz.kernels import Matern52
from apviz.partitions import partitioner_named
from apviz.rkhs import RULES
from apviz.rkhs.kernels import Floats
from apviz.solvers import AlternatingProjection
from apviz.system import KernelSystem
from apviz.widgets.live_widget import LiveWidget, choice, log_slider, places, slider, steps
from apviz.widgets.packing import packed_bytes

#: Most updates of a solve; milliseconds between two played updates.
UPDATES: Final = 1000
FRAME: Final = 16
#: Hyperparameters with the Matérn-5/2 kernel, on a picture whose sides have length 2.
LENGTHSCALE: Final = 0.1
NOISE: Final = 0.05
#: Stride of rows and columns by the number of pixels.
STRIDES: Final = {height * width: stride for stride in (20, 16, 14, 12, 11) for height, width in [grid_shape(stride)]}
#: Stride of a finer picture, every fourth row and column, and its number of middle columns: 13,696 pixels.
_FINE_STRIDE, _FINE_COLUMNS = 4, 128


@cache
def _grey(pixels: int) -> np.ndarray:
    """Return the (rows, columns) luminance of `china` from 0 to 255, rounded to whole numbers."""
    stride = STRIDES.get(pixels, _FINE_STRIDE)
    grey = np.rint(read_china(stride).target).reshape(grid_shape(stride))
    if pixels not in STRIDES:
        left = (grey.shape[1] - _FINE_COLUMNS) // 2
        grey = grey[:, left : left + _FINE_COLUMNS]
    return grey.astype(np.uint8)


PIXELS: Final = (*sorted(STRIDES), grid_shape(_FINE_STRIDE)[0] * _FINE_COLUMNS)


class Photograph(LiveWidget):
    """Residual of a photograph, over scattered blocks and over blocks of neighbours, update by update.

    Attributes:
        step: Number of completed updates, 0 to 1,000.
        overlap: Number of pixels in a block's margin, relative to those it owns.
        partition: Partition of the right picture; the left one has scattered blocks, which are `sequential`.
        block_size: Number of pixels a block owns.
        rule: Rule that selects the next block.
        tol: Tolerance on ‖r‖/‖b‖ that ends the solve.
        pixels: n, the number of all pixels of a picture, thinned.
        picture: `residual`, or the posterior `mean`.
        axis: x axis of the curves, `work` or `updates`.

    Examples:
        >>> widget = apviz.widgets.Photograph(pixels=704, overlap=1.0)
        >>> solution = apviz.solve(widget.system, widget.solvers["neighbours"])
        >>> solution.converged, widget.system.n
        (True, 704)
    """

    title = "A photograph, block by block"
    text = (
        "Every pixel of the photograph is a row of K: its position is x, its grey value b. The residual starts as the "
        "photograph itself, and every update makes it zero on one block, the marked one: r<sub>I</sub> = 0 on the "
        "rows it solved for. The update also changes pixels up to a few lengthscales away. The paper's blocks, on the "
        "left, are consecutive rows of shuffled data: pixels from all over the picture. Both solves run in this page."
    )
    sentence = (
        "After {step:update}, with blocks of {block_size} pixels and a margin of {overlap}, scattered blocks "
        "have left [scattered] of ‖b‖, blocks of neighbours [neighbours]."
    )

    step = steps(
        "update",
        "Updates on each side: w<sub>I</sub> += K[I, I]⁻¹r<sub>I</sub>, r −= K[:, I]u; played one per frame.",
        UPDATES, FRAME,
    )  # fmt: skip
    overlap = slider(
        "margin",
        "A block of b pixels also solves on the ⌊margin·b⌋ nearest others: an update's work = (1 + margin)·b/n.",
        0, 1, 0.5,
    )  # fmt: skip
    partition = choice(
        "neighbours",
        "Partition on the right: halves along the longest side, or across the principal axis, until a part has b "
        "pixels; or, as on the left, consecutive rows of shuffled data, j = {jb + 1, …, jb + b}.",
        {"sequential": "sequential", "kd-tree": "kd-tree", "principal-axis-tree": "principal-axis-tree"},
    )
    block_size = slider(
        "block b",
        "Pixels per block: a picture of n pixels has m = ⌈n/b⌉ blocks, each with a Cholesky factor, K[I, I] = LLᵀ.",
        50, 500, 50,
    )  # fmt: skip
    rule = choice(
        "rule",
        "Block selection: gauss-southwell takes the block with ‖r<sub>I</sub>‖ = max<sub>J</sub> ‖r<sub>J</sub>‖.",
        {name: name for name in RULES},
    )
    tol = log_slider(
        "tolerance", "The solve ends once ‖r‖/‖b‖ &lt; tolerance, or after 1,000 updates.", 1e-4, 0.1
    )  # fmt: skip
    pixels = places(
        "pixels n",
        f"Of {PICTURE_SHAPE[0]} × {PICTURE_SHAPE[1]} pixels every s-th row and column is kept, s = "
        f"{', '.join(map(str, sorted(STRIDES.values(), reverse=True)))}, or 4 and of these the "
        f"{_FINE_COLUMNS} columns in the middle.",
        PIXELS,
    )
    picture = choice(
        "picture", "The residual r = b − Kw, or the posterior mean Kw − σ²w; grey shows the square root, so "
        "that small values are visible.",
        {"residual": "the residual", "mean": "the mean"},
    )  # fmt: skip
    axis = choice(
        "curves", "Work = evaluated entries of K ÷ n², all factors at the start; or updates, m = ⌈n/b⌉ per "
        "epoch.",
        {"work": "over work", "updates": "over updates"},
    )  # fmt: skip

    in_sight = ("step", "overlap")
    opening = "step"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "compact blocks, no margin": {
            # after only two updates per block scattered blocks lead, because each covers the complete picture
            "step": 30, "overlap": 0.0, "partition": "kd-tree", "block_size": 100, "rule": "gauss-southwell",
            "tol": 1e-2, "pixels": 1426, "picture": "residual", "axis": "updates",
        },
        "compact blocks with a margin": {"overlap": 1.0},
        "one block after another": {"rule": "cyclic", "overlap": 0.5},
        "few large blocks": {"block_size": 400, "overlap": 0.5, "step": 8},
        "13,696 pixels": {"pixels": 13696, "block_size": 200, "step": 40},
    }  # fmt: skip

    @traitlets.validate("pixels")
    def _are_a_picture(self, proposal: Any) -> int:
        if proposal["value"] not in PIXELS:
            raise traitlets.TraitError(f"pixels must be one of {', '.join(map(str, PIXELS))}, got {proposal['value']}")
        return int(proposal["value"])

    @classmethod
    def given(cls) -> dict[str, Any]:
        pictures = {}
        for n in PIXELS:
            rows, columns = _grey(n).shape
            pictures[str(n)] = {"rows": rows, "columns": columns, "grey": packed_bytes(_grey(n))}
        return {"pictures": pictures, "lengthscale": LENGTHSCALE, "noise": NOISE}

    @property
    def rows(self) -> tuple[Floats, Floats]:
        """Return positions (n, 2) of all pixels, from −1 to 1 along both sides, and grey values (n,), both shuffled."""
        grey = _grey(self.pixels).astype(np.float64)
        places = np.meshgrid(*(2 * np.arange(size) / (size - 1) - 1 for size in grey.shape), indexing="ij")
        order = torch.randperm(self.pixels, generator=torch.Generator().manual_seed(0)).numpy()
        x, b = np.column_stack([each.ravel() for each in places]), grey.ravel()
        return x[order], ((b - b.mean()) / b.std())[order]

    @property
    def system(self) -> KernelSystem:
        """Return the system that the page solves, in float64."""
        kernel = Matern52(lengthscale=LENGTHSCALE)
        return KernelSystem(*self.rows, kernel, noise=NOISE, dtype=torch.float64, device="cpu", dataset="china")

    @property
    def solvers(self) -> dict[str, AlternatingProjection]:
        """Return the solvers of the left picture, `scattered`, and of the right one, `neighbours`."""
        blocks = -(-self.pixels // self.block_size)
        return {
            name: AlternatingProjection(
                block_size=self.block_size, rule=self.rule, tol=self.tol, max_epochs=-(-UPDATES // blocks),
                partition=partitioner_named(partition, overlap=self.overlap),
            )
            for name, partition in (("scattered", "sequential"), ("neighbours", self.partition))
        }  # fmt: skip
