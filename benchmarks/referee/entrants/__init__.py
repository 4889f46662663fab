"""The entrants: one file each, of at most 80 lines, as a user of the library would write it."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from benchmarks.referee.task import Entrant

#: entrant → file of this folder, class, and the package that it needs
ENTRANTS = {
    "exact, apviz": ("exact", "Exact", ""),
    "Fourier (EFGP), apviz": ("fourier", "Fourier", ""),
    "SVGP, GPyTorch": ("svgp", "SVGP", "gpytorch"),
    "SGPR, GPyTorch": ("sgpr", "SGPR", "gpytorch"),
    "KISS-GP, GPyTorch": ("kiss", "KISS", "gpytorch"),
    "Vecchia, GPBoost": ("vecchia", "Vecchia", "gpboost"),
    "VIF, GPBoost": ("vif", "VIF", "gpboost"),
    "random Fourier features, scikit-learn": ("fourier_features", "FourierFeatures", ""),
    "Nyström, scikit-learn": ("nystroem", "NystroemFeatures", ""),
    "subset of data, scikit-learn": ("subset", "Subset", ""),
    "trees, LightGBM": ("trees", "Trees", "lightgbm"),
}


def entrant(name: str) -> Entrant:
    """Return an entrant by its name, or a class of a file by `path/to/file.py:ClassName`.

    Raises:
        ValueError: an unknown name, or a file that is missing.
        ImportError: a library is missing.
    """
    if name in ENTRANTS:
        file, kind, _ = ENTRANTS[name]
        module: ModuleType = importlib.import_module(f"{__name__}.{file}")
    else:
        path, _, kind = name.rpartition(":")
        if not Path(path).is_file():
            raise ValueError(f"there is no entrant {name!r}; there are {', '.join(ENTRANTS)}, or file.py:ClassName")
        spec = importlib.util.spec_from_file_location(Path(path).stem, path)
        assert spec is not None and spec.loader is not None  # a file of Python
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    made: Entrant = getattr(module, kind)()
    return made


def missing(name: str) -> str:
    """Return the package that an entrant needs and that is not installed, or an empty string."""
    package = ENTRANTS[name][2] if name in ENTRANTS else ""
    return package if package and importlib.util.find_spec(package) is None else ""
