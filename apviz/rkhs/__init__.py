"""The geometry behind the solver, for few points: spans of kernel functions, projections, angles, paths. Float64."""

from apviz.rkhs.angles import contraction, friedrichs_angle, principal_angles
from apviz.rkhs.eigenvectors import Spectrum, error_by_eigenvector
from apviz.rkhs.span import Span
from apviz.rkhs.walk import Step, Walk, walk

__all__ = [
    "Span", "Spectrum", "Step", "Walk", "contraction", "error_by_eigenvector", "friedrichs_angle", "principal_angles",
    "walk",
]  # fmt: skip
