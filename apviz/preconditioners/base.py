"""What a preconditioner of conjugate gradients is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from apviz.operators import CountingOperator
from apviz.system import KernelSystem

#: r ↦ P⁻¹ r for r: (n, p), symmetric positive definite
Apply = Callable[[Tensor], Tensor]


class Preconditioner(ABC):
    """Settings of a preconditioner; `build` does the expensive part for one system."""

    @property
    @abstractmethod
    def label(self) -> str:
        """In a few words, after "PCG"."""

    def resolve(self, system: KernelSystem) -> tuple[Preconditioner, Mapping[str, str]]:
        """The same with a value for every setting that says `auto`, and why each was chosen."""
        return self, {}

    @abstractmethod
    def build(self, operator: CountingOperator) -> Apply: ...


@dataclass(frozen=True, repr=False)
class Built(Preconditioner):
    """One that was built already, for a solver to use as it is."""

    settings: Preconditioner
    apply: Apply

    @property
    def label(self) -> str:
        return self.settings.label

    def build(self, operator: CountingOperator) -> Apply:
        return self.apply

    def __repr__(self) -> str:
        return repr(self.settings)
