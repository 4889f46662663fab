"""Preconditioners for conjugate gradients: settings that `build` the application of P⁻¹ for one system."""

from apviz.preconditioners.pivoted_cholesky import PivotedCholesky

__all__ = ["PivotedCholesky"]
