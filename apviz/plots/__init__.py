"""Plots: functions from traces to plotly figures, one figure per file, in which nothing is computed."""

from apviz.plots.batch_sizes import batch_sizes
from apviz.plots.block_norms import block_norms
from apviz.plots.block_timeline import block_timeline
from apviz.plots.eigenvalues import eigenvalues
from apviz.plots.k_norm_error import k_norm_error
from apviz.plots.lanczos_ranks import lanczos_ranks
from apviz.plots.residual_drift import residual_drift
from apviz.plots.residual_image import residual_image
from apviz.plots.residuals import residuals
from apviz.plots.rmse import test_rmse
from apviz.plots.style import method_color
from apviz.plots.training import training
from apviz.plots.update_times import update_times

__all__ = [
    "batch_sizes",
    "block_norms",
    "block_timeline",
    "eigenvalues",
    "k_norm_error",
    "lanczos_ranks",
    "method_color",
    "residual_drift",
    "residual_image",
    "residuals",
    "test_rmse",
    "training",
    "update_times",
]
