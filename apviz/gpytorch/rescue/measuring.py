"""Measurement of a model under the current GPyTorch settings, and its distance from Cholesky in float64.

The random numbers of the process stay unchanged.
"""

from __future__ import annotations

import contextvars
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch import settings
from torch import Tensor

from apviz.gpytorch.cg import record_cg
from apviz.gpytorch.rescue.copying import Copy
from apviz.spectrum import SUBSAMPLE_ROWS, Method, largest_eigenvalue
from apviz.tracing import Recorder, Trace

#: relative residual above which a solve failed; visible error of a mean or variance, relative to the predictive one
LARGE_RESIDUAL, LARGE_SHARE = 0.1, 0.1
#: error of the log marginal likelihood per row that the randomness of probes cannot explain
LARGE_ERROR = 1.0


@dataclass(frozen=True, eq=False)
class Exact:
    """The reference: the model solved by Cholesky in float64.

    Args:
        k: (…, N, N) K with the noise, N = rows times outputs.
        b: (…, N) targets minus the prior mean.
        signal: mean of k(x, x), without the noise.
        noise: mean of the noise that the likelihood adds to it.
        gradient: of the log marginal likelihood in all parameters, concatenated.
        gradient_scale: its norm, or the norm of its data term if that is larger.
        log_likelihood: of the training rows, per row.
        mean, variance: of f at the test inputs; the variance without the noise.
        nearest, smallest: median over rows of the largest prior correlation with another row; smallest correlation.
        test_nearest: (m,) largest correlation of each test row with a training row; None if not known.
        falling_noise: nats that the log likelihood gains per unit decrease of log σ², to first order; None if the
            noise is not a single number.
    """

    k: Tensor
    b: Tensor
    signal: float
    noise: float
    gradient: Tensor
    gradient_scale: float
    log_likelihood: float
    mean: Tensor
    variance: Tensor
    nearest: float
    smallest: float
    test_nearest: Tensor | None
    falling_noise: float | None

    @property
    def n(self) -> int:
        return int(self.k.shape[-1])

    def kappa(self) -> tuple[float, str]:
        """Return κ = λmax/λmin, and its label: with ≈ if it is an estimate."""
        k = self.k.reshape(-1, self.n, self.n)[0]
        if self.n <= SUBSAMPLE_ROWS:
            values = torch.linalg.eigvalsh(k)
            smallest = float(values[0])
            return (float(values[-1]) / smallest if smallest > 0 else math.inf), "κ ="
        return largest_eigenvalue(k, steps=20)[0] / max(self.noise, torch.finfo(k.dtype).tiny), "κ ≈ λmax/σ² ="


@dataclass(frozen=True, eq=False)
class Solved:
    """The results of one way of solving, compared with `Exact`.

    Args:
        trace: of GPyTorch's CG in training; None if it did not run.
        unconverged: traces of CG that ended above its tolerance.
        residual: ‖b − Kw‖/‖b‖ in float64, w from the training step.
        all_residuals: the same, averaged over targets and probes, in GPyTorch's precision; NaN if no CG ran.
        gradient: error of the log marginal likelihood's gradient, including the probes' error, relative to
            `Exact.gradient_scale`, because the gradient itself vanishes at an optimum.
        mean: largest error, in predictive standard deviations.
        variance: largest ratio between the variances with noise, at least 1.
        negative: number of predicted variances of f below 0 that are positive by Cholesky in float64.
        log_likelihood: of the training rows, per row.
        log_likelihood_error: its absolute error.
        jitter: whether jitter was added to the diagonal for a Cholesky factor.
        error: message of a raised exception, or empty.
    """

    trace: Trace | None
    unconverged: tuple[Trace, ...]
    residual: float
    all_residuals: float
    gradient: float
    mean: float
    variance: float
    negative: int
    log_likelihood: float
    log_likelihood_error: float
    jitter: bool
    error: str

    @property
    def complains(self) -> bool:
        """Whether GPyTorch warned that CG ended before its tolerance."""
        return any(trace.outcome != "stagnated" for trace in self.unconverged)

    @property
    def by_cg(self) -> bool:
        """Whether GPyTorch ran CG at all."""
        return self.trace is not None or bool(self.unconverged)

    @property
    def trains(self) -> bool:
        """Whether the results that training uses are accurate enough."""
        solved = self.residual <= LARGE_RESIDUAL and not self.all_residuals > LARGE_RESIDUAL
        return self.log_likelihood_error <= LARGE_ERROR and solved

    @property
    def predicts(self) -> bool:
        """Whether the errors of predictions are too small to see."""
        return self.is_near and not self.negative

    @property
    def is_near(self) -> bool:
        """Whether means, and variances with the noise, are accurate enough."""
        return self.mean <= LARGE_SHARE and self.variance <= 1 + LARGE_SHARE

    @property
    def is_good(self) -> bool:
        return not self.error and self.trains and self.predicts

    def figures(self) -> dict[str, str]:
        """Format the errors of residual, gradient, mean and variance."""
        return {
            "residual": f"{self.residual:.2g}",
            "gradient off by": f"{self.gradient:.2g}" if self.gradient < 0.095 else f"{self.gradient:.0%}",
            "means off by": f"{self.mean:.2g} sd",
            "variances off by": f"{self.variance - 1:.2g}" if self.variance < 2 else f"{self.variance:.2g} times",
        }


