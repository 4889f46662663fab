"""Products with K, and derivatives, by Fourier series for many rows of few inputs: in float64, where they are faster.

A solve chooses its products by itself. What surrounds solves, the gradient of a likelihood and log det K by Lanczos,
takes these. Errors E of the entries change log det K by at most ‖E‖/σ² nats a row, to first order. ‖E‖ is taken to be
√n times the largest error, as of errors without a pattern: an estimate, of which a share of σ² is allowed.
"""

from __future__ import annotations

import math
from weakref import WeakKeyDictionary

import torch

from apviz.operators import CountingOperator, Operator
from apviz.operators.fourier import SMALLEST
from apviz.solvers.coloured_cost import LEAST_ROWS, with_fourier_products

#: largest √n times the error of an entry, as a share of σ², and largest error of an entry, relative to k(0)
ERROR_SHARE, LARGEST_ERROR = 0.01, 1e-6

#: operators with fast products, of operators that are in use
_FOUND: WeakKeyDictionary[Operator, Operator | None] = WeakKeyDictionary()


def with_fast_products(operator: CountingOperator) -> CountingOperator:
    """Return K with Fourier products in float64, or itself where these are not faster, or not exact enough.

    Faster is measured: by a product of one column, and some entries.
    """
    plain = operator.uncounted
    if operator.converts_seconds or operator.n < LEAST_ROWS:
        return operator
    if plain not in _FOUND:
        _FOUND[plain] = _found(plain)
    found = _FOUND[plain]
    return operator if found is None else operator.of(found)


def _found(operator: Operator) -> Operator | None:
    allowed = ERROR_SHARE * operator.noise / (math.sqrt(operator.n) * operator.largest_signal)
    if allowed < SMALLEST[torch.float64]:
        return None
    found = with_fourier_products(operator, torch.float64, min(allowed, LARGEST_ERROR))
    if found is None or found.seconds_of_product(1) > operator.n**2 * operator.seconds_of_entry(1):
        return None
    return found
