"""Small Gaussian processes: every predicted number is within its stated error of the exact one (`exact.py`).

Tolerances: the claimed residual for the mean; for variances the claimed excess, upwards only; the order of matrices for
covariances; the sampling error for samples; the claimed standard error for log det K; rounding for the exact likelihood
and its gradient. Rounding in a dtype is bounded by the terms of the sums.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import apviz
from apviz.gp import lanczos_log_determinant, marginal_likelihood_gradient
from apviz.operators import CountingOperator
from apviz.partitions import KDTree
from tests.trust.exact import Exact, Expression, exact
from tests.trust.truth import LEAVES
from tests.trust.verdicts import ENDLESS, REFUSALS, Verdict, judged

#: largest number of rows with mpmath, and without
FEW_ROWS, MANY_ROWS = 12, 70
#: tolerance of estimates from samples in standard deviations, for about 10⁹ cases
FAR = 7.0
#: tolerance in standard errors that are estimated from 32 probes
FAR_OF_ESTIMATED = 12.0
PROBES, SAMPLES = 32, 400
#: largest error of 2,000 features, relative to the prior variance
FEATURES_LEAVE = 0.12
#: largest change of log det K at the end of Lanczos, in nats per row
SETTLED = 1e-6
#: entries of K below this value may have any relative error
UNDERFLOWN = 1e-25
#: margin of the residual, which the solver claims from float64
CLAIM = 1.01


@dataclass
class Case:
    """A process, and the interface of apviz that evaluates it.

    Attributes:
        words: for people.
    """

    expression: Expression
    kernel: Any
    noise: float
    mu: float
    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    face: str
    solver: Any
    dtype: torch.dtype
    operator: str
    seed: int
    words: dict[str, str] = field(default_factory=dict)


def case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    d = int(one_of(1, 1, 2, 3))
    n = int(rng.integers(3, MANY_ROWS))
    x = rng.uniform(-1, 1, (n, d))
    points = one_of("uniform", "uniform", "clusters", "duplicates", "grid")
    if points == "clusters":
        x = x * 1e-2 + rng.uniform(-1, 1, (4, d))[rng.integers(4, size=n)]
    elif points == "duplicates":
        x = x[rng.integers(max(2, n // 2), size=n)]
    elif points == "grid":
        x = np.round(x * 4) / 4
    leaves, parts = [], []
    for _ in range(one_of(1, 1, 2)):
        form = one_of(*LEAVES)
        count = d if d > 1 and rng.random() < 0.5 else 1
        lengthscale = tuple(float(each) for each in 10 ** rng.uniform(-1.2, 0.8, count))
        shape = {"alpha": float(10 ** rng.uniform(-0.7, 1.5))} if form == "rational-quadratic" else {}
        outputscale = float(10 ** rng.uniform(-1, 1))
        parts.append(
            LEAVES[form](lengthscale=lengthscale if count > 1 else lengthscale[0], outputscale=outputscale, **shape)
        )
        leaves.append((form, count))
    combined = one_of("+", "×")
    kernel, scaled = parts[0], False
    if len(parts) == 2:
        kernel = parts[0] + parts[1] if combined == "+" else parts[0] * parts[1]
        scaled = bool(rng.random() < 0.3)
        kernel = float(10 ** rng.uniform(-1, 1)) * kernel if scaled else kernel
    prior = float(kernel(torch.zeros(1, d, dtype=torch.float64)))
    ratio = 10 ** rng.uniform(-9, 0)
    # few rows for systems beyond float64, because mpmath takes seconds for more
    n = n if n**2 * 3e-16 / ratio < 1e-9 else min(n, FEW_ROWS)
    x = x[:n]
    y = np.sin(rng.uniform(1, 6) * x.sum(1)) + 0.3 * rng.standard_normal(n)
    if np.ptp(x, axis=0).min() == 0 or np.ptp(y) == 0:  # scaling would omit such a column
        x = rng.uniform(-1, 1, (n, d))
    z = rng.uniform(-1.5, 1.5, (5, d))
    z[0], z[1] = x[0], 30.0
    tol = float(10 ** rng.uniform(-10, -1))
    solver = one_of(
        None,
        apviz.Automatic(tol=tol),
        apviz.Cholesky(),
        apviz.ConjugateGradient(tol=tol, max_epochs=300),
        apviz.AlternatingProjection(block_size=max(2, n // 3), tol=tol, max_epochs=300),
        apviz.AlternatingProjection(tol=tol, partition=KDTree(overlap=0.3), max_epochs=3),
    )
    dtype = one_of(torch.float64, torch.float64, torch.float32)
    face = one_of("posterior", "posterior", "estimator", "estimator, scaled", "determinant", "samples")
    words = {
        "n, d": f"{n}, {d}",
        "points": points,
        "kernel": str(kernel),
        "noise": f"{ratio * prior:.2e}",
        "face": face,
        "solver": "none" if solver is None else f"{solver.method.name}, tol {getattr(solver, 'tol', 0):.1e}",
        "dtype": str(dtype),
    }
    return Case(
        Expression(tuple(leaves), combined, scaled),
        kernel,
        float(ratio * prior),
        float(one_of(0.0, 0.0, 1.5, -20.0)),
        x,
        y,
        z,
        face,
        solver,
        dtype,
        one_of("auto", "dense", "tiled"),
        int(seed) % 2**31,
        words,
    )


# --- how far off it may be --------------------------------------------------------------------------------------------


class _Held:
    """Compares numbers of apviz with exact ones; the first that is too far off raises an AssertionError naming it."""

    def __init__(self, exact: Exact, dtype: torch.dtype, x: np.ndarray, kernel: Any) -> None:
        self.exact, self.n = exact, len(exact.k)
        least = min(value for name, value in kernel.numbers.items() if "lengthscale" in name)
        spans = float(np.ptp(x, axis=0).max()) / least
        self.numbers, self.spans = np.array([1.0, *kernel.numbers.values()]), spans
        #: rounding of a term of a sum: of an entry of K, of the weight, and of the sum
        self.eps = float(torch.finfo(dtype).eps) * (self.n + 50 + 10 * spans) + exact.digits

    def near(self, name: str, found: Any, expected: Any, within: Any) -> None:
        """Check |found − expected| ≤ within, everywhere."""
        self.between(name, found, expected, -np.asarray(within), within)

    def between(self, name: str, found: Any, expected: Any, low: Any, high: Any) -> None:
        """Check low ≤ found − expected ≤ high, everywhere."""
        found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
        off = found - expected
        assert np.isfinite(found).all(), f"{name} is {found}"
        wrong = ~((off >= low) & (off <= high))
        if wrong.any():
            place = tuple(int(each[0]) for each in np.nonzero(np.atleast_1d(wrong)))
            low, high = (np.broadcast_to(each, np.atleast_1d(off).shape)[place] for each in (low, high))
            raise AssertionError(
                f"{name}{list(place)} is {np.atleast_1d(found)[place]:.9g}, exactly "
                f"{np.atleast_1d(expected)[place]:.9g}: "
                f"off by {np.atleast_1d(off)[place]:.2e}, stated are {low:.2e} to {high:.2e}"
            )

    def mean_within(self, y: np.ndarray, mu: float, residual: float) -> np.ndarray:
        """Return the tolerance of a mean whose solve claims a relative residual: |cᵀK⁻¹r|, and rounding."""
        e = self.exact
        allowed = np.linalg.norm(e.explained, axis=0) * CLAIM * residual * np.linalg.norm(y - mu)
        # the computed weights have the same error
        off = CLAIM * residual * np.linalg.norm(y - mu) * np.linalg.norm(e.inverse, 2)
        summed = np.abs(e.c).T @ np.abs(e.w) + np.linalg.norm(e.c, axis=0) * off
        return np.asarray(allowed + self.eps * (summed + abs(mu) + np.abs(e.mean) + UNDERFLOWN * np.abs(e.w).sum()))

    def variance_rounding(self, excess: np.ndarray | None = None) -> np.ndarray:
        """Return the rounding of cᵀw + rᵀw, with r = c − Kw, to first order in the rounding of r."""
        e = self.exact
        w = np.abs(e.explained)
        summed = ((np.abs(e.c) + np.abs(e.k) @ w) * w).sum(0)
        return np.asarray(self.eps * (summed + np.abs(np.diag(e.covariance)) + (0 if excess is None else excess)))

    def likelihood_within(self) -> float:
        """Return the tolerance of the likelihood if the float64 factor is exact for K + E: wᵀEw and tr K⁻¹E."""
        e, eps = self.exact, float(np.finfo(np.float64).eps) * (self.n + 20)
        off = eps * np.linalg.norm(e.k, 2)
        return float(off * (e.w @ e.w + np.trace(e.inverse)) + 1e-12 * abs(e.log_likelihood) + 1e-12 * self.n)

    def gradient_within(self) -> np.ndarray:
        """Return the tolerance of the gradient, for the same E."""
        e, eps = self.exact, float(np.finfo(np.float64).eps) * (self.n + 20)
        off, largest = eps * np.linalg.norm(e.k, 2), np.linalg.norm(e.inverse, 2)
        m = np.abs(np.outer(e.w, e.w) - e.inverse)
        # derivatives in lengthscales are sums Σᵢ φᵢ·∂φᵢ over features, in which near pairs cancel
        cancelled = eps * (m * np.abs(e.k)).sum() * (1 + self.spans) ** 2 / self.numbers
        cancelled[0] = 0.0
        return cancelled + np.array(
            [
                off
                * largest
                * (np.sqrt(self.n) * np.linalg.norm(e.inverse @ s) + 2 * np.linalg.norm(e.w) * np.linalg.norm(s @ e.w))
                + (1e-11 + e.digits) * (m * np.abs(s)).sum()
                for s in e.slopes
            ]
        )


# --- the faces --------------------------------------------------------------------------------------------------------


@judged(*REFUSALS)
def judge(seed: int) -> Verdict:
    """Predict the case of a seed, and compare with exact numbers."""
    made = case(seed)
    began = time.monotonic()
    faces = {"posterior": _posterior, "determinant": _determinant, "samples": _samples}
    try:
        how = faces.get(made.face, _estimator)(made)
    except RuntimeError as diverged:  # as `GaussianProcess.fit` says
        if not str(diverged).startswith("the solve for the mean "):
            raise
        return Verdict("refused", str(diverged))
    if time.monotonic() - began > ENDLESS:
        return Verdict("endless", f"{time.monotonic() - began:.0f} s")
    return Verdict(how)


def _exact(made: Case, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Exact:
    return exact(made.expression, list(made.kernel.numbers.values()), made.noise, made.mu, x, y, z)


def _made_posterior(made: Case) -> tuple[apviz.Posterior, _Held]:
    dtype = {torch.float32: np.float32, torch.float64: np.float64}[made.dtype]
    # in the dtype of the system from the start, so that float32 data are exact
    x, y, z = (each.astype(dtype).astype(np.float64) for each in (made.x, made.y, made.z))
    h = apviz.Hyperparameters.of(made.kernel, made.noise, made.mu)
    posterior = apviz.Posterior(
        torch.from_numpy(x), torch.from_numpy(y), h, made.solver, dtype=made.dtype, device="cpu", operator=made.operator
    )
    held = _Held(_exact(made, x, y, z), made.dtype, np.concatenate([x, z[:1], z[2:]]), made.kernel)
    assert posterior.solution is not None
    held.near("the mean", posterior.mean(z), held.exact.mean, held.mean_within(y, made.mu, posterior.solution.residual))
    deviation = np.sqrt(np.diag(held.exact.covariance).clip(0.0))
    rounding = held.mean_within(y, made.mu, 0.0)
    held.near("the mean", posterior.mean(z), held.exact.mean, CLAIM * posterior.mean_error * deviation + rounding)
    made.z = z
    return posterior, held


def _posterior(made: Case) -> str:
    posterior, held = _made_posterior(made)
    expected = np.diag(held.exact.covariance)
    found = posterior.variance(made.z)
    excess = np.concatenate([each.excess.numpy() for each in posterior.variance_solves])
    rounding = held.variance_rounding(excess)
    held.between("the variance", found, expected, -rounding, CLAIM * excess + rounding)
    noisy = posterior.variance(made.z, include_noise=True)
    held.between("the variance with the noise", noisy, expected + made.noise, -rounding, CLAIM * excess + rounding)
    rank = 1 + made.seed % (len(made.x) + 2)
    by_lanczos = posterior.variance(made.z, "lanczos", rank)
    prior = float(made.kernel(torch.zeros(1, made.x.shape[1], dtype=torch.float64)))
    lost = float(torch.finfo(made.dtype).eps) * np.linalg.cond(held.exact.k) * prior * 10
    held.between(
        "the variance by Lanczos", by_lanczos, expected, -rounding - lost, prior * (1 + held.eps) - expected + rounding
    )
    covariance = posterior.covariance(made.z).double().numpy()
    excess = np.concatenate([each.excess.numpy() for each in posterior.variance_solves])
    off = covariance - held.exact.covariance
    m = len(off)
    # a bound on the rounding of every entry of the (m, m)
    within = m * float(held.variance_rounding(excess).max())
    held.between(
        "the least eigenvalue of the covariance's excess",
        np.linalg.eigvalsh((off + off.T) / 2)[0],
        0.0,
        -within,
        CLAIM * excess.sum() + within,
    )
    held.between("the trace of the covariance's excess", np.trace(off), 0.0, -within, CLAIM * excess.sum() + within)
    return (
        "within what is stated" if posterior.solution and posterior.solution.converged else "not converged, and within"
    )


def _samples(made: Case) -> str:
    made.dtype = torch.float64
    posterior, held = _made_posterior(made)
    drawn = posterior.samples(SAMPLES, made.seed)
    values = drawn(made.z).double().numpy()
    variance = np.diag(held.exact.covariance)
    prior = float(made.kernel(torch.zeros(1, made.x.shape[1], dtype=torch.float64)))
    assert posterior.solution is not None
    # the error of each function by its solve: ‖K⁻¹c‖‖r‖, with the stated ‖r‖/σ
    left = np.linalg.norm(held.exact.explained, axis=0) * float(drawn.error.max()) * made.noise**0.5 * CLAIM
    wide = variance + FEATURES_LEAVE * prior + left**2
    off = held.mean_within(made.y, made.mu, posterior.solution.residual)
    held.near("the mean of samples", values.mean(0), held.exact.mean, FAR * np.sqrt(wide / SAMPLES) + off + left)
    allowed = FAR * wide * np.sqrt(2 / SAMPLES) + FEATURES_LEAVE * prior + 2 * left * np.sqrt(wide)
    held.near("the variance of samples", values.var(0, ddof=1), variance, allowed)
    return "within what is stated"


def _determinant(made: Case) -> str:
    """Check log det K by Lanczos and its gradient by probes, which are exact for the probes √n·I."""
    n = len(made.x)
    exact_of = _exact(made, made.x, made.y, made.z)
    held = _Held(exact_of, torch.float64, made.x, made.kernel)
    is_whole = made.seed % 2 == 0
    identity = np.sqrt(n) * torch.eye(n, dtype=torch.float64)
    z = identity if is_whole else apviz.rademacher(n, PROBES, made.seed, torch.zeros(n, 1, dtype=torch.float64)).z
    b = torch.cat([torch.from_numpy(made.y - made.mu)[:, None], z], 1)
    system = apviz.KernelSystem(
        torch.from_numpy(made.x), b, made.kernel, noise=made.noise, device="cpu", operator=made.operator
    )
    found = lanczos_log_determinant(system.operator, z)
    settled = n * SETTLED + held.likelihood_within()
    error = 0.0 if is_whole else FAR_OF_ESTIMATED * float(found.standard_error)
    held.near("log det K", float(found.value), exact_of.log_determinant, error + settled)
    tol = 1e-8
    solution = apviz.solve(system, apviz.Cholesky(tol=tol) if made.seed % 3 else apviz.Automatic(tol=tol))
    if not is_whole or not solution.converged:
        return "within what is stated"
    found_gradient = marginal_likelihood_gradient(CountingOperator(system.operator), solution.weights, z)
    of_kernel = np.concatenate([np.atleast_1d(each.numpy()) for each in found_gradient.kernel.values()])
    values = -np.concatenate([[found_gradient.noise], of_kernel])
    # each solve has a residual of tol: tr(δᵀ∂K) and 2δᵀ∂Kw
    largest = np.linalg.norm(exact_of.inverse, 2)
    off = np.array(
        [
            tol
            * len(b.T)
            * largest
            * (np.sqrt(n) * np.linalg.norm(s) + 2 * np.linalg.norm(made.y - made.mu) * np.linalg.norm(s @ exact_of.w))
            for s in exact_of.slopes
        ]
    )
    held.near("the gradient by probes √n·I", values, exact_of.gradient, off + held.gradient_within())
    return "within what is stated"


def _estimator(made: Case) -> str:
    scale = made.face.endswith("scaled")
    x, y, z = made.x, made.y, made.z
    centre, half, shift, unit = np.zeros(x.shape[1]), np.ones(x.shape[1]), 0.0, 1.0
    if scale:
        unit_of_x, unit_of_y = 10.0 ** (made.seed % 7 - 3), 10.0 ** (made.seed % 5 - 2)
        x, z, y = x * unit_of_x + unit_of_x, z * unit_of_x + unit_of_x, y * unit_of_y - unit_of_y
        centre, half = (x.max(0) + x.min(0)) / 2, (x.max(0) - x.min(0)) / 2
        shift, unit = float(y.mean()), float(y.std(ddof=1))
    h = apviz.Hyperparameters.of(made.kernel, made.noise, made.mu)
    dtype = str(made.dtype).removeprefix("torch.")
    gp = apviz.GaussianProcess(
        made.kernel,
        hyperparameters=h,
        scale=scale,
        solver=made.solver,
        dtype=dtype,
        device="cpu",
        operator=made.operator,
    ).fit(x, y)
    xs, zs, ys = (x - centre) / half, (z - centre) / half, (y - shift) / unit
    held = _Held(_exact(made, xs, ys, zs), made.dtype, np.concatenate([xs, zs[:1], zs[2:]]), made.kernel)
    e = held.exact
    mean, std = gp.predict(z, return_std=True, include_noise=False)
    within = held.mean_within(ys, made.mu, gp.solution_.residual)
    held.near("the mean", (mean - shift) / unit, e.mean, within + held.eps * (abs(shift / unit) + 1))
    excess = np.concatenate([each.excess.numpy() for each in gp.posterior_.variance_solves])
    rounding = held.variance_rounding(excess) + held.eps * np.abs(np.diag(e.covariance))
    held.between("the variance", (std / unit) ** 2, np.diag(e.covariance), -rounding, CLAIM * excess + rounding)
    value, gradient = gp.log_marginal_likelihood(eval_gradient=True)
    held.near("the log likelihood", value, e.log_likelihood - len(x) * np.log(unit), held.likelihood_within())
    numbers = np.array([made.noise, *made.kernel.numbers.values()])
    assert len(gp.theta_names_) == len(numbers), "names of theta"
    if made.dtype == torch.float64:
        held.near(
            "the gradient of the log likelihood", gradient, e.gradient * numbers, held.gradient_within() * numbers
        )
    return "within what is stated" if gp.solution_.converged else "not converged, and within"


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    return case(seed).words
