"""GPyTorch in place: exact GPs on apviz's solvers, GPyTorch's own CG recorded, and what is wrong with a model.

What stands in `__all__` is for users; the modules inside follow GPyTorch's changes, and are not.
"""

from __future__ import annotations

from apviz.operators.keops import find_cache

try:
    find_cache()  # for KeOps, which GPyTorch imports where it is installed
    import gpytorch as _  # noqa: F401
except ImportError as error:
    raise ImportError(f"apviz.gpytorch needs GPyTorch: pip install 'apviz[gpytorch]' ({error})") from error

from apviz.gpytorch.cg import record_cg
from apviz.gpytorch.context import alternating_projection
from apviz.gpytorch.kernels import from_gpytorch
from apviz.gpytorch.models import hyperparameters
from apviz.gpytorch.rescue import ModelDiagnosis, diagnose

__all__ = ["ModelDiagnosis", "alternating_projection", "diagnose", "from_gpytorch", "hyperparameters", "record_cg"]
