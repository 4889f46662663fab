"""Refinement: exact residuals outside, float32 or skeletons inside, against dense float64 linear algebra."""

import json

import numpy as np
import pytest
import torch

import apviz
import apviz.solvers.blocks as prepared_blocks
from apviz.comparison import build_system, choose_hyperparameters
from apviz.partitions import KDTree
from apviz.skeletons import Suggestion
from apviz.solvers import Exact, Hook, Precision, Skeletons, Subspace, attempt, recommended
from tests.device import DEVICE


def problem(n=600, d=2, columns=2, noise=0.05, lengthscale=0.5, dtype=torch.float32, seed=0, operator="tiled"):
    """Return a system, and a function of W: the mean of ‖B − KW‖/‖B‖ over columns by dense float64 algebra."""
    rng = np.random.default_rng(seed)
    x, b = rng.uniform(-1, 1, (n, d)), rng.standard_normal((n, columns))
    system = apviz.KernelSystem(
        x, b, apviz.Matern52(lengthscale=lengthscale), noise=noise, operator=operator, dtype=dtype, device=DEVICE
    )
    r = np.sqrt(5) * np.linalg.norm((x[:, None] - x[None]) / lengthscale, axis=2)
    k = (1 + r + r**2 / 3) * np.exp(-r) + noise * np.eye(n)

    def residual(w):
        return float(np.mean(np.linalg.norm(b - k @ np.asarray(w), axis=0) / np.linalg.norm(b, axis=0)))

    return system, residual


def blocks(**settings):
    given = {
        "block_size": 60, "partition": KDTree(overlap=0.5), "step": Subspace(length=8),
        "columns": Skeletons(rank=20),
    }  # fmt: skip
    return apviz.AlternatingProjection(**{**given, **settings})


class Passes(Hook):
    """Keeps the passes and the end of a solve."""

    def __init__(self):
        self.found, self.epochs = [], []

    def on_pass(self, found):
        self.found.append(found)

    def on_epoch(self, epoch):
        self.epochs.append(epoch)


SOLVERS = [
    blocks(),
    blocks(columns="exact"),
    blocks(rule="cyclic"),
    blocks(step="plain"),
    apviz.AlternatingProjection(block_size=1000),
    apviz.ConjugateGradient(),
    apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=50)),
    apviz.ConjugateGradient(preconditioner=apviz.TwoLevelSchwarz(block_size=100, coarse_rank=30)),
    apviz.Cholesky(),
]


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)
def test_a_system_in_float32_is_solved_to_any_tolerance(solver, tol):
    system, residual = problem()
    system.operator.prepare()  # torch's tiles round B − KW by 1e-14, which is 2e-6 of the smallest residual here
    solution = attempt(system, type(solver)(**{**vars(solver), "tol": tol}))
    assert solution.converged and solution.weights.dtype == torch.float64
    assert residual(solution.weights) < tol * (1 + 1e-6)
    true = residual(solution.weights)
    # float64 rounds both by about 1e-14, and a bound on that is added to the one that is reported
    assert true * (1 - 1e-6) - 1e-14 <= solution.residual <= true * (1 + 1e-6) + 1e-10


@pytest.mark.parametrize("noise", [1e-3, 1e-5])
def test_float32_inside_a_system_in_float64_is_as_accurate_as_float64(noise):
    system, residual = problem(dtype=torch.float64, noise=noise, lengthscale=0.2)
    solution = attempt(system, blocks(precision="float32", columns="exact", tol=1e-8, partition=KDTree(overlap=1.0)))
    assert solution.converged and residual(solution.weights) < 1e-8


@pytest.mark.parametrize(("noise", "history"), [(0.05, 0), (1e-3, 8)])
@pytest.mark.parametrize("skeleton_rank", [0, 20])
def test_factors_in_half_precision_give_equally_accurate_solutions(noise, history, skeleton_rank):
    system, residual = problem(dtype=torch.float32, noise=noise, lengthscale=0.2)
    columns = Skeletons(rank=skeleton_rank) if skeleton_rank else Exact()
    step = Subspace(length=history) if history else "plain"
    solver = blocks(
        precision=Precision(factors="float16"), columns=columns, step=step, tol=1e-8, partition=KDTree(overlap=1.0)
    )
    solution = attempt(system, solver)
    assert solution.converged and residual(solution.weights) < 1e-8


def test_passes_report_their_residual_and_only_those_in_float64_claim_convergence():
    system, residual = problem(n=1500, lengthscale=0.3)
    for tol in (1e-2, 1e-4):
        seen = Passes()
        solution = attempt(system, blocks(tol=tol, columns=Skeletons(rank=10)), [seen])
        *before, last = seen.found
        assert solution.converged and last.is_exact and last.residual == solution.residual < tol
        assert residual(solution.weights) == pytest.approx(last.residual, rel=1e-4)
        assert all(not found.is_exact or found.residual >= tol for found in before)
        assert [found.number for found in seen.found] == list(range(1, len(seen.found) + 1))
        for found in seen.found:  # the drift explains how far the recursion was off
            assert abs(found.residual - found.claimed) < 2 * found.drift + 1e-6
        checked = [epoch.checked_residual for epoch in seen.epochs if np.isfinite(epoch.checked_residual)]
        assert checked == [found.residual for found in seen.found]


