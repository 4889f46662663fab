"""What the notebooks say of numbers and of angles, computed anew with NumPy and SciPy alone."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path

import nbformat
import numpy as np
import pytest
import scipy.linalg
import torch

import apviz
from apviz.gp.probes import rademacher
from apviz.rkhs import blocks_of

ROOT = Path(__file__).resolve().parent.parent.parent


TWO = ("sequential", "kd-tree")


def notebook(number: str):
    (path,) = (ROOT / "notebooks").glob(f"{number}-*.ipynb")
    return nbformat.read(path, nbformat.NO_CONVERT)


def prose(number: str) -> str:
    """The text of a notebook, on one line."""
    return " ".join(" ".join(cell.source for cell in notebook(number).cells if cell.cell_type == "markdown").split())


def ran(number: str, *cells: str) -> dict:
    """The names that these cells of a notebook leave behind."""
    names: dict = {}
    sources = {cell.id: cell.source for cell in notebook(number).cells}
    for cell in cells:
        exec(compile(sources[cell], f"{number} {cell}", "exec"), names)
    return names


def matern52(x: np.ndarray, lengthscale, outputscale: float = 1.0) -> np.ndarray:
    q = np.sqrt(5) * np.linalg.norm((x[:, None] - x[None]) / np.asarray(lengthscale), axis=-1)
    return outputscale * (1 + q + q**2 / 3) * np.exp(-q)


def cg(K: np.ndarray, b: np.ndarray, iterations: int) -> list[np.ndarray]:
    """The iterates, from 0."""
    w, r = np.zeros_like(b), b.copy()
    p, found = r, [w]
    for _ in range(iterations):
        step = (r @ r) / (p @ K @ p)
        w, new = w + step * p, r - step * (K @ p)
        p, r = new + (new @ new) / (r @ r) * p, new
        found.append(w)
    return found


def best_of(space: np.ndarray, K: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The vector of the space that is nearest to K⁻¹b in the norm of K."""
    q, _ = np.linalg.qr(space)
    return q @ np.linalg.solve(q.T @ K @ q, q.T @ b)


def cosine_of_blocks(factor: np.ndarray, one, other) -> float:
    return float(np.cos(scipy.linalg.subspace_angles(factor[list(one)].T, factor[list(other)].T)[-1]))


@pytest.fixture(scope="module")
def picture(pixels):
    """K of the 400 pixels, their grey values, and eight blocks of 50, scattered and neighbours."""
    x, h = pixels
    data = apviz.datasets.load("china", n=1000, seed=0)
    K = matern52(x, h.lengthscale, h.outputscale) + h.noise * np.eye(len(x))
    span = apviz.rkhs.Span(x, h.build_kernel(), h.noise)
    blocks = {partition: [list(block) for block in blocks_of(span, 50, partition)] for partition in TWO}
    return K, (data.train_y[:400].double() - h.mean).numpy(), blocks


def sweep(K: np.ndarray, b: np.ndarray, w: np.ndarray, blocks) -> np.ndarray:
    for rows in blocks:
        w = w.copy()
        w[rows] += np.linalg.solve(K[np.ix_(rows, rows)], b[rows] - K[rows] @ w)
    return w


@pytest.fixture(scope="module")
def pixels():
    """Inputs of the photograph in float64, and its hyperparameters."""
    data = apviz.datasets.load("china", n=1000, seed=0)
    return data.train_x[:400].double().numpy(), data.card.hyperparameters


# 00


@pytest.mark.slow
def test_of_the_lines_in_notebook_00_that_of_cg_alone_rises_above_where_it_began_after_a_first_fall():
    names = ran("00", "imports", "data", "system", "solve", "compare")
    scattered, neighbours, krylov = (each["epoch"]["residual"].values for each in names["recorder"].traces)
    assert krylov[1] < krylov[0] and krylov[2] > krylov[1] and krylov.max() > 1.2 * krylov[0]
    assert max(scattered[1:].max(), neighbours[1:].max()) < scattered[0]
    updates = [trace["update"].sizes["update"] for trace in names["recorder"].traces]
    assert 1.6 < updates[0] / updates[1] < 2 and "need little more than half the updates" in prose("00")
    assert 'will rise above where it began?" (CG' in prose("00")


# 01


