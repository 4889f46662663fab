"""Recorded numbers agree with the solve, in memory, on disk, and for a reader without apviz."""

import dataclasses
import functools
import json
import subprocess
import sys
import time
from importlib import metadata
from io import StringIO

import numpy as np
import pytest
import scipy.linalg
import torch
import xarray as xr
from rich.console import Console

import apviz
from apviz.operators import CountingOperator
from apviz.partitions import KDTree
from apviz.preconditioners import Preconditioner
from apviz.preconditioners.pivoted_cholesky import pivoted_cholesky
from apviz.tracing.opening import attributes_of
from apviz.tracing.schema import GROUPS, SCHEMA_VERSION
from tests.device import DEVICE

NEVER = 1e-300
AP = apviz.AlternatingProjection(block_size=7, tol=NEVER, max_epochs=5, check_every=2)
SOLVERS = (
    AP,
    apviz.AlternatingProjection(block_size=7, rule="cyclic", partition=KDTree(overlap=0.6), tol=NEVER, max_epochs=5),
    apviz.AlternatingProjection(block_size=7, rule="random", partition="shuffled", tol=NEVER, max_epochs=5),
    apviz.ConjugateGradient(tol=1e-8),
    apviz.Cholesky(),
)
PCG = apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=5), tol=1e-8)
EVERY_SOLVER = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)
X = np.random.default_rng(0).uniform(size=(40, 2))
B = np.random.default_rng(1).standard_normal((40, 3))
# Matérn-3/2, lengthscale 0.5, noise 0.3, written out
R = np.sqrt(3) * np.linalg.norm(X[:, None] - X[None], axis=-1) / 0.5
K = (1 + R) * np.exp(-R) + 0.3 * np.eye(40)


def system(**settings):
    return apviz.KernelSystem(
        X, B, apviz.Matern32(lengthscale=0.5), noise=0.3, dtype=torch.float64, device=DEVICE, **settings
    )


def recorded(solver, *hooks, path=None, start=None, **settings):
    recorder = apviz.Recorder(path, **settings)
    solution = apviz.solve(system(dataset="cube", seed=4), solver, [*hooks, recorder], initial_weights=start)
    return recorder, solution


@functools.cache
def plain(solver):
    """Return the recorder of a solve in memory, and the solution; no test changes them."""
    return recorded(solver)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    """Return a function that records a solve with all it can, once, and returns the path and the trace in memory."""

    @functools.cache
    def on_disk(solver):
        path = tmp_path_factory.mktemp("disk") / "a.zarr"
        return path, recorded(solver, path=path, rows=True, snapshots=(0, 1, 3), weights=True)[0].trace

    return on_disk


@EVERY_SOLVER
def test_memory_disk_and_a_saved_copy_are_identical(tmp_path, on_disk, solver):
    path, trace = on_disk(solver)
    trace.save(tmp_path / "copy.zarr")
    for each in (path, tmp_path / "copy.zarr"):
        assert apviz.open_trace(each).tree.identical(trace.tree)


def test_a_trace_opens_with_xarray_alone(tmp_path):
    recorded(AP, path=tmp_path / "a.zarr")
    program = (
        "import sys, xarray as xr; t = xr.open_datatree(sys.argv[1]); "
        "print(float(t['epoch']['residual'][-1]), t.attrs['status'], 'apviz' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.zarr"], capture_output=True, text=True, check=True
    )
    residual, status, imported = done.stdout.split()
    assert float(residual) == apviz.open_trace(tmp_path / "a.zarr")["epoch"]["residual"].values[-1]
    assert (status, imported, done.stderr) == ("finished", "False", "")


@EVERY_SOLVER
def test_the_metadata_on_disk_is_strict_json(on_disk, solver):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    files = list(on_disk(solver)[0].rglob("zarr.json"))
    assert len(files) > 10
    for file in files:
        json.loads(file.read_text(), parse_constant=refuse)


