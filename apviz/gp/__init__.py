"""Gaussian processes on top of the solvers: gradients, training, prediction and metrics.

`apviz.GaussianProcess` needs scikit-learn and `apviz.gp.svgp` needs GPyTorch; both are imported on first use.
"""

from apviz.gp.anisotropy import isotropic_kernel
from apviz.gp.empirical_variogram import EmpiricalVariogram, empirical_variogram
from apviz.gp.gradient import Gradient, marginal_likelihood_gradient
from apviz.gp.kriging import Kriging
from apviz.gp.lanczos import LanczosInverse
from apviz.gp.log_determinant import lanczos_log_determinant
from apviz.gp.metrics import negative_log_likelihood, rmse
from apviz.gp.pathwise import PosteriorSamples
from apviz.gp.posterior import Posterior, Prediction
from apviz.gp.prediction_accuracy import PredictionAccuracy
from apviz.gp.probes import Probes, rademacher
from apviz.gp.scaling import Scaling
from apviz.gp.training import Training, TrainingError
from apviz.gp.training_settings import PAPER_SOLVER, Step, TrainingHook, TrainingProgress, TrainingSettings
from apviz.gp.variances import VarianceSolve
from apviz.gp.variogram import Variogram

__all__ = [
    "PAPER_SOLVER", "EmpiricalVariogram", "Gradient", "Kriging", "LanczosInverse", "Posterior", "PosteriorSamples",
    "Prediction", "PredictionAccuracy", "Probes", "Scaling", "Step", "Training", "TrainingError", "TrainingHook",
    "TrainingProgress", "TrainingSettings", "VarianceSolve", "Variogram", "empirical_variogram", "isotropic_kernel",
    "lanczos_log_determinant", "marginal_likelihood_gradient", "negative_log_likelihood", "rademacher", "rmse",
]  # fmt: skip
