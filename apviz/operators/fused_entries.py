"""Kernel entries of the fused engine, in Triton: a tile of K from features, by the formula of the kernel.

FORMS, PRODUCTS, STARTS and TERMS are what `Formula` has in `functions`, `starts` and `terms`, a form with its integers;
`numbers` are the shapes, then the weights. Features come transposed, (D, n), so that neighbouring threads read
neighbouring numbers.

Triton 3.6 cannot index a constexpr tuple that holds strings or tuples: `item` and `length` read it in Python. No loop
names a constexpr, which no version lets be named twice.

The dtype is that of the pointers. Number literals take the dtype of the tensor next to them in arithmetic; in `where`,
`maximum` and comparisons Triton 3.6 rounds them to float32, so there they must be exact in float32.
"""

# mypy: ignore-errors
# what Triton compiles is not Python: `constexpr` is no type, and names are bound at compile time
from __future__ import annotations

import triton
import triton.language as tl


@triton.constexpr_function
def item(table, i, j):
    """Return table[i][j] at compile time."""
    return table[i][j]


@triton.constexpr_function
def length(table, i):
    """Return len(table[i]) at compile time."""
    return len(table[i])


@triton.jit
def whole_power(base, DEGREE: tl.constexpr):
    """Compute base^DEGREE."""
    power = base * 0.0 + 1.0
    for _ in tl.static_range(DEGREE):
        power *= base
    return power


@triton.jit
def log_one_plus(u):
    """To rounding for small u too (Kahan): what 1 + u rounds away is in u / ((1 + u) − 1)."""
    above = 1.0 + u
    gained = above - 1.0
    return tl.where(gained == 0.0, u, tl.log(above) * (u / tl.where(gained == 0.0, 1.0, gained)))


