"""Early stopping as a filter: what t steps keep of the data, and what noise keeps."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from apviz.rkhs.kernels import Floats, StationaryKernel
from apviz.widgets.live_widget import LiveWidget, choice, log_slider, places

POINTS: Final = 40
GRID: Final = 101


class EarlyStopping(LiveWidget):
    """Filters of gradient descent, a Krylov method and noise over the eigenvalues of K, and the distance to the truth.

    Attributes:
        step: t, the number of steps, 1 to 10,000; a Krylov method ends after 40.
        lengthscale: Lengthscale of k, in units of x; the outputscale is 1.
        noise: Variance of the noise of the data; the model has none.
        kernel: Name of k.
        method: `MINRES` or `CG`, next to descent.

    Examples:
        >>> widget = apviz.widgets.EarlyStopping(step=10)
        >>> {name: round(error, 2) for name, error in widget.errors.items()}
        {'descent': 0.13, 'ridge': 0.15}
    """

    title = "Stopping early is a filter"
    text = (
        "Solve Kw = y from 0 in a model <i>without</i> noise, and stop after t steps. Along an eigenvector with "
        "eigenvalue λ, descent then has the share 1 − (1 − ηλ)ᵗ of the data, and a solve with noise τ has λ/(λ + τ): "
        "both keep the smooth part first. So does MINRES, whose polynomial makes the residual smallest. CG makes the "
        "K-norm of the error smallest, in which noise weighs most, and fits noise early."
    )
    sentence = (
        "After {step:step} of descent we keep about what a model with noise τ = [tau] keeps. The data have noise "
        "{noise}. The smallest distance to the truth is [error] for descent (step [best]), [other] for {method} (step "
        "[krylov]), and [ridge] for noise."
    )

    step = places(
        "steps t", "Descent is w ← w + η(y − Kw) with η = 1/λmax(K), from w = 0.",
        [1, 2, 3, 4, 5, 6, 8, *(n * 10**k for k in range(1, 4) for n in (1, 2, 3, 4, 6, 8)), 10_000],
    )  # fmt: skip
    noise = log_slider(
        "noise", "Variance s² of the noise in the data, y = f(x) + ε with ε ~ N(0, s²).", 0.01, 1
    )  # fmt: skip
    lengthscale = log_slider(
        "lengthscale", "ℓ, in units of x: the longer, the faster the eigenvalues fall, λ₁ ≥ λ₂ ≥ ….", 0.05, 0.5
    )
    method = choice(
        "method", "MINRES makes ‖r‖ = ‖y − Kw‖ smallest over span{y, Ky, …}, CG ‖W−W*‖<sub>K</sub>.",
        {"MINRES": "MINRES", "CG": "CG"},
    )  # fmt: skip
    kernel = choice(
        "kernel", "k(x, x′) = f(|x − x′| / ℓ): the smoother it is, the faster λ falls.",
        {"matern12": "Matérn-1/2", "matern32": "Matérn-3/2", "matern52": "Matérn-5/2"},
    )  # fmt: skip

    in_sight = ("step", "noise")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "stopped in time": {"step": 10, "noise": 0.1, "lengthscale": 0.2, "kernel": "matern32", "method": "MINRES"},
        "too early": {"step": 2},
        "too late: it fits the noise": {"step": 10_000},
        "hardly any noise: later is better": {"noise": 0.01, "step": 100},
        "CG fits noise early": {"method": "CG", "step": 3},
    }  # fmt: skip

    @classmethod
    def given(cls) -> dict[str, Any]:
        x, grid = _places()
        draws = np.random.default_rng(0).standard_normal(POINTS).round(4)
        return {
            "x": x.tolist(), "grid": grid.tolist(), "draws": draws.tolist(),
            "truth": _truth(x).tolist(), "truthOnGrid": _truth(grid).tolist(),
        }  # fmt: skip

    @property
    def system(self) -> tuple[Floats, Floats, Floats]:
        """Return K (40, 40) without noise, k of the grid and the points (101, 40), and y (40,)."""
        x, grid = _places()
        kernel = StationaryKernel(self.kernel, self.lengthscale)
        y = _truth(x) + np.sqrt(self.noise) * np.array(self.given()["draws"])
        return kernel(x[:, None], x[:, None]), kernel(grid[:, None], x[:, None]), y

    @property
    def fits(self) -> dict[str, Floats]:
        """Return the function on a grid (101,) after t steps of `descent`, and with noise 1/(ηt), `ridge`."""
        K, cross, y = self.system
        eta = 1 / np.linalg.eigvalsh(K)[-1]
        w = np.zeros(POINTS)
        for _ in range(self.step):
            w += eta * (y - K @ w)
        return {"descent": cross @ w, "ridge": cross @ np.linalg.solve(K + np.eye(POINTS) / (eta * self.step), y)}

    @property
    def errors(self) -> dict[str, float]:
        """Return the root mean square of the distance to the truth, by name as in `fits`."""
        truth = _truth(_places()[1])
        return {name: float(np.sqrt(np.mean((fit - truth) ** 2))) for name, fit in self.fits.items()}


def _places() -> tuple[Floats, Floats]:
    return np.linspace(0, 1, POINTS).round(6), np.linspace(0, 1, GRID).round(6)


def _truth(x: Floats) -> Floats:
    return (np.sin(8 * x) * np.exp(-x)).round(6)
