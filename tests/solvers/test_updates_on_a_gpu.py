"""Updates as on a GPU, without one: on PyTorch's device `meta`, whose tensors have no numbers.

Reading one (`.item()`, `bool`, `nonzero`) raises, and so does an operation on it and a tensor of the CPU.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import apviz
from apviz.factors import BlockFactors
from apviz.memory import free_memory
from apviz.operators import CountingOperator, TiledOperator, make_operator
from apviz.partitions import KDTree, PrincipalAxisTree
from apviz.rules import GaussSouthwell
from apviz.skeletons import BlockSkeletons, ExactColumns
from apviz.solvers import Exact, PlainStep, Skeletons, Subspace, attempt
from apviz.solvers.choosing.automatic import overlapping, survives_rounding
from apviz.solvers.conjugate_gradient import _inner, _ratio
from apviz.solvers.measuring.decreases import settled
from apviz.solvers.state import column_squares
from apviz.solvers.steps import MOST_WAITING, PlainUpdates, SubspaceUpdates, WaitingUpdates
from apviz.stacked_factors import StackedFactors
from tests.device import DEVICE, only_on_a_gpu, only_on_the_cpu
from tests.solvers.dispatches import InEpochs

N, SIDES, BLOCK = 400, 3, 100


@pytest.fixture
def prepared():
    x = torch.rand(N, 2, generator=torch.Generator().manual_seed(0))
    operator = CountingOperator(TiledOperator(x, apviz.Matern32(lengthscale=0.3), 0.1, compiled=False))
    partition = KDTree(overlap=0.5)(operator.inputs, BLOCK)
    stored = operator.reordered(partition.order)
    rows = [partition.solved(block) for block in range(len(partition))]
    factors = BlockFactors(stored, rows)
    return stored, partition, rows, factors, BlockSkeletons(stored, partition, factors, 8, 250, 0)


def moved(value):
    """Return a copy on a device other than the CPU."""
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, list):
        return [moved(each) for each in value]
    if isinstance(value, dict):
        return {key: moved(each) for key, each in value.items()}
    if type(value).__module__.startswith("apviz.") and hasattr(value, "__dict__"):
        for name, each in vars(value).items():
            vars(value)[name] = moved(each)
    return value


@pytest.mark.parametrize("kind", ["plain", "subspace"])
@pytest.mark.parametrize("with_skeletons", [False, True], ids=["exact", "skeletons"])
def test_an_update_reads_nothing_back_and_stays_on_its_device(prepared, kind, with_skeletons):
    stored, _, rows, factors, skeletons = prepared
    operator = moved(stored)
    rows, factors, skeletons = (moved(each) for each in (rows, factors, skeletons))
    r, w = torch.zeros(N, SIDES, device="meta"), torch.zeros(N, SIDES, device="meta", dtype=torch.float64)
    columns = skeletons.bind(operator) if with_skeletons else ExactColumns(operator, rows)
    step = PlainUpdates(columns, operator.layout)
    if kind == "subspace":
        step = SubspaceUpdates(operator, columns, 2, r, 150)
    for block in (0, 3, 1):
        u = factors.project(block, r)
        decrease = step.project_(w, r, block, rows[block], u)
        norms = operator.squared_norms(r, [0, 100, 200, 300, 400], torch.empty_like(r))
        assert {each.device.type for each in (u, decrease, norms, r, w)} == {"meta"}
    step.flush_to_weights_(w)


@pytest.mark.parametrize("with_skeletons", [False, True], ids=["exact", "skeletons"])
@pytest.mark.parametrize("kind", ["plain", "subspace"])
def test_an_update_of_a_block_that_the_device_chose_reads_nothing_back_either(prepared, kind, with_skeletons):
    stored, partition, rows, _, _ = prepared
    factors = StackedFactors(stored, rows)
    skeletons = BlockSkeletons(stored, partition, factors, 8, 250, 0)
    operator, factors, skeletons = (moved(each) for each in (stored, factors, skeletons))
    r, w = torch.zeros(N, SIDES, device="meta"), torch.zeros(N, SIDES, device="meta", dtype=torch.float64)
    columns = skeletons.bind(operator) if with_skeletons else ExactColumns(operator, factors.rows)
    step = WaitingUpdates(columns) if kind == "plain" else SubspaceUpdates(operator, columns, 2, r, 150)
    select, decreases = GaussSouthwell().begin([BLOCK] * 4), []
    for number in range(3):
        block = factors.index(select(number, operator.squared_norms(r, range(0, 401, 100), torch.empty_like(r))))
        decreases.append(step.project_(w, r, block, factors.rows[block], factors.project(block, r)))
        assert {each.device.type for each in (block, r, w, step.with_waiting(w))} == {"meta"}
    step.flush_to_weights_(w)
    assert (settled(decreases) if kind == "plain" else torch.stack(decreases)).device.type == "meta"


class Synchronisations:
    """Makes CUDA raise if the host waits for it, while `is_on`."""

    @property
    def is_on(self):
        return torch.cuda.get_sync_debug_mode() > 0

    @is_on.setter
    def is_on(self, value):
        torch.cuda.set_sync_debug_mode("error" if value else "default")


@only_on_a_gpu("it has CUDA look for what waits; test_dispatches.py counts on the CPU")
@pytest.mark.parametrize("columns", [Exact(), Skeletons(rank=40)], ids=["exact", "skeletons"])
@pytest.mark.parametrize("step", [PlainStep(), Subspace(length=4)], ids=["plain", "subspace"])
@pytest.mark.parametrize("rule", ["gauss-southwell", "cyclic", "random", "shuffled"])
@pytest.mark.parametrize("overlap", [0.0, 0.5])
def test_no_epoch_on_a_gpu_waits_for_the_device(monkeypatch, overlap, rule, step, columns):
    generator = torch.Generator().manual_seed(0)
    x, b = torch.rand(6050, 3, generator=generator), torch.randn(6050, 5, generator=generator)
    system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.4), noise=0.1, device=DEVICE)
    solver = apviz.AlternatingProjection(
        block_size=500, rule=rule, partition=PrincipalAxisTree(overlap=overlap), step=step, columns=columns,
        tol=1e-9, max_epochs=3,
    )  # fmt: skip
    prepared = solver.prepare(system.operator)
    assert prepared.factors.is_stacked
    attempt(system, solver, prepared=prepared)  # compiles
    with monkeypatch.context() as patched:
        epochs = InEpochs(patched, Synchronisations())
        try:
            attempt(system, solver, [apviz.Recorder()], prepared=prepared)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert epochs.updates == 3 * 13


def test_an_iteration_of_cg_reads_nothing_back_and_stays_on_its_device(prepared):
    operator = moved(prepared[0])
    r, w = torch.zeros(N, SIDES, device="meta"), torch.zeros(N, SIDES, device="meta", dtype=torch.float64)
    rz, kp = _inner(r, r), operator.matmul(r)
    step = _ratio(rz, _inner(r, kp))
    w += r * step
    r.addcmul_(kp, step, value=-1)
    assert {each.device.type for each in (w, r, kp, column_squares(r))} == {"meta"}


def test_these_tests_notice_host_reads_and_mixed_devices():
    a = torch.zeros(3, device="meta")
    with pytest.raises(RuntimeError, match="cannot be called on meta"):
        a.sum().item()
    with pytest.raises(RuntimeError, match="device"):
        a + torch.zeros(3)


class Reads(TorchDispatchMode):
    """Counts the numbers that the host reads."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten._local_scalar_dense.default:
            self.counted["read"] += 1
        return function(*args, **(kwargs or {}))