def friedrichs(one: np.ndarray, other: np.ndarray) -> float:
    """The cosine of the smallest angle between two column spaces that is not zero."""
    q, p = scipy.linalg.orth(one), scipy.linalg.orth(other)
    return max(c for c in np.linalg.svd(q.T @ p, compute_uv=False) if c < 1 - 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_two_subspaces_and_their_complements_have_the_same_friedrichs_angle(seed):
    draws = np.random.default_rng(seed)
    n, shared = int(draws.integers(9, 14)), int(draws.integers(0, 3))
    both = draws.standard_normal((n, shared))
    one, other = (np.hstack([both, draws.standard_normal((n, int(draws.integers(1, 4))))]) for _ in range(2))
    complements = [scipy.linalg.null_space(each.T) for each in (one, other)]
    assert friedrichs(one, other) == pytest.approx(friedrichs(*complements), rel=1e-8)


def test_noise_moves_scattered_blocks_apart_as_notebook_01_says(pixels):
    x, h = pixels
    factor = np.linalg.cholesky(matern52(x, h.lengthscale, h.outputscale) + 10 * h.noise * np.eye(len(x)))
    blocks = np.arange(400).reshape(8, 50)
    angles = [np.degrees(np.arccos(cosine_of_blocks(factor, *pair))) for pair in combinations(blocks, 2)]
    assert np.median(angles) == pytest.approx(60, abs=5)


# 01b


def test_sweeps_over_the_photograph_leave_what_notebook_01b_says(picture):
    K, b, blocks = picture
    goal, left = np.linalg.solve(K, b), {}
    for partition in TWO:
        iterates = [np.zeros(400)]
        for _ in range(10):
            iterates.append(sweep(K, b, iterates[-1], blocks[partition]))
        errors = [np.sqrt((w - goal) @ K @ (w - goal)) for w in iterates]
        left[partition] = np.divide(errors[1:], errors[:-1])
    said = re.search(r"it leaves (\d\.\d+) and (\d\.\d+)", prose("01b"))
    assert [round(left[partition][0], 2) for partition in TWO] == [float(each) for each in said.groups()]
    said = re.search(r"on scattered blocks left (\d\.\d+) of the error, that on neighbours (\d\.\d+)", prose("01b"))
    assert [round(left[partition][-1], 2) for partition in TWO] == [float(each) for each in said.groups()]
    assert round(np.log(left["kd-tree"][-1]) / np.log(left["sequential"][-1])) == 3
    assert "costs a factor of three in sweeps" in prose("01b")


# 02


def test_projection_and_cg_of_notebook_02_take_what_it_says(picture):
    K, y, blocks = picture
    B = np.column_stack([y, np.random.default_rng(0).choice([-1.0, 1.0], size=(400, 2))])
    size, epochs = np.linalg.norm(B, axis=0), {}
    for partition in TWO:
        W, epochs[partition] = np.zeros_like(B), 0
        while (np.linalg.norm(B - K @ W, axis=0) / size).mean() > 0.01:
            epochs[partition] += 1
            for _ in range(8):  # coordinate descent, without a residual that is carried along
                rows = max(blocks[partition], key=lambda rows: np.linalg.norm(B[rows] - K[rows] @ W))
                W[rows] += np.linalg.solve(K[np.ix_(rows, rows)], B[rows] - K[rows] @ W)
    paths = [cg(K, b, 40) for b in B.T]
    residuals = [
        [np.linalg.norm(b - K @ w) / np.linalg.norm(b) for w in path] for b, path in zip(B.T, paths, strict=True)
    ]
    iterations = int(np.argmax(np.mean(residuals, axis=0) < 0.01))
    assert "Why spend 22 times" in prose("02") and epochs["sequential"] == 22
    assert epochs["kd-tree"] < 0.5 * epochs["sequential"] and "neighbours need half" in prose("02")
    assert abs(iterations - 22) <= 2 and "Scattered blocks and CG come out about even" in prose("02")
    # at 400 rows the operations of Cholesky and of these products are about the same
    assert pytest.approx(400**3 / 3, rel=0.02) == 2 * 400**2 * 22 * 3


def test_the_operations_of_an_epoch_are_those_of_the_papers_table():
    n, b = 6_000, 500
    update = 2 * n + 2 * b**2 + b + 2 * n * b + n  # the rule, two triangular solves, W, K[:, I] U, R
    assert n / b * update == pytest.approx((2 + 3 / b) * n**2 + (2 * b + 1) * n, rel=1e-12)


# 03


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


# 04


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
    # in the complement of the first span, beside the nearest vector of the second
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


# 05


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


# 06


@pytest.mark.slow
def test_the_probes_of_notebook_06_give_an_unbiased_gradient_and_its_error_falls_as_one_over_root_l():
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


# 08


def test_no_two_pixels_are_nearer_than_the_arc_cosine_that_notebook_08_prints(pixels):
    x, h = pixels
    least = np.degrees(np.arccos(h.outputscale / (h.outputscale + h.noise)))
    assert least == pytest.approx(38.4, abs=0.05)
    for step in (1.0, 0.1, 1e-3):  # even if they came ever nearer
        K = matern52(step * x, h.lengthscale, h.outputscale) + h.noise * np.eye(len(x))
        cosines = K[~np.eye(len(x), dtype=bool)] / (h.outputscale + h.noise)
        angles = np.degrees(np.arccos(cosines))
        assert angles.min() >= least
    assert angles.min() == pytest.approx(least, abs=0.01)


def test_the_numbers_of_the_benchmarks_in_notebook_08_are_those_of_their_table():
    page = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    table = page.partition("<!-- the table of benchmarks.table -->")[2].partition("To smaller tolerances")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[3:] if "|" in line]
    taken = {row[0]: float(re.search(r"\*\*([\d.]+) \(", "|".join(row))[1]) for row in rows}
    kin40k = {work for name, work in taken.items() if name.startswith("kin40k")}
    others = {work for name, work in taken.items() if not name.startswith("kin40k")}
    text = prose("08")
    said = re.search(r"kin40k needs (\d+) to (\d+) work .* where all others need at most (\d+)\.", text)
    assert [int(each) for each in said.groups()] == [int(min(kin40k)), round(max(kin40k) + 0.01), np.ceil(max(others))]
    at_14000 = [row for row in rows if 13_000 < int(row[0].split(", ")[1].replace(",", "")) < 15_000]
    ratios = {row[0]: row[9].rstrip("×") for row in at_14000}
    known = {name: float(ratio) for name, ratio in ratios.items() if ">" not in ratio}
    said = re.search(r"between ([\d.]+) \(bike with one right-hand side, .*?\) and (\d+) times that of `auto`", text)
    assert min(known, key=known.get).startswith("bike") and float(said[1]) == min(known.values())
    assert int(said[2]) == round(max(known.values()))
    stopped = max((float(ratio.lstrip("> ")), name) for name, ratio in ratios.items() if ">" in ratio)
    assert stopped[1].startswith("kin40k") and f"more than {stopped[0]:.0f} times where it was stopped" in text


