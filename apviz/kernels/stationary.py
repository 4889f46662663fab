"""Stationary kernels as functions of a squared distance: Matérn 1/2, 3/2, 5/2 and RBF, with ARD lengthscales.

Every kernel is written as ``k(x, z) = outputscale · correlation(u)`` with ``u = ‖scale(x) − scale(z)‖²``, where
``scale`` divides by the lengthscale and multiplies by the constant (√3, √5, 1/√2, ...) that makes the
correlation shortest. Engines therefore need one squared distance and one formula per kernel entry. Inputs are
centred and scaled in float64 and then rounded, for what is lost before a difference is taken cannot be had again.
Formulas: Rasmussen & Williams, *Gaussian Processes for Machine Learning*, section 4.2.1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from apviz.registry import Registry

#: a lengthscale as a user may give it
Lengthscale = float | Sequence[float] | Tensor


@dataclass(frozen=True)
class Kernel(ABC):
    """A stationary kernel.

    Args:
        lengthscale: one positive number, or d of them (ARD), in the units of the inputs.
        outputscale: the positive variance k(x, x), in squared units of the target.

    Raises:
        ValueError: a lengthscale or outputscale that is not finite and positive.
    """

    lengthscale: float | tuple[float, ...]
    outputscale: float

    distance_scale: ClassVar[float]

    def __init__(self, *, lengthscale: Lengthscale = 1.0, outputscale: float = 1.0) -> None:
        values = torch.as_tensor(lengthscale, dtype=torch.float64).flatten().tolist()
        if not values:
            raise ValueError("lengthscale must be one number or d of them, got none")
        for value in values:
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"lengthscale must be finite and positive, got {value!r}")
        outputscale = float(outputscale)
        if not (math.isfinite(outputscale) and outputscale > 0):
            raise ValueError(f"outputscale must be finite and positive, got {outputscale!r}")
        object.__setattr__(self, "lengthscale", values[0] if len(values) == 1 else tuple(values))
        object.__setattr__(self, "outputscale", outputscale)

    @property
    def name(self) -> str:
        """The kernel's in `KERNELS`; of a class that is not there, the class's own."""
        return KERNELS.name_of(self)

    def scale(self, x: Tensor, centre: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """Inputs in the units in which `correlation` takes its squared distance: x (n, d) to (n, d).

        Args:
            centre: (d,) what is subtracted first; None: `centre_of` x. Inputs to be compared need one and the same.
            dtype: of the result; None: that of x.
        """
        centre = centre_of(x) if centre is None else centre
        lengthscale = torch.as_tensor(self.lengthscale, dtype=torch.float64, device=x.device)
        if lengthscale.ndim and len(lengthscale) != x.shape[-1]:
            raise ValueError(f"{len(lengthscale)} lengthscales were given for inputs with {x.shape[-1]} columns")
        return ((x.double() - centre) * (self.distance_scale / lengthscale)).to(dtype or x.dtype).contiguous()

    @staticmethod
    @abstractmethod
    def correlation_(u: Tensor, spare: Tensor) -> Tensor:
        """k/outputscale from squared scaled distances u, overwriting both `u` and `spare` (same shape)."""

    @staticmethod
    @abstractmethod
    def slope(u: Tensor) -> Tensor:
        """The derivative of the correlation in u, the squared scaled distance; 0 where it has none, at u = 0."""

    def __call__(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        """The kernel matrix k(x, z), x: (n, d), z: (m, d), to (n, m) in x's dtype: no noise, direct differences."""
        centre, dtype = centre_of(x), x.dtype
        x = self.scale(x, centre, dtype)
        z = x if z is None else self.scale(z, centre, dtype)
        u = torch.cdist(x, z, compute_mode="donot_use_mm_for_euclid_dist").square_()
        return self.correlation_(u, torch.empty_like(u)).mul_(self.outputscale)


#: the kernels by name: what lists, saves or reads back a kernel goes by this
KERNELS: Registry[Kernel] = Registry("kernel", "apviz.kernels")


def centre_of(x: Tensor) -> Tensor:
    """(d,) float64, half-way between the least and the largest of each input of x: (n, d); any order of rows has it."""
    least, largest = x.aminmax(dim=0)
    return least.double() + (largest.double() - least.double()) / 2


def kernel_named(name: str, lengthscale: Lengthscale, outputscale: float) -> Kernel:
    """The kernel called `name`.

    Raises:
        ValueError: an unknown name; the message lists the known ones.
    """
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {name!r}")
    return KERNELS[name](lengthscale=lengthscale, outputscale=outputscale)
