"""Coloured projections against dense NumPy: weights, energies, local solves, colours and choices."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz import AlternatingProjection, ColouredProjection, Matern12, Matern32, Matern52
from apviz.analysis.diagnosis.causes import conditioning
from apviz.operators import make_operator
from apviz.solvers.choosing import automatic
from apviz.solvers.coloured import handover
from apviz.solvers.coloured.colours import colours_of
from apviz.solvers.coloured.local_solves import ExactSolve, LocalSolves, LowRankSolve
from apviz.solvers.stopping import Stopping
from tests.device import DEVICE, only_on_the_cpu
from tests.textbook import CORRELATIONS


def dense(kernel, x, noise):
    r = cdist(x / np.array(kernel.lengthscale), x / np.array(kernel.lengthscale))
    return kernel.outputscale * CORRELATIONS[kernel.name](r) + noise * np.eye(len(x))


def maps(n, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (n, d))
    return x, np.sin(7 * x.sum(1)) + 0.2 * rng.standard_normal(n)


def system_of(x, y, kernel, noise, **settings):
    return apviz.KernelSystem(torch.from_numpy(x), torch.from_numpy(y), kernel, noise=noise, device=DEVICE, **settings)


def relative(k, w, y):
    return np.linalg.norm(y - k @ w) / np.linalg.norm(y)


CASES = [
    (Matern12(lengthscale=0.1), 1, 0.1), (Matern32(lengthscale=0.1), 2, 0.1), (Matern52(lengthscale=0.2), 3, 0.01),
    (Matern52(lengthscale=0.1, outputscale=2.0), 2, 1e-5), (apviz.RBF(lengthscale=0.05), 1, 1e-3),
]  # fmt: skip


@pytest.mark.parametrize("operator", ["tiled", pytest.param("fourier", marks=only_on_the_cpu("it runs there"))])
@pytest.mark.parametrize(("kernel", "d", "noise"), CASES)
def test_the_weights_solve_the_dense_system(kernel, d, noise, operator):
    x, y = maps(800, d)
    solution = apviz.solve(
        system_of(x, y, kernel, noise, operator=operator), ColouredProjection(block_size=200, tol=1e-6)
    )
    assert solution.converged
    assert relative(dense(kernel, x, noise), solution.weights.cpu().numpy(), y) < 1e-6


def test_recorded_decreases_add_up_to_the_dense_energy():
    x, y = maps(1200, 2)
    kernel = Matern32(lengthscale=0.1)
    decreases = dict[int, float]()

    class Sum(apviz.Hook):
        def on_update(self, update):
            decreases[update.epoch] = decreases.get(update.epoch, 0.0) + float(update.energy_decrease)

    solver = ColouredProjection(block_size=150, tol=1e-8, precision="float64")
    w = apviz.solve(system_of(x, y, kernel, 0.01), solver, hooks=[Sum()]).weights.cpu().numpy()
    assert min(decreases.values()) > 0  # of sweeps; that of a single update is an estimate
    assert sum(decreases.values()) == pytest.approx(y @ w - w @ dense(kernel, x, 0.01) @ w / 2, rel=1e-9)


def test_every_right_hand_side_is_solved():
    x, y = maps(1000, 2)
    b = np.stack([y, np.cos(3 * y), np.zeros(1000)], 1)
    solution = apviz.solve(
        system_of(x, b, Matern52(lengthscale=0.1), 0.1), ColouredProjection(block_size=200, tol=1e-7)
    )
    k = dense(Matern52(lengthscale=0.1), x, 0.1)
    w = solution.weights.cpu().numpy()
    assert all(relative(k, w[:, j], b[:, j]) < 3e-7 for j in (0, 1))
    assert (w[:, 2] == 0).all()


def test_a_noise_for_every_row_is_solved():
    x, y = maps(1000, 2)
    noise = np.random.default_rng(1).uniform(0.01, 1.0, 1000)
    system = system_of(x, y, Matern52(lengthscale=0.1), torch.from_numpy(noise))
    w = apviz.solve(system, ColouredProjection(block_size=200, tol=1e-7)).weights.cpu().numpy()
    assert relative(dense(Matern52(lengthscale=0.1), x, 0) + np.diag(noise), w, y) < 1e-7


def test_blocks_of_a_colour_share_no_row_and_keep_their_distance():
    x = torch.from_numpy(maps(3000, 2)[0]) * 30
    partition = apviz.partitions.PrincipalAxisTree(overlap=0.5)(x, 100)
    blocks = [partition.order[partition.solved(j)] for j in range(len(partition))]
    colours = colours_of(x, blocks, distance=2.0)
    assert sorted(block for colour in colours for block in colour) == list(range(30))
    for colour in colours:
        rows = torch.cat([blocks[j] for j in colour])
        assert len(rows.unique()) == len(rows)
        between = [cdist(x[blocks[i]], x[blocks[j]]).min() for i in colour for j in colour if i < j]
        assert min(between, default=9.0) > 1.5  # distances are measured between sampled rows
    assert len(colours) < 12


@pytest.mark.parametrize("noise", [0.1, 0.01])
def test_a_local_solve_of_low_rank_is_nearly_the_dense_one(noise):
    x, y = maps(600, 2)
    kernel, rows = Matern52(lengthscale=0.5), np.arange(100, 500)
    operator = make_operator("tiled", torch.from_numpy(x), kernel, noise)
    solve = LocalSolves(0.4, 0, torch.float64).of(operator, torch.from_numpy(rows))
    assert isinstance(solve, LowRankSolve)
    assert solve.rank < 160
    k = dense(kernel, x[rows], noise)
    found = solve(torch.from_numpy(y[rows, None])).numpy()[:, 0]
    # of the energy that an exact solve gains, the low rank gains all but a few percent
    gained = y[rows] @ found - found @ k @ found / 2
    assert 0.9 < gained / (y[rows] @ np.linalg.solve(k, y[rows]) / 2) <= 1.0


def test_a_block_whose_rank_would_be_too_high_is_solved_exactly():
    x, y = maps(300, 3)
    operator = make_operator("tiled", torch.from_numpy(x), Matern12(lengthscale=0.1), 0.01)
    rows = torch.arange(300)
    solve = LocalSolves(0.4, 0, torch.float64).of(operator, rows)
    assert isinstance(solve, ExactSolve)
    exact = np.linalg.solve(dense(Matern12(lengthscale=0.1), x, 0.01), y)
    assert np.allclose(solve(torch.from_numpy(y[:, None])).numpy()[:, 0], exact, rtol=1e-9, atol=1e-9)


def test_small_noise_is_solved_in_float64_by_exact_blocks():
    x, y = maps(2500, 3)
    solver = ColouredProjection(tol=1e-3)
    resolved, reasons = solver.resolve(make_operator("tiled", torch.from_numpy(x), Matern32(lengthscale=0.3), 1e-6))
    assert (resolved.rank, resolved.precision.recursion) == (0, "float64")
    assert "solved exactly" in reasons["block_size"]
    assert "σ² is below" in reasons["precision.recursion"]
    assert apviz.solve(system_of(x, y, Matern32(lengthscale=0.3), 1e-6), solver).converged


@pytest.mark.parametrize(("n", "size"), [(20_000, 8192), (30_000, 16384)])
def test_smooth_kernels_get_large_blocks_of_low_rank(n, size):
    x, _ = maps(n, 2)
    operator = make_operator("tiled", torch.from_numpy(x), Matern52(lengthscale=0.5), 0.1)
    resolved, _ = ColouredProjection().resolve(operator)
    assert (resolved.block_size, resolved.rank) == (size, 300)


def test_a_sweep_is_recorded_and_named(tmp_path):
    x, y = maps(800, 2)
    solver = ColouredProjection(block_size=100)
    system = system_of(x, y, Matern52(lengthscale=0.1), 0.1)
    solution = apviz.solve(system, solver, hooks=[apviz.Recorder(tmp_path / "run.zarr")])
    trace = apviz.open_trace(tmp_path / "run.zarr")
    assert trace.method_name == "Coloured projections"
    assert trace.status() == "Converged"
    assert trace.block_size == 100
    colours = trace["colour"].sizes["colour"]
    assert trace["colour"]["blocks"].sum() == 8
    # of each sweep, every colour in turn and then the step along past sweeps
    sweeps = trace["update"]["block"].values.reshape(solution.epochs, colours + 1)
    assert (sweeps == [*range(colours), -1]).all()
    assert np.isfinite(trace["update"]["residual"].values.reshape(sweeps.shape)[:, -1]).all()


class Watch(apviz.Hook):
    """Keep weights, residuals and the claimed decrease after every update."""

    def __init__(self):
        self.seen = []

    def on_start(self, run):
        self.run = run

    def on_update(self, update):
        now = self.run.weights, self.run.residual_vectors
        weights, residual = (each[:, 0].double().cpu().numpy() for each in now)
        self.seen.append((update.block, weights, residual, float(update.energy_decrease)))


@pytest.mark.parametrize("operator", ["tiled", pytest.param("fourier", marks=only_on_the_cpu("it runs there"))])
def test_after_every_colour_weights_and_residual_belong_together_and_the_estimate_is_near_the_decrease(operator):
    x, y = maps(600, 2)
    kernel, watch = Matern32(lengthscale=0.1), Watch()
    solver = ColouredProjection(block_size=100, tol=1e-3, precision="float64")
    work = apviz.solve(system_of(x, y, kernel, 0.1, operator=operator), solver, hooks=[watch]).work
    k, energy = dense(kernel, x, 0.1), 0.0
    for block, w, r, decrease in watch.seen:
        assert np.allclose(r, y - k @ w, atol=1e-5)
        before, energy = energy, w @ k @ w / 2 - w @ y
        if block >= 0:
            assert decrease == pytest.approx(before - energy, rel=0.2, abs=1e-3)
    if operator == "tiled":  # what hooks ask for does not count
        assert work == apviz.solve(system_of(x, y, kernel, 0.1, operator=operator), solver).work


def test_a_stop_after_a_colour_leaves_weights_whose_residual_is_the_reported_one():
    x, y = maps(600, 2)
    kernel = Matern32(lengthscale=0.1)

    class StopAtOnce(apviz.Hook):
        def on_start(self, run):
            self.run = run

        def on_update(self, update):
            self.run.request_stop("enough")

    with pytest.warns(apviz.NotConverged):
        solution = apviz.solve(
            system_of(x, y, kernel, 0.1), ColouredProjection(block_size=100, precision="float64"), hooks=[StopAtOnce()]
        )
    assert solution.stop_reason is apviz.StopReason.STOPPED
    assert solution.residual == pytest.approx(relative(dense(kernel, x, 0.1), solution.weights.cpu().numpy(), y))


def slow(operator="tiled"):
    """Return a system, and sweeps over blocks far smaller than the lengthscale, which gain little."""
    x, y = maps(300, 2)
    kernel = Matern52(lengthscale=0.5)
    solver = ColouredProjection(block_size=10, overlap=0.1, tol=1e-3, precision="float64")
    return system_of(x, y, kernel, 1e-4, operator=operator), solver, dense(kernel, x, 1e-4), y


@pytest.mark.parametrize("operator", ["tiled", pytest.param("fourier", marks=only_on_the_cpu("it runs there"))])
def test_slow_sweeps_hand_over_to_overlapping_projections_which_solve_the_dense_system(tmp_path, operator):
    system, solver, k, y = slow(operator)
    recorder = apviz.Recorder(tmp_path / "run.zarr")
    solution = apviz.solve(system, solver, hooks=[recorder])
    assert solution.converged
    assert relative(k, solution.weights.cpu().numpy(), y) < 1.05e-3
    trace = apviz.open_trace(tmp_path / "run.zarr")
    said = json.loads(trace.attrs["choices"])["handover"]
    assert re.match(
        r"overlapping projections after sweep \d+, at a residual of .*: about .* more work instead of", said
    )
    assert "handed over to overlapping projections" in conditioning(trace, []).evidence
    updates, colours = trace["update"], trace["colour"].sizes["colour"]
    sweeps = int((updates["block"] >= 0).sum()) // colours
    assert updates.sizes["update"] > sweeps * (colours + 1)
    epochs = trace["epoch"]["energy"].values
    assert (np.diff(epochs) <= 1e-9 * np.abs(epochs[1:])).all()
    figure = apviz.plots.block_timeline(trace)
    assert "took over after update" in re.sub("(<[^>]*>)+", " ", figure.layout.title.text).replace("  ", " ")
    assert (figure.data[0].y < colours).all()


def test_sweeps_that_may_not_hand_over_end_at_their_limit_and_say_so():
    system, solver, _, _ = slow()
    with pytest.warns(apviz.NotConverged):
        solution = apviz.solve(system, replace(solver, hands_over=False, max_epochs=8))
    assert solution.stop_reason is apviz.StopReason.MAX_EPOCHS


def test_fast_sweeps_do_not_hand_over():
    x, y = maps(700, 2)
    recorder = apviz.Recorder()
    system = system_of(x, y, Matern52(lengthscale=0.1), 0.1)
    apviz.solve(system, ColouredProjection(block_size=100, tol=1e-6, precision="float64"), hooks=[recorder])
    assert "handover" not in recorder.trace.attrs["choices"]


@pytest.mark.parametrize(("cost", "ends"), [(0.01, False), (0.5, True)])
def test_a_residual_that_stays_for_a_few_sweeps_ends_them_only_if_they_cost_much(monkeypatch, cost, ends):
    """The residuals of sweeps over 116,000 soundings, which fell to 3.6e-6 after eight more such sweeps."""
    monkeypatch.setattr(handover, "_blocks", lambda *_: object())
    state = SimpleNamespace(operator=SimpleNamespace(n=116_000, work=0.0), residual=1.0, epoch=0, choices={})
    progress = handover.Progress(state, Stopping(tol=4e-6), seed=0)
    found = []
    for residual in (7.8e-2, 7.2e-3, 3.1e-3, 6.7e-4, 5.1e-4, 7.3e-4, 4.6e-4, 7.2e-4):
        state.epoch, state.residual, state.operator.work = state.epoch + 1, residual, state.operator.work + cost
        found.append(progress.is_slow())
    assert any(found) is ends


def test_without_memory_for_blocks_the_sweeps_continue_and_the_choices_say_so(monkeypatch):
    system, solver, _, _ = slow()

    def refuse(*_):
        raise MemoryError("9 GiB are needed, 1 GiB are free")

    monkeypatch.setattr(AlternatingProjection, "build", refuse)
    recorder = apviz.Recorder()
    with pytest.warns(apviz.NotConverged):
        apviz.solve(system, replace(solver, max_epochs=8), hooks=[recorder])
    choices = json.loads(recorder.trace.attrs["choices"])
    assert "9 GiB are needed" in choices["no handover"] and "handover" not in choices
    assert (recorder.trace["update"]["block"].values >= 0).sum() == 8 * recorder.trace["colour"].sizes["colour"]


@only_on_the_cpu("the Fourier operator runs there")
def test_a_sweep_of_fourier_products_costs_less_work_than_a_product_of_all_entries():
    x, y = maps(30_000, 2)
    system = system_of(x, y, Matern52(lengthscale=0.05), 0.1, operator="fourier")
    solution = apviz.solve(system, ColouredProjection(tol=1e-2))
    assert solution.converged
    assert solution.work < 1.0
    assert solution.certificate.kind in ("bounded", "sampled")
    rows = np.arange(0, 30_000, 150)
    w = solution.weights.cpu().numpy()
    left = y[rows] - CORRELATIONS["matern52"](cdist(x[rows] / 0.05, x / 0.05)) @ w - 0.1 * w[rows]
    assert np.sqrt((left**2).mean() / (y**2).mean()) < 1.5 * 0.01


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"block_size": 0}, "block_size must be"), ({"rank": -1}, "rank must be"), ({"overlap": -1}, "overlap must be"),
        ({"products": "tiles"}, "products must be"), ({"hands_over": 1}, "hands_over must be"),
         ({"precision": "half"}, "precision must be"),
        ({"tol": 0.0}, "tol must be"),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        ColouredProjection(**settings)


@pytest.fixture(scope="module")
def large():
    """Return a system for which sweeps are fastest; its Fourier products are measured once."""
    x = np.random.default_rng(0).uniform(0, 1, (60_000, 2))
    return system_of(x, np.sin(9 * x[:, 0]), Matern52(lengthscale=0.05), 0.1, dtype=torch.float32)


@only_on_the_cpu("the Fourier operator runs there")
def test_auto_takes_sweeps_for_many_rows_of_two_inputs(large):
    resolved, reasons = apviz.Automatic().resolve(large.operator)
    assert isinstance(resolved, ColouredProjection)
    assert "with Fourier products" in reasons["method"]


@only_on_the_cpu("the Fourier operator runs there")
def test_auto_says_if_sweeps_would_be_faster_but_do_not_fit_the_memory(large, monkeypatch):
    monkeypatch.setattr(automatic, "free_memory", lambda device: 2**26)
    resolved, reasons = apviz.Automatic().resolve(large.operator)
    assert isinstance(resolved, apviz.AlternatingProjection)
    assert re.search(
        r"coloured projections would take about .* but need about .* GiB, 0.1 GiB are free", reasons["method"]
    )


@only_on_the_cpu("the Fourier operator runs there")
def test_sweeps_are_forecast_without_a_rehearsal(large):
    x, sweeps = large.x.double().numpy(), ColouredProjection(products="fourier")
    forecast = apviz.advise(large, {"sweeps": sweeps}).methods["sweeps"]
    assert 0 < forecast.seconds.low < forecast.seconds.likely < forecast.seconds.high < np.inf
    few = system_of(x[:900], x[:900, 0], Matern52(lengthscale=0.05), 0.1)
    with pytest.raises(MemoryError, match="sweeps: it needs at least 30,000 rows"):
        apviz.advise(few, {"sweeps": sweeps})


@only_on_the_cpu("the Fourier operator runs there")
@pytest.mark.parametrize("operator", ["tiled", "fourier"])
def test_traces_and_figures_say_whether_work_was_converted_from_seconds(tmp_path, operator):
    x, y = maps(900, 2)
    system = system_of(x, y, Matern52(lengthscale=0.1), 0.1, operator=operator)
    apviz.solve(system, ColouredProjection(block_size=200), hooks=[apviz.Recorder(tmp_path / "run.zarr")])
    trace = apviz.open_trace(tmp_path / "run.zarr")
    assert trace.work_converts_seconds is (operator == "fourier")
    said = re.sub("(<[^>]*>)+", " ", apviz.plots.residuals(trace).layout.title.text)
    assert ("count as work at the measured rate of entries" in said) is (operator == "fourier")


@pytest.mark.parametrize(
    ("n", "rank", "why"),
    [
        (300, 300, "one block holds all rows"),
        (3_000, 0, "no low rank was requested"),
        (3_000, 5, "more than 5 vectors"),
    ],
)
def test_the_reason_for_exact_blocks_is_the_true_one(n, rank, why):
    operator = make_operator("tiled", torch.from_numpy(maps(n, 2)[0]), Matern12(lengthscale=0.1), 0.01)
    resolved, reasons = ColouredProjection(rank=rank).resolve(operator)
    assert resolved.rank == 0
    assert why in reasons["block_size"]
