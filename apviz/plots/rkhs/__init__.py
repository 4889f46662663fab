"""Figures of few points: functions from the states of a trajectory to plotly figures."""

from apviz.plots.rkhs.block_eigenvalues import block_eigenvalues
from apviz.plots.rkhs.bound_and_error import bound_and_error
from apviz.plots.rkhs.eigen_paths import eigen_paths
from apviz.plots.rkhs.eigen_shares import eigen_shares
from apviz.plots.rkhs.error_by_work import error_by_work
from apviz.plots.rkhs.largest_block_eigenvalue import largest_block_eigenvalue
from apviz.plots.rkhs.margin_curves import margin_curves
from apviz.plots.rkhs.next_block import next_block
from apviz.plots.rkhs.photograph_step import photograph_step
from apviz.plots.rkhs.rule_errors import rule_errors
from apviz.plots.rkhs.trajectory_step import trajectory_step
from apviz.plots.rkhs.two_norms import two_norms

__all__ = [
    "block_eigenvalues",
    "bound_and_error",
    "eigen_paths",
    "eigen_shares",
    "error_by_work",
    "largest_block_eigenvalue",
    "margin_curves",
    "next_block",
    "photograph_step",
    "rule_errors",
    "trajectory_step",
    "two_norms",
]  # fmt: skip
