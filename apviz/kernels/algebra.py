"""Sums, products and multiples of kernels, and kernels of some columns."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Integral
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from apviz.kernels.interface import Hyperparameter, Kernel, Lowered
from apviz.kernels.leaf import positive
from apviz.settings import shown

T = TypeVar("T")


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
        _check_names(self, values)
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
        _check_names(self, values)
        outputscale = values.get("outputscale", self.outputscale)
        inner = self.kernel.with_hyperparameters(_below(values, 0))
        return type(self)(inner, outputscale=outputscale)  # type: ignore[arg-type]

    def scaled_by(self, factor: float) -> Self:
        scale = self.outputscale * positive("a factor of a kernel", factor)
        return type(self)(self.kernel, outputscale=scale)

    def __repr__(self) -> str:
        return f"{self.outputscale!r} * {_bracketed(self.kernel)}"


@dataclass(frozen=True, init=False, repr=False)
class On(Kernel):
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

    def lowered(self, d: int, at: Mapping[str, Tensor] | None = None) -> Lowered:
        self._check_columns(d)
        return self.kernel.lowered(len(self.columns), at).on(self.columns)

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        for scale, columns in self.kernel.shortest_scales(len(self.columns)):
            yield scale, [self.columns[column] for column in columns]

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        self._check_columns(len(unit))
        chosen = ([each[column] for column in self.columns] for each in (centre, unit))
        return type(self)(self.kernel.rescaled(*chosen), self.columns)

    def _check_columns(self, d: int) -> None:
        if max(self.columns) >= d:
            raise ValueError(f"the kernel takes column {max(self.columns)}, the inputs have columns 0 to {d - 1}")

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
        return type(self)(self.kernel.with_hyperparameters(values), self.columns)

    def scaled_by(self, factor: float) -> Self:
        return type(self)(self.kernel.scaled_by(factor), self.columns)

    def __repr__(self) -> str:
        return f"{_bracketed(self.kernel)}.on({list(self.columns)})"


def multiplied(kernel: Kernel, factor: float) -> Kernel:
    """Return a kernel times a positive number, with the same structure: the names of its numbers stay."""
    if isinstance(kernel, Sum):
        return Sum(*(multiplied(term, factor) for term in kernel.kernels))
    if isinstance(kernel, Product):
        return Product(multiplied(kernel.kernels[0], factor), *kernel.kernels[1:])
    if isinstance(kernel, On):
        return On(multiplied(kernel.kernel, factor), kernel.columns)
    return kernel.scaled_by(factor)


def _below(values: Mapping[str, T], place: int) -> dict[str, T]:
    """What is named for the kernel at a place, by its own names."""
    start = f"{place}."
    return {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}


def _check_names(kernel: Kernel, values: Mapping[str, Hyperparameter]) -> None:
    if unknown := [name for name in values if name not in kernel.hyperparameters]:
        raise ValueError(
            f"{kernel!r} has no hyperparameter {', '.join(unknown)}; it has {', '.join(kernel.hyperparameters)}"
        )


def _bracketed(kernel: Kernel) -> str:
    return f"({kernel!r})" if isinstance(kernel, Sum | Product | Scaled) else repr(kernel)
