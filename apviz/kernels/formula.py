"""What a kernel is to engines: a sum of products of functions of features, differentiable or in numbers.

Every kernel is k(x, z) = Σₜ wₜ Π fₚ(uₚ): each *part* p has features φₚ(x), of which uₚ is the squared distance
‖φₚ(x) − φₚ(z)‖² or the product φₚ(x)ᵀφₚ(z), and a function fₚ (other people's code is a function of pairs). An engine
therefore needs one distance or product and one formula a part, and derivatives in features, weights and shapes give
those in every parameter, in the inputs, and in whatever inputs were computed from. Features are computed in float64 and
then rounded, for what is lost before a difference is taken cannot be had again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from apviz.kernels.functions import Function
from apviz.settings import without_tf32

#: of a sum of products, beyond which evaluating it takes no bearable time
MAX_TERMS = 1_024

#: squared distances of features, (n, width) and (m, width), to (n, m)
Distances = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a kernel at some values of its hyperparameters, in which everything can be differentiated.

    Args:
        function: f, without derivatives in its shape.
        features: φ, of inputs (n, d) in float64 and their centre (d,), to (n, width).
        shape: 0-d float64, `function.shape`.
        numbers: (p,) float64, all that a function of pairs depends on.
    """

    function: Function
    features: Callable[[Tensor, Tensor], Tensor]
    shape: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.float64))
    numbers: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))


@dataclass(frozen=True, eq=False)
class Lowered:
    """A kernel as a sum of products of parts.

    Args:
        parts: in the order of their features.
        terms: of the sum, the places of the parts that are multiplied.
        weights: of the terms, 0-d float64.
    """

    parts: tuple[Part, ...]
    terms: tuple[tuple[int, ...], ...]
    weights: tuple[Tensor, ...]

    def plus(self, other: Lowered) -> Lowered:
        """Add two kernels."""
        return Lowered(
            self.parts + other.parts, self.terms + other._shifted(len(self.parts)), self.weights + other.weights
        )

    def times(self, other: Lowered) -> Lowered:
        """Multiply two kernels: every term of one with every term of the other."""
        number = len(self.terms) * len(other.terms)
        if number > MAX_TERMS:
            raise ValueError(
                f"a product of sums of kernels has {number:,} terms when it is written out; at most {MAX_TERMS:,} are "
                "taken: multiply fewer sums"
            )
        shifted = other._shifted(len(self.parts))
        terms = tuple(a + b for a in self.terms for b in shifted)
        weights = tuple(a * b for a in self.weights for b in other.weights)
        return Lowered(self.parts + other.parts, terms, weights)

    def scaled(self, factor: Tensor) -> Lowered:
        """Multiply a kernel by a number."""
        return Lowered(self.parts, self.terms, tuple(factor * weight for weight in self.weights))

    def on(self, columns: Sequence[int]) -> Lowered:
        """Restrict a kernel to some columns of the inputs."""

        def of(part: Part) -> Part:
            return replace(part, features=lambda x, c: part.features(x[:, columns], c[..., columns]))

        return Lowered(tuple(of(part) for part in self.parts), self.terms, self.weights)

    def transformed(self, matrix: Tensor) -> Lowered:
        """Take a kernel of k inputs at A x instead: matrix (k, d) float64."""

        def of(part: Part) -> Part:
            def features(x: Tensor, centre: Tensor) -> Tensor:
                across = matrix.to(x.device).T
                return part.features(x @ across, centre @ across)

            return replace(part, features=features)

        return Lowered(tuple(of(part) for part in self.parts), self.terms, self.weights)

    def features(self, x: Tensor, centre: Tensor) -> list[Tensor]:
        """Compute the features of every part, (n, width) float64, of inputs x: (n, d)."""
        return [part.features(x.double(), centre) for part in self.parts]

    def formula(self, widths: Sequence[int]) -> Formula:
        """Return what engines evaluate, for features of these widths."""
        return Formula(
            tuple(part.function for part in self.parts), tuple(widths), tuple(float(p.shape) for p in self.parts),
            self.terms, tuple(float(weight) for weight in self.weights),
        )  # fmt: skip

    def _shifted(self, by: int) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(part + by for part in term) for term in self.terms)


