"""Covariance functions."""

from apviz.kernels.stationary import KERNELS, RBF, Kernel, Matern12, Matern32, Matern52, centre_of, kernel_named

__all__ = ["KERNELS", "RBF", "Kernel", "Matern12", "Matern32", "Matern52", "centre_of", "kernel_named"]
