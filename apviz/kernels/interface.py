"""What a kernel is: an immutable expression, which engines see as a sum of products of functions of features.

Every kernel is k(x, z) = Σₜ wₜ Π fₚ(uₚ): each *part* p has features φₚ(x), of which uₚ is the squared distance
‖φₚ(x) − φₚ(z)‖² or the product φₚ(x)ᵀφₚ(z), and a function fₚ (other people's code is a function of pairs). An engine
therefore needs one distance or product and one formula a part, and derivatives in features, weights and shapes give
those in every parameter, in the inputs, and in whatever inputs were computed from. Features are computed in float64 and
then rounded, for what is lost before a difference is taken cannot be had again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from apviz.kernels.formula import Formula
from apviz.kernels.functions import Function

if TYPE_CHECKING:
    from apviz.kernels.algebra import On, Product, Scaled, Sum
    from apviz.kernels.random_features import RandomFeatures

#: numbers of a kernel by name; those of a part of a sum or product have its place before theirs, as `0.lengthscale`
Hyperparameter = float | tuple[float, ...]

#: of a sum of products, beyond which evaluating it takes no bearable time
MAX_TERMS = 1_024


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
    shape: Tensor
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
        """Adds two kernels."""
        return Lowered(
            self.parts + other.parts, self.terms + other._shifted(len(self.parts)), self.weights + other.weights
        )

    def times(self, other: Lowered) -> Lowered:
        """Multiplies two kernels: every term of one with every term of the other."""
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
        """Multiplies a kernel by a number."""
        return Lowered(self.parts, self.terms, tuple(factor * weight for weight in self.weights))

    def on(self, columns: Sequence[int]) -> Lowered:
        """Restricts a kernel to some columns of the inputs."""

        def of(part: Part) -> Part:
            return replace(part, features=lambda x, c: part.features(x[:, columns], c[..., columns]))

        return Lowered(tuple(of(part) for part in self.parts), self.terms, self.weights)

    def features(self, x: Tensor, centre: Tensor) -> list[Tensor]:
        """Computes the features of every part, (n, width) float64, of inputs x: (n, d)."""
        return [part.features(x.double(), centre) for part in self.parts]

    def formula(self, widths: Sequence[int]) -> Formula:
        """Returns what engines evaluate, for features of these widths."""
        return Formula(
            tuple(part.function for part in self.parts), tuple(widths), tuple(float(p.shape) for p in self.parts),
            self.terms, tuple(float(weight) for weight in self.weights),
        )  # fmt: skip

    def _shifted(self, by: int) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(part + by for part in term) for term in self.terms)


class Kernel(ABC):
    """A covariance function k(x, z): immutable, comparable, and closed under `+`, `*` and `on`.

    Examples:
        >>> import apviz
        >>> kernel = 2.0 * apviz.RBF(lengthscale=0.5).on([0, 1]) + apviz.Linear().on([2])
        >>> kernel
        RBF(lengthscale=0.5, outputscale=2.0).on([0, 1]) + Linear(lengthscale=1.0, outputscale=1.0).on([2])
        >>> kernel == apviz.RBF(lengthscale=0.5, outputscale=2.0).on([0, 1]) + apviz.Linear().on([2])
        True
    """

    @abstractmethod
    def lowered(self, d: int, at: Mapping[str, Tensor] | None = None) -> Lowered:
        """Returns this kernel of inputs with d columns as a sum of products.

        Args:
            at: float64 values of hyperparameters by name, which may want gradients; the others are the kernel's own.

        Raises:
            ValueError: a kernel that does not take d columns.
        """

    @property
    @abstractmethod
    def hyperparameters(self) -> dict[str, Hyperparameter]:
        """The numbers this kernel has, by name."""

    @abstractmethod
    def with_hyperparameters(self, values: Mapping[str, Hyperparameter]) -> Kernel:
        """Returns this kernel with other numbers, by name; those that are not given stay."""

    @property
    def of_any_sign(self) -> frozenset[str]:
        """The names of hyperparameters that may have any sign; the others are positive, or 0 where that is allowed."""
        return frozenset()

    @property
    def numbers(self) -> dict[str, float]:
        """All hyperparameters number by number: `0.lengthscale[1]` is the second of a first part's lengthscales."""
        return {
            name if isinstance(value, float) else f"{name}[{place}]": number
            for name, value in self.hyperparameters.items()
            for place, number in enumerate((value,) if isinstance(value, float) else value)
        }

    def with_numbers(self, numbers: Sequence[float]) -> Kernel:
        """Returns this kernel with other numbers, all of them in the order of `numbers`."""
        left = iter(numbers)
        values: dict[str, Hyperparameter] = {
            name: next(left) if isinstance(value, float) else tuple(next(left) for _ in value)
            for name, value in self.hyperparameters.items()
        }
        return self.with_hyperparameters(values)

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        """Lists the distances over which its parts change, (columns,) float64 in the inputs' units, and the columns.

        Kernels of products, which change over none, are left out.
        """
        yield from ()

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        """Return the same model in other units: k′ with k′(u, u′) = k(x, x′), for inputs u = (x − centre)/unit.

        Args:
            centre, unit: (d,), of the columns of x; units are positive.

        Raises:
            ValueError: there is no such kernel in apviz, or it is not known.

        Examples:
            >>> import apviz
            >>> (apviz.RBF(lengthscale=3.0) * apviz.Periodic(period=12.0)).rescaled([2000.0], [12.0])
            RBF(lengthscale=0.25, outputscale=1.0) * Periodic(lengthscale=1.0, period=1.0, outputscale=1.0)
        """
        if any(centre) or any(each != 1.0 for each in unit):
            raise ValueError(f"{self!r} takes its inputs in their own units: apviz cannot write it for scaled inputs")
        return self

    @property
    def is_evaluated(self) -> bool:
        """Whether a part of it is evaluated by other people's code, which no engine compiles."""
        return False

    @property
    def name(self) -> str:
        """What it is called, in captions and traces."""
        return repr(self)

    def __call__(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        """Evaluates the kernel matrix k(x, z) by direct differences, without noise: x (n, d), z (m, d), to (n, m)."""
        lowered, centre = self.lowered(x.shape[1]), centre_of(x)
        parts = lowered.features(x, centre)
        formula = lowered.formula([part.shape[1] for part in parts])
        first = torch.cat(parts, 1).to(x.dtype)
        second = first if z is None else torch.cat(lowered.features(z, centre), 1).to(x.dtype)
        return formula.values(first, second, pairwise_distances)

    def features(self, x: Tensor) -> Tensor:
        """Computes the features of inputs x: (n, d), in which engines and partitions see them: (n, D) in its dtype."""
        return torch.cat(self.lowered(x.shape[1]).features(x, centre_of(x)), 1).to(x.dtype)

    def random_features(self, x: Tensor, count: int, seed: int = 0) -> RandomFeatures:
        """Draws features whose products are k in the mean, of which functions are drawn: x (n, d), for their centre.

        Args:
            count: of each term of the sum of products that the kernel is; errors of k fall with its root.
            seed: the same features, moved with the hyperparameters, for the same seed.

        Raises:
            ValueError: a kernel with a part whose spectrum is not known.
        """
        from apviz.kernels.random_features import RandomFeatures

        return RandomFeatures(self, x, count, seed)

    def on(self, columns: int | Sequence[int]) -> On:
        """Returns this kernel of some columns of the inputs, in the order in which its lengthscales are given."""
        from apviz.kernels.algebra import On

        return On(self, columns)

    def __add__(self, other: Kernel) -> Sum:
        from apviz.kernels.algebra import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Product | Kernel:
        from apviz.kernels.algebra import Product

        return Product(self, other) if isinstance(other, Kernel) else self.scaled_by(other)

    def __rmul__(self, factor: float) -> Kernel:
        return self.scaled_by(factor)

    def scaled_by(self, factor: float) -> Kernel:
        """Returns this kernel times a positive number."""
        from apviz.kernels.algebra import Scaled

        scaled: Scaled = Scaled(self, outputscale=factor)
        return scaled


def centre_of(x: Tensor) -> Tensor:
    """Finds the middle of the range of each input of x: (n, d), to (d,) float64, whatever the order of rows."""
    least, largest = x.aminmax(dim=0)
    return least.double() + (largest.double() - least.double()) / 2


def pairwise_distances(x: Tensor, z: Tensor) -> Tensor:
    """Computes squared distances by direct differences: x (n, width), z (m, width), to (n, m)."""
    return torch.cdist(x, z, compute_mode="donot_use_mm_for_euclid_dist").square_()