@EVERY_SOLVER
def test_every_variable_has_a_long_name_and_units(on_disk, solver):
    _, trace = on_disk(solver)
    variables = [v for group in trace.tree.children for v in trace[group].variables.values()]
    assert len(variables) > 25
    assert all(v.attrs["long_name"] and v.attrs["units"] for v in variables)
    assert all(name in GROUPS[group] for group in trace.tree.children for name in trace[group].variables)


@EVERY_SOLVER
def test_the_root_attributes_describe_the_system_the_method_and_the_machine(solver):
    recorder, solution = plain(solver)
    attrs = recorder.trace.attrs
    expected = {
        "dataset": "cube", "n": 40, "d": 2, "kernel": "matern32", "lengthscale": [0.5], "outputscale": 1.0,
        "noise": 0.3, "right_hand_sides": 3, "seed": 4, "solver": solver.name, "method": solver.method.plain(),
        "method_name": solver.method.name, "method_details": solver.method.details,
        "device": DEVICE, "dtype": "float64", "threads": torch.get_num_threads(),
        "status": "finished", "tol": solver.tol,
        "stop_reason": str(solution.stop_reason), "stop_message": solution.stop_message,
        "residual": solution.residual, "epochs": solution.epochs, "work": solution.work,
    }  # fmt: skip
    assert {name: attrs[name] for name in expected} == expected
    np.testing.assert_allclose(attrs["rhs_norms"], np.linalg.norm(B, axis=0))
    assert json.loads(attrs["versions"])["torch"] == metadata.version("torch")
    assert json.loads(attrs["solver_settings"])["tol"] == solver.tol


@EVERY_SOLVER
def test_groups_agree_with_each_other_and_with_the_solve(solver):
    recorder, solution = plain(solver)
    update, epoch = recorder.trace["update"], recorder.trace["epoch"]
    assert epoch.sizes["epoch"] == solution.epochs + 1
    np.testing.assert_array_equal(update["update"], np.arange(1, update.sizes["update"] + 1))
    np.testing.assert_array_equal(epoch["residual"], epoch["residual_per_rhs"].values.mean(axis=1))
    np.testing.assert_allclose(
        epoch["energy"].values[-1], recorder.trace.attrs["initial_energy"] - update["energy_decrease"].values.sum()
    )
    for group in (update, epoch):
        assert (np.diff(group["work"]) > 0).all() and (np.diff(group["seconds"]) >= 0).all()
    assert epoch["work"].values[-1] == solution.work and epoch["residual"].values[-1] == solution.residual
    table = recorder.trace.to_dataframe("epoch")
    assert table.index.name == "epoch"
    np.testing.assert_array_equal(table["residual"], epoch["residual_per_rhs"].values.mean(axis=1))


@pytest.mark.parametrize("solver", SOLVERS[:3], ids=lambda s: s.method.name)
def test_blocks_agree_with_the_updates_and_the_residual(solver):
    trace = recorded(solver, rows=True)[0].trace
    block, update, epoch, rows = (trace[g] for g in ("block", "update", "epoch", "rows"))
    m = block.sizes["block"]
    np.testing.assert_array_equal(block["times_chosen"], np.bincount(update["block"], minlength=m))
    np.testing.assert_array_equal(update["epoch_of_update"], np.repeat(np.arange(1, 6), m))
    total = np.linalg.norm(epoch["residual_per_rhs"].values * trace.attrs["rhs_norms"], axis=1)
    np.testing.assert_allclose(np.linalg.norm(block["residual_norm"], axis=1), total)
    np.testing.assert_array_equal(np.bincount(rows["owner"]), block["owned_size"])
    np.testing.assert_array_equal(np.bincount(rows["membership"][:, 1]), block["solved_size"])
    np.testing.assert_array_equal(rows["coordinates"], X)
    for j in range(m):
        solved = rows["membership"].values[rows["membership"].values[:, 1] == j, 0]
        largest = np.linalg.eigvalsh(K[np.ix_(solved, solved)])[-1]
        assert float(block["lambda_max"][j]) == pytest.approx(largest, rel=0.05)
        assert float(block["lambda_max"][j]) <= largest * (1 + 1e-12)


