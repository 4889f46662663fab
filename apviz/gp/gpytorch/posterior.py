"""The covariance of a GPyTorch model's prediction, solved for by apviz when it is asked for."""

from __future__ import annotations

from typing import Any

import torch
from linear_operator import to_linear_operator
from linear_operator.operators import LinearOperator
from linear_operator.utils.memoize import cached
from torch import Tensor

from apviz.gp.gpytorch.solves import Solves, report
from apviz.gp.posterior import Posterior
from apviz.solvers import solve
from apviz.system import KernelSystem


class PosteriorCovariance(LinearOperator):  # type: ignore[misc]
    """The covariance of f at test inputs z: (m, d) given the data. Nothing is solved before it is asked for.

    The diagonal alone, which is all that variances need, takes solves in batches; the whole takes (n, m) and (m, m)
    arrays. Both stay.
    """

    def __init__(self, z: Tensor, posterior: Posterior, solves: Solves) -> None:
        super().__init__(z, posterior=posterior, solves=solves)
        self.z, self.posterior, self.solves = z, posterior, solves

    def _size(self) -> torch.Size:
        return torch.Size((len(self.z), len(self.z)))

    def _transpose_nonbatch(self) -> PosteriorCovariance:
        return self

    def _matmul(self, rhs: Tensor) -> Tensor:
        product: Tensor = self.to_dense() @ rhs
        return product

    @cached(name="diagonal")  # type: ignore[untyped-decorator]
    def _diagonal(self) -> Tensor:
        return self.posterior.variance(self.z, hooks=self.solves.hooks).to(self.z)

    @cached  # type: ignore[untyped-decorator]
    def to_dense(self) -> Tensor:
        return covariance(self.posterior, self.z, self.solves).to(self.z)

    def evaluate_kernel(self) -> Any:
        return to_linear_operator(self.to_dense())

    # GPyTorch takes operators apart and puts them together again: from what was solved, not to be solved anew
    def representation(self) -> Any:
        return self.evaluate_kernel().representation()

    def representation_tree(self) -> Any:
        return self.evaluate_kernel().representation_tree()


def covariance(posterior: Posterior, z: Tensor, solves: Solves) -> Tensor:
    """k(z, z) − CᵀK⁻¹C, (m, m), for C = k(X, z): one solve for W ≈ K⁻¹C, and one product with K for R = C − KW.

    CᵀK⁻¹C = WᵀKW + WᵀR + RᵀW + RᵀK⁻¹R, and the last term is left out: an error of second order in the residual, by
    which the covariance is too large in the order of positive semi-definite matrices.
    """
    s = posterior.system
    c = s.kernel(s.x, z.to(s.x))
    system = KernelSystem(s.x, c, s.kernel, s.noise, s.operator, s.dtype, s.device, dataset=s.dataset)
    solution = solve(system, solves.solver, solves.hooks)
    report(solution, solves.solver)
    w = solution.weights
    explained = (2 * c - s.operator.matmul(w)).T @ w
    return s.kernel(z.to(s.x)) - 0.5 * (explained + explained.T)
