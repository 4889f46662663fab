"""The kernels of the fused engine, in Triton: a tile of K is evaluated, used and forgotten, all in registers.

A program owns BM rows and goes over the columns BN at a time. `fused_entries.py` evaluates tiles, and says what the
arguments of the formula are.
"""

# mypy: ignore-errors
# what Triton compiles is not Python: `constexpr` is no type, and names are bound at compile time
from __future__ import annotations

import triton
import triton.language as tl

from apviz.operators.fused_entries import between, entries, item, length, log_one_plus, slope_of, term, value_of


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
