"""What a preconditioner of conjugate gradients is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from torch import Tensor

from apviz.operators import CountingOperator, Operator

#: r ↦ P⁻¹ r for r: (n, p), symmetric positive definite
Apply = Callable[[Tensor], Tensor]


class Preconditioner(ABC):
    """Settings of a preconditioner; `build` does the expensive part for one system."""

    @property
    @abstractmethod
    def label(self) -> str:
        """In a few words, after "PCG"."""

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[Preconditioner, Mapping[str, str]]:
        """The same with a value for every setting that says `auto`, and why each was chosen."""
        return self, {}

    @abstractmethod
    def build(self, operator: CountingOperator) -> Apply: ...
