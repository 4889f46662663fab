"""Hyperparameters of a Gaussian process: kernel, lengthscales, outputscale, noise and mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apviz.kernels import Kernel


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of a constant mean, a kernel and Gaussian noise.

    Args:
        kernel: Name of a scaled stationary kernel, such as `matern52`; or a kernel object, with its own lengthscales
            and scales.
        lengthscale: One value, or d in the order of the inputs, in the inputs' units; () with a kernel object.
        outputscale: k(x, x), in squared units of the target.
        noise: σ², in squared units of the target.
        mean: Mean of the prior, in the target's units.
        provenance: Origin of the values, in words.
        kernel_parameters: Shape parameters of the kernel, by name; others have their defaults.

    Examples:
        >>> import apviz
        >>> h = apviz.Hyperparameters("matern52", lengthscale=(0.2,), outputscale=1.0, noise=0.01)
        >>> h.build_kernel() == apviz.Matern52(lengthscale=0.2)
        True
        >>> apviz.Hyperparameters.of(apviz.Matern52(lengthscale=0.2), noise=0.01) == h
        True
        >>> apviz.Hyperparameters.of(apviz.RBF() + apviz.Linear(), noise=0.01).kernel
        RBF(lengthscale=1.0, outputscale=1.0) + Linear(lengthscale=1.0, outputscale=1.0)
    """

    kernel: str | Kernel
    lengthscale: tuple[float, ...]
    outputscale: float
    noise: float
    mean: float = 0.0
    provenance: str = ""
    kernel_parameters: Mapping[str, float] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, kernel: Kernel, noise: float, mean: float = 0.0, provenance: str = "") -> Hyperparameters:
        """Return the hyperparameters of a kernel, a noise σ² and a prior mean."""
        from apviz.kernels import KERNELS, Stationary  # imports torch, which reading a trace does not need

        if not (isinstance(kernel, Stationary) and kernel.name in KERNELS):
            return cls(kernel, (), 1.0, noise, mean, provenance)
        lengthscale = kernel.lengthscale if isinstance(kernel.lengthscale, tuple) else (kernel.lengthscale,)
        return cls(kernel.name, lengthscale, kernel.outputscale, noise, mean, provenance, kernel.parameters)

    def as_plain(self) -> dict[str, Any]:
        """Return plain values by name, for files; without `kernel_parameters` if they are empty."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        if not isinstance(self.kernel, str):
            from apviz.kernels import to_plain

            values["kernel"] = to_plain(self.kernel)
        if not self.kernel_parameters:
            del values["kernel_parameters"]
        return values

    def build_kernel(self) -> Kernel:
        """Return the kernel with these lengthscales, outputscale and parameters.

        Raises:
            ValueError: An unknown name of a kernel or of a parameter, or a value that is not finite and positive.
        """
        if not isinstance(self.kernel, str):
            return self.kernel
        from apviz.kernels import kernel_named

        return kernel_named(self.kernel, self.lengthscale, self.outputscale, **self.kernel_parameters)
