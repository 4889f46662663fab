"""The worked examples of the guide: their numbers are those of dense algebra, and their code runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import apviz
from tests.notebooks.statements import matern52

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guide"
RESCUE, OWN_SOLVER = ((GUIDE / name).read_text("utf-8") for name in ("rescue.md", "own_solver.md"))


@pytest.fixture(scope="module")
def photograph():
    """Pixels of the rescued model, and 50 others: inputs and grey values in float64."""
    data = apviz.datasets.load("china", n=1000, seed=0)
    x, y, test_x, test_y = (each.double() for each in (data.train_x, data.train_y, data.test_x, data.test_y))
    return x, y, test_x[:50], test_y[:50]


def test_the_test_errors_and_the_iterations_of_the_rescue_are_those_of_its_matrix(photograph):
    x, y, test_x, test_y = (each.numpy() for each in photograph)
    every = matern52(np.concatenate([x, test_x]), 0.4, 0.55)
    prior, across = every[:1000, :1000], every[1000:, :1000]
    table = re.search(r"\| σ² \|(.*)\|\n.*\n\| test RMSE \|(.*)\|", RESCUE)
    for noise, said in zip(*(map(float, row.split("|")) for row in table.groups()), strict=True):
        mean = across @ np.linalg.solve(prior + noise * np.eye(1000), y)
        assert np.sqrt(np.mean((mean - test_y) ** 2)) == pytest.approx(said, abs=5e-4)
    values = np.linalg.eigvalsh(prior) + 2e-5
    root = np.sqrt(values[-1] / values[0])
    assert 0.5 * root * np.log(2 * root / 0.01) == pytest.approx(12_500, rel=0.01) and "12,500 iterations" in RESCUE


def test_five_copies_of_a_row_multiply_an_eigenvalue_by_five_and_add_zeros(photograph):
    once = matern52(photograph[0].numpy()[:40], 0.1, 0.55)
    values, copies = np.linalg.eigvalsh(once), np.linalg.eigvalsh(np.tile(once, (5, 5)))
    np.testing.assert_allclose(copies[-40:], 5 * values, rtol=1e-9)
    assert np.abs(copies[:-40]).max() < 1e-10 * copies[-1] and "eigenvalue 5λ" in RESCUE


def test_the_rescue_names_the_limits_that_apviz_and_gpytorch_have():
    from apviz.solvers.choosing.automatic import CHOLESKY_ROWS

    assert (
        f"takes Cholesky up to {CHOLESKY_ROWS:,} rows" in RESCUE and f"apviz does so up to {CHOLESKY_ROWS:,}" in RESCUE
    )
    gpytorch = pytest.importorskip("gpytorch")
    # in a process of its own, because BoTorch, which other tests import, raises the limit
    show = "import gpytorch; print(gpytorch.settings.max_cholesky_size.value())"
    limit = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert f"Cholesky up to {limit} rows" in RESCUE
    floor = gpytorch.likelihoods.GaussianLikelihood().noise_covar.raw_noise_constraint.lower_bound
    assert float(floor) == pytest.approx(1e-4) and "keeps it above 10⁻⁴" in RESCUE


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_rescue_finds_wrong_error_bars_and_mends_them(photograph):
    gpytorch = pytest.importorskip("gpytorch")
    x, y, test_x, _ = photograph

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-6))
    model = Model(likelihood).double()
    model.covar_module.outputscale, likelihood.noise = 0.55, 2e-5
    model.covar_module.base_kernel.lengthscale = 0.4
    likelihood.eval()
    names = {"apviz": apviz, "model": model, "likelihood": likelihood, "test_x": test_x}
    measure, change = re.findall(r"```python\n(.*?)```", RESCUE, re.DOTALL)
    with torch.no_grad():
        exec(measure.replace("print(", "found = ("), names)
        exec(change, names)
    before, after = names["found"].before, names["found"].after
    assert before.mean > 10 and before.variance > 20 and after.mean < 1e-4 and after.variance < 1.0001
    every = matern52(torch.cat([x, test_x]).numpy(), 0.4, 0.55)
    exact = every[1000:, :1000] @ np.linalg.solve(every[:1000, :1000] + 2e-5 * np.eye(1000), y.numpy())
    np.testing.assert_allclose(names["rescued"].mean.detach(), exact, atol=1e-5)


def test_the_entrant_of_the_guide_solves_and_its_first_sweep_costs_what_it_reads():
    from benchmarks.leaderboard.problem import Problem
    from benchmarks.leaderboard.systems import SYSTEMS

    names: dict = {}
    exec(re.search(r"```python\n([^`]*class Mine.*?)```", OWN_SOLVER, re.DOTALL)[1], names)
    given = SYSTEMS["china"](420, 0)
    problem, mine = Problem(given), names["Mine"]()
    mine.prepare(problem)
    n, sizes = len(given.x), np.array([len(rows) for rows in mine.blocks])
    mine.solve(given.b, 0.999)  # one sweep
    assert problem.work == pytest.approx(((sizes**2).sum() + n * sizes.sum()) / n**2)
    w = mine.solve(given.b, 1e-3)
    K = matern52(np.asarray(given.x), given.lengthscale, given.outputscale) + given.noise * np.eye(n)
    assert (np.linalg.norm(given.b - K @ w, axis=0) / np.linalg.norm(given.b, axis=0)).mean() < 1.05e-3


@pytest.mark.parametrize("seed", range(5))
def test_without_the_best_no_curve_of_a_profile_moves_to_the_right_and_some_may_stay(seed):
    costs = np.random.default_rng(seed).uniform(1, 9, size=(12, 4))
    costs[:, 3] = costs.min(axis=1) * np.where(np.arange(12) < 9, 0.5, 2)  # the best, but not of every task
    with_it, without = (costs[:, :3] / each.min(axis=1)[:, None] for each in (costs, costs[:, :3]))
    assert (without <= with_it).all() and (without < with_it).any() and (without == with_it).any()
    assert "no curve moves to the right" in OWN_SOLVER.replace("\n", " ")
