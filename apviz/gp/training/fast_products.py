"""Products with K, and derivatives, by Fourier series for many rows of few inputs: in float64, where they are faster.

A solve chooses its products by itself. What surrounds solves, the gradient of a likelihood and log det K by Lanczos,
takes these. Errors E of the entries change log det K by at most ‖E‖/σ² nats a row, to first order. Here ‖E‖ is
estimated, not bounded: as √n times the largest measured error, which holds for errors without a pattern. The estimate
may be a share of σ².
"""

from __future__ import annotations

import math
from weakref import WeakKeyDictionary

import torch

from apviz.operators import CountingOperator, Operator
from apviz.operators.fourier.engine import LEAST_ROWS, SMALLEST, with_fourier_products

#: largest estimate of ‖E‖, as a share of σ²
ERROR_SHARE = 0.01
#: largest errors of an entry, relative to k(0): of gradients, and of values, which optimisers compare
GRADIENT_ERROR, VALUE_ERROR = 1e-6, 1e-7

#: operators with fast products by largest error, of operators that are in use
_FOUND: WeakKeyDictionary[Operator, dict[float, Operator | None]] = WeakKeyDictionary()


def with_fast_products(operator: CountingOperator, error: float) -> CountingOperator:
    """Return K with Fourier products in float64, or itself where these are not faster, or not exact enough.

    A product of one column and a few entries are timed.
    """
    plain = operator.uncounted
    if operator.converts_seconds or operator.n < LEAST_ROWS:
        return operator
    known = _FOUND.setdefault(plain, {})
    if error not in known:
        known[error] = _found(plain, error)
    found = known[error]
    return operator if found is None else operator.of(found)


def _found(operator: Operator, error: float) -> Operator | None:
    allowed = ERROR_SHARE * operator.noise / (math.sqrt(operator.n) * operator.largest_signal)
    if allowed < SMALLEST[torch.float64]:
        return None
    found = with_fourier_products(operator, torch.float64, min(allowed, error))
    if found is None or found.seconds_of_product(1) > operator.n**2 * operator.seconds_of_entry(1):
        return None
    return found
