"""Eigenvalues of K: λmax, λmin, λ′max, κ and κ′ with the method behind each, and all of them for small n.

For any v > 0 the Collatz–Wielandt quotient max (|K|v)ᵢ/vᵢ of the magnitudes of the entries bounds λmax from above
(Horn & Johnson, *Matrix Analysis*, 8.1.18 and 8.1.26). The Rayleigh quotient bounds it from below. Kernels of distances
have positive entries; for other kernels the bound at large n is the trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from apviz.system import KernelSystem

#: Number of rows up to which λmax and λmin are exact by default; above it, number of rows of the subsample.
SUBSAMPLE_ROWS = 1_000
#: Rows up to which all eigenvalues are computed; the dense matrices then take 0.4 GB.
DENSE_ROWS = 4_000
#: Number of rows around one row that estimate λmin, and number of rows searched for the closest pair.
NEAR_ROWS, PAIRED_ROWS = 300, 5_000
#: Number of inputs above which a tree does not speed up the search; number of rows searched then.
WIDE_INPUTS, WIDE_PAIRED_ROWS = 8, 2_000
#: Largest relative rounding error of an eigenvalue that counts as exact.
EQUAL = 1e-3
#: λmin within this factor of σ² is reported as σ²
AT_NOISE_FACTOR = 1.1
#: Number of rows that estimate eigenvalues after the largest, and the share of those that is reliable.
LEADING_ROWS, LEADING_SHARE = 500, 0.25
Method = Literal["exact", "lanczos", "subsample"]


@dataclass(frozen=True)
class Eigenvalue:
    """Eigenvalue, the method that computed it, and a bound on the safe side (above for λmax, below for λmin)."""

    value: float
    how: str
    is_estimate: bool
    bound: float


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues λmax, λmin and λ′max of one system (paper, section 4).

    Attributes:
        blocks: (m,) λmax(K[I,I]), or empty.
        leading: pairs of r and λ_{r+1}, the largest eigenvalue of K after r others, for a few r ≥ 0; empty if not
            requested or not computed.
    """

    lambda_max: Eigenvalue
    lambda_min: Eigenvalue
    lambda_max_block: Eigenvalue
    blocks: Tensor
    leading: tuple[tuple[int, float], ...] = ()

    @property
    def kappa(self) -> Eigenvalue:
        """Condition number κ = λmax/λmin."""
        return _ratio(self.lambda_max, self.lambda_min)

    @property
    def kappa_prime(self) -> Eigenvalue:
        """Ratio κ′ = λ′max/λmin, the rate of Theorem 1."""
        return _ratio(self.lambda_max_block, self.lambda_min)


def _ratio(above: Eigenvalue, below: Eigenvalue) -> Eigenvalue:
    how = f"{above.how}, over {below.how}"
    return Eigenvalue(above.value / below.value, how, above.is_estimate or below.is_estimate, above.bound / below.bound)


def spectrum(
    system: KernelSystem,
    blocks: Iterable[Tensor] = (),
    method: Method | None = None,
    steps: int = 30,
    rows: int = SUBSAMPLE_ROWS,
    leading: bool = False,
) -> Spectrum:
    """Compute or estimate the spectrum of a system and of its blocks.

    Args:
        blocks: K[I, I] over the solved rows of every block, read one at a time; without blocks λ′max is NaN.
        method: `exact` (dense, float64; n³), `lanczos` (`steps` products with K, each 1.0 work), `subsample` (λmax of
            1,000 random rows, scaled to n; λmin of the 300 rows around a dense place and around the closest pair: some
            1.2 million entries), or None: exact up to n = 1,000, else subsample.
        steps: Number of Lanczos steps.
        rows: Number of rows of the subsample.
        leading: Whether to estimate also some eigenvalues after the largest, from 500 random rows unless all are
        computed.
    """
    if method is None:
        method = "exact" if system.n <= SUBSAMPLE_ROWS else "subsample"
    found_leading: tuple[tuple[int, float], ...] = ()
    if method == "exact":
        lambda_max, lambda_min, values = _exact(system)
        found_leading = _staircase(values, system.n)
    elif method == "lanczos":
        lambda_max, lambda_min = _by_lanczos(system, steps)
    elif method == "subsample":
        lambda_max, lambda_min = _by_subsample(system, rows)
    else:
        raise ValueError(f"method must be exact, lanczos or subsample, got {method!r}")
    if leading and not found_leading:
        found_leading = _leading(system)
    rounding = system.operator.entry_rounding / torch.finfo(system.dtype).eps

    def largest_of(k: Tensor) -> tuple[float, float]:
        found, bound = largest_eigenvalue(k)
        return found, bound + rounding * torch.finfo(k.dtype).eps * float(k.diagonal().sum())

    # map frees a block before it evaluates the next; a comprehension frees it after
    found = torch.tensor(list(map(largest_of, blocks)), dtype=torch.float64).reshape(-1, 2)
    value, bound = found.amax(0).tolist() if len(found) else (math.nan, math.nan)
    largest = Eigenvalue(value, "power iteration on the blocks K[I, I]", True, bound)
    return Spectrum(lambda_max, lambda_min, largest, found[:, 0], found_leading)


