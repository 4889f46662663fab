"""Stopping settings of a solve: its tolerance, and the fewest and the most epochs."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from apviz.settings import require_tolerance, require_whole

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """Tolerance and limits of a solve.

    Args:
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed from B − KW, is below this.
        max_epochs, min_epochs: in epochs, or in iterations of a Krylov method.
        check_every: epochs between evaluations of B − KW without another reason for one.

    Raises:
        ValueError: a setting out of range, with the accepted values.

    Examples:
        >>> import apviz
        >>> x = [[0.0], [0.5], [1.0]]
        >>> system = apviz.KernelSystem(x, [0.0, 1.0, 0.0], apviz.RBF(lengthscale=0.5), noise=0.1, device="cpu")
        >>> apviz.solve(system, until=apviz.Stopping(tol=1e-8)).residual < 1e-8
        True
    """

    tol: float = 1e-2
    max_epochs: int = 1000
    min_epochs: int = 0
    check_every: int = 50

    def __post_init__(self) -> None:
        require_tolerance(self.tol)
        require_whole("max_epochs", self.max_epochs, 1)
        require_whole("min_epochs", self.min_epochs, 0, self.max_epochs)
        require_whole("check_every", self.check_every, 1)

    @classmethod
    def of(cls, solver: object) -> Stopping:
        """Return the stopping settings of a solver, with defaults for those that it lacks.

        Raises:
            ValueError: a setting out of range.
        """
        return cls(**{name: getattr(solver, name) for name in LIMITS if hasattr(solver, name)})


#: stopping settings, on which a set-up does not depend
LIMITS = tuple(field.name for field in fields(Stopping))


def ending_as(given: object, solver: S) -> S:
    """Return a solver with the limits of a `Stopping`, or of another solver, for those that both have."""
    assert is_dataclass(solver)
    limits: dict[str, Any] = {
        f.name: getattr(given, f.name) for f in fields(solver) if f.name in LIMITS and hasattr(given, f.name)
    }
    changed: S = replace(solver, **limits)  # type: ignore[type-var]
    return changed
