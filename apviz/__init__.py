"""apviz: solve large Gaussian-process systems by alternating projection, record every update, and look at it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from apviz import datasets, plots
from apviz.gp.gaussian_process import GaussianProcess
from apviz.gp.progress import TrainingProgress
from apviz.gp.training import Training, TrainingError, TrainingHook, TrainingSettings
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import RBF, Kernel, Matern12, Matern32, Matern52
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
    "datasets",
    "open_trace",
    "plots",
    "solve",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """`apviz.gpytorch`, imported when it is asked for: GPyTorch is optional, and takes seconds to import."""
        if name != "gpytorch":
            raise AttributeError(f"module 'apviz' has no attribute {name!r}")
        return importlib.import_module("apviz.gpytorch")
