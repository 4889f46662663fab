"""Solvers of other papers against the papers' recursions, row by row in dense NumPy from the same random draws."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch

import apviz
from apviz.solvers import ASkotch, CoordinateDescentPlusPlus, GradientDescent, StochasticDualDescent, attempt
from tests.device import DEVICE
from tests.solvers.oracle import Watch, problem

RIVALS = [
    CoordinateDescentPlusPlus(block_size=10, seed=3),
    ASkotch(block_size=10, rank=5, seed=3),
    ASkotch(block_size=10, rank=5, accelerated=False, seed=3),
    StochasticDualDescent(batch_size=15, seed=3),
    GradientDescent(),
    GradientDescent(step="constant"),
]
FIDELITY = Path(__file__).parents[2] / "benchmarks" / "results" / "fidelity.json"


def name_of(solver):
    return solver.method.name


class Draws:
    """Draws the random numbers of a solver from its seed, in its order."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def uniform(self):
        return float(torch.rand((), generator=self.generator))

    def one_of(self, count):
        return int(torch.randint(count, (), generator=self.generator))

    def rows(self, n, size):
        return torch.randperm(n, generator=self.generator)[:size].numpy()

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator).double().numpy()


def cd_plus_plus(K, b, size, updates, seed, reg=1e-8):
    """Return the iterates of CD++ for one right-hand side as in its paper, by rows of K."""
    n, draws = len(b), Draws(seed)
    x, z, kept, found = np.zeros(n), np.zeros(n), [], []
    rho, eta, skip, ratio, count, old, new = 1.0, 0.0, round(n / size + 1), 0.0, 1.0, 0.0, 0.0
    for t in range(1, updates + 1):
        fresh = draws.uniform() < min(1, n * math.log(n) / (size * t))
        if fresh:
            kept.append(draws.rows(n, size))
        s = kept[-1] if fresh else kept[draws.one_of(len(kept))]
        gradient = K[s] @ x - b[s]
        w = np.zeros(n)
        w[s] = np.linalg.solve(K[np.ix_(s, s)] + reg * np.eye(size), gradient)
        z = rho * (z + w)
        x = x - w - eta * z
        found.append(x)
        if t % (2 * skip) <= skip:
            old += gradient @ gradient
        else:
            new += gradient @ gradient
        if t % (2 * skip) == 0:
            before, after = count ** math.log(count), (count + 1) ** math.log(count + 1)
            ratio = ratio * before / after + min(1, new / old) * (1 - before / after)
            rate = max(0, 1 - ratio ** (1 / skip))
            rho, eta, count, old, new = (1 - rate) / (1 + rate), size / (2 * n), count + 1, 0.0, 0.0
    return np.array(found)


def askotch(K, b, noise, size, rank, updates, seed):
    """Return the iterates of ASkotch for one right-hand side as in its paper, by rows of K."""
    n, draws = len(b), Draws(seed)
    mu, nu = noise, n / size
    beta, gamma = 1 - math.sqrt(mu / nu), 1 / math.sqrt(mu * nu)
    alpha = 1 / (1 + gamma * nu)
    v, z, found = np.zeros(n), np.zeros(n), []
    for _ in range(updates):
        s = draws.rows(n, size)
        block = K[np.ix_(s, s)] - noise * np.eye(size)
        omega = np.linalg.qr(draws.normal(size, rank))[0]
        approximation = block @ omega @ np.linalg.solve(omega.T @ block @ omega, omega.T @ block)
        damped = approximation + (noise + np.linalg.eigvalsh(approximation)[-rank]) * np.eye(size)
        u = draws.normal(size)
        u = u / np.linalg.norm(u)
        for _ in range(10):
            before, u = u, (block + noise * np.eye(size)) @ np.linalg.solve(damped, u)
            largest = before @ u
            u = u / np.linalg.norm(u)
        d = np.zeros(n)
        d[s] = np.linalg.solve(damped, K[s] @ z - b[s]) / largest
        w = z - d
        v = beta * v + (1 - beta) * z - gamma * d
        z = alpha * v + (1 - alpha) * w
        found.append(w)
    return np.array(found)


