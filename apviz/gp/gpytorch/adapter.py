"""GPyTorch in place: inside a context, exact GPs train and predict through apviz's solvers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from gpytorch import settings as gpytorch_settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.models import ExactGP
from linear_operator.operators import ZeroLinearOperator
from torch import Tensor

from apviz.gp.gpytorch.intercept import intercepted
from apviz.gp.gpytorch.marginal import PriorCovariance
from apviz.gp.gpytorch.models import Prior, noise_of, prior_at, prior_of
from apviz.gp.gpytorch.posterior import PosteriorCovariance
from apviz.gp.gpytorch.solves import LogDeterminant, Solves
from apviz.gp.posterior import Posterior
from apviz.hyperparameters import Hyperparameters
from apviz.solvers import AlternatingProjection, Hook, Solver

# what takes least time on most data (benchmarks/results/solvers)
OVERLAPPING = {"partition": "principal-axis-tree", "overlap": "auto", "history": "auto", "tol": 1e-2}


@contextmanager
def alternating_projection(
    block_size: int | Literal["auto"] = "auto",
    *,
    hooks: Sequence[Hook] = (),
    solver: Solver | None = None,
    probes: int | Tensor | None = None,
    log_determinant: LogDeterminant = "skip",
    operator: str = "auto",
    dataset: str = "",
    seed: int = 0,
    **settings: Any,
) -> Iterator[None]:
    """Inside, an `ExactGP` trains and predicts through apviz's solvers, with the code as it is.

    For a model with a `GaussianLikelihood`, any mean, and a Matérn or RBF kernel, alone or in a `ScaleKernel`, ARD or
    not, in float32 or float64; anything else raises at once and names the part. The n × n matrix is never formed.

    - **Training**: `ExactMarginalLogLikelihood` gets the paper's gradients. Its value leaves out log det K, which is
      said once, unless `log_determinant="lanczos"` asks for an estimate.
    - **Prediction**: mean, variance and covariance by solves, each when it is asked for, in the test inputs' order.
      They have no gradient but that of the mean module. The solve for the mean is kept while the model is the same.
    - GPyTorch's settings for CG, Cholesky and Lanczos have no say; `num_trace_samples`, `skip_logdet_forward`,
      `skip_posterior_variances` and `prior_mode` do.

    Holds for the thread that enters; other threads, and all code outside, find GPyTorch as it was. Contexts may be
    nested: the innermost counts. Distributions made inside stay apviz's after it.

    Args:
        block_size: rows a block owns, or `auto`.
        hooks: told about every solve, such as an `apviz.Recorder`.
        solver: any solver of apviz in place of alternating projection.
        probes: of the trace estimate; None: GPyTorch's `num_trace_samples` (10; the paper takes 15). Or an (n, l)
            tensor with ZZᵀ/l ≈ I, used in every step: √n·I makes the gradients exact.
        log_determinant: `skip`, or `lanczos` (stochastic Lanczos quadrature, some twenty products with K a step).
        operator, dataset: as of `apviz.KernelSystem`.
        seed: of the probes, which differ from step to step.
        settings: of `apviz.AlternatingProjection`, over those of an overlapping one at `tol=1e-2`.

    Raises:
        TypeError, ValueError: a setting out of range, or `solver` beside settings of alternating projection; inside,
            a model that apviz does not take.
    """
    if solver is not None and (block_size != "auto" or settings):
        raise ValueError("give solver, or block_size and settings of alternating projection, not both")
    chosen = solver or AlternatingProjection(block_size, **{**OVERLAPPING, **settings})
    models = _Models(Solves(chosen, hooks, probes, log_determinant, operator, dataset, seed))
    with intercepted(ExactGP, "__call__", models.call):
        yield


class _Models:
    """The models called inside one context."""

    def __init__(self, solves: Solves) -> None:
        self.solves = solves
        self._posteriors: WeakKeyDictionary[Any, Posterior] = WeakKeyDictionary()

    def call(self, call_next: Any, model: Any, *inputs: Any, **kwargs: Any) -> Any:
        """In place of `ExactGP.__call__`."""
        _check_settings()
        noise_of(model.likelihood)
        if model.training:
            output = call_next(model, *inputs, **kwargs)
            prior = prior_of(model, output)
            return type(output)(prior.mean, PriorCovariance.of(prior, self.solves))
        if gpytorch_settings.prior_mode.on() or model.train_inputs is None or model.train_targets is None:
            return call_next(model, *inputs, **kwargs)
        return self._predict(model, inputs, kwargs)

    def _predict(self, model: Any, inputs: Any, kwargs: Any) -> Any:
        test = prior_at(model, [i[:, None] if i.ndim == 1 else i for i in inputs], **kwargs)
        with torch.no_grad():
            posterior = self._posterior(model, prior_at(model, model.train_inputs, **kwargs))
        z = test.x.detach()
        mean = test.mean + posterior.mean(z).to(test.mean)
        if gpytorch_settings.skip_posterior_variances.on():
            return MultivariateNormal(mean, ZeroLinearOperator(len(z), len(z)))
        return MultivariateNormal(mean, PosteriorCovariance(z, posterior, self.solves))

    def _posterior(self, model: Any, prior: Prior) -> Posterior:
        """The posterior given the training data, solved once while nothing of it changes."""
        targets, kernel = model.train_targets, prior.parameters.kernel()
        if targets.ndim != 1:
            raise ValueError(f"the training targets have shape {tuple(targets.shape)}; apviz takes (n,), one batch")
        lengthscale = kernel.lengthscale if isinstance(kernel.lengthscale, tuple) else (kernel.lengthscale,)
        h = Hyperparameters(kernel.name, lengthscale, kernel.outputscale, float(noise_of(model.likelihood).detach()))
        x, y = prior.x, targets - prior.mean
        kept = self._posteriors.get(model)
        if kept and kept.hyperparameters == h and _same(kept.system.x, x) and _same(kept.system.b[:, 0], y):
            return kept
        found = Posterior(
            x, y, h, self.solves.solver, hooks=self.solves.hooks, dtype=x.dtype, device=x.device,
            operator=self.solves.operator, dataset=self.solves.dataset,
        )  # fmt: skip
        self._posteriors[model] = found
        return found


def _same(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a, b)


def _check_settings() -> None:
    """Refuses what GPyTorch was told to do and apviz does not.

    Raises:
        ValueError: naming the setting.
    """
    policy = gpytorch_settings.observation_nan_policy.value()
    if policy != "ignore":
        raise ValueError(f"gpytorch.settings.observation_nan_policy is {policy!r}; drop missing observations instead")
    if gpytorch_settings.fast_computations.log_prob.off():
        raise ValueError("gpytorch.settings.fast_computations(log_prob=False) asks for Cholesky of the n × n matrix")
