"""Stationary kernels: functions of a squared distance, with ARD lengthscales.

Every one is ``k(x, z) = outputscale · correlation(u)`` with ``u = ‖φ(x) − φ(z)‖²``, where ``φ`` divides by the
lengthscale and multiplies by the constant (√3, √5, 1/√2, ...) that makes the correlation shortest. Formulas: Rasmussen
& Williams, *Gaussian Processes for Machine Learning*, section 4.2.1.

A new kernel is one subclass that registers itself. The stored matrix and torch's tiles then have it; CONTRIBUTING.md
says where faster engines need its formula.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from apviz.kernels.algebra import Kernel
from apviz.kernels.functions import Function
from apviz.kernels.leaf import Leaf, Lengthscale, in_units, per_column, positives
from apviz.registry import Registry
from apviz.settings import positive


@dataclass(frozen=True, repr=False)
class Stationary(Leaf):
    """A stationary kernel: a dataclass, whose fields beyond these two are the parameters of its shape, at most one.

    Args:
        lengthscale: one positive number, or d of them (ARD), in the units of the inputs.
        outputscale: the positive variance k(x, x), in squared units of the target.

    Raises:
        ValueError: a lengthscale or outputscale that is not finite and positive.

    Examples:
        >>> import torch, apviz
        >>> class RationalDecay(apviz.Stationary):  # 1/(1 + u), u = ‖(x−z)/ℓ‖²
        ...     distance_scale = 1.0
        ...     def correlation_(self, u, spare):
        ...         return u.add_(1.0).reciprocal_()
        ...     def slope(self, u):
        ...         return -((1.0 + u) ** -2)
        >>> RationalDecay(lengthscale=2.0)(torch.tensor([[0.0], [2.0]]))
        tensor([[1.0000, 0.5000],
                [0.5000, 1.0000]])
    """

    lengthscale: float | tuple[float, ...]

    #: in captions, such as "Matérn-5/2"; that of the class where it gives none
    title: ClassVar[str]
    #: GPyTorch's class of it, and the settings that make it this one; its parameters have the same names. None: none
    gpytorch: ClassVar[tuple[str, Mapping[str, Any]] | None] = None

    def __init_subclass__(cls) -> None:
        cls.title = vars(cls).get("title", cls.__name__)
        # what derives from a kernel may compute something else
        cls.form = vars(cls).get("form", "")
        if "frequencies" not in vars(cls):
            cls.frequencies = Function.frequencies  # type: ignore[method-assign]
        if "density" not in vars(cls):
            cls.density = Function.density  # type: ignore[method-assign]

    def __init__(self, *, lengthscale: Lengthscale = 1.0, outputscale: float = 1.0) -> None:
        object.__setattr__(self, "lengthscale", positives("lengthscale", lengthscale))
        object.__setattr__(self, "outputscale", positive("outputscale", outputscale))

    @property
    def name(self) -> str:
        """The name in `KERNELS`; the name of the class if it is not registered."""
        return KERNELS.name_of(self)

    @property
    @abstractmethod
    def distance_scale(self) -> float:
        """The factor on a distance in lengthscales that makes `correlation_` shortest."""

    def distance_scale_at(self, values: Mapping[str, Tensor]) -> Tensor | float:
        """Return `distance_scale` at other hyperparameters."""
        return self.distance_scale

    @property
    def parameters(self) -> dict[str, float]:
        """Return the parameters besides lengthscale and outputscale, by name; most kernels have none."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    @classmethod
    def parameter_names(cls) -> list[str]:
        """List the names of `parameters`."""
        return [field.name for field in fields(cls)[len(fields(Stationary)) :]]

    def embed(self, x: Tensor, centre: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        return (x - centre) * (self.distance_scale_at(values) / per_column("lengthscale", values, x))

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        if not self._has_embedding_of(Stationary):
            return super().rescaled(centre, unit)
        return self.with_hyperparameters({"lengthscale": in_units("lengthscale", self.lengthscale, unit)})

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        yield torch.as_tensor(self.lengthscale, dtype=torch.float64).expand(d), list(range(d))


#: the kernels by name: what lists, saves or reads back a kernel goes by this
KERNELS: Registry[Stationary] = Registry("kernel", "apviz.kernels")


def kernel_named(name: str, lengthscale: Lengthscale, outputscale: float, **parameters: float) -> Stationary:
    """Make the kernel called `name`.

    Args:
        parameters: of its shape, by name; those that are not given are at their defaults.

    Raises:
        ValueError: an unknown name, or a parameter that this kernel does not have; the message lists the known ones.
    """
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {name!r}")
    has = KERNELS[name].parameter_names()
    if unknown := [parameter for parameter in parameters if parameter not in has]:
        raise ValueError(f"kernel {name} has the parameters {', '.join(has) or 'none'}, got {', '.join(unknown)}")
    return KERNELS[name](lengthscale=lengthscale, outputscale=outputscale, **parameters)
