"""The numbers a Gaussian process is made of: kernel, lengthscales, outputscale, noise and mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apviz.kernels import Kernel


@dataclass(frozen=True)
class Hyperparameters:
    """A constant mean, a scaled stationary kernel and Gaussian noise.

    Args:
        kernel: the kernel's name, such as `matern52`.
        lengthscale: one value, or d in the order of the inputs, in the inputs' units.
        outputscale: k(x, x), in squared units of the target.
        noise: σ², in squared units of the target.
        mean: of the prior, in the target's units.
        provenance: where they are from, in words.
    """

    kernel: str
    lengthscale: tuple[float, ...]
    outputscale: float
    noise: float
    mean: float = 0.0
    provenance: str = ""

    def build_kernel(self) -> Kernel:
        """The kernel with these lengthscales and outputscale.

        Raises:
            ValueError: an unknown name, or a value that is not finite and positive.
        """
        from apviz.kernels import kernel_named  # with torch, which a trace is read without

        return kernel_named(self.kernel, self.lengthscale, self.outputscale)
