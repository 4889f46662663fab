"""The kernels of the fused engine, in Triton: a tile of K is evaluated, used and forgotten, all in registers.

A program owns BM rows and goes over the columns BN at a time. Features come transposed, (D, n), so that neighbouring
threads read neighbouring numbers. FORMS, PRODUCTS, STARTS and TERMS are what `Formula` has in `functions`, `starts` and
`terms`, a form with its integers; `numbers` are the shapes, then the weights.

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


@triton.jit
def product_kernel(
    x, z, u, out, numbers, n, m, p, each,
    FORMS: tl.constexpr, PRODUCTS: tl.constexpr, STARTS: tl.constexpr, TERMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, P: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """out[s] += k(x, z[s]) u[s], of the s-th `each` columns; programs (rows, sides, s), out (splits, n, p)."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    sides = tl.program_id(1) * P + tl.arange(0, P)
    split = tl.program_id(2)
    rows_in, sides_in = rows < n, sides < p
    total = tl.zeros((BM, P), dtype=tl.float32)
    for start in range(split * each, tl.minimum(m, (split + 1) * each), BN):
        columns = start + tl.arange(0, BN)
        columns_in = columns < m
        k = entries(
            x, z, n, m, rows, columns, rows_in, columns_in, numbers, FORMS, PRODUCTS, STARTS, TERMS, BM, BN
        )  # fmt: skip
        w = tl.load(
            u + columns.to(tl.int64)[:, None] * p + sides[None, :],
            mask=columns_in[:, None] & sides_in[None, :], other=0.0,
        )  # fmt: skip
        total = tl.dot(k, w, total, input_precision=PRECISION)
    at = out + split.to(tl.int64) * n * p + rows[:, None] * p + sides[None, :]
    inside = rows_in[:, None] & sides_in[None, :]
    tl.store(at, tl.load(at, mask=inside) + total, mask=inside)


