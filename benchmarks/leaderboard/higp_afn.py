"""An outside solver: HiGP's products with K and its AFN preconditioner, in C++ (arXiv:2503.02259).

`pip install higp`. Its own solver gives predictions and no weights, so CG is written here, around its
`krnlmat.matmul` and `precond.matmul`; the lengthscale is one number there, so inputs are divided by theirs before. In
float64 its products are NaN where there are more than three inputs (2025.11.3): so CG is in float32, as its authors
use it, and residuals are recomputed by `problem.matmul` in float64.
"""

import contextlib
import os

import numpy as np

KINDS = {"rbf": 1, "matern32": 2, "matern52": 3}
# the most inputs of its hierarchical matrices
H2_INPUTS = 3
# rank as in its authors' predictions; tolerance of the hierarchical matrix, its default
RANK, H2_TOL = 100, 1e-8
# how far float32 takes a residual before it is recomputed, and how often at most
SINGLE, RESTARTS = 1e-4, 8


@contextlib.contextmanager
def silence():
    """Suppress the standard output, on which its C++ writes a line for every step."""
    kept = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


class AFN:
    name = "HiGP: CG, AFN 100"
    counts_work = False

    def prepare(self, problem):
        if problem.kernel not in KINDS:
            raise ValueError(f"HiGP has no kernel {problem.kernel}, only {', '.join(KINDS)}")
        self.problem = problem

    def solve(self, b, tol):
        import higp_cext

        p = self.problem
        x = np.ascontiguousarray((p.x / p.lengthscale).T, dtype=np.float32)
        same = {"data": x, "kernel_type": KINDS[p.kernel], "l": 1.0, "f": p.outputscale**0.5, "s": p.noise}
        norms, w, r = np.linalg.norm(b, axis=0), np.zeros_like(b), b
        with silence():
            k = higp_cext.krnlmat.setup(**same, use_h2=int(len(x) <= H2_INPUTS), h2_tol=H2_TOL, seed=p.seed)
            m = higp_cext.precond.setup_afn(**same, rank=RANK, lfil=0, seed=p.seed)
            for _ in range(RESTARTS):
                relative = (np.linalg.norm(r, axis=0) / norms).mean()
                if relative <= tol:
                    break
                aim = max(SINGLE, 0.9 * tol / relative)
                w = w + conjugate_gradients(k, m, (r / norms).T.astype(np.float32), aim).T * norms
                r = b - p.matmul(w)
            del k, m
        return w


def conjugate_gradients(k, m, b, reduction):
    """Solve by CG, rows being right-hand sides, until the mean residual is `reduction` times the initial one."""

    def by(matrix, v):
        # the numbers are in the order of v, whatever the shape that is said
        return matrix.matmul(np.ascontiguousarray(v)).reshape(v.shape)

    def dot(u, v):
        return np.einsum("ij,ij->i", u, v)[:, None]

    w, r = np.zeros_like(b), b
    p = z = by(m, r)
    rho, aim = dot(r, z), reduction * np.sqrt(dot(b, b)).mean()
    while np.sqrt(dot(r, r)).mean() > aim:
        q = by(k, p)
        curvature = dot(p, q)
        if not (curvature > 0).all():  # rounding, or not a number
            break
        alpha = rho / curvature
        w, r = w + alpha * p, r - alpha * q
        z = by(m, r)
        rho, before = dot(r, z), rho
        p = z + rho / before * p
    return w
