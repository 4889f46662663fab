"""Preconditioners for conjugate gradients: settings whose `build` makes r ↦ P⁻¹r for one system."""

from apviz.preconditioners.base import PRECONDITIONERS, Preconditioner
from apviz.preconditioners.neighbour_whitening import NeighbourWhitening
from apviz.preconditioners.nystrom import Nystrom
from apviz.preconditioners.pivoted_cholesky import PivotedCholesky
from apviz.preconditioners.randomly_pivoted_cholesky import RandomlyPivotedCholesky
from apviz.preconditioners.two_level_schwarz import TwoLevelSchwarz
from apviz.preconditioners.whitening import Whitening, whitening_of

__all__ = [
    "PRECONDITIONERS",
    "NeighbourWhitening",
    "Nystrom",
    "PivotedCholesky",
    "Preconditioner",
    "RandomlyPivotedCholesky",
    "TwoLevelSchwarz",
    "Whitening",
    "whitening_of",
]
