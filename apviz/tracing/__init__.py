"""Recording: hooks, the recorder, the trace and its store. Opening a trace needs no torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
