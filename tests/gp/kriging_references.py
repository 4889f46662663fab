"""Predictions of PyKrige and GSTools on 1,000 rows, as kept in `kriging_references.json`.

`python -m tests.gp.kriging_references` writes the file, where both packages are installed. Rows and variograms are
arithmetic, so that the file holds predictions only. Each case names the words of its package.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("kriging_references.json")
ROWS, POINTS = 1_000, 8
#: known mean of simple kriging
MEAN = 3.0
SIDE = 1_000.0


@dataclass(frozen=True)
class Case:
    """One kriging problem: a model in the words of a package, and what a package predicts."""

    package: str
    model: str
    numbers: dict[str, Any]
    drift: str | None = "constant"
    d: int = 2


GSTOOLS = {"var": 1.9, "len_scale": 220.0, "nugget": 0.1}
PYKRIGE = {"psill": 1.9, "range": 600.0, "nugget": 0.1}
CASES = {
    "simple exponential": Case("gstools", "Exponential", GSTOOLS, None),
    "ordinary Matern-3/2": Case("gstools", "Matern", GSTOOLS | {"nu": 1.5}),
    "linear drift, Matern-5/2, rotated": Case(
        "gstools", "Matern", GSTOOLS | {"nu": 2.5, "anis": 0.4, "angles": 0.6}, "linear"
    ),
    "quadratic drift, Gaussian": Case("gstools", "Gaussian", GSTOOLS, "quadratic"),
    "ordinary in 3-d, rotated": Case(
        "gstools", "Exponential", GSTOOLS | {"anis": [0.5, 0.3], "angles": [0.4, -0.7, 1.1]}, d=3
    ),
    "ordinary by latitude and longitude": Case(
        "gstools", "Matern", GSTOOLS | {"nu": 1.5, "len_scale": 2_000.0, "latlon": True, "geo_scale": 6371.0}
    ),
    "ordinary exponential of PyKrige, rotated": Case(
        "pykrige", "exponential", PYKRIGE | {"anisotropy_scaling": 2.5, "anisotropy_angle": 35.0}
    ),
    "ordinary spherical": Case("gstools", "Spherical", GSTOOLS),
    "linear drift, spherical of PyKrige": Case("pykrige", "spherical", PYKRIGE, "linear"),
    "linear drift, Gaussian of PyKrige": Case("pykrige", "gaussian", PYKRIGE, "linear"),
    "ordinary in 3-d of PyKrige, rotated": Case(
        "pykrige", "exponential",
        PYKRIGE | {
            "anisotropy_scaling_y": 2.0, "anisotropy_scaling_z": 3.0, "anisotropy_angle_x": 25.0,
            "anisotropy_angle_y": -40.0, "anisotropy_angle_z": 60.0,
        },
        d=3,
    ),
}  # fmt: skip


def places(count: int, d: int, start: int = 0) -> np.ndarray:
    """Return points of a square or cube by Roberts's low-discrepancy sequence, (count, d)."""
    root = {2: 1.3247179572447460, 3: 1.2207440846057596}[d]
    steps = root ** -np.arange(1.0, d + 1)
    return SIDE * ((0.5 + np.outer(np.arange(start, start + count) + 1.0, steps)) % 1.0)


def problem(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows, their targets, and points to predict, one of them outside."""
    x = places(ROWS, case.d)
    y = MEAN + 0.002 * x[:, 0] + np.sin(x[:, 0] / 90) * np.cos(x[:, 1] / 70) + 0.3 * np.sin(977.0 * x.sum(1))
    z = places(POINTS, case.d, start=5_000)
    z[-1] = 1.3 * SIDE
    if case.numbers.get("latlon"):
        x, z = degrees(x), degrees(z)
    return x, y, z


def degrees(x: np.ndarray) -> np.ndarray:
    """Return latitude and longitude of points of the square."""
    return (x / SIDE - 0.5) * (100.0, 220.0)


def of_gstools(case: Case) -> tuple[np.ndarray, np.ndarray]:
    import gstools

    x, y, z = problem(case)
    size = {} if "latlon" in case.numbers else {"dim": case.d}
    model = getattr(gstools, case.model)(**size, **case.numbers)
    settings: dict[str, Any] = {"unbiased": case.drift is not None, "pseudo_inv": False}
    if case.drift is None:
        settings["mean"] = MEAN
    elif case.drift != "constant":
        settings["drift_functions"] = case.drift
    kriging = gstools.krige.Krige(model, x.T, y, **settings)
    mean, variance = kriging(z.T)
    return np.asarray(mean), np.asarray(variance)


def kriging_of_pykrige(case: Case, rows: int = ROWS) -> Any:
    import pykrige

    x, y = (each[:rows] for each in problem(case)[:2])
    names = ("psill", "range", "nugget")
    # a dictionary: the first number of a list would be the sill, nugget included
    parameters = {name: case.numbers[name] for name in names}
    others = {name: value for name, value in case.numbers.items() if name not in names}
    if case.drift == "linear":
        others["drift_terms"] = ["regional_linear"]
    kind: Callable[..., Any] = {
        (2, "constant"): pykrige.OrdinaryKriging, (2, "linear"): pykrige.UniversalKriging,
        (3, "constant"): pykrige.OrdinaryKriging3D,
    }[case.d, str(case.drift)]  # fmt: skip
    return kind(*x.T, y, variogram_model=case.model, variogram_parameters=parameters, **others)


def of_pykrige(case: Case) -> tuple[np.ndarray, np.ndarray]:
    _, _, z = problem(case)
    mean, variance = kriging_of_pykrige(case).execute("points", *z.T)
    return np.asarray(mean), np.asarray(variance)


def computed(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return means and variances by the package of a case."""
    return of_gstools(case) if case.package == "gstools" else of_pykrige(case)


def main() -> None:
    found = {name: [values.tolist() for values in computed(case)] for name, case in CASES.items()}
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
