"""Covariance functions, and the algebra of their sums and products: `formula` says what a kernel is to engines."""

from apviz.kernels.algebra import Kernel, On, Product, Scaled, Sum
from apviz.kernels.compact import PiecewisePolynomial, Spherical, White
from apviz.kernels.conversion import from_sklearn
from apviz.kernels.evaluated import Evaluated
from apviz.kernels.formula import Formula, Gradients, Lowered, centre_of, pairwise_distances
from apviz.kernels.functions import Function
from apviz.kernels.leaf import Leaf
from apviz.kernels.linear import Constant, Groups, Linear, Polynomial
from apviz.kernels.matern import RBF, Matern12, Matern32, Matern52
from apviz.kernels.periodic import Cosine, Periodic, SpectralMixture
from apviz.kernels.random_features import RandomFeatures
from apviz.kernels.rational_quadratic import RationalQuadratic
from apviz.kernels.serialization import from_expression, from_plain, to_plain
from apviz.kernels.stationary import KERNELS, Stationary, kernel_named
from apviz.kernels.transformed import Transformed

__all__ = [
    "KERNELS",
    "RBF",
    "Constant",
    "Cosine",
    "Evaluated",
    "Formula",
    "Function",
    "Gradients",
    "Groups",
    "Kernel",
    "Leaf",
    "Linear",
    "Lowered",
    "Matern12",
    "Matern32",
    "Matern52",
    "On",
    "Periodic",
    "PiecewisePolynomial",
    "Polynomial",
    "Product",
    "RandomFeatures",
    "RationalQuadratic",
    "Scaled",
    "SpectralMixture",
    "Spherical",
    "Stationary",
    "Sum",
    "Transformed",
    "White",
    "centre_of",
    "from_expression",
    "from_plain",
    "from_sklearn",
    "kernel_named",
    "pairwise_distances",
    "to_plain",
]
