"""Covariance functions: `stationary` has what they share, the other files one or a few classes each."""

from apviz.kernels.matern import RBF, Matern12, Matern32, Matern52
from apviz.kernels.rational_quadratic import RationalQuadratic
from apviz.kernels.stationary import KERNELS, Kernel, centre_of, kernel_named

__all__ = [
    "KERNELS",
    "RBF",
    "Kernel",
    "Matern12",
    "Matern32",
    "Matern52",
    "RationalQuadratic",
    "centre_of",
    "kernel_named",
]
