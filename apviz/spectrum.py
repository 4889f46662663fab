"""Eigenvalues of K: λmax, λmin, λ′max, κ and κ′ with how each was got, and all of them for small n.

For any v > 0 the Collatz–Wielandt quotient max (|K|v)ᵢ/vᵢ of the magnitudes of the entries bounds λmax from above
(Horn & Johnson, *Matrix Analysis*, 8.1.18 and 8.1.26) while the Rayleigh quotient bounds it from below. Entries of
kernels of distances are positive; of others the bound at large n is the trace.
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

#: rows up to which λmax and λmin are exact by default, and rows of the subsample beyond
SUBSAMPLE_ROWS = 1_000
#: rows up to which all eigenvalues are computed; the dense matrices then take 0.4 GB
DENSE_ROWS = 4_000
#: rows around one row, whose least eigenvalue is close to K's where σ² is not; rows searched for the closest pair
NEAR_ROWS, PAIRED_ROWS = 300, 5_000
#: of which there are fewer where a tree does not shorten the search, with more inputs than so many
WIDE_INPUTS, WIDE_PAIRED_ROWS = 8, 2_000
#: of an eigenvalue that is said to be equal to a number, what rounding may be
EQUAL = 1e-3
#: λmin within this factor of σ² is said to be at it
AT_NOISE_FACTOR = 1.1
#: rows of which eigenvalues after the largest are estimated, and the share of them that is reliable
LEADING_ROWS, LEADING_SHARE = 500, 0.25
Method = Literal["exact", "lanczos", "subsample"]


@dataclass(frozen=True)
class Eigenvalue:
    """An eigenvalue, how it was got, and a bound on it from the safe side (above for λmax, below for λmin)."""

    value: float
    how: str
    is_estimate: bool
    bound: float


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues λmax, λmin and λ′max of one system (paper, section 4).

    Attributes:
        blocks: (m,) λmax(K[I,I]), or empty.
        leading: pairs of a number r and λ_{r+1}, the largest eigenvalue of K after r others, for a few r from 0 on;
            empty where none were asked for, or computed.
    """

    lambda_max: Eigenvalue
    lambda_min: Eigenvalue
    lambda_max_block: Eigenvalue
    blocks: Tensor
    leading: tuple[tuple[int, float], ...] = ()

    @property
    def kappa(self) -> Eigenvalue:
        """The condition number κ = λmax/λmin."""
        return _ratio(self.lambda_max, self.lambda_min)

    @property
    def kappa_prime(self) -> Eigenvalue:
        """The ratio κ′ = λ′max/λmin, the rate of Theorem 1."""
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
    """Computes or estimates the spectrum of a system and of its blocks.

    Args:
        blocks: K[I, I] over the solved rows of every block, read one at a time; none: λ′max is NaN.
        method: `exact` (dense, float64; n³), `lanczos` (`steps` products with K, each 1.0 work), `subsample` (λmax of
            1,000 random rows, scaled to n; λmin of the 300 rows around a dense place and around the closest pair: some
            1.2 million entries), or None: exact up to n = 1,000, else subsample.
        rows: of the subsample.
        leading: also estimate some eigenvalues after the largest, from 500 random rows where not all are computed.
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

    # map lets go of a block before the next is evaluated, a comprehension after
    found = torch.tensor(list(map(largest_of, blocks)), dtype=torch.float64).reshape(-1, 2)
    value, bound = found.amax(0).tolist() if len(found) else (math.nan, math.nan)
    largest = Eigenvalue(value, "power iteration on the blocks K[I, I]", True, bound)
    return Spectrum(lambda_max, lambda_min, largest, found[:, 0], found_leading)


def all_eigenvalues(
    system: KernelSystem, precondition: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, Tensor | None]:
    """Computes all eigenvalues of K, and of P⁻¹K where there is a preconditioner: (n,) float64 each, largest first.

    Those of P⁻¹K are those of FᵀP⁻¹F with K = FFᵀ. K, F and the eigenvalues are dense and in float64; P⁻¹ is applied
    to F in the system's dtype, as the solve applies it, so in float32 the smallest carry its rounding, and may even
    come out negative.

    Args:
        precondition: r ↦ P⁻¹r for r: (n, p), symmetric positive definite.

    Raises:
        ValueError: n above `DENSE_ROWS`, before any work.
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
    """K: (n, n) in float64."""
    return system.operator.exact().block(slice(0, system.n))


