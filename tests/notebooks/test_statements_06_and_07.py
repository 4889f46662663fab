"""Statements of notebooks 06 and 07 about numbers and angles, recomputed with NumPy and SciPy alone."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.linalg
import torch

from tests.notebooks.statements import ROOT, matern52, prose, ran, source_of


def test_notebooks_06_and_07_name_the_limits_that_apviz_has():
    from apviz.solvers.choosing.automatic import CHOLESKY_ROWS
    from apviz.solvers.recommended import MAX_DRIFT, MAX_HISTORY, SKELETON_ROWS

    assert f"Cholesky up to {CHOLESKY_ROWS:,} rows" in prose("07") and f"takes at most {MAX_HISTORY}" in prose("06")
    assert f"would let the residual drift by more than {MAX_DRIFT:.0%}, `auto` does without" in prose("07")
    assert f"from {SKELETON_ROWS:,} rows on with skeletons" in prose("07")


def test_no_two_pixels_are_nearer_than_the_arc_cosine_that_notebook_06_prints(pixels):
    x, h = pixels
    least = np.degrees(np.arccos(h.outputscale / (h.outputscale + h.noise)))
    assert least == pytest.approx(38.4, abs=0.05)
    for step in (1.0, 0.1, 1e-3):  # even if they came ever nearer
        K = matern52(step * x, h.lengthscale, h.outputscale) + h.noise * np.eye(len(x))
        cosines = K[~np.eye(len(x), dtype=bool)] / (h.outputscale + h.noise)
        angles = np.degrees(np.arccos(cosines))
        assert angles.min() >= least
    assert angles.min() == pytest.approx(least, abs=0.01)


def test_the_numbers_of_the_benchmarks_in_notebook_06_are_those_of_their_table():
    page = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    table = page.partition("<!-- the table of benchmarks.table -->")[2].partition("To smaller tolerances")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[3:] if "|" in line]
    taken = {row[0]: float(re.search(r"\*\*([\d.]+) \(", "|".join(row))[1]) for row in rows}
    kin40k = {work for name, work in taken.items() if name.startswith("kin40k")}
    others = {work for name, work in taken.items() if not name.startswith("kin40k")}
    text = prose("06")
    said = re.search(r"kin40k needs (\d+) to (\d+) work .* where all others need at most (\d+)\.", text)
    assert [int(each) for each in said.groups()] == [int(min(kin40k)), round(max(kin40k) + 0.01), np.ceil(max(others))]
    at_14000 = [row for row in rows if 13_000 < int(row[0].split(", ")[1].replace(",", "")) < 15_000]
    column = table.splitlines()[1].strip("| ").split(" | ").index("work: paper's ÷ auto")
    ratios = {row[0]: row[column].rstrip("×") for row in at_14000}
    known = {name: float(ratio) for name, ratio in ratios.items() if ">" not in ratio}
    said = re.search(r"between ([\d.]+) \(bike with one right-hand side, .*?\) and (\d+) times that of `auto`", text)
    assert min(known, key=known.get).startswith("bike") and float(said[1]) == min(known.values())
    assert int(said[2]) == round(max(known.values()))
    stopped = max((float(ratio.lstrip("> ")), name) for name, ratio in ratios.items() if ">" in ratio)
    assert stopped[1].startswith("kin40k") and f"more than {stopped[0]:.0f} times where it was stopped" in text


@pytest.mark.slow
def test_the_partitions_and_preconditioners_of_notebook_06_do_what_it_says():
    pytest.importorskip("apviz.widgets", reason="the widgets need ipywidgets")
    names = ran("06", "code-1", "system", "helpers", "code-2", "code-4", "code-5", "code-6")
    epochs = {key: int(trace["epoch"]["epoch"][-1]) for key, trace in names["grid"].items()}
    assert max(epochs[tree, overlap] for tree in ("kd-tree", "principal-axis-tree") for overlap in (0.5, 1.0)) <= 2
    assert epochs["sequential", 0.0] >= 24 and "an epoch or two, where the paper's partition needs dozens" in prose(
        "06"
    )
    assert epochs["sequential", 1.0] < epochs["sequential", 0.0] > epochs["kd-tree", 0.0] > 10  # each helps some
    plain, text = names["cg"], prose("06")
    blocks, both, low_rank = (trace["eigenvalues"]["preconditioned"].values for trace in names["schwarz"])
    values = names["schwarz"][0]["eigenvalues"]["eigenvalue"].values
    iterations = [int(trace["epoch"]["epoch"][-1]) for trace in (plain, *names["schwarz"])]
    assert blocks[0] / blocks[-1] > values[0] / values[-1] and iterations[1] < iterations[0]
    assert "Blocks alone have a *larger* $\\kappa(P^{-1}K)$" in text
    assert ((blocks > 0.5) & (blocks < 2)).mean() > 0.5 and 24 <= (blocks > 10).sum() <= 48
    assert "leave a few dozen large ones" in text
    assert 24 <= (values > 2).sum() <= 48 and values[-1] == pytest.approx(0.01, rel=0.2)
    assert both[0] < 13 and both[-1] > 1 / 13 and "within a factor of ten or so of 1" in text
    assert (low_rank > 2).mean() > 0.5 and low_rank[-1] == pytest.approx(1, abs=0.01)


@pytest.fixture(scope="module")
def far():
    """The names of notebook 07 up to its block in the middle of the photograph."""
    pytest.importorskip("apviz.widgets", reason="the widgets need ipywidgets")
    return ran("07", "imports", "code-block", "code-far")


@pytest.mark.slow
def test_of_the_columns_of_a_block_in_notebook_07_some_dozens_matter_outside_and_fewer_without_the_nearest(far):
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
    assert "Of hundreds of columns some dozens matter" in prose("07") and "and fewer still" in prose("07")
    # near are those nearest to what the block owns
    owned = far["partition"].owned(far["middle"])
    distance = np.min([np.linalg.norm((x - each) / h.lengthscale, axis=1) for each in x[owned]], axis=0)
    outside = np.setdiff1d(near, block)
    assert distance[outside].max() <= distance[np.setdiff1d(np.arange(len(x)), near)].min() + 1e-5
    assert "photograph of 13,696 pixels" in prose("07") and len(x) == 13_696


@pytest.mark.slow
def test_poor_skeletons_in_notebook_07_cost_passes_and_no_digit_and_weights_in_float32_miss_the_tolerance(far):
    names = dict(far)
    for cell in ("by-hand", "code-passes"):
        exec(compile(source_of("07", cell), f"07 {cell}", "exec"), names)
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
    assert torch.finfo(torch.float32).eps / 2 == pytest.approx(6e-8, rel=0.01) and r"$6 \cdot 10^{-8}$" in prose("07")


@pytest.mark.parametrize(("drift", "passes"), [(0.03, 6), (0.3, 16)])
def test_the_residual_after_p_passes_is_the_drift_to_the_power_p(drift, passes):
    assert drift**passes < 1e-8 <= drift ** (passes - 1)
    for text in ("np.log(1e-8) / np.log(0.03)", f"passes_needed({drift})"):
        assert text in source_of("07", "solution-2") + source_of("07", "check-2")
    names: dict = {"np": np, "answer": ..., "check": lambda *_args, **_settings: None}
    exec(source_of("07", "check-2"), names)
    assert names["passes_needed"](drift) == passes
