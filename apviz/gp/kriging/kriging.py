"""Simple, ordinary and universal kriging: predictions with a drift whose coefficients are estimated too.

With F the basis functions at the training rows and f* those at x*, the coefficients β solve the generalised least
squares FᵀK⁻¹F β = FᵀK⁻¹y (Rasmussen & Williams, section 2.7). With u = f* − FᵀK⁻¹c, the mean is
f*ᵀβ + cᵀK⁻¹(y − Fβ), and the variance is k(x*, x*) − cᵀK⁻¹c + uᵀ(FᵀK⁻¹F)⁻¹u. The last term is the uncertainty of β.

Solves are not exact. Let W ≈ K⁻¹F leave R = F − KW, and w ≈ K⁻¹(y − Fβ) leave r, let A = FᵀK⁻¹F, and let D be the noise
variances. Then

- A is at least FᵀW + WᵀF − WᵀKW, short of RᵀK⁻¹R;
- the defect of the normal equations is g = FᵀK⁻¹(y − Fβ) = Fᵀw + Wᵀr + RᵀK⁻¹r, so β is off by A⁻¹g;
- the mean is off by zᵀr + uᵀA⁻¹g with z = K⁻¹c, and the kriging variance is at least zᵀDz + uᵀA⁻¹u. By Cauchy–Schwarz,
  no mean is off by more than √(‖D^-½ r‖² + gᵀA⁻¹g) kriging standard deviations;
- u computed from W is off by Rᵀz. So the root of the last variance term is off by at most ‖D^-½ R A^-½‖ standard
  deviations of simple kriging.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from apviz.gp.kriging.drift import Basis, Drift, FittedDrift
from apviz.gp.kriging.variogram import Variogram
from apviz.gp.prediction.accuracy import weighted_norms
from apviz.gp.prediction.points import FEWER_AT_ONCE
from apviz.gp.prediction.posterior import Posterior
from apviz.gp.prediction.variances import to_tolerance
from apviz.hyperparameters import Hyperparameters
from apviz.memory import explained
from apviz.settings import in_full_precision, require, require_kind
from apviz.solvers import Hook, checked_hooks
from apviz.system import tensor_of

Array = NDArray[np.float64]
#: largest error of the drift's part of the deviation, in deviations of simple kriging: 1% of the variance
DRIFT_ERROR: Final = 0.005
#: number of refinements of the solves for the drift
REFINEMENTS: Final = 4
#: smallest tolerance of a refinement
LEAST_TOL: Final = 1e-8
#: smallest eigenvalue of the correlations of basis functions that count as independent
INDEPENDENT: Final = 1e-10


class Kriging:
    """Kriging of y = drift + f + noise: means and variances, with the coefficients of the drift estimated.

    It predicts as PyKrige and GSTools do for the same variogram. They add the nugget to the variance at new locations:
    `include_noise=True` here. All numbers are in the units of inputs and target. The hyperparameters are not trained;
    `apviz.GaussianProcess(drift=…)` trains them.

    Args:
        x: (n, d) training inputs.
        y: (n,) training targets.
        model: a variogram, or hyperparameters, whose mean is used without a drift only.
        drift: `constant` (ordinary kriging), `linear` or `quadratic` (universal kriging); a function from inputs (m, d)
            to basis functions (m, q), to which a constant is added (external drift); or None (simple kriging).
        mean: known mean of simple kriging; None: that of the hyperparameters, 0 for a variogram.
        hooks: hooks of the solves for the mean and the drift.
        **settings: settings of `apviz.Posterior`: `solver`, `variance_solver`, `accuracy`,
            `noises`, `dtype`, `device`, `operator`.

    Attributes:
        posterior: the `apviz.Posterior` of what the drift leaves.
        coefficients: (p,) β. A polynomial drift is one of inputs scaled to [−1, 1]. None without a drift.
        covariance: (p, p) covariance (FᵀK⁻¹F)⁻¹ of the coefficients; None without a drift.
        fitted_drift: the drift with both; None without a drift.
        mean_error: bound on the error that the solves leave in any mean, in kriging standard deviations.
        drift_error: bound on their error in the drift's part of a deviation, in deviations of simple kriging.

    Raises:
        TypeError, ValueError: as `apviz.Posterior`; a nugget of 0; basis functions that depend on each other.

    Warns if a bound exceeds `accuracy` (0.05) for means or 0.005 for the drift.

    Examples:
        >>> import numpy as np, apviz
        >>> x = np.random.default_rng(0).uniform(0, 1000, (300, 2))
        >>> y = 0.01 * x[:, 0] + np.sin(x[:, 1] / 150)
        >>> model = apviz.gp.Variogram("exponential", sill=1.0, range=600.0, nugget=0.01, convention="pykrige")
        >>> kriging = apviz.Kriging(x, y, model, drift="linear", device="cpu")
        >>> mean, variance = kriging.predict([[500.0, 500.0], [3000.0, 500.0]], include_noise=True)
        >>> bool(variance[1] > model.sill > variance[0])  # far away the drift is uncertain too
        True
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        model: Variogram | Hyperparameters,
        *,
        drift: Drift | None = "constant",
        mean: float | None = None,
        hooks: Iterable[Hook] = (),
        **settings: Any,
    ) -> None:
        require_kind("model", model, (Variogram, Hyperparameters), "an apviz.gp.Variogram or apviz.Hyperparameters")
        require(mean is None or drift is None, "mean", mean, "None with a drift, which estimates the mean")
        h = model.hyperparameters() if isinstance(model, Variogram) else model
        x, y = tensor_of(x, "x"), tensor_of(y, "y")
        x = x[:, None] if x.ndim == 1 else x
        # a drift has a constant, so any known shift of the target may be taken off for the solve
        self._shift = float(h.mean if mean is None else mean) if drift is None else float(y.double().mean())
        known = Hyperparameters(
            h.kernel, h.lengthscale, h.outputscale, h.noise, 0.0, h.provenance, h.kernel_parameters
        )  # fmt: skip
        hooks = checked_hooks(hooks)
        self.posterior = Posterior(x, y.double() - self._shift, known, hooks=hooks, **settings)
        self._may_refine = settings.get("variance_solver") is None and settings.get("solver") is None
        self.mean_error, self.drift_error = self.posterior.mean_error, 0.0
        self.coefficients: Array | None = None
        self.covariance: Array | None = None
        self.fitted_drift: FittedDrift | None = None
        if drift is not None:
            basis = Basis.of(drift, x.cpu().double().numpy())
            with in_full_precision(), explained("kriging", "use fewer basis functions"):
                self._estimate(basis, basis(x.cpu().double().numpy()), hooks)

    def predict(self, x_star: Any, *, include_noise: bool = False, hooks: Iterable[Hook] = ()) -> tuple[Array, Array]:
        """Predict kriging mean and variance at x_star: (m, d), to (m,) and (m,).

        Args:
            include_noise: add the nugget: the variance of a new observation, as PyKrige and GSTools return it.
            hooks: hooks of the solves for variances.
        """
        mean = self.mean(x_star)
        variance = self.posterior.variance(x_star, include_noise=include_noise, hooks=hooks).cpu()
        if self.fitted_drift is not None:
            with explained("a prediction", FEWER_AT_ONCE):
                variance += self.fitted_drift.deviations(self.posterior, x_star).square().sum(1)
        return mean, variance.numpy()

    def mean(self, x_star: Any) -> Array:
        """Predict the kriging mean at x_star: (m, d), to (m,); it needs no further solve."""
        found: Array = self.posterior.mean(x_star).cpu().numpy()
        return found + self.drift(x_star)

    def drift(self, x_star: Any) -> Array:
        """Estimate the drift f*ᵀβ at x_star: (m, d), to (m,), also called kriging of the mean."""
        if self.fitted_drift is None:
            return np.full(len(x_star), self._shift)
        parts = [self.fitted_drift.mean(chunk.cpu()).numpy() for _, chunk in self.posterior.chunks(x_star)]
        return np.concatenate([np.empty(0), *parts])

    # --- inside ---------------------------------------------------------------------------------------------------

    def _estimate(self, basis: Basis, functions: Tensor, hooks: list[Hook]) -> None:
        """Solve for β by generalised least squares, and for the weights of what it leaves."""
        posterior = self.posterior
        f = functions.to(posterior.system.device)
        _require_independent(f)
        targets = torch.cat([f, posterior.system.given_b.double()], 1)
        weights = torch.cat([torch.zeros_like(f), posterior.weights[:, None]], 1)
        wanted, solver = f, posterior.variance_solver
        setup = posterior.variance_setup(targets.shape[1])
        for refinement in range(1 + REFINEMENTS):
            weights[:, : wanted.shape[1]] += posterior.attempt(wanted, solver, hooks, setup).weights.to(f)
            wanted = targets - posterior.double.matmul(weights)  # the residual
            w, root, beta, of_rest, of_mean = self._combine(f, weights, wanted)
            excess = max(self.drift_error / DRIFT_ERROR, self.mean_error / posterior.accuracy_wanted)
            if excess <= 1 or not self._may_refine or refinement == REFINEMENTS:
                break
            solver = to_tolerance(posterior.variance_solver, max(0.5 / excess, LEAST_TOL))
        # now the posterior is that of what the drift leaves
        posterior._predict_by(posterior._mean_solve.replaced(targets[:, -1] - f @ beta, of_rest, of_mean))
        beta[0] += self._shift  # the first basis function is 1
        self.fitted_drift = FittedDrift(basis, beta.cpu(), w.cpu(), root.cpu(), self.drift_error)
        self.coefficients, self.covariance = beta.cpu().numpy().copy(), (root @ root.T).cpu().numpy()
        self._warn()

    def _combine(self, f: Tensor, weights: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
        """Set bounds on the errors of kriging.

        Returns:
            W, Q with QQᵀ = (FᵀK⁻¹F)⁻¹, β, the weights of what the drift leaves, and the bound on errors of its mean.
        """
        (w, of_y), (r, left) = (each.tensor_split([f.shape[1]], dim=1) for each in (weights, residual))
        noises = self.posterior.system.operator.noise_of()
        root = _inverse_root(f.T @ w + w.T @ r)
        beta = root @ (root.T @ (f.T @ of_y + w.T @ left))
        of_y, left = of_y - w @ beta, left - r @ beta
        of_mean = float(weighted_norms(left, noises))
        deviations = torch.as_tensor(noises, dtype=torch.float64, device=r.device).sqrt().reshape(-1, 1)
        self.drift_error = float(torch.linalg.matrix_norm((r / deviations) @ root, 2))
        of_beta = float(torch.linalg.vector_norm(root.T @ (f.T @ of_y + w.T @ left))) + self.drift_error * of_mean
        self.mean_error = float(np.hypot(of_mean, of_beta))
        return w, root, beta[:, 0], of_y[:, 0], of_mean

    def _warn(self) -> None:
        """Warn about errors that the solves may leave."""
        if self.mean_error > self.posterior.accuracy_wanted:
            warnings.warn(
                f"kriging means may be off by up to {self.mean_error:.2g} kriging standard deviations: use a smaller "
                "tolerance, or no solver",
                stacklevel=4,
            )
        if self.drift_error > DRIFT_ERROR:
            warnings.warn(
                f"kriging variances may be off by up to {2 * self.drift_error + self.drift_error**2:.1%} because of "
                "the solves for the drift: use a smaller tolerance, or no solver",
                stacklevel=4,
            )


def _inverse_root(a: Tensor) -> Tensor:
    """Return Q with QQᵀ = A⁻¹, (p, p)."""
    values, vectors = torch.linalg.eigh(0.5 * (a + a.T))
    if not bool(values[0] > 0):
        raise ValueError("the solves for the drift are too inaccurate to estimate it: use a smaller tolerance")
    root: Tensor = vectors * values.rsqrt()
    return root


def _require_independent(f: Tensor) -> None:
    """Reject basis functions (n, p) of which one is a combination of others at the training rows."""
    n, p = f.shape
    unit = f / torch.linalg.vector_norm(f, dim=0).clamp_min(torch.finfo(torch.float64).tiny)
    if n <= p or not bool(torch.linalg.eigvalsh(unit.T @ unit)[0] > INDEPENDENT):
        raise ValueError(
            f"drift: its {p} basis functions depend on each other at the {n:,} training rows, so their coefficients "
            "are not determined; use a drift with fewer functions"
        )
