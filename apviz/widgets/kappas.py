"""κ and κ′: eigenvalues of K and of its blocks, Theorem 1 beside the measured error, and a puzzle about a k-d tree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import ipywidgets
import plotly.graph_objects as go
import torch

from apviz.datasets import load
from apviz.kernels import Matern52
from apviz.plots.rkhs import block_eigenvalues, bound_and_error, largest_block_eigenvalue
from apviz.rkhs import BoundComparison, Span, compare_with_bound, lambda_max_by_size
from apviz.rkhs.span import Floats
from apviz.widgets.controls import Control, log_slider
from apviz.widgets.teaching_widget import TeachingWidget

POINTS = 300
SIZES = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
PARTITIONS = ("sequential", "kd-tree")
EPOCHS = 15
#: share of ‖W(0)−W*‖²_K to count epochs to
TARGET_SHARE = 1e-2


@lru_cache
def _data(name: str) -> tuple[Floats, Floats]:
    data = load(name, n=POINTS, dtype=torch.float64)
    return data.train_x.numpy(), data.train_y.numpy()


class Kappas(TeachingWidget):
    """Compares what Theorem 1 promises of κ and κ′ with what gauss-southwell does over two partitions."""

    title = "κ and κ′: what the theorem promises, and what happens"
    text = (
        "The puzzle, on the first preset: over a k-d tree κ′ is larger, so Theorem 1 promises less, and yet "
        "gauss-southwell is faster. The theorem takes the worst case over all residuals, at every update anew, and no "
        "solve meets that residual every time. Neighbours in one block make λ′max larger, but where correlations are "
        "short their strong couplings are then inside a block, where an update solves them, and no longer between "
        "blocks, where it spoils what others did; 1/λmin(D⁻¹K), where D holds the blocks alone, sees that. All "
        "eigenvalues here are exact, from dense matrices."
    )
    static_control = "block_size"
    beside = 2
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "the puzzle: pixels of a photograph": {
            "data": "china", "block_size": 30, "lengthscale": 0.15, "noise": 0.05,
        },
        "ten inputs: diabetes": {"data": "diabetes", "lengthscale": 1.0, "block_size": 50},
        "a long lengthscale: the k-d tree is slower": {"lengthscale": 2.0, "noise": 0.2},
        "much noise: the bound is closer": {"noise": 3.0},
    }  # fmt: skip

    def make_controls(self) -> dict[str, Control]:
        slow = {"continuous_update": False}
        return {
            "data": Control(
                ipywidgets.Dropdown(description="data", options=["china", "diabetes"]),
                f"{POINTS} rows in random order, K = k(X, X) + σ²I: X are pixels of a photograph (row, column), or "
                "patients with ten measurements; sequential blocks take rows as they come, those of the k-d tree are "
                "neighbours.",
            ),
            "block_size": Control(
                ipywidgets.IntSlider(description="block b", min=SIZES[0], max=SIZES[-1], step=10, **slow),
                "Points in a block: λ′max = max over blocks of λmax(K[I, I]) ≤ b(1 + σ²).",
            ),
            "lengthscale": Control(
                log_slider("lengthscale", 0.03, 5, **slow),
                "ℓ of the Matérn-5/2 kernel: the longer, the more alike points are, and the larger λmax(K) ≤ n + σ².",
            ),
            "noise": Control(
                log_slider("noise σ²", 1e-3, 10, **slow),
                "σ² moves every eigenvalue: κ = λmax(K)/λmin(K), κ′ = λ′max/λmin(K), λmin(K) ≥ σ².",
            ),
        }  # fmt: skip

    @property
    def span(self) -> Span:
        """Functions over the points, for the controls' values."""
        return self._system()[0]

    def _system(self) -> tuple[Span, dict[str, Floats]]:
        """The span, and by partition λ′max of every block size."""

        def compute() -> tuple[Span, dict[str, Floats]]:
            x, _ = _data(self.value("data"))
            span = Span(x, Matern52(lengthscale=self.value("lengthscale")), self.value("noise"))
            return span, {partition: lambda_max_by_size(span, SIZES, partition) for partition in PARTITIONS}

        return self.computed(("data", "lengthscale", "noise"), compute)

    @property
    def solves(self) -> dict[str, BoundComparison]:
        """Solves by partition, with all eigenvalues, for the controls' values."""
        span, size = self.span, self.value("block_size")
        b = _data(self.value("data"))[1]
        return {
            each: compare_with_bound(span, b, block_size=size, partition=each, epochs=EPOCHS) for each in PARTITIONS
        }

    def draw(self) -> Sequence[go.Figure]:
        solves, (span, growth), size = self.solves, self._system(), self.value("block_size")
        eigenvalues = solves[PARTITIONS[0]].spectrum.eigenvalues
        return [
            bound_and_error(solves, TARGET_SHARE, theme=self.theme),
            largest_block_eigenvalue(span, eigenvalues, SIZES, growth, size, theme=self.theme),
            block_eigenvalues(solves, theme=self.theme),
        ]
