"""Kernels of one part: a dataclass of its hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor

from apviz.kernels.algebra import Hyperparameter, Kernel, check_names
from apviz.kernels.formula import Lowered, Part
from apviz.kernels.functions import Function
from apviz.settings import in_full_precision, positive, require_torch_defaults, shown

#: a lengthscale as a user may give it
Lengthscale = float | Sequence[float] | Tensor


@dataclass(frozen=True)
class Leaf(Kernel, Function):
    """A kernel outputscale · f(u) of one part.

    Args:
        outputscale: the positive factor, in squared units of the target.
    """

    outputscale: float

    def lowered(self, d: int, at: Mapping[str, Tensor] | None = None) -> Lowered:
        values = {name: self._value(name, at or {}) for name in self.hyperparameters}
        part = Part(self.function(d), lambda x, centre: self.embed(x, centre, values), self.shape_at(values))
        return Lowered((part,), ((0,),), (values["outputscale"],))

    def function(self, d: int) -> Function:
        """Return f for inputs with d columns."""
        return self

    def embed(self, x: Tensor, centre: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        """Compute the features φ of x: (n, d) float64, at these hyperparameters."""
        raise NotImplementedError

    def shape_at(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return the formula's shape at these hyperparameters, 0-d float64."""
        return torch.zeros((), dtype=torch.float64)

    def _has_embedding_of(self, kind: type[Any]) -> bool:
        """Test whether features are those of an apviz class, and not of a subclass that computes others."""
        return bool(type(self).embed is kind.embed and type(self).lowered is Leaf.lowered)

    @property
    def hyperparameters(self) -> dict[str, Hyperparameter]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.type != "int"}

    def with_hyperparameters(self, values: Mapping[str, Hyperparameter]) -> Self:
        check_names(self, values)
        given: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)} | dict(values)
        return type(self)(**given)

    def scaled_by(self, factor: float) -> Self:
        return self.with_hyperparameters({"outputscale": self.outputscale * positive("a factor of a kernel", factor)})

    def __repr__(self) -> str:
        names = [field.name for field in fields(self)]
        ordered = sorted(names, key=lambda name: (name == "outputscale") - (name == "lengthscale"))
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in ordered)
        return f"{type(self).__name__}({given})"

    def _value(self, name: str, at: Mapping[str, Tensor]) -> Tensor:
        given = at.get(name)
        return torch.as_tensor(getattr(self, name), dtype=torch.float64) if given is None else given.double()


def numbers_of(setting: str, values: Any) -> Tensor:
    """Return numbers, nested or not, as float64.

    Raises:
        ValueError: something else.
    """
    with in_full_precision():
        require_torch_defaults()
    try:
        return torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # which one, by what it is
        raise ValueError(f"{setting} must be numbers, got {shown(values)}") from error


def per_column(name: str, values: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Return a hyperparameter of inputs x: (n, d) on their device, one number or (d,).

    Raises:
        ValueError: several numbers, and not one a column.
    """
    value = values[name].to(x.device)
    if value.ndim and len(value) != x.shape[-1]:
        raise ValueError(f"{len(value)} {name}s were given for inputs with {x.shape[-1]} columns")
    return value


def in_units(name: str, values: float | tuple[float, ...], unit: Sequence[float]) -> float | tuple[float, ...]:
    """Divide a number, or one a column, by the units of d columns; one number stays one where all units are equal."""
    if isinstance(values, float) and len(set(unit)) == 1:
        return values / float(unit[0])
    several = values if isinstance(values, tuple) else (values,) * len(unit)
    if len(several) != len(unit):
        raise ValueError(f"{len(several)} {name}s were given for inputs with {len(unit)} columns")
    return tuple(value / float(each) for value, each in zip(several, unit, strict=True))


def positives(setting: str, values: Any) -> float | tuple[float, ...]:
    """Check that one number, or several, are finite and positive; return a float, or a tuple of several."""
    found = numbers_of(setting, values).flatten().tolist()
    if not found:
        raise ValueError(f"{setting} must be one number or d of them, got none")
    checked = [positive(setting, value) for value in found]
    return checked[0] if len(checked) == 1 else tuple(checked)
