"""Running products by Fourier series: what an addition changes in the spectrum, and its near neighbours.

An addition on rows I transforms |I| points to frequencies. Reading rows I transforms back to |I| points, and finds
their neighbours. So a sweep over groups costs two transforms of the frequencies a group, and never n² entries.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from apviz.operators.fourier import cell_list
from apviz.operators.fourier.cell_list import AnyArray
from apviz.operators.fourier.radial_product import RadialProduct
from apviz.operators.interface import Operator
from apviz.operators.running_product import Count, RunningProduct

Rows = NDArray[np.int64]


class FourierRunningProduct(RunningProduct):
    """K Z by Fourier series and near neighbours, each entry of K to the operator's error.

    Args:
        evaluated: counts the entries that the seconds of everything here are converted to.
    """

    def __init__(
        self, operator: Operator, groups: Sequence[Tensor], products: Sequence[RadialProduct], evaluated: Count
    ) -> None:
        super().__init__(operator, groups, evaluated)
        self._parts = [_RadialRunning(product, [rows.numpy() for rows in groups]) for product in products]
        self._rates = dict[int, float]()  # seconds of an entry, by the number of columns

    def begin(self, columns: int) -> None:
        if columns not in self._rates:
            self._rates[columns] = self.operator.seconds_of_entry(columns)
        self.z = torch.zeros(self.operator.n, columns, dtype=self.operator.x.dtype)
        for part in self._parts:
            part.begin(columns)

    def at(self, group: int) -> Tensor:
        started, rows = time.process_time(), self.groups[group]
        found = self.operator._noise_times(self.z[rows], rows)
        for part in self._parts:
            found += torch.from_numpy(part.at(group))
        self._count(started)
        return found

    def add_(self, group: int, u: Tensor) -> None:
        started = time.process_time()
        self.z.index_add_(0, self.groups[group], u)
        for part in self._parts:
            part.add_(group, u.numpy())
        self._count(started)

    def product(self) -> Tensor:
        started = time.process_time()
        found = self.operator._noise_times(self.z)
        for part in self._parts:
            found += torch.from_numpy(part.at(None))
        self._count(started)
        return found

    def _count(self, started: float) -> None:
        self._evaluated(max(1, round((time.process_time() - started) / self._rates[self.z.shape[1]])))


class _RadialRunning:
    """The running product of one function of a distance."""

    def __init__(self, product: RadialProduct, groups: Sequence[Rows]) -> None:
        self._product, self._groups = product, groups
        if (home := product.home.sorted) is not None:
            self._places = np.empty(len(product.x), dtype=np.int64)
            self._places[home.order] = np.arange(len(product.x))

    def begin(self, columns: int) -> None:
        product, self._columns = self._product, columns
        dtype = product.home.transforms.complex_dtype
        self._spectra = [np.zeros(product.far.modes, dtype=dtype) for _ in range(0, columns, 2)]
        if product.home.sorted is not None:
            self._near: AnyArray = np.zeros((columns, product.home.sorted.scaled.shape[1]), dtype=product.dtype)

    def add_(self, group: int, u: AnyArray) -> None:
        rows, transforms = self._groups[group], self._product.home.transforms
        for k in range(len(self._spectra)):
            self._spectra[k] += transforms.spectrum(u[:, 2 * k : 2 * k + 2], rows)
        if self._product.home.sorted is not None:
            self._near[:, self._places[rows]] += u.T

    def at(self, group: int | None) -> AnyArray:
        """Return the product on the rows of a group; None: on all."""
        rows, product = None if group is None else self._groups[group], self._product
        found: AnyArray = np.concatenate(
            [
                product.home.transforms.values(spectrum * product.far.coefficients, min(2, self._columns - 2 * k), rows)
                for k, spectrum in enumerate(self._spectra)
            ],
            axis=1,
        )
        if (home := product.home.sorted) is not None:
            assert product.grid is not None and product.split.near is not None
            where, wanted = self._places if rows is None else self._places[rows], None
            if rows is not None:
                wanted = np.zeros(len(product.x), dtype=np.uint8)
                wanted[where] = 1
            near = np.zeros_like(self._near)
            cell_list.add_product_(
                near, product.grid, product.split.near, home, home, self._near, wanted, compiled=product.compiled
            )
            found += near[:, where].T
        return found
