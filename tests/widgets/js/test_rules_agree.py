"""The rules of block selection in a browser against `apviz.rkhs` and the solvers, in hundreds of random situations.

To 1e-9 of a scale: ‖w*‖∞ for weights, ‖b‖ for residuals, ‖g‖_H for errors, ½‖g‖²_H for energies, λ for eigenvalues.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from apviz import rkhs, rules
from apviz.kernels import KERNELS, kernel_named
from tests.widgets.js.test_agreement import CLEAR, CLOSE, apart

STEPS = 16


def system(seed: int, most: int) -> dict[str, Any]:
    """Draw sorted points, data, and a block size."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(2, most + 1))
    return {
        "x": np.sort(draw.uniform(0, 1, n)), "b": draw.standard_normal(n), "kernel": list(KERNELS)[seed % len(KERNELS)],
        "lengthscale": float(10 ** draw.uniform(-1.5, 0.2)), "noise": float(10 ** draw.uniform(-2.5, 0)),
        "size": int(draw.integers(1, n + 1)) if seed % 3 else int(draw.integers(1, min(n, 6) + 1)), "steps": STEPS,
    }  # fmt: skip


def clear_steps(errors: np.ndarray) -> int:
    """Return the number of states for which rounding does not decide a choice of gauss-southwell."""
    return 1 + int(np.argmax(np.append(errors, 0.0) < CLEAR * errors[0]))


def player(seed: int) -> dict[str, Any]:
    of = system(seed, 40)
    overlap = float(np.random.default_rng(seed).choice([0.0, 0.25, 0.5, 0.75, 1.0]))
    return of | {"rule": rkhs.RULES[seed % 4], "overlap": overlap}


def check_player(found: dict[str, Any], of: dict[str, Any]) -> int:
    span = rkhs.Span(of["x"], kernel_named(of["kernel"], of["lengthscale"], 1.0), of["noise"])
    wanted = rkhs.trajectory(
        span, of["b"], block_size=of["size"], rule=of["rule"], overlap=of["overlap"], steps=STEPS
    )  # fmt: skip
    assert [tuple(each) for each in found["solved"]] == [tuple(sorted(each)) for each in wanted.blocks]
    errors = wanted.errors()
    size, of_weights, of_data = errors[0], np.abs(wanted.goal).max(), np.linalg.norm(of["b"])
    count = min(len(errors), len(found["errors"]), clear_steps(errors))
    states = wanted.steps[:count]
    assert found["taken"][:count] == [state.block for state in states]
    assert apart(found["goal"], wanted.goal, of_weights) < CLOSE
    assert apart(found["weights"][:count], [state.weights for state in states], of_weights) < CLOSE
    assert apart(found["residuals"][:count], [state.residual for state in states], of_data) < CLOSE
    assert apart(found["decreases"][:count], [state.energy_decrease for state in states], size**2 / 2) < CLOSE
    assert apart(found["errors"][:count], errors[:count], size) < CLOSE
    # the offers of blocks before an update are stored with the state after it
    offered = [state.decrease_per_block for state in states[1:]]
    assert apart(found["perBlock"][: count - 1], offered, size**2 / 2) < CLOSE if offered else True
    largest = max(np.linalg.eigvalsh(span.gram[np.ix_(rows, rows)])[-1] for rows in map(list, wanted.blocks))
    kappa_prime = largest / np.linalg.eigvalsh(span.gram)[0]
    assert apart(found["kappaPrime"], kappa_prime, kappa_prime) < CLOSE
    return count


def check_comparison(found: dict[str, Any], of: dict[str, Any]) -> int:
    span = rkhs.Span(of["x"], kernel_named(of["kernel"], of["lengthscale"], 1.0), of["noise"])
    wanted = rkhs.compare_rules(span, of["b"], block_size=of["size"], steps=STEPS, seed=of["seed"])
    assert [tuple(each) for each in found["blocks"]] == list(wanted.blocks)
    assert apart(found["lambdaMaxBlock"], wanted.lambda_max_block, wanted.lambda_max_block) < CLOSE
    size = wanted.trajectories["cyclic"].errors()[0]
    energy, of_data = 0.5 * size**2, np.linalg.norm(of["b"])
    compared = 0
    clear = {rule: clear_steps(wanted.trajectories[rule].errors()) for rule in rkhs.RULES}
    for number, rule in enumerate(rkhs.RULES):
        count = min(found["steps"] + 1, wanted.steps + 1, clear[rule] - 1)
        errors = wanted.errors[rule]
        assert apart(found["errors"][rule][:count], errors[:count]) < CLOSE
        for j in range(count):
            ours, choices = found["choices"][number][j], wanted.choices(rule, j)
            compared += 1
            assert apart(ours["residual"], choices.residual, of_data) < CLOSE
            assert apart(ours["left"], choices.left, energy) < CLOSE
            assert apart(ours["decreasePerBlock"], choices.decrease_per_block, energy) < CLOSE
            assert apart(ours["norms"], choices.norms, of_data) < CLOSE
            assert apart(ours["guaranteed"], choices.guaranteed, energy) < CLOSE
            if j < clear["gauss-southwell"] - 1:
                assert ours["taken"] == dict(choices.taken)
            assert ours["best"] == choices.best
    everywhere = min(found["steps"], wanted.steps, min(clear.values()) - 1)
    if everywhere:
        gaps = np.diff(np.sort([wanted.errors[rule][everywhere] for rule in rkhs.RULES]))
        assert gaps.min() < CLOSE or found["rankings"][everywhere] == wanted.ranking(everywhere)
        missed = [number for number in wanted.suboptimal_updates() if number <= everywhere]
        assert [number for number in found["suboptimal"] if number <= everywhere] == missed
    return compared


def comparison(seed: int) -> dict[str, Any]:
    return system(seed, 36) | {"seed": seed % 21}


def test_blocks_of_neighbours_their_margins_and_offers_agree_with_the_solvers(compute):
    situations = [player(seed) for seed in range(80)]
    counts = [check_player(*pair) for pair in zip(compute("player", situations), situations, strict=True)]
    assert sum(counts) > 700 and sum(each["overlap"] > 0 for each in situations) > 45


@pytest.mark.slow
def test_four_rules_on_one_system_choose_and_rank_like_in_python(compute):
    situations = [comparison(seed) for seed in range(50)]
    counts = [check_comparison(*pair) for pair in zip(compute("comparison", situations), situations, strict=True)]
    assert sum(counts) > 1200


@pytest.mark.slow
def test_they_agree_in_hundreds_more_cases(compute):
    for make, check, name in ((player, check_player, "player"), (comparison, check_comparison, "comparison")):
        situations = [make(1000 + seed) for seed in range(300)]
        for pair in zip(compute(name, situations), situations, strict=True):
            check(*pair)


@pytest.mark.parametrize("rule", ["random", "shuffled"])
def test_random_rules_draw_the_same_blocks_as_the_solvers(compute, rule):
    situations = [{"rule": rule, "blocks": 1 + seed % 41, "count": 100, "seed": seed} for seed in range(100)]
    for found, of in zip(compute("orders", situations), situations, strict=True):
        drawing = {"random": rules.Random, "shuffled": rules.Shuffled}[rule](seed=of["seed"])
        select = drawing.begin([2] * of["blocks"])
        assert found == [select(j, torch.zeros(of["blocks"], 1)) for j in range(100)]
