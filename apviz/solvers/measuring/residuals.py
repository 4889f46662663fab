"""Evaluations of B − KW that may claim convergence, and certificates: how a residual is known, and its error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.solvers.state import column_inner, column_squares

Kind = Literal["exact", "bounded", "sampled"]
Certify = Literal["operator", "exact", "compensated"]

# Rounding below this share of the tolerance is neglected.
NEGLIGIBLE_TOL_SHARE = 1e-3
# Rounding errors of a float64 sum of n products, in addition to √n, because sums are made in chunks.
SUM_ROUNDINGS = 64.0
# The drift is estimated on this share of the rows, with a minimum number of rows.
LOOK_SHARE = 0.02
LOOK_ROWS = 256
# Rows on which approximate products are compared with exact ones; below `WORTH_ROWS` exact products cost as little.
SAMPLED_ROWS = 512
WORTH_ROWS = 4 * SAMPLED_ROWS
# Standard errors added to the mean square of the sampled differences: one claim in 30,000 fails, if it is normal.
STANDARD_ERRORS = 4.0
# An a-priori bound below this share of the tolerance needs no sample.
ENOUGH_TOL_SHARE = 0.05


@dataclass(frozen=True)
class Certificate:
    """How the residual of a solution is known.

    Args:
        kind: `exact`: from all kernel entries, in float64; `bounded`: on all rows, by products whose error is bounded;
            `sampled`: on all rows, by products whose error is measured on random rows.
        residual: mean over right-hand sides of ‖r_i‖/‖b_i‖, with `error` added if it may matter.
        error: of ‖r_i‖/‖b_i‖, the mean over right-hand sides: a bound, or for `sampled` an estimate from above
            (the root mean square of the differences, plus four standard errors).
        rows: number of random rows on which products were compared with exact ones; 0 unless `sampled`.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> apviz.solve(system, apviz.Cholesky()).certificate.kind
        'exact'
    """

    kind: Kind
    residual: float
    error: float
    rows: int = 0


class Measured(NamedTuple):
    """B − KW in float64 for some weights, with derived quantities, in the units of the run.

    Args:
        r: (n, l+1) B − KW.
        squared: (l+1,) its squared norms; if `rounding` may matter, of the norms plus `rounding`.
        rounding: (l+1,) bounds on the error of the norms: rounding, and the error of approximate products.
        energy: (l+1,) terms −½wᵀ(b + r) of h(W).
        energy_rounding: (l+1,) bounds on the error of these terms.
        kind, rows: those of the certificate.
    """

    r: Tensor
    squared: Tensor
    rounding: Tensor
    energy: Tensor
    energy_rounding: Tensor
    kind: Kind = "exact"
    rows: int = 0


class ExactResidual:
    """The residual of the K that the user gave, not of K rounded to the operator's dtype.

    In float32 both K and B − KW are rounded, by up to the condition number more than W is. If σ² is small, the residual
    of the rounded K may be below the tolerance while that of K is far above it. Rounding is bounded too, and added if
    it may exceed a thousandth of the tolerance.

    Args:
        products: evaluates K W for W in float64; None: the exact operator. Its `entry_rounding` bounds its error.
    """

    kind: Kind = "exact"

    def __init__(self, operator: CountingOperator, products: CountingOperator | None = None) -> None:
        self._exact = operator.exact()
        self._products = products or self._exact
        self._roundings = self._products.entry_rounding
        self._trace = float(self._exact.diagonal().sum())

    def residual(self, b: Tensor, w: Tensor, tol: float) -> Measured:
        """Compute B − KW, (n, l+1) in float64, its norms and h(W), by a product with K.

        The rounding bound is a multiple of ‖K|W|‖ ≤ tr(K)‖W‖; ‖K|W|‖ is evaluated if it may matter for `tol`.
        """
        columns, w, layout = w.shape[1], w.double(), self._products.layout
        norms, of_b = layout.sum(torch.stack([column_squares(w), column_squares(b)])).sqrt()
        eps, rounding = torch.finfo(torch.float64).eps, self._roundings * self._trace * norms
        is_small = bool((rounding <= NEGLIGIBLE_TOL_SHARE * tol * of_b).all())
        products = self._products.matmul(w if is_small else torch.cat([w, w.abs()], dim=1))
        r = products[:, :columns].neg_().add_(b)
        inner, squares = layout.sum(torch.stack([column_inner(w, b + r), column_squares(r)]))
        found = size = squares.sqrt()
        if not is_small:
            rounding = self._roundings * layout.sum(column_squares(products[:, columns:])).sqrt()
            found = size + rounding
        rounding = rounding + eps * of_b
        of_sum = eps * (SUM_ROUNDINGS + math.sqrt(self._products.n))
        energy_rounding = 0.5 * norms * (rounding + of_sum * (of_b + size))
        return Measured(r, found.square(), rounding, -0.5 * inner, energy_rounding, self.kind)

    def drift(self, r: Tensor, b: Tensor, w: Tensor, norms: Tensor, generator: torch.Generator) -> float:
        """Estimate the mean over columns of ‖r − (b − Kw)‖/‖b‖ from a few per cent of the rows; norms: ‖b‖."""
        n, layout = self._exact.n, self._exact.layout
        size = min(n, max(LOOK_ROWS, round(LOOK_SHARE * n)))
        rows = torch.randperm(n, generator=generator)[:size].to(r.device)
        missed = layout.take(r, rows) - (layout.take(b, rows) - self._exact.rows_matmul(rows, w.double()))
        return float((torch.linalg.vector_norm(missed, dim=0).cpu() / norms).mean()) * math.sqrt(n / size)


class BoundedResidual(ExactResidual):
    """The residual by float32 entries in compensated sums: float32 rounding of the entries is bounded and counted."""

    kind: Kind = "bounded"


class ApproximateResidual(ExactResidual):
    """The residual by approximate products in float64, such as Fourier products, with their error counted.

    The error ‖K̃W − KW‖ is at most √n ‖K̃ − K‖_max ‖W‖₁. If this bound is not negligible, the error is measured:
    exact rows of KW are compared with those of K̃W on random rows. The differences are alike on all rows, so few rows
    tell their norm well, unlike the norm of the residual itself.
    """

    kind: Kind = "bounded"

    def __init__(self, operator: CountingOperator, products: CountingOperator) -> None:
        super().__init__(operator, products)
        self._generator = torch.Generator().manual_seed(1)

    def residual(self, b: Tensor, w: Tensor, tol: float) -> Measured:
        """Compute B − K̃W as `ExactResidual` computes B − KW; norms include its error."""
        found, n = super().residual(b, w, tol), self._exact.n
        error, rows = math.sqrt(n) * self._products.entry_error * w.abs().sum(0), 0
        if bool((error > ENOUGH_TOL_SHARE * tol * torch.linalg.vector_norm(b.double(), dim=0)).any()):
            error, rows = torch.minimum(error, self._sampled(found.r, b, w)), SAMPLED_ROWS
        norms = found.squared.sqrt() + error
        return found._replace(
            squared=norms.square(), rounding=found.rounding + error, kind="sampled" if rows else "bounded", rows=rows,
            energy_rounding=found.energy_rounding + 0.5 * torch.linalg.vector_norm(w, dim=0) * error,
        )  # fmt: skip

    def _sampled(self, r: Tensor, b: Tensor, w: Tensor) -> Tensor:
        """Estimate ‖K̃W − KW‖ from above, (l+1,), from random rows, drawn again for each residual."""
        rows = torch.randperm(self._exact.n, generator=self._generator)[:SAMPLED_ROWS].to(r.device)
        squares = (r[rows] - (b[rows] - self._exact.rows_matmul(rows, w.double()))).square()
        above = squares.mean(0) + STANDARD_ERRORS / math.sqrt(SAMPLED_ROWS) * squares.std(0)
        return (self._exact.n * above).sqrt()


def residual_for(operator: CountingOperator, certify: Certify) -> ExactResidual:
    """Return the evaluation of B − KW for an operator; ValueError for compensated sums that its engine lacks."""
    if certify == "exact":
        return ExactResidual(operator)
    if certify == "compensated":
        return BoundedResidual(operator, operator.compensated())
    products = operator.certifying()
    if products.entry_error > 0 and operator.n >= WORTH_ROWS:
        return ApproximateResidual(operator, products)
    return ExactResidual(operator)
