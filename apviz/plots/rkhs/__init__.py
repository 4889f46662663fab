"""Figures of few points: functions from the states of a walk to plotly figures."""

from apviz.plots.rkhs.walk_step import walk_step

__all__ = ["walk_step"]
