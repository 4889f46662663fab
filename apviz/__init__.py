"""apviz: solve large Gaussian-process systems by alternating projection, record every update, and view the results.

Names are imported on first access; `__init__.pyi` lists their modules.
"""

from __future__ import annotations

from importlib import metadata

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [*(name for name in __all__ if name != "gpytorch"), "__version__"]  # noqa: PLE0604  # GPyTorch is optional

try:
    __version__ = metadata.version("apviz")
except metadata.PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"
