"""Kernels of scikit-learn as apviz's; those of GPyTorch are converted by `apviz.gpytorch`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import add, mul
from typing import Any

from apviz.kernels.algebra import Kernel
from apviz.kernels.linear import MAX_DEGREE, Constant, Linear, Polynomial
from apviz.kernels.matern import RBF, Matern12, Matern32, Matern52
from apviz.kernels.own_sklearn import evaluated_sklearn, is_own
from apviz.kernels.periodic import Periodic
from apviz.kernels.rational_quadratic import RationalQuadratic

_MATERN: dict[float, Callable[..., Kernel]] = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52, math.inf: RBF}


def from_sklearn(kernel: Any, d: int = 1) -> tuple[Kernel, float]:
    """Convert a kernel of `sklearn.gaussian_process.kernels`, at its current hyperparameters.

    Only its values are taken, in raw units; `apviz.GaussianProcess(kernel)` keeps what is fixed and bounds too.

    Args:
        kernel: `RBF`, `Matern` of ν = 1/2, 3/2, 5/2 or ∞, `RationalQuadratic`, `ExpSineSquared`, `DotProduct`,
            `ConstantKernel`, `WhiteKernel`, and sums, products and whole powers of them. A class
            of your own is evaluated by its own code in NumPy, with derivatives in its numbers by differences.
        d: columns of the inputs.

    Returns:
        The kernel, and the noise σ²: the sum of every `WhiteKernel`, 0 where there is none.

    Raises:
        TypeError: a kernel that apviz does not have.
        ValueError: values it does not have, `ExpSineSquared` of several inputs, a `WhiteKernel` in a product or power,
            nothing but noise.

    Examples:
        >>> from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel
        >>> apviz.kernels.from_sklearn(2.0 * RBF(0.5) + DotProduct(0.1) + WhiteKernel(0.01))[0]
        RBF(lengthscale=0.5, outputscale=2.0) + Linear(lengthscale=1.0, outputscale=1.0) + Constant(outputscale=0.01...)
    """
    terms, noise = _split(kernel)
    if not terms:
        raise ValueError(f"{kernel} is only noise; a Gaussian process needs another kernel too")
    return reduce(add, (_converted(term, d) for term in terms)), noise


def _split(kernel: Any) -> tuple[list[Any], float]:
    """The terms of a sum, and the noise among them."""
    from sklearn.gaussian_process import kernels

    if type(kernel) is kernels.WhiteKernel:
        return [], float(kernel.noise_level)
    if type(kernel) is not kernels.Sum:
        return [kernel], 0.0
    (first, noise), (second, more) = _split(kernel.k1), _split(kernel.k2)
    return first + second, noise + more


def _converted(kernel: Any, d: int) -> Kernel:
    from sklearn.gaussian_process import kernels

    kind = type(kernel)
    if is_own(kernel):
        return evaluated_sklearn(kernel)
    if kind is kernels.Sum:
        return _converted(kernel.k1, d) + _converted(kernel.k2, d)
    if kind is kernels.Product:
        return _product(_converted(kernel.k1, d), _converted(kernel.k2, d))
    if kind is kernels.ConstantKernel:
        return Constant(outputscale=kernel.constant_value)
    if kind is kernels.RBF:
        return RBF(lengthscale=kernel.length_scale)
    if kind is kernels.Matern and kernel.nu in _MATERN:
        return _MATERN[kernel.nu](lengthscale=kernel.length_scale)
    if kind is kernels.RationalQuadratic:
        return RationalQuadratic(lengthscale=kernel.length_scale, alpha=kernel.alpha)
    if kind is kernels.DotProduct:
        return Linear() + Constant(outputscale=kernel.sigma_0**2) if kernel.sigma_0 else Linear()
    if kind is kernels.ExpSineSquared:
        if d > 1:
            raise ValueError(
                f"ExpSineSquared of {d} inputs is a function of their distance, which need not be positive definite; "
                "apviz.Periodic takes the sum over inputs, or choose one with .on(column)"
            )
        return Periodic(lengthscale=kernel.length_scale, period=kernel.periodicity)
    if kind is kernels.Exponentiation and float(kernel.exponent).is_integer() and 1 <= kernel.exponent <= MAX_DEGREE:
        return _power(kernel.kernel, int(kernel.exponent), d)
    raise _unsupported(kernel)


def _unsupported(kernel: Any) -> Exception:
    """Return the error about a kernel of scikit-learn that apviz does not have."""
    kind = type(kernel)
    if kind.__name__ == "WhiteKernel":
        return ValueError("a WhiteKernel must be a term of the sum, where it is the noise σ²; here it is a factor")
    if kind.__name__ == "Matern":
        return ValueError(f"Matern has ν = {', '.join(f'{nu:g}' for nu in _MATERN)} here, got {kernel.nu:g}")
    return TypeError(f"{kernel} is {kind.__module__}.{kind.__name__}, which apviz does not have; see from_sklearn")


def _product(first: Kernel, second: Kernel) -> Kernel:
    if isinstance(first, Constant):
        return first.outputscale * second
    return second.outputscale * first if isinstance(second, Constant) else first * second


def _power(base: Any, exponent: int, d: int) -> Kernel:
    from sklearn.gaussian_process import kernels

    if type(base) is kernels.DotProduct and base.sigma_0:
        return Polynomial(degree=exponent, offset=base.sigma_0**2)
    return reduce(mul, [_converted(base, d)] * exponent)
