"""A separate set-up: made once, valid for any B, counted once, and rejected for another operator or solver."""

from dataclasses import replace

import pytest
import torch

import apviz
from apviz.gp.prediction.posterior import Posterior
from apviz.partitions import KDTree, PrincipalAxisTree
from apviz.solvers import Subspace
from apviz.solvers.cholesky import Factored
from tests.solvers.oracle import problem

SOLVERS = (
    apviz.AlternatingProjection(block_size=9, tol=1e-6),
    apviz.AlternatingProjection(
        block_size=9, rule="cyclic", partition=KDTree(overlap=0.5), tol=1e-6, step=Subspace(length=4)
    ),
    apviz.AlternatingProjection(block_size="auto", partition=KDTree(overlap="auto"), step=Subspace(length=3), tol=1e-6),
    apviz.ConjugateGradient(tol=1e-6),
    apviz.ConjugateGradient(
        preconditioner=apviz.TwoLevelSchwarz(block_size=9, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=5),
        tol=1e-6,
    ),
    apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=5), tol=1e-6),
    apviz.Cholesky(tol=1e-6),
    apviz.Automatic(tol=1e-6),
)
EVERY_SOLVER = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)


@EVERY_SOLVER
def test_a_set_up_gives_the_same_bits_for_every_b_and_counts_in_its_first_solve(solver):
    systems = [problem(n=60, seed=seed, x=problem(n=60).system.x.numpy()).system for seed in range(2)]
    operator = systems[0].operator
    prepared = solver.prepare(operator, 2)
    for number, each in enumerate(systems):
        system = apviz.KernelSystem(each.x, each.b, each.kernel, noise=each.noise, operator=operator, dtype=each.dtype)
        alone, found = apviz.solve(system, solver), apviz.solve(system, solver, prepared=prepared)
        assert torch.equal(found.weights, alone.weights) and found.converged
        assert found.epochs == alone.epochs and found.residual == alone.residual
        if number == 0:
            assert found.work == alone.work and found.setup_work == alone.setup_work
        else:
            assert found.setup_work == 0 and found.work == pytest.approx(alone.work - alone.setup_work)


@EVERY_SOLVER
def test_a_set_up_can_be_used_with_another_tolerance(solver):
    p = problem(n=60)
    prepared = solver.prepare(p.system.operator, 2)
    for tol in (1e-2, 1e-9):
        other = replace(solver, tol=tol)
        solution = apviz.solve(p.system, other, prepared=prepared)
        assert solution.converged and p.residual(solution.weights) < tol
        assert torch.equal(solution.weights, apviz.solve(p.system, other).weights)


def test_a_set_up_of_another_operator_is_refused():
    p, q = problem(n=60), problem(n=60)
    with pytest.raises(ValueError, match="prepared belongs to another operator; use solver.prepare"):
        apviz.solve(q.system, SOLVERS[0], prepared=SOLVERS[0].prepare(p.system.operator))


@pytest.mark.parametrize(
    "other", [apviz.AlternatingProjection(block_size=10, tol=1e-6), apviz.ConjugateGradient(tol=1e-6)]
)
def test_a_set_up_by_another_solver_is_refused(other):
    p = problem(n=60)
    prepared = SOLVERS[0].prepare(p.system.operator)
    with pytest.raises(ValueError, match="prepared was built by AlternatingProjection.*needs a set-up of its own"):
        apviz.solve(p.system, other, prepared=prepared)


def test_the_factor_of_all_of_k_is_available():
    p = problem(n=60)
    prepared = apviz.Automatic().prepare(p.system.operator)
    assert isinstance(prepared, Factored)
    torch.testing.assert_close(prepared.factor @ prepared.factor.T, torch.as_tensor(p.K))


def test_variances_of_ten_batches_factor_the_blocks_once():
    x = torch.rand(300, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    h = apviz.Hyperparameters("matern52", (0.3,), 1.0, 0.1)
    solver = apviz.AlternatingProjection(block_size=50, partition=KDTree(overlap=0.5))
    posterior = Posterior(x, x[:, 0], h, solver, batch_size=10, dtype=torch.float64)
    z = torch.rand(95, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    recorder = apviz.Recorder()
    variance = posterior.variance(z, hooks=[recorder])
    setups = [trace.attrs["setup_work"] for trace in recorder.traces]
    assert len(setups) >= 10 and setups[0] > 0 and not any(setups[1:])
    k = posterior.system.kernel(x) + 0.1 * torch.eye(300, dtype=torch.float64)
    c = posterior.system.kernel(x, z)
    exact = 1.0 - (c * torch.linalg.solve(k, c)).sum(0)
    torch.testing.assert_close(variance, exact, atol=1e-6, rtol=1e-3)