def _exact(system: KernelSystem) -> tuple[Eigenvalue, Eigenvalue, Tensor]:
    values = torch.linalg.eigvalsh(_dense(system))
    how = "all eigenvalues of the dense K in float64"
    low, high = float(values[0]), float(values[-1])
    # of entries, and of an eigenvalue of what they are
    rounding = system.operator.exact().entry_rounding * _trace(system)
    rounding += len(values) * torch.finfo(torch.float64).eps * high
    largest = Eigenvalue(high, how, False, high + rounding)
    if low < system.noise + rounding:  # what rounding may have made of σ²
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
    """K of some rows, noise included, in float64."""
    noise = system.operator.noise_of(rows.to(system.device))
    return system.operator.of_rows(rows, noise).block(slice(0, len(rows)))


def _scaled_up(k: Tensor, n: int) -> Callable[[Tensor], Tensor]:
    """The product with K of `len(k)` of n rows as if of all: what is off the diagonal counts for the rows left out."""
    factor, diagonal = (n - 1) / max(1, len(k) - 1), k.diagonal()
    return lambda v: factor * (k @ v) + (1 - factor) * diagonal * v


def _smallest_nearby(system: KernelSystem, densest: int) -> Eigenvalue:
    """λmin by rows that lie close together, which is where it comes from.

    Eigenvalues of K of some rows interlace with those of K (Horn & Johnson, *Matrix Analysis*, 4.3.17): the smallest
    is at least λmin, and close to it where these rows are the closest.
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
    """A row of the closest pair, of 5,000 or 2,000 random rows where there are more; inputs: (n, D) features."""
    rows = _drawn(len(inputs), PAIRED_ROWS if inputs.shape[1] <= WIDE_INPUTS else WIDE_PAIRED_ROWS)
    points = inputs[rows.to(inputs.device)].double().cpu().numpy()
    distances, _ = cKDTree(points).query(points, k=2)
    return int(rows[int(distances[:, 1].argmin())])


def _leading(system: KernelSystem) -> tuple[tuple[int, float], ...]:
    """Of a few random rows, scaled to n, which errs upwards the further down an eigenvalue is."""
    values = torch.linalg.eigvalsh(_block(system, _drawn(system.n, LEADING_ROWS))).flip(0)
    scaled = (values - system.noise) * (system.n / len(values)) + system.noise
    return _staircase(scaled, max(1, int(LEADING_SHARE * len(values))))


def _staircase(values: Tensor, most: int) -> tuple[tuple[int, float], ...]:
    """λ_{r+1} for r = 0 and about four r an octave, below `most`; values: all eigenvalues, largest first."""
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
    """Computes the largest and the smallest Ritz value of a symmetric operator after some Lanczos steps, in float64.

    The largest underestimates λmax, the smallest overestimates λmin (Golub & Van Loan, section 10.1).
    """
    # the Perron vector is positive: ones, with a little noise so that no eigenvector is missed
    start = 1 + 0.1 * torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    basis = LanczosBasis(matmul, start.to(device))
    basis.extend(steps)
    off = basis.off_diagonal[:-1]
    t = np.diag(basis.diagonal) + np.diag(off, 1) + np.diag(off, -1)
    values = np.linalg.eigvalsh(t)
    return float(values[-1]), float(values[0])


def largest_eigenvalue(k: Tensor, steps: int = 4) -> tuple[float, float]:
    """Computes λmax by power iteration, and the Collatz–Wielandt bound above it; k: (b, b) symmetric."""
    if float(k.min()) < 0:  # iterated are the magnitudes, of which λmax is larger
        _, bound = largest_eigenvalue(k.abs(), steps)
        value, _ = lanczos(lambda v: (k @ v.to(k)).double(), len(k), 4 * steps, k.device)
        return value, bound
    v = torch.ones(len(k), dtype=k.dtype, device=k.device)
    for _ in range(steps):
        v = v / v.norm()
        kv = k @ v
        value, bound = v @ kv, (kv / v).max()
        # a far point's entry may round to 0; the quotient stays finite, and a bound, for any positive v
        v = kv.clamp_min(torch.finfo(kv.dtype).eps * float(kv.max()))
    rounding = 1 + 8 * torch.finfo(k.dtype).eps * math.sqrt(len(k))
    return float(value), float(bound) * rounding


class LanczosBasis:
    """Tridiagonalises a symmetric A step by step: orthonormal q of a Krylov space, T = QᵀAQ (Golub & Van Loan, 10.1).

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
        """The vectors Qᵀ, (steps so far, n): one a row."""
        return self._held[: len(self)]

    def extend(self, steps: int) -> None:
        """Extends the basis to `steps` vectors, at most n; one product with A for each that is new."""
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