def stochastic_dual_descent(K, b, size, step, momentum, share, updates, seed):
    """Return the averages of the paper's Algorithm 1, by rows of K."""
    n, draws = len(b), Draws(seed)
    alpha, v, average, found = np.zeros(n), np.zeros(n), np.zeros(n), []
    for _ in range(updates):
        s = draws.rows(n, size)
        gradient = np.zeros(n)
        gradient[s] = n / size * (K[s] @ (alpha + momentum * v) - b[s])
        v = momentum * v - step * gradient
        alpha = alpha + v
        average = share * alpha + (1 - share) * average
        found.append(average)
    return np.array(found)


def watched(p, solver):
    seen = Watch()
    seen.solution = attempt(p.system, solver, [seen])
    return np.array(seen.W)[1:, :, 0], seen


def test_cd_plus_plus_equals_the_recursion_of_the_paper():
    p = problem(n=60, rhs=1, noise=1e-2)
    found, _ = watched(p, CoordinateDescentPlusPlus(block_size=8, tol=1e-12, max_epochs=30, seed=5))
    np.testing.assert_allclose(found, cd_plus_plus(p.K, p.B[:, 0], 8, len(found), seed=5), atol=1e-7)
    assert len(found) == 30 * 8  # n/b = 7.5, so 8 updates an epoch


def test_askotch_equals_the_recursion_of_the_paper():
    p = problem(n=60, rhs=1, noise=1e-2)
    found, _ = watched(p, ASkotch(block_size=12, rank=6, tol=1e-12, max_epochs=20, seed=5))
    np.testing.assert_allclose(found, askotch(p.K, p.B[:, 0], 1e-2, 12, 6, len(found), seed=5), atol=1e-6)


def test_stochastic_dual_descent_equals_the_recursion_of_the_paper():
    p = problem(n=60, rhs=1, noise=1e-1)
    solver = StochasticDualDescent(batch_size=20, averaging=0.1, step=0.7, tol=1e-12, max_epochs=20, seed=5)
    # the step is in units of an eigenvalue estimated on 500 rows, here all of them
    step = 0.7 / np.linalg.eigvalsh(p.K)[-1]
    found, _ = watched(p, solver)
    expected = stochastic_dual_descent(p.K, p.B[:, 0], 20, step, 0.9, 0.1, len(found), seed=5)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_gradient_descent_applies_a_power_of_one_matrix():
    p = problem(n=40, rhs=2)
    found = attempt(p.system, GradientDescent(step="constant", tol=1e-12, max_epochs=25))
    shrink = np.eye(40) - p.K / np.linalg.eigvalsh(p.K)[-1]
    left = np.linalg.matrix_power(shrink, 25) @ -p.W
    np.testing.assert_allclose(found.weights.numpy() - p.W, left, atol=1e-10)


def test_steepest_descent_satisfies_its_bound_and_successive_gradients_are_orthogonal():
    p = problem(n=40, rhs=1, noise=0.5)
    _, seen = watched(p, GradientDescent(tol=1e-12, max_epochs=12))
    lambdas = np.linalg.eigvalsh(p.K)
    kappa = lambdas[-1] / lambdas[0]
    errors = np.sqrt([p.squared_error(w) for w in seen.W])
    assert (errors[1:] <= (kappa - 1) / (kappa + 1) * errors[:-1] * (1 + 1e-9)).all()
    for r, after in zip(seen.R, seen.R[1:], strict=False):
        np.testing.assert_allclose((r * after).sum(), 0, atol=1e-9 * (r * r).sum())


