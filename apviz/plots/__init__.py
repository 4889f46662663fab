"""Functions from traces to plotly figures, one figure per file; the files draw and do not compute."""

from apviz.plots._style import method_color
from apviz.plots.blocks.block_norms import block_norms
from apviz.plots.blocks.block_timeline import block_timeline
from apviz.plots.blocks.condition_numbers import condition_numbers
from apviz.plots.blocks.fitted_function import FittedFunction
from apviz.plots.blocks.residual_image import residual_image
from apviz.plots.blocks.residual_map import ResidualMap
from apviz.plots.models.lengthscales import lengthscales
from apviz.plots.models.near_and_far import near_and_far
from apviz.plots.models.predicted_against_observed import predicted_against_observed
from apviz.plots.models.prediction import prediction
from apviz.plots.models.prediction_error import prediction_error
from apviz.plots.models.rmse import test_rmse
from apviz.plots.models.training import training
from apviz.plots.models.variogram import variogram
from apviz.plots.solves.eigenvalues import eigenvalues
from apviz.plots.solves.k_norm_error import k_norm_error
from apviz.plots.solves.passes import passes
from apviz.plots.solves.residuals import residuals
from apviz.plots.solves.two_norms import two_norms
from apviz.plots.sweeps.batch_size_sweep import batch_size_sweep
from apviz.plots.sweeps.batch_sizes import batch_sizes
from apviz.plots.sweeps.grouped_curves import grouped_curves
from apviz.plots.sweeps.lanczos_ranks import lanczos_ranks
from apviz.plots.sweeps.noise_sweep import noise_sweep
from apviz.plots.sweeps.performance_profiles import performance_profiles

__all__ = [
    "FittedFunction", "ResidualMap", "batch_size_sweep", "batch_sizes", "block_norms", "block_timeline",
    "condition_numbers", "eigenvalues", "grouped_curves", "k_norm_error", "lanczos_ranks", "lengthscales",
    "method_color", "near_and_far", "noise_sweep", "passes", "performance_profiles", "predicted_against_observed",
    "prediction", "prediction_error", "residual_image", "residuals", "test_rmse", "training", "two_norms",
    "variogram",
]  # fmt: skip