def all_eigenvalues(
    system: KernelSystem, precondition: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, Tensor | None]:
    """Compute all eigenvalues of K, and of P⁻¹K with a preconditioner: (n,) float64 each, largest first.

    P⁻¹K has the eigenvalues of FᵀP⁻¹F, where K = FFᵀ. K, F and the eigenvalues are dense and in float64. P⁻¹ is applied
    to F in the system's dtype, as in the solve. In float32 the smallest eigenvalues therefore carry rounding, and may
    be negative.

    Args:
        precondition: r ↦ P⁻¹r for r: (n, p), symmetric positive definite.

    Raises:
        ValueError: n is above `DENSE_ROWS`; raised before any work.
    """
    if system.n > DENSE_ROWS:
        raise ValueError(
            f"all eigenvalues need dense float64 matrices and n³ time, so n is at most {DENSE_ROWS:,}, got "
            f"n = {system.n:,}; take fewer rows (apviz.datasets.load(name, n={DENSE_ROWS})), or leave them out "
            "(Recorder(eigenvalues=False)): λmax, λmin and κ are recorded at any n"
        )
    k = _dense(system)
    of_k = torch.linalg.eigvalsh(k).flip(0)
    if precondition is None:
        return of_k, None
    f = torch.linalg.cholesky(k)
    del k
    product = f.T @ precondition(f.to(system.dtype)).double()
    return of_k, torch.linalg.eigvalsh(product.add_(product.T.clone()).div_(2)).flip(0)


def _dense(system: KernelSystem) -> Tensor:
    """Return K: (n, n) in float64."""
    return system.operator.exact().block(slice(0, system.n))


def _exact(system: KernelSystem) -> tuple[Eigenvalue, Eigenvalue, Tensor]:
    values = torch.linalg.eigvalsh(_dense(system))
    how = "all eigenvalues of the dense K in float64"
    low, high = float(values[0]), float(values[-1])
    # rounding of the entries, plus that of an eigenvalue of the rounded matrix
    rounding = system.operator.exact().entry_rounding * _trace(system)
    rounding += len(values) * torch.finfo(torch.float64).eps * high
    largest = Eigenvalue(high, how, False, high + rounding)
    if low < system.noise + rounding:  # indistinguishable from σ²
        return largest, _noise_floor(system), values.flip(0)
    smallest = Eigenvalue(low, how, rounding > EQUAL * low, max(low - rounding, system.noise))
    return largest, smallest, values.flip(0)


def _noise_floor(system: KernelSystem) -> Eigenvalue:
    least = "σ²" if system.operator.noises is None else "the least σ²"
    return Eigenvalue(system.noise, f"the lower bound {least}, close to λmin at scale", True, system.noise)


def _trace(system: KernelSystem) -> float:
    return float((system.operator.signal() + system.operator.noise_of()).sum())