def test_the_nystrom_preconditioner_equals_that_of_the_paper_up_to_a_factor():
    p = problem(n=50, noise=0.01)
    preconditioner = apviz.preconditioners.Nystrom(rank=12, seed=4)
    inverse = preconditioner.build(p.system.operator)(torch.eye(50, dtype=torch.float64)).numpy()
    k = p.K - 0.01 * np.eye(50)
    omega = np.linalg.qr(Draws(4).normal(50, 12))[0]
    approximation = k @ omega @ np.linalg.solve(omega.T @ k @ omega, omega.T @ k)
    values, vectors = np.linalg.eigh(approximation)
    values, vectors = values[-12:], vectors[:, -12:]
    theirs = (values[0] + 0.01) * vectors @ np.diag(1 / (values + 0.01)) @ vectors.T
    theirs += np.eye(50) - vectors @ vectors.T
    np.testing.assert_allclose(inverse * (values[0] + 0.01), theirs, atol=1e-5)


@pytest.mark.parametrize("solver", RIVALS, ids=name_of)
class TestEveryRival:
    def test_converges_to_the_direct_solution(self, solver):
        p = problem(n=60, rhs=3, noise=0.5)
        found = attempt(p.system, replace(solver, tol=1e-6, max_epochs=5000))
        assert found.converged and p.residual(found.weights.numpy()) < 1e-6

    def test_reports_the_residual_of_its_weights_and_energies_that_add_up(self, solver):
        p = problem(n=60, rhs=3, noise=0.5)
        seen = Watch()
        attempt(p.system, replace(solver, tol=1e-9, max_epochs=15), [seen])
        for w, r in zip(seen.W, seen.R, strict=True):
            np.testing.assert_allclose(p.B - p.K @ w, r, atol=1e-9)
        lowered = sum(float(u.energy_decrease) for u in seen.updates)
        np.testing.assert_allclose(lowered, -p.h(seen.W[-1]), rtol=1e-9)

    def test_right_hand_sides_do_not_influence_each_other(self, solver):
        p = problem(n=60, rhs=3, noise=0.5)
        solver = replace(solver, tol=1e-9, max_epochs=8)
        together = attempt(p.system, solver).weights.numpy()
        for k in range(3):
            alone = attempt(problem(n=60, noise=0.5, b=p.B[:, k]).system, solver).weights.numpy()
            np.testing.assert_allclose(together[:, k], alone, atol=1e-9)

    def test_continues_from_weights_and_accepts_noise_per_row_and_float32(self, solver):
        p = problem(n=60, rhs=2, noise=0.5)
        solver = replace(solver, tol=1e-5, max_epochs=5000)
        found = attempt(p.system, solver, initial_weights=p.W)
        assert found.converged and found.epochs <= 1
        noises = np.linspace(0.5, 1, 60)
        rows = apviz.KernelSystem(p.system.x, p.B, p.system.operator.kernel, noise=noises, device=DEVICE)
        w = attempt(rows, solver).weights.numpy()
        exact = scipy.linalg.solve(p.K - 0.5 * np.eye(60) + np.diag(noises), p.B, assume_a="pos")
        np.testing.assert_allclose(w, exact, atol=1e-3)
        single = problem(n=60, rhs=2, noise=0.5, dtype=torch.float32)
        assert attempt(single.system, solver).converged

    def test_settings_are_saved_and_read_back(self, solver):
        from apviz.solvers.serialization import from_plain, to_plain

        assert from_plain(json.loads(json.dumps(to_plain(solver)))) == solver


def test_an_epoch_costs_one_work_and_blocks_are_counted():
    p = problem(n=60, rhs=1, noise=0.5)
    sdd = attempt(p.system, StochasticDualDescent(batch_size=20, tol=1e-9, max_epochs=5, min_epochs=5))
    assert sdd.work - sdd.setup_work == pytest.approx(5 + 1)  # the 1 is B − KW at the end
    ask = attempt(p.system, ASkotch(block_size=20, rank=5, tol=1e-9, max_epochs=5))
    assert ask.work == pytest.approx(5 + 5 * 3 * (20 / 60) ** 2 + 1)


