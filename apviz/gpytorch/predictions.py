"""Predictions inside a context: means and covariances, differentiable once in the model and twice in test inputs.

With C = k(X, Z), w = K⁻¹(y − m) and W = K⁻¹C, the mean is Cᵀw, the covariance k(Z, Z) − CᵀW, and their derivatives are

    d(gᵀCᵀw) = gᵀ dCᵀ w − vᵀ dK w + vᵀ d(y − m) with v = K⁻¹Cg, one more solve,
    d tr(G(k(Z, Z) − CᵀK⁻¹C)) = tr(G dk(Z, Z)) − 2 tr(G dCᵀ W) + tr(G Wᵀ dK W) for symmetric G.

For second derivatives in Z (create_graph=True), autograd differentiates C and k(Z, Z) itself, and W by dW = K⁻¹ dC:
one solve for the first derivative, and one for the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from linear_operator import to_linear_operator
from linear_operator.operators import LinearOperator
from torch import Tensor

from apviz.gp.prediction.posterior import Posterior
from apviz.gpytorch.covariances import without_gradient
from apviz.gpytorch.solves import Solves
from apviz.operators import Operator
from apviz.operators.derivatives import CrossDerivatives

NO_SECOND_DERIVATIVES = (
    "apviz.gpytorch differentiates predictions twice in test inputs, but only once in the model (create_graph=True and "
    "Hessians need two): take differences of its gradients, or differentiate twice outside "
    "alternating_projection()"
)


@dataclass(frozen=True, eq=False)
class Dependence:
    """The tensors at training inputs that a prediction depends on, with their graph; residual: (n,) y − m."""

    residual: Tensor
    noise: Tensor
    x: Tensor
    tensors: tuple[Tensor, ...]

    def all(self) -> tuple[Tensor, ...]:
        """Return all tensors in a fixed order."""
        return self.residual, self.noise, self.x, *self.tensors


def means(posterior: Posterior, solves: Solves, z: Tensor, prior: Dependence | None) -> Tensor:
    """Predict the mean minus the prior's: z (m, d), to (m,); differentiable in z and in `prior`."""
    if prior is None:
        return posterior.mean(z.detach()).to(z)
    found: Tensor = _Mean.apply(posterior, z)  # type: ignore[no-untyped-call]
    in_model: Tensor = _MeanInModel.apply(posterior, solves, z.detach(), *prior.all())  # type: ignore[no-untyped-call]
    return found + in_model


def covariances(posterior: Posterior, solves: Solves, z: Tensor, size: int, prior: Dependence | None) -> Tensor:
    """Predict covariances within groups of `size` test inputs: z (m, d), to (m ÷ size, size, size)."""
    found, w = posterior.covariance_of_groups(z.detach(), size, solves.hooks)
    if prior is None:
        return found.to(z)
    in_inputs: Tensor = _Covariances.apply(posterior, solves, found, w, z)  # type: ignore[no-untyped-call]
    in_model: Tensor = _CovariancesInModel.apply(posterior, w, size, z.detach(), *prior.all())  # type: ignore[no-untyped-call]
    return in_inputs + in_model


# The dependence on the model is a separate function of value 0. Its gradients take a solve, or passes over K; autograd
# skips them where only gradients in test inputs are needed, as in acquisition functions.


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, posterior: Posterior, z: Tensor) -> Tensor:
        ctx.posterior = posterior
        ctx.save_for_backward(z)
        return posterior.mean(z.detach()).to(z)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (z,), posterior = ctx.saved_tensors, ctx.posterior
        operator, w = posterior.double.uncounted, posterior.weights[:, None]
        if torch.is_grad_enabled():
            mean = (w.double().T @ operator.differentiable_columns(z)).squeeze(0)
            return None, *torch.autograd.grad(mean, z, g.to(mean), create_graph=True)
        return None, operator.cross_derivatives(z, g.to(w)[:, None], w).z.to(z)


class _MeanInModel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, posterior: Posterior, solves: Solves, z: Tensor, *prior: Tensor) -> Tensor:
        ctx.posterior, ctx.solves, ctx.z = posterior, solves, z
        ctx.save_for_backward(*prior)
        return z.new_zeros(len(z))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (residual, noise, x, *tensors), posterior, z = ctx.saved_tensors, ctx.posterior, ctx.z
        with torch.no_grad():
            operator, w = posterior.double.uncounted, posterior.weights[:, None]
            of_c = operator.cross_derivatives(z, g.to(w)[:, None], w)
            v = posterior.solve(operator.cross_columns(z) @ g.to(w), ctx.solves.hooks)
            of_k = operator.bilinear_derivatives(v[:, None], -w, with_inputs=True)
            by_x = (of_c.inputs + of_k.inputs).to(x)
            found = [v.to(residual), of_k.noise.to(noise), by_x, *_added(tensors, of_c.kernel, of_k.kernel)]
        return (None, None, None, *_once(found, (*ctx.saved_tensors, g)))