def test_snapshots_hold_the_residual_of_the_first_right_hand_side():
    trace = recorded(AP, snapshots=(0, 3))[0].trace
    np.testing.assert_array_equal(trace["snapshot"]["update"], [0, 3])
    np.testing.assert_array_equal(trace["snapshot"]["residual"][0], B[:, 0])
    after = np.linalg.norm(trace["snapshot"]["residual"][1]) / np.linalg.norm(B[:, 0])
    assert after == pytest.approx(float(trace["update"]["residual"][2, 0]))


@EVERY_SOLVER
def test_the_weights_of_a_snapshot_match_its_residual(on_disk, solver):
    _, trace = on_disk(solver)
    snapshot, target = trace["snapshot"], trace["rows"]["target"].values
    np.testing.assert_array_equal(target, B[:, 0])
    np.testing.assert_allclose(target - snapshot["weights"].values @ K, snapshot["residual"].values, atol=1e-12)


@pytest.mark.parametrize("numbers", [range(0, 5, 2), {4, 0, 2}, np.arange(0, 5, 2)])
def test_snapshots_accept_any_integers_and_apply_to_several_solves(numbers):
    recorder = apviz.Recorder(snapshots=numbers)
    for _ in range(2):
        apviz.solve(system(), AP, [recorder])
    for trace in recorder.traces:
        np.testing.assert_array_equal(trace["snapshot"]["update"], [0, 2, 4])


def test_the_spectrum_equals_that_of_the_dense_matrix_and_names_its_method():
    spectrum = recorded(AP)[0].trace["spectrum"]
    values = np.linalg.eigvalsh(K)
    assert float(spectrum["kappa"]) == pytest.approx(values[-1] / values[0])
    assert not spectrum["kappa"].attrs["is_estimate"] and "float64" in spectrum["lambda_min"].attrs["how"]
    assert spectrum["kappa_prime"].attrs["is_estimate"]


@pytest.mark.parametrize("solver", [*SOLVERS, PCG], ids=lambda s: s.method.name)
def test_eigenvalues_of_k_and_of_the_preconditioned_operator_are_recorded(tmp_path, solver):
    recorder, solution = recorded(solver, path=tmp_path / "a.zarr", eigenvalues=True)
    assert apviz.open_trace(tmp_path / "a.zarr").tree.identical(recorder.trace.tree)
    group = recorder.trace["eigenvalues"]
    assert ("preconditioned" in group) == (solver is PCG)
    expected = {"eigenvalue": np.linalg.eigvalsh(K)[::-1]}
    if solver is PCG:
        factor = pivoted_cholesky(CountingOperator(system().operator), 5).numpy()
        p = factor @ factor.T + 0.3 * np.eye(40)
        expected["preconditioned"] = scipy.linalg.eigh(K, p, eigvals_only=True)[::-1]
    for name, values in expected.items():
        np.testing.assert_allclose(group[name], values, rtol=1e-9)
        assert group[name].dims == ("index",) and group[name].attrs["long_name"] and group[name].attrs["units"] == "1"
        assert group[name].attrs["kappa"] == pytest.approx(values[0] / values[-1])
        assert "float64" in group[name].attrs["how"]
    # a hook changes no numbers
    assert solution.work == plain(solver)[1].work


def test_eigenvalues_are_recorded_only_on_request():
    assert "eigenvalues" not in recorded(PCG)[0].trace


