"""Stationary kernels: functions of a squared distance, with ARD lengthscales.

Every kernel is written as ``k(x, z) = outputscale · correlation(u)`` with ``u = ‖scale(x) − scale(z)‖²``, where
``scale`` divides by the lengthscale and multiplies by the constant (√3, √5, 1/√2, ...) that makes the
correlation shortest. Engines therefore need one squared distance and one formula per kernel entry. Inputs are
centred and scaled in float64 and then rounded, for what is lost before a difference is taken cannot be had again.
Formulas: Rasmussen & Williams, *Gaussian Processes for Machine Learning*, section 4.2.1.

A new kernel is one subclass that registers itself. The stored matrix and torch's tiles then have it; a line in
`operators/native.cpp` and one in `operators/keops.py` give it to these engines too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from apviz.registry import Registry

#: a lengthscale as a user may give it
Lengthscale = float | Sequence[float] | Tensor


@dataclass(frozen=True)
class Kernel(ABC):
    """A stationary kernel: a dataclass, whose fields beyond these two are the parameters of its shape, at most one.

    Args:
        lengthscale: one positive number, or d of them (ARD), in the units of the inputs.
        outputscale: the positive variance k(x, x), in squared units of the target.

    Raises:
        ValueError: a lengthscale or outputscale that is not finite and positive.

    Examples:
        >>> import torch, apviz
        >>> class RationalDecay(apviz.Kernel):  # 1/(1 + u), u = ‖(x−z)/ℓ‖²
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
    outputscale: float

    #: in captions, such as "Matérn-5/2"; that of the class where it gives none
    title: ClassVar[str]
    #: GPyTorch's class of it, and the settings that make it this one; its parameters have the same names. None: none
    gpytorch: ClassVar[tuple[str, Mapping[str, Any]] | None] = None
    #: whether the slope is infinite at u = 0, where rounding of a distance then shows most
    has_kink: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        cls.title = vars(cls).get("title", cls.__name__)

    def __init__(self, *, lengthscale: Lengthscale = 1.0, outputscale: float = 1.0) -> None:
        values = torch.as_tensor(lengthscale, dtype=torch.float64).flatten().tolist()
        if not values:
            raise ValueError("lengthscale must be one number or d of them, got none")
        values = [positive("lengthscale", value) for value in values]
        object.__setattr__(self, "lengthscale", values[0] if len(values) == 1 else tuple(values))
        object.__setattr__(self, "outputscale", positive("outputscale", outputscale))

    @property
    def name(self) -> str:
        """The name in `KERNELS`; of a class that is not there, the class's own."""
        return KERNELS.name_of(self)

    @property
    @abstractmethod
    def distance_scale(self) -> float:
        """The factor on a distance in lengthscales that makes `correlation_` shortest."""

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the shape, beside lengthscale and outputscale, by name; most kernels have none."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Lists the names of `parameters`."""
        return [field.name for field in fields(cls)[len(fields(Kernel)) :]]

    @property
    def shape(self) -> float:
        """The parameter of the shape as engines take it; 0 where there is none."""
        (shape,) = self.parameters.values() or (0.0,)
        return shape

    def scale(self, x: Tensor, centre: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """Scales inputs to the units in which `correlation_` takes its squared distance: x (n, d) to (n, d).

        Args:
            centre: (d,) what is subtracted first; None: `centre_of` x. Inputs to be compared need one and the same.
            dtype: of the result; None: that of x.
        """
        centre = centre_of(x) if centre is None else centre
        lengthscale = torch.as_tensor(self.lengthscale, dtype=torch.float64, device=x.device)
        if lengthscale.ndim and len(lengthscale) != x.shape[-1]:
            raise ValueError(f"{len(lengthscale)} lengthscales were given for inputs with {x.shape[-1]} columns")
        return ((x.double() - centre) * (self.distance_scale / lengthscale)).to(dtype or x.dtype).contiguous()

    @abstractmethod
    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        """Computes k/outputscale from squared scaled distances u, overwriting both `u` and `spare` (same shape)."""

    @abstractmethod
    def slope(self, u: Tensor) -> Tensor:
        """Computes the derivative of the correlation in u, the squared scaled distance; 0 where it has none, at 0."""

    def __call__(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        """Evaluates the kernel matrix k(x, z) by direct differences, without noise: x (n, d), z (m, d), to (n, m)."""
        centre, dtype = centre_of(x), x.dtype
        x = self.scale(x, centre, dtype)
        z = x if z is None else self.scale(z, centre, dtype)
        u = torch.cdist(x, z, compute_mode="donot_use_mm_for_euclid_dist").square_()
        return self.correlation_(u, torch.empty_like(u)).mul_(self.outputscale)


#: the kernels by name: what lists, saves or reads back a kernel goes by this
KERNELS: Registry[Kernel] = Registry("kernel", "apviz.kernels")


def centre_of(x: Tensor) -> Tensor:
    """Finds the middle of the range of each input of x: (n, d), to (d,) float64, whatever the order of rows."""
    least, largest = x.aminmax(dim=0)
    return least.double() + (largest.double() - least.double()) / 2


def kernel_named(name: str, lengthscale: Lengthscale, outputscale: float, **parameters: float) -> Kernel:
    """Makes the kernel called `name`.

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


def positive(setting: str, value: float) -> float:
    """Checks that a value is finite and positive, and returns it as a Python float.

    Raises:
        ValueError: one that is not finite and positive.
    """
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{setting} must be finite and positive, got {number!r}")
    return number
