"""A context in which exact GPs of GPyTorch train and predict with apviz's solvers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from weakref import WeakKeyDictionary, WeakSet

import torch
from gpytorch import settings as gpytorch_settings
from gpytorch.likelihoods.multitask_gaussian_likelihood import _MultitaskGaussianLikelihoodBase
from gpytorch.mlls import LeaveOneOutPseudoLikelihood
from gpytorch.models import ExactGP
from linear_operator import to_linear_operator
from linear_operator.operators import LinearOperator, ZeroLinearOperator
from torch import Tensor

from apviz.gp.prediction.accuracy import require_accuracy
from apviz.gp.prediction.posterior import Posterior
from apviz.gpytorch.accuracy import Predicted, SolverContext
from apviz.gpytorch.covariances import PriorDistribution, marginal_of_tasks, prior_distribution
from apviz.gpytorch.expressions import Expression, UnevaluatedProduct
from apviz.gpytorch.intercept import intercepted
from apviz.gpytorch.kernels import check_batch
from apviz.gpytorch.leave_one_out import leave_one_out
from apviz.gpytorch.models import Prior, check_likelihood, check_rows, noise_in, noise_of, prior_at, prior_of
from apviz.gpytorch.predictions import Dependence, PosteriorCovariance, Stacked, covariances, means, stacked
from apviz.gpytorch.solves import LogDeterminantMethod, Solves
from apviz.hyperparameters import Hyperparameters
from apviz.solvers import Automatic, Hook, Solver, overlapping


@contextmanager
def alternating_projection(
    *,
    block_size: int | Literal["auto"] = "auto",
    hooks: Sequence[Hook] = (),
    solver: Solver | None = None,
    variance_solver: Solver | None = None,
    accuracy: float | None = None,
    probes: int | Tensor | None = None,
    log_determinant: LogDeterminantMethod = "auto",
    operator: str = "auto",
    dataset: str = "",
    seed: int = 0,
    **settings: Any,
) -> Iterator[SolverContext]:
    """Train and predict with apviz's solvers for every `ExactGP` inside the context; its code stays unchanged.

    The guide lists the models that are supported; an unsupported part raises at once and is named. The n × n
    matrix is never formed. GPyTorch's settings for CG, Cholesky and Lanczos have no effect; `num_trace_samples`,
    `deterministic_probes`, `skip_logdet_forward`, `skip_posterior_variances` and `prior_mode` do. The context holds for
    the current thread; of nested ones the innermost counts. Distributions made inside keep apviz's solves.

    Args:
        block_size: rows that a block owns, or `auto`.
        hooks: called in every solve, such as an `apviz.Recorder`.
        solver: any solver of apviz. None: alternating projection if `block_size` or its settings are given; otherwise
            `Automatic(tol=1e-2)` in training, and in predictions the choice of `apviz.Posterior`.
        variance_solver, accuracy: as in `apviz.Posterior`.
        probes: number of probes of the trace estimate. None: GPyTorch's `num_trace_samples` (10; the paper takes 15).
            Or an (n, l) tensor with ZZᵀ/l ≈ I, used in every step: √n·I makes the gradients exact.
        log_determinant: how log det K enters the value. `lanczos`: estimated by stochastic Lanczos quadrature. `skip`:
            left out, with one warning; raises inside an optimiser that compares values (L-BFGS, `scipy.optimize`,
            `fit_gpytorch_mll`). `auto`: exact where K is factored; inside such an optimiser, exact up to 2,000 rows and
            `lanczos` above, with solves to 1e-4; `skip` everywhere else.
        operator, dataset: as in `apviz.KernelSystem`.
        seed: of the probes.
        settings: of `apviz.AlternatingProjection`; the defaults are overlapping blocks and `tol=1e-2`.

    Yields:
        a `SolverContext`, which says how accurate the predictions are.

    Raises:
        TypeError, ValueError: a setting is out of range, or `solver` is given with settings of alternating projection.
    """
    if solver is not None and (block_size != "auto" or settings):
        raise ValueError("give solver, or block_size and settings of alternating projection, not both")
    require_accuracy(accuracy)
    if block_size != "auto" or settings:
        solver = overlapping(block_size=block_size, **settings)
    solves = Solves(solver or Automatic(), hooks, variance_solver, probes, log_determinant, operator, dataset, seed)
    models = _Models(solves, solver, accuracy)
    with (
        intercepted(ExactGP, "__call__", models.call),
        intercepted(ExactGP, "get_fantasy_model", models.fantasies),
        intercepted(ExactGP, "_clear_cache", models.forget),
        intercepted(LinearOperator, "mul", UnevaluatedProduct.instead),
        intercepted(_MultitaskGaussianLikelihoodBase, "marginal", marginal_of_tasks),
        intercepted(LeaveOneOutPseudoLikelihood, "forward", leave_one_out),
    ):
        yield models.context


class _Models:
    """The models that were called inside one context, and their posteriors."""

    def __init__(self, solves: Solves, solver: Solver | None, accuracy: float | None = None) -> None:
        self.solves, self.accuracy = solves, accuracy
        #: for predicted means; None: `Posterior` chooses
        self.solver = solver
        self.context = SolverContext(self.predict)
        self._posteriors: WeakKeyDictionary[Any, dict[int, Posterior]] = WeakKeyDictionary()
        self._checked: WeakSet[Any] = WeakSet()
        # of a fantasy model: the posteriors of the model that it was made from
        self._known: WeakKeyDictionary[Any, dict[int, Posterior]] = WeakKeyDictionary()

    def call(self, call_next: Any, model: Any, *inputs: Any, **kwargs: Any) -> Any:
        """Intercept `ExactGP.__call__`."""
        _check_settings()
        if model.training:
            output = call_next(model, *inputs, **kwargs)
            if isinstance(output, PriorDistribution):  # of the context around this one
                before = output.lazy_covariance_matrix.prior
                output = before.distribution(before.mean, before.covariance)
            prior = prior_of(model, output)
            check_likelihood(model.likelihood, prior.outputs)
            return prior_distribution(prior, self.solves)
        if gpytorch_settings.prior_mode.on() or model.train_inputs is None or model.train_targets is None:
            return call_next(model, *inputs, **kwargs)
        return self.predict(model, inputs, kwargs)

    def forget(self, call_next: Any, model: Any) -> None:
        """Intercept `ExactGP._clear_cache`, which `train()` and `load_state_dict()` call.

        A kernel of other code may have changed outside its parameters, and still compare equal.
        """
        self.context.forget(self._posteriors.pop(model, {}).values())
        call_next(model)

    def fantasies(self, call_next: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        """Intercept `ExactGP.get_fantasy_model`: add data to a model without GPyTorch's caches."""
        if model.training or model.prediction_strategy is not None:
            return call_next(model, *args, **kwargs)
        with torch.no_grad():
            model.prediction_strategy = _NoCaches(prior_at(model, model.train_inputs))
        try:
            made = call_next(model, *args, **kwargs)
        finally:
            model.prediction_strategy = None
        self._known[made] = dict(self._posteriors.get(model, {}))
        return made

    def _start(self, model: Any, k: int, x: Tensor) -> Tensor | None:
        """Return initial weights where the model's first rows are those of the model it was made from."""
        known = self._known.get(model, {})
        before = known.get(k if len(known) > 1 else 0)
        if before is None or not torch.equal(before.system.operator.given, x[: before.system.n]):
            return None
        return torch.cat([before.weights, before.weights.new_zeros(len(x) - before.system.n)])

    def predict(self, model: Any, inputs: Any, kwargs: Any) -> Any:
        """Return the posterior of a model at test inputs."""
        train = prior_at(model, model.train_inputs, **kwargs)
        if model not in self._checked:
            check_rows(model, train, **kwargs)
            self._checked.add(model)
        added = noise_of(model.likelihood, train, model.train_inputs)
        flat, around = _in_rows(inputs, train.batch)
        test = prior_at(model, flat, **kwargs)
        targets = _in_one_row(model.train_targets, train)
        made = list[tuple[Posterior, Tensor, Any]]()
        self.context.last.clear()
        found = [
            self._of_member(model, k, (train, test), targets, noise_in(added, train.members[k][0]), around, made)
            for k in range(len(train.members))
        ]
        if not train.batch:
            return test.distribution(*found[0])
        mean = stacked([each[0] for each in found], len(around), train.batch)
        return test.distribution(mean, Stacked([each[1] for each in found], len(around), train.batch))

    def _of_member(
        self,
        model: Any,
        k: int,
        priors: tuple[Prior, Prior],
        targets: Tensor,
        noise: Tensor,
        around: torch.Size,
        made: list[tuple[Posterior, Tensor, Any]],
    ) -> tuple[Tensor, Any]:
        """Return the mean (*around, m) and covariance (*around, m, m) of one model; priors: at both inputs.

        Models that differ in their targets alone share one covariance: `made` has those so far, at which z.
        """
        (member, train), (_, test) = (prior.members[k] for prior in priors)
        of_train, of_test = (member.of(prior.mean, 1) for prior in priors)
        residual, noise = member.of(targets, 1) - of_train, train.noise_with(noise)
        with torch.no_grad():
            posterior = self._posterior(model, k, train, residual, noise)
        z, dependence = test.x, _dependence(residual, train, noise, test.x)
        mean = of_test + means(posterior, self.solves, z, dependence).to(of_test)
        shape = torch.Size((*around, len(z) // max(around.numel(), 1)))
        mean = mean.reshape(shape)
        is_skipped = gpytorch_settings.skip_posterior_variances.on()
        of_same = (m for m in made if m[0].operator is posterior.operator and torch.equal(m[1], z))
        same = None if is_skipped or dependence is not None else next(of_same, None)
        self.context.last.append(Predicted(posterior, posterior if same is None else same[0], z.detach()))
        if is_skipped:
            return mean, ZeroLinearOperator(*shape, shape[-1], dtype=mean.dtype, device=mean.device)
        if same is not None:
            return mean, same[2]
        if around or test.jitter is not None:
            dense = covariances(posterior, self.solves, z, shape[-1], dependence)
            if test.jitter is not None:
                dense = dense + test.jitter.to(dense) * torch.eye(shape[-1]).to(dense)
            covariance = to_linear_operator(dense.reshape(*shape, shape[-1]))
        else:
            covariance = PosteriorCovariance(z, posterior, self.solves, dependence)
        made.append((posterior, z, covariance))
        return mean, covariance

    def _posterior(self, model: Any, k: int, train: Expression, y: Tensor, noise: Tensor) -> Posterior:
        """Return the posterior of model k given the training data; it is solved again only after a change."""
        h, x = Hyperparameters.of(train.kernel, float(noise.min())), train.x
        of_model = self._posteriors.setdefault(model, {})
        kept = of_model.get(k)
        if kept and kept.hyperparameters == h and _same_noise(kept, noise) and _same_data(kept, x, y):
            return kept
        start = self._start(model, k, x)
        for other in of_model.values():  # reuses the factors of the same K
            if other.hyperparameters == h and _same_noise(other, noise) and torch.equal(other.system.operator.given, x):
                of_model[k] = other.with_targets(y, self.solves.hooks, start)
                return of_model[k]
        of_model[k] = Posterior(
            x, y, h, self.solver, noises=noise if noise.ndim else None, hooks=self.solves.hooks,
            initial_weights=start, accuracy=self.accuracy,
            variance_solver=self.solves.variance_solver, dtype="auto", device=x.device,
            operator=self.solves.operator, dataset=self.solves.dataset,
        )  # fmt: skip
        return of_model[k]


class _NoCaches:
    """A stand-in for GPyTorch's prediction strategy: it tells `get_fantasy_model` the kind of prior."""

    def __init__(self, prior: Prior) -> None:
        self.train_prior_dist = prior.distribution(prior.mean, prior.covariance)

    def get_fantasy_strategy(self, *args: Any, **kwargs: Any) -> None:
        """Return None: there are no caches to extend."""


def _in_rows(inputs: Sequence[Tensor], batch: torch.Size) -> tuple[list[Tensor], torch.Size]:
    """Reshape test inputs (*around, *batch, m, d) to (*batch, rows, d), and return the shape around."""
    inputs = [i[:, None] if i.ndim == 1 else i for i in inputs]
    given = torch.broadcast_shapes(batch, *(i.shape[:-2] for i in inputs))  # type: ignore[no-untyped-call]
    around = torch.Size(given[: len(given) - len(batch)])
    places = len(around)
    order = [*range(places, places + len(batch)), *range(places)]
    wide = (i.expand(*given, *i.shape[-2:]).permute(*order, len(given), len(given) + 1) for i in inputs)
    return [each.reshape(*batch, -1, each.shape[-1]) for each in wide], around


def _in_one_row(targets: Tensor, train: Prior) -> Tensor:
    """Reshape training targets to (*batch, n), with the outputs of one row side by side."""
    n = train.mean.shape[-1]
    rows = (n,) if train.outputs is None else (n // train.outputs, train.outputs)
    if targets.shape[-len(rows) :] != rows:
        raise ValueError(f"the training targets have shape {tuple(targets.shape)}, the model takes (*batch, {rows})")
    check_batch("training targets", targets.shape[: -len(rows)], train.batch)
    return targets.reshape(*targets.shape[: -len(rows)], n)


def _dependence(residual: Tensor, train: Expression, noise: Tensor, z: Tensor) -> Dependence | None:
    """Return the tensors that a prediction at z is differentiated in; None where there are none."""
    found = Dependence(residual, noise, train.x, train.tensors)
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (z, *found.all()))
    return found if wanted else None


def _same_data(kept: Posterior, x: Tensor, y: Tensor) -> bool:
    pairs = (kept.system.operator.given, x), (kept.system.given_b[:, 0], y.double())
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)


def _same_noise(kept: Posterior, noise: Tensor) -> bool:
    noises = kept.system.operator.noises
    return not noise.ndim if noises is None else torch.equal(noises, noise.to(noises))


def _check_settings() -> None:
    """Refuse GPyTorch settings that apviz does not support."""
    policy = gpytorch_settings.observation_nan_policy.value()
    if policy != "ignore":
        raise ValueError(f"gpytorch.settings.observation_nan_policy is {policy!r}; drop missing observations instead")
    log_prob = gpytorch_settings.fast_computations.log_prob
    if log_prob.off() and not log_prob.is_default():  # BoTorch changes the default for all code
        raise ValueError(
            "gpytorch.settings.fast_computations(log_prob=False) requests Cholesky of the n × n matrix; leave it "
            "out, and use solver=apviz.Cholesky()"
        )
