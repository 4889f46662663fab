"""The operator K = k(X, X) + σ²I, or with a separate noise for every point, without storing it.

An engine implements the product `_accumulate`, and may implement faster versions of `_fill` and `_gradients`, all
without noise; everything else is implemented once, here and in `derivatives.py`. Engines see features
(`kernels.formula`), not the inputs they were computed from. Each docstring gives the number of kernel entries
evaluated; `counting` adds them up.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from apviz.kernels import Kernel, centre_of, pairwise_distances
from apviz.operators.derivatives import Derivatives
from apviz.operators.layout import ALL_HERE, Layout, Rows
from apviz.operators.running_product import Count, RunningProduct
from apviz.settings import without_tf32

#: largest span of the inputs in lengthscales; its square is far inside the range of float32
MAX_SPAN = 1e9
#: rows and columns of the product that measures the rate of entries
RATED_ROWS = 1_000

# roundings of an entry of K and its product (distance, exponential, sum); long sums add no more, being chunked
ROUNDINGS_PER_ENTRY = 8.0

#: σ² of all rows, or (n,)
Noise = float | Tensor


def count(rows: Rows) -> int:
    """Count the rows that `rows` selects; a slice must have both ends."""
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def add_rows_(a: Tensor, rows: Rows, u: Tensor, factor: float = 1.0) -> None:
    """Add factor · u to a[rows] in place, without the copies that indexed assignment makes."""
    if isinstance(rows, slice):
        a[rows].add_(u, alpha=factor)
    else:
        a.index_add_(0, rows, u, alpha=factor)


class Operator(Derivatives):
    """An operator K = k(X, X) + σ²I for inputs x: (n, d), on one device in one dtype.

    Args:
        x: (n, d) inputs, in any floating dtype.
        kernel: k.
        noise: σ² > 0; or (n,), one for every row.
        dtype: of the entries; None: that of x.

    Attributes:
        given: x as passed.
        x: x in the operator's dtype.
        noise: σ²; if every row has its own, the smallest, a lower bound of the eigenvalues of K.
        noises: (n,) float64 if every row has its own; otherwise None.
        inputs: (n, D) features of the kernel's parts, computed from `given` in float64, in the operator's dtype.
        formula: k as a function of features, in numbers.
    """

    name: ClassVar[str]
    #: the rows of n × p arguments that this process holds: all, except with ranks
    layout: Layout = ALL_HERE
    #: bound on the error of an entry in products, beyond rounding; 0: products evaluate every entry
    entry_error: float = 0.0
    #: whether products evaluate no entries, so that their seconds count as work at the rate of entries
    converts_seconds: bool = False

    def __init__(self, x: Tensor, kernel: Kernel, noise: Noise, dtype: torch.dtype | None = None) -> None:
        self.given, self.kernel = x, kernel
        self.noises = noise.to(x.device, torch.float64) if isinstance(noise, Tensor) else None
        self.noise = float(noise if self.noises is None else self.noises.min())
        self.x = x.to(dtype or x.dtype)
        self._centre = centre_of(x)
        self._lowered = kernel.lowered(x.shape[1])
        self.formula = self._lowered.formula([part.shape[1] for part in self._lowered.features(x[:1], self._centre)])
        self.inputs = self.scaled(x)
        self._check_span()

    def _adopt(self, operator: Operator) -> None:
        """Copy the attributes of the operator that this one wraps."""
        self.given, self.kernel = operator.given, operator.kernel
        self.noise, self.noises = operator.noise, operator.noises
        self.x, self.inputs, self.formula = operator.x, operator.inputs, operator.formula
        self._centre, self._lowered = operator._centre, operator._lowered
        self.layout, self.entry_error = operator.layout, operator.entry_error
        self.converts_seconds = operator.converts_seconds
        self.name = operator.name  # type: ignore[misc]

    def _check_span(self) -> None:
        for function, (start, end) in zip(self.formula.functions, pairwise(self.formula.starts), strict=True):
            span = 2 * float(self.inputs[:, start:end].abs().max())
            if not (function.of_product or function.of_pairs or span < MAX_SPAN):
                raise ValueError(
                    f"the inputs span {span:.1e} lengthscales, more than {MAX_SPAN:.0e}: squared distances would "
                    "overflow; scale the inputs, or use a larger lengthscale"
                )

    def scaled(self, z: Tensor) -> Tensor:
        """Compute the features of inputs z: (m, d), in any floating dtype, scaled like `inputs`.

        Raises:
            RuntimeError: inside `torch.jit.trace`, which would repeat the numbers of this call for all inputs.
        """
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            raise RuntimeError(
                "torch.jit.trace records PyTorch's operations, but apviz solves outside of them: the trace would "
                "return these numbers for all inputs. Trace the feature network alone, or a GPyTorch model outside "
                "of alternating_projection()"
            )
        parts = self._lowered.features(z.to(self.x.device), self._centre)
        return torch.cat(parts, 1).to(self.x.dtype).contiguous()

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.x)

    @property
    def engine(self) -> str:
        """The engine that computes the entries, in words, for the trace."""
        return self.name

    @cached_property
    def entry_rounding(self) -> float:
        """An upper estimate of the relative rounding error of an entry, and of its product in a sum.

        Inputs are rounded relative to their size, and so differences, and the entries of K, by twice that.
        """
        largest = float(self.inputs.abs().max())
        return torch.finfo(self.x.dtype).eps * (ROUNDINGS_PER_ENTRY + 2.0 * largest)

    def product_error(self, dtype: torch.dtype) -> float:
        """Return the usual error of an entry in products in a dtype, relative to the largest entry."""
        return torch.finfo(dtype).eps

    @property
    def traffic(self) -> tuple[int, int] | None:
        """The number of messages of this rank, and the bytes of their payload; None for a single process."""
        return None

    def sharded(self) -> Operator:
        """Return K for a solve whose n × p arrays are shared by ranks; itself for a single process."""
        return self

    @property
    def whole(self) -> Operator:
        """K for arrays with all rows, in the same order."""
        return self

    def prepare(self, columns: int = 1) -> None:
        """Compile now rather than at the first solve, for products with this number of columns."""

    def fix_engine(self, expected_entries: float, columns: int) -> None:
        """Fix the engine before a solve that is expected to evaluate this number of entries."""

    @abstractmethod
    def _accumulate(self, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        """Compute out += k(rows, columns) u for features rows (r, D), columns (c, D), u (c, p)."""

    def _fill(self, rows: Tensor, columns: Tensor, out: Tensor | None = None) -> Tensor:
        """Return k(rows, columns) for features, (r, c); written into the contiguous `out` if given."""
        values = self.formula.values(rows, columns, pairwise_distances)
        return values if out is None else out.copy_(values)

    def matmul(self, v: Tensor) -> Tensor:
        """Compute K v for v: (n, p), to (n, p). Evaluates n² entries."""
        return self.columns_matmul(slice(0, self.n), v)

    def matmul_price(self, columns: int) -> float:
        """Estimate the time of a product with K, relative to evaluating n² entries for this number of columns."""
        return 1.0

    def counted_entries(self, rows: int, columns: int, *, derivatives: bool = False, with_inputs: bool = False) -> int:
        """Return the entries that count as the work of a product k(Z, X) V for this number of rows of Z: rows · n.

        An engine whose products evaluate no entries converts their seconds, at the rate of entries, by the columns of
        V; also those of derivatives of such a product, perhaps in the inputs too.
        """
        return rows * self.n

    def seconds_of_entry(self, columns: int) -> float:
        """Measure the processor seconds of an entry in a product with this number of columns."""
        rows = min(self.n, RATED_ROWS)
        a, u = self.inputs[:rows], torch.ones(rows, columns, dtype=self.x.dtype, device=self.x.device)
        out, repeats = torch.zeros_like(u), max(2, RATED_ROWS**2 // rows**2)
        self._accumulate(out, a, a, u)
        started = time.process_time()
        for _ in range(repeats):
            self._accumulate(out, a, a, u)
        return max(time.process_time() - started, 1e-7) / (repeats * rows**2)

    def running_product(self, groups: Sequence[Tensor], evaluated: Count = lambda entries: None) -> RunningProduct:
        """Return K Z for a Z that grows on one group of rows, (|I|,) int64, each once, after another, as in a sweep."""
        return RunningProduct(self, groups, evaluated)

    @without_tf32()
    def columns_matmul(self, rows: Rows, u: Tensor) -> Tensor:
        """Compute K[:, I] u for u: (|I|, p), to (n, p). Evaluates n|I| entries."""
        self._check(u, count(rows), "u")
        out = torch.zeros(self.n, u.shape[1], dtype=u.dtype, device=u.device)
        self.subtract_columns_(out, rows, -u)
        return out

    @without_tf32()
    def subtract_columns_(self, r: Tensor, rows: Rows, u: Tensor) -> None:
        """Subtract K[:, I] u, u: (|I|, p), from r: (n, p) in place: n|I| entries, and no n × p array."""
        self._check(u, count(rows), "u", r)
        self._accumulate(r, self.inputs, self._inputs_of(rows), -u)
        self._subtract_noise_(r, rows, u)

    @without_tf32()
    def subtract_part_(self, r: Tensor, rows: Tensor, columns: Rows, u: Tensor) -> None:
        """Subtract K[N, I] u, u: (|I|, p), from the rows N of r: (n, p) in place: |N||I| entries.

        Args:
            rows: N, which contains all of I.
            columns: I.
        """
        self._check(u, count(columns), "u", r)
        part = r[rows]
        self._accumulate(part, self.inputs[rows], self.inputs[columns], -u)
        r[rows] = part
        self._subtract_noise_(r, columns, u)

    def _inputs_of(self, rows: Rows) -> Tensor:
        """Features of some rows, (|I|, D), in the layout that the engine reads without a copy."""
        return self.inputs[rows]

    def _subtract_noise_(self, r: Tensor, rows: Rows, u: Tensor) -> None:
        if self.noises is None:
            add_rows_(r, rows, u, -self.noise)
        else:
            add_rows_(r, rows, self._noise_times(u, rows), -1.0)

    @without_tf32()
    def rows_matmul(self, rows: Rows, v: Tensor) -> Tensor:
        """Compute K[I, :] v for v: (n, p), to (|I|, p): n|I| entries; rows may be repeated."""
        self._check(v, self.n, "v")
        out = self._noise_times(v[rows], rows)
        self._accumulate(out, self.inputs[rows], self.inputs, v)
        return out

    def _noise_times(self, u: Tensor, rows: Rows = slice(None)) -> Tensor:
        return u * (self.noise if self.noises is None else self.noises[rows, None].to(u))

    def noise_of(self, rows: Rows = slice(None)) -> Noise:
        """Return σ² of some rows: one number if all have the same, otherwise (|I|,)."""
        return self.noise if self.noises is None else self.noises[rows]

    @without_tf32()
    def block(self, rows: Rows, out: Tensor | None = None) -> Tensor:
        """Evaluate K[I, I], (|I|, |I|), which the caller may modify, in `out` if given: |I|² entries.

        The first write to new memory takes several times as long as the entries.
        """
        inputs = self.inputs[rows]
        k = self._fill(inputs, inputs, out)
        k.diagonal().copy_(self.diagonal()[rows])
        return k

    @without_tf32()
    def part(self, rows: Rows, columns: Rows) -> Tensor:
        """Evaluate k(X[S], X[I]), without noise, (|S|, |I|), which the caller may modify: |S||I| entries."""
        return self._fill(self.inputs[rows], self.inputs[columns])

    @without_tf32()
    def columns(self, rows: Rows) -> Tensor:
        """Evaluate k(X, X[I]), without noise, (n, |I|): n|I| entries."""
        return self._fill(self.inputs, self.inputs[rows])

    @without_tf32()
    def cross_columns(self, z: Tensor) -> Tensor:
        """Evaluate k(X, z), without noise, for z: (m, d) in any floating dtype, to (n, m): mn entries."""
        return self._fill(self.inputs, self.scaled(z))

    def signal(self) -> Tensor:
        """Return k(x, x) of every row, without noise, (n,) in float64."""
        return self._signal

    @cached_property
    def _signal(self) -> Tensor:
        return self.formula.diagonal(self.inputs)

    @cached_property
    def _diagonal(self) -> Tensor:
        return (self.signal() + (self.noise if self.noises is None else self.noises)).to(self.x)

    @cached_property
    def largest_signal(self) -> float:
        """The largest k(x, x)."""
        return float(self._signal.max())

    def diagonal(self) -> Tensor:
        """Return the diagonal of K, (n,)."""
        return self._diagonal

    def decay_(self, squared: Tensor) -> Tensor:
        """Estimate entries at a squared distance of `inputs`, relative to the largest; overwrites `squared`."""
        function, *others = self.formula.functions
        if others or function.of_product or function.of_pairs:
            return squared.add_(1.0).reciprocal_()  # decays more slowly than any kernel here, for all features together
        return function.correlation_(squared, torch.empty_like(squared))

    @without_tf32()
    def cross_matmul(self, z: Tensor, v: Tensor) -> Tensor:
        """Compute k(z, X) v, without noise, for z: (m, d) of any floating dtype, v: (n, p), to (m, p): mn entries."""
        if z.ndim != 2 or z.shape[1] != self.x.shape[1]:
            raise ValueError(f"z must have shape (m, {self.x.shape[1]}), got {tuple(z.shape)}")
        self._check(v, self.n, "v")
        out = torch.zeros(len(z), v.shape[1], dtype=v.dtype, device=v.device)
        self._accumulate(out, self.scaled(z), self.inputs, v)
        return out

    def squared_norms(self, r: Tensor, starts: Sequence[int], spare: Tensor) -> Tensor:
        """Compute ‖R_I‖² per right-hand side of consecutive rows: r (n, p), m + 1 starts, to (m, p). No entries.

        `spare`, of r's shape, may be overwritten: new n × p arrays in every update would fragment the heap. If it has m
        times the rows of the first block, and zeros beyond those of r, one sum serves all blocks.
        """
        squares, size, m = torch.square(r, out=spare[: len(r)]), starts[1] - starts[0], len(starts) - 1
        full = m - (starts[-1] - starts[-2] != size)
        if starts[full] != full * size or any(starts[j] != j * size for j in range(full)):
            return torch.stack([squares[a:b].sum(0) for a, b in pairwise(starts)])
        # in the usual case all blocks but the last have one size; vector_norm would take 8 times as long
        if len(spare) == m * size:
            return spare.view(m, size, -1).sum(1)
        norms, cut = squares.new_empty(m, r.shape[1]), full * size
        torch.sum(squares[:cut].view(full, size, -1), 1, out=norms[:full])
        if cut < len(r):
            torch.sum(squares[cut:], 0, out=norms[full])
        return norms

    @without_tf32()
    def subtract_combination_(self, r: Tensor, images: Tensor, steps: Tensor) -> None:
        """Subtract Σᵢ steps[i] · images[i], images: (q, n, p), steps: (q, p), from r: (n, p) in place. No entries."""
        r.sub_(torch.einsum("qnp,qp->np", images, steps))

    @without_tf32()
    def gathered_products(self, updates: Tensor, rows: Tensor, a: Tensor) -> Tensor:
        """Compute Uᵢᵀ a on the rows of Uᵢ, per right-hand side, accumulated in float64. No entries.

        Args:
            updates: (q, length, p), the Uᵢ, padded with zeros.
            rows: (q, length) int64, below n.
            a: (n, p).

        Returns:
            (q, p) in float64.
        """
        return (updates * a[rows]).sum(1, dtype=torch.float64)

    def _check(self, u: Tensor, rows: int, name: str, r: Tensor | None = None) -> None:
        """Check shapes, dtypes and devices: engines in C++ and KeOps would read out of bounds."""
        x = self.x
        if u.ndim != 2 or len(u) != rows or u.dtype != x.dtype or u.device != x.device:
            raise ValueError(
                f"{name} must be ({rows}, p) in {x.dtype} on {x.device}, "
                f"got {tuple(u.shape)} in {u.dtype} on {u.device}"
            )
        if r is not None and (r.shape != (self.n, u.shape[1]) or r.dtype != x.dtype):
            raise ValueError(f"r must be ({self.n}, {u.shape[1]}) in {x.dtype}, got {tuple(r.shape)} in {r.dtype}")

    def in_dtype(self, dtype: torch.dtype) -> Operator:
        """Make the operator of the same points in another dtype, on the same engine."""
        return type(self)(self.given, self.kernel, self.noise_of(), dtype)

    def reordered(self, order: Tensor) -> Operator:
        """Make the operator of the points x[order], on the same engine."""
        return type(self)(self.given[order], self.kernel, self.noise_of(order), self.x.dtype)

    @abstractmethod
    def exact(self) -> Operator:
        """Make the operator of the original points in float64, with direct differences."""

    def certifying(self) -> Operator:
        """Make the operator in float64 whose products may claim convergence, with their `entry_error` counted."""
        return self.exact()

    def compensated(self) -> Operator:
        """Make the operator whose products of float64 vectors sum float32 entries without losing digits.

        Raises:
            ValueError: the engine has no such products.
        """
        raise ValueError(f"certify='compensated' needs operator='fused', and the operator is {self.name!r}")

    @abstractmethod
    def of_rows(self, rows: Tensor, noise: Noise) -> Operator:
        """Make the operator of a few of the points, with another noise, in float64, without compiling."""
