"""The modules in a browser against `apviz.rkhs`, the reference, in hundreds of random situations: to 1e-9 of a scale.

Scales: the largest |w*ᵢ| for weights, ‖b‖ for residuals, ‖g‖_H for errors, ½‖g‖²_H for energies, λmax for eigenvalues;
1 for cosines, radians, coordinates of unit functions and entries of K, whose kernels have outputscale 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from apviz import rkhs, rules
from apviz.kernels import KERNELS, kernel_named

CLOSE = 1e-9
#: share of ‖g‖_H above which rounding decides neither a choice of gauss-southwell nor an angle
CLEAR = 1e-4
STEPS = 16


def apart(found: Any, wanted: Any, scale: float = 1.0) -> float:
    """Return the largest difference in units of the scale."""
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    assert found.shape == wanted.shape and (np.isnan(found) == np.isnan(wanted)).all()
    return float(np.nanmax(np.abs(found - wanted), initial=0.0)) / scale


def drawn_order(rule: str, blocks: int, seed: int) -> list[int]:
    """Return the blocks of a random rule, which ignores the residual."""
    select = {"random": rules.Random, "shuffled": rules.Shuffled}[rule](seed=seed).begin([1] * blocks)
    return [select(number, torch.zeros(blocks, 1)) for number in range(STEPS)]


def situation(seed: int, most: int) -> dict[str, Any]:
    """Draw points, data, blocks that may share points, and a rule."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(2, most + 1))
    m = int(draw.integers(1, min(n, 6) + 1))
    owner = np.concatenate([np.arange(m), draw.integers(0, m, n - m)])
    draw.shuffle(owner)
    margin = draw.choice([0.0, 0.3])
    sets = [np.flatnonzero((owner == k) | ((owner < k) & (draw.random(n) < margin))).tolist() for k in range(m)]
    rule = ["gauss-southwell", "cyclic", "random", "shuffled"][seed % 4]
    return {
        "x": draw.uniform(0, 1, n), "b": draw.standard_normal(n), "kernel": list(KERNELS)[seed % len(KERNELS)],
        "lengthscale": float(10 ** draw.uniform(-1.3, 0.3)), "noise": float(10 ** draw.uniform(-2.5, 0)),
        "sets": sets, "rule": rule if seed % 4 < 2 else drawn_order(rule, m, 0), "named": rule, "steps": STEPS,
        "number": int(draw.integers(0, 2)), "z": draw.uniform(-0.5, 1.5, 7),
        "block": sorted(draw.permutation(n)[: int(draw.integers(1, n + 1))].tolist()),
    }  # fmt: skip