Context = Callable[[], AbstractContextManager[Any]]


@contextmanager
def exactly() -> Iterator[None]:
    """Make GPyTorch use Cholesky at any size."""
    with (
        settings.max_cholesky_size(10**9),
        settings.fast_computations(False, False, False),
        settings.fast_pred_var(False),
        settings.fast_pred_samples(False),
        settings.skip_logdet_forward(False),
        settings.skip_posterior_variances(False),
    ):
        yield


def natively(do: Callable[[], Any]) -> Any:
    """Run `do` with unchanged GPyTorch, also inside `alternating_projection()`, with the same random numbers."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(0)
        return contextvars.Context().run(do)


def exact(given: Copy) -> Exact:
    """Solve a model by Cholesky in float64; raises GPyTorch's error if even that fails."""

    def solve() -> Exact:
        double = given.double()
        with exactly(), settings.debug(False), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value, w, gradient = _train(double)
            scale = max(float(gradient.norm()), _data_term(double, w))
            with torch.no_grad():
                prior = double.model(*double.inputs)
                marginal = double.likelihood(prior)
                k, plain = marginal.covariance_matrix.detach(), prior.covariance_matrix.detach()
                b = _flat(double.targets, marginal) - marginal.loc.detach()
            mean, variance, _ = _predict(double)
        diagonal = plain.diagonal(dim1=-1, dim2=-2)
        noise = float((k.diagonal(dim1=-1, dim2=-2) - diagonal).clamp_min(0).mean())
        correlations = _correlations(plain)
        correlations.diagonal(dim1=-1, dim2=-2).zero_()
        nearest = float(correlations.amax(-1).median())
        correlations.diagonal(dim1=-1, dim2=-2).fill_(1.0)
        return Exact(
            k, b, float(diagonal.mean()), noise, gradient, scale, value, mean, variance, nearest,
            float(correlations.min()), _test_nearest(double), _falling_noise(double, k, w, noise),
        )  # fmt: skip

    found: Exact = natively(solve)
    return found


def _correlations(covariance: Tensor) -> Tensor:
    root = covariance.diagonal(dim1=-1, dim2=-2).clamp_min(torch.finfo(covariance.dtype).tiny).rsqrt()
    return (covariance * root[..., :, None] * root[..., None, :]).abs()


def _test_nearest(given: Copy) -> Tensor | None:
    """Return the largest prior correlation of each test row with a training row, (m,)."""
    n = given.rows
    given.model.train()
    try:
        together = [torch.cat([x, z.to(x)], -2) for x, z in zip(given.inputs, given.test_inputs, strict=True)]
        with torch.no_grad():
            covariance = given.model.forward(*together).covariance_matrix
    except Exception:  # a model may raise anything on inputs of another length
        return None
    if covariance.shape[-1] != together[0].shape[-2]:
        return None  # several outputs
    return _correlations(covariance)[..., n:, :n].amax(-1).flatten()


def _falling_noise(given: Copy, k: Tensor, w: Tensor, noise: float) -> float | None:
    """Return −∂ log p / ∂ log σ² = ½σ²(tr K⁻¹ − wᵀw)."""
    own = getattr(given.likelihood, "noise", None)
    if k.ndim != 2 or not isinstance(own, Tensor) or own.numel() != 1:
        return None
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(k))
    return float(0.5 * noise * (inverse.trace() - w.square().sum()))


def extreme_eigenvalues(given: Copy) -> tuple[float, float] | None:
    """Return λmin and λmax of K in float64; None if it cannot be evaluated, or is not finite."""

    def find() -> tuple[float, float] | None:
        double = given.double()
        with settings.debug(False), warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            try:
                k = double.likelihood(double.model(*double.inputs)).lazy_covariance_matrix.to_dense()
                values = torch.linalg.eigvalsh(k)
            except Exception:  # a model may raise anything
                return None
        return (float(values.min()), float(values.max())) if values.isfinite().all() else None

    found: tuple[float, float] | None = natively(find)
    return found


