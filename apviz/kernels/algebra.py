"""A kernel is an immutable expression: its sums, products and multiples, and itself of some columns, are kernels."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Integral
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from apviz.kernels.formula import Lowered, centre_of, pairwise_distances
from apviz.kernels.random_features import RandomFeatures
from apviz.settings import positive, shown

T = TypeVar("T")
#: numbers of a kernel by name; those of a part of a sum or product have its place before theirs, as `0.lengthscale`
Hyperparameter = float | tuple[float, ...]


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
        """Return this kernel of inputs with d columns as a sum of products.

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
        """Return this kernel with other numbers, by name; those that are not given stay.

        Raises:
            ValueError: a name that is not in `hyperparameters`.
        """

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
        """Return this kernel with other numbers, all of them in the order of `numbers`."""
        left = iter(numbers)
        values: dict[str, Hyperparameter] = {
            name: next(left) if isinstance(value, float) else tuple(next(left) for _ in value)
            for name, value in self.hyperparameters.items()
        }
        return self.with_hyperparameters(values)

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        """List the distances over which its parts change, (columns,) float64 in the inputs' units, and the columns.

        Kernels of products, which change over none, are left out.
        """
        yield from ()

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        """Return the same model in other units: k′ with k′(u, u′) = k(x, x′), for inputs u = (x − centre)/unit.

        Args:
            centre, unit: (d,), of the columns of x; units are positive.

        Raises:
            ValueError: apviz has no such kernel.

        Examples:
            >>> import apviz
            >>> (apviz.RBF(lengthscale=3.0) * apviz.Periodic(period=12.0)).rescaled([2000.0], [12.0])
            RBF(lengthscale=0.25, outputscale=1.0) * Periodic(lengthscale=1.0, period=1.0, outputscale=1.0)
        """
        if any(centre) or any(each != 1.0 for each in unit):
            raise ValueError(f"{self!r} needs inputs in their own units, so apviz cannot convert it to scaled inputs")
        return self

    @property
    def is_evaluated(self) -> bool:
        """Whether code from outside apviz evaluates a part of it, which no engine compiles."""
        return False

    @property
    def name(self) -> str:
        """Name in captions and traces."""
        return repr(self)

    def __call__(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        """Evaluate the kernel matrix k(x, z) by direct differences, without noise: x (n, d), z (m, d), to (n, m)."""
        lowered, centre = self.lowered(x.shape[1]), centre_of(x)
        parts = lowered.features(x, centre)
        formula = lowered.formula([part.shape[1] for part in parts])
        first = torch.cat(parts, 1).to(x.dtype)
        second = first if z is None else torch.cat(lowered.features(z, centre), 1).to(x.dtype)
        return formula.values(first, second, pairwise_distances)

    def features(self, x: Tensor) -> Tensor:
        """Compute the features of inputs x: (n, d), in which engines and partitions see them: (n, D) in its dtype."""
        return torch.cat(self.lowered(x.shape[1]).features(x, centre_of(x)), 1).to(x.dtype)

    def random_features(self, x: Tensor, count: int, seed: int = 0) -> RandomFeatures:
        """Draw random features, whose products are k on average; x (n, d) gives their centre.

        Args:
            count: of each term of the sum of products that the kernel is; errors of k fall with its root.
            seed: the same features, moved with the hyperparameters, for the same seed.

        Raises:
            ValueError: a kernel with a part whose spectrum is not known.
        """
        return RandomFeatures(self.lowered(x.shape[1]), x, count, seed)

    def on(self, columns: int | Sequence[int]) -> On:
        """Return this kernel of some columns of the inputs, in the order in which its lengthscales are given."""
        return On(self, columns)

    def __add__(self, other: Kernel) -> Sum:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Product | Kernel:
        return Product(self, other) if isinstance(other, Kernel) else self.scaled_by(other)

    def __rmul__(self, factor: float) -> Kernel:
        return self.scaled_by(factor)

    def scaled_by(self, factor: float) -> Kernel:
        """Return this kernel times a positive number."""
        return Scaled(self, outputscale=factor)


@dataclass(frozen=True, init=False, repr=False)
class _Composite(Kernel):
    """A kernel of several others, whose hyperparameters are named by their places."""

    kernels: tuple[Kernel, ...]

    def __init__(self, *kernels: Kernel) -> None:
        if not kernels or not all(isinstance(kernel, Kernel) for kernel in kernels):
            raise TypeError(f"{type(self).__name__} takes kernels, got {', '.join(map(repr, kernels)) or 'none'}")
        object.__setattr__(self, "kernels", tuple(self._flat(kernels)))

    def _flat(self, kernels: Sequence[Kernel]) -> Iterator[Kernel]:
        for kernel in kernels:
            yield from kernel.kernels if type(kernel) is type(self) else (kernel,)

    def _lowered(self, d: int, at: Mapping[str, Tensor] | None) -> list[Lowered]:
        return [kernel.lowered(d, _below(at or {}, k)) for k, kernel in enumerate(self.kernels)]

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        for kernel in self.kernels:
            yield from kernel.shortest_scales(d)

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        return type(self)(*(kernel.rescaled(centre, unit) for kernel in self.kernels))

    @property
    def is_evaluated(self) -> bool:
        return any(kernel.is_evaluated for kernel in self.kernels)

    @property
    def hyperparameters(self) -> dict[str, Hyperparameter]:
        return {
            f"{k}.{name}": value
            for k, kernel in enumerate(self.kernels)
            for name, value in kernel.hyperparameters.items()
        }

    @property
    def of_any_sign(self) -> frozenset[str]:
        return frozenset(f"{k}.{name}" for k, kernel in enumerate(self.kernels) for name in kernel.of_any_sign)

    def with_hyperparameters(self, values: Mapping[str, Hyperparameter]) -> Self:
        check_names(self, values)
        return type(self)(*(k.with_hyperparameters(_below(values, i)) for i, k in enumerate(self.kernels)))


class Sum(_Composite):
    """A sum of kernels, as `k1 + k2` makes it: of independent functions."""

    def lowered(self, d: int, at: Mapping[str, Tensor] | None = None) -> Lowered:
        return reduce(Lowered.plus, self._lowered(d, at))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.kernels))


