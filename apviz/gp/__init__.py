"""Gaussian processes on top of the solvers: gradients, training, prediction and metrics.

`apviz.GaussianProcess` needs scikit-learn and `apviz.gp.svgp` needs GPyTorch; both are imported on first use.
"""

from apviz.gp.kriging.anisotropy import isotropic_kernel
from apviz.gp.kriging.empirical_variogram import EmpiricalVariogram, empirical_variogram
from apviz.gp.kriging.kriging import Kriging
from apviz.gp.kriging.variogram import Variogram
from apviz.gp.metrics import negative_log_likelihood, rmse
from apviz.gp.prediction.lanczos import LanczosInverse
from apviz.gp.prediction.pathwise import PosteriorSamples
from apviz.gp.prediction.posterior import Posterior
from apviz.gp.prediction.prediction_accuracy import PredictionAccuracy
from apviz.gp.prediction.variances import VarianceSolve
from apviz.gp.scaling import Scaling
from apviz.gp.training.gradient import Gradient, marginal_likelihood_gradient
from apviz.gp.training.log_determinant import lanczos_log_determinant
from apviz.gp.training.probes import Probes, rademacher
from apviz.gp.training.settings import PAPER_SOLVER, Step, TrainingHook, TrainingProgress, TrainingSettings
from apviz.gp.training.training import Training, TrainingError

__all__ = [
    "PAPER_SOLVER", "EmpiricalVariogram", "Gradient", "Kriging", "LanczosInverse", "Posterior", "PosteriorSamples",
    "PredictionAccuracy", "Probes", "Scaling", "Step", "Training", "TrainingError", "TrainingHook",
    "TrainingProgress", "TrainingSettings", "VarianceSolve", "Variogram", "empirical_variogram", "isotropic_kernel",
    "lanczos_log_determinant", "marginal_likelihood_gradient", "negative_log_likelihood", "rademacher", "rmse",
]  # fmt: skip
