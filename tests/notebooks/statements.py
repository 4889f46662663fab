"""Texts of the notebooks, and textbook algebra that recomputes their statements."""

from __future__ import annotations

from pathlib import Path

import nbformat
import numpy as np
import scipy.linalg

ROOT = Path(__file__).resolve().parent.parent.parent
TWO = ("sequential", "kd-tree")


def notebook(number: str):
    (path,) = (ROOT / "notebooks").glob(f"{number}-*.ipynb")
    return nbformat.read(path, nbformat.NO_CONVERT)


def prose(number: str) -> str:
    """The text of a notebook, on one line."""
    return " ".join(" ".join(cell.source for cell in notebook(number).cells if cell.cell_type == "markdown").split())


def source_of(number: str, cell: str) -> str:
    return next(each.source for each in notebook(number).cells if each.id == cell)


def ran(number: str, *cells: str) -> dict:
    """The names that these cells of a notebook leave behind."""
    names: dict = {}
    sources = {cell.id: cell.source for cell in notebook(number).cells}
    for cell in cells:
        exec(compile(sources[cell], f"{number} {cell}", "exec"), names)
    return names


def matern52(x: np.ndarray, lengthscale, outputscale: float = 1.0) -> np.ndarray:
    q = np.sqrt(5) * np.linalg.norm((x[:, None] - x[None]) / np.asarray(lengthscale), axis=-1)
    return outputscale * (1 + q + q**2 / 3) * np.exp(-q)


def cg(K: np.ndarray, b: np.ndarray, iterations: int) -> list[np.ndarray]:
    """The iterates, from 0."""
    w, r = np.zeros_like(b), b.copy()
    p, found = r, [w]
    for _ in range(iterations):
        step = (r @ r) / (p @ K @ p)
        w, new = w + step * p, r - step * (K @ p)
        p, r = new + (new @ new) / (r @ r) * p, new
        found.append(w)
    return found


def best_of(space: np.ndarray, K: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The vector of the space that is nearest to K⁻¹b in the norm of K."""
    q, _ = np.linalg.qr(space)
    return q @ np.linalg.solve(q.T @ K @ q, q.T @ b)


def cosine_of_blocks(factor: np.ndarray, one, other) -> float:
    return float(np.cos(scipy.linalg.subspace_angles(factor[list(one)].T, factor[list(other)].T)[-1]))


def sweep(K: np.ndarray, b: np.ndarray, w: np.ndarray, blocks) -> np.ndarray:
    for rows in blocks:
        w = w.copy()
        w[rows] += np.linalg.solve(K[np.ix_(rows, rows)], b[rows] - K[rows] @ w)
    return w


def friedrichs(one: np.ndarray, other: np.ndarray) -> float:
    """The cosine of the smallest angle between two column spaces that is not zero."""
    q, p = scipy.linalg.orth(one), scipy.linalg.orth(other)
    return max(c for c in np.linalg.svd(q.T @ p, compute_uv=False) if c < 1 - 1e-9)