def _by_subsample(system: KernelSystem, count: int) -> tuple[Eigenvalue, Eigenvalue]:
    rows = _drawn(system.n, count)
    k = _block(system, rows)
    high, _ = lanczos(_scaled_up(k, system.n), len(rows), 20, k.device)
    how = f"estimate from {len(rows):,} random rows, scaled by n"
    densest = int(rows[k.abs().sum(1).argmax()])
    del k
    return Eigenvalue(high, how, True, _trace(system)), _smallest_nearby(system, densest)


def _drawn(n: int, count: int) -> Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))[:count]


def _block(system: KernelSystem, rows: Tensor) -> Tensor:
    """Return K of some rows, noise included, in float64."""
    noise = system.operator.noise_of(rows.to(system.device))
    return system.operator.of_rows(rows, noise).block(slice(0, len(rows)))


def _scaled_up(k: Tensor, n: int) -> Callable[[Tensor], Tensor]:
    """Return the product with K of a sample of the n rows, its off-diagonal entries scaled up for the rows left out."""
    factor, diagonal = (n - 1) / max(1, len(k) - 1), k.diagonal()
    return lambda v: factor * (k @ v) + (1 - factor) * diagonal * v


def _smallest_nearby(system: KernelSystem, densest: int) -> Eigenvalue:
    """Estimate λmin from rows that are close together, which determine it.

    The eigenvalues of a principal submatrix interlace with those of K (Horn & Johnson, *Matrix Analysis*, 4.3.17). Its
    smallest is at least λmin, and near it if these rows are the closest.
    """
    operator, least = system.operator, math.inf
    for centre in (densest, _closest_pair(operator.inputs)):
        column = operator.columns(torch.tensor([centre], device=system.device))[:, 0]
        rows = column.abs().topk(min(NEAR_ROWS, system.n)).indices.sort().values
        least = min(least, float(torch.linalg.eigvalsh(_block(system, rows))[0]))
    if least <= AT_NOISE_FACTOR * system.noise:
        return _noise_floor(system)
    how = f"estimate from above, by {NEAR_ROWS} rows that lie close together"
    return Eigenvalue(least, how, True, system.noise)


def _closest_pair(inputs: Tensor) -> int:
    """Return a row of the closest pair among up to 5,000 or 2,000 random rows of inputs: (n, D) features."""
    rows = _drawn(len(inputs), PAIRED_ROWS if inputs.shape[1] <= WIDE_INPUTS else WIDE_PAIRED_ROWS)
    points = inputs[rows.to(inputs.device)].double().cpu().numpy()
    distances, _ = cKDTree(points).query(points, k=2)
    return int(rows[int(distances[:, 1].argmin())])


def _leading(system: KernelSystem) -> tuple[tuple[int, float], ...]:
    """Estimate leading eigenvalues from random rows, scaled to n. Later ones are over-estimated more."""
    values = torch.linalg.eigvalsh(_block(system, _drawn(system.n, LEADING_ROWS))).flip(0)
    scaled = (values - system.noise) * (system.n / len(values)) + system.noise
    return _staircase(scaled, max(1, int(LEADING_SHARE * len(values))))


def _staircase(values: Tensor, most: int) -> tuple[tuple[int, float], ...]:
    """Return λ_{r+1} for r = 0 and about four r an octave, below `most`; values: all eigenvalues, largest first."""
    count = min(most, len(values))
    ranks = sorted({0, *(min(count - 1, round(2 ** (step / 4))) for step in range(4 * count.bit_length()))})
    return tuple((rank, float(values[rank])) for rank in ranks if rank < count)


def _by_lanczos(system: KernelSystem, steps: int) -> tuple[Eigenvalue, Eigenvalue]:
    def matmul(v: Tensor) -> Tensor:
        return system.operator.matmul(v[:, None].to(system.dtype))[:, 0].double()

    high, low = lanczos(matmul, system.n, steps, system.device)
    row_sums = matmul(torch.ones(system.n, dtype=torch.float64, device=system.device))
    bound = _trace(system)
    if system.operator.formula.is_positive:
        bound = min(bound, float(row_sums.max()) + system.operator.entry_rounding * bound)
    how = f"{min(steps, system.n)} Lanczos steps, from {{}}"
    return (
        Eigenvalue(high, how.format("below"), True, bound),
        Eigenvalue(max(low, system.noise), how.format("above"), True, system.noise),
    )


