"""A photograph, block by block: real pixels, with the margin on and off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import ipywidgets
import plotly.graph_objects as go

from apviz.datasets.bundled import PICTURE_SHAPE
from apviz.plots.rkhs import margin_curves, photograph_step
from apviz.rkhs import RULES
from apviz.rkhs.photograph import STRIDES
from apviz.rkhs.photograph import Photograph as Solved
from apviz.rkhs.photograph import photograph as solve_photograph
from apviz.widgets.controls import Control, Stepper, log_slider
from apviz.widgets.teaching_widget import TeachingWidget

#: pictures that the step control goes through
PICTURES = 41

OVERLAPS = (0.0, 0.5, 1.0)
#: number of settings whose solves are kept
SOLVES_KEPT = 20


class Photograph(TeachingWidget):
    """Shows the residual of a photograph, block by block, and beside it what the solver has built so far."""

    title = "A photograph, block by block"
    text = (
        "Every pixel of the photograph is a row of K: its position is x, its grey value b. The residual starts as the "
        "photograph itself, and every update wipes out one block of it: r<sub>I</sub> = 0 on the rows it solved for. "
        "It also pulls at the pixels around, up to a few lengthscales away, so neighbouring blocks undo a part of it, "
        "and most of that within a margin around the block. A block that solves on the margin too costs more, and is "
        "undone less. Blocks of the paper are consecutive rows of shuffled data, here pixels from all over the picture."
    )
    static_control = "step"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "compact blocks, no margin": {
            "step": 8, "overlap": 0.0, "partition": "kd-tree", "block_size": 100, "rule": "gauss-southwell",
            "tol": 1e-2, "pixels": 1426,
        },
        "compact blocks with a margin": {"overlap": 1.0},
        "the paper's blocks": {"partition": "sequential"},
        "one block after another": {"rule": "cyclic", "overlap": 0.5},
        "few large blocks": {"block_size": 400, "overlap": 0.5, "step": 3},
    }  # fmt: skip

    def make_controls(self) -> dict[str, Control]:
        self._solved: dict[tuple[Any, ...], dict[float, Solved]] = {}
        stepper = Stepper("picture", PICTURES - 1, speed=1.5)
        self.status = ipywidgets.HTML()
        slow = {"continuous_update": False}
        (height, width), steps = PICTURE_SHAPE, ", ".join(map(str, sorted(STRIDES.values())))
        return {
            "step": Control(
                stepper.slider,
                "Pictures of the solve, the first one update apart, the later ones more, the last where it ended: an "
                "update is w<sub>I</sub> += K[I, I]⁻¹r<sub>I</sub>.",
                ipywidgets.VBox([stepper, self.status]),
            ),
            "overlap": Control(
                ipywidgets.ToggleButtons(
                    description="margin", options=[("off", 0.0), ("half", 0.5), ("full", 1.0)],
                    style={"button_width": "60px"},
                ),
                "A block of b pixels solves on its overlap·b nearest others too: an update's work = "
                "(1 + overlap)·b/n.",
            ),
            "partition": Control(
                ipywidgets.Dropdown(description="partition", options=["sequential", "kd-tree", "principal-axis-tree"]),
                "Which pixels make a block: consecutive rows (the paper's), block j = {jb + 1, …, jb + b}, or halves "
                "along the longest side, or across the principal axis, until a part holds b.",
            ),
            "block_size": Control(
                ipywidgets.IntSlider(description="block b", min=50, max=500, step=50, **slow),
                "Pixels a block owns: a picture of n has m = ⌈n/b⌉ blocks, each with a Cholesky factor, K[I, I] = LLᵀ.",
            ),
            "rule": Control(
                ipywidgets.Dropdown(description="rule", options=list(RULES)),
                "Which block next: gauss-southwell takes that of ‖r<sub>I</sub>‖ = max<sub>J</sub> ‖r<sub>J</sub>‖.",
            ),
            "tol": Control(
                log_slider("tolerance", 1e-4, 0.1, **slow),
                "The solve ends once ‖r‖/‖b‖ &lt; tolerance, computed afresh, or after 100 epochs.",
            ),
            "pixels": Control(
                ipywidgets.Dropdown(description="pixels n", options=sorted(STRIDES)),
                f"Pixels left of {height} × {width} where every s-th row and column is kept, s = {steps}: "
                f"n = ⌈{height}/s⌉·⌈{width}/s⌉, and K is n × n.",
            ),
        }  # fmt: skip

    def draw(self) -> Sequence[go.Figure]:
        photos = self.photos
        shown = self.value("overlap")
        photo = photos[shown]
        rows = photo.pictures(PICTURES)
        update = photo.updates[rows[min(self.value("step"), len(rows) - 1)]]
        return [
            photograph_step(photo, update, theme=self.theme),
            margin_curves(photos, shown, update, theme=self.theme),
        ]

    @property
    def photos(self) -> dict[float, Solved]:
        """Solves by overlap, for the controls' values."""
        settings = {name: self.value(name) for name in ("pixels", "block_size", "partition", "rule", "tol")}
        key = tuple(settings.values())
        if key not in self._solved:
            self.status.value = f"<b>solving…</b> n = {settings['pixels']:,}, three times"
            found = {overlap: solve_photograph(overlap=overlap, **settings) for overlap in OVERLAPS}
            self._solved[key] = found
            # the oldest makes room
            for old in list(self._solved)[:-SOLVES_KEPT]:
                del self._solved[old]
            seconds = sum(photo.trace.attrs["seconds"] for photo in found.values())
            self.status.value = f"three margins solved in {seconds:.2g} s"
        return self._solved[key]
