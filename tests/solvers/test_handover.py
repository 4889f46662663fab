"""CG takes over from slow projections only, and the run is recorded like any other."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis.diagnosis import diagnose
from apviz.solvers import Skeletons, Subspace, attempt, overlapping
from tests.device import DEVICE

RANK = 120


def problem(slow, n=2400, dtype=torch.float64):
    """Return a system whose smooth components no block resolves, or one whose components all blocks resolve."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 20)) if slow else rng.uniform(0, 1, (n, 2))
    y = np.sin(x @ rng.standard_normal(x.shape[1]) / 2) + 0.03 * rng.standard_normal(n)
    kernel = apviz.RBF(lengthscale=8.0) if slow else apviz.Matern52(lengthscale=0.1)
    system = apviz.KernelSystem(x, y, kernel, noise=1e-3, operator="tiled", dtype=dtype, device=DEVICE)
    k = kernel(system.operator.given.double()).numpy() + 1e-3 * np.eye(n)
    return system, lambda w: np.linalg.norm(y - k @ w.numpy()) / np.linalg.norm(y)


SOLVER = overlapping(
    block_size=80, step=Subspace(length=8), columns="exact", fallback_rank=RANK, tol=1e-3, max_epochs=400
)


@pytest.fixture(scope="module", params=[torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)], ids=str)
def taken_over(request):
    system, residual = problem(slow=True, dtype=request.param)
    recorder = apviz.Recorder()
    return attempt(system, SOLVER, [recorder]), recorder.trace, residual, system


def test_cg_takes_over_from_slow_projections_and_converges_with_less_work(taken_over):
    solution, trace, residual, system = taken_over
    assert solution.converged and residual(solution.weights) < 1e-3 * (1 + 1e-6)
    alone = attempt(system, replace(SOLVER, fallback_rank=0))
    assert solution.work < alone.work
    blocks = trace["update"]["block"].values
    after = int(np.argmax(blocks < 0))
    assert after > 0 and (blocks[:after] >= 0).all() and (blocks[after:] == -1).all()
    said = json.loads(trace.attrs["choices"])["handover"]
    assert re.fullmatch(
        rf"CG with rank ({RANK}|{RANK // 2}) after epoch \d+: about \d+ iterations instead of "
        r"(\d+ more work|no end in sight) \(estimates\)", said
    )  # fmt: skip


def test_cg_does_not_take_over_from_fast_projections():
    system, residual = problem(slow=False)
    recorder = apviz.Recorder()
    solution = attempt(system, SOLVER, [recorder])
    assert solution.converged and residual(solution.weights) < 1e-3 * (1 + 1e-6)
    assert (recorder.trace["update"]["block"].values >= 0).all()
    assert "handover" not in json.loads(recorder.trace.attrs["choices"])


def test_after_a_handover_the_energy_equals_h_of_the_weights(taken_over):
    solution, trace, _, system = taken_over
    k = system.kernel(system.operator.given.double()) + 1e-3 * torch.eye(system.n, dtype=torch.float64)
    w = solution.weights
    h = float(0.5 * w @ k @ w - system.given_b[:, 0].double() @ w)
    assert solution.energy == pytest.approx(h, rel=1e-6)
    total = trace.attrs["initial_energy"] - float(trace["update"]["energy_decrease"].sum())
    assert total == pytest.approx(h, rel=1e-3)


def test_figures_and_diagnoses_show_the_handover(taken_over, tmp_path):
    _, trace, _, _ = taken_over
    updates = trace["update"]
    cg = updates["block"].values < 0
    assert np.isnan(updates["guaranteed_decrease"].values[cg]).all()
    assert int(trace["block"]["times_chosen"].sum()) == int((~cg).sum())
    assert np.isfinite(trace["block"]["residual_norm"].values).all()
    for figure in (apviz.plots.block_timeline(trace), apviz.plots.passes(trace), apviz.plots.residuals(trace)):
        assert len(figure.data)
    drawn = np.concatenate([each.y for each in apviz.plots.block_timeline(trace).data if each.y is not None])
    assert min(y for y in drawn if y is not None and not math.isnan(y)) >= 0
    assert "It was slow and handed over to CG with rank" in diagnose(trace).evidence
    trace.save(tmp_path / "run.zarr")
    assert "handover" in json.loads(apviz.open_trace(tmp_path / "run.zarr").attrs["choices"])


@pytest.mark.slow
def test_cg_takes_over_from_b_minus_kw_if_projections_use_skeletons():
    system, residual = problem(slow=True, dtype=torch.float32)
    solution = attempt(system, replace(SOLVER, columns=Skeletons(rank=20), tol=1e-5))
    assert solution.converged and residual(solution.weights) < 1e-5 * (1 + 1e-6)


def test_cg_does_not_take_over_without_memory_for_its_vectors(monkeypatch):
    from apviz.solvers import handover

    monkeypatch.setattr(handover, "free_memory", lambda device: 2400 * 8 * 5 * 8 / handover.MEMORY_SHARE)
    system, _ = problem(slow=True)
    recorder = apviz.Recorder()
    attempt(system, replace(SOLVER, max_epochs=20), [recorder])
    assert (recorder.trace["update"]["block"].values >= 0).all()


def test_if_half_the_rank_converges_soon_the_full_rank_is_not_tried(monkeypatch):
    from apviz.solvers import handover

    tried = []

    class Counted(handover.Rehearsal):
        def __init__(self, operator, r, rank, rows, seed):
            tried.append(rank)
            super().__init__(operator, r, rank, rows, seed)

    monkeypatch.setattr(handover, "Rehearsal", Counted)
    monkeypatch.setattr(handover, "MUCH_WORK", math.inf)
    system, residual = problem(slow=True, dtype=torch.float32)
    recorder = apviz.Recorder()
    solution = attempt(system, SOLVER, [recorder])
    assert solution.converged and residual(solution.weights) < 1e-3 * (1 + 1e-6)
    assert set(tried) == {RANK // 2}
    assert f"CG with rank {RANK // 2} after" in json.loads(recorder.trace.attrs["choices"])["handover"]


@pytest.mark.parametrize("b", [0.0, 1.0])
def test_a_converged_run_that_waits_for_its_minimum_of_epochs_considers_no_handover(b):
    system, _ = problem(slow=False)
    constant = apviz.KernelSystem(system.x, np.full(system.n, b), system.kernel, noise=1e-3, device=DEVICE)
    solution = attempt(constant, replace(SOLVER, tol=0.5, min_epochs=8))
    assert solution.converged and solution.epochs == 8


def test_at_a_small_tolerance_a_rehearsal_on_half_of_the_rows_predicts_how_iterations_grow():
    system, residual = problem(slow=True, dtype=torch.float64)
    recorder = apviz.Recorder()
    solution = attempt(system, replace(SOLVER, tol=5e-5), [recorder])
    assert solution.converged and residual(solution.weights) < 5e-5
    said = json.loads(recorder.trace.attrs["choices"])["handover"]
    taken = int((recorder.trace["update"]["block"].values < 0).sum())
    foreseen = int(re.search(r"about (\d+) iterations", said)[1])
    assert foreseen / 3 < taken < 3 * foreseen
