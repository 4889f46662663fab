"""The geometry behind the solver, for few points: spans of kernel functions, projections, angles, paths. Float64."""

from apviz.rkhs.block_spectrum import BlockSpectrum, Bounded, block_spectrum, blocks_of, bounded, largest_by_size
from apviz.rkhs.eigen_path import EigenPath, Plane, Spectrum, eigen_path, eigenvector_pair, error_by_eigenvector
from apviz.rkhs.photograph import Photograph, photograph
from apviz.rkhs.race import RULES, Choices, Race, Situation, race, situation
from apviz.rkhs.span import Span
from apviz.rkhs.step_geometry import StepGeometry, step_geometry
from apviz.rkhs.trajectory import GivenBlocks, Step, Walk, walk, walk_on
from apviz.rkhs.two_blocks import (
    Sweeps,
    TwoBlocks,
    contraction,
    friedrichs_angle,
    hardest_data,
    principal_angles,
    principal_pair,
    sweeps_of,
    two_blocks,
)

__all__ = [
    "RULES",
    "BlockSpectrum",
    "Bounded",
    "Choices",
    "EigenPath",
    "GivenBlocks",
    "Photograph",
    "Plane",
    "Race",
    "Situation",
    "Span",
    "Spectrum",
    "Step",
    "StepGeometry",
    "Sweeps",
    "TwoBlocks",
    "Walk",
    "block_spectrum",
    "blocks_of",
    "bounded",
    "contraction",
    "eigen_path",
    "eigenvector_pair",
    "error_by_eigenvector",
    "friedrichs_angle",
    "hardest_data",
    "largest_by_size",
    "photograph",
    "principal_angles",
    "principal_pair",
    "race",
    "situation",
    "step_geometry",
    "sweeps_of",
    "two_blocks",
    "walk",
    "walk_on",
]  # fmt: skip
