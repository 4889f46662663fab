"""Notebook widgets: each one line to show; controls beside a figure that the library computes."""

from apviz.widgets.exercise import check
from apviz.widgets.projection_player import ProjectionPlayer

__all__ = ["ProjectionPlayer", "check"]
