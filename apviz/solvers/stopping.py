"""When a solve may end: its limits, what only B − KW in float64 may claim, and when going on is in vain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.operators import CountingOperator, Rows, make_operator
from apviz.solvers.interface import StopReason

# rows up to which all of B − KW is computed in float64; a few hundredths of a second
ALL_ROWS = 2_048
# rows that are looked at beyond, n entries each
SAMPLE_ROWS = 512
# of the estimated correction, that are added to be on the safe side
STANDARD_ERRORS = 2.0
# roundings of an entry of K and its product: of distance, exponential and sum, however long, for sums are of chunks
ROUNDINGS = 8.0


@dataclass(frozen=True)
class Limits:
    """When a run may end: below `tol` after `minimum` epochs, at the latest after `maximum`.

    Args:
        check_every: epochs between recomputations of the residual.
        look_every: updates between looks at the residual inside an epoch, which then may end early; 0: none.
    """

    tol: float
    minimum: int
    maximum: int
    check_every: int
    look_every: int = 0


class ExactResidual:
    """K in float64, for the residual that a user would find, not the one that the operator's dtype believes in.

    In float32 both K and B − KW are rounded, by up to the condition number more than W is: where σ² is small, the
    residual of the rounded K may be below the tolerance while that of K is far above it.

    Every norm returned includes a bound on what float64 itself rounds, so that what lies below a tolerance does so.

    Args:
        operator: K, in the solver's order of rows; what is evaluated here counts as its work.
    """

    def __init__(self, operator: CountingOperator) -> None:
        exact = make_operator("tiled", operator.given, operator.kernel, operator.noise, torch.float64)
        exact.fix_engine(0.0, 1)
        self._operator = operator.of(exact)
        self._dtype, self._checks = operator.x.dtype, 0
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
        return b[rows].double() - products[:, :columns], products[:, columns:].mul_(self._roundings)


class Checks:
    """The recomputed residuals of one solve.

    Args:
        dtype: of the system.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._seen: list[tuple[float, float]] = []  # (residual, energy)
        self._claimed: list[float] = []
        self._rounding = 0.0

    def aim(self, tol: float) -> float:
        """How small the recursion's residual must be before B − KW is asked: `tol`, until a claim was false.

        The recursion's residual and what rounding adds to B − KW are independent, so their squares add up.
        """
        return math.sqrt(max(tol**2 - self._rounding**2, (0.5 * tol) ** 2))

    def add(self, claimed: float | None, checked: float, energy: float) -> None:
        """A check that found the tolerance not met.

        Args:
            claimed: the recursion's mean relative residual where it was below the aim, else None.
            checked: that of B − KW.
        """
        self._seen.append((checked, energy))
        if claimed is not None:
            self._claimed.append(checked)
            self._rounding = math.sqrt(max(0.0, checked**2 - claimed**2))

    def stagnation(self) -> str | None:
        """Why going on is in vain, or None: three claims were false, or three checks found no progress."""
        if len(self._claimed) >= 3 and self._claimed[-1] > 0.9 * self._claimed[-3]:
            exact = self._dtype == torch.float64
            return (
                f"stagnated: the recursion in {self._dtype} claimed a residual below the tolerance three times, but "
                f"B − KW in float64 is {self._claimed[-1]:.2e}{', rounding included' if exact else ''}; use "
                f"{'more noise' if exact else 'float64'} or a larger tolerance"
            )
        if len(self._seen) < 3:
            return None
        (residual, energy), (now, energy_now) = self._seen[-3], self._seen[-1]
        within = 4 * torch.finfo(self._dtype).eps * max(abs(energy_now), 1e-300)
        progress = now <= 0.99 * residual or abs(energy - energy_now) > within
        return None if progress else StopReason.STAGNATED.value
