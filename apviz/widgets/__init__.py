"""Notebook widgets: one line shows each; controls next to a figure that the library computes."""

from apviz.widgets.angles import Angles
from apviz.widgets.cg_against_projection import CGAgainstProjection
from apviz.widgets.exercise import check
from apviz.widgets.kappas import Kappas
from apviz.widgets.photograph import Photograph
from apviz.widgets.projection import Projection
from apviz.widgets.projection_player import ProjectionPlayer
from apviz.widgets.which_block import WhichBlock

__all__ = [
    "Angles",
    "CGAgainstProjection",
    "Kappas",
    "Photograph",
    "Projection",
    "ProjectionPlayer",
    "WhichBlock",
    "check",
]