@triton.jit
def vector_kernel(
    x, z, u, out, numbers, n, m, p, each,
    FORMS: tl.constexpr, PRODUCTS: tl.constexpr, STARTS: tl.constexpr, TERMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, P: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The same for one right-hand side (p = 1): one product an entry, where `tl.dot` would make sixteen."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    split = tl.program_id(2)
    rows_in = rows < n
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(split * each, tl.minimum(m, (split + 1) * each), BN):
        columns = start + tl.arange(0, BN)
        columns_in = columns < m
        k = entries(
            x, z, n, m, rows, columns, rows_in, columns_in, numbers, FORMS, PRODUCTS, STARTS, TERMS, BM, BN
        )  # fmt: skip
        total += k * tl.load(u + columns, mask=columns_in, other=0.0)[None, :]
    at = out + split.to(tl.int64) * n + rows
    tl.store(at, tl.load(at, mask=rows_in) + tl.sum(total, 1), mask=rows_in)


@triton.jit
def compensated_kernel(
    x, z, u, out, numbers, n, m, p, each,
    FORMS: tl.constexpr, PRODUCTS: tl.constexpr, STARTS: tl.constexpr, TERMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, P: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The products of `product_kernel` as sums of two float32 numbers: out (2 splits, n, p), a sum and its rounding.

    The rounding of each addition of a tile is kept exactly (two-sum; Knuth, The Art of Computer Programming, 4.2.2).
    """
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    sides = tl.program_id(1) * P + tl.arange(0, P)
    split = tl.program_id(2)
    rows_in, sides_in = rows < n, sides < p
    total = tl.zeros((BM, P), dtype=tl.float32)
    lost = tl.zeros((BM, P), dtype=tl.float32)
    for start in range(split * each, tl.minimum(m, (split + 1) * each), BN):
        columns = start + tl.arange(0, BN)
        columns_in = columns < m
        k = entries(
            x, z, n, m, rows, columns, rows_in, columns_in, numbers, FORMS, PRODUCTS, STARTS, TERMS, BM, BN
        )  # fmt: skip
        w = tl.load(
            u + columns.to(tl.int64)[:, None] * p + sides[None, :],
            mask=columns_in[:, None] & sides_in[None, :], other=0.0,
        )  # fmt: skip
        part = tl.dot(k, w, input_precision=PRECISION)
        after = total + part
        added = after - total
        lost += (total - (after - added)) + (part - added)
        total = after
    inside = rows_in[:, None] & sides_in[None, :]
    at = out + 2 * split.to(tl.int64) * n * p + rows[:, None] * p + sides[None, :]
    tl.store(at, total, mask=inside)
    tl.store(at + tl.cast(n, tl.int64) * p, lost, mask=inside)


@triton.jit
def double_kernel(
    x, z, u, out, numbers, n, m, p, each,
    FORMS: tl.constexpr, PRODUCTS: tl.constexpr, STARTS: tl.constexpr, TERMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, P: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The same in float64, without `tl.dot`: tiles are k(z, x), (BN, BM), so a thread sums over columns in registers.

    m ≥ BN: the last tile ends with the last column, and skips columns that an earlier tile has added. Masks would cost
    as much as the arithmetic; rows beyond n repeat the last one and are not stored.
    """
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    sides = tl.program_id(1) * P + tl.arange(0, P)
    split = tl.program_id(2)
    rows_in, sides_in = rows < n, sides < p
    near, everywhere = tl.minimum(rows, n - 1), tl.full((BM,), True, tl.int1)
    total = tl.zeros((P, BM), dtype=tl.float64)
    for start in range(split * each, tl.minimum(m, (split + 1) * each), BN):
        columns = tl.minimum(start, m - BN) + tl.arange(0, BN)
        columns_in = columns >= start
        k = entries(
            z, x, m, n, columns, near, tl.full((BN,), True, tl.int1), everywhere, numbers,
            FORMS, PRODUCTS, STARTS, TERMS, BN, BM,
        )  # fmt: skip
        w = tl.load(
            u + columns.to(tl.int64)[None, :] * p + sides[:, None],
            mask=columns_in[None, :] & sides_in[:, None], other=0.0,
        )  # fmt: skip
        total += tl.sum(w[:, :, None] * k[None, :, :], 1)
    at = out + split.to(tl.int64) * n * p + rows[None, :] * p + sides[:, None]
    inside = rows_in[None, :] & sides_in[:, None]
    tl.store(at, tl.load(at, mask=inside) + total, mask=inside)


@triton.jit
def fill_kernel(
    x, z, out, numbers, n, m,
    FORMS: tl.constexpr, PRODUCTS: tl.constexpr, STARTS: tl.constexpr, TERMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Out = k(x, z), (n, m)."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    rows_in, columns_in = rows < n, columns < m
    k = entries(x, z, n, m, rows, columns, rows_in, columns_in, numbers, FORMS, PRODUCTS, STARTS, TERMS, BM, BN)
    tl.store(out + rows[:, None] * m + columns[None, :], k, mask=rows_in[:, None] & columns_in[None, :])


@triton.jit
def derivatives_of_part(
    x, z, weights, features, sums, numbers, n, m, program, rows, columns, rows_in, columns_in,
    T: tl.constexpr, AT: tl.constexpr,
    FORMS: tl.constexpr, PRODUCTS: tl.constexpr, STARTS: tl.constexpr, TERMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """What the AT-th part of the T-th term adds to `features` and `sums` from a tile; `weights` are aᵢᵀbⱼ."""
    part: tl.constexpr = item(TERMS, T, AT)
    FORM: tl.constexpr = item(FORMS, part, 0)
    far, wide = tl.cast(n, tl.int64), tl.cast(m, tl.int64)
    u = between(
        x, z, n, m, rows, columns, rows_in, columns_in, STARTS[part], STARTS[part + 1], PRODUCTS[part], BM, BN
    )  # fmt: skip
    f = value_of(u, numbers, part, FORMS)
    others = weights
    if length(TERMS, T) > 1:
        others *= term(
            x, z, n, m, rows, columns, rows_in, columns_in, numbers, T, part, FORMS, PRODUCTS, STARTS, TERMS, BM, BN
        )  # fmt: skip
    if AT == 0:
        at = sums + program * (len(FORMS) + len(TERMS)) + len(FORMS) + T
        tl.store(at, tl.load(at) + tl.sum(tl.sum(others * f, 1), 0).to(tl.float64))
    by_value = tl.load(numbers + len(FORMS) + T) * others
    if FORM == "rational_quadratic":
        at = sums + program * (len(FORMS) + len(TERMS)) + part
        in_shape = tl.sum(tl.sum(-by_value * log_one_plus(u) * f, 1), 0)
        tl.store(at, tl.load(at) + in_shape.to(tl.float64))
    by_u = by_value * slope_of(u, numbers, part, FORMS)
    for k in range(STARTS[part], STARTS[part + 1]):
        right = tl.load(z + k * wide + columns, mask=columns_in, other=0.0)[None, :]
        if PRODUCTS[part]:
            by_feature = tl.sum(by_u * right, 1)
        else:  # of differences, so that nothing cancels
            left = tl.load(x + k * far + rows, mask=rows_in, other=0.0)[:, None]
            by_feature = 2.0 * tl.sum(by_u * (left - right), 1)
        into = features + k * far + rows
        tl.store(into, tl.load(into, mask=rows_in) + by_feature.to(tl.float64), mask=rows_in)


@triton.jit
def gradient_kernel(
    x, z, a, b, features, sums, numbers, n, m, p,
    FORMS: tl.constexpr, PRODUCTS: tl.constexpr, STARTS: tl.constexpr, TERMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, P: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Computes derivatives of Σᵢⱼ (aᵢᵀbⱼ) k(xᵢ, zⱼ).

    `features` (D, n) float64 += those in x; `sums` (programs, parts + terms) float64 = those in the shapes and in the
    weights.
    """
    program = tl.program_id(0).to(tl.int64)
    rows = program * BM + tl.arange(0, BM)
    rows_in = rows < n
    for start in range(0, m, BN):
        columns = start + tl.arange(0, BN)
        columns_in = columns < m
        weights = tl.zeros((BM, BN), dtype=tl.float32)
        for first in range(0, p, P):
            sides = first + tl.arange(0, P)
            of_rows = tl.load(
                a + rows[:, None] * p + sides[None, :], mask=rows_in[:, None] & (sides < p)[None, :], other=0.0
            )  # fmt: skip
            of_columns = tl.load(
                b + columns.to(tl.int64)[None, :] * p + sides[:, None],
                mask=columns_in[None, :] & (sides < p)[:, None], other=0.0,
            )  # fmt: skip
            weights = tl.dot(of_rows, of_columns, weights, input_precision=PRECISION)
        for t in tl.static_range(len(TERMS)):
            for i in tl.static_range(length(TERMS, t)):
                derivatives_of_part(
                    x, z, weights, features, sums, numbers, n, m, program, rows, columns, rows_in, columns_in, t, i,
                    FORMS, PRODUCTS, STARTS, TERMS, BM, BN,
                )  # fmt: skip
