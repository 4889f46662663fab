"""What coloured projections with Fourier products cost, before they are built: for `auto` and for forecasts.

One product is timed on this machine; the rest is a few products and a price per row, measured on maps and survey data
from 100,000 to 1,000,000 rows (`benchmarks/results/maps.json`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from apviz.operators import Operator
from apviz.operators.fourier import FourierOperator
from apviz.operators.tiled import TiledOperator
from apviz.solvers.recommended import FEW_INPUTS
from apviz.solvers.residuals import SAMPLED_ROWS

#: fewest rows for which the set-up of a few seconds pays off
LEAST_ROWS = 30_000
#: seconds of a set-up: a constant for the series, and each row's share of partition and local solves
SETUP, SETUP_OF_ROW = 2.5, 50e-6
#: a sweep, and a pass in float64, in products of float32
SWEEP, PASS = 3.3, 5.0
#: usual sweeps: the first, and those for each factor of ten in the residual
FIRST, PER_DIGIT = 1.0, 0.8
#: factor of ten in the residual after which another pass is due
DIGITS_OF_PASS = 2.0
#: bytes of a row: its parts of local solves, transforms and near neighbours; and of a frequency in float64
BYTES_OF_ROW, BYTES_OF_MODE = 2500.0, 150.0


@dataclass(frozen=True)
class Expected:
    """What a solve is expected to cost.

    Args:
        setup, sweep, passed: seconds of the set-up, a sweep and a pass.
        sweeps, passes: their numbers.
        memory: bytes in addition to the data.
    """

    setup: float
    sweep: float
    passed: float
    sweeps: float
    passes: int
    memory: float

    @property
    def seconds(self) -> float:
        """The seconds of the solve."""
        return self.setup + self.sweeps * self.sweep + self.passes * self.passed


def with_fourier_products(
    operator: Operator, dtype: torch.dtype = torch.float32, error: float | None = None
) -> FourierOperator | None:
    """Return the Fourier operator of the same points; None where it does not support or reach something.

    Args:
        dtype, error: as of `FourierOperator`; of a Fourier operator, its own error remains.
    """
    if operator.x.device.type != "cpu" or not isinstance(operator, TiledOperator):  # nor shared by ranks
        return None
    if operator.x.shape[1] > FEW_INPUTS:
        return None
    if isinstance(operator, FourierOperator):
        return operator.in_dtype(dtype)
    try:
        found = FourierOperator(operator.given, operator.kernel, operator.noise_of(), dtype, error=error)
        found.prepare()
    except (ValueError, ImportError, MemoryError):
        return None
    return found


class _Measured(NamedTuple):
    """Seconds of a product in float32 and of an exact entry in float64, and the number of frequencies."""

    product: float
    entry: float
    modes: int


#: measurements of operators that are in use, by the number of right-hand sides
_MEASURED: WeakKeyDictionary[Operator, dict[int, _Measured | None]] = WeakKeyDictionary()


def expected(operator: Operator, columns: int, tol: float) -> Expected | None:
    """Estimate the cost of a solve for this number of right-hand sides; None where there are no Fourier products."""
    n = operator.n
    if n < LEAST_ROWS:
        return None
    known = _MEASURED.setdefault(operator, {})
    if columns not in known:
        known[columns] = _measured(operator, columns)
    if (found := known[columns]) is None:
        return None
    # a pass compares some rows of two products with exact ones
    passed = PASS * found.product + 2 * SAMPLED_ROWS * n * found.entry
    digits = math.log10(1.0 / tol)
    return Expected(
        setup=SETUP + SETUP_OF_ROW * n, sweep=SWEEP * found.product, passed=passed, sweeps=FIRST + PER_DIGIT * digits,
        passes=max(1, math.ceil(digits / DIGITS_OF_PASS)), memory=BYTES_OF_ROW * n + BYTES_OF_MODE * found.modes,
    )  # fmt: skip


def _measured(operator: Operator, columns: int) -> _Measured | None:
    fourier = with_fourier_products(operator)
    if fourier is None:
        return None
    exact = operator.exact()
    exact.prepare()
    return _Measured(fourier.seconds_of_product(columns), exact.seconds_of_entry(1), fourier.modes)
