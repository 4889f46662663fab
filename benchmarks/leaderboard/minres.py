"""An outside solver: SciPy's MINRES, one right-hand side after another."""

import numpy as np
from scipy.sparse.linalg import LinearOperator, minres


class Minres:
    name = "SciPy's MINRES"

    def prepare(self, problem):
        n = len(problem.x)
        self.k = LinearOperator((n, n), matvec=problem.matmul, dtype=np.float64)

    def solve(self, b, tol):
        # it stops on an estimate of ‖r‖ / (‖K‖‖w‖), smaller than ‖r‖/‖b‖: tighten it until ‖r‖/‖b‖ is met
        found = np.zeros_like(b)
        for column in range(b.shape[1]):
            inner, norm = tol, np.linalg.norm(b[:, column])
            while np.linalg.norm(b[:, column] - self.k @ found[:, column]) > tol * norm and inner > 1e-15:
                found[:, column], _ = minres(self.k, b[:, column], x0=found[:, column], rtol=inner, maxiter=20_000)
                inner /= 10
        return found
