"""Pilot systems: few rows of a system, solved like the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz.advice.pilots import PilotSystem, Rehearsal, growth_to, on_fewer_rows
from apviz.partitions import PrincipalAxisTree
from apviz.solvers import Skeletons, StopReason, attempt, overlapping
from tests.textbook import matern52


def made(n=1_600, d=2, lengthscale=0.5, noise=0.01, seed=0, **settings):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, d))
    y = np.sin(4 * x).sum(1) + noise**0.5 * rng.standard_normal(n)
    b = np.column_stack([y, rng.choice([-1.0, 1.0], (n, 3))])
    return apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=lengthscale), noise=noise, device="cpu", **settings)


def dense(system):
    """Return K by NumPy from the inputs, one lengthscale and the noise."""
    x = system.operator.given.double().numpy() / system.kernel.lengthscale
    noise = np.broadcast_to(np.asarray(system.operator.noise_of()), len(x))
    return matern52(np.linalg.norm(x[:, None] - x[None], axis=2)) + np.diag(noise)


def rehearsal(rows, epochs, reason=StopReason.CONVERGED):
    return Rehearsal(rows=rows, work=9.0, setup_work=1.0, passes=1, epochs=epochs, residual=0.009, reason=reason)


@pytest.mark.parametrize("seed", range(2))
def test_the_condition_number_of_a_pilot_system_approximates_that_of_the_system(seed):
    system = made(seed=seed)
    pilot = PilotSystem(system, 400, seed).system
    spectra = [np.linalg.eigvalsh(dense(each)) for each in (system, pilot)]
    assert spectra[1][-1] / spectra[1][0] == pytest.approx(spectra[0][-1] / spectra[0][0], rel=0.15)


@pytest.mark.parametrize(
    "solver",
    [
        overlapping(tol=1e-2),
        apviz.AlternatingProjection(block_size=125),
        apviz.ConjugateGradient(),
        apviz.ConjugateGradient(preconditioner=apviz.RandomlyPivotedCholesky(rank=40)),
    ],
    ids=["overlapping", "paper's", "CG", "low rank"],
)
def test_a_pilot_system_takes_about_the_work_of_the_whole_system(solver):
    system = made(1_000, lengthscale=0.2, noise=0.1)
    solver = solver.resolve(system.operator, 4)[0]
    found = PilotSystem(system, 400).rehearse(solver, 1_000.0)
    whole = attempt(system, solver)
    assert found.converged and whole.converged
    assert found.projected == pytest.approx(whole.work - whole.setup_work - found.passes, rel=0.35)


def test_blocks_of_a_pilot_system_are_scaled_with_its_rows_and_ranks_are_not():
    projections = apviz.AlternatingProjection(block_size=1000, columns=Skeletons(rank=80), fallback_rank=100)
    smaller = on_fewer_rows(projections, 0.1)
    assert (smaller.block_size, smaller.columns.rank, smaller.fallback_rank) == (100, 0, 0)
    schwarz = apviz.ConjugateGradient(
        preconditioner=apviz.TwoLevelSchwarz(block_size=500, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=60)
    )
    inner = on_fewer_rows(schwarz, 0.1).preconditioner
    assert (inner.block_size, inner.coarse_rank) == (50, 60)


def test_a_pilot_of_all_rows_equals_the_system_and_keeps_the_ratios_of_noises():
    system = made(n=60)
    np.testing.assert_allclose(dense(PilotSystem(system, 100).system), dense(system), rtol=1e-6)
    noises = torch.linspace(0.01, 0.1, 60, dtype=torch.float64)
    of_rows = apviz.KernelSystem(system.x, system.b, system.kernel, noise=noises, device="cpu")
    ratios = PilotSystem(of_rows, 30).system.operator.noises / 0.5
    assert len(ratios) == 30 and set(ratios.tolist()) <= set(noises.tolist())


def test_epochs_that_double_with_the_rows_keep_doubling_and_others_never_decrease():
    assert growth_to(8_000, rehearsal(1_000, 10.0), rehearsal(2_000, 20.0)) == pytest.approx(4.0)
    assert growth_to(8_000, rehearsal(1_000, 12.0), rehearsal(2_000, 10.0)) == 1.0
    assert growth_to(8_000, rehearsal(1_000, 5.0), rehearsal(2_000, 9.0, StopReason.STOPPED)) == 1.0


def test_the_last_iteration_counts_up_to_the_tolerance():
    system = made(n=400)
    epochs = [
        PilotSystem(system, 400).rehearse(apviz.ConjugateGradient(tol=tol), 1_000.0).epochs for tol in (1e-2, 0.9e-2)
    ]
    assert epochs[0] < epochs[1] < epochs[0] + 1 and epochs[0] != round(epochs[0])
