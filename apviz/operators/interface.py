"""The operator K = k(X, X) + σ²I, or with a separate noise for every point, without storing it.

An engine implements the product `_accumulate`, and may implement faster versions of `_fill` and `_gradients`, all
without noise; everything else is implemented here once. Engines see features (`kernels.formula`), not the inputs
they were computed from. Each docstring gives the number of kernel entries evaluated; `counting` adds them up.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from apviz.kernels import Gradients, Kernel, centre_of, pairwise_distances
from apviz.memory import require_memory
from apviz.operators.layout import ALL_HERE, Layout, Rows
from apviz.operators.running_product import Count, RunningProduct
from apviz.settings import without_tf32

#: largest span of the inputs in lengthscales; its square is far inside the range of float32
MAX_SPAN = 1e9
#: rows and columns of the product that measures the rate of entries
RATED_ROWS = 1_000
#: rows and columns of a tile of derivatives; about five tiles per part of the kernel are in memory at a time
DERIVATIVE_TILE = 1024

# roundings of an entry of K and its product (distance, exponential, sum); long sums add no more, being chunked
ROUNDINGS_PER_ENTRY = 8.0

#: σ² of all rows, or (n,)
Noise = float | Tensor


#: numbers that autograd keeps per difference of features for second derivatives
GRAPH = 8


def count(rows: Rows) -> int:
    """Count the rows that `rows` selects; a slice must have both ends."""
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def add_rows_(a: Tensor, rows: Rows, u: Tensor, factor: float = 1.0) -> None:
    """Add factor · u to a[rows] in place, without the copies that indexed assignment makes."""
    if isinstance(rows, slice):
        a[rows].add_(u, alpha=factor)
    else:
        a.index_add_(0, rows, u, alpha=factor)


class KernelDerivatives(NamedTuple):
    """The derivatives tr(Aᵀ (∂K/∂θ) B), float64.

    kernel: for each hyperparameter θ of the kernel, by name, (numbers,); noise: for σ², 0-d, or (n,) if every row has
    its own; inputs: (n, d), for the rows, if requested.
    """

    kernel: dict[str, Tensor]
    noise: Tensor
    inputs: Tensor | None = None


class CrossDerivatives(NamedTuple):
    """The derivatives of Σᵢⱼ Mᵢⱼ k(zᵢ, xⱼ), float64, in hyperparameters by name, z (m, d) and x (n, d)."""

    kernel: dict[str, Tensor]
    z: Tensor
    inputs: Tensor


class Operator(ABC):
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

        An engine whose products evaluate no entries converts their seconds, at the rate of entries.

        Args:
            columns: of V.
            derivatives: count the derivatives of such a product.
            with_inputs: those in the inputs too.
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
        """Return K Z for a Z that grows on one group of rows after another, as in a sweep over blocks.

        Args:
            groups: (|I|,) int64 rows of each group, each row once.
            evaluated: counts entries, or seconds converted to entries.
        """
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

    @without_tf32()
    def differentiable_columns(self, z: Tensor) -> Tensor:
        """Evaluate k(X, z), without noise, (n, m) in float64, twice differentiable by autograd in z: (m, d).

        Raises:
            MemoryError: some n·m numbers for every feature and derivative do not fit.
        """
        needed = 8.0 * GRAPH * self.n * len(z) * self.inputs.shape[1]
        require_memory(needed, self.inputs.device, f"second derivatives at {len(z)} points need", "take fewer at once")
        return self.formula.differentiable(self.inputs.double(), self._differentiable_features(z))

    def differentiable_prior(self, z: Tensor) -> Tensor:
        """Evaluate k(z, z) in the same way, (m, m)."""
        at_z = self._differentiable_features(z)
        return self.formula.differentiable(at_z, at_z)

    def _differentiable_features(self, z: Tensor) -> Tensor:
        return torch.cat(self._lowered.features(z.to(self.x.device), self._centre), 1)

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

    @without_tf32()
    def bilinear_derivatives(self, a: Tensor, b: Tensor, with_inputs: bool = False) -> KernelDerivatives:
        """Compute tr(Aᵀ (∂K/∂θ) B) for a, b: (n, p), θ the kernel's hyperparameters and σ². Evaluates n² entries.

        Args:
            with_inputs: also return derivatives in the inputs.
        """
        self._check(a, self.n, "a")
        self._check(b, self.n, "b")
        if a.shape != b.shape:
            raise ValueError(f"a and b must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}")
        found = self._bilinear_gradients(a, b, with_inputs)
        return self._derivatives(found, torch.sum(a * b, 1, dtype=torch.float64), with_inputs)

    def _bilinear_gradients(self, a: Tensor, b: Tensor, with_inputs: bool) -> Gradients:
        """Differentiate Σᵢⱼ (aᵢᵀbⱼ) k(xᵢ, xⱼ) in the features, which are on both sides of k.

        Args:
            with_inputs: whether the features' gradients are used row by row, or for hyperparameters alone.
        """
        return self._gradients(self.inputs, self.inputs, torch.cat([a, b], 1), torch.cat([b, a], 1))

    @without_tf32()
    def weighted_derivatives(self, m: Tensor, with_inputs: bool = False) -> KernelDerivatives:
        """Compute tr(Mᵀ ∂K/∂θ) for m: (n, n), as `bilinear_derivatives` does for M = ABᵀ. Evaluates n² entries."""
        if m.shape != (self.n, self.n):
            raise ValueError(f"m must have shape ({self.n}, {self.n}), got {tuple(m.shape)}")
        return self._derivatives(self._weighted_gradients(m), m.diagonal().double(), with_inputs)

    @without_tf32()
    def cross_derivatives(self, z: Tensor, a: Tensor, b: Tensor) -> CrossDerivatives:
        """Differentiate Σᵢⱼ (aᵢᵀbⱼ) k(zᵢ, xⱼ), without noise: z (m, d), a (m, p), b (n, p). Evaluates 2mn entries."""
        self._check(b, self.n, "b")
        at_z = self.scaled(z)
        of_z, of_x = self._gradients(at_z, self.inputs, a, b), self._gradients(self.inputs, at_z, b, a)
        by_name, (by_z, by_x) = self._chained(
            [(z, of_z.features), (self.given, of_x.features)], of_z, 1.0, with_inputs=True
        )
        return CrossDerivatives(by_name, by_z, by_x)

    def prior_derivatives(self, z: Tensor, m: Tensor) -> CrossDerivatives:
        """Differentiate Σᵢⱼ Mᵢⱼ k(zᵢ, zⱼ), without noise, in z: (q, d) and the hyperparameters; m (q, q)."""
        at_z = self.scaled(z)
        found = self.formula.gradients(at_z, at_z, m + m.T, pairwise_distances)
        by_name, (by_z,) = self._chained([(z, found.features)], found, 0.5, with_inputs=True)
        return CrossDerivatives(by_name, by_z, torch.zeros_like(self.given, dtype=torch.float64))

    def _derivatives(self, found: Gradients, noise: Tensor, with_inputs: bool) -> KernelDerivatives:
        """Return derivatives in hyperparameters from gradients that sum both sides; noise: (n,), of every row."""
        # the gradients contain shapes and weights twice, once per side
        by_name, by_inputs = self._chained([(self.given, found.features)], found, 0.5, with_inputs)
        return KernelDerivatives(by_name, noise.sum() if self.noises is None else noise, *by_inputs)

    def _chained(
        self, of_features: Sequence[tuple[Tensor, Tensor]], found: Gradients, factor: float, with_inputs: bool
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Apply the chain rule: derivatives in hyperparameters and inputs, from those in features and numbers."""
        with torch.enable_grad():
            at = {
                name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
                for name, value in self.kernel.hyperparameters.items()
            }
            lowered = self.kernel.lowered(self.given.shape[1], at)
            scalars = torch.stack([*(part.shape for part in lowered.parts), *lowered.weights])
            numbers = torch.cat([scalars, *(part.numbers for part in lowered.parts)]).to(found.shapes)
            total = factor * numbers @ torch.cat([found.shapes, found.weights, found.numbers])
            inputs = [given.double().clone().requires_grad_(with_inputs) for given, _ in of_features]
            for given, (_, gradient) in zip(inputs, of_features, strict=True):
                total = total + torch.sum(torch.cat(lowered.features(given, self._centre), 1) * gradient)
            wanted = [*at.values(), *(inputs if with_inputs else [])]
            gradients = list(torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True))
        by_name = {name: gradient.flatten() for name, gradient in zip(at, gradients, strict=False)}
        return by_name, gradients[len(at) :]

    def _gradients(self, rows: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Gradients:
        """Differentiate Σᵢⱼ (aᵢᵀbⱼ) k(rowsᵢ, columnsⱼ) in the features of rows (r, D); a (r, p), columns (c, D).

        If rows are the columns, ABᵀ is symmetric.
        """
        return self._tiled_gradients(rows, columns, lambda of_rows, of_columns: a[of_rows] @ b[of_columns].T)

    def _weighted_gradients(self, m: Tensor) -> Gradients:
        """Differentiate Σᵢⱼ (Mᵢⱼ + Mⱼᵢ) k(xᵢ, xⱼ) in the features of the first side, M: (n, n)."""
        x = self.inputs
        return self._tiled_gradients(x, x, lambda rows, columns: m[rows, columns] + m[columns, rows].T)

    def _tiled_gradients(self, rows: Tensor, columns: Tensor, tile_of_m: Callable[[slice, slice], Tensor]) -> Gradients:
        """Differentiate in the same way for any M, symmetric if rows are the columns, tile by tile."""
        numbers = sum(len(part.numbers) for part in self._lowered.parts)
        shapes = (tuple(rows.shape), (len(self.formula.functions),), (len(self.formula.terms),), (numbers,))
        found = Gradients(*(torch.zeros(shape, dtype=torch.float64, device=rows.device) for shape in shapes))
        for i in range(0, len(rows), DERIVATIVE_TILE):
            for j in range(0, len(columns), DERIVATIVE_TILE):
                r, c = slice(i, i + DERIVATIVE_TILE), slice(j, j + DERIVATIVE_TILE)
                left = rows[r]
                # pass the same tensor for the same rows: some kernels test whether both sides are equal
                right = left if rows is columns and i == j else columns[c]
                tile = self.formula.gradients(left, right, tile_of_m(r, c), pairwise_distances)
                found.features[r] += tile.features
                found.shapes.add_(tile.shapes)
                found.weights.add_(tile.weights)
                found.numbers.add_(tile.numbers)
        return found

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
