"""Diagnosis of a GPyTorch model, with the one change that fixes it."""

from __future__ import annotations

from apviz.gpytorch.rescue.diagnosis import diagnose
from apviz.gpytorch.rescue.model_diagnosis import ModelDiagnosis

__all__ = ["ModelDiagnosis", "diagnose"]