def lanczos(
    matmul: Callable[[Tensor], Tensor], n: int, steps: int, device: torch.device | str = "cpu"
) -> tuple[float, float]:
    """Compute the largest and the smallest Ritz value of a symmetric operator after some Lanczos steps, in float64.

    The largest underestimates λmax, the smallest overestimates λmin (Golub & Van Loan, section 10.1).
    """
    # start near the positive Perron vector, with a little noise so that no eigenvector is missed
    start = 1 + 0.1 * torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    basis = LanczosBasis(matmul, start.to(device))
    basis.extend(steps)
    off = basis.off_diagonal[:-1]
    t = np.diag(basis.diagonal) + np.diag(off, 1) + np.diag(off, -1)
    values = np.linalg.eigvalsh(t)
    return float(values[-1]), float(values[0])


def largest_eigenvalue(k: Tensor, steps: int = 4) -> tuple[float, float]:
    """Compute λmax by power iteration, and its upper Collatz–Wielandt bound; k: (b, b) symmetric."""
    if float(k.min()) < 0:  # λmax of the magnitudes is an upper bound
        _, bound = largest_eigenvalue(k.abs(), steps)
        value, _ = lanczos(lambda v: (k @ v.to(k)).double(), len(k), 4 * steps, k.device)
        return value, bound
    v = torch.ones(len(k), dtype=k.dtype, device=k.device)
    for _ in range(steps):
        v = v / v.norm()
        kv = k @ v
        value, bound = v @ kv, (kv / v).max()
        # the entry of a far point may round to 0; with any positive v the quotient is a finite bound
        v = kv.clamp_min(torch.finfo(kv.dtype).eps * float(kv.max()))
    rounding = 1 + 8 * torch.finfo(k.dtype).eps * math.sqrt(len(k))
    return float(value), float(bound) * rounding


class LanczosBasis:
    """Orthonormal basis Q of a Krylov space of a symmetric A, with T = QᵀAQ tridiagonal (Golub & Van Loan, 10.1).

    Every vector is orthogonalised against all earlier ones, twice ("twice is enough": Parlett, *The Symmetric
    Eigenvalue Problem*, section 6.9), so the basis stays orthonormal to rounding in the dtype of `start`. The entries
    of T are summed in float64.

    Args:
        matmul: v ↦ A v for v: (n,), A symmetric.
        start: (n,), not zero; sets the dtype and device of the basis.
        restart_seed: Seed of random vectors orthogonal to the Krylov space, with which to continue if the space is
            invariant. T then has blocks, and n steps always reach the complete space. None to stop there.

    Attributes:
        diagonal: Diagonal entries of T.
        off_diagonal: Off-diagonal entries of T; entry k couples vectors k and k + 1, so the last is not part of T.
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
        """Vectors Qᵀ, (steps so far, n), one in each row."""
        return self._held[: len(self)]

    def extend(self, steps: int) -> None:
        """Extend the basis to `steps` vectors, at most n. Each new vector costs one product with A."""
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
        else:  # the rest is rounding of the product
            self._next, left = self._fresh(), 0.0
        self.off_diagonal.append(left)

    def _orthogonalise_(self, v: Tensor) -> float:
        """Subtract from v its projection onto the basis, in place, and return the norm of the rest."""
        basis = self.vectors
        for _ in range(2):
            v.sub_(basis.T @ (basis @ v))
        return float(torch.linalg.vector_norm(v, dtype=torch.float64))

    def _fresh(self) -> Tensor | None:
        """Return a random unit vector orthogonal to the basis, or None without a seed or if the basis is complete."""
        n = self._held.shape[1]
        if self._restart_seed is None or len(self) == n:
            return None
        generator = torch.Generator().manual_seed(self._restart_seed + len(self))
        v = torch.randn(n, generator=generator, dtype=torch.float64).to(self._held)
        norm = self._orthogonalise_(v)
        return v.div_(norm)
