"""Kernels as functions of one distance: what the Fourier operator needs of a sum of stationary kernels.

Parts whose features differ by a factor alone, such as kernels with one lengthscale each, share a metric. Their sum is
one function of one distance, with one spectral density.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from apviz.kernels.formula import Lowered
from apviz.kernels.functions import Function

#: largest number of features of a part
MAX_WIDTH = 3
#: features of parts that share a metric agree to this relative precision
SAME = 1e-12
#: relative step of α in the difference quotient of fourth order, whose error is about 1e-10
SHAPE_STEP = 0.004

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Radial:
    """A function Σ w f((s r)²) of the distance r between features.

    Args:
        functions, weights, scales: f, w and s of each summand; weights may be negative.
        width: number of features.
    """

    functions: tuple[Function, ...]
    weights: tuple[float, ...]
    scales: tuple[float, ...]
    width: int

    def values(self, r: Array) -> Array:
        """Evaluate the function at distances r."""
        found = np.zeros_like(r)
        for function, weight, scale in zip(self.functions, self.weights, self.scales, strict=True):
            u = torch.from_numpy(np.ascontiguousarray((scale * r) ** 2))
            found += weight * function.correlation_(u, torch.empty_like(u)).numpy()
        return found

    def slopes(self, r: Array) -> Array:
        """Evaluate the derivative in r, divided by r, at distances r; 0 at r = 0."""
        found = np.zeros_like(r)
        for function, weight, scale in zip(self.functions, self.weights, self.scales, strict=True):
            u = torch.from_numpy(np.ascontiguousarray((scale * r) ** 2))
            found += 2.0 * weight * scale**2 * function.slope(u).numpy()
        return np.where(r > 0, found, 0.0)

    def density(self, w: Array) -> Array:
        """Evaluate the spectral density at frequencies of length w > 0; see `Function.density`."""
        found = np.zeros_like(w)
        for function, weight, scale in zip(self.functions, self.weights, self.scales, strict=True):
            found += weight * scale**-self.width * function.density(w / scale, self.width)
        return found

    @cached_property
    def size(self) -> float:
        """The largest value, to which errors of an entry are relative: k(0) of a kernel."""
        if min(self.weights) > 0:
            return float(sum(self.weights))
        return float(np.abs(self.values(np.geomspace(1e-3, 1e4, 1001))).max())

    def derivative_in_shape(self) -> Radial:
        """Return the derivative of a single f in its parameter α, by a difference quotient of fourth order."""
        (function,), alpha = self.functions, self.functions[0].shape
        step = SHAPE_STEP * alpha
        moved = tuple(_with_shape(function, alpha + k * step) for k in (-2, -1, 1, 2))
        weights = tuple(each / (12.0 * step) for each in (1.0, -8.0, 8.0, -1.0))
        return Radial(moved, weights, self.scales * 4, self.width)


def _with_shape(function: Function, shape: float) -> Function:
    return function.with_hyperparameters({"alpha": shape})  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True)
class Metric:
    """A function of one distance, and the part of the kernel whose features it is a distance of."""

    radial: Radial
    part: int


def parts_of(lowered: Lowered, d: int) -> list[Metric]:
    """Return each part of a sum of stationary kernels of inputs with d columns, without its weight.

    Raises:
        ValueError: a product of kernels, a part that is not of a distance or has no spectral density, or one of more
            than three inputs.
    """
    found, unit = [], torch.eye(d, dtype=torch.float64)
    for k, part in enumerate(lowered.parts):
        function, width = part.function, part.features(unit[:1], torch.zeros(d, dtype=torch.float64)).shape[1]
        name = type(function).__name__
        if function.of_product or function.of_pairs or function.of_equality or not _is_linear(lowered, k, d):
            raise ValueError(f"{name}, which is not a function of the distance between inputs")
        if not 1 <= width <= MAX_WIDTH:
            raise ValueError(f"{name} of {width} inputs")
        try:
            function.density(np.ones(1), width)
        except ValueError as error:
            raise ValueError(f"{name}, whose spectral density is not known") from error
        found.append(Metric(Radial((function,), (1.0,), (1.0,), width), k))
    if any(len(term) != 1 for term in lowered.terms):
        raise ValueError("a product of kernels")
    return found


def metrics_of(lowered: Lowered, d: int) -> list[Metric]:
    """Group the parts that share a metric into one function each, weights included.

    Raises:
        ValueError: as of `parts_of`.
    """
    parts = parts_of(lowered, d)
    maps = [_features_of_units(lowered, k, d) for k in range(len(parts))]
    groups: dict[int, Radial] = {}
    for (place,), weight in zip(lowered.terms, lowered.weights, strict=True):
        function, width = parts[place].radial.functions[0], parts[place].radial.width
        for first, radial in groups.items():
            if (scale := _ratio(maps[first], maps[place])) is not None:
                groups[first] = Radial(
                    (*radial.functions, function), (*radial.weights, float(weight)), (*radial.scales, scale), width
                )
                break
        else:
            groups[place] = Radial((function,), (float(weight),), (1.0,), width)
    return [Metric(radial, place) for place, radial in groups.items()]


def differ_in_scale(lowered: Lowered, other: Lowered, d: int) -> bool:
    """Test whether each feature of two kernels is a multiple of the same linear function, as of two lengthscales."""
    for part in range(len(lowered.parts)):
        one, two = (_features_of_units(each, part, d) for each in (lowered, other))
        products = torch.linalg.vector_norm(one, dim=0) * torch.linalg.vector_norm(two, dim=0)
        if not torch.allclose((one * two).sum(0).abs(), products, rtol=SAME, atol=0.0):
            return False
    return True


def _features_of_units(lowered: Lowered, part: int, d: int) -> Tensor:
    return lowered.parts[part].features(torch.eye(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64))


def _is_linear(lowered: Lowered, part: int, d: int) -> bool:
    """Test whether features are a linear map of the centred inputs, as those of stationary kernels are."""
    unit, x = _features_of_units(lowered, part, d), torch.linspace(-2.0, 3.0, d + 1, dtype=torch.float64)[None, 1:]
    at_zero = lowered.parts[part].features(torch.zeros_like(x), torch.zeros(d, dtype=torch.float64))
    found = lowered.parts[part].features(x, torch.zeros(d, dtype=torch.float64))
    return not at_zero.any() and torch.allclose(found, x @ unit, rtol=SAME, atol=0.0)


def _ratio(first: Tensor, other: Tensor) -> float | None:
    """Return s if other = s · first, otherwise None."""
    if first.shape != other.shape:
        return None
    place = first.abs().argmax()
    scale = float(other.flatten()[place] / first.flatten()[place])
    return scale if scale > 0 and torch.allclose(other, scale * first, rtol=SAME, atol=0.0) else None