class Product(_Composite):
    """A product of kernels, as `k1 * k2` makes it."""

    def lowered(self, d: int, at: Mapping[str, Tensor] | None = None) -> Lowered:
        return reduce(Lowered.times, self._lowered(d, at))

    def __repr__(self) -> str:
        return " * ".join(map(_bracketed, self.kernels))


@dataclass(frozen=True, init=False, repr=False)
class Scaled(Kernel):
    """A positive number times a kernel, as `2.0 * k` makes it where k has no outputscale of its own.

    Args:
        kernel: k.
        outputscale: the number.

    Raises:
        ValueError: a number that is not finite and positive.
    """

    kernel: Kernel
    outputscale: float

    def __init__(self, kernel: Kernel, *, outputscale: float = 1.0) -> None:
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "outputscale", positive("a factor of a kernel", outputscale))

    def lowered(self, d: int, at: Mapping[str, Tensor] | None = None) -> Lowered:
        at = at or {}
        factor = at.get("outputscale")
        found = torch.tensor(self.outputscale, dtype=torch.float64) if factor is None else factor.double()
        return self.kernel.lowered(d, _below(at, 0)).scaled(found)

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        return self.kernel.shortest_scales(d)

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        return type(self)(self.kernel.rescaled(centre, unit), outputscale=self.outputscale)

    @property
    def is_evaluated(self) -> bool:
        return self.kernel.is_evaluated

    @property
    def hyperparameters(self) -> dict[str, Hyperparameter]:
        inner = {f"0.{name}": value for name, value in self.kernel.hyperparameters.items()}
        return {"outputscale": self.outputscale, **inner}

    @property
    def of_any_sign(self) -> frozenset[str]:
        return frozenset(f"0.{name}" for name in self.kernel.of_any_sign)

    def with_hyperparameters(self, values: Mapping[str, Hyperparameter]) -> Self:
        check_names(self, values)
        outputscale = values.get("outputscale", self.outputscale)
        inner = self.kernel.with_hyperparameters(_below(values, 0))
        return type(self)(inner, outputscale=outputscale)  # type: ignore[arg-type]

    def scaled_by(self, factor: float) -> Self:
        scale = self.outputscale * positive("a factor of a kernel", factor)
        return type(self)(self.kernel, outputscale=scale)

    def __repr__(self) -> str:
        return f"{self.outputscale!r} * {_bracketed(self.kernel)}"


