"""Statements of notebooks 03 and 04 about numbers and angles, recomputed with NumPy and SciPy alone."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import numpy as np
import pytest
import scipy.linalg
import torch

import apviz
from apviz.rkhs import blocks_of
from tests.notebooks.statements import ROOT, TWO, cg, friedrichs, matern52, notebook, prose, ran, sweep


def test_theorem_1_guarantees_more_than_steepest_descent_only_below_a_quarter_of_kappa():
    for kappa in np.geomspace(1.5, 1e6, 60):
        steepest = 2 * (np.log1p(1 / kappa) - np.log1p(-1 / kappa))  # −2 log((κ−1)/(κ+1)), without its rounding
        fixed = -2 * np.log1p(-1 / kappa)
        assert steepest >= 4 / kappa and fixed >= 2 / kappa
        for kappa_prime in np.geomspace(kappa / 4, kappa, 5):
            assert 1 / kappa_prime <= steepest
    # and for large κ they are that
    assert steepest == pytest.approx(4 / kappa, rel=1e-6) and fixed == pytest.approx(2 / kappa, rel=1e-5)


def test_descent_keeps_these_rates_and_reaches_them():
    draws = np.random.default_rng(0)
    for kappa in (3.0, 40.0, 900.0):
        values = np.concatenate([[1.0, kappa], draws.uniform(1, kappa, 8)])
        worst = np.zeros(10)
        worst[:2] = 1 / values[:2]
        for error in (*draws.standard_normal((20, 10)), worst):
            fixed = steepest = error
            for t in range(1, 12):
                r = values * steepest
                steepest = steepest - (r @ r) / (r @ (values * r)) * r
                fixed = (1 - values / kappa) * fixed
                start = values @ error**2
                assert values @ steepest**2 <= (1 + 1e-9) * start * ((kappa - 1) / (kappa + 1)) ** (2 * t)
                assert values @ fixed**2 <= start * np.exp(-2 * t / kappa)
        # Kantorovich's worst case, the last
        assert values @ steepest**2 == pytest.approx(start * ((kappa - 1) / (kappa + 1)) ** (2 * t), rel=1e-6)


def test_on_the_system_of_notebook_03_kappa_prime_is_half_of_kappa_and_projection_is_ahead_all_the_same():
    names = ran("03", "imports", "system", "proof-setting", "descent-numbers")
    K = matern52(names["x"][:, None], 0.2) + 0.3 * np.eye(120)
    values = np.linalg.eigvalsh(K)
    prime = max(np.linalg.eigvalsh(K[i : i + 15, i : i + 15])[-1] for i in range(0, 120, 15)) / values[0]
    assert values[-1] / values[0] == pytest.approx(2 * prime, rel=0.05)
    # by coordinate descent over the blocks, and by the textbook's loop
    y, w, steepest = names["y"], np.zeros(120), np.zeros(120)
    for _ in range(40):
        r = (y - K @ w).reshape(8, 15)
        rows = slice(15 * (k := int((r**2).sum(1).argmax())), 15 * k + 15)
        w[rows] += np.linalg.solve(K[rows, rows], r[k])
    for _ in range(5):
        r = y - K @ steepest
        steepest += (r @ r) / (r @ K @ r) * r
    goal = np.linalg.solve(K, y)
    left = [(e @ K @ e) / (goal @ K @ goal) for e in (w - goal, steepest - goal)]
    shares = [share for _, share in names["rates"].values()]
    assert [shares[0], shares[2]] == pytest.approx(left, rel=1e-6) and left[0] < 0.05 < 0.4 < left[1]


def test_on_the_photograph_the_plainest_rule_on_neighbours_beats_the_best_on_scattered_blocks(picture):
    K, b, blocks = picture
    w, cyclic = np.zeros(400), 0
    while np.linalg.norm(b - K @ w) > 0.01 * np.linalg.norm(b):
        w, cyclic = sweep(K, b, w, blocks["kd-tree"]), cyclic + 1
    w, greedy = np.zeros(400), 0
    while np.linalg.norm(b - K @ w) > 0.01 * np.linalg.norm(b):
        greedy += 1
        for _ in range(8):
            w = sweep(K, b, w, [max(blocks["sequential"], key=lambda rows: np.linalg.norm((b - K @ w)[rows]))])
    assert cyclic < greedy and 'check("cyclic", right' in "".join(cell.source for cell in notebook("03").cells)


def test_each_line_of_the_proof_in_notebook_03_loses_what_its_answer_says():
    names = ran("03", "imports", "system")
    K, r = matern52(names["x"][:, None], 0.2) + 0.3 * np.eye(120), names["y"].copy()
    values, goal, w = np.linalg.eigvalsh(K), np.linalg.solve(K, r), np.zeros(120)
    rows_of = np.arange(120).reshape(8, 15)
    highest = max(np.linalg.eigvalsh(K[np.ix_(rows, rows)])[-1] for rows in rows_of)
    lines = []
    for _ in range(80):
        rows = rows_of[(r.reshape(8, 15) ** 2).sum(1).argmax()]
        u = np.linalg.solve(K[np.ix_(rows, rows)], r[rows])
        decrease, error = 0.5 * r[rows] @ u, 0.5 * (w - goal) @ K @ (w - goal)
        on_block, on_all = r[rows] @ r[rows], r @ r
        lines.append([on_block / (2 * highest) / decrease, on_all / 8 / on_block, values[0] * error / (0.5 * on_all)])
        w[rows] += u
        r -= K[:, rows] @ u
    (first_2, first_3, first_4), (last_2, last_3, last_4) = np.median(lines[:8], axis=0), np.median(lines[-8:], axis=0)
    assert first_4 < min(first_2, first_3) and last_4 < min(last_2, last_3)  # line 4 loses the most
    assert (round(1 / last_4), round(1 / first_4)) == (4, 7) and "four to seven times as large" in prose("03")
    assert last_2 > first_2 and last_3 > first_3 and "Lines 2 and 3 lose less later in the solve" in prose("03")


def test_scattered_blocks_of_notebook_03_have_alike_residuals_and_neighbours_not_and_random_wastes_draws(picture):
    K, b, blocks = picture
    spread = {}
    for partition in TWO:
        r, ratios = b, []
        while np.linalg.norm(r) > 0.01 * np.linalg.norm(b):
            norms = np.array([np.linalg.norm(r[rows]) for rows in blocks[partition]])
            ratios.append(np.sort(norms)[-1] / np.sort(norms)[1])  # the smallest is that of the last block
            rows = blocks[partition][norms.argmax()]
            r = r - K[:, rows] @ np.linalg.solve(K[np.ix_(rows, rows)], r[rows])
        spread[partition] = np.median(ratios[1:])
    said = re.search(r"typically ([\d.]+) times the smallest with scattered blocks, and (\d+) times", prose("03"))
    assert [spread[partition] for partition in TWO] == pytest.approx([float(each) for each in said.groups()], rel=0.05)

    inverses = [np.linalg.inv(K[np.ix_(rows, rows)]) for rows in blocks["kd-tree"]]

    def epochs(orders) -> int:
        r = b
        for number, order in enumerate(orders, start=1):
            for j in order:
                r = r - K[:, blocks["kd-tree"][j]] @ (inverses[j] @ r[blocks["kd-tree"][j]])
            if np.linalg.norm(r) <= 0.01 * np.linalg.norm(b):
                return number
        raise AssertionError("not within the epochs that were drawn")

    draws = np.random.default_rng(0)
    mean = np.mean([epochs(draws.integers(8, size=(60, 8))) for _ in range(30)])
    assert mean == pytest.approx(18, abs=1.5) and "(18 on average over seeds)" in prose("03")
    assert mean / epochs([range(8)] * 60) == pytest.approx(2, abs=0.2) and "about twice as many epochs" in prose("03")
    assert round(100 * (7 / 8) ** 8) == 34 and r"$(7/8)^8 = 34\%$" in prose("03")


def test_notebook_03_and_the_page_of_mathematics_bound_shuffled_choice():
    """The bound itself is proved by numbers in tests/test_mathematics.py."""
    mathematics = " ".join((ROOT / "docs" / "mathematics.md").read_text("utf-8").split())
    assert r"(1 - \frac{1}{m \kappa'})^t \leq e^{-t / (m \kappa')}" in mathematics
    assert r"(1 - 1/(m\kappa'))^t \leq \exp(-t/(m\kappa'))" in prose("03")


def test_small_blocks_of_notebook_04_lie_above_the_line_because_of_their_diagonal(photograph):
    K, h = photograph
    n, diagonal = len(K), h.outputscale + h.noise
    largest = np.linalg.eigvalsh(K)[-1]

    def of_blocks(b: int) -> np.ndarray:
        return np.array([np.linalg.eigvalsh(K[i : i + b, i : i + b])[-1] for i in range(0, n, b)])

    text, ten = prose("04"), of_blocks(10)
    said = re.search(r"it gives ([\d.]+), where the mean block has ([\d.]+) and the largest ([\d.]+)\. The", text)
    assert [float(each) for each in said.groups()] == [
        round(value, 2) for value in (10 / n * largest, ten.mean(), ten.max())
    ]
    whole = {b: diagonal + (b - 1) / (n - 1) * (largest - diagonal) for b in (10, 25, 50, 100)}
    assert f"which is {whole[10]:.2f} for $b = 10$" in text and f"= {diagonal:.2f}$, whatever" in text
    for b, with_diagonal in whole.items():
        found = of_blocks(b)
        assert found.min() >= diagonal
        # the diagonal closes more than half of the gap of the mean block: not only the largest of many is above
        assert found.mean() > b / n * largest
        assert found.mean() - with_diagonal < 0.5 * (found.mean() - b / n * largest)
        assert found.mean() == pytest.approx(with_diagonal, rel=0.25)
    assert "because" not in text.partition("Small blocks lie far above")[2][:400]


def test_less_noise_in_notebook_04_costs_cg_a_factor_of_three_and_scattered_blocks_six_to_seven(photograph, pixels):
    K, h = photograph
    b = (apviz.datasets.load("china", n=1000, seed=0).train_y.double() - h.mean).numpy()
    values = np.linalg.eigvalsh(K)
    text = prose("04")
    assert f"\\lambda_{{\\min}} = {values[0]:.4f}$ and $\\sigma^2 = {h.noise:.4f}$" in text
    kappas, iterations, epochs = {}, {}, {}
    for noise in (0.1, 0.01):
        A = K + (noise - h.noise) * np.eye(1000)
        kappas[noise] = (values[-1] - h.noise + noise) / (values[0] - h.noise + noise)
        residuals = [np.linalg.norm(b - A @ w) for w in cg(A, b, 110)]
        iterations[noise] = int(np.argmax(np.array(residuals) < 0.01 * residuals[0]))
        inverses = [np.linalg.inv(A[i : i + 100, i : i + 100]) for i in range(0, 1000, 100)]
        r, epochs[noise] = b, 0
        while np.linalg.norm(r) > 0.01 * np.linalg.norm(b):
            epochs[noise] += 1
            for _ in inverses:
                j = int((r.reshape(10, 100) ** 2).sum(1).argmax())
                r = r - A[:, 100 * j : 100 * j + 100] @ (inverses[j] @ r[100 * j : 100 * j + 100])
    assert 9 < kappas[0.01] / kappas[0.1] < 10 and "almost ten times the condition number" in text
    assert (
        iterations[0.01] / iterations[0.1] == pytest.approx(3, abs=0.25) and "about three times the iterations" in text
    )
    assert 6 < epochs[0.01] / epochs[0.1] < 7.5 and "grow six- to sevenfold" in text


def test_of_the_mean_over_random_choices_the_squared_error_keeps_to_the_bound_of_notebook_04_and_the_error_does_not():
    """Two rows of correlation c, by hand: μ = 1 − c, and r = (1, −1) is the slowest error."""
    for c in (0.5, 0.9, 0.99):
        K = np.array([[1, c], [c, 1]])
        mu = np.linalg.eigvalsh(K)[0]  # the blocks on the diagonal are 1
        squared = []
        for first in (0, 1):
            for second in (0, 1):
                r = np.array([1.0, -1.0])
                for j in (first, second):
                    r = r - K[:, j] * r[j]
                squared.append(r @ np.linalg.solve(K, r))
        left = np.mean(squared) / (2 / (1 - c))  # of an epoch, m = 2 updates
        assert left == pytest.approx((1 + c) / 2 * (1 + c**2) / 2)
        assert np.exp(-2 * mu) < left <= np.exp(-mu)
    assert r"the *squared* error after $t$ epochs is at most $e^{-t \lambda_{\min}(D^{-1} K)}$" in prose("04")


def test_every_pair_of_random_handfuls_is_near_30_degrees_and_of_a_tree_only_few_are(pixels):
    x, h = pixels
    factor = np.linalg.cholesky(matern52(x, h.lengthscale, h.outputscale) + h.noise * np.eye(len(x)))
    span = apviz.rkhs.Span(x, h.build_kernel(), h.noise)
    angles = {}
    for partition in ("sequential", "kd-tree"):
        blocks = [list(block) for block in blocks_of(span, 50, partition)]
        angles[partition] = np.array(
            [
                np.degrees(scipy.linalg.subspace_angles(factor[one].T, factor[other].T)[-1])
                for one, other in combinations(blocks, 2)
            ]
        )
    handfuls, tree = angles["sequential"], angles["kd-tree"]
    assert len(tree) == 28 and "all 28 pairs" in "".join(cell.source for cell in notebook("04").cells)
    assert handfuls.min() > 25 and handfuls.max() < 35
    assert (tree < 35).sum() <= 4 and np.median(tree) > 75 and (tree > 85).sum() >= 10
    assert "*every* pair of them meets at an angle near 30°" in prose("04")


@pytest.mark.parametrize("seed", range(5))
def test_the_first_sweep_may_leave_cos_and_every_later_one_leaves_cos_squared_at_the_worst(seed):
    draws = np.random.default_rng(seed)
    n = 12
    one, other = (scipy.linalg.orth(draws.standard_normal((n, 4))) for _ in range(2))
    q1, q2 = (np.eye(n) - basis @ basis.T for basis in (one, other))
    cos = friedrichs(one, other)
    v = np.linalg.svd(one.T @ other)[2]
    # in the complement of the first span, closest to the nearest vector of the second
    worst = q1 @ (other @ v[0])
    common = scipy.linalg.null_space(np.hstack([one, other]).T)
    for f in (worst, *draws.standard_normal((50, n))):
        f = f - common @ (common.T @ f)
        left = [np.linalg.norm(np.linalg.matrix_power(q2 @ q1, k) @ f) for k in range(6)]
        assert left[1] <= (1 + 1e-9) * cos * left[0]
        assert all(after <= (1 + 1e-9) * cos**2 * before for before, after in pairwise(left[1:]))
        if f is worst or np.allclose(f, worst):
            assert left[1] == pytest.approx(cos * left[0]) and cos * left[0] > cos**2 * left[0]


def test_the_smallest_eigenvalue_in_kappa_prime_is_that_of_the_whole_and_not_of_a_block():
    # every third point in a block: none holds neighbours
    x = np.linspace(0, 1, 60).reshape(20, 3).T.reshape(60, 1)
    K = np.exp(-np.abs(x - x.T) / 0.3) + 1e-3 * np.eye(60)
    blocks = [K[i : i + 20, i : i + 20] for i in (0, 20, 40)]
    largest = max(np.linalg.eigvalsh(block)[-1] for block in blocks)
    recorder = apviz.Recorder(spectrum="exact")
    system = apviz.KernelSystem(
        x, np.sin(9 * x[:, 0]), apviz.Matern12(lengthscale=0.3), noise=1e-3, dtype=torch.float64
    )
    apviz.solve(system, apviz.AlternatingProjection(block_size=20, max_epochs=500), hooks=[recorder])
    recorded = float(recorder.trace["spectrum"]["kappa_prime"])
    # λ′max comes from a few steps of power iteration, which may miss some per cent of it
    assert recorded == pytest.approx(largest / np.linalg.eigvalsh(K)[0], rel=0.03)
    assert min(np.linalg.eigvalsh(block)[0] for block in blocks) > 1.1 * np.linalg.eigvalsh(K)[0]
