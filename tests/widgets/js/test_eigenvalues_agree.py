"""κ and κ′, and the paths of CG and alternating projection, in a browser against `apviz.rkhs` to 1e-9 of a scale."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import numpy as np
import pytest

from apviz import rkhs
from apviz.kernels import Matern52
from apviz.widgets import CGAgainstProjection, Kappas
from apviz.widgets.kappas import DATA, EPOCHS, PARTITIONS
from tests.widgets.js.test_agreement import CLEAR, CLOSE, apart

SIZES = [1, 3, 7]


def system(seed: int, most: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    n, d = int(draw.integers(8, most + 1)), int(draw.integers(1, 7))
    of = {
        # the browser caches results by this name
        "name": f"system {seed}", "block_size": int(draw.integers(1, n)), "sizes": SIZES, "epochs": 4,
        "lengthscale": float(10 ** draw.uniform(-1, 0.6)), "noise": float(10 ** draw.uniform(-2.5, 0.5)),
    }  # fmt: skip
    return {"data": {"points": draw.uniform(-1, 1, (n, d)), "b": draw.standard_normal(n)}, "of": of}


def check(found: dict[str, Any], x: np.ndarray, b: np.ndarray, of: dict[str, Any]) -> int:
    span = rkhs.Span(x, Matern52(lengthscale=of["lengthscale"]), of["noise"])
    compared = 0
    for k, partition in enumerate(PARTITIONS):
        wanted = rkhs.compare_with_bound(
            span, b, block_size=of["block_size"], partition=partition, epochs=of.get("epochs", EPOCHS)
        )
        spectrum = wanted.spectrum
        assert [tuple(each) for each in found["sets"][k]] == [*rkhs.blocks_of(span, of["block_size"], partition)]
        largest = spectrum.eigenvalues[0]
        assert apart(found["eigenvalues"], spectrum.eigenvalues, largest) < CLOSE
        for one, other in zip(found["blocks"][k], spectrum.blocks, strict=True):
            assert apart(one, other, largest) < CLOSE
        assert apart(found["kappa"], spectrum.kappa, spectrum.kappa) < CLOSE
        assert apart(found["kappaPrime"][k], spectrum.kappa_prime, spectrum.kappa_prime) < CLOSE
        assert apart(found["couplings"][k], spectrum.coupling, spectrum.coupling) < CLOSE * spectrum.kappa
        growth = rkhs.lambda_max_by_size(span, of["sizes"], partition)
        assert apart(found["growth"][k], growth, largest) < CLOSE
        # as long as rounding does not decide a choice of gauss-southwell
        count = int(np.argmax(np.append(wanted.errors, 0.0) < CLEAR**2))
        assert found["taken"][k][: count - 1] == [step.block for step in wanted.trajectory.steps[1:count]]
        assert apart(found["errors"][k][:count], wanted.errors[:count]) < CLOSE
        compared += count
    return compared


def test_eigenvalues_and_errors_over_blocks_agree_with_python(compute):
    situations = [system(seed, 40) for seed in range(25)]
    counts = [
        check(found, each["data"]["points"], each["data"]["b"], each["of"])
        for found, each in zip(compute("kappas", situations), situations, strict=True)
    ]
    assert sum(counts) > 500


@pytest.mark.slow
def test_eigenvalues_and_errors_agree_in_hundreds_more_cases(compute):
    situations = [system(50 + seed, 90) for seed in range(300)]
    for found, each in zip(compute("kappas", situations), situations, strict=True):
        check(found, each["data"]["points"], each["data"]["b"], each["of"])


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_they_agree_on_the_300_points_of_the_widget_too(compute, name):
    widget = Kappas(data=name)
    given = widget.face["given"]["data"][name]
    sizes = [10, 50, 100]
    cases = [(size, lengthscale, noise) for (size, lengthscale), noise in zip(
        product((10, 30, 100), (0.03, 0.5, 5.0)), [0.001, 0.05, 1.0, 10.0, 0.05, 0.01, 1.0, 0.2, 0.03], strict=True
    )]  # fmt: skip
    asked = [
        {"data": given, "of": {"name": name, "block_size": size, "lengthscale": long, "noise": noise, "sizes": sizes}}
        for size, long, noise in cases
    ]
    for found, (size, long, noise), each in zip(compute("kappas", asked), cases, asked, strict=True):
        widget = Kappas(data=name, block_size=size, lengthscale=long, noise=noise)
        b = next(iter(widget.solves.values())).trajectory.b
        check(found, widget.span.x, b, each["of"])


def values(seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    traits = CGAgainstProjection.class_traits()
    points = int(draw.integers(8, 81))
    return {
        "points": points, "data": traits["data"].values[seed % 2], "block_size": int(draw.integers(2, points + 1)),
        "rule": ["gauss-southwell", "cyclic", "random", "shuffled"][seed // 2 % 4],
        "overlap": draw.choice([0.0, 0.25, 1.0]),
        "lengthscale": float(10 ** draw.uniform(-1.4, 0)), "noise": float(10 ** draw.uniform(-3, 0)),
        "plane": get_args(rkhs.Plane)[seed // 8 % 4],
    }  # fmt: skip


def check_paths(found: dict[str, Any], of: dict[str, Any]) -> int:
    widget = CGAgainstProjection(**of)
    wanted, compared = widget.paths, 0
    span = wanted[0].trajectory.span
    assert apart(found["x"], span.x[:, 0]) < CLOSE and apart(found["b"], wanted[0].trajectory.b) < CLOSE
    assert apart(found["eigenvalues"], wanted[0].eigenvalues, wanted[0].eigenvalues[0]) < CLOSE
    assert apart(found["kappa"], wanted[0].kappa, wanted[0].kappa) < CLOSE
    assert apart(found["step"], wanted[0].first_cg_step(), wanted[0].first_cg_step()) < CLOSE
    assert [sorted(each) for each in found["solved"]] == [sorted(each) for each in wanted[1].trajectory.blocks]
    start = wanted[0].error[0].sum()
    assert tuple(found["pair"]) == rkhs.eigenvector_pair(wanted[0], of["plane"])
    for ours, path in zip(found["both"], wanted, strict=True):
        errors = path.error.sum(1)
        count = min(len(errors), len(ours["errors"]), int(np.argmax(np.append(errors, 0.0) < CLEAR**2 * start)))
        if path is wanted[0]:
            # rounding affects conjugate directions first: compare as long as the last digit of b does not matter
            last_digit = 1 + 1e-15 * np.random.default_rng(0).standard_normal(span.n)
            other = rkhs.trajectory(span, path.trajectory.b * last_digit, method="cg", steps=count)
            pairs = zip(other.steps, path.trajectory.steps[:count], strict=False)
            moved = [span.norm(one.weights - two.weights) / np.sqrt(start) for one, two in pairs]
            count = int(np.argmax(np.append(moved, np.inf) > 0.01 * CLOSE))
            assert count > 2
        else:
            assert found["taken"][:count] == [step.block for step in path.trajectory.steps[:count]]
        assert apart(ours["errors"][:count], errors[:count], start) < CLOSE
        assert apart(ours["residuals"][:count], path.residual.sum(1)[:count], path.residual.sum(1).max()) < CLOSE
        assert apart(ours["work"][:count], path.work[:count]) < CLOSE
        assert apart(ours["bound"][:count], path.bound()[:count]) < CLOSE
        # the accuracy of an eigenvector depends on the gap of its eigenvalue
        gaps = np.abs(path.eigenvalues[:, None] - path.eigenvalues) + np.diag(np.full(span.n, np.inf))
        alone = gaps.min(1) > 1e-5 * path.eigenvalues[0]
        mine, theirs = np.array(ours["coordinates"])[:count, alone], path.coordinates[:count, alone]
        assert apart(mine, theirs, np.sqrt(start)) < CLOSE
        for work in (0, 1, 7):
            if 0 <= path.at(work) < count:
                assert ours["at"][work] == path.at(work)
        compared += count
    return compared


def test_paths_of_cg_and_of_alternating_projection_agree_with_python(compute):
    situations = [values(seed) for seed in range(40)]
    given = CGAgainstProjection().face["given"]
    found = compute("paths", [{"values": each, "given": given} for each in situations])
    assert sum(check_paths(*pair) for pair in zip(found, situations, strict=True)) > 1200


@pytest.mark.slow
def test_paths_agree_in_two_hundred_more_cases(compute):
    situations = [values(40 + seed) for seed in range(260)]
    given = CGAgainstProjection().face["given"]
    found = compute("paths", [{"values": each, "given": given} for each in situations])
    for pair in zip(found, situations, strict=True):
        check_paths(*pair)


def test_the_page_has_the_data_for_every_number_of_points(compute):
    given = CGAgainstProjection().face["given"]
    base = values(0) | {"data": "a curve with noise"}
    asked = [{"values": base | {"points": n}, "given": given} for n in range(8, 81)]
    for found, each in zip(compute("paths", asked), asked, strict=True):
        x, b = rkhs.toy_problem("even", each["values"]["points"])
        assert apart(found["x"], x) < 1e-15 and apart(found["b"], b) < 1e-14