class OfInputs(Kernel):
    """A kernel of something computed from the inputs, with the hyperparameters of that kernel."""

    kernel: Kernel

    @abstractmethod
    def around(self, kernel: Kernel) -> Self:
        """Return another kernel of the same inputs."""

    @property
    def is_evaluated(self) -> bool:
        return self.kernel.is_evaluated

    @property
    def hyperparameters(self) -> dict[str, Hyperparameter]:
        return self.kernel.hyperparameters

    @property
    def of_any_sign(self) -> frozenset[str]:
        return self.kernel.of_any_sign

    def with_hyperparameters(self, values: Mapping[str, Hyperparameter]) -> Self:
        return self.around(self.kernel.with_hyperparameters(values))

    def scaled_by(self, factor: float) -> Self:
        return self.around(self.kernel.scaled_by(factor))


@dataclass(frozen=True, init=False, repr=False)
class On(OfInputs):
    """A kernel of some columns of the inputs, as `k.on([0, 3])` makes it.

    Args:
        kernel: k.
        columns: their numbers, from 0.

    Raises:
        ValueError: no column, one twice, or one below 0; when it is used, one that the inputs do not have.
    """

    kernel: Kernel
    columns: tuple[int, ...]

    def __init__(self, kernel: Kernel, columns: int | Sequence[int]) -> None:
        given: Any = [columns] if isinstance(columns, Integral) else columns
        try:
            chosen = tuple(operator.index(column) for column in given)
        except TypeError:
            chosen = ()
        if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 0:
            raise ValueError(f"columns must be different whole numbers from 0, at least one, got {shown(columns)}")
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "columns", chosen)

    def around(self, kernel: Kernel) -> Self:
        return type(self)(kernel, self.columns)

    def lowered(self, d: int, at: Mapping[str, Tensor] | None = None) -> Lowered:
        self._check_columns(d)
        return self.kernel.lowered(len(self.columns), at).on(self.columns)

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        for scale, columns in self.kernel.shortest_scales(len(self.columns)):
            yield scale, [self.columns[column] for column in columns]

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        self._check_columns(len(unit))
        chosen = ([each[column] for column in self.columns] for each in (centre, unit))
        return self.around(self.kernel.rescaled(*chosen))

    def _check_columns(self, d: int) -> None:
        if max(self.columns) >= d:
            raise ValueError(f"the kernel takes column {max(self.columns)}, the inputs have columns 0 to {d - 1}")

    def __repr__(self) -> str:
        return f"{_bracketed(self.kernel)}.on({list(self.columns)})"


def multiplied(kernel: Kernel, factor: float) -> Kernel:
    """Return a kernel times a positive number, with the same structure: the names of its numbers stay."""
    if isinstance(kernel, Sum):
        return Sum(*(multiplied(term, factor) for term in kernel.kernels))
    if isinstance(kernel, Product):
        return Product(multiplied(kernel.kernels[0], factor), *kernel.kernels[1:])
    if isinstance(kernel, OfInputs):
        return kernel.around(multiplied(kernel.kernel, factor))
    return kernel.scaled_by(factor)


def _below(values: Mapping[str, T], place: int) -> dict[str, T]:
    """What is named for the kernel at a place, by its own names."""
    start = f"{place}."
    return {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}


def check_names(kernel: Kernel, values: Mapping[str, Hyperparameter]) -> None:
    """Reject values of hyperparameters that a kernel does not have."""
    if unknown := [name for name in values if name not in kernel.hyperparameters]:
        raise ValueError(
            f"{kernel!r} has no hyperparameter {', '.join(unknown)}; it has {', '.join(kernel.hyperparameters)}"
        )


def _bracketed(kernel: Kernel) -> str:
    return f"({kernel!r})" if isinstance(kernel, Sum | Product | Scaled) else repr(kernel)
