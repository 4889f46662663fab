"""What engines evaluate of a kernel: numbers, and torch's own evaluation of a tile, its diagonal and its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from apviz.kernels.functions import Function
from apviz.settings import without_tf32

#: squared distances of features, (n, width) and (m, width), to (n, m)
Distances = Callable[[Tensor, Tensor], Tensor]


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

    @without_tf32()
    def values(self, x: Tensor, z: Tensor, distances: Distances) -> Tensor:
        """Evaluates k of features x: (n, D), z: (m, D), to (n, m), without noise."""
        us = self._us(x, z, distances)
        values = [f.correlation_(u, torch.empty_like(u)) for f, u in zip(self.functions, us, strict=True)]
        return self._combined(values)

    @without_tf32()
    def differentiable(self, x: Tensor, z: Tensor) -> Tensor:
        """Evaluates k of features x: (n, D), z: (m, D), to (n, m), for autograd to differentiate in both, twice.

        Holds n·m·D numbers for every derivative: for few rows.
        """
        values = [_differentiable(f, left, right) for f, left, right in self._pairs(x, z)]
        products = [math.prod((values[part] for part in term[1:]), start=values[term[0]]) for term in self.terms]
        weights = torch.tensor(self.weights, dtype=torch.float64).to(products[0])
        return torch.einsum("t,tnm->nm", weights, torch.stack(products))

    def diagonal(self, x: Tensor) -> Tensor:
        """Evaluates k(x, x) of every row of features x: (n, D), to (n,) float64."""
        us = [_of_each(f, part) for f, part in zip(self.functions, self._parts(x.double()), strict=True)]
        return self._combined([f.correlation_(u, torch.empty_like(u)) for f, u in zip(self.functions, us, strict=True)])

    @without_tf32()
    def gradients(self, x: Tensor, z: Tensor, m: Tensor, distances: Distances) -> Gradients:
        """Differentiates Σᵢⱼ Mᵢⱼ k(xᵢ, zⱼ): features x (n, D), z (r, D), m (n, r), symmetric where z is x."""
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
