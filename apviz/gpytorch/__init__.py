"""GPyTorch integration: exact GPs on apviz's solvers, recorded runs of GPyTorch's CG, and diagnoses of models.

The names in `__all__` are public. The modules inside follow GPyTorch's changes, and are private.
"""

from __future__ import annotations

from apviz.operators.keops import find_cache

try:
    find_cache()  # for KeOps, which GPyTorch imports if it is installed
    import gpytorch as _  # noqa: F401
except ImportError as error:
    raise ImportError(f"apviz.gpytorch needs GPyTorch: pip install 'apviz[gpytorch]' ({error})") from error

from apviz.gpytorch.accuracy import SolverContext
from apviz.gpytorch.cg import record_cg
from apviz.gpytorch.context import alternating_projection
from apviz.gpytorch.kernels import from_gpytorch
from apviz.gpytorch.models import hyperparameters
from apviz.gpytorch.rescue import ModelDiagnosis, diagnose

__all__ = [
    "ModelDiagnosis",
    "SolverContext",
    "alternating_projection",
    "diagnose",
    "from_gpytorch",
    "hyperparameters",
    "record_cg",
]
