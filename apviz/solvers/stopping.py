"""Stopping: the limits of a solve, what only B − KW in float64 may claim, and when going on is in vain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.operators.tiled import TiledOperator
from apviz.solvers.interface import StopReason

# roundings of an entry of K and its product: of distance, exponential and sum, however long, for sums are of chunks
ROUNDINGS_PER_ENTRY = 8.0
# of the tolerance, that rounding in float64 may be without being looked at
NEGLIGIBLE_TOL_SHARE = 1e-3


@dataclass(frozen=True)
class Limits:
    """Limits of a run: it may end below `tol` after `minimum` epochs, and ends after `maximum`.

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
    """Evaluates the residual in float64: what a user would find, not what the operator's dtype believes in.

    In float32 both K and B − KW are rounded, by up to the condition number more than W is: where σ² is small, the
    residual of the rounded K may be below the tolerance while that of K is far above it.

    What float64 itself rounds is bounded too, and added where it may be more than a thousandth of the tolerance.

    Args:
        operator: K, in the solver's order of rows; what is evaluated here counts as its work.
    """

    def __init__(self, operator: CountingOperator) -> None:
        exact = TiledOperator(operator.given, operator.kernel, operator.noise, torch.float64, direct=True)
        exact.fix_engine(0.0, 1)
        self._operator = operator.of(exact)
        # an input is rounded by its size, its differences and so the entries of K by twice that
        largest = float(exact.inputs.abs().max())
        self._roundings = torch.finfo(torch.float64).eps * (ROUNDINGS_PER_ENTRY + 2.0 * largest)
        self._trace = exact.n * (exact.kernel.outputscale + exact.noise)

    def residual(self, b: Tensor, w: Tensor, tol: float) -> tuple[Tensor, Tensor]:
        """Computes B − KW, (n, l+1), in the dtype of b, and its (l+1,) squared norms. Evaluates n² entries.

        Rounding is at most so many ‖K|W|‖, which is at most tr(K)‖W‖; it is evaluated where that may matter for `tol`.
        """
        columns, w = w.shape[1], w.double()
        norms = torch.linalg.vector_norm(w, dim=0)
        rounding = self._roundings * self._trace * norms
        is_small = bool(
            (rounding <= NEGLIGIBLE_TOL_SHARE * tol * torch.linalg.vector_norm(b, dim=0, dtype=torch.float64)).all()
        )
        products = self._operator.matmul(w if is_small else torch.cat([w, w.abs()], dim=1))
        r = products[:, :columns].neg_().add_(b)
        found: Tensor = torch.linalg.vector_norm(r, dim=0)
        if not is_small:
            found += self._roundings * torch.linalg.vector_norm(products[:, columns:], dim=0)
        return r.to(b.dtype), found.square()


class Checks:
    """Keeps the recomputed residuals of one solve.

    Args:
        dtype: of the system.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._seen: list[tuple[float, float]] = []  # (residual, energy)
        self._claimed: list[float] = []
        self._rounding = 0.0

    def aim(self, tol: float) -> float:
        """Returns how small the recursion's residual must be before B − KW is asked: `tol`, until a claim was false.

        The recursion's residual and what rounding adds to B − KW are independent, so their squares add up.
        """
        return math.sqrt(max(tol**2 - self._rounding**2, (0.5 * tol) ** 2))

    def add(self, claimed: float | None, checked: float, energy: float) -> None:
        """Adds a check that found the tolerance not met.

        Args:
            claimed: the recursion's mean relative residual where it was below the aim, else None.
            checked: that of B − KW.
        """
        self._seen.append((checked, energy))
        if claimed is not None:
            self._claimed.append(checked)
            self._rounding = math.sqrt(max(0.0, checked**2 - claimed**2))

    def stagnation(self) -> str | None:
        """Says why going on is in vain, or None: three claims were false, or three checks found no progress."""
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