def solved(
    given: Copy,
    truth: Exact | None,
    context: Context = nullcontext,
    *,
    is_apviz: bool = False,
    spectrum: Method | None = "subsample",
) -> Solved:
    """Train one step and predict once, under the current settings and `context`, next to the truth if it is known.

    GPyTorch's CG is recorded unless apviz solves inside `context`.
    """
    recorder = Recorder(spectrum=spectrum)

    def solve() -> Solved:
        nan, error = math.nan, ""
        w = gradient = mean = variance = raw = None
        value, trained = nan, 0
        # filter warnings around the recorder, so that its warning about an empty record is dropped
        with warnings.catch_warnings(record=True) as caught, ExitStack() as stack:
            warnings.simplefilter("always")
            stack.enter_context(settings.debug(False))
            stack.enter_context(context())
            if not is_apviz:
                stack.enter_context(record_cg(recorder))
            try:
                value, w, gradient = _train(given)
                trained = len(recorder.traces)
                mean, variance, raw = _predict(given)
            except Exception as raised:  # the user sees the same error
                error = f"{type(raised).__name__}: {raised}"
        traces = recorder.traces
        comparable = truth is not None and w is not None and w.shape[-1] == truth.n
        residual = _residual(truth, w) if truth is not None and w is not None and comparable else nan
        far = _distances(truth, mean, variance) if truth is not None and mean is not None else (nan, nan)
        off = nan
        if truth is not None and gradient is not None and gradient.shape == truth.gradient.shape:
            off = float((gradient - truth.gradient).norm()) / truth.gradient_scale
        training = next((t for t in traces[:trained]), None)
        checked = nan if training is None else float(training["epoch"]["checked_residual"][-1])
        return Solved(
            training, tuple(t for t in traces if not t.converged), residual, checked, off, *far,
            negative=0 if raw is None else _negative(raw, truth),
            log_likelihood=value,
            log_likelihood_error=nan if truth is None else abs(value - truth.log_likelihood),
            jitter=any("jitter" in str(w.message) for w in caught),
            error=error,
        )  # fmt: skip

    found: Solved = natively(solve)
    return found


def _flat(targets: Tensor, marginal: Any) -> Tensor:
    """Return the targets in the order of the distribution's covariance."""
    if targets.shape == marginal.loc.shape:
        return targets
    interleaved = getattr(marginal, "_interleaved", True)
    return (targets if interleaved else targets.transpose(-1, -2)).reshape(marginal.loc.shape)


def _train(given: Copy) -> tuple[float, Tensor, Tensor]:
    """Return the log marginal likelihood per row, the solved w = K⁻¹(y − m), (…, N), and the gradient, float64.

    The gradient of the value in y is −w, with every solver of GPyTorch.
    """
    given.model.train()
    given.likelihood.train()
    parameters = _parameters(given)
    with torch.enable_grad():
        y = given.targets.detach().clone().requires_grad_()
        marginal = given.likelihood(given.model(*given.inputs))
        value = marginal.log_prob(y).sum()
        by_y, *found = torch.autograd.grad(value, [y, *parameters], allow_unused=True)
    gradient = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
    flat = torch.cat([g.detach().double().reshape(-1) for g in gradient]) if gradient else y.new_zeros(0).double()
    return float(value.detach()) / y.numel(), -_flat(by_y, marginal).detach().double(), flat


def _parameters(given: Copy) -> list[Tensor]:
    every = {id(p): p for module in (given.model, given.likelihood) for p in module.parameters()}
    return [p for p in every.values() if p.requires_grad]


def _data_term(given: Copy, w: Tensor) -> float:
    """Return ‖½wᵀ∂Kw‖, which balances ½tr(K⁻¹∂K) at an optimum: the scale for errors of the gradient."""
    parameters = _parameters(given)
    if not parameters:
        return 0.0
    with torch.enable_grad():
        k = given.likelihood(given.model(*given.inputs)).covariance_matrix
        half = 0.5 * (w * (k @ w[..., None])[..., 0]).sum()
        found = torch.autograd.grad(half, parameters, allow_unused=True)
    return float(torch.cat([g.reshape(-1) for g in found if g is not None]).norm())


def _predict(given: Copy) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and variance of f at the test inputs in float64, and the variance before clamping."""
    given.model.eval()
    given.likelihood.eval()
    with torch.no_grad():
        found = given.model(*given.test_inputs)
        covariance = found.lazy_covariance_matrix
        raw = covariance.diagonal(dim1=-1, dim2=-2).double()
        return found.loc.double(), raw.clamp_min(0), raw


def _negative(raw: Tensor, truth: Exact | None) -> int:
    is_positive = torch.ones_like(raw) if truth is None else truth.variance.reshape(raw.shape) > 0
    return int(((raw < 0) & is_positive.bool()).sum())


def _residual(truth: Exact, w: Tensor) -> float:
    left = truth.b - (truth.k @ w.reshape(truth.b.shape)[..., None])[..., 0]
    return float((left.norm(dim=-1) / truth.b.norm(dim=-1)).mean())


def _distances(truth: Exact, mean: Tensor | None, variance: Tensor | None) -> tuple[float, float]:
    if mean is None or variance is None:
        return math.nan, math.nan
    noisy = truth.variance + truth.noise
    ratio = (variance + truth.noise) / noisy
    off = (mean.reshape(truth.mean.shape) - truth.mean).abs() / noisy.sqrt()
    return float(off.max()), float(torch.maximum(ratio, ratio.reciprocal()).max())
