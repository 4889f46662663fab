"""Random features of a kernel: φ with E φ(x)ᵀφ(z) = k(x, z), of which functions are drawn (Rahimi & Recht, NIPS 2007).

A kernel is a sum of products of parts (`formula`). Of a term, parts of distances have cosines and sines of random
frequencies, whose product is that of the sum of the frequencies; parts of products are their own features, or random
signs times them. Parts of equality have no features: `white` has their values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import torch
from torch import Generator, Tensor

from apviz.kernels.formula import Lowered, centre_of

#: numbers in an array of features of some rows
CHUNK_NUMBERS: Final = 1 << 22


@dataclass(frozen=True, eq=False)
class _Term:
    """A term of the sum, weight · Π fₚ(uₚ).

    Args:
        root: of the weight, and of the number of features it is spread over.
        frequencies: (D, count) of the features of all parts, 0 where a part is not of distances; None: none is.
        products: parts of products, each as often as its power.
        signs: of them, (width, count) each; empty where their products are taken themselves.
        size: features.
    """

    root: float
    frequencies: Tensor | None
    products: tuple[int, ...]
    signs: tuple[Tensor, ...]
    size: int


class RandomFeatures:
    """Features φ(x) of inputs, whose products are k(x, z) in the mean, white noise left out.

    Errors of φ(x)ᵀφ(z) fall with the root of `count`, to about √(2 ÷ count) of a correlation at worst. Kernels of
    products alone are exact where the products of their features are no more than `count`.

    Args:
        lowered: k, for inputs with d columns.
        x: (n, d) inputs; features are of differences from the middle of their range.
        count: of each term of the sum of products that k is.
        seed: of frequencies and signs, which move continuously with the kernel's hyperparameters.

    Raises:
        ValueError: a part whose spectrum is not known; a count that is not positive.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None]
        >>> kernel = apviz.Matern52(lengthscale=0.5)
        >>> features = kernel.random_features(x, 20_000)(x)
        >>> bool((features @ features.T - kernel(x)).abs().max() < 0.03)
        True
    """

    def __init__(self, lowered: Lowered, x: Tensor, count: int, seed: int = 0) -> None:
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}")
        self.count, self._lowered, self._centre = count, lowered, centre_of(x)
        widths = [part.shape[1] for part in self._lowered.features(x[:1], self._centre)]
        self._formula = self._lowered.formula(widths)
        self._slices = [slice(start, end) for start, end in pairwise(self._formula.starts)]
        generator = Generator().manual_seed(int(seed))
        self._terms: list[_Term] = []
        self._white_terms: list[tuple[float, tuple[int, ...]]] = []
        for weight, term in zip(self._formula.weights, self._formula.terms, strict=True):
            if any(self._formula.functions[part].of_equality for part in term):
                self._white_terms.append((weight, term))
            else:
                self._terms.append(self._drawn(weight, term, generator, x.device))

    def _drawn(self, weight: float, term: tuple[int, ...], generator: Generator, device: torch.device) -> _Term:
        functions, widths = self._formula.functions, self._formula.widths
        products = tuple(p for p in term if functions[p].of_product for _ in range(functions[p].power))
        distances = [p for p in term if not functions[p].of_product]
        exact = math.prod(widths[p] for p in products)
        if not distances and exact <= self.count:
            return _Term(math.sqrt(weight), None, products, (), exact)
        columns = -(-self.count // 2) if distances else self.count
        signs = tuple(_signs(widths[p], columns, generator).to(device) for p in products)
        if not distances:
            return _Term(math.sqrt(weight / columns), None, products, signs, columns)
        frequencies = torch.zeros(sum(widths), columns, dtype=torch.float64)
        for part in distances:
            drawn = functions[part].frequencies(widths[part], columns, generator)
            frequencies[self._slices[part]] = drawn.T
        return _Term(math.sqrt(weight / columns), frequencies.to(device), products, signs, 2 * columns)

    @property
    def size(self) -> int:
        """The number of features."""
        return sum(term.size for term in self._terms)

    @property
    def is_white(self) -> bool:
        """Whether the kernel has a part of white noise, which features leave out."""
        return bool(self._white_terms)

    def __call__(self, x: Tensor) -> Tensor:
        """Compute φ: (n, d) inputs of any floating dtype, to (n, size) float64. `combined` needs less memory."""
        parts = self._parts(x)
        features = [self._features(term, parts, torch.float64) for term in self._terms]
        return torch.cat([torch.empty(len(x), 0, dtype=torch.float64, device=x.device), *features], 1)

    def combined(self, x: Tensor, weights: Tensor) -> Tensor:
        """Compute φ(x) W: x (n, d), W (size, p), to (n, p) in its dtype; a chunk of rows at a time.

        Angles are in float64 whatever the dtype.
        """
        out = weights.new_zeros(len(x), weights.shape[1])
        rows = max(1, CHUNK_NUMBERS // max(1, self.size))
        for start in range(0, len(x), rows):
            parts, at = self._parts(x[start : start + rows]), 0
            for term in self._terms:
                features = self._features(term, parts, weights.dtype)
                out[start : start + rows] += features @ weights[at : at + term.size]
                at += term.size
        return out

    def white(self, x: Tensor, count: int, seed: int) -> Tensor:
        """Compute `count` functions drawn from the white part of the kernel: x (n, d), to (n, count) float64.

        Equal inputs have equal values, here and whenever they are asked for with this seed: those are normal numbers
        that are hashed from the inputs' digits.
        """
        parts, functions = self._parts(x), self._formula.functions
        out = torch.zeros(len(x), count, dtype=torch.float64, device=x.device)
        for number, (weight, term) in enumerate(self._white_terms):
            of_term = replace(self._formula, terms=(term,), weights=(weight,))
            deviation = of_term.diagonal(torch.cat(parts, 1)).sqrt()
            told_apart_by = torch.cat([parts[p] for p in term if functions[p].of_equality], 1)
            out += deviation[:, None] * _hashed_normal(told_apart_by, count, ((seed << 20) + number) % (1 << 63))
        return out

    def _parts(self, x: Tensor) -> list[Tensor]:
        return self._lowered.features(x, self._centre)

    def _features(self, term: _Term, parts: list[Tensor], dtype: torch.dtype) -> Tensor:
        """(n, term.size)."""
        if term.frequencies is None and not term.signs:
            rows = len(parts[0])
            product = torch.full((rows, 1), term.root, dtype=torch.float64, device=parts[0].device)
            for p in term.products:
                product = torch.einsum("na,nb->nab", product, parts[p]).reshape(rows, -1)
            return product.to(dtype)
        scale: Tensor | float = term.root
        for p, signs in zip(term.products, term.signs, strict=True):
            scale = scale * (parts[p] @ signs).to(dtype)
        if term.frequencies is None:
            assert isinstance(scale, Tensor)
            return scale
        angles = (torch.cat(parts, 1) @ term.frequencies).remainder_(2 * math.pi).to(dtype)
        return torch.cat([angles.cos() * scale, angles.sin_() * scale], 1)


def _signs(width: int, count: int, generator: Generator) -> Tensor:
    return torch.randint(2, (width, count), generator=generator).double() * 2.0 - 1.0


def _hashed_normal(values: Tensor, count: int, seed: int) -> Tensor:
    """Independent normal numbers of every row of values (n, width) float64 that is different, (n, count) float64."""
    hashed = torch.full((len(values),), seed, dtype=torch.int64, device=values.device)
    for bits in (values + 0.0).contiguous().view(torch.int64).unbind(1):  # so that −0 is 0
        hashed = _mixed(hashed ^ _mixed(bits))
    numbers = torch.arange(1, count + 1, dtype=torch.int64, device=values.device) * -0x61C8864680B583EB
    bits = (_mixed(_mixed(hashed[:, None] + numbers)) >> 11) & ((1 << 53) - 1)
    normal: Tensor = torch.special.ndtri((bits.double() + 0.5) * 2.0**-53)
    return normal


def _mixed(bits: Tensor) -> Tensor:
    """splitmix64 (Steele, Lea & Flood, OOPSLA 2014), in signed integers."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        bits = (bits ^ ((bits >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return bits ^ ((bits >> 31) & ((1 << 33) - 1))
