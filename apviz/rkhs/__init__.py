"""Geometry behind the solver, for few points, in NumPy and float64: spans, projections, angles, paths.

It shares no code with the solvers or the JavaScript of the widgets, so tests compare both with it.
"""

from apviz.rkhs.block_spectrum import (
    BlockSpectrum,
    BoundComparison,
    block_spectrum,
    compare_with_bound,
    lambda_max_by_size,
)
from apviz.rkhs.blocks import blocks_of
from apviz.rkhs.eigen_path import EigenPath, Plane, eigen_path, eigenvector_pair
from apviz.rkhs.kernels import StationaryKernel
from apviz.rkhs.rule_comparison import Choices, RuleComparison, ToyProblem, compare_rules, toy_problem
from apviz.rkhs.rules import RULES, Rule
from apviz.rkhs.span import Span
from apviz.rkhs.step_geometry import StepGeometry, step_geometry
from apviz.rkhs.trajectory import Step, Trajectory, trajectory, trajectory_on
from apviz.rkhs.two_blocks import (
    Sweeps,
    TwoBlocks,
    contraction,
    friedrichs_angle,
    principal_angles,
    principal_pair,
    sweeps_of,
    two_blocks,
    worst_case_rhs,
)

__all__ = [
    "RULES", "BlockSpectrum", "BoundComparison", "Choices", "EigenPath", "Plane", "Rule", "RuleComparison", "Span",
    "StationaryKernel", "Step", "StepGeometry", "Sweeps", "ToyProblem", "Trajectory", "TwoBlocks", "block_spectrum",
    "blocks_of", "compare_rules", "compare_with_bound", "contraction", "eigen_path", "eigenvector_pair",
    "friedrichs_angle", "lambda_max_by_size", "principal_angles", "principal_pair", "step_geometry", "sweeps_of",
    "toy_problem", "trajectory", "trajectory_on", "two_blocks", "worst_case_rhs",
]  # fmt: skip
