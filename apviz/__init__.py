"""apviz: solve large Gaussian-process systems by alternating projection, record every update, and look at it.

Names are imported when they are asked for; `__init__.pyi` says from where.
"""

from __future__ import annotations

from importlib import metadata

<<<<<<< HEAD
import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [*(name for name in __all__ if name != "gpytorch"), "__version__"]  # GPyTorch is optional
=======
from apviz import datasets, plots
from apviz.gp.progress import TrainingProgress
from apviz.gp.training import Training, TrainingError, TrainingHook, TrainingSettings
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import RBF, Kernel, Matern12, Matern32, Matern52, RationalQuadratic
from apviz.preconditioners import PivotedCholesky, RandomlyPivotedCholesky, TwoLevelSchwarz
from apviz.solvers import (
    AlternatingProjection,
    Automatic,
    Cholesky,
    ConjugateGradient,
    Hook,
    Solution,
    StopReason,
    solve,
)
from apviz.system import KernelSystem
from apviz.tracing import PredictionHook, ProgressHook, Recorder, StopHook, Trace, open_trace
>>>>>>> b1d41c4 (The rational quadratic: one class in one file, a line in each compiled engine, a line of the textbook)

try:
    __version__ = metadata.version("apviz")
except metadata.PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"
<<<<<<< HEAD
=======

__all__ = [
    "RBF",
    "AlternatingProjection",
    "Automatic",
    "Cholesky",
    "ConjugateGradient",
    "GaussianProcess",
    "Hook",
    "Hyperparameters",
    "Kernel",
    "KernelSystem",
    "Matern12",
    "Matern32",
    "Matern52",
    "PivotedCholesky",
    "PredictionHook",
    "ProgressHook",
    "RandomlyPivotedCholesky",
    "RationalQuadratic",
    "Recorder",
    "Solution",
    "StopHook",
    "StopReason",
    "Trace",
    "Training",
    "TrainingError",
    "TrainingHook",
    "TrainingProgress",
    "TrainingSettings",
    "TwoLevelSchwarz",
    "__version__",
    "datasets",
    "open_trace",
    "plots",
    "solve",
]

if TYPE_CHECKING:
    from apviz.gp.gaussian_process import GaussianProcess
else:

    def __getattr__(name: str) -> Any:
        """What is imported when it is asked for: scikit-learn and GPyTorch, which is optional, take seconds."""
        if name == "GaussianProcess":
            return importlib.import_module("apviz.gp.gaussian_process").GaussianProcess
        if name == "gpytorch":
            return importlib.import_module("apviz.gpytorch")
        raise AttributeError(f"module 'apviz' has no attribute {name!r}")
>>>>>>> b1d41c4 (The rational quadratic: one class in one file, a line in each compiled engine, a line of the textbook)