class _Covariances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, posterior: Posterior, solves: Solves, found: Tensor, w: Tensor, z: Tensor) -> Tensor:
        ctx.posterior, ctx.solves, ctx.w = posterior, solves, w  # w has no gradient
        ctx.save_for_backward(z)
        return found.to(z)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (z,), operator = ctx.saved_tensors, ctx.posterior.double.uncounted
        if torch.is_grad_enabled():
            c = operator.differentiable_columns(z)
            w = _Inverse.apply(ctx.posterior, ctx.solves, c, ctx.w)  # type: ignore[no-untyped-call]
            c, w = (each.reshape(len(c), -1, g.shape[-1]) for each in (c, w))
            prior = torch.stack([operator.differentiable_prior(rows) for rows in torch.split(z, g.shape[-1])])
            covariance = prior - torch.einsum("ngi,ngj->gij", c, w)
            return None, None, None, None, *torch.autograd.grad(covariance, z, g.to(covariance), create_graph=True)
        of_prior, of_c, _ = _by_groups(operator, z, ctx.w, g)
        return None, None, None, None, (torch.cat([each.z for each in of_prior]) + of_c.z).to(z)


class _Inverse(torch.autograd.Function):
    """K⁻¹C, whose derivative is K⁻¹ dC; w: its value, if it is known."""

    @staticmethod
    def forward(ctx: Any, posterior: Posterior, solves: Solves, c: Tensor, w: Tensor | None) -> Tensor:
        ctx.posterior, ctx.solves = posterior, solves
        return (posterior.solve(c.to(posterior.weights), solves.hooks) if w is None else w).to(c)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return None, None, _Inverse.apply(ctx.posterior, ctx.solves, g, None), None  # type: ignore[no-untyped-call]


