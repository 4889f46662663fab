"""The interface of a preconditioner of conjugate gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from torch import Tensor

from apviz.operators import CountingOperator
from apviz.registry import Registry

#: r ↦ P⁻¹ r for r: (n, p), symmetric positive definite
Apply = Callable[[Tensor], Tensor]


class Preconditioner(ABC):
    """Settings of a preconditioner; `build` does the expensive part for one system."""

    @abstractmethod
    def build(self, operator: CountingOperator) -> Apply:
        """Build r ↦ P⁻¹ r; evaluated entries count as work."""


PRECONDITIONERS: Final = Registry[Preconditioner]("preconditioner", "apviz.preconditioners")
