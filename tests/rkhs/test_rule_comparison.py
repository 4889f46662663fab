"""The four rules on one system, against dense NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import apviz
from apviz.rkhs import RULES, RuleComparison, Span, compare_rules, toy_problem

STEPS = 16


@pytest.fixture(scope="module", params=["even", "crowded"])
def run(request: pytest.FixtureRequest) -> tuple[RuleComparison, np.ndarray, np.ndarray]:
    """Return a comparison, its K by the formula of the kernel, and its b."""
    x, b = toy_problem(request.param, 24)
    r = np.sqrt(5) * np.abs(x[:, None] - x[None]) / 0.1
    k = (1 + r + r**2 / 3) * np.exp(-r) + 0.05 * np.eye(24)
    return compare_rules(Span(x, apviz.Matern52(lengthscale=0.1), 0.05), b, block_size=4, steps=STEPS, seed=3), k, b


def energy(k: np.ndarray, b: np.ndarray, w: np.ndarray) -> float:
    return float(0.5 * w @ k @ w - b @ w)


def own_solve(k: np.ndarray, b: np.ndarray, blocks: list[int]) -> np.ndarray:
    """Return the weights after updates of these blocks of 4."""
    w = np.zeros(len(b))
    for block in blocks:
        rows = slice(4 * block, 4 * block + 4)
        w[rows] += np.linalg.solve(k[rows, rows], (b - k @ w)[rows])
    return w


@pytest.mark.parametrize("rule", RULES)
def test_an_offer_is_the_possible_decrease_of_the_energy(run, rule):
    found, k, b = run
    for number in (0, 5, STEPS):
        w = own_solve(k, b, [step.block for step in found.trajectories[rule].steps[1 : number + 1]])
        choices = found.choices(rule, number)
        for block in range(6):
            unit = np.zeros(24)
            rows = slice(4 * block, 4 * block + 4)
            unit[rows] = np.linalg.solve(k[rows, rows], (b - k @ w)[rows])
            fall = energy(k, b, w) - energy(k, b, w + unit)
            assert choices.decrease_per_block[block] == pytest.approx(fall, rel=1e-6, abs=1e-11)


def test_the_remaining_energy_is_that_above_the_solution(run):
    found, k, b = run
    w = own_solve(k, b, [step.block for step in found.trajectories["random"].steps[1:8]])
    above = energy(k, b, w) - energy(k, b, np.linalg.solve(k, b))
    assert found.choices("random", 7).left == pytest.approx(above, rel=1e-8)


@pytest.mark.parametrize("rule", RULES)
def test_the_block_of_gauss_southwell_removes_at_least_the_guarantee_of_theorem_1_in_every_state(run, rule):
    found, k, b = run
    largest = max(np.linalg.eigvalsh(k[rows : rows + 4, rows : rows + 4])[-1] for rows in range(0, 24, 4))
    assert found.lambda_max_block == pytest.approx(largest, rel=1e-10)
    for number in range(STEPS + 1):
        choices = found.choices(rule, number)
        w = own_solve(k, b, [step.block for step in found.trajectories[rule].steps[1 : number + 1]])
        assert choices.guaranteed == pytest.approx(np.sum((b - k @ w) ** 2) / (2 * 6 * largest), rel=1e-6)
        assert choices.decrease_per_block[choices.taken["gauss-southwell"]] >= choices.guaranteed


def test_no_block_removes_more_than_the_remaining_energy(run):
    found, _, _ = run
    for number in range(STEPS + 1):
        choices = found.choices("cyclic", number)
        assert choices.decrease_per_block.max() <= choices.left * (1 + 1e-9)


def test_each_rule_chooses_the_block_of_its_definition(run):
    found, k, b = run
    for number in (0, 3, 9):
        choices = found.choices("cyclic", number)
        assert choices.taken["cyclic"] == number % 6
        w = own_solve(k, b, [step % 6 for step in range(number)])
        norms = np.linalg.norm((b - k @ w).reshape(6, 4), axis=1)
        np.testing.assert_allclose(choices.norms, norms, atol=1e-10)
        assert choices.taken["gauss-southwell"] == norms.argmax()
    shuffled = [found.choices("gauss-southwell", number).taken["shuffled"] for number in range(12)]
    assert sorted(shuffled[:6]) == sorted(shuffled[6:]) == list(range(6))


def test_the_norm_in_h_never_rises_and_the_ranking_sorts_by_it(run):
    found, k, b = run
    for rule, errors in found.errors.items():
        assert errors[0] == 1 and len(errors) == STEPS + 1 and (np.diff(errors) <= 1e-12).all()
        w = own_solve(k, b, [step.block for step in found.trajectories[rule].steps[1 : STEPS + 1]])
        gap = w - np.linalg.solve(k, b)
        start = b @ np.linalg.solve(k, b)
        assert errors[-1] == pytest.approx(np.sqrt(gap @ k @ gap / start), rel=1e-6)
    ends = [found.errors[rule][STEPS] for rule in found.ranking(STEPS)]
    assert ends == sorted(ends)


def test_the_largest_residual_norm_does_not_always_remove_the_most_energy():
    x, b = toy_problem("crowded", 36)
    found = compare_rules(Span(x, apviz.Matern52(lengthscale=0.1), 0.1), b, block_size=6, steps=STEPS)
    assert found.suboptimal_updates()
    for number in range(STEPS):
        choices = found.choices("gauss-southwell", number)
        assert choices.greedy_is_best == (number + 1 not in found.suboptimal_updates())
        assert choices.decrease_per_block[choices.best] >= choices.decrease_per_block[choices.taken["gauss-southwell"]]


def test_another_seed_changes_only_random_and_shuffled_blocks():
    x, b = toy_problem("even", 24)
    first, second = (
        compare_rules(Span(x, apviz.Matern52(lengthscale=0.1), 0.05), b, block_size=4, steps=12, seed=seed)
        for seed in (0, 1)
    )
    for rule in RULES:
        same = [one.block for one in first.trajectories[rule].steps] == [
            two.block for two in second.trajectories[rule].steps
        ]
        assert same == (rule in ("gauss-southwell", "cyclic"))


def test_a_race_of_one_block_ends_at_the_solution():
    x, b = toy_problem("even", 12)
    found = compare_rules(Span(x, apviz.Matern52(lengthscale=0.1), 0.5), b, block_size=12, steps=20)
    assert 0 <= found.steps < 20 and found.choices("random", found.steps).taken["random"] == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda found: found.choices("greedy", 0), "rule must be one of gauss-southwell, cyclic, random, shuffled"),
        (
            lambda found: found.choices("cyclic", STEPS + 1),
            "number must be a whole number, at least 0, at most 16",
        ),
        (
            lambda found: toy_problem("odd", 9),
            "name must be one of even, one bump, crowded, got 'odd'",
        ),
    ],
)
def test_an_unknown_part_of_a_race_raises(run, make, message):
    with pytest.raises(ValueError, match=message):
        make(run[0])


def test_blocks_larger_than_the_system_raise():
    x, b = toy_problem("even", 12)
    for size in (0, 13):
        with pytest.raises(ValueError, match=f"block_size must be a whole number, at least 1, at most 12, got {size}"):
            compare_rules(Span(x, apviz.Matern52(lengthscale=0.1), 0.5), b, block_size=size, steps=2)


@pytest.mark.parametrize("name", ["even", "one bump", "crowded"])
def test_every_situation_has_points_in_order_and_finite_data(name):
    x, b = toy_problem(name, 30)
    assert x.shape == b.shape == (30,) and (np.diff(x) > 0).all() and np.isfinite(b).all()
