"""The photograph's solver in a browser against `apviz.solve` and dense matrices, on small crops; draws, blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.ndimage import distance_transform_cdt

from apviz import rkhs, rules
from apviz.kernels import KERNELS, kernel_named
from apviz.method import Method
from apviz.partitions import partitioner_named
from apviz.rkhs.blocks import Blocks
from apviz.rkhs.trajectory import solve_over
from apviz.widgets import Photograph
from tests.widgets.js.test_agreement import CLEAR, CLOSE, apart

STEPS = 40


def crop(seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    # for sides without a common divisor, no part is a square, for which rounding would choose the cut
    rows, columns = 4, 4
    while np.gcd(rows - 1, columns - 1) > 1:
        rows, columns = draw.integers(3, 13, 2)
    rule = ["gauss-southwell", "cyclic", "random", "shuffled"][seed % 4]
    return {
        "rows": int(rows), "columns": int(columns), "grey": draw.integers(0, 256, rows * columns),
        "partition": ["sequential", "kd-tree"][seed // 4 % 2],
        "size": int(draw.integers(2, max(3, rows * columns // 3))),
        "overlap": [0.0, 0.5, 1.0][seed % 3], "rule": rule, "tol": 1e-12, "most": STEPS,
        "kernel": list(KERNELS)[seed % len(KERNELS)], "lengthscale": float(10 ** draw.uniform(-1, 0)),
        "noise": float(10 ** draw.uniform(-2, 0)), "targets": [3, STEPS, 1, 17, 2, STEPS],
    }  # fmt: skip


def check(found: dict[str, Any], of: dict[str, Any]) -> int:
    n = of["rows"] * of["columns"]
    grey = np.asarray(of["grey"], dtype=float)
    down, right = np.linspace(-1, 1, of["rows"]), np.linspace(-1, 1, of["columns"])
    x = np.array([(r, c) for r in down for c in right])
    b = (grey - grey.mean()) / grey.std()
    assert apart(found["points"], x) < CLOSE and apart(found["b"], b) < CLOSE
    kernel = kernel_named(of["kernel"], of["lengthscale"], 1.0)
    span = rkhs.Span(np.array(found["points"]), kernel, of["noise"])

    # blocks equal those of Python, for rows in random order
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    features = kernel.features(torch.as_tensor(span.x)[order])
    wanted = partitioner_named(of["partition"])(features, of["size"])
    assert found["sets"] == [order[wanted.order[wanted.owned(j)]].tolist() for j in range(len(wanted))]
    # margins: no omitted row is nearer than an included one
    gaps = np.linalg.norm(x[:, None] - x, axis=2)
    solved = []
    for own, rows in zip(found["sets"], found["solved"], strict=True):
        margin = rows[len(own) :]
        if rows:
            size = min(int(of["overlap"] * len(own)), n - len(own)) if len(found["sets"]) > 1 else 0
            assert rows[: len(own)] == own and len(margin) == len(set(margin) - set(own)) == size
            out = sorted(set(range(n)) - set(rows))
            near = gaps[:, own].min(1)
            assert not margin or not out or near[margin].max() <= near[out].min() + 1e-12
        solved.append(rows or own)  # a block that was never chosen has none

    solver = Method(family="alternating-projection", rule=of["rule"])
    trajectory = solve_over(span, b, Blocks(found["sets"], solved), solver, STEPS)
    errors = trajectory.errors()
    count = int(np.argmax(np.append(errors, 0.0) < CLEAR * errors[0]))
    assert found["taken"][:count] == [step.block for step in trajectory.steps[:count]]
    residuals = np.array([step.residual for step in trajectory.steps])
    norms = np.linalg.norm(residuals, axis=1) / np.linalg.norm(b)
    assert apart(found["norms"][:count], norms[:count]) < CLOSE
    sizes = [len(rows) for rows in solved]
    work = np.array([0.0, *(sizes[block] / n for block in found["taken"][1:])]).cumsum()
    assert apart(np.diff(found["work"]), np.diff(work)) < CLOSE
    goal = np.abs(trajectory.goal).max()
    for target, state in zip(of["targets"], found["states"], strict=True):
        assert state["at"] == min(target, len(found["norms"]) - 1)
        if state["at"] < count:
            step = trajectory.steps[state["at"]]
            assert apart(state["weights"], step.weights, goal) < CLOSE
            assert apart(state["residual"], step.residual, np.linalg.norm(b)) < CLOSE
            mean = (span.gram - of["noise"] * np.eye(n)) @ step.weights
            assert apart(state["mean"], mean, np.linalg.norm(b)) < CLOSE
    return count


def test_updates_forward_and_back_agree_with_python(compute):
    situations = [crop(seed) for seed in range(60)]
    counts = [check(*pair) for pair in zip(compute("photograph", situations), situations, strict=True)]
    assert sum(counts) > 700


@pytest.mark.slow
def test_they_agree_in_hundreds_more_cases(compute):
    situations = [crop(60 + seed) for seed in range(460)]
    for pair in zip(compute("photograph", situations), situations, strict=True):
        check(*pair)


def test_the_distance_of_a_pixel_from_the_border_of_its_block_is_the_taxicab_distance_to_another_block(compute):
    draw = np.random.default_rng(0)
    situations, wanted = [], []
    for size in (1, 4, 30, 200):
        rows, columns, most = *draw.integers(5, 12, 2), int(draw.integers(2, 5))
        # blocks of any shape: the nearest of a few centres, in a bent metric
        at = np.indices((rows, columns)).reshape(2, -1).T
        centres = draw.uniform(0, 12, (-(-rows * columns // size), 2))
        block = np.argmin(np.abs(at[:, None] - centres).sum(2) + draw.uniform(0, 2, len(centres)), axis=1)
        sets = [np.flatnonzero(block == k) for k in np.unique(block)]
        steps = np.zeros(rows * columns, dtype=int)
        for rows_of in sets:
            inside = np.isin(np.arange(len(block)), rows_of).reshape(rows, columns)
            alone = inside.all()
            steps[rows_of] = most if alone else distance_transform_cdt(inside, "taxicab")[inside].clip(max=most)
        residual = draw.standard_normal(len(block))
        situations.append({
            "rows": int(rows), "columns": int(columns), "n": len(block), "sets": [each.tolist() for each in sets],
            "residual": residual, "most": most,
        })  # fmt: skip
        wanted.append((steps, [
            np.sqrt(np.mean(residual[steps == k] ** 2)) if (steps == k).any() else np.nan for k in range(1, most + 1)
        ]))  # fmt: skip
    for found, (steps, sizes) in zip(compute("borders", situations), wanted, strict=True):
        assert found["steps"] == steps.tolist()
        assert found["sizes"] == pytest.approx(sizes, nan_ok=True)


def test_random_draws_equal_those_of_pytorch(compute):
    asked = [{"seed": seed, "count": count, "blocks": m} for seed, count, m in ((0, 1426, 15), (7, 700, 3), (1, 9, 1))]
    for found, of in zip(compute("draws", asked), asked, strict=True):
        generator = torch.Generator().manual_seed(of["seed"])
        assert found["below"] == [int(torch.randint(of["blocks"], (), generator=generator)) for _ in range(of["count"])]
        generator = torch.Generator().manual_seed(of["seed"])
        assert found["permutation"] == torch.randperm(of["count"], generator=generator).tolist()
        for rule in (rules.Random(seed=of["seed"]), rules.Shuffled(seed=of["seed"])):
            select = rule.begin([1] * of["blocks"])
            assert found[rule.name] == [select(k, torch.zeros(of["blocks"], 1)) for k in range(of["count"])]


@pytest.mark.parametrize("partition", ["kd-tree", "sequential"])
def test_complete_pictures_have_the_blocks_of_python(compute, partition):
    for pixels, size in ((1426, 100), (13696, 200)):
        widget = Photograph(pixels=pixels)
        picture = widget.face["given"]["pictures"][str(pixels)]
        (found,) = compute("photograph", [
            {"rows": picture["rows"], "columns": picture["columns"], "grey": [0, 255] * (pixels // 2), "size": size,
             "partition": partition, "targets": [0], "overlap": 0.0, "rule": "cyclic", "tol": 0.1, "most": 1}
        ])  # fmt: skip
        order = torch.randperm(pixels, generator=torch.Generator().manual_seed(0))
        system = widget.system
        wanted = partitioner_named(partition)(system.kernel.features(system.x), size)
        assert found["sets"] == [order[wanted.order[wanted.owned(j)]].tolist() for j in range(len(wanted))]
