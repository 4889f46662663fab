"""CG against alternating projection: two paths to one goal, the error by eigenvector, and both over work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, get_args

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from apviz.kernels import Matern52
from apviz.plots.rkhs import eigen_paths, eigen_shares, error_by_work
from apviz.rkhs import RULES, EigenPath, Plane, Span, eigen_path, eigenvector_pair, toy_problem, trajectory
from apviz.widgets.controls import Control, Stepper, log_slider
from apviz.widgets.teaching_widget import TeachingWidget

#: iterations of CG, and the work of alternating projection
WORK = 24

_CURVE, _PROBE = "a curve with noise", "a random probe"


class CGAgainstProjection(TeachingWidget):
    """Compares CG and alternating projection on one system: as paths, by eigenvector, and over work."""

    title = "CG against alternating projection"
    text = (
        "Both make the error ‖W−W*‖<sub>K</sub> smaller in every step: CG as far as any polynomial in K times b can, "
        "alternating projection by what one block takes away. The residual r = −K(w−w*) weighs the same error "
        "differently. With c<sub>i</sub> = √λ<sub>i</sub> v<sub>i</sub>ᵀ(w−w*) along the eigenvectors of K, "
        "‖W−W*‖²<sub>K</sub> = Σ c<sub>i</sub>², but ‖r‖² = Σ λ<sub>i</sub> c<sub>i</sub>² = "
        "Σ λ<sub>i</sub>² (v<sub>i</sub>ᵀ(w−w*))². CG's first step, of length 1/⟨λ⟩, turns c<sub>i</sub> into "
        "(1 − λ<sub>i</sub>/⟨λ⟩) c<sub>i</sub>: where λ<sub>i</sub> &gt; 2⟨λ⟩ it ends up farther beyond the goal than "
        "it was before it, and there the residual counts most. ‖r‖² is multiplied by ⟨λ²⟩/⟨λ⟩² − 1, with means of λ "
        "weighted by (v<sub>i</sub>ᵀb)². Above 1, when the λ in b are spread widely, the residual rises first, while "
        "the error falls."
    )
    static_control = "work"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "CG's residual rises first": {
            "work": 1, "plane": "largest λ and most error", "data": _PROBE, "points": 40, "block_size": 8,
            "rule": "gauss-southwell", "overlap": 0.0, "lengthscale": 0.15, "noise": 0.05,
        },
        "a smooth curve": {"data": _CURVE, "work": 3},
        "hardly any noise": {"data": _CURVE, "noise": 1e-3, "work": 12},
        "much noise: κ is small": {"noise": 1.0, "work": 3},
        "blocks with a margin": {"data": _CURVE, "noise": 1e-3, "overlap": 0.5, "work": 3},
        "one block: a Cholesky solve": {"block_size": 40, "work": 2},
    }  # fmt: skip

    def make_controls(self) -> dict[str, Control]:
        slow = {"continuous_update": False}
        stepper = Stepper("work", WORK, speed=1.5)
        return {
            "work": Control(
                stepper.slider,
                "Work = kernel entries used ÷ n²: an iteration of CG costs 1, an update b/n, the factors of all blocks "
                "b/n once; the first residual is b itself and costs nothing.",
                stepper,
            ),
            "plane": Control(
                ipywidgets.Dropdown(description="plane", options=get_args(Plane)),
                "Which two eigenvectors, Kv<sub>i</sub> = λ<sub>i</sub>v<sub>i</sub>, the paths are drawn along, by "
                "λ<sub>i</sub>, or by c<sub>i</sub>² (error) and λ<sub>i</sub>c<sub>i</sub>² (residual) at the start.",
            ),
            "data": Control(
                ipywidgets.Dropdown(description="b", options=[_CURVE, _PROBE]),
                "The right-hand side: targets, yᵢ = sin(9xᵢ) e<sup>−xᵢ</sup> + 0.1 εᵢ with εᵢ ~ N(0, 1), or a probe "
                "z ~ N(0, I) as the gradient of the likelihood needs it (K W = [y, z₁, …]).",
            ),
            "rule": Control(
                ipywidgets.Dropdown(
                    description="rule", options=list(RULES)
                ),
                "Which block next: gauss-southwell, which Theorem 1 is about, takes the one with "
                "‖r<sub>I</sub>‖ = max<sub>J</sub> ‖r<sub>J</sub>‖.",
            ),
            "block_size": Control(
                ipywidgets.IntSlider(description="block b", min=2, max=80, **slow),
                "Points a block owns: κ′ = max λmax(K[I, I]) / λmin(K) grows with b, up to κ at b = n.",
            ),
            "overlap": Control(
                ipywidgets.FloatSlider(description="overlap", min=0, max=1, step=0.25, **slow),
                "Margin a block also solves on, as a part of its own points: an update's work = (1 + overlap)·b/n.",
            ),
            "lengthscale": Control(
                log_slider("lengthscale", 0.03, 1, **slow),
                "ℓ of the Matérn-5/2 kernel: the longer, the faster λ<sub>i</sub> falls, and the larger κ = λmax/λmin.",
            ),
            "noise": Control(
                log_slider("noise σ²", 1e-4, 1, **slow),
                "σ² is added to every λ<sub>i</sub>: κ ≤ λmax/σ².",
            ),
            "points": Control(
                ipywidgets.IntSlider(description="points n", min=8, max=80, **slow),
                "How many data: in exact arithmetic CG has r⁽ⁿ⁾ = 0 after n iterations at the latest.",
            ),
        }  # fmt: skip

    @property
    def paths(self) -> tuple[EigenPath, EigenPath]:
        """Paths of CG and of alternating projection, for the controls' values."""
        n = self.value("points")
        size = min(n, self.value("block_size"))
        system = (n, *(self.value(name) for name in ("data", "lengthscale", "noise")))
        blocks = (size, self.value("rule"), self.value("overlap"))
        if self._cg is None or self._cg[0] != system:
            x, b = toy_problem("even", n)
            if self.value("data") == _PROBE:
                b = np.random.default_rng(0).standard_normal(n)
            span = Span(x, Matern52(lengthscale=self.value("lengthscale")), self.value("noise"))
            self._cg = (system, eigen_path(trajectory(span, b, method="cg", steps=min(WORK, n))))
        cg = self._cg[1]
        if self._ap is None or self._ap[0] != (system, blocks):
            _, rule, overlap = blocks
            found = trajectory(
                cg.trajectory.span, cg.trajectory.b, block_size=size, overlap=overlap, rule=rule, steps=WORK * n // size
            )
            self._ap = ((system, blocks), eigen_path(found))
        return cg, self._ap[1]

    _cg: tuple[Any, EigenPath] | None = None
    _ap: tuple[Any, EigenPath] | None = None

    def draw(self) -> Sequence[go.Figure]:
        cg, ap = self.paths
        pair, work = eigenvector_pair(cg, self.value("plane")), self.value("work")
        return [
            eigen_paths(cg, ap, pair, work, theme=self.theme),
            eigen_shares(cg, ap, work, pair=pair, theme=self.theme),
            error_by_work(cg, ap, work, most=WORK, theme=self.theme),
        ]