def check(found: dict[str, Any], of: dict[str, Any]) -> int:
    """Compare results of the browser with Python; return the number of compared states."""
    span = rkhs.Span(of["x"], kernel_named(of["kernel"], of["lengthscale"], 1.0), of["noise"])
    wanted = rkhs.trajectory_on(span, of["b"], of["sets"], rule=of["named"], steps=STEPS)
    assert tuple(map(tuple, found["solved"])) == wanted.blocks
    assert apart(found["gram"], span.gram) < CLOSE and apart(found["factor"], span.factor) < CLOSE
    size, of_weights, of_data = span.norm(wanted.goal), np.abs(wanted.goal).max(), np.linalg.norm(of["b"])
    assert apart(found["goal"], wanted.goal, of_weights) < CLOSE
    assert apart(found["inner"], span.inner(wanted.goal, of["b"]), size * span.norm(of["b"])) < CLOSE
    assert apart(found["projection"], span.project(wanted.goal, of["block"]), of_weights) < CLOSE
    assert apart(found["values"], span.values(wanted.goal, of["z"]), np.abs(wanted.goal).sum()) < CLOSE

    errors = wanted.errors()
    count = min(len(errors), len(found["errors"]), 1 + int(np.argmax(np.append(errors, 0.0) < CLEAR * size)))
    assert count == STEPS + 1 or errors[count - 1] < CLEAR * size
    states = wanted.steps[:count]
    assert found["taken"][:count] == [state.block for state in states]
    for name, attribute, scale in (
        ("weights", "weights", of_weights), ("residuals", "residual", of_data),
        ("decreases", "energy_decrease", 0.5 * size**2),
    ):  # fmt: skip
        assert apart(found[name][:count], [getattr(state, attribute) for state in states], scale) < CLOSE
    assert apart(found["errors"][:count], errors[:count], size) < CLOSE
    assert apart(found["norms"][:count], wanted.residual_norms()[:count], of_data) < CLOSE

    geometry, ours = rkhs.step_geometry(wanted, of["number"]), found["geometry"]
    assert tuple(ours["block"]) == geometry.block
    assert apart(ours["kernelAngles"], geometry.kernel_angles) < CLOSE
    assert apart(ours["projection"], geometry.projection, size) < CLOSE
    assert apart(ours["residuals"][:count], geometry.residuals[:count], size) < CLOSE
    # bases of the span differ, but the projection is unique
    basis = np.array(ours["basis"]).reshape(-1, span.n)
    assert apart(basis.T @ basis, geometry.basis @ geometry.basis.T) < CLOSE
    angles = [[ours["angleBefore"], ours["angleAfter"]], [geometry.angle_before, geometry.angle_after]]
    if of["number"] < count and errors[of["number"]] > CLEAR * size:
        assert apart(*angles) < CLOSE / CLEAR

    spectrum = rkhs.block_spectrum(span, wanted.blocks) if not _share(wanted.blocks) else None
    eigenvalues = np.linalg.eigvalsh(span.gram)[::-1]
    assert apart(found["spectrum"]["eigenvalues"], eigenvalues, eigenvalues[0]) < CLOSE
    if spectrum is not None:
        for one, other in zip(found["spectrum"]["blocks"], spectrum.blocks, strict=True):
            assert apart(one, other, eigenvalues[0]) < CLOSE
        assert apart(found["spectrum"]["kappa"], spectrum.kappa, spectrum.kappa) < CLOSE
        assert apart(found["spectrum"]["kappaPrime"], spectrum.kappa_prime, spectrum.kappa_prime) < CLOSE
    return count


def _share(blocks: tuple[tuple[int, ...], ...]) -> bool:
    return sum(map(len, blocks)) > len(set().union(*blocks))


def test_trajectories_geometry_and_eigenvalues_agree_with_python(compute):
    situations = [situation(seed, 24) for seed in range(60)]
    counts = [check(*pair) for pair in zip(compute("trajectory", situations), situations, strict=True)]
    assert sum(counts) > 800


@pytest.mark.slow
def test_they_agree_in_hundreds_more_cases_and_with_hundreds_of_points(compute):
    situations = [situation(60 + seed, 24) for seed in range(460)]
    situations += [situation(2000 + seed, 300) for seed in range(60)]
    assert max(len(each["x"]) for each in situations) > 280
    for pair in zip(compute("trajectory", situations), situations, strict=True):
        check(*pair)


