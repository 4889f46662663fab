"""The room uses NumPy alone, and its results agree with the solvers, partitions, rules and kernels."""

from __future__ import annotations

import subprocess
import sys
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

import apviz
from apviz import rules
from apviz.kernels import KERNELS, kernel_named
from apviz.partitions import partitioner_named
from apviz.rkhs import Span, blocks_of, trajectory
from apviz.rkhs.blocks import blocks_with_margins
from apviz.rkhs.rules import chosen_blocks

ROOT = Path(__file__).resolve().parent.parent.parent


def test_importing_the_room_loads_none_of_the_large_libraries():
    code = "import sys, apviz.rkhs; print(*{'torch', 'xarray', 'pandas', 'zarr', 'scipy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_the_notebook_for_the_browser_runs_where_numpy_is_the_only_large_library():
    runner, notebook = ROOT / "tests/notebooks/run_in_numpy.py", ROOT / "notebooks/lite/files/angles.ipynb"
    run = subprocess.run([sys.executable, str(runner), str(notebook)], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0 and run.stdout.count("<svg") == 2, run.stderr
    x = np.linspace(0, 1, 24)
    distance = np.sqrt(5) * np.abs(x[:, None] - x) / 0.2
    K = (1 + distance + distance**2 / 3) * np.exp(-distance) + 0.1 * np.eye(24)
    for name, one in (("neighbours", np.arange(12)), ("scattered", np.arange(0, 24, 2))):
        other = np.setdiff1d(np.arange(24), one)
        roots = [np.linalg.inv(np.linalg.cholesky(K[np.ix_(rows, rows)])) for rows in (one, other)]
        cosine = np.linalg.norm(roots[0] @ K[np.ix_(one, other)] @ roots[1].T, 2)
        assert f"a sweep leaves {cosine**2:.1%}" in next(line for line in run.stdout.splitlines() if name in line)


def system(n: int = 40, d: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    x = draws.uniform(-1, 1, (n, d))
    return x, np.sin(4 * x[:, 0]) + 0.1 * draws.standard_normal(n)


class States(apviz.Hook):
    """Keeps the block and the weights after every update."""

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.weights: list[np.ndarray] = []

    def on_start(self, run):
        self._run = run

    def on_update(self, update):
        self.blocks.append(update.block)
        self.weights.append(self._run.weights[:, 0].numpy().copy())


def solved(x, b, kernel, solver) -> States:
    states = States()
    system = apviz.KernelSystem(x, b, kernel, noise=0.05, operator="dense", dtype=torch.float64, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", apviz.NotConverged)
        apviz.solve(system, solver, hooks=[states])
    return states


@pytest.mark.parametrize("rule", ["gauss-southwell", "cyclic", "random", "shuffled"])
@pytest.mark.parametrize("overlap", [0.0, 0.5])
@pytest.mark.parametrize("partition", ["sequential", "shuffled", "kd-tree"])
def test_every_state_equals_that_of_a_solve(rule, overlap, partition):
    (x, b), kernel = system(), apviz.Matern32(lengthscale=(0.4, 0.9), outputscale=1.5)
    chosen = {"random": rules.Random(seed=3), "shuffled": rules.Shuffled(seed=3)}.get(rule, rule)
    solver = apviz.AlternatingProjection(
        block_size=9, rule=chosen, partition=partitioner_named(partition, overlap=overlap), tol=1e-14, max_epochs=4
    )
    states = solved(x, b, kernel, solver)
    found = trajectory(
        Span(x, kernel, 0.05), b, block_size=9, rule=rule, overlap=overlap, partition=partition, steps=20, seed=3
    )
    assert found.method.name == solver.method.name
    count = min(20, len(states.blocks))  # fewer for a solve that converges earlier
    assert count > 12 and [step.block for step in found.steps[1 : count + 1]] == states.blocks[:count]
    weights = [step.weights for step in found.steps[1 : count + 1]]
    np.testing.assert_allclose(weights, states.weights[:count], atol=1e-10)


def test_every_iterate_of_cg_equals_that_of_a_solve():
    (x, b), kernel = system(), apviz.RBF(lengthscale=0.5)
    states = solved(x, b, kernel, apviz.ConjugateGradient(tol=1e-14, max_epochs=8))
    found = trajectory(Span(x, kernel, 0.05), b, method="cg", steps=8)
    np.testing.assert_allclose([step.weights for step in found.steps[1:]], states.weights[:8], atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_a_closed_form_equals_the_kernel_of_the_library(name):
    (x, _), (z, w) = system(), system(7, seed=1)
    kernel = kernel_named(name, (0.3, 0.8), 1.7, **({"alpha": 0.7} if name == "rational-quadratic" else {}))
    span = Span(x, kernel, 0.05)
    np.testing.assert_allclose(span.gram, kernel(torch.as_tensor(x)).numpy() + 0.05 * np.eye(40), atol=1e-13)
    weights = np.resize(w, 40)
    expected = kernel(torch.as_tensor(z), torch.as_tensor(x)).numpy() @ weights
    np.testing.assert_allclose(span.values(weights, z), expected, atol=1e-12)


def test_a_function_of_arrays_can_be_a_kernel():
    x, _ = system(6)
    np.testing.assert_allclose(Span(x, lambda x, z: x @ z.T, 0.1).gram, x @ x.T + 0.1 * np.eye(6))


@pytest.mark.parametrize("partition", ["sequential", "shuffled", "kd-tree"])
@pytest.mark.parametrize("seed", range(8))
def test_blocks_equal_those_of_the_partitions(partition, seed):
    n, d = 20 + 17 * seed, 1 + seed % 4
    x, _ = system(n, d, seed)
    kernel = apviz.Matern52(lengthscale=tuple(0.2 + 0.3 * np.arange(d)))
    for size in (1, 7, 25, n):
        wanted = partitioner_named(partition)(kernel.features(torch.as_tensor(x)), size)
        owned = tuple(tuple(wanted.order[wanted.owned(j)].tolist()) for j in range(len(wanted)))
        assert blocks_of(Span(x, kernel, 0.1), size, partition) == owned


def test_the_margin_of_a_block_equals_that_of_the_partitions():
    x, _ = system(60, 2, 5)
    kernel = apviz.Matern52(lengthscale=0.4)
    wanted = partitioner_named("sequential", overlap=0.75)(kernel.features(torch.as_tensor(x)), 8)
    found = blocks_with_margins(Span(x, kernel, 0.1), 8, "sequential", 0.75)
    assert found.solved == tuple(tuple(wanted.order[wanted.solved(j)].tolist()) for j in range(len(wanted)))


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32 - 1, 2**40 + 7])
@pytest.mark.parametrize("blocks", [1, 2, 13, 100])
def test_random_rules_draw_the_same_blocks_as_those_of_the_solvers(seed, blocks):
    for rule in (rules.Random(seed=seed), rules.Shuffled(seed=seed)):
        select = rule.begin([1] * blocks)
        wanted = [select(number, torch.zeros(blocks, 1)) for number in range(250)]
        assert list(islice(chosen_blocks(rule.name, blocks, seed), 250)) == wanted
