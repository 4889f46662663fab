"""EFGP: a Gaussian process by Fourier features on a grid of frequencies, for up to three inputs (arXiv:2210.10210).

Written here after the paper of Greengard, Rachh and Barnett, in complex128. K̃ = Φ D² Φ* + σ²I, with Φ = exp(i x·ω) and
D² the spectral density times the volume of a cell. Then W = (B − Φ D β)/σ², with (D T D + σ²I) β = D Φ* B by CG, whose
product with the Toeplitz matrix T = Φ*Φ takes two FFTs, whatever n. The residual of K̃ is −Φ D ρ/σ², ρ that of CG.
B − KW is recomputed by `problem.matmul`, and what is left is solved for with ten times as small an error of entries.
"""

import itertools

import finufft
import numpy as np
from scipy.fft import fftn, ifftn, next_fast_len
from scipy.special import gammaln, kve

NU = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5, "rbf": np.inf}
AREA = {1: 2.0, 2: 2 * np.pi, 3: 4 * np.pi}
# of all right-hand sides; errors of an entry, by which k is cut; iterations between looks at the residual
MOST_MODES, ERRORS, LOOK = 5e6, (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8), 10


def kernel(nu, r):
    """Evaluate the correlation at distances r > 0 in lengthscales."""
    if nu == np.inf:
        return np.exp(-(r**2) / 2)
    z = np.sqrt(2 * nu) * r
    return np.exp((1 - nu) * np.log(2) - gammaln(nu) + nu * np.log(z) - z) * kve(nu, z)


def density(nu, w, d):
    """Evaluate its spectral density at frequencies of length w."""
    if nu == np.inf:
        return (2 * np.pi) ** (d / 2) * np.exp(-(w**2) / 2)
    log = d * np.log(2 * np.pi) + gammaln(nu + d / 2) - gammaln(nu) - d / 2 * np.log(2 * nu * np.pi)
    return np.exp(log - (nu + d / 2) * np.log1p(w**2 / (2 * nu)))


class Series:
    """The series of k to an error of entries, and CG in the space of its coefficients."""

    def __init__(self, x, nu, outputscale, noise, error, columns):
        n, d = x.shape
        r, w = np.geomspace(1e-3, 1e4, 4000), np.geomspace(1e-2, 1e6, 8000)
        reach = r[np.abs(kernel(nu, r)) > error][-1]
        shells = density(nu, w, d) * w**d * AREA[d] / (2 * np.pi) ** d * np.gradient(np.log(w))
        band = w[np.flatnonzero(shells[::-1].cumsum()[::-1] > error)[-1]]
        low, high = x.min(0), x.max(0)
        step = 2 * np.pi / (high - low + reach)
        half = np.ceil(band / step).astype(int)
        self.modes = tuple(2 * half + 1)
        if np.prod(2.0 * np.array(self.modes)) * columns > MOST_MODES * 16:
            raise MemoryError(f"{np.prod(self.modes):,} frequencies for an error of {error:g}")
        grid = np.meshgrid(*(h * np.arange(-m, m + 1) for h, m in zip(step, half, strict=True)), indexing="ij")
        length = np.sqrt(sum(each**2 for each in grid))
        self.d = np.sqrt(outputscale * density(nu, length, d) * np.prod(step / (2 * np.pi)))
        self.noise, self.eps = noise, max(1e-14, 0.01 * error)
        self.angles = [np.ascontiguousarray((x[:, k] - (low[k] + high[k]) / 2) * step[k]) for k in range(d)]
        self.nufft = [getattr(finufft, f"nufft{d}d{kind}") for kind in (1, 2)]
        wide = tuple(2 * m - 1 for m in self.modes)
        toeplitz = self.nufft[0](*self.angles, np.ones(n, complex), wide, eps=self.eps, isign=-1)
        self.fast = tuple(next_fast_len(m) for m in wide)
        held = np.zeros(self.fast, complex)
        held[tuple(slice(m) for m in wide)] = toeplitz
        self.spectrum = fftn(np.roll(held, [1 - m for m in self.modes], range(d)))

    def adjoint(self, b):
        """Return D Φ* b for rows b: (p, n)."""
        b = np.ascontiguousarray(b, dtype=complex)
        return self.d * self.nufft[0](*self.angles, b, self.modes, eps=self.eps, isign=-1)

    def values(self, beta):
        """Return Φ D β, (p, n)."""
        found = self.nufft[1](*self.angles, np.ascontiguousarray(self.d * beta), eps=self.eps, isign=1)
        return found.real.reshape(len(beta), -1)

    def product(self, beta):
        """Return (D T D + σ²I) β."""
        axes = range(1, beta.ndim)
        wide = ifftn(fftn(self.d * beta, self.fast, axes) * self.spectrum, axes=axes)
        return self.d * wide[(slice(None), *(slice(m) for m in self.modes))] + self.noise * beta

    def solve(self, b, reduction, most=5000):
        """Solve K̃ W = B for rows b: (p, n), until the mean residual is `reduction` times that of W = 0."""
        r = self.adjoint(b).reshape(len(b), *self.modes)
        beta, p, norms = np.zeros_like(r), r.copy(), np.linalg.norm(b, axis=1)
        axes = tuple(range(1, r.ndim))
        inner = lambda u, v: np.sum(u.conj() * v, axes, keepdims=True).real  # noqa: E731
        rho = inner(r, r)
        for k in itertools.count(1):
            q = self.product(p)
            alpha = rho / np.maximum(inner(p, q), 1e-300)
            beta, r = beta + alpha * p, r - alpha * q
            rho, before = inner(r, r), rho
            p = r + rho / np.maximum(before, 1e-300) * p
            if k >= most or (k % LOOK == 0 and self.is_near(r, norms, reduction)):
                return (b - self.values(beta)) / self.noise

    def is_near(self, r, norms, reduction):
        """Test whether the mean residual of K̃ W = B is small enough."""
        return (np.linalg.norm(self.values(r), axis=1) / self.noise / norms).mean() <= reduction


class EFGP:
    name, counts_work, most_inputs = "EFGP", False, 3

    def prepare(self, problem):
        if problem.x.shape[1] > self.most_inputs:
            raise ValueError(f"EFGP takes up to three inputs, not {problem.x.shape[1]}")
        self.problem, self.x = problem, problem.x / problem.lengthscale

    def solve(self, b, tol):
        p, norms, w, r = self.problem, np.linalg.norm(b, axis=0), np.zeros_like(b), b
        now = lambda: (np.linalg.norm(r, axis=0) / norms).mean()  # noqa: E731
        for error in ERRORS:
            try:
                series = Series(self.x, NU[p.kernel], p.outputscale, p.noise, error, b.shape[1])
            except MemoryError:
                if not w.any():
                    raise
                return w
            while True:
                before = now()
                found = w + series.solve(r.T, max(0.5 * tol / before, 1e-6)).T
                left = b - p.matmul(found)
                if (np.linalg.norm(left, axis=0) / norms).mean() < before:
                    w, r = found, left
                if now() <= tol:
                    return w
                if now() > 0.3 * before:  # the error of entries is too large
                    break
        return w
