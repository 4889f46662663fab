"""Operations that updates launch on a device, as PyTorch dispatches them, with factors stacked as on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz import stacked_factors
from apviz.partitions import PrincipalAxisTree, Sequential
from apviz.rules import GaussSouthwell
from apviz.solvers import Exact, PlainStep, Skeletons, Subspace, attempt
from tests.solvers.dispatches import Dispatches, counted

N, SIDES, BLOCK, EPOCHS = 220, 3, 30, 2
PARTITIONS = {"sequential": Sequential(), "principal-axis-tree": PrincipalAxisTree(overlap=0.5)}
STEPS = {"plain": PlainStep(), "subspace": Subspace(length=3)}
COLUMNS = {"exact": Exact(), "skeletons": Skeletons(rank=8, near=120)}


@pytest.fixture(scope="module")
def system():
    generator = torch.Generator().manual_seed(0)
    x, b = torch.rand(N, 2, generator=generator), torch.randn(N, SIDES, generator=generator)
    return apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.3), noise=0.1, operator="dense", device="cpu")


def solver(rule, partition="sequential", step="plain", columns="exact"):
    return apviz.AlternatingProjection(
        block_size=BLOCK, rule=rule, partition=PARTITIONS[partition], step=STEPS[step],
        columns=COLUMNS[columns], tol=1e-9, max_epochs=EPOCHS,
    )  # fmt: skip


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_nothing_within_an_epoch_waits_for_a_device_that_chooses_the_block(system, partition, step, columns):
    made = solver("gauss-southwell", partition, step, columns)
    found = counted(system, made, [apviz.Recorder(spectrum="subsample", spectrum_rows=50)], stacked=True)
    assert found.updates == EPOCHS * -(-N // BLOCK) and not found.waits


@pytest.mark.parametrize("rule", ["cyclic", "random", "shuffled", GaussSouthwell(short_block="end-of-epoch")], ids=str)
def test_with_other_rules_nothing_within_an_epoch_waits_either(system, rule):
    assert not counted(system, solver(rule), stacked=True).waits


def test_without_a_stack_the_host_reads_only_the_block_that_gauss_southwell_chose(system):
    found = counted(system, solver("gauss-southwell"), stacked=False)
    assert found.waits == {"_local_scalar_dense": found.updates}
    assert not counted(system, solver("cyclic"), stacked=False).waits


@pytest.mark.parametrize(("rule", "columns", "recorded", "most"), [
    ("gauss-southwell", "exact", False, 12), ("gauss-southwell", "exact", True, 14), ("cyclic", "exact", False, 6),
    ("gauss-southwell", "skeletons", False, 24),
])  # fmt: skip
@pytest.mark.parametrize("partition", PARTITIONS)
def test_an_update_launches_few_operations(system, partition, rule, columns, recorded, most):
    hooks = [apviz.Recorder(spectrum="subsample", spectrum_rows=50)] if recorded else []
    found = counted(system, solver(rule, partition, columns=columns), hooks, stacked=True)
    assert found.an_update <= most, found.launches


@pytest.mark.parametrize(("rule", "most"), [("gauss-southwell", 19), ("cyclic", 14)])
def test_on_the_cpu_an_update_takes_no_more_operations_than_before(system, rule, most):
    assert counted(system, solver(rule), stacked=False).an_update <= most


def test_reads_masks_and_launches_are_distinguished():
    a, mask = torch.arange(4.0), torch.tensor([True, False, True, False])
    with Dispatches() as found:
        found.is_on = True
        a[1:].view(3, 1).T.unsqueeze(0)
        a.mul(2).add_(1)
        a[mask], a[torch.tensor([1])], a.sum().item(), mask.nonzero()
        int(torch.randint(3, (), generator=torch.Generator().manual_seed(0)))
    assert found.launches == {"mul": 1, "add_": 1, "index": 1, "sum": 1}
    assert found.waits == {"index": 1, "_local_scalar_dense": 1, "nonzero": 1}


class Blocks(apviz.Hook):
    """Keeps the blocks of updates by number, as a user would."""

    def __init__(self):
        self.taken, self.norms = [], []

    def on_update(self, update):
        self.taken.append({block: f"block {block}" for block in range(N)}[update.block])


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_solve_with_a_stack_chooses_the_same_blocks_and_finds_the_same_weights(monkeypatch, system, partition):
    solutions, traces, tables = [], [], []
    for devices in ((), ("cpu",)):
        monkeypatch.setattr(stacked_factors, "STACKED_ON", devices)
        recorder, blocks = apviz.Recorder(), Blocks()
        solutions.append(attempt(system, solver("gauss-southwell", partition), [recorder, blocks]))
        traces.append(recorder.trace)
        tables.append(blocks.taken)
    host, device = traces
    chosen = host["update"]["block"].values
    np.testing.assert_array_equal(device["update"]["block"].values, chosen)
    assert tables[0] == tables[1] == [f"block {block}" for block in chosen]
    np.testing.assert_array_equal(device["block"]["times_chosen"].values, np.bincount(chosen, minlength=8))
    for name in ("residual", "energy_decrease"):
        np.testing.assert_allclose(device["update"][name].values, host["update"][name].values, rtol=1e-3, atol=1e-7)
    largest = float(solutions[0].weights.abs().max())
    np.testing.assert_allclose(solutions[1].weights, solutions[0].weights, rtol=0, atol=1e-4 * largest)
    assert solutions[1].energy == pytest.approx(solutions[0].energy, rel=1e-6)


def test_stacked_skeletons_with_more_than_the_nearest_rows_reach_the_tolerance(monkeypatch, system):
    made = apviz.AlternatingProjection(
        block_size=BLOCK, partition=PrincipalAxisTree(overlap=0.5), columns=COLUMNS["skeletons"]
    )  # fmt: skip
    monkeypatch.setattr(stacked_factors, "STACKED_ON", ("cpu",))
    solution = attempt(system, made)
    k = system.operator.block(slice(0, N)).double()
    left = system.b.double() - k @ solution.weights
    assert solution.converged and float((left.norm(dim=0) / system.b.double().norm(dim=0)).mean()) < 1.01e-2


def test_the_fused_engine_adds_four_launches_for_the_columns_of_a_block(monkeypatch):
    fused = pytest.importorskip("apviz.operators.fused")
    launched = []
    monkeypatch.setattr(fused, "is_installed", lambda: True)
    monkeypatch.setattr(fused, "is_interpreted", lambda: True)
    monkeypatch.setattr(fused, "PROGRAMS", {torch.float32: 1})  # as with enough rows to fill a GPU
    monkeypatch.setattr(fused.FusedOperator, "_launch", lambda *given, **_: launched.append(given[1:3]))
    operator = fused.FusedOperator(torch.rand(300, 3), apviz.Matern52(), 0.1)
    r, u, rows = torch.zeros(300, 3), torch.rand(100, 3), torch.arange(0, 300, 3)
    with Dispatches() as found:
        found.is_on = True
        operator.subtract_columns_(r, rows, u)
    assert found.launches == {"neg": 1, "index_select": 1, "index_add_": 1} and not found.waits
    assert len(launched) == 1
