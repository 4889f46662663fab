"""κ and κ′: eigenvalues of K and of its blocks, Theorem 1 and the measured error, and a bet about a k-d tree."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Final

import numpy as np
import torch
import traitlets

from apviz.datasets import load
from apviz.kernels import Matern52
from apviz.rkhs import BoundComparison, Span, compare_with_bound
from apviz.rkhs.kernels import Floats
from apviz.widgets.live_widget import LiveWidget, choice, log_slider, slider
from apviz.widgets.packing import packed

POINTS: Final = 300
DATA: Final = ("china", "diabetes")
PARTITIONS: Final = ("sequential", "kd-tree")
EPOCHS: Final = 15


@cache
def _data(name: str) -> tuple[Floats, Floats]:
    """Return points (n, d) and data (n,) in float64, rounded to float32 because the page stores float32."""
    data = load(name, n=POINTS, dtype=torch.float64)
    x, b = (each.numpy().astype(np.float32).astype(np.float64) for each in (data.train_x, data.train_y))
    return x, b


class Kappas(LiveWidget):
    """Bounds of Theorem 1 by κ and κ′, compared with gauss-southwell over two partitions, after a bet.

    Attributes:
        data: 300 rows of `china` (pixels), or of `diabetes` (patients with ten measurements).
        block_size: Number of points in a block.
        lengthscale: Lengthscale of the Matérn-5/2 kernel of outputscale 1.
        noise: Noise σ² of the system.
        bet: Partition that is bet to be faster; `shown` for no bet, or empty before it.

    Examples:
        >>> widget = apviz.widgets.Kappas(block_size=60)
        >>> found = widget.solves["kd-tree"]
        >>> round(found.spectrum.kappa), round(found.spectrum.kappa_prime)
        (127, 113)
    """

    title = "κ and κ′: the bound and the measured error"
    text = (
        "Theorem 1: gauss-southwell leaves at most exp(−t/κ′) of ‖W−W*‖²<sub>K</sub> after t epochs, where "
        "κ′ = λ′max/λmin(K) and λ′max is the largest eigenvalue of any block K[I, I]. Blocks of consecutive rows are "
        "scattered, because the rows are in random order; blocks of a k-d tree are neighbours. All eigenvalues here "
        "are exact, from dense matrices."
    )
    sentence = (
        "With blocks of {block_size} of 300 points, lengthscale {lengthscale} and noise σ² = {noise}, κ is [kappa]; "
        "κ′ is [sequential] over consecutive rows, and [tree] over a k-d tree."
    )
    betting = (
        "<b>Your bet:</b> with which blocks does gauss-southwell need fewer epochs to reduce ‖W−W*‖²<sub>K</sub> to "
        "1%?",
        {"sequential": "consecutive rows", "kd-tree": "a k-d tree"},
    )

    block_size = slider(
        "block b", "Points in a block: λ′max = max over blocks of λmax(K[I, I]) ≤ b(1 + σ²).", 10, 100, 10
    )
    lengthscale = log_slider(
        "lengthscale",
        "ℓ of the Matérn-5/2 kernel: a longer ℓ makes points more alike and λmax(K) ≤ n + σ² larger.",
        0.03, 5,
    )  # fmt: skip
    noise = log_slider(
        "noise σ²", "σ² moves every eigenvalue: κ = λmax(K)/λmin(K), κ′ = λ′max/λmin(K), λmin(K) ≥ σ².", 1e-3, 10
    )
    data = choice(
        "data",
        f"{POINTS} rows in random order, K = k(X, X) + σ²I: X are pixels of a photograph (row, column), or "
        "patients with ten measurements.",
        {"china": "pixels of a photograph", "diabetes": "ten inputs: diabetes"},
    )

    in_sight = ("block_size", "lengthscale")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "the puzzle: pixels of a photograph": {
            "data": "china", "block_size": 30, "lengthscale": 0.15, "noise": 0.05, "bet": "",
        },
        "ten inputs: diabetes": {"data": "diabetes", "lengthscale": 1.0, "block_size": 50},
        "a long lengthscale: the k-d tree is slower": {"lengthscale": 2.0, "noise": 0.2},
        "much noise: the bound is closer": {"noise": 3.0},
    }  # fmt: skip

    bet = traitlets.Enum(["", "shown", *PARTITIONS]).tag(sync=True)

    @classmethod
    def given(cls) -> dict[str, Any]:
        given = {}
        for name in DATA:
            x, b = _data(name)
            given[name] = {
                "points": len(x), "dimension": x.shape[1], "inputs": packed(x), "targets": packed(b),
            }  # fmt: skip
        return {"data": given}

    @property
    def span(self) -> Span:
        """Return the span of functions over the points."""
        return Span(_data(self.data)[0], Matern52(lengthscale=self.lengthscale), self.noise)

    @property
    def solves(self) -> dict[str, BoundComparison]:
        """Return the solves by partition, with all eigenvalues, computed by the reference."""
        b, size = _data(self.data)[1], self.block_size
        return {
            each: compare_with_bound(self.span, b, block_size=size, partition=each, epochs=EPOCHS)
            for each in PARTITIONS
        }
