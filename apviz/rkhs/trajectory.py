"""Solves on few points that keep every state: Algorithm 1 of the paper and CG, in dense float64 algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal

import numpy as np

from apviz.method import PLAIN_CG, Method
from apviz.methods import ALTERNATING_PROJECTION
from apviz.rkhs.blocks import Blocks, Points, blocks_with_margins, given_blocks
from apviz.rkhs.kernels import Floats, array_of, require_one_of
from apviz.rkhs.rules import Rule, selector
from apviz.rkhs.span import Span
from apviz.settings import require, require_whole

#: ‖r‖/‖b‖ at which a solve ends, because the rest is rounding
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class Step:
    """State of a solve after an update.

    Args:
        number: number of updates done; 0 is the state before the first.
        block: the block of the update; −1 for none, or for all rows at once.
        weights: (n,) weights of the current function s.
        residual: (n,) b − Kw, computed from w.
        energy_decrease: ½‖change‖²_H, the decrease of h(w) = ½wᵀKw − bᵀw.
        decrease_per_block: (m,) decrease that each block would have given instead of `block`; empty without blocks.
    """

    number: int
    block: int
    weights: Floats
    residual: Floats
    energy_decrease: float
    decrease_per_block: Floats


@dataclass(frozen=True, eq=False)
class Trajectory:
    """States of a solve of Kw = b.

    Args:
        span: the functions over the points, with K.
        b: (n,) data at the points.
        goal: (n,) the weights K⁻¹b of g.
        blocks: the points each block solves on; none for CG.
        steps: the states, from the one before the first update.
        method: which solver.
    """

    span: Span
    b: Floats
    goal: Floats
    blocks: tuple[Points, ...]
    steps: tuple[Step, ...]
    method: Method

    def errors(self) -> Floats:
        """Compute the norms (steps,) ‖s⁽ʲ⁾ − g‖_H of the residual function, which are ‖W−W*‖_K and never rise."""
        return np.array([self.span.norm(step.weights - self.goal) for step in self.steps])

    def residual_norms(self) -> Floats:
        """Compute the Euclidean norms (steps,) ‖b − Kw‖, which may rise."""
        return np.array([np.linalg.norm(step.residual) for step in self.steps])


def trajectory(
    span: Span,
    b: Floats,
    *,
    blocks: int = 2,
    block_size: int | None = None,
    overlap: float = 0.0,
    rule: Rule = "gauss-southwell",
    steps: int = 20,
    seed: int = 0,
    method: Literal["ap", "cg"] = "ap",
    partition: str = "sequential",
) -> Trajectory:
    """Solve Kw = b by alternating projection or CG, and keep every state.

    Args:
        b: (n,) data at the points.
        blocks: number of blocks, of equal size except the last.
        block_size: points a block owns, instead of the number of blocks.
        overlap: size of a block's margin, as a fraction of the points it owns.
        rule: which block is next.
        steps: number of updates, or of CG iterations; fewer if the residual reaches rounding earlier.
        seed: seed of the random rules.
        method: alternating projection, or conjugate gradients.
        partition: of `blocks_of`.

    Raises:
        ValueError: an unknown method, rule or partition, a size or a number below 1, or b of another shape.

    Examples:
        >>> x, b = apviz.rkhs.toy_problem("even", 24)
        >>> span = apviz.rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.01)
        >>> found = apviz.rkhs.trajectory(span, b, blocks=4, steps=5)
        >>> [step.block for step in found.steps]
        [-1, 1, 3, 2, 0, 3]
        >>> bool((np.diff(found.errors()) <= 0).all())
        True
    """
    require_one_of(method, "method", ("ap", "cg"))
    require_whole("blocks", blocks, 1, span.n)
    if method == "cg":
        return _kept(span, b, steps, (), PLAIN_CG, _conjugate_gradients)
    if block_size is not None:
        require_whole("block_size", block_size, 1, span.n)
    size = block_size or -(-span.n // blocks)
    solver = Method(family=ALTERNATING_PROJECTION, rule=rule, partition=partition, block_size=size, overlap=overlap)
    return solve_over(span, b, blocks_with_margins(span, size, partition, overlap), solver, steps, seed)


def trajectory_on(
    span: Span,
    b: Floats,
    sets: Sequence[Sequence[int]],
    *,
    rule: Rule = "gauss-southwell",
    steps: int = 20,
    seed: int = 0,
) -> Trajectory:
    """Solve Kw = b over given blocks, which may share points, and keep every state.

    Args:
        b: (n,) data at the points.
        sets: points of every block, counted from 0; a point of several sets is owned by the first of them.
        rule, steps, seed: of `trajectory`.

    Examples:
        An update leaves zeros on its block, whose points 0 and 1 come first, and disturbs the others:

        >>> span = apviz.rkhs.Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.5), noise=0.01)
        >>> b = np.array([1.0, -0.3, 0.6])
        >>> found = apviz.rkhs.trajectory_on(span, b, [(0, 1), (1, 2)], rule="cyclic", steps=2)
        >>> found.steps[1].residual.round(3) + 0.0
        array([0.   , 0.   , 1.276])
        >>> found.steps[2].residual.round(3) + 0.0
        array([0.357, 0.   , 0.   ])
    """
    solver = Method(family=ALTERNATING_PROJECTION, rule=rule)
    return solve_over(span, b, given_blocks(span, sets), solver, steps, seed)


def solve_over(span: Span, b: Floats, blocks: Blocks, method: Method, steps: int, seed: int = 0) -> Trajectory:
    """Solve Kw = b by alternating projection over blocks, by the rule of the method, and keep every state."""
    select = selector(method.rule, blocks.owned, seed)
    return _kept(span, b, steps, blocks.solved, method, partial(_projections, blocks.solved, select))


def _projections(
    blocks: tuple[Points, ...], select: Callable[[Floats], int], gram: Floats, b: Floats
) -> Iterator[tuple[int, Floats]]:
    """Run Algorithm 1 of the paper from w = 0, and yield the block and w: (n,) after every update."""
    w, r = np.zeros_like(b), b.copy()
    while np.linalg.norm(r) > ROUNDING * np.linalg.norm(b):
        block = select(r)
        rows = list(blocks[block])
        u = np.linalg.solve(gram[np.ix_(rows, rows)], r[rows])
        w[rows] += u
        r -= gram[:, rows] @ u
        yield block, w.copy()


def _conjugate_gradients(gram: Floats, b: Floats) -> Iterator[tuple[int, Floats]]:
    """Run CG from w = 0 (Hestenes & Stiefel 1952), and yield −1 and w: (n,) after every iteration."""
    w, r, p = np.zeros_like(b), b.copy(), b.copy()
    while np.linalg.norm(r) > ROUNDING * np.linalg.norm(b):
        product, before = gram @ p, r @ r
        step = before / (p @ product)
        w += step * p
        r -= step * product
        p = r + (r @ r) / before * p
        yield -1, w.copy()


def _kept(
    span: Span, b: Floats, steps: int, blocks: tuple[Points, ...], method: Method,
    solve: Callable[[Floats, Floats], Iterator[tuple[int, Floats]]],
) -> Trajectory:  # fmt: skip
    """Run a solver for at most `steps` updates, and build the trajectory from its weights."""
    b = array_of(b, "b")
    require(b.shape == (span.n,), "b", b.shape, f"({span.n},), one number a point")
    require_whole("steps", steps, 1)
    states = [(-1, np.zeros(span.n)), *islice(solve(span.gram, b), steps)]
    weights, goal = np.array([w for _, w in states]), span.interpolant(b)
    residuals = b - weights @ span.gram
    energies = 0.5 * np.linalg.norm((weights - goal) @ span.factor, axis=1) ** 2
    decreases, per_block = -np.diff(energies), _decrease_per_block(span, residuals[:-1], blocks)
    found = [Step(0, -1, weights[0], residuals[0], 0.0, np.zeros(0))]
    for j, (block, w) in enumerate(states[1:]):
        found.append(Step(j + 1, block, w, residuals[j + 1], float(decreases[j]), per_block[j]))
    return Trajectory(span, b, goal, blocks, tuple(found), method)


def _decrease_per_block(span: Span, residuals: Floats, blocks: tuple[Points, ...]) -> Floats:
    """Compute ½r_IᵀK[I, I]⁻¹r_I of every block in every state: (steps, n) residuals to (steps, m)."""
    found = np.zeros((len(residuals), len(blocks)))
    for block, rows in enumerate(map(list, blocks)):
        factor = np.linalg.cholesky(span.gram[np.ix_(rows, rows)])
        found[:, block] = 0.5 * (np.linalg.solve(factor, residuals[:, rows].T) ** 2).sum(0)
    return found