@pytest.fixture(scope="module")
def far():
    """The names of notebook 08 up to its block in the middle of the photograph."""
    pytest.importorskip("apviz.widgets", reason="the widgets need ipywidgets")
    return ran("08", "code-1", "code-2", "code-far")


@pytest.mark.slow
def test_of_the_columns_of_a_block_in_notebook_08_some_dozens_matter_outside_and_fewer_without_the_nearest(far):
    h, x, block, near = far["h"], far["pixels"].numpy(), far["block"], far["near"]
    q = np.sqrt(5) * np.linalg.norm((x[:, None] - x[block]) / np.asarray(h.lengthscale), axis=-1)
    columns = h.outputscale * (1 + q + q**2 / 3) * np.exp(-q)
    largest = np.linalg.eigvalsh(columns[block])[-1]
    counts = []
    for kept, fall in zip((block, near), far["falls"].values(), strict=True):
        others = np.setdiff1d(np.arange(len(x)), kept)
        values = scipy.linalg.svdvals(columns[others]) / largest
        np.testing.assert_allclose(fall[:60], values[:60], rtol=1e-6)
        counts.append((values > 1e-3).sum())
    assert 1.3 * counts[1] < counts[0] < 36 < 300 < len(block)
    assert "Of hundreds of columns some dozens matter" in prose("08") and "and fewer still" in prose("08")
    # near are those nearest to what the block owns
    owned = far["partition"].owned(far["middle"])
    distance = np.min([np.linalg.norm((x - each) / h.lengthscale, axis=1) for each in x[owned]], axis=0)
    outside = np.setdiff1d(near, block)
    assert distance[outside].max() <= distance[np.setdiff1d(np.arange(len(x)), near)].min() + 1e-5
    assert "photograph of 13,696 pixels" in prose("08") and len(x) == 13_696


@pytest.mark.slow
def test_poor_skeletons_in_notebook_08_cost_passes_and_no_digit_and_weights_in_float32_miss_the_tolerance(far):
    names = dict(far)
    sources = {cell.id: cell.source for cell in notebook("08").cells}
    exec(compile(sources["code-passes"], "08 code-passes", "exec"), names)
    solutions, passes = names["solutions"], [trace["pass"] for trace in names["recorder"].traces]
    every, good, poor = solutions
    assert all(solution.converged for solution in solutions) and names["large"].dtype == torch.float32
    assert (names["by_hand"] < 1e-8).all() and (names["rounded"] > 1e-8).all()
    np.testing.assert_allclose(names["by_hand"], [solution.residual for solution in solutions], rtol=0.01)
    assert passes[2].sizes["pass"] > passes[1].sizes["pass"] and good.work < 0.9 * min(poor.work, every.work)
    for found in passes[1:]:
        assert (found["residual"] > 1.05 * found["claimed_residual"])[:-1].all()
        assert found["residual"][-1] == pytest.approx(float(found["claimed_residual"][-1]), rel=0.1)
    assert not passes[2]["is_exact"][0] and all(found["is_exact"][-1] for found in passes)
    for found in passes:  # each takes 1.0 work, in which the recursion rests
        assert (np.diff(found["work"], prepend=0.0) > 1).all()
    assert torch.finfo(torch.float32).eps / 2 == pytest.approx(6e-8, rel=0.01) and r"$6 \cdot 10^{-8}$" in prose("08")


def test_auto_does_without_skeletons_that_drift_by_more_than_notebook_08_says():
    from apviz.solvers.alternating_projection import MAX_DRIFT
    from apviz.solvers.choices import SKELETON_ROWS

    assert f"would let the residual drift by more than {MAX_DRIFT:.0%}, `auto` does without" in prose("08")
    assert f"from {SKELETON_ROWS:,} rows on with skeletons" in prose("08")
