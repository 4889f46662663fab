"""Statements of notebooks 05 and 08 about numbers and angles, recomputed with NumPy and SciPy alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz.gp.training.probes import rademacher
from tests.notebooks.statements import best_of, cg, matern52, prose, ran, source_of, sweep


def shares(preset: str) -> np.ndarray:
    """(iterations + 1, n) λᵢ(vᵢᵀ(w−w*))² of CG on a preset of the widget, the largest λ first."""
    widgets = pytest.importorskip("apviz.widgets", reason="the widgets need ipywidgets")
    widget = widgets.CGAgainstProjection()
    widget.choose(preset)
    trajectory = widget.paths[0].trajectory
    K = matern52(trajectory.span.x, widget.lengthscale) + widget.noise * np.eye(trajectory.span.n)
    values, vectors = np.linalg.eigh(K)
    errors = [w - np.linalg.solve(K, trajectory.b) for w in cg(K, trajectory.b, 10)]
    return np.array([values * (vectors.T @ error) ** 2 for error in errors])[:, ::-1]


def test_cg_lets_the_largest_eigenvalues_wait_as_notebook_05_says():
    text = prose("05")
    found = shares("CG's residual rises first")
    first_four, smallest = found[:, :4].sum(1), found[:, -20:].sum(1)
    grown = first_four[1:6] / first_four[0]
    assert (round(grown.min(), 1), round(grown.max())) == (6.5, 17)
    assert "along the four largest is 6.5 to 17 times its start in iterations 1 to 5" in text
    assert round(100 * smallest[5] / smallest[0]) == 12 and "twenty smallest is down to 12%" in text
    assert first_four[6] > first_four[0] and first_four[7] < 0.02 * first_four[0] and "only in iteration 7" in text
    assert round(100 * first_four[0] / found[0].sum(), 1) == 0.3 and "the four largest hold 0.3% of it" in text
    assert (np.diff(found.sum(1)) < 0).all()  # what it minimises falls
    curve = shares("a smooth curve")[:, :4].sum(1)
    assert curve[2] < 0.03 * curve[0] and round(100 * curve[3:7].max() / curve[0]) == 71 and curve[7] < 0.02 * curve[0]
    assert "come back up to 71%" in text


def test_the_zeros_of_cgs_polynomial_are_where_notebook_05_says(picture):
    K, b, _ = picture
    values, text = np.linalg.eigvalsh(K), prose("05")
    krylov = np.linalg.qr(np.column_stack([np.linalg.matrix_power(K / values[-1], t) @ b for t in range(8)]))[0]
    zeros = [np.linalg.eigvalsh(krylov[:, :t].T @ K @ krylov[:, :t]) for t in (1, 8)]
    assert round(zeros[0][0]) == 6 and "at 6, where the largest is 10.7" in text and round(values[-1], 1) == 10.7
    assert (values < 0.25).sum() == pytest.approx(250, abs=10) and "250 of the 400 crowd" in text
    assert (zeros[1] < 0.25).sum() == 1 and round(zeros[1][0], 1) == 0.2 and "a single one, at 0.2" in text
    assert values.mean() == pytest.approx(0.67, abs=0.005) and r"$s + \sigma^2 = 0.67$" in text


def test_batched_cg_takes_the_best_of_each_columns_own_krylov_space_and_not_of_all_together():
    draws = np.random.default_rng(0)
    x, B = np.sort(draws.uniform(size=50))[:, None], draws.standard_normal((50, 3))
    K = matern52(x, 0.15) + 0.05 * np.eye(50)
    system = apviz.KernelSystem(x, B, apviz.Matern52(lengthscale=0.15), noise=0.05, dtype=torch.float64)
    for t in (1, 3, 5):
        W = apviz.solve(system, apviz.ConjugateGradient(tol=1e-12, max_epochs=t)).weights.numpy()
        powers = [np.linalg.matrix_power(K, power) @ B for power in range(t)]
        for column in range(3):
            b, goal = B[:, column], np.linalg.solve(K, B[:, column])
            own = best_of(np.column_stack([power[:, column] for power in powers]), K, b)
            together = best_of(np.hstack(powers), K, b)
            np.testing.assert_allclose(W[:, column], own, atol=1e-7 * np.abs(goal).max())
            error, least = ((w - goal) @ K @ (w - goal) for w in (own, together))
            assert least < 0.99 * error


@pytest.mark.slow
def test_who_is_first_in_notebook_05_depends_on_the_tolerance_as_it_says():
    names = ran("05", "code-1", "code-5")
    work = {}
    for row in names["rows"]:
        for tol in (1, 0.1, 0.01):
            found = row[f"work to {tol}"]
            work.setdefault((row["system"], tol), {})[row["solver"]] = np.inf if found == "–" else float(found)
    assert all(of["AP"] < of["CG"] for (_, tol), of in work.items() if tol == 1)  # ahead everywhere
    first_epoch = [of["AP"] < 1.5 for (_, tol), of in work.items() if tol == 1]
    assert sum(first_epoch) > len(first_epoch) / 2 and "mostly with its first epoch" in prose("05")
    for (system, tol), of in work.items():
        if system == "photograph, σ² = 0.001":
            assert (of["CG"] < of["AP"]) == (tol < 1)  # early
        elif tol == 0.1:
            assert of["AP"] < of["CG"], system  # late or never


@pytest.mark.slow
def test_rounding_costs_cg_iterations_as_notebook_05_says_and_projection_no_epoch():
    names = ran("05", "code-1", "code-6")
    taken = names["rows"]  # as words, by solver, dtype and noise
    noises = dict.fromkeys(noise for _, _, noise in taken)
    more = [
        int(taken["CG: iterations", "float32", noise]) / int(taken["CG: iterations", "float64", noise])
        for noise in noises
    ]
    assert more == sorted(more) and 1.02 < more[0] < 1.12 and 1.18 < more[-1] < 1.32
    assert "7% more with the fitted $\\sigma^2$ and 25% more with 0.001" in prose("05")
    for noise in noises:
        assert len({taken["AP, k-d tree: epochs", dtype, noise] for dtype in ("float32", "float64")}) == 1


def test_draws_of_the_prior_in_notebook_08_leave_the_band_as_it_says():
    at = np.linspace(-1.05, 1.05, 300)[:, None]
    root = np.linalg.cholesky(matern52(at, 0.25) + 1e-8 * np.eye(300))
    shown = root @ torch.randn(300, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).numpy()
    assert "manual_seed(3)" in source_of("08", "prior") and "lengthscale=0.25" in source_of("08", "prior")
    assert (np.abs(shown).max(axis=0) > 2).sum() == 2 and "here two of the four do" in prose("08")
    many = root @ np.random.default_rng(0).standard_normal((300, 4000))
    assert (
        np.mean(np.abs(many) < 2) == pytest.approx(0.95, abs=0.01) and "at any one place 95% of" in prose("08").lower()
    )
    assert np.mean(np.abs(many).max(axis=0) > 2) == pytest.approx(0.4, abs=0.05)
    assert "four draws in ten leave it somewhere" in prose("08")


def test_solves_that_stop_early_bias_the_gradient_of_notebook_08_by_what_it_says():
    data = apviz.datasets.load("diabetes", seed=0, dtype=torch.float64)
    h, x, y = data.card.hyperparameters, data.train_x.numpy(), data.train_y.numpy()
    n, prior = len(x), matern52(data.train_x.numpy(), h.lengthscale, h.outputscale)
    z, off = np.sqrt(n) * np.eye(n), {}
    B = np.column_stack([y - h.mean, z])
    for noise in (h.noise / 2, h.noise):
        K = prior + noise * np.eye(n)
        blocks = np.split(np.arange(n), range(50, n, 50))
        inverses = [np.linalg.inv(K[np.ix_(rows, rows)]) for rows in blocks]

        def gradient(W):
            """∂ℓ/∂σ² and ∂ℓ/∂s; K = s·k + σ²I."""
            return np.array(
                [
                    -0.5 * W[:, 0] @ slope @ W[:, 0] + 0.5 * np.sum(W[:, 1:] * (slope @ z)) / n
                    for slope in (np.eye(n), prior / h.outputscale)
                ]
            )

        W, R, found = np.zeros_like(B), B.copy(), {}
        for epoch in range(1, 12):
            for _ in blocks:
                j = int(np.argmax([np.sum(R[rows] ** 2) for rows in blocks]))
                U = inverses[j] @ R[blocks[j]]
                W[blocks[j]] += U
                R -= K[:, blocks[j]] @ U
            found[epoch] = gradient(W)
            assert (np.linalg.norm(R, axis=0) / np.linalg.norm(B, axis=0)).mean() < 1  # "which one epoch reaches"
        exact = gradient(np.linalg.solve(K, B))
        off[noise] = {epoch: np.abs(found[epoch] - exact) / np.abs(exact) for epoch in (1, 11)}
        if noise == h.noise / 2:
            assert (np.sign(found[1]) == np.sign(exact)).all()  # it points the right way
        else:
            assert (np.sign(found[11]) != np.sign(exact)).any()  # at the optimum signs are not settled
    assert 0.18 < off[h.noise / 2][1].min() < 0.25 and 0.5 < off[h.noise / 2][1].max() < 0.6
    assert off[h.noise / 2][11].max() < 0.05 and "right to a few per cent" in prose("08")
    assert "off by a fifth to a little over a half" in prose("08")


#: where the training of notebook 08 by CG is at its 40th step: lengthscales, outputscale, σ², mean
LAST_OF_CG = ((0.0857, 0.172), 1.174, 0.0647, -0.032)


def stopped_cg(K: np.ndarray, B: np.ndarray, least: int = 11) -> np.ndarray:
    """Return W once the mean relative residual is below 1, after at least `least` iterations."""
    w, r = np.zeros_like(B), B.copy()
    p, done = r, 0
    while done < least or (np.linalg.norm(r, axis=0) / np.linalg.norm(B, axis=0)).mean() >= 1:
        step = (r**2).sum(0) / (p * (K @ p)).sum(0)
        w, new = w + step * p, r - step * (K @ p)
        p, r, done = new + (new**2).sum(0) / (r**2).sum(0) * p, new, done + 1
    return w


def test_where_cg_stops_in_notebook_08_most_of_the_error_is_gone_and_hardly_anything_left_of_the_gradient():
    lengthscales, outputscale, noise, mean = LAST_OF_CG
    data = apviz.datasets.load("china", n=1000, seed=0)
    x, y = data.train_x.double().numpy(), data.train_y.double().numpy()
    K = matern52(x, lengthscales, outputscale) + noise * np.eye(1000)
    values, vectors = np.linalg.eigh(K)
    for seed in range(2):
        B = np.column_stack([y - mean, np.random.default_rng(seed).choice([-1.0, 1.0], size=(1000, 15))])
        W, goal = stopped_cg(K, B), np.linalg.solve(K, B)
        residuals = np.linalg.norm(B - K @ W, axis=0) / np.linalg.norm(B, axis=0)
        assert 0.85 < residuals.mean() < 1
        along = np.sqrt(values)[:, None] * (vectors.T @ (W - goal))
        left = (along**2).sum(0) / (goal * B).sum(0)
        # that of the residual near 1 is no measure of it: the probes have the larger one, and less error left
        assert residuals[1:].mean() > residuals[0] and 0.05 < left[1:].mean() < left[0] < 0.2
        # what is left of the targets is where eigenvalues are small
        assert (along[values < np.median(values), 0] ** 2).sum() > 0.5 * (along[:, 0] ** 2).sum()
        first, trace = (0.5 * (W[:, 0] @ W[:, 0]), 0.5 * (W * B).sum(0)[1:].mean())
        true_first, true_trace = 0.5 * (goal[:, 0] @ goal[:, 0]), 0.5 * (goal * B).sum(0)[1:].mean()
        # zᵀw is short of zᵀK⁻¹z by the squared K-norm that is left
        assert 1 - trace / true_trace == pytest.approx(np.average(left[1:], weights=(goal * B).sum(0)[1:]))
        assert 1 - first / true_first > 3 * (1 - trace / true_trace)
        assert -true_first + true_trace < 0 and abs(trace - first) < 0.2 * (true_first - true_trace)
    text = prose("08")
    assert "A residual near 1 does not mean that little was solved" in text
    assert "of the probes more than of the targets" in text
    assert "would raise $\\sigma^2$ again; hardly anything remains of it" in text


@pytest.mark.slow
def test_the_training_of_notebook_08_by_cg_ends_where_the_test_above_begins():
    names = ran("08", "code-1")
    settings = apviz.TrainingSettings(solver=apviz.ConjugateGradient(tol=1.0, min_epochs=11), steps=40)
    training = apviz.Training(names["x"], names["y"], settings, dataset="china")
    training.run()
    h = training.trace.hyperparameters_at(40)
    found = [*h.lengthscale, h.outputscale, h.noise, h.mean]
    lengthscales, *others = LAST_OF_CG
    np.testing.assert_allclose(found, [*lengthscales, *others], rtol=0.1, atol=0.02)


@pytest.mark.slow
def test_the_probes_of_notebook_08_give_an_unbiased_gradient_and_its_error_falls_as_one_over_root_l():
    data = apviz.datasets.load("diabetes", seed=0, dtype=torch.float64)
    h, x, y = data.card.hyperparameters, data.train_x.numpy(), data.train_y.numpy()
    K = matern52(x, h.lengthscale, h.outputscale) + h.noise * np.eye(len(x))
    inverse = np.linalg.inv(K)
    w = inverse @ (y - h.mean)
    exact, spread = 0.5 * np.trace(inverse) - 0.5 * w @ w, {}
    for count in (1, 4, 16):
        z = [rademacher(len(x), count, 7000 * count + seed, data.train_x).z.numpy() for seed in range(1000)]
        found = [0.5 * np.mean(np.sum(each * (inverse @ each), axis=0)) - 0.5 * w @ w for each in z]
        spread[count] = np.std(found, ddof=1)
        assert abs(np.mean(found) - exact) < 3 * spread[count] / np.sqrt(1000)
    assert spread[1] / spread[4] == pytest.approx(2, rel=0.1) and spread[4] / spread[16] == pytest.approx(2, rel=0.1)


def test_the_photograph_of_notebook_08b_looks_finished_before_its_means_are_within_an_error_bar(photograph):
    K, h = photograph
    x = apviz.datasets.load("china", n=1000, seed=0)
    points, b = x.train_x.double().numpy(), (x.train_y - h.mean).double().numpy()
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 93), np.linspace(-1, 1, 138), indexing="ij"), -1).reshape(-1, 2)[::7]
    cross = matern52(np.concatenate([points, grid]), h.lengthscale, h.outputscale)[1000:, :1000]
    sd = np.sqrt(h.outputscale - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T)))
    blocks, w, off = np.split(np.arange(1000), 10), np.zeros(1000), {}
    exact = cross @ np.linalg.solve(K, b)
    for tol in (0.5, 0.1, 0.01):
        while np.linalg.norm(b - K @ w) > tol * np.linalg.norm(b):
            for _ in blocks:
                rows = max(blocks, key=lambda rows: np.linalg.norm((b - K @ w)[rows]))
                w = sweep(K, b, w, [rows])
        off[tol] = np.max(np.abs(cross @ w - exact) / sd)
    assert 1 < off[0.1] < 2 < off[0.5] and "some of its means are off by more than an error bar" in prose("08b")
    assert off[0.01] == pytest.approx(0.1, abs=0.05) and "the worst is off by a tenth of an error bar" in prose("08b")
