"""Predictions of what a method costs, against what its set-up evaluates, keeps and takes."""

from __future__ import annotations

import math

import pytest
import torch

import apviz
from apviz.operators import CountingOperator
from apviz.operators.fourier.engine import LEAST_ROWS
from apviz.partitions import Sequential
from apviz.preconditioners import RandomlyPivotedCholesky, TwoLevelSchwarz
from apviz.solvers import Precision
from apviz.solvers.choosing.costs import CostModel, predicted

ENTRY, FLOP, SOLVE = 1e-8, 1e-9, 1e-4
COLUMNS = 4


@pytest.fixture
def rates(monkeypatch):
    """Let entries, flops and solves with a factor of a block take these seconds."""
    for name, seconds in (("entry", ENTRY), ("entry_of_pass", 2 * ENTRY), ("flop", FLOP)):
        monkeypatch.setattr(CostModel, name, seconds)
    monkeypatch.setattr(CostModel, "projection", lambda self, rows: SOLVE)
    monkeypatch.setattr(CostModel, "history", lambda self, length: 0.0)
    monkeypatch.setattr(CostModel, "block", lambda self, rows: rows**2 * ENTRY)


def system(n=1200, dtype=torch.float32):
    x = torch.rand(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.sin(6 * x.sum(1))
    return apviz.KernelSystem(x, y, apviz.Matern52(lengthscale=0.1), noise=0.01, dtype=dtype, device="cpu")


def cost_of(solver, operator, work=1.0):
    return predicted(solver, operator, COLUMNS, CostModel(operator, COLUMNS), work)


def blocks(size=100, overlap=1.0, **settings):
    return apviz.AlternatingProjection(block_size=size, partition=Sequential(overlap=overlap), **settings)


@pytest.mark.parametrize("solver", [
    blocks(), blocks(overlap=0.0), apviz.ConjugateGradient(preconditioner=TwoLevelSchwarz(
        block_size=100, coarse_rank=0, partition=Sequential(overlap=1.0))),
], ids=["overlapping", "apart", "Schwarz"])  # fmt: skip
def test_the_work_of_a_set_up_is_that_of_the_entries_that_it_evaluates(rates, solver):
    counted = CountingOperator(system().operator)
    solver.prepare(counted, COLUMNS)
    assert cost_of(solver, counted).setup_work == pytest.approx(counted.entries / counted.n**2, rel=0.1)


def test_factors_in_half_precision_are_predicted_to_take_half_the_memory_of_those_in_float32(rates):
    operator, n, size = system().operator, 1200, 200
    single, half = (
        cost_of(blocks(precision=Precision(factors=factors)), operator).memory for factors in ("recursion", "float16")
    )
    # twelve blocks, of each a triangle of 2 or 4 bytes an entry
    assert single - half == pytest.approx(n / 100 * size**2 / 2 * 2, rel=0.1)


def test_an_epoch_takes_the_seconds_of_its_entries_and_of_a_solve_for_each_block(rates):
    operator, n = system().operator, 1200
    whole, third = (cost_of(blocks(), operator, work).epoch for work in (1.0, 1 / 3))
    price = operator.matmul_price(COLUMNS)
    assert whole - third == pytest.approx(2 / 3 * n**2 * ENTRY * price, rel=0.2)
    assert third > n / 100 * SOLVE


@pytest.mark.parametrize(("n", "d"), [(500, 2), (LEAST_ROWS, 5)], ids=["few rows", "five inputs"])
def test_sweeps_are_not_predicted_where_no_fourier_products_pay(n, d):
    operator = apviz.KernelSystem(torch.rand(n, d), torch.rand(n), apviz.RBF(), noise=0.1, device="cpu").operator
    assert cost_of(apviz.ColouredProjection(), operator) is None


def test_a_pass_takes_the_seconds_of_all_entries_in_float64(rates):
    operator = system().operator
    passes = {cost_of(solver, operator).passed for solver in (blocks(), apviz.ConjugateGradient(), apviz.Cholesky())}
    assert passes == {operator.n**2 * 2 * ENTRY}


def test_a_preconditioner_of_larger_rank_is_predicted_to_take_more_set_up_and_longer_iterations(rates):
    operator = system().operator
    costs = [
        cost_of(
            apviz.ConjugateGradient(preconditioner=None if rank == 0 else RandomlyPivotedCholesky(rank=rank)), operator
        )
        for rank in (0, 50, 200)
    ]
    for name in ("setup", "epoch", "memory"):
        values = [getattr(each, name) for each in costs]
        assert values == sorted(values) and math.isfinite(values[-1]) and len(set(values)) == 3
    # blocks that are factored too take longer, and more memory
    inner = TwoLevelSchwarz(block_size=100, coarse_rank=200, partition=Sequential(overlap=1.0))
    both = cost_of(apviz.ConjugateGradient(preconditioner=inner), operator)
    assert both.setup > costs[-1].setup and both.epoch > costs[-1].epoch and both.memory > costs[-1].memory