@triton.jit
def decay(v):
    """exp(v) for v ≤ 0, to rounding in float64; below e⁻⁷⁰⁸ it is 0.

    The function that Triton links for float64 branches for every number, so that no two can be computed at once.
    """
    if v.dtype == tl.float64:
        # v = n log 2 + rest; adding 1.5 · 2⁵² rounds to the integer n, which is then in the lowest bits
        shifted = v * 1.4426950408889634 + 6755399441055744.0
        n = shifted - 6755399441055744.0
        rest = (v - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10  # n times the first is exact
        # (exp(rest) − 1 − rest) / rest² at |rest| ≤ log 2 / 2, interpolated at Chebyshev points: error 2e-17
        p = 2.510038549551032e-08 * rest + 2.7620088445409746e-07
        p = p * rest + 2.7557268459997064e-06
        p = p * rest + 2.4801521295954376e-05
        p = p * rest + 1.9841269863053618e-04
        p = p * rest + 1.3888888917213717e-03
        p = p * rest + 8.333333333330062e-03
        p = p * rest + 4.166666666662413e-02
        p = p * rest + 1.6666666666666669e-01
        p = p * rest + 5.000000000000001e-01
        f = (p * rest + 1.0) * rest + 1.0
        bits = f.to(tl.int64, bitcast=True) + (shifted.to(tl.int64, bitcast=True) << 52)
        f = tl.where(v < -708.0, 0.0, bits.to(tl.float64, bitcast=True))
    else:
        f = tl.exp(v)
    return f


@triton.jit
def root(u):
    """√u for u ≥ 0, to rounding in float64; below 2⁻¹⁰⁰ to 1e-15.

    A start in float32 and two steps of Goldschmidt's: the instruction of float64 branches for every number.
    """
    if u.dtype == tl.float64:
        start = tl.rsqrt(tl.maximum(u, 7.888609052210118e-31).to(tl.float32)).to(tl.float64)
        r = u * start
        half = 0.5 * start
        left = 0.5 - r * half
        r += r * left
        half += half * left
        r += (u - r * r) * half
    else:
        r = tl.sqrt(u)
    return r


@triton.jit
def bracket(r, Q: tl.constexpr, J: tl.constexpr):
    """1 + c₁r + c₂r² + c₃r³ of the piecewise polynomial (Rasmussen & Williams, equation 4.21)."""
    c1: tl.constexpr = 0.0 if Q == 0 else J + Q
    c2: tl.constexpr = (J * J + 4 * J + 3) / 3.0 if Q == 2 else ((6 * J * J + 36 * J + 45) / 15.0 if Q == 3 else 0.0)
    c3: tl.constexpr = (J * J * J + 9 * J * J + 23 * J + 15) / 15.0 if Q == 3 else 0.0
    return 1.0 + r * (c1 + r * (c2 + r * c3)), c1 + r * (2 * c2 + r * 3 * c3)


@triton.jit
def value(u, FORM: tl.constexpr, A: tl.constexpr, B: tl.constexpr, shape):
    """f(u), as `native_forms.h` has it."""
    r = root(u)
    if FORM == "rbf":
        f = decay(-u)
    elif FORM == "matern12":
        f = decay(-r)
    elif FORM == "matern32":
        f = (1.0 + r) * decay(-r)
    elif FORM == "matern52":
        f = (1.0 + r + u * (1.0 / 3.0)) * decay(-r)
    elif FORM == "rational_quadratic":
        f = decay(-shape * log_one_plus(u))
    elif FORM == "inner_product":
        f = u
    elif FORM == "equal":
        f = tl.where(u == 0.0, 1.0, 0.0).to(u.dtype)
    elif FORM == "power":
        f = whole_power(u, A)
    else:
        tl.static_assert(FORM == "piecewise", "a form that the fused engine lacks")
        polynomial, _ = bracket(r, A, B)
        f = whole_power(tl.maximum(1.0 - r, 0.0), A + B) * polynomial
    return f


@triton.jit
def slope(u, FORM: tl.constexpr, A: tl.constexpr, B: tl.constexpr, shape):
    """f′(u); 0 where it has none."""
    r = root(u)
    if FORM == "rbf":
        f = -decay(-u)
    elif FORM == "matern12":
        f = tl.where(r > 0.0, decay(-r) / (-2.0 * tl.where(r > 0.0, r, 1.0)), 0.0)
    elif FORM == "matern32":
        f = -0.5 * decay(-r)
    elif FORM == "matern52":
        f = (1.0 + r) * decay(-r) * (-1.0 / 6.0)
    elif FORM == "rational_quadratic":
        f = -shape / (1.0 + u) * decay(-shape * log_one_plus(u))
    elif FORM == "inner_product":
        f = u * 0.0 + 1.0
    elif FORM == "equal":
        f = u * 0.0
    elif FORM == "power":
        f = A * whole_power(u, A - 1)
    else:
        tl.static_assert(FORM == "piecewise", "a form that the fused engine lacks")
        left = tl.maximum(1.0 - r, 0.0)
        polynomial, derivative = bracket(r, A, B)
        # c₂ − (j + q) c₁ + (j + q)(j + q − 1)/2, with c₁ = j + q
        at_zero: tl.constexpr = (
            0.0
            if A == 0
            else (
                ((B * B + 4 * B + 3) / 3.0 if A == 2 else ((6 * B * B + 36 * B + 45) / 15.0 if A == 3 else 0.0))
                - (A + B) * (A + B + 1) / 2.0
            )
        )
        inside = left * derivative - (A + B) * polynomial
        # beyond the support 0⁰ is 1
        factor = tl.where(left > 0.0, whole_power(left, A + B - 1), 0.0)
        apart = factor * inside / (2.0 * tl.where(r > 0.0, r, 1.0))
        f = tl.where(r > 0.0, apart, at_zero)
    return f


@triton.jit
def between(
    x, z, n, m, rows, columns, rows_in, columns_in,
    START: tl.constexpr, END: tl.constexpr, OF_PRODUCT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """U of a part, (BM, BN): squared distances of features START to END, or their products."""
    u = tl.zeros((BM, BN), dtype=x.dtype.element_ty)
    n, m = tl.cast(n, tl.int64), tl.cast(m, tl.int64)  # D n may be more than 32 bits hold
    for k in range(START, END):
        left = tl.load(x + k * n + rows, mask=rows_in, other=0.0)[:, None]
        right = tl.load(z + k * m + columns, mask=columns_in, other=0.0)[None, :]
        if OF_PRODUCT:
            u += left * right
        else:
            gap = left - right
            u += gap * gap
    return u


@triton.jit
def value_of(u, numbers, PART: tl.constexpr, FORMS: tl.constexpr):
    """f(u) of a part."""
    FORM: tl.constexpr = item(FORMS, PART, 0)
    A: tl.constexpr = item(FORMS, PART, 1)
    B: tl.constexpr = item(FORMS, PART, 2)
    return value(u, FORM, A, B, tl.load(numbers + PART))


@triton.jit
def slope_of(u, numbers, PART: tl.constexpr, FORMS: tl.constexpr):
    """f′(u) of a part."""
    FORM: tl.constexpr = item(FORMS, PART, 0)
    A: tl.constexpr = item(FORMS, PART, 1)
    B: tl.constexpr = item(FORMS, PART, 2)
    return slope(u, FORM, A, B, tl.load(numbers + PART))


@triton.jit
def factor(
    x, z, n, m, rows, columns, rows_in, columns_in, numbers,
    T: tl.constexpr, AT: tl.constexpr, WITHOUT: tl.constexpr,
    FORMS: tl.constexpr, PRODUCTS: tl.constexpr, STARTS: tl.constexpr, TERMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The AT-th part of a term, (BM, BN); ones for the part `WITHOUT`."""
    part: tl.constexpr = item(TERMS, T, AT)
    found = tl.zeros((BM, BN), dtype=x.dtype.element_ty) + 1.0
    if part != WITHOUT:
        u = between(
            x, z, n, m, rows, columns, rows_in, columns_in,
            STARTS[part], STARTS[part + 1], PRODUCTS[part], BM, BN,
        )  # fmt: skip
        found = value_of(u, numbers, part, FORMS)
    return found


@triton.jit
def term(
    x, z, n, m, rows, columns, rows_in, columns_in, numbers, T: tl.constexpr, WITHOUT: tl.constexpr,
    FORMS: tl.constexpr, PRODUCTS: tl.constexpr, STARTS: tl.constexpr, TERMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The product of the parts of the T-th term, but for `WITHOUT` of them, (BM, BN)."""
    product = tl.zeros((BM, BN), dtype=x.dtype.element_ty) + 1.0
    for i in tl.static_range(length(TERMS, T)):
        product *= factor(
            x, z, n, m, rows, columns, rows_in, columns_in, numbers, T, i, WITHOUT,
            FORMS, PRODUCTS, STARTS, TERMS, BM, BN,
        )  # fmt: skip
    return product


@triton.jit
def entries(
    x, z, n, m, rows, columns, rows_in, columns_in, numbers,
    FORMS: tl.constexpr, PRODUCTS: tl.constexpr, STARTS: tl.constexpr, TERMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """A tile of k, (BM, BN)."""
    k = tl.zeros((BM, BN), dtype=x.dtype.element_ty)
    for t in tl.static_range(len(TERMS)):
        weight = tl.load(numbers + len(FORMS) + t)
        k += weight * term(
            x, z, n, m, rows, columns, rows_in, columns_in, numbers, t, -1, FORMS, PRODUCTS, STARTS, TERMS, BM, BN
        )  # fmt: skip
    return k