def two_blocks(seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    points = int(draw.integers(2, 13))
    return {
        "points": points, "distance": float(draw.uniform(0.02, 1.5)),
        "shared": int(draw.integers(0, 2 * points - 1)) if seed % 2 else 0,
        "kernel": list(KERNELS)[seed % len(KERNELS)], "lengthscale": float(10 ** draw.uniform(-1.3, 0.4)),
        "noise": float(10 ** draw.uniform(-3, 0)), "b": draw.standard_normal(2 * points), "steps": 20,
    }  # fmt: skip


@pytest.mark.slow
def test_angles_between_two_blocks_and_sweeps_over_them_agree_with_python(compute):
    situations = [two_blocks(seed) for seed in range(100)]
    worst_compared = 0
    for found, of in zip(compute("twoBlocks", situations), situations, strict=True):
        blocks = rkhs.two_blocks(of["points"], of["distance"], of["shared"])
        sets = (blocks.first, blocks.second)
        assert apart(found["blocks"]["x"], blocks.x) < CLOSE
        assert [tuple(found["blocks"][name]) for name in ("first", "second", "shared")] == [*sets, blocks.shared]
        span = rkhs.Span(blocks.x, kernel_named(of["kernel"], of["lengthscale"], 1.0), of["noise"])
        angles = rkhs.principal_angles(span, *sets)
        assert apart(found["cosines"], np.cos(angles)) < CLOSE
        # an angle whose cosine is 1 loses half of its digits, in Python too
        seen = angles > 0.01
        assert apart(np.array(found["angles"])[seen], angles[seen]) < 100 * CLOSE
        assert apart(found["friedrichs"], rkhs.friedrichs_angle(span, *sets)) < 100 * CLOSE
        assert apart(found["contraction"], rkhs.contraction(span, *sets)) < CLOSE
        compare_sweeps(found["sweeps"], rkhs.trajectory_on(span, of["b"], sets, rule="cyclic", steps=20))
        cosines = np.append(np.cos(angles), 0.0)[of["shared"] :]
        if cosines[0] - cosines[1] > 0.01 and cosines[0] < 0.99:  # otherwise the pair is ill-determined
            worst_compared += 1
            for one, other in zip(found["pair"], rkhs.principal_pair(span, *sets), strict=True):
                assert apart(span.coordinates(np.array(one)), span.coordinates(other)) < CLOSE
            b = rkhs.worst_case_rhs(span, *sets)
            assert apart(found["worst"], b) < CLOSE
            compare_sweeps(found["worstSweeps"], rkhs.trajectory_on(span, b, sets, rule="cyclic", steps=20))
    assert worst_compared > 40


def compare_sweeps(found: dict[str, Any], trajectory: rkhs.Trajectory) -> None:
    wanted = rkhs.sweeps_of(trajectory)
    count = min(len(wanted.errors), len(found["errors"]))
    assert apart(found["errors"][:count], wanted.errors[:count], wanted.errors[0]) < CLOSE
    assert apart(found["bound"][:count], wanted.bound[:count], wanted.errors[0]) < CLOSE
    if wanted.measured_at == found["measuredAt"] > 0 and wanted.errors[wanted.measured_at] > CLEAR * wanted.errors[0]:
        assert apart(found["measured"], wanted.measured) < CLOSE / CLEAR


@pytest.mark.parametrize("n", [1, 2, 7, 40, pytest.param(300, marks=pytest.mark.slow)])
def test_decompositions_agree_with_lapack(compute, n):
    draw = np.random.default_rng(n)
    general, half = draw.standard_normal((n, max(1, n // 2))), draw.standard_normal((n, n))
    # also for repeated eigenvalues, including zero
    basis = np.linalg.qr(half)[0]
    repeated = basis @ np.diag(np.round(draw.uniform(-1, 2, n))) @ basis.T
    for symmetric in (half + half.T, (repeated + repeated.T) / 2):
        (found,) = compute("decompositions", [{"general": general, "symmetric": symmetric}])
        values, vectors = np.array(found["eigen"]["values"]), np.array(found["eigen"]["vectors"]).T
        scale = max(float(np.abs(values).max()), 1.0)
        assert apart(values, np.linalg.eigvalsh(symmetric)[::-1], scale) < CLOSE
        assert apart(symmetric @ vectors, vectors * values, scale) < CLOSE
        assert apart(vectors.T @ vectors, np.eye(n)) < CLOSE
    for each in (general, general.T):
        (found,) = compute("decompositions", [{"general": each, "symmetric": half + half.T}])
        u, values, v = (np.array(found["svd"][name]) for name in ("u", "values", "v"))
        assert apart(values, np.linalg.svd(each, compute_uv=False), values[0]) < CLOSE
        assert apart((u.T * values) @ v, each, values[0]) < CLOSE
