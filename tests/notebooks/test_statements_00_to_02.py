"""Statements of notebooks 00 to 02 about numbers and angles, recomputed with NumPy and SciPy alone."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
import scipy.linalg

import apviz
from tests.notebooks.statements import (
    TWO,
    cg,
    cosine_of_blocks,
    friedrichs,
    matern52,
    notebook,
    prose,
    ran,
    source_of,
    sweep,
)


def test_notebook_00_does_not_give_away_its_bet():
    cells = notebook("00").cells
    bet = next(place for place, cell in enumerate(cells) if cell.id == "bet")
    before = " ".join(cell.source for cell in cells[:bet] if cell.cell_type == "markdown")
    spoilers = r"interfer\w*|twice|half|double|fewer|faster|slower|quicker|better"  # codespell:ignore
    given_away = rf"\b({spoilers}|worse|undo\w*|wins?|lose)\b"  # codespell:ignore
    assert not re.findall(given_away, before, re.IGNORECASE)
    assert "Which twelve blocks need fewer updates" in cells[bet].source
    assert "**Why do scattered blocks interfere?**" in " ".join(cell.source for cell in cells[bet:])


@pytest.mark.slow
def test_of_the_lines_in_notebook_00_that_of_cg_alone_rises_above_where_it_began_after_a_first_fall():
    names = ran("00", "imports", "data", "system", "solve", "compare")
    scattered, neighbours, krylov = (each["epoch"]["residual"].values for each in names["recorder"].traces)
    assert krylov[1] < krylov[0] and krylov[2] > krylov[1] and krylov.max() > 1.2 * krylov[0]
    assert max(scattered[1:].max(), neighbours[1:].max()) < scattered[0]
    updates = [trace["update"].sizes["update"] for trace in names["recorder"].traces]
    assert 1.6 < updates[0] / updates[1] < 2 and "need little more than half the updates" in prose("00")
    errors = [trace["epoch"]["test_rmse"].values for trace in names["recorder"].traces]
    assert max(each[-1] for each in errors) < 1.005 * min(each[-1] for each in errors)
    assert "It is nearly the same for all three" in prose("00")
    # settled to 1% where the residual is still far from 0.01
    settled = int(np.argmax(np.abs(errors[0] / errors[0][-1] - 1) < 0.01))
    assert scattered[settled] > 0.05 and "the test RMSE settles long before the residual is 0.01" in prose("00")
    assert "does not lower the residual in every single update" in prose("00")
    assert any(
        (np.diff(trace["update"]["residual"].values.mean(1)) > 0).any() for trace in names["recorder"].traces[:2]
    )
    assert 'will rise above where it began?" (CG' in prose("00")


def test_after_twelve_updates_on_neighbours_the_residual_of_notebook_00_is_along_the_borders():
    data = apviz.datasets.load("china", n=3000, seed=0)
    h, x = data.card.hyperparameters, data.train_x.double().numpy()
    r = (data.train_y.double() - h.mean).numpy()
    blocks = [np.arange(3000)]
    while len(blocks) < 12:  # halves across the longest side, as in a k-d tree, and thirds at the end
        largest = max(blocks, key=len)
        axis = int(np.ptp(x[largest], axis=0).argmax())
        order = largest[np.argsort(x[largest, axis])]
        blocks = [each for each in blocks if each is not largest] + np.array_split(order, 3 if len(order) == 750 else 2)
    assert sorted(len(rows) for rows in blocks) == [250] * 12
    block_of = np.empty(3000, int)
    for number, rows in enumerate(blocks):
        block_of[rows] = number
    apart = np.linalg.norm(x[:, None] - x[None], axis=-1)
    to_another = np.where(block_of[:, None] == block_of, np.inf, apart).min(axis=1)
    for _ in range(12):
        rows = max(blocks, key=lambda rows: np.linalg.norm(r[rows]))
        K = matern52(x[rows], h.lengthscale, h.outputscale) + h.noise * np.eye(250)
        q = np.sqrt(5) * np.linalg.norm((x[:, None] - x[rows]) / np.asarray(h.lengthscale), axis=-1)
        columns = h.outputscale * (1 + q + q**2 / 3) * np.exp(-q)
        columns[rows] = K
        r = r - columns @ np.linalg.solve(K, r[rows])
    at_border, inside = (np.sqrt(np.mean(r[where] ** 2)) for where in (to_another < 0.05, to_another > 0.2))
    assert at_border > 2 * inside and "Along the borders of blocks." in prose("00")


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


@pytest.mark.parametrize("number", ["01", "01b", "04"])
def test_neighbourhoods_that_touch_meet_at_32_to_57_degrees_and_most_of_the_others_above_85(picture, pixels, number):
    K, _, blocks = picture
    x, factor = pixels[0], np.linalg.cholesky(K)
    pairs = list(combinations(blocks["kd-tree"], 2))
    gaps = [np.linalg.norm(x[one][:, None] - x[other][None], axis=-1).min() for one, other in pairs]
    touch = np.array(gaps) < 0.2  # the next gap is 0.28, and a pixel is about 0.07 from the nearest of its own block
    angles = np.array([np.degrees(np.arccos(cosine_of_blocks(factor, *pair))) for pair in pairs])
    assert touch.sum() == 13 and (round(angles[touch].min()), round(angles[touch].max())) == (32, 57)
    assert (angles[~touch] > 85).sum() == 13 and angles[~touch].min() > 75 and round(np.median(angles)) == 79
    text = prose(number)
    assert re.search(r"13 (of the 28 )?pairs (do, and|touch and) meet at 32° to 57°", text)
    assert re.search(r"13 (of these|others) (are nearly orthogonal, at|meet at) more than 85°", text)


def test_an_update_puts_back_up_to_cos_squared_of_what_it_removes_as_notebook_01_says(picture):
    K, _, blocks = picture
    one, other = (np.linalg.qr(np.linalg.cholesky(K)[rows].T)[0] for rows in blocks["sequential"][:2])
    cosines, v = np.linalg.svd(one.T @ other)[1:]
    # r is at a right angle to the first block; its projection onto the other has these coordinates
    draws = np.vstack([v[0], np.random.default_rng(0).standard_normal((50, 50))])
    shares = np.sum((draws @ other.T @ one) ** 2, axis=1) / np.sum(draws**2, axis=1)
    assert shares[0] == pytest.approx(cosines[0] ** 2) and (shares[1:] < shares[0]).all()
    assert np.cos(np.radians(30)) ** 2 == pytest.approx(0.75)
    assert r"up to $\cos^2 30° = 75\%$ of the squared norm that it removes" in prose("01")


def test_in_the_long_run_scattered_blocks_need_six_times_the_sweeps_and_notebook_01b_grades_that(picture):
    """The spectral radius without an eigenvalue: what a thousandth sweep leaves of the norm of all (Gelfand)."""
    K, _, blocks = picture
    rates = {}
    for partition in TWO:
        power = sweep(K, np.zeros((400, 400)), np.eye(400), blocks[partition])  # of errors of weights
        for _ in range(10):
            power, before = power @ power, power
        rates[partition] = (np.linalg.norm(power) / np.linalg.norm(before)) ** (1 / 512)
    text = prose("01b")
    said = re.search(
        r"In the long run a sweep leaves (0\.\d+) of the error on scattered blocks, and (0\.\d+) on neigh", text
    )
    assert [round(rates[partition], 3) for partition in TWO] == [float(each) for each in said.groups()]
    factor = np.log(rates["kd-tree"]) / np.log(rates["sequential"])
    assert factor == pytest.approx(6, abs=0.05) and "scattered blocks need six times as many sweeps" in text
    names = ran("01b", "imports", "photograph", "exercise-2", "check-2")
    assert names["right"] == round(factor)
    assert list(names["radius"].values()) == pytest.approx([rates[partition] for partition in TWO], rel=1e-4)


def test_the_first_sweeps_over_the_photograph_leave_what_notebook_01b_says(picture):
    K, b, blocks = picture
    goal, left, to_1_percent = np.linalg.solve(K, b), {}, []
    for partition in TWO:
        w, errors = np.zeros(400), [np.sqrt(goal @ b)]
        while errors[-1] > 0.01 * errors[0] or len(errors) < 11:
            w = sweep(K, b, w, blocks[partition])
            errors.append(np.sqrt((w - goal) @ K @ (w - goal)))
        left[partition] = np.divide(errors[1:], errors[:-1])
        to_1_percent.append(int(np.argmax(np.array(errors) <= 0.01 * errors[0])))
    said = re.search(r"the first of all leaves (0\.\d+) and (0\.\d+), the tenth (0\.\d+) and (0\.\d+)", prose("01b"))
    shares = [left[partition][place] for place in (0, 9) for partition in TWO]
    assert [round(share, 2) for share in shares] == [float(each) for each in said.groups()]
    assert round(np.log(shares[3]) / np.log(shares[2])) == 3 and "looks like a factor of three" in prose("01b")
    assert "Down to 1% of the error it takes {} sweeps against {}".format(*to_1_percent) in prose("01b")


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
    assert epochs["kd-tree"] < 0.5 * epochs["sequential"] and "neighbours need less than half" in prose("02")
    assert abs(iterations - 22) <= 2 and "Scattered blocks and CG come out about even" in prose("02")
    # at 400 rows the operations of Cholesky and of these products are about the same
    assert pytest.approx(400**3 / 3, rel=0.02) == 2 * 400**2 * 22 * 3


def test_the_dark_block_of_notebook_02_has_the_largest_norm_and_most_of_an_offer_comes_from_the_probes(picture):
    K, y, blocks = picture
    B = np.column_stack([y, np.random.default_rng(0).choice([-1.0, 1.0], size=(400, 2))])
    inverses = [np.linalg.inv(K[np.ix_(rows, rows)]) for rows in blocks["kd-tree"]]
    offers = np.array(
        [
            [0.5 * b[rows] @ inverse @ b[rows] for b in B.T]
            for rows, inverse in zip(blocks["kd-tree"], inverses, strict=True)
        ]
    )
    assert np.argmax([np.linalg.norm(B[rows]) for rows in blocks["kd-tree"]]) == 7 != offers.sum(1).argmax()
    assert (offers[:, 1:].sum(1) > 0.8 * offers.sum(1)).all()
    dark = y[blocks["kd-tree"][7]]
    assert dark.mean() == pytest.approx(-1.1, abs=0.05)
    assert 50 * dark.mean() ** 2 / np.sum(B[blocks["kd-tree"][7]] ** 2) == pytest.approx(1 / 3, abs=0.05)
    assert "its mean of -1.1 makes up a third of its squared norm" in source_of("02", "solution-3")
    assert 4 * 300_000**2 == 360e9 and "with 300,000 rows $K$ alone takes 360 GB in float32" in prose("02")


def test_the_operations_of_an_epoch_are_those_of_the_papers_table():
    n, b = 6_000, 500
    update = 2 * n + 2 * b**2 + b + 2 * n * b + n  # the rule, two triangular solves, W, K[:, I] U, R
    assert n / b * update == pytest.approx((2 + 3 / b) * n**2 + (2 * b + 1) * n, rel=1e-12)
