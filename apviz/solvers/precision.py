"""Precision: in which dtypes blocks are factored and the residual is updated; claims are in float64 in any case."""

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
    """In which dtypes alternating projection computes; weights and every claim of convergence are in float64.

    Args:
        recursion: in which blocks are factored and the residual is updated: `system`, that of the system; `float32`,
            for any tolerance (`apviz.solvers.refinement`); `float64`; `auto`: float32 unless σ² is too small for it
            compared to the outputscale.
        factors: in which the factors, and the maps onto skeletons, are kept: `recursion`, as the residual; `float16`,
            half its memory: projections are then a little less exact, which past updates and passes make up for; σ² is
            to be above 1e-6 of the outputscale; `auto`: float16 where the other would not fit.

    Raises:
        ValueError: a setting that is none of these.

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
        """Returns the dtype in which factors are kept, for a recursion in `dtype`."""
        return torch.float16 if self.factors == "float16" else dtype


PRECISIONS: Final = Registry[Precision]("precision", "apviz.solvers")
PRECISIONS.register("precision")(Precision)


def precision_named(given: str | Precision) -> Precision:
    """Returns the precision of a name: a dtype of the recursion, or `auto` for both; an object as it is.

    Raises:
        ValueError: an unknown name; the message lists the known ones.
    """
    if isinstance(given, Precision):
        return given
    known = get_args(Recursion)
    accepted = f"one of {', '.join(known)}, or an object of apviz.solvers.Precision"
    require(isinstance(given, str) and given in known, "precision", given, accepted)
    return Precision(recursion="auto", factors="auto") if given == "auto" else Precision(recursion=given)  # type: ignore[arg-type]
