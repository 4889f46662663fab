"""What a preconditioner of conjugate gradients is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor

from apviz.operators import CountingOperator

#: r ↦ P⁻¹ r for r: (n, p), symmetric positive definite
Apply = Callable[[Tensor], Tensor]


class Preconditioner(ABC):
    """Settings of a preconditioner; `build` does the expensive part for one system."""

    @property
    @abstractmethod
    def label(self) -> str:
        """In a few words, after "PCG"."""

    @abstractmethod
    def build(self, operator: CountingOperator) -> Apply: ...
