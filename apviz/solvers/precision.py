"""Precision: the dtypes of block factors and of the residual; claims of convergence are always in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import torch

from apviz.registry import Registry
from apviz.settings import require

Recursion = Literal["system", "float32", "float64", "auto"]
Factors = Literal["recursion", "float16", "auto"]
DTYPES: Final = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Dtypes of alternating projection; weights and every claim of convergence are in float64.

    Args:
        recursion: dtype of block factors and residual: `system`, that of the system; `float32`, for any tolerance
            (`apviz.solvers.measuring.refinement`); `float64`; `auto`: float32 unless σ² is too small for it compared
            to the outputscale.
        factors: dtype of the stored factors, and of the maps onto skeletons: `recursion`, as the residual; `float16`,
            half the memory, with slightly less exact projections, which past updates and passes correct; σ² must be
            above 1e-6 of the outputscale; `auto`: float16 if the other does not fit.

    Raises:
        ValueError: an unknown setting.

    Examples:
        >>> import apviz
        >>> apviz.AlternatingProjection(precision=apviz.solvers.Precision(factors="float16")).precision.recursion
        'system'
    """

    recursion: Recursion = "system"
    factors: Factors = "recursion"

    def __post_init__(self) -> None:
        for name, known in (("recursion", get_args(Recursion)), ("factors", get_args(Factors))):
            value = getattr(self, name)
            require(isinstance(value, str) and value in known, name, value, f"one of {', '.join(known)}")

    def kept(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype of the stored factors for a recursion in `dtype`."""
        return torch.float16 if self.factors == "float16" else dtype


PRECISIONS: Final = Registry[Precision]("precision", "apviz.solvers")
PRECISIONS.register("precision")(Precision)


def precision_named(given: str | Precision) -> Precision:
    """Return the precision of a name: a dtype of the recursion, or `auto` for both; return an object as it is."""
    if isinstance(given, Precision):
        return given
    known = get_args(Recursion)
    accepted = f"one of {', '.join(known)}, or an object of apviz.solvers.Precision"
    require(isinstance(given, str) and given in known, "precision", given, accepted)
    return Precision(recursion="auto", factors="auto") if given == "auto" else Precision(recursion=given)  # type: ignore[arg-type]
