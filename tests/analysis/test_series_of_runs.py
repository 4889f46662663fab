"""Runs that differ in one setting."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis.sweeps import factor_bytes, same_system, series, slowest, sweep_table
from apviz.solvers import Precision


@pytest.fixture(scope="module")
def runs():
    """Return traces by name: a sweep over b with one unconverged run, and a sweep over σ²."""
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.uniform(size=(300, 2)), dtype=torch.float32)
    y = torch.sin(6 * x[:, 0])

    def run(solver, noise=0.05, dtype=torch.float32):
        recorder = apviz.Recorder()
        system = apviz.KernelSystem(x, y, apviz.Matern52(lengthscale=0.3), noise=noise, operator="dense", dtype=dtype)
        apviz.solve(system, solver, hooks=[recorder])
        return recorder.trace

    projection = apviz.AlternatingProjection
    return {
        "30": run(projection(block_size=30)),
        "100": run(projection(block_size=100)),
        "64 bits": run(projection(block_size=100), dtype=torch.float64),
        "margin": run(projection(block_size=100, partition=apviz.partitions.PrincipalAxisTree(overlap=0.5))),
        "half": run(projection(block_size=30, precision=Precision(factors="float16"))),
        "cut": run(projection(block_size=60, tol=1e-5, max_epochs=1)),
        "noisy": run(projection(block_size=100), noise=0.5),
        "cg": run(apviz.ConjugateGradient()),
    }


def test_a_series_over_b_has_one_method_on_one_system_sorted_by_b(runs):
    found = series([runs[name] for name in ("100", "noisy", "cg", "30", "64 bits")], "block_size")
    assert found == [[runs["30"], runs["100"]], [runs["noisy"]], [runs["64 bits"]]]


def test_a_series_over_the_noise_separates_block_sizes(runs):
    found = series([runs[name] for name in ("30", "100", "noisy", "cg")], "noise")
    assert found == [[runs["30"]], [runs["100"], runs["noisy"]], [runs["cg"]]]


def test_another_tolerance_is_another_series(runs):
    assert len(series([runs["30"], runs["cut"]], "block_size")) == 2


def test_the_slowest_run_may_be_unconverged(runs):
    assert slowest([runs["cut"]]) is runs["cut"] and slowest([]) is None


def test_two_blocks_share_a_square_of_the_solved_rows_in_memory(runs):
    assert factor_bytes(runs["30"]) == 5 * 30**2 * 4
    assert factor_bytes(runs["64 bits"]) == 2 * 100**2 * 8  # the third block has its own square
    assert factor_bytes(runs["half"]) == 5 * 30**2 * 2
    size, several = np.unique(runs["margin"]["block"]["solved_size"].values, return_counts=True)
    assert factor_bytes(runs["margin"]) == 4 * (np.ceil(several / 2) * size**2).sum()
    assert math.isnan(factor_bytes(runs["cg"]))


def test_the_table_has_one_row_per_run_in_the_given_order(runs):
    table = sweep_table([runs["cg"], runs["cut"]])
    assert list(table["method"]) == ["CG", "Alternating projection (greedy, b = 60)"]
    assert list(table["converged"]) == [True, False] and list(table["outcome"]) == ["converged", "max_epochs"]
    assert list(table["epochs"]) == [int(runs["cg"]["epoch"]["epoch"][-1]), 1]
    assert table["kappa"][0] == table["kappa"][1] and math.isnan(table["kappa_prime"][0])


@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("n", [200, 1500])
def test_runs_on_different_unnamed_data_are_different_systems(n, standardised):
    """All standardised targets have the norm √(n − 1)."""

    def run(seed, solver, name="", dtype=torch.float64, noise=0.1):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, (n, 2))
        y = np.sin(5 * x[:, 0]) + 0.1 * rng.standard_normal(n)
        y = (y - y.mean()) / y.std(ddof=1) if standardised else y
        recorder = apviz.Recorder()
        system = apviz.KernelSystem(
            x, y, apviz.Matern52(lengthscale=0.3), noise=noise, dtype=dtype, device="cpu", dataset=name
        )
        apviz.solve(system, solver, hooks=[recorder])
        return recorder.trace

    one = run(0, apviz.AlternatingProjection(block_size=100, tol=0.1))
    cg = apviz.ConjugateGradient(tol=0.1)
    assert not same_system(one, run(1, cg)) and not same_system(run(1, cg), one)
    assert not same_system(one, run(0, cg, noise=0.2)) and same_system(one, run(0, cg, "named"))
    assert same_system(one, run(0, cg)) and same_system(one, run(0, cg, dtype=torch.float32))
    assert same_system(run(0, cg, "named"), run(0, apviz.Cholesky(), "named"))


def test_an_unnamed_trace_with_too_little_information_is_not_compared(runs):
    bare = apviz.Trace(runs["100"].tree.copy(deep=True))
    del bare.attrs["data"]  # like recorded CG of GPyTorch
    assert same_system(runs["100"], bare)
    del bare.attrs["rhs_norms"]
    assert not same_system(runs["100"], bare)
