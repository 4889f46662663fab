"""Solves of few points with every state kept, so that a picture shows what the solver did, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from apviz.method import Method
from apviz.methods import ALTERNATING_PROJECTION
from apviz.partitions import Partition, Partitioner
from apviz.rkhs.span import Floats, Span
from apviz.rules import Random, Shuffled
from apviz.rules import Rule as SelectionRule
from apviz.settings import require, require_whole
from apviz.solvers import AlternatingProjection, ConjugateGradient, Hook, Solver, attempt
from apviz.solvers.interface import Update
from apviz.solvers.run import Run
from apviz.system import KernelSystem, tensor_of

Rule = Literal["gauss-southwell", "cyclic", "random", "shuffled"]

#: a tolerance below what float64 reaches, so that the number of steps ends a solve
NEVER_REACHED = 1e-15


@dataclass(frozen=True, eq=False)
class Step:
    """State of a solve after an update.

    Args:
        number: of updates done; 0 is the state before the first.
        block: projected onto; −1 for none, or for all rows at once.
        weights: (n,) of the function s that has been built.
        residual: (n,) b − Kw, computed afresh.
        energy_decrease: ½‖change‖²_H, by which the update lowered h(w) = ½wᵀKw − bᵀw.
        decrease_per_block: (m,) by what each block would have lowered it in place of `block`; empty without blocks.
    """

    number: int
    block: int
    weights: Floats
    residual: Floats
    energy_decrease: float
    decrease_per_block: Floats


@dataclass(frozen=True, eq=False)
class Trajectory:
    """States of a solve of Kw = b, one after another.

    Args:
        span: the functions over the points, with K.
        b: (n,) data at the points.
        goal: (n,) the weights K⁻¹b of g.
        blocks: the points each block solves on, in the order of the points; none for CG.
        steps: the states, from the one before the first update.
        method: which solver.
    """

    span: Span
    b: Floats
    goal: Floats
    blocks: tuple[tuple[int, ...], ...]
    steps: tuple[Step, ...]
    method: Method

    def errors(self) -> Floats:
        """Norms (steps,) ‖s⁽ʲ⁾ − g‖_H of the residual function, which are ‖W−W*‖_K and never rise."""
        return np.array([self.span.norm(step.weights - self.goal) for step in self.steps])

    def residual_norms(self) -> Floats:
        """Euclidean norms (steps,) ‖b − Kw‖, which may rise."""
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
    partition: str | Partitioner = "sequential",
) -> Trajectory:
    """Solves Kw = b with `apviz.solve` in float64 and keeps every state.

    Args:
        b: (n,) data at the points.
        blocks: how many, of equal size but for the last.
        block_size: points a block owns, in place of the number of blocks.
        overlap, rule, partition: of `apviz.AlternatingProjection`; of CG without meaning.
        steps: updates, or iterations of CG; fewer where the solve is at its goal before.
        seed: of the random rules.
        method: alternating projection, or conjugate gradients.

    Raises:
        ValueError: more blocks than points, or larger ones; a setting the solver refuses.

    Examples:
        >>> x, b = apviz.rkhs.toy_problem("even", 24)
        >>> span = apviz.rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.01)
        >>> found = apviz.rkhs.trajectory(span, b, blocks=4, steps=5)
        >>> [step.block for step in found.steps]
        [-1, 1, 3, 2, 0, 3]
        >>> bool((np.diff(found.errors()) <= 0).all())
        True
    """
    b = tensor_of(b, "b").double().numpy()
    require(b.shape == (span.n,), "b", b.shape, f"({span.n},), one number a point")
    require_whole("blocks", blocks, 1, span.n)
    require_whole("steps", steps, 1)
    x, system_b = torch.as_tensor(span.x), torch.as_tensor(b)
    system = KernelSystem(
        x, system_b, span.kernel, noise=span.noise, operator="dense", dtype=torch.float64, device="cpu", seed=seed
    )
    if block_size is not None:
        require_whole("block_size", block_size, 1, span.n)
    size = block_size or -(-span.n // blocks)
    solver: Solver = ConjugateGradient(tol=NEVER_REACHED, max_epochs=steps)
    if method == "ap":
        count = -(-span.n // size)
        drawn: dict[str, str | SelectionRule] = {"random": Random(seed=seed), "shuffled": Shuffled(seed=seed)}
        solver = AlternatingProjection(
            block_size=size,
            rule=drawn.get(rule, rule),
            partition=partition,
            overlap=overlap,
            tol=NEVER_REACHED,
            max_epochs=-(-steps // count),
            history=0,
        )
    recorder = _StateRecorder(steps)
    attempt(system, solver, [recorder])
    sets = _solved_sets(recorder.partition)
    found = tuple(_steps(span, b, sets, recorder.states))
    return Trajectory(span, b, span.interpolant(b), sets, found, solver.method)


class _StateRecorder(Hook):
    """Copies the weights after every update, and the block; stops the solve when it has enough."""

    def __init__(self, steps: int) -> None:
        self.states: list[tuple[int, Floats]] = []
        self.partition: Partition | None = None
        self._steps = steps

    def on_start(self, run: Run) -> None:
        self._run, self.partition = run, run.partition
        self._copy(-1)

    def on_update(self, update: Update) -> None:
        if len(self.states) <= self._steps:
            self._copy(update.block)
        if len(self.states) > self._steps:
            self._run.request_stop("the trajectory has all its steps")

    def _copy(self, block: int) -> None:
        self.states.append((block, self._run.weights[:, 0].numpy().copy()))


def _solved_sets(partition: Partition | None) -> tuple[tuple[int, ...], ...]:
    if partition is None:
        return ()
    return tuple(tuple(partition.order[partition.solved(block)].tolist()) for block in range(len(partition)))


def _steps(span: Span, b: Floats, sets: tuple[tuple[int, ...], ...], states: list[tuple[int, Floats]]) -> list[Step]:
    weights = np.array([state for _, state in states])
    residuals = b - weights @ span.gram
    errors = np.linalg.norm((weights - span.interpolant(b)) @ span.factor, axis=1) ** 2
    per_block = _decrease_per_block(span, residuals[:-1], sets)
    first = Step(0, -1, weights[0], residuals[0], 0.0, np.zeros(0))
    return [first] + [
        Step(j, states[j][0], weights[j], residuals[j], 0.5 * (errors[j - 1] - errors[j]), per_block[j - 1])
        for j in range(1, len(states))
    ]


def _decrease_per_block(span: Span, residuals: Floats, sets: tuple[tuple[int, ...], ...]) -> Floats:
    """½r_IᵀK[I, I]⁻¹r_I of every block in every state: (steps, n) residuals to (steps, m)."""
    found = np.zeros((len(residuals), len(sets)))
    for block, rows in enumerate(map(list, sets)):
        factor = np.linalg.cholesky(span.gram[np.ix_(rows, rows)])
        found[:, block] = 0.5 * (np.linalg.solve(factor, residuals[:, rows].T) ** 2).sum(0)
    return found


@dataclass(frozen=True)
class GivenBlocks:
    """Partitioner whose block j solves on `sets[j]`; a point in several sets is owned by the first of them.

    Args:
        sets: points of every block, counted from 0; a point may be in several.

    Raises:
        ValueError: a point that no block holds, or that is none; a block all of whose points others own before.
    """

    sets: tuple[tuple[int, ...], ...]

    def __call__(self, inputs: Tensor, block_size: int, overlap: float) -> Partition:
        n = len(inputs)
        held = set().union(*map(set, self.sets))
        require(held == set(range(n)), "the blocks", self.sets, f"sets of points that hold all from 0 to {n - 1}")
        order: list[int] = []
        starts, margins = [0], []
        for block in self.sets:
            place = {point: stored for stored, point in enumerate(order)}
            margins.append(torch.tensor([place[point] for point in block if point in place], dtype=torch.long))
            owned = [point for point in block if point not in place]
            require(bool(owned), "a block", block, "a set with a point that no block before it holds")
            order += owned
            starts.append(len(order))
        shared = any(len(margin) for margin in margins)
        return Partition(torch.tensor(order), tuple(starts), tuple(margins) if shared else ())


def trajectory_on(
    span: Span,
    b: Floats,
    sets: Sequence[Sequence[int]],
    *,
    rule: Rule = "gauss-southwell",
    steps: int = 20,
    seed: int = 0,
) -> Trajectory:
    """Solves Kw = b over given blocks, which may share points, and keeps every state.

    Args:
        b: (n,) data at the points.
        sets: points of every block, counted from 0.
        rule, steps, seed: of `trajectory`.

    Raises:
        ValueError: sets that leave a point out, or with nothing of their own; what `trajectory` refuses.

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
    require(isinstance(sets, Sequence) and len(sets) > 0, "sets", sets, "sets of points, at least one")
    given = GivenBlocks(tuple(tuple(span.rows(block, "sets")) for block in sets))
    largest = max(len(block) for block in given.sets)
    found = trajectory(span, b, block_size=largest, rule=rule, steps=steps, seed=seed, partition=given)
    blocks = tuple(tuple(sorted(block)) for block in found.blocks)
    return replace(found, blocks=blocks, method=Method(family=ALTERNATING_PROJECTION, rule=rule))
