"""GPyTorch in place: exact GPs on apviz's solvers, and GPyTorch's own CG recorded."""

from __future__ import annotations

try:
    import gpytorch as _  # noqa: F401
except ImportError as error:
    raise ImportError(f"apviz.gpytorch needs GPyTorch: pip install 'apviz[gpytorch]' ({error})") from error

from apviz.gpytorch.adapter import alternating_projection
from apviz.gpytorch.cg import record_cg
from apviz.gpytorch.models import hyperparameters

__all__ = ["alternating_projection", "hyperparameters", "record_cg"]
