"""Notebook widgets: one line shows each; controls next to a figure that the library computes."""

from apviz.widgets.angles import Angles
from apviz.widgets.cg_against_projection import CGAgainstProjection
from apviz.widgets.early_stopping import EarlyStopping
from apviz.widgets.exercise import check
from apviz.widgets.forecast import Forecast
from apviz.widgets.kappas import Kappas
from apviz.widgets.photograph import Photograph
from apviz.widgets.positive_definite import PositiveDefinite
from apviz.widgets.projection import Projection
from apviz.widgets.projection_player import ProjectionPlayer
from apviz.widgets.sample_paths import SamplePaths
from apviz.widgets.which_block import WhichBlock
from apviz.widgets.zigzag import Zigzag

__all__ = [
    "Angles",
    "CGAgainstProjection",
    "EarlyStopping",
    "Forecast",
    "Kappas",
    "Photograph",
    "PositiveDefinite",
    "Projection",
    "ProjectionPlayer",
    "SamplePaths",
    "WhichBlock",
    "Zigzag",
    "check",
]