@only_on_the_cpu("on a GPU not even that block is read")
@pytest.mark.parametrize(("rule", "reads_an_update"), [("gauss-southwell", 1), ("cyclic", 0)])
def test_a_solve_reads_only_the_chosen_block_in_an_update(rule, reads_an_update):
    x = torch.rand(N, 2, generator=torch.Generator().manual_seed(0))
    operator = TiledOperator(x, apviz.Matern32(lengthscale=0.3), 0.1, compiled=False)
    b = torch.randn(N, SIDES, generator=torch.Generator().manual_seed(1))
    system = apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.3), noise=0.1, operator=operator)
    counted = {}
    for size in (20, 40):  # twice as many updates an epoch, with the same epochs
        solver = apviz.AlternatingProjection(
            block_size=size, rule=rule, tol=1e-12, max_epochs=2, step=Subspace(length=3)
        )
        prepared = solver.prepare(operator)
        with Reads() as reads:
            attempt(system, solver, prepared=prepared)
        counted[size] = reads.counted["read"]
    assert counted[20] - counted[40] == reads_an_update * 2 * (N // 20 - N // 40)


SOLVERS = {
    "paper": apviz.AlternatingProjection(block_size=500),
    "overlapping": overlapping(fallback_rank=0),
    "skeletons": overlapping(block_size=300, columns=Skeletons(rank=40), fallback_rank=0),
    "CG": apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=50)),
    "automatic": apviz.Automatic(),
}


