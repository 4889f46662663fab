"""Advice before any solve: which method suits a system, how long each would take, and why."""

from apviz.advice.advising import Advice, advise, can_forecast
from apviz.advice.alternatives import Alternative
from apviz.advice.forecast import Band, Forecast

__all__ = ["Advice", "Alternative", "Band", "Forecast", "advise", "can_forecast"]
