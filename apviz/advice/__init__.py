"""Advice: which method a system asks for, how long each would take, and why; before any of them has been tried."""

from apviz.advice.advising import Advice, advise, can_forecast
from apviz.advice.alternatives import Alternative
from apviz.advice.forecast import Band, Forecast

__all__ = ["Advice", "Alternative", "Band", "Forecast", "advise", "can_forecast"]