class _CovariancesInModel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, posterior: Posterior, w: Tensor, size: int, z: Tensor, *prior: Tensor) -> Tensor:
        ctx.posterior, ctx.w, ctx.z = posterior, w, z
        ctx.save_for_backward(*prior)
        return z.new_zeros(len(z) // size, size, size)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (_, noise, x, *tensors), operator = ctx.saved_tensors, ctx.posterior.double.uncounted
        with torch.no_grad():
            of_prior, of_c, wg = _by_groups(operator, ctx.z, ctx.w, g)
            of_k = operator.bilinear_derivatives(wg.contiguous(), ctx.w.contiguous(), with_inputs=True)
            by_tensors = _added(tensors, of_c.kernel, of_k.kernel, *(each.kernel for each in of_prior))
            found = [None, of_k.noise.to(noise), (of_c.inputs + of_k.inputs).to(x), *by_tensors]
        return (None, None, None, None, *_once(found, (*ctx.saved_tensors, g)))


def _by_groups(
    operator: Operator, z: Tensor, w: Tensor, g: Tensor
) -> tuple[list[CrossDerivatives], CrossDerivatives, Tensor]:
    """Return derivatives of tr(G k(Z, Z)) per group and of −2 tr(G CᵀW), and WG; g: (groups, size, size)."""
    half, size = 0.5 * (g + g.mT).to(w), g.shape[-1]
    wg = torch.einsum("ngi,gij->ngj", w.reshape(len(w), -1, size), half).reshape(w.shape)
    of_prior = [
        operator.prior_derivatives(rows, weight) for rows, weight in zip(torch.split(z, size), half, strict=True)
    ]
    # a weighted sum of entries (i, x) with weights −2 (WG)ᵀ: each test input has its own column of weights
    of_c = operator.cross_derivatives(z, torch.eye(len(z), dtype=w.dtype, device=w.device), -2 * wg)
    return of_prior, of_c, wg


def _added(tensors: list[Tensor], *by_name: dict[str, Tensor]) -> list[Tensor]:
    """Return sums of derivatives, in the order of the kernel's hyperparameters."""
    totals = [sum(each[name] for each in by_name) for name in by_name[0]]
    return [torch.as_tensor(total).to(tensor) for total, tensor in zip(totals, tensors, strict=True)]


def _once(found: Sequence[Tensor | None], depends_on: tuple[Tensor, ...]) -> list[Tensor | None]:
    """Return gradients that raise when they are differentiated again."""
    return [None if each is None else without_gradient(each, depends_on, NO_SECOND_DERIVATIVES) for each in found]


class _Solved(LinearOperator):  # type: ignore[misc]
    """A symmetric operator whose diagonal and entries are solved for on first use, and cached."""

    def _transpose_nonbatch(self) -> Any:
        return self

    def _matmul(self, rhs: Tensor) -> Tensor:
        product: Tensor = self.to_dense() @ rhs
        return product

    def evaluate_kernel(self) -> Any:
        return to_linear_operator(self.to_dense())

    # GPyTorch takes operators apart and rebuilds them: keep the solved entries, so that nothing is solved twice
    def representation(self) -> Any:
        return self.evaluate_kernel().representation()

    def representation_tree(self) -> Any:
        return self.evaluate_kernel().representation_tree()

    def _unsqueeze_batch(self, dim: int) -> Any:
        return self.evaluate_kernel()._unsqueeze_batch(dim)


class PosteriorCovariance(_Solved):
    """The covariance of f at test inputs z: (m, d) given the data, solved for on first use.

    The diagonal alone, which is enough for variances, takes solves in batches. The whole matrix takes the same solves,
    and (n, m) and (m, m) arrays. Both are cached.

    Args:
        part_of: the covariance at more test inputs, and the positions of z in them. Solves of a part are solves of the
            whole, so that both have the same numbers.
    """

    def __init__(
        self,
        z: Tensor,
        posterior: Posterior,
        solves: Solves,
        prior: Dependence | None = None,
        part_of: tuple[PosteriorCovariance, slice] | None = None,
    ) -> None:
        super().__init__(z, posterior=posterior, solves=solves, prior=prior, part_of=part_of)
        self.z, self.posterior, self.solves, self.prior = z, posterior, solves, prior
        self.part_of = part_of
        self._variance: Tensor | None = None
        self._covariance: Tensor | None = None

    def _size(self) -> torch.Size:
        return torch.Size((len(self.z), len(self.z)))

    def _diagonal(self) -> Tensor:
        if self._variance is None:
            if self.part_of is not None:
                self._variance = self.part_of[0]._diagonal()[self.part_of[1]]
            elif self._covariance is not None:
                self._variance = self._covariance.diagonal()
            elif self.prior is not None:
                self._variance = covariances(self.posterior, self.solves, self.z, 1, self.prior)[:, 0, 0]
            else:
                self._variance = self.posterior.variance(self.z, hooks=self.solves.hooks).to(self.z)
        return self._variance

    def to_dense(self) -> Tensor:
        if self._covariance is None:
            if self.part_of is not None:
                self._covariance = self.part_of[0].to_dense()[self.part_of[1], self.part_of[1]]
            elif self.prior is not None:
                self._covariance = covariances(self.posterior, self.solves, self.z, len(self.z), self.prior)[0]
            else:
                found = self.posterior.covariance(self.z, hooks=self.solves.hooks)
                if self._variance is not None:  # keep them equal in spite of rounding
                    found.diagonal().copy_(self._variance)
                self._covariance = found.to(self.z)
        return self._covariance

    # LinearOperator's own indexing multiplies by ones and zeros, with batch dimensions that z does not have
    def _getitem(self, row_index: Any, col_index: Any, *batch_indices: Any) -> Any:
        for index in (row_index, col_index):
            if not isinstance(index, slice) and not (isinstance(index, Tensor) and index.dtype != torch.bool):
                what = "a mask" if isinstance(index, Tensor) else repr(index)
                raise IndexError(
                    f"a prediction was indexed with {what}; it takes an int, a slice or a tensor of positions, such "
                    "as mask.nonzero()[:, 0]; use unsqueeze(0) to add a dimension"
                )
        if isinstance(row_index, slice) and row_index == col_index:
            if row_index == slice(None):
                return self
            part_of = self, row_index
            return PosteriorCovariance(self.z[row_index], self.posterior, self.solves, self.prior, part_of)
        return self.evaluate_kernel()._getitem(row_index, col_index)

    def _get_indices(self, row_index: Tensor, col_index: Tensor, *batch_indices: Any) -> Tensor:
        if torch.equal(row_index, col_index):
            return self._diagonal()[row_index]
        return self.to_dense()[row_index, col_index]


def stacked(values: Sequence[Tensor], places: int, batch: torch.Size) -> Tensor:
    """Stack the values of a batch of models after the first `places` dimensions."""
    together = torch.stack(list(values), places)
    return together.reshape(*together.shape[:places], *batch, *together.shape[places + 1 :])


class Stacked(_Solved):
    """Covariances (*around, m, m) of a batch of models, stacked to (*around, *batch, m, m); solved for on first use."""

    def __init__(self, parts: Sequence[Any], places: int, batch: torch.Size) -> None:
        super().__init__(*parts, places=places, batch=batch)
        self.parts, self.places, self.batch = parts, places, batch

    def _size(self) -> torch.Size:
        *around, m, _ = self.parts[0].shape
        return torch.Size((*around, *self.batch, m, m))

    def _diagonal(self) -> Tensor:
        return stacked([part.diagonal(dim1=-1, dim2=-2) for part in self.parts], self.places, self.batch)

    def to_dense(self) -> Tensor:
        return stacked([part.to_dense() for part in self.parts], self.places, self.batch)

    def _getitem(self, row_index: Any, col_index: Any, *batch_indices: Any) -> Any:
        return self.evaluate_kernel()._getitem(row_index, col_index, *batch_indices)

    def _get_indices(self, row_index: Tensor, col_index: Tensor, *batch_indices: Any) -> Tensor:
        found: Tensor = self.evaluate_kernel()._get_indices(row_index, col_index, *batch_indices)
        return found
