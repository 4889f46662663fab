"""Advice before any solve: which method suits a system, which model a table, how long each would take, and why."""

from apviz.advice.advising import Advice, advise, can_forecast
from apviz.advice.alternatives import Alternative
from apviz.advice.forecast import Band, Forecast
from apviz.advice.models import ModelAdvice, ModelForecast, advise_models

__all__ = [
    "Advice", "Alternative", "Band", "Forecast", "ModelAdvice", "ModelForecast", "advise", "advise_models",
    "can_forecast",
]  # fmt: skip
