"""The Fourier operator: products with kernel matrices at a cost that grows with n, not n², for up to three inputs.

Only whole products are approximated: `matmul`, `cross_matmul` and derivatives. Blocks, columns and rows of K, products
with them, and the diagonal are those of the tiles, exactly. Claims of convergence use products in float64 to 1e-8;
their error is measured on random rows and counted (`apviz.solvers.measuring.residuals`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from apviz.kernels import Gradients, Kernel
from apviz.kernels.radial import Metric, differ_in_scale, metrics_of, parts_of
from apviz.operators.fourier import cell_list
from apviz.operators.fourier.near_far import Split
from apviz.operators.fourier.radial_product import RadialProduct, Unreachable
from apviz.operators.fourier.running import FourierRunningProduct
from apviz.operators.interface import Noise, Operator
from apviz.operators.running_product import Count, RunningProduct
from apviz.operators.tiled import TiledOperator
from apviz.settings import require

#: allowed error of an entry, relative to k(0), and the smallest that can be asked for
ERRORS = {torch.float32: 1e-5, torch.float64: 1e-8}
SMALLEST = {torch.float32: 5e-6, torch.float64: 1e-11}
LARGEST = 1e-2
#: fewest rows for which the set-up of a few seconds pays off, and largest number of inputs
LEAST_ROWS, MOST_INPUTS = 30_000, 3
#: entries that are evaluated rather than a larger box made for points outside of that of X
FEW_ENTRIES = 5_000_000
#: products with all points to which the points and neighbours of a sweep amount: those of its groups and one of all
TRANSFORMS_SHARE = 2.5
#: other hyperparameters, with which features are compared: the kernel's times the first, plus the second
MOVED = (1.1, 0.01)


class FourierOperator(TiledOperator):
    """An operator whose products are a Fourier series of low frequencies plus near neighbours.

    Kernels: Matérn-1/2, 3/2, 5/2, RBF, rational quadratic, and sums of them, each of one to three inputs (a kernel
    `on` few columns of many will do). On the CPU only. Products of different kernels are not supported.

    Args:
        x, kernel, noise, dtype: as of `Operator`.
        error: the largest error of an entry, relative to k(0), of products; of a sum with several metrics, to the k(0)
            of each. It is measured on the finished series. None: 1e-5 in float32, 1e-8 in float64: the residual of a
            recursion drifts by some 100 times as much, which passes correct.

    Raises:
        ValueError: a kernel or number of inputs that is not supported, an error that cannot be reached.

    Examples:
        >>> import torch, apviz
        >>> from apviz.operators import FourierOperator
        >>> x = torch.linspace(0, 1, 5_000, dtype=torch.float64)[:, None]
        >>> k = FourierOperator(x, apviz.Matern32(lengthscale=0.1), noise=0.1)
        >>> rows, v = torch.arange(0, 5_000, 500), torch.ones(5_000, 1, dtype=torch.float64)
        >>> torch.allclose(k.matmul(v)[rows], k.rows_matmul(rows, v), atol=5_000 * k.error, rtol=0)
        True
    """

    name = "fourier"
    converts_seconds = True

    def __init__(
        self,
        x: Tensor,
        kernel: Kernel,
        noise: Noise,
        dtype: torch.dtype | None = None,
        compiled: bool | None = None,
        direct: bool = False,
        error: float | None = None,
    ) -> None:
        super().__init__(x, kernel, noise, dtype, compiled, direct)
        if x.device.type != "cpu":
            raise ValueError(f"operator 'fourier' runs on the CPU, got inputs on {x.device}; use operator='tiled'")
        smallest = SMALLEST[self.x.dtype]
        accepted = f"from {smallest:g} to {LARGEST:g} in {self.x.dtype}, or None"
        require(error is None or smallest <= error <= LARGEST, "error", error, accepted)
        self._asked = error
        #: the largest error of an entry of products, relative to k(0)
        self.error = ERRORS[self.x.dtype] if error is None else float(error)
        try:
            self._metrics = metrics_of(self._lowered, x.shape[1])
            self._parts = parts_of(self._lowered, x.shape[1])
        except ValueError as found:
            raise ValueError(
                "operator 'fourier' takes Matérn, RBF and rational quadratic kernels, and sums, of 1 to 3 inputs each. "
                f"It lacks {found}; use operator='tiled'"
            ) from found
        self._products: dict[Metric, RadialProduct] = {}
        self._wider: dict[Metric, RadialProduct] = {}
        self._slopes: dict[Metric, RadialProduct] = {}
        self._by_trees, self._prices = False, dict[int, float]()
        self._seconds = dict[int, float]()  # of the first product, by its number of columns
        # of the first derivatives, by that and by whether they are in the inputs too
        self._seconds_of_derivatives = dict[tuple[int, bool], float]()

    @property
    def engine(self) -> str:
        near = "SciPy's k-d trees" if self._by_trees else "cell list"
        products = f"Fourier series (FINUFFT) and {near} to {self.error:g} (work counts their seconds)"
        return f"{products}; {super().engine}"

    def product_error(self, dtype: torch.dtype) -> float:
        return max(self._asked or 0.0, ERRORS[dtype])

    def with_error(self, error: float | None, dtype: torch.dtype | None = None) -> FourierOperator:
        """Make the operator of the same points with another error of entries, and perhaps in another dtype."""
        return self._like(self.given, self.noise_of(), dtype or self.x.dtype, error)

    def _like(self, x: Tensor, noise: Noise, dtype: torch.dtype, error: float | None) -> FourierOperator:
        return FourierOperator(x, self.kernel, noise, dtype, self._compiled, error=error)

    def in_dtype(self, dtype: torch.dtype) -> FourierOperator:
        """Make the operator in another dtype; an error that was given remains, if that dtype has it."""
        asked = self._asked
        return self._like(self.given, self.noise_of(), dtype, None if asked is None else max(asked, SMALLEST[dtype]))

    def reordered(self, order: Tensor) -> FourierOperator:
        return self._like(self.given[order], self.noise_of(order), self.x.dtype, self._asked)

    def certifying(self) -> FourierOperator:
        """Make the operator in float64, with products to 1e-8 of k(0) and that `entry_error`."""
        found = self.with_error(None, torch.float64)
        found.entry_error = found.error * self.largest_signal
        return found

    def prepare(self, columns: int = 1) -> None:
        super().prepare(columns)
        for metric in self._metrics:
            self._product(metric)

    @property
    def splits(self) -> list[Split]:
        """Near and far of each function of a distance in the kernel, for `apviz.plots.near_and_far`."""
        return [self._product(metric).split for metric in self._metrics]

    @property
    def measured_error(self) -> float:
        """The largest error of an entry that was measured on the series, without that of the transforms."""
        return max(self._product(metric).far.error for metric in self._metrics)

    # --- products -------------------------------------------------------------------------------------------------

    def matmul(self, v: Tensor) -> Tensor:
        """Compute K v for v: (n, p), to (n, p), each entry of K to `error` of k(0)."""
        self._check(v, self.n, "v")
        products = [self._product(metric) for metric in self._metrics]
        for product in products:
            product.home.transforms.prepare()
        out, started = self._noise_times(v), time.process_time()
        given = np.ascontiguousarray(v.numpy())
        for product in products:
            out += torch.from_numpy(product.matmul(given))
        self._seconds.setdefault(v.shape[1], time.process_time() - started)
        return out

    def running_product(self, groups: Sequence[Tensor], evaluated: Count = lambda entries: None) -> RunningProduct:
        # every group transforms all frequencies, so that near neighbours pay off up to a larger cut-off
        often = max(1.0, len(groups) / TRANSFORMS_SHARE)
        products = [self._made(metric, transforms=often) for metric in self._metrics]
        return FourierRunningProduct(self, groups, products, evaluated)

    def cross_matmul(self, z: Tensor, v: Tensor) -> Tensor:
        """Compute k(z, X) v, without noise, for z: (m, d), v: (n, p), to (m, p), each entry to `error` of k(0).

        Rows outside of the box of X are evaluated exactly where they are few, or where the series of a box that
        contains them would have many more frequencies.
        """
        if z.ndim != 2 or z.shape[1] != self.x.shape[1]:
            raise ValueError(f"z must have shape (m, {self.x.shape[1]}), got {tuple(z.shape)}")
        self._check(v, self.n, "v")
        out = torch.empty(len(z), v.shape[1], dtype=v.dtype)
        inside, products = self._covering(z)
        if inside.any():
            given = np.ascontiguousarray(v.numpy())
            features = self._lowered.features(z[inside], self._centre)
            found = torch.zeros(int(inside.sum()), v.shape[1], dtype=v.dtype)
            for metric, product in products.items():
                place = product.place(features[metric.part].numpy())
                found += torch.from_numpy(product.matmul(given, place))
            out[inside] = found
        if not inside.all():
            out[~inside] = super().cross_matmul(z[~inside], v)
        return out

    def matmul_price(self, columns: int) -> float:
        """Return the seconds of a product relative to those of n² entries: converted, not counted.

        Both are measured on this machine, once for each number of columns: the seconds are those of the first product.
        The price is kept to one digit.
        """
        if columns not in self._prices:
            seconds = self.seconds_of_product(columns)
            self._prices[columns] = float(f"{seconds / (self.n**2 * self.seconds_of_entry(columns)):.0e}")
        return self._prices[columns]

    def seconds_of_product(self, columns: int) -> float:
        """Return the processor seconds of the first product with this number of columns; make one if there was none."""
        if columns not in self._seconds:
            self.matmul(torch.ones(self.n, columns, dtype=self.x.dtype))
        return self._seconds[columns]

    @property
    def modes(self) -> int:
        """The number of frequencies of all series."""
        return sum(math.prod(self._product(metric).far.modes) for metric in self._metrics)

    def counted_entries(self, rows: int, columns: int, *, derivatives: bool = False, with_inputs: bool = False) -> int:
        """Convert the seconds of a product into entries, see `matmul_price`; of rows of Z, by their share of n.

        Derivatives were timed before, the first time with this number of columns.
        """
        timed = self._seconds_of_derivatives.get((columns, with_inputs)) if derivatives else None
        if timed is not None:
            return max(1, round(timed * rows / (self.n * self.seconds_of_entry(columns))))
        return max(1, round(self.matmul_price(columns) * self.n * rows))

    def _covering(self, z: Tensor) -> tuple[Tensor, dict[Metric, RadialProduct]]:
        """Return which rows of z are left to the series, and its products by metric."""
        features = [each.numpy() for each in self._lowered.features(z, self._centre)]
        inside, products = np.ones(len(z), dtype=bool), {}
        for metric in self._metrics:
            at, product = features[metric.part], self._product(metric)
            within = product.box.contains(at)
            if (~within).sum() * self.n > FEW_ENTRIES:
                wider = self._wider.get(metric)
                if wider is None or not wider.box.contains(at).all():
                    wider = (wider or product).around(at)
                if wider is not None:
                    self._wider[metric] = product = wider
                    within[:] = True
            products[metric] = product
            inside &= within
        return torch.from_numpy(inside), products

    def _product(self, metric: Metric) -> RadialProduct:
        if metric not in self._products:
            self._products[metric] = self._made(metric)
        return self._products[metric]

    def _made(self, metric: Metric, transforms: float = 1.0) -> RadialProduct:
        self._by_trees = not cell_list.is_compiled()
        x = self._lowered.features(self.given, self._centre)[metric.part].numpy()
        dtype: np.dtype[np.floating] = np.dtype(np.float32 if self.x.dtype == torch.float32 else np.float64)
        try:
            compiled = not self._by_trees
            return RadialProduct(metric.radial, x, self.error, dtype, compiled=compiled, transforms=transforms)
        except Unreachable as found:
            raise ValueError(
                f"error must be larger, got {self.error:g}: {found}; use a larger error or operator='tiled'"
            ) from found

    # --- derivatives ----------------------------------------------------------------------------------------------

    @cached_property
    def _has_scales(self) -> bool:
        """Whether hyperparameters scale features alone, as lengthscales do: tested with other values than these."""
        moved = {
            name: torch.as_tensor(value, dtype=torch.float64) * MOVED[0] + MOVED[1]
            for name, value in self.kernel.hyperparameters.items()
        }
        return differ_in_scale(self._lowered, self.kernel.lowered(self.given.shape[1], moved), self.given.shape[1])

    def _bilinear_gradients(self, a: Tensor, b: Tensor, with_inputs: bool) -> Gradients:
        by_rows = with_inputs or not self._has_scales
        if not by_rows:
            for part in self._parts:
                self._of_part(part)[0].home.transforms.prepare()
        started = time.process_time()
        found = super()._bilinear_gradients(a, b, with_inputs) if by_rows else self._summed_gradients(a, b)
        self._seconds_of_derivatives.setdefault((a.shape[1], with_inputs), time.process_time() - started)
        return found

    def _summed_gradients(self, a: Tensor, b: Tensor) -> Gradients:
        """Differentiate by sums over frequencies; features get gradients whose sums with them are right.

        A lengthscale needs Σᵢ gᵢₖ uᵢₖ alone, half of Σᵢⱼ δₖ ∂k/∂δₖ from both sides. So gₖ is a multiple of uₖ.
        """
        left, right = np.ascontiguousarray(a.numpy()), np.ascontiguousarray(b.numpy())
        features, shapes, values = [], [], []
        for part in self._parts:
            weight = float(self._lowered.weights[self._lowered.terms.index((part.part,))])
            product, size = self._of_part(part)
            value, *stretched = product.bilinear(left, right) / size
            squares = np.square(product.x).sum(axis=0)
            share = np.divide(stretched, squares, out=np.zeros_like(squares), where=squares > 0)
            features.append(torch.from_numpy(weight * share * product.x))
            values.append(2.0 * value)
            changed = self._in_shape(part)
            shapes.append(2.0 * weight * float(changed.bilinear(left, right, stretched=False)[0]) if changed else 0.0)
        return self._joined(features, shapes, values)

    def _gradients(self, rows: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Gradients:
        """Differentiate Σᵢⱼ (aᵢᵀbⱼ) k(rowsᵢ, columnsⱼ) by the series, if X is on both sides; otherwise by tiles."""
        if rows is not self.inputs or columns is not self.inputs:
            return super()._gradients(rows, columns, a, b)
        left, right = np.ascontiguousarray(a.numpy()), np.ascontiguousarray(b.numpy())
        features, shapes, values = [], [], []
        for part in self._parts:
            weight = float(self._lowered.weights[self._lowered.terms.index((part.part,))])
            product, size = self._of_part(part)
            found = product.gradients(left, right) / size
            features.append(torch.from_numpy(np.ascontiguousarray(weight * found[:, 1:])))
            values.append(found[:, 0].sum())
            changed = self._in_shape(part)
            shapes.append(weight * float((left * changed.matmul(right)).sum(dtype=np.float64)) if changed else 0.0)
        return self._joined(features, shapes, values)

    def _joined(self, features: list[Tensor], shapes: list[float], values: list[float]) -> Gradients:
        """Put the derivatives of the parts together; `values` are those in their weights."""
        weights = torch.tensor([values[part] for (part,) in self._lowered.terms], dtype=torch.float64)
        shape = torch.tensor(shapes, dtype=torch.float64)
        return Gradients(torch.cat(features, 1), shape, weights, torch.zeros(0, dtype=torch.float64))

    def _of_part(self, part: Metric) -> tuple[RadialProduct, float]:
        """Return products with a multiple of one part of the kernel without its weight, and that multiple."""
        if len(self._parts) == 1:
            return self._product(self._metrics[0]), self._metrics[0].radial.weights[0]
        return self._made_once(part), 1.0

    def _made_once(self, metric: Metric) -> RadialProduct:
        if metric not in self._slopes:
            self._slopes[metric] = self._made(metric)
        return self._slopes[metric]

    def _in_shape(self, part: Metric) -> RadialProduct | None:
        """Return products with ∂f/∂α; None if the function has no parameter."""
        if not part.radial.functions[0].shape:
            return None
        return self._made_once(Metric(part.radial.derivative_in_shape(), part.part))


def with_fourier_products(
    operator: Operator, dtype: torch.dtype = torch.float32, error: float | None = None
) -> FourierOperator | None:
    """Return the Fourier operator of the same points in a dtype; None where it lacks or cannot reach something."""
    if operator.x.device.type != "cpu" or not isinstance(operator, TiledOperator):  # nor shared by ranks
        return None
    if operator.x.shape[1] > MOST_INPUTS:
        return None
    if isinstance(operator, FourierOperator):
        return operator.in_dtype(dtype)
    try:
        found = FourierOperator(operator.given, operator.kernel, operator.noise_of(), dtype, error=error)
        found.prepare()
    except (ValueError, ImportError, MemoryError):
        return None
    return found