def test_no_more_factors_are_kept_than_allowed():
    p = problem(n=60, rhs=1, noise=0.1)
    few = attempt(p.system, CoordinateDescentPlusPlus(block_size=10, kept_blocks=3, tol=1e-9, max_epochs=10))
    assert few.work == pytest.approx(10 + 3 * (10 / 60) ** 2 + 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CoordinateDescentPlusPlus(block_size=0), "block_size must be a whole number, at least 1, got 0"),
        (lambda: ASkotch(block_size="big"), "block_size must be a whole number, at least 1, or 'auto', got 'big'"),
        (lambda: CoordinateDescentPlusPlus(kept_blocks=0), "kept_blocks must be a whole number"),
        (lambda: CoordinateDescentPlusPlus(regularisation=-1), "regularisation must be a finite number, at least 0"),
        (lambda: ASkotch(rank=0), "rank must be a whole number, at least 1"),
        (lambda: ASkotch(accelerated="no"), "accelerated must be True or False"),
        (lambda: StochasticDualDescent(momentum=1.0), "momentum must be a number from 0, below 1"),
        (lambda: StochasticDualDescent(step=0), "step must be a positive number"),
        (lambda: StochasticDualDescent(averaging=2.0), "averaging must be a number above 0, at most 1, or 'auto'"),
        (lambda: GradientDescent(step="fast"), "step must be one of exact, constant"),
        (lambda: GradientDescent(tol=0), "tol must be a positive relative residual"),
        (lambda: apviz.preconditioners.Nystrom(rank=0), "rank must be a whole number"),
    ],
)
def test_an_error_about_a_setting_names_it(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- compared with their authors' code --------------------------------------------------------------------------------


def residuals(system, solver):
    """Return the residuals after every update, starting with 1 before the first."""

    class Residuals(apviz.Hook):
        def __init__(self):
            self.seen = [1.0]

        def on_update(self, update):
            self.seen.append(float(update.squared_residual[0]) ** 0.5)

    hook = Residuals()
    attempt(system, solver, [hook])
    return np.array(hook.seen)


def systems_of_fidelity():
    """Return the systems and solvers of the authors' code in `fidelity.json`, by method."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2048, 8))
    kernel = apviz.RBF(lengthscale=math.sqrt(5))
    k = np.exp(-0.1 * ((x[:, None] - x[None]) ** 2).sum(-1)) + 1e-3 * np.eye(2048)
    b = k @ rng.normal(size=2048)
    yield (
        "CD++", apviz.KernelSystem(x, b, kernel, noise=1e-3, dtype=torch.float64, device=DEVICE),
        CoordinateDescentPlusPlus(block_size=100, tol=1e-12, max_epochs=40),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.5, 1.5, size=(1500, 1))
    y = (np.sin((x - 0.5) * 10) + np.cos((x + 0.2) * 5) + rng.normal(0, 0.2, size=(1500, 1)))[:, 0]
    kernel = apviz.Matern32(lengthscale=0.7, outputscale=1.44)
    yield (
        "SDD", apviz.KernelSystem(x, y, kernel, noise=0.04, dtype=torch.float64, device=DEVICE),
        StochasticDualDescent(batch_size=128, averaging=0.01, tol=1e-9, max_epochs=60),
    )  # fmt: skip
    x = torch.randn(10_000, 10, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    w = torch.randn(10, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    kernel = apviz.RBF(lengthscale=1.0)
    yield (
        "ASkotch", apviz.KernelSystem(x, torch.sign(x @ w), kernel, noise=0.01, dtype=torch.float64, device=DEVICE),
        ASkotch(block_size=1000, rank=100, tol=1e-9, max_epochs=15),
    )  # fmt: skip


@pytest.mark.slow
def test_every_pass_is_within_5_percent_of_the_authors_own_code():
    kept = json.loads(FIDELITY.read_text())["results"]
    for name, system, solver in systems_of_fidelity():
        found = residuals(system, solver)
        np.testing.assert_allclose(found[kept[name]["updates"]], kept[name]["residuals"], rtol=0.05, err_msg=name)
