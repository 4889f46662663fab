"""Lanczos' tridiagonalisation of a symmetric operator, reorthogonalised, grown step by step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class LanczosBasis:
    """Orthonormal vectors q of a Krylov space of A, and T = QᵀAQ, tridiagonal (Golub & Van Loan, section 10.1).

    Every vector is orthogonalised against all earlier ones, twice ("twice is enough": Parlett, *The Symmetric
    Eigenvalue Problem*, section 6.9), so the basis stays orthonormal to rounding in the dtype of `start`. The entries
    of T are summed in float64.

    Args:
        matmul: v ↦ A v for v: (n,), A symmetric.
        start: (n,), not zero; its dtype and device are the basis'.
        restart_seed: where A maps the space so far into itself, go on from a random vector orthogonal to it, drawn
            with this seed: T falls into blocks there, and n steps always reach the whole space. None: stop there.

    Attributes:
        diagonal, off_diagonal: of T; off_diagonal[k] couples vectors k and k + 1, so its last entry is not part of T.
    """

    def __init__(self, matmul: Callable[[Tensor], Tensor], start: Tensor, restart_seed: int | None = None) -> None:
        self._matmul, self._restart_seed = matmul, restart_seed
        self._held = start.new_empty(0, len(start))
        self._next: Tensor | None = start / torch.linalg.vector_norm(start)
        self.diagonal: list[float] = []
        self.off_diagonal: list[float] = []

    def __len__(self) -> int:
        return len(self.diagonal)

    @property
    def vectors(self) -> Tensor:
        """Qᵀ, (steps so far, n): a vector a row."""
        return self._held[: len(self)]

    def extend(self, steps: int) -> None:
        """Makes it `steps` vectors, at most n; one product with A for each that is new."""
        steps = min(steps, self._held.shape[1])
        if steps > len(self._held):
            held = self._held.new_empty(steps, self._held.shape[1])
            held[: len(self)] = self.vectors
            self._held = held
        while len(self) < steps and self._next is not None:
            self._step(self._next)

    def _step(self, q: Tensor) -> None:
        k = len(self)
        self._held[k] = q
        v = self._matmul(q)
        self.diagonal.append(float(torch.sum(q * v, dtype=torch.float64)))
        left = self._orthogonalise_(v)
        if left > torch.finfo(v.dtype).eps * max(map(abs, self.diagonal)):
            self._next = v.div_(left)
        else:  # nothing but the rounding of the product
            self._next, left = self._fresh(), 0.0
        self.off_diagonal.append(left)

    def _orthogonalise_(self, v: Tensor) -> float:
        """Takes from v what lies in the space so far, and returns the norm of the rest."""
        basis = self.vectors
        for _ in range(2):
            v.sub_(basis.T @ (basis @ v))
        return float(torch.linalg.vector_norm(v, dtype=torch.float64))

    def _fresh(self) -> Tensor | None:
        """A random unit vector orthogonal to all so far; None without a seed, or where there is none."""
        n = self._held.shape[1]
        if self._restart_seed is None or len(self) == n:
            return None
        generator = torch.Generator().manual_seed(self._restart_seed + len(self))
        v = torch.randn(n, generator=generator, dtype=torch.float64).to(self._held)
        norm = self._orthogonalise_(v)
        return v.div_(norm)