@only_on_a_gpu("it compares a GPU with the CPU")
@pytest.mark.parametrize("name", SOLVERS)
def test_a_solve_on_a_gpu_agrees_with_one_on_the_cpu(name):
    generator = torch.Generator().manual_seed(0)
    x, b = torch.rand(6000, 3, generator=generator), torch.randn(6000, 5, generator=generator)
    kernel = apviz.Matern52(lengthscale=0.4)
    k = make_operator("tiled", x.double(), kernel, 0.1)
    for device in ("cpu", DEVICE):
        solution = attempt(apviz.KernelSystem(x, b, kernel, noise=0.1, device=device), SOLVERS[name])
        left = b.double() - k.matmul(solution.weights.cpu())
        assert solution.converged
        assert float((left.norm(dim=0) / b.double().norm(dim=0)).mean()) < 1.01e-2


@only_on_a_gpu("of the processor the limit is 2,000 rows")
@pytest.mark.parametrize(("n", "dtype", "noise", "chosen"), [
    (6_000, torch.float32, 0.01, "Cholesky"), (6_000, torch.float64, 0.01, None), (6_000, torch.float32, 1e-5, None),
    (51_000, torch.float32, 0.01, None),
])  # fmt: skip
def test_automatic_factors_more_rows_in_float32(n, dtype, noise, chosen):
    x = torch.rand(n, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)
    system = apviz.KernelSystem(x, x[:, 0], apviz.Matern52(lengthscale=0.1), noise=noise, dtype=dtype, device=DEVICE)
    solver, _ = apviz.Automatic().resolve(system.operator)
    assert (solver.name == "Cholesky") == (chosen == "Cholesky")


@pytest.mark.parametrize("n", [300, 1_500])
def test_with_noise_above_rounding_even_the_flattest_k_has_a_float32_factor(n):
    x = torch.rand(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    least = n * 2.0**-24 * 1.01
    k = (-torch.cdist(x, x).square() / 2e4).exp() + least * torch.eye(n, dtype=torch.float64)
    assert survives_rounding(n, least, 1.0) and not survives_rounding(n, least / 2, 1.0)
    _, failed = torch.linalg.cholesky_ex(k.float())
    assert not failed


@only_on_a_gpu("PyTorch keeps no memory of the processor")
def test_memory_that_pytorch_caches_counts_as_free():
    device = torch.device(DEVICE)
    before = free_memory(device)
    large = torch.empty(2**30, dtype=torch.uint8, device=device)
    assert free_memory(device) <= before - 2**30
    del large
    assert free_memory(device) >= before - 2**22


def test_updates_that_wait_are_added_to_the_weights_before_too_many_do():
    """A few, more than may wait, and none at all; rows of overlapping blocks repeat."""

    class Nothing:
        def subtract_(self, r, block, u):
            pass

    generator = torch.Generator().manual_seed(0)
    step, w = WaitingUpdates(Nothing()), torch.zeros(20, 2, dtype=torch.float64)
    r, expected = torch.zeros_like(w), w.numpy().copy()
    step.flush_to_weights_(w)
    assert not w.any() and step.with_waiting(w) is w
    for _ in range(MOST_WAITING + 3):
        rows, u = torch.randperm(20, generator=generator)[:6], torch.rand(6, 2, generator=generator, dtype=w.dtype)
        step.project_(w, r, None, rows, u)
        np.add.at(expected, rows.numpy(), u.numpy())
    np.testing.assert_allclose(step.with_waiting(w).numpy(), expected, rtol=1e-12)
    assert not np.allclose(w.numpy(), expected)
    step.flush_to_weights_(w)
    np.testing.assert_allclose(w.numpy(), expected, rtol=1e-12)
