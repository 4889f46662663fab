"""Compare HiGP's AFN-preconditioned CG with `Automatic` on HiGP's Rastrigin problems (arXiv:2503.02259), on one core.

Latin hypercubes of [-5.12, 5.12]^d, d = 20 and 2, noise of 0.01, everything standardised, Matern-3/2, one right-hand
side, to 0.01, as in its repository's `test02_rastrigin_matern32`. Twice each: with the hyperparameters its training
begins from, and with those of a fit. Cells are the leaderboard's: processor seconds of one thread, residuals by SciPy.

    pip install higp
    python -m benchmarks.higp [--n 30000] [--limit 300] [--within SECONDS] [--again]

Existing results are not measured again; other sizes are added to them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from importlib import metadata
from typing import Any

import numpy as np
import torch
from scipy.stats import qmc

from benchmarks.leaderboard.cells import measure
from benchmarks.leaderboard.entrants import HIGP, has_higp
from benchmarks.leaderboard.systems import Given
from benchmarks.machine import RESULTS, describe, keep

N, LIMIT, TOL = 30_000, 300.0, 1e-2
METHODS = {"auto": "auto", "HiGP": HIGP}
EDGE, NOISE = 5.12, 0.01
#: lengthscale, outputscale f^2, noise: softplus(0) each, where HiGP begins; and by scikit-learn on 2,000 rows (1,000 of
#: 20 inputs), but for the noise at d = 2, of which the fit wants less than 1e-7 and float32 can hold no such thing
BEGIN = math.log(2)
HYPERPARAMETERS = {
    (20, "its beginning"): (BEGIN, BEGIN**2, BEGIN),
    (20, "fitted"): (39.6, 10.2**2, 0.375),
    (2, "its beginning"): (BEGIN, BEGIN**2, BEGIN),
    (2, "fitted"): (0.526, 3.14**2, 1e-4),
}


def rastrigin(n: int, d: int, lengthscale: float, outputscale: float, noise: float, seed: int = 0) -> Given:
    """Return the system of the function at n points, (n, 1)."""
    x = (2 * qmc.LatinHypercube(d=d, seed=seed).random(n) - 1) * EDGE
    y = 10 * d + (x**2 - 10 * np.cos(2 * np.pi * x)).sum(1) + NOISE * np.random.default_rng(seed).normal(size=n)
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    return Given(x, y[:, None], "matern32", np.full(d, lengthscale), outputscale, noise, seed)


def measured() -> list[dict[str, Any]]:
    """Return the rows of the file of results."""
    path = RESULTS / "higp.json"
    return list(json.loads(path.read_text())["results"]["rows"]) if path.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--limit", type=float, default=LIMIT, help="processor seconds of a solve")
    parser.add_argument("--within", type=float, default=math.inf, help="seconds after which no solve is begun")
    parser.add_argument("--again", action="store_true", help="run existing cells again too")
    asked = parser.parse_args()
    if not has_higp():
        print("HiGP is not installed, and this part is left out: pip install higp", file=sys.stderr)
        return 0
    torch.set_num_threads(1)
    machine = describe() | {"threads": 1}
    machine["versions"]["higp"] = metadata.version("higp")
    rows, began = [] if asked.again else measured(), time.monotonic()
    done = {(row["d"], row["hyperparameters"], row["method"], row["rows"]) for row in rows}
    for (d, which), (lengthscale, outputscale, noise) in HYPERPARAMETERS.items():
        given = rastrigin(asked.n, d, lengthscale, outputscale, noise)
        for method, entrant in METHODS.items():
            if (d, which, method, asked.n) in done:
                continue
            if time.monotonic() - began > asked.within:
                print("time is up; run it again to continue")
                return 0
            cell = measure(entrant, given, asked.n, 0, asked.limit, tolerances=[TOL])
            row = {"d": d, "hyperparameters": which, "method": method, "noise": noise}
            rows.append(row | {"lengthscale": lengthscale, "outputscale": outputscale} | cell)
            keep("higp", {"tol": TOL, "rows": rows}, machine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
