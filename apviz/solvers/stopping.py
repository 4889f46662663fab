"""B − KW in float64, from the inputs as they were given: what alone may say that a solve has converged."""

from __future__ import annotations

import torch
from torch import Tensor

from apviz.operators import CountingOperator, Rows, make_operator

# rows up to which all of B − KW is computed in float64; a few hundredths of a second
ALL_ROWS = 2_048
# rows that are looked at beyond, n entries each
SAMPLE_ROWS = 512
# of the estimated correction, that are added to be on the safe side
STANDARD_ERRORS = 2.0
# roundings of an entry of K and its product: of distance, exponential and sum, however long, for sums are of chunks
ROUNDINGS = 8.0


class ExactResidual:
    """K in float64, for the residual that a user would find, not the one that the operator's dtype believes in.

    In float32 both K and B − KW are rounded, by up to the condition number more than W is: where σ² is small, the
    residual of the rounded K may be below the tolerance while that of K is far above it.

    Every norm returned includes a bound on what float64 itself rounds, so that what lies below a tolerance does so.

    Args:
        operator: K, in the solver's order of rows; what is evaluated here counts as its work.
    """

    def __init__(self, operator: CountingOperator) -> None:
        base = operator.operator
        self._counting = operator
        self._operator = make_operator("tiled", base.given, base.kernel, base.noise, torch.float64)
        self._operator.settle(0.0, 1)
        self._dtype, self._checks = base.x.dtype, 0
        # an input is rounded by its size, its differences and so the entries of K by twice that
        largest = float(self._operator.inputs.abs().max())
        self._roundings = torch.finfo(torch.float64).eps * (ROUNDINGS + 2.0 * largest)

    @property
    def is_small(self) -> bool:
        """Whether all rows are looked at."""
        return self._operator.n <= ALL_ROWS

    def residual(self, b: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """B − KW, (n, l+1), in the operator's dtype, and its (l+1,) squared norms. Evaluates n² entries."""
        r, rounding = self._rows(slice(0, self._operator.n), b, w)
        norms: Tensor = torch.linalg.vector_norm(r, dim=0) + torch.linalg.vector_norm(rounding, dim=0)
        return r.to(self._dtype), norms.square()

    def corrected(self, b: Tensor, w: Tensor, r: Tensor, squared: Tensor) -> Tensor:
        """(l+1,) squared norms of B − KW from those of r, which is B − KW in the operator's dtype.

        What float64 finds instead is looked at on random rows, half of them uniform, half where W is large, for
        there the most is rounded, and summed as Hansen & Hurwitz (1943) do: an estimate without bias, of which two
        standard errors are added. Evaluates n entries a row.
        """
        n, self._checks = self._operator.n, self._checks + 1
        weight = (w.double() / torch.linalg.vector_norm(w, dim=0, dtype=torch.float64).clamp_min(1e-300)).square()
        chance = 0.5 / n + 0.5 * weight.mean(1) / weight.mean(1).sum().clamp_min(1e-300)
        drawn = torch.multinomial(
            chance.cpu(), SAMPLE_ROWS, replacement=True, generator=torch.Generator().manual_seed(self._checks)
        )
        rows = drawn.to(w.device)
        exact, rounding = self._rows(rows, b, w)
        each = ((exact.abs() + rounding).square() - r[rows].double().square()) / chance[rows, None]
        correction: Tensor = each.mean(0) + STANDARD_ERRORS * each.std(0) / SAMPLE_ROWS**0.5
        return correction.add_(squared).clamp_min_(0.0)

    def _rows(self, rows: Rows, b: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """(B − KW) on some rows and a bound on its rounding, (|I|, l+1) in float64."""
        columns, w = w.shape[1], w.double()
        products = self._operator.rows_matmul(rows, torch.cat([w, w.abs()], dim=1))
        self._counting.entries += len(products) * self._operator.n
        return b[rows].double() - products[:, :columns], products[:, columns:].mul_(self._roundings)