def test_the_energy_after_a_pass_equals_h_of_the_weights():
    system, _ = problem(n=1500, lengthscale=0.3, dtype=torch.float64)
    k = np.asarray(system.operator.block(slice(0, 1500)))
    b = system.b.numpy()

    class Energies(Passes):
        def on_start(self, run):
            self.run = run

        def on_epoch(self, epoch):
            w = self.run.weights.numpy()
            self.epochs.append((epoch, float(np.sum(w * (0.5 * k @ w - b)))))

    seen = Energies()
    attempt(system, blocks(tol=1e-6, columns=Skeletons(rank=10)), [seen])
    exact = [(epoch.energy, h) for epoch, h in seen.epochs if np.isfinite(epoch.checked_residual)]
    assert len(exact) >= 2
    for energy, h in exact:
        assert energy == pytest.approx(h, rel=1e-6)


def test_at_a_tolerance_of_a_tenth_an_inspection_predicts_the_only_pass():
    system, _ = problem(n=1500)
    seen = Passes()
    assert attempt(system, blocks(tol=0.1, columns=Skeletons(rank=60)), [seen]).converged
    assert len(seen.found) == 1


def test_skeletons_that_make_the_recursion_diverge_are_dropped(monkeypatch):
    monkeypatch.setattr(prepared_blocks, "near_size", lambda partition: max(partition.solved_sizes()))
    system, residual = problem(noise=1e-3, lengthscale=1.0, d=3)
    solution = attempt(system, blocks(columns=Skeletons(rank=3), tol=1e-4, max_epochs=300))
    assert solution.converged and residual(solution.weights) < 1e-4


@pytest.mark.slow
def test_skeletons_that_would_not_pay_off_are_not_chosen_and_the_reason_is_given(monkeypatch):
    monkeypatch.setattr(recommended, "SKELETON_ROWS", 2000)
    system, _ = problem(n=3000, d=3, noise=1e-4, lengthscale=1.5, columns=1)
    prepared = apviz.solvers.overlapping().prepare(system.operator)
    assert prepared.skeletons is None and prepared.solver.columns == Exact()
    assert "would let the residual drift by" in prepared.choices["columns.rank"]


def test_work_counts_near_rows_skeletons_inspections_and_passes():
    system, _ = problem(n=1500, operator="tiled")
    seen = Passes()
    solver = blocks(tol=1e-2)
    prepared = solver.prepare(system.operator)
    rows, skeletons = prepared.factors.rows, prepared.skeletons

    class Blocks(Passes):
        def __init__(self):
            super().__init__()
            self.entries = 0

        def on_update(self, update):
            near, solved = len(skeletons.near(update.block)), len(rows[update.block])
            self.entries += near * solved + 1500 * skeletons.rank

    seen = Blocks()
    solution = attempt(system, solver, [seen], prepared=prepared)
    others = (solution.work - solution.setup_work) * 1500**2 - seen.entries - len(seen.found) * 1500**2
    assert others >= 0 and round(others) % (256 * 1500) == 0  # looks at 256 rows


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_weights_bit_for_bit(seed):
    system, _ = problem(seed=seed)
    first, second = (attempt(system, blocks(tol=1e-6, seed=seed)).weights for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.slow
def test_skeletons_are_improved_if_a_pass_finds_them_too_inaccurate(monkeypatch):
    system, residual = problem(n=2500, d=3, lengthscale=0.3)
    monkeypatch.setattr(recommended, "SKELETON_ROWS", 0)
    poor = lambda operator, partition, *_: Suggestion(12, max(partition.solved_sizes()), 0.01)  # noqa: E731
    monkeypatch.setattr(recommended, "suggest", poor)
    solver = apviz.solvers.overlapping(block_size=100, tol=1e-4, fallback_rank=0)
    passes, works = [], []
    for bad in (0.3, np.inf):
        monkeypatch.setattr(prepared_blocks, "BAD_DRIFT", bad)
        seen, recorder = Passes(), apviz.Recorder()
        solution = attempt(system, solver, [seen, recorder])
        assert solution.converged and residual(solution.weights) < 1e-4
        passes.append(len(seen.found))
        works.append(solution.work)
        assert ("skeletons" in json.loads(recorder.trace.attrs["choices"])) == (bad == 0.3)
    assert passes[0] < passes[1] and works[0] < works[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["china", "protein", "kin40k", "bike", "keggundirected", "airquality", "sgemm", "earth"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_every_data_set_is_solved_to_1e_minus_8_by_dense_float64_algebra(name, dtype):
    if not apviz.datasets.is_here(name):
        pytest.skip(f"the data set {name} is not on this machine: set APVIZ_DATA")
    data = apviz.datasets.load(name, n=8_000)
    chosen = choose_hyperparameters(data)
    system = build_system(data, chosen, rhs=2, dtype=dtype, operator="tiled")
    solution = attempt(system, apviz.Automatic(tol=1e-8))
    assert solution.converged
    x = system.operator.given.double().numpy() / np.asarray(chosen.lengthscale)
    b, w, residual = system.given_b.double().numpy(), solution.weights.numpy(), np.zeros(2)
    for rows in np.array_split(np.arange(8_000), 40):
        u = np.sqrt(5) * np.sqrt(((x[rows, None, :] - x[None]) ** 2).sum(2))
        k = chosen.outputscale * (1 + u + u**2 / 3) * np.exp(-u)
        residual += ((b[rows] - k @ w - chosen.noise * w[rows]) ** 2).sum(0)
    assert np.mean(np.sqrt(residual) / np.linalg.norm(b, axis=0)) < 1e-8 * (1 + 1e-6)