class Gradients(NamedTuple):
    """Derivatives of Σᵢⱼ Mᵢⱼ k(φᵢ, ψⱼ), in float64.

    features: (n, D) in φ, with ψ held; shapes: (parts,); weights: (terms,); numbers: of functions of pairs, in order.
    """

    features: Tensor
    shapes: Tensor
    weights: Tensor
    numbers: Tensor


@dataclass(frozen=True, eq=False)
class Formula:
    """k = Σₜ wₜ Π fₚ(uₚ) in numbers, of features (n, D) with those of the parts side by side.

    Args:
        functions: fₚ, one a part.
        widths: of their features.
        shapes: of the functions, 0 where one has none.
        terms: the parts that are multiplied, for every term of the sum.
        weights: of the terms.
    """

    functions: tuple[Function, ...]
    widths: tuple[int, ...]
    shapes: tuple[float, ...]
    terms: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the features of each part begin, and the end of the last."""
        return (0, *accumulate(self.widths))

    @property
    def structure(self) -> tuple[tuple[str, ...], tuple[bool, ...], tuple[tuple[int, ...], ...]]:
        """What is left without the numbers: forms of the functions, which are of products, and terms."""
        return tuple(f.form for f in self.functions), tuple(f.of_product for f in self.functions), self.terms

    @property
    def has_kink(self) -> bool:
        """Whether any part has an infinite slope at distance 0."""
        return any(function.has_kink for function in self.functions)

    @property
    def is_positive(self) -> bool:
        """Whether no entry is negative, whatever the features."""
        return not any(function.of_product or function.of_pairs for function in self.functions)

    @cached_property
    def variance(self) -> float | None:
        """k(x, x) if it is the same at all x; None if it differs."""
        return float(self.diagonal(torch.zeros(1, self.starts[-1]))[0]) if self.is_positive else None

    @without_tf32()
    def values(self, x: Tensor, z: Tensor, distances: Distances) -> Tensor:
        """Evaluate k of features x: (n, D), z: (m, D), to (n, m), without noise."""
        us = self._us(x, z, distances)
        values = [f.correlation_(u, torch.empty_like(u)) for f, u in zip(self.functions, us, strict=True)]
        return self._combined(values)

    @without_tf32()
    def differentiable(self, x: Tensor, z: Tensor) -> Tensor:
        """Evaluate k of features x: (n, D), z: (m, D), to (n, m), for autograd to differentiate in both, twice.

        Holds n·m·D numbers for every derivative: for few rows.
        """
        values = [_differentiable(f, left, right) for f, left, right in self._pairs(x, z)]
        products = [math.prod((values[part] for part in term[1:]), start=values[term[0]]) for term in self.terms]
        weights = torch.tensor(self.weights, dtype=torch.float64).to(products[0])
        return torch.einsum("t,tnm->nm", weights, torch.stack(products))

    def diagonal(self, x: Tensor) -> Tensor:
        """Evaluate k(x, x) of every row of features x: (n, D), to (n,) float64."""
        us = [_of_each(f, part) for f, part in zip(self.functions, self._parts(x.double()), strict=True)]
        return self._combined([f.correlation_(u, torch.empty_like(u)) for f, u in zip(self.functions, us, strict=True)])

    @without_tf32()
    def gradients(self, x: Tensor, z: Tensor, m: Tensor, distances: Distances) -> Gradients:
        """Differentiate Σᵢⱼ Mᵢⱼ k(xᵢ, zⱼ): features x (n, D), z (r, D), m (n, r), symmetric where z is x."""
        us = self._us(x, z, distances)
        slopes = [f.slope(u) for f, u in zip(self.functions, us, strict=True)]
        in_shape = [f.slope_in_shape(u) for f, u in zip(self.functions, us, strict=True)]
        values = [f.correlation_(u, torch.empty_like(u)) for f, u in zip(self.functions, us, strict=True)]
        products = [math.prod((values[p] for p in term), start=m) for term in self.terms]
        weights = torch.stack([torch.sum(product, dtype=torch.float64) for product in products])
        features, shapes, numbers = [], [], []
        for part, (_, left, right) in enumerate(self._pairs(x, z)):
            by_value = torch.zeros_like(m)
            for weight, term in zip(self.weights, self.terms, strict=True):
                if part in term:
                    by_value += math.prod((values[p] for p in term if p != part), start=weight * m)
            shapes.append(torch.sum(by_value * in_shape[part], dtype=torch.float64))
            if self.functions[part].of_pairs:
                by_left, by_numbers = self.functions[part].pair_gradients(left, right, by_value)
                features.append(by_left)
                numbers.append(by_numbers)
                continue
            by_u = (by_value * slopes[part]).double()
            if self.functions[part].of_product:
                features.append(by_u @ right.double())
            else:
                gaps = left.double() * by_u.sum(1)[:, None] - by_u @ right.double()
                features.append(2 * gaps)
        found = torch.cat(numbers) if numbers else torch.empty(0, dtype=torch.float64, device=x.device)
        return Gradients(torch.cat(features, 1), torch.stack(shapes), weights, found)

    def _parts(self, x: Tensor) -> list[Tensor]:
        return [x[:, a:b] for a, b in pairwise(self.starts)]

    def _pairs(self, x: Tensor, z: Tensor) -> Iterator[tuple[Function, Tensor, Tensor]]:
        """The functions with their features of both sides: one tensor where z is x."""
        left = self._parts(x)
        yield from zip(self.functions, left, left if z is x else self._parts(z), strict=True)

    def _us(self, x: Tensor, z: Tensor, distances: Distances) -> list[Tensor]:
        return [_between(f, left, right, distances) for f, left, right in self._pairs(x, z)]

    def _combined(self, values: list[Tensor]) -> Tensor:
        out: Tensor | None = None
        for weight, term in zip(self.weights, self.terms, strict=True):
            first, *others = (values[part] for part in term)
            product = first.mul_(weight) if len(self.terms) == 1 else first * weight
            for other in others:
                product *= other
            out = product if out is None else out.add_(product)
        assert out is not None  # every kernel has a term
        return out


def _between(function: Function, left: Tensor, right: Tensor, distances: Distances) -> Tensor:
    if function.of_pairs:
        return function.between(left, right)
    return left @ right.T if function.of_product else distances(left, right)


class _Value(torch.autograd.Function):
    """f(u), whose derivative is the slope; that of the slope is left to autograd."""

    @staticmethod
    def forward(ctx: Any, function: Function, u: Tensor) -> Tensor:
        ctx.function = function
        ctx.save_for_backward(u)
        return function.correlation_(u.clone(), torch.empty_like(u))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, Tensor]:
        (u,), function = ctx.saved_tensors, ctx.function
        if function.of_product:
            return None, g * function.slope(u)
        # at distance 0 the slope may have an infinite derivative, which would be multiplied by 0
        apart = u > 0
        slope = function.slope(torch.where(apart, u, 1.0))
        return None, g * torch.where(apart, slope, function.slope(torch.zeros_like(u)))


def _differentiable(function: Function, left: Tensor, right: Tensor) -> Tensor:
    if function.of_pairs:
        return function.differentiable_between(left, right)
    u = left @ right.T if function.of_product else (left[:, None] - right[None]).square().sum(-1)
    value: Tensor = _Value.apply(function, u)  # type: ignore[no-untyped-call]
    return value


def _of_each(function: Function, rows: Tensor) -> Tensor:
    if function.of_pairs:
        return function.of_each(rows)
    return rows.square().sum(1) if function.of_product else torch.zeros(len(rows)).to(rows)


def centre_of(x: Tensor) -> Tensor:
    """Find the middle of the range of each input of x: (n, d), to (d,) float64, whatever the order of rows."""
    least, largest = x.aminmax(dim=0)
    return least.double() + (largest.double() - least.double()) / 2


def pairwise_distances(x: Tensor, z: Tensor) -> Tensor:
    """Compute squared distances by direct differences: x (n, width), z (m, width), to (n, m)."""
    return torch.cdist(x, z, compute_mode="donot_use_mm_for_euclid_dist").square_()
