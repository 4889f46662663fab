"""What is wrong with a GPyTorch model, and the one change that mends it."""

from __future__ import annotations

from apviz.gpytorch.rescue.diagnosis import diagnose
from apviz.gpytorch.rescue.model_diagnosis import ModelDiagnosis

__all__ = ["ModelDiagnosis", "diagnose"]
