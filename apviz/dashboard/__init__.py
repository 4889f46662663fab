"""The dashboard: a Panel app on the library. No mathematics here."""

from apviz.dashboard.limits import Limits
from apviz.dashboard.serving import serve

__all__ = ["Limits", "serve"]