def test_an_indefinite_preconditioner_has_eigenvalues_but_no_condition_number(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Minus(Preconditioner):
        label = "minus"

        def build(self, operator):
            return lambda r: -r

    recorder, _ = recorded(
        apviz.ConjugateGradient(preconditioner=Minus(), max_epochs=1), path=tmp_path / "a.zarr", eigenvalues=True
    )
    found = recorder.trace["eigenvalues"]["preconditioned"]
    np.testing.assert_allclose(found, -np.linalg.eigvalsh(K))
    assert "kappa" not in found.attrs
    assert apviz.open_trace(tmp_path / "a.zarr").tree.identical(recorder.trace.tree)


def test_the_time_of_the_solve_excludes_that_of_the_eigenvalues(monkeypatch):
    compute, clock, later = apviz.tracing.spectra.all_eigenvalues, time.perf_counter, [0.0]

    def slow(*args):
        later[0] += 1000.0
        return compute(*args)

    monkeypatch.setattr(time, "perf_counter", lambda: clock() + later[0])
    monkeypatch.setattr(apviz.tracing.spectra, "all_eigenvalues", slow)
    recorder, solution = recorded(PCG, eigenvalues=True)
    assert later[0] and solution.seconds < 1000.0 and recorder.trace["epoch"]["seconds"].values[-1] < 1000.0


def test_too_many_rows_for_the_eigenvalues_end_the_solve_before_it_starts_and_leave_no_trace(tmp_path):
    large = apviz.KernelSystem(
        np.linspace(0, 1, 4001), np.ones(4001), apviz.RBF(lengthscale=0.1), noise=0.3, device=DEVICE
    )
    recorder = apviz.Recorder(tmp_path / "a.zarr", eigenvalues=True)
    with pytest.raises(ValueError, match="n is at most 4,000, got n = 4,001"):
        apviz.solve(large, apviz.ConjugateGradient(), [recorder])
    assert recorder.traces == [] and list(tmp_path.iterdir()) == []


# --- several solves, and paths -------------------------------------------------------------------------------------


def test_several_solves_give_several_traces_in_memory_and_on_disk(tmp_path):
    recorder = apviz.Recorder(tmp_path / "a.zarr")
    for solver in SOLVERS[:3]:
        apviz.solve(system(), solver, [recorder])
    assert [t.method_name for t in recorder.traces] == [s.method.name for s in SOLVERS[:3]]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-2.zarr", "a-3.zarr", "a.zarr"]
    assert apviz.open_trace(tmp_path / "a-2.zarr").tree.identical(recorder.traces[1].tree)
    assert recorder.trace.tree.identical(recorder.traces[2].tree)


def test_an_existing_path_is_rejected_unchanged_and_other_hooks_are_told(tmp_path):
    recorded(AP, path=tmp_path / "a.zarr")
    before = {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}
    told = []

    class Told(apviz.Hook):
        def on_abandon(self, error):
            told.append(type(error))

    recorder = apviz.Recorder(tmp_path / "a.zarr")
    with pytest.raises(FileExistsError, match=r"a\.zarr exists; choose another path: traces are never overwritten"):
        apviz.solve(system(), AP, [recorder, Told()])
    assert told == [FileExistsError]
    assert before == {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}
    with pytest.raises(FileExistsError, match="never overwritten"):
        recorded(AP)[0].trace.save(tmp_path / "a.zarr")


def test_before_any_solve_reading_the_trace_raises():
    with pytest.raises(LookupError, match=r"pass the recorder in hooks=\[recorder\]"):
        _ = apviz.Recorder().trace


def test_an_error_about_a_missing_group_lists_the_existing_ones():
    with pytest.raises(KeyError, match=r"no group 'rows'; it has .*update.*"):
        recorded(AP)[0].trace["rows"]


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_trace_of_another_schema_is_rejected_with_a_remedy(tmp_path, version):
    recorded(AP)[0].trace.save(tmp_path / "a.zarr")
    root = json.loads((tmp_path / "a.zarr" / "zarr.json").read_text("utf-8"))
    root["attributes"]["schema_version"] = version
    (tmp_path / "a.zarr" / "zarr.json").write_text(json.dumps(root), "utf-8")
    sentence = f"a.zarr has schema {version}, this apviz reads schema {SCHEMA_VERSION}: record it again"
    for read in (apviz.open_trace, attributes_of):
        with pytest.raises(ValueError, match=sentence):
            read(tmp_path / "a.zarr")


def test_other_files_and_folders_are_not_opened_as_traces(tmp_path):
    with pytest.raises(FileNotFoundError, match="no trace at"):
        apviz.open_trace(tmp_path / "nothing.zarr")
    xr.Dataset({"a": 1}).to_zarr(tmp_path / "other.zarr", zarr_format=3)
    with pytest.raises(ValueError, match="is not an apviz trace: it has no schema_version"):
        apviz.open_trace(tmp_path / "other.zarr")
    (tmp_path / "file.zarr").write_text("text")
    with pytest.raises(ValueError, match="does not open as a Zarr trace"):
        apviz.open_trace(tmp_path / "file.zarr")


# --- the other hooks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", ["sequential", "kd-tree"])
def test_the_recorded_rmse_equals_that_of_the_dense_prediction_and_its_work_is_separate(partition):
    z, y = np.random.default_rng(2).uniform(size=(11, 2)), np.random.default_rng(3).standard_normal(11)
    r = np.sqrt(3) * np.linalg.norm(z[:, None] - X[None], axis=-1) / 0.5
    cross, weights = (1 + r) * np.exp(-r), []

    class Weights(apviz.Hook):
        def on_start(self, run):
            self.run = run

        def on_epoch(self, epoch):
            weights.append(self.run.weights[:, 0].numpy().copy())

    hook = apviz.PredictionHook(torch.tensor(z), torch.tensor(y), mean=0.7, every=2)
    solver = apviz.AlternatingProjection(block_size=7, partition=partition, tol=NEVER, max_epochs=5)
    recorder, solution = recorded(solver, hook, Weights())
    epoch = recorder.trace["epoch"]
    expected = [np.sqrt(np.mean((cross @ w + 0.7 - y) ** 2)) if k % 2 == 0 else np.nan for k, w in enumerate(weights)]
    np.testing.assert_allclose(epoch["test_rmse"], expected, rtol=1e-10)
    np.testing.assert_allclose(epoch["prediction_work"], np.array([1, 1, 2, 2, 3, 3]) * 11 / 40)
    assert solution.work == recorded(solver)[1].work


@pytest.mark.parametrize(("x", "y"), [((5, 2), (4,)), ((5,), (5,)), ((5, 2), (5, 1))])
def test_test_points_and_targets_of_different_lengths_are_rejected(x, y):
    with pytest.raises(ValueError, match=r"test_x must be \(m, d\) and test_y \(m,\), m and d at least 1, got"):
        apviz.PredictionHook(torch.zeros(x), torch.zeros(y))


@pytest.mark.parametrize("every", [0, -1, 1.5])
def test_the_number_of_epochs_between_predictions_must_be_an_integer(every):
    with pytest.raises(ValueError, match=f"every must be .* got {every}"):
        apviz.PredictionHook(torch.zeros(3, 2), torch.zeros(3), every=every)


def test_progress_names_the_method_and_ends_with_the_stop_reason():
    text = StringIO()
    solution = apviz.solve(system(), AP, [apviz.ProgressHook(Console(file=text, width=200, force_terminal=True))])
    assert AP.method.name in text.getvalue()
    assert f"Not converged: epoch limit (residual {solution.residual:.2e})" in text.getvalue()


@pytest.mark.skipif(DEVICE != "cpu", reason="the Fourier operator runs on the CPU")
def test_details_say_how_products_and_the_residual_were_computed_if_not_from_all_entries():
    assert recorded(apviz.ConjugateGradient())[0].trace.details == ""
    recorder = apviz.Recorder()
    apviz.solve(system(operator="fourier"), apviz.ConjugateGradient(tol=1e-3), hooks=[recorder])
    products = "near + far: Fourier products, entries to 1e-08 of k(0)"
    assert recorder.trace.details == products
    trace = recorder.trace
    trace.tree.attrs["certificate"] = "sampled"
    assert trace.details == f"{products}; residual by products whose error is measured on random rows"
