"""Training against GPyTorch, and what an interrupted training keeps."""

from __future__ import annotations

import functools
import io
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import gpytorch
import numpy as np
import pytest
import torch
from rich.console import Console

import apviz
from apviz.operators import native
from apviz.partitions import KDTree
from apviz.tracing.training_trace import settled_at
from tests.device import DEVICE, only_on_the_cpu
from tests.gp.small_trainings import CHOLESKY, data, train_to, training


def values(h):
    return np.array([h.mean, h.noise, h.outputscale, *h.lengthscale])


class ExactGP(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5, ard_num_dims=x.shape[1]))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def test_training_with_many_probes_agrees_with_gpytorch_by_cholesky():
    x, y = data()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = ExactGP(x, y, likelihood).double().train()
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(20):
        adam.zero_grad()
        (-objective(model(x), y)).backward()
        adam.step()
    exact = [model.mean_module.constant.item(), likelihood.noise.item(), model.covar_module.outputscale.item()]
    exact += model.covar_module.base_kernel.lengthscale.flatten().tolist()
    found = training(steps=20, probes=3000).run()
    np.testing.assert_allclose(values(found), exact, rtol=0.02)


@pytest.mark.parametrize(
    "solver",
    [
        apviz.AlternatingProjection(block_size=30, tol=1e-8),
        apviz.AlternatingProjection(block_size=20, partition=KDTree(overlap=1.0), tol=1e-8),
        apviz.ConjugateGradient(tol=1e-8),
    ],
    ids=lambda s: s.method.name,
)
def test_every_solver_with_rademacher_probes_gives_the_same_training(solver):
    np.testing.assert_allclose(values(training(solver=solver).run()), values(training().run()), rtol=1e-5)


def test_training_starts_like_gpytorch_and_keeps_the_noise_above_its_floor():
    start = training(noise_floor=0.3).hyperparameters
    softplus_of_0 = np.log(2)
    np.testing.assert_allclose(values(start), [0, softplus_of_0 + 0.3, *[softplus_of_0] * 3])
    x, _ = data()
    smooth = apviz.Training(
        x, torch.sin(x[:, 0]), apviz.TrainingSettings(solver=CHOLESKY, steps=40, noise_floor=0.3), dtype=torch.float64
    )
    assert smooth.run().noise > 0.3


def test_training_starts_from_given_hyperparameters():
    start = apviz.Hyperparameters("matern52", (0.4, 0.6), 1.5, 0.05, 0.3)
    x, y = data()
    settings = apviz.TrainingSettings(solver=CHOLESKY, steps=1)
    going = apviz.Training(x, y, settings, initial=start, dtype=torch.float64)
    np.testing.assert_allclose(values(going.hyperparameters), values(start), rtol=1e-12)
    with pytest.raises(ValueError, match=r"the initial noise must be above noise_floor = 0.1, got 0.05"):
        apviz.Training(x, y, apviz.TrainingSettings(noise_floor=0.1), initial=start)
    with pytest.raises(ValueError, match="the initial kernel has 2 lengthscales, but 1 are trained"):
        apviz.Training(x, y, apviz.TrainingSettings(ard=False), initial=start)


def test_without_ard_one_lengthscale_is_trained():
    assert len(training(ard=False).run().lengthscale) == 1


def test_the_trace_records_every_step(tmp_path):
    trained = training(
        tmp_path / "t.zarr", solver=apviz.AlternatingProjection(block_size=30, tol=0.1), spectrum=True, steps=7
    )
    final = trained.run()
    trace = apviz.open_trace(tmp_path / "t.zarr")
    steps = trace["step"]
    assert steps["step"].values.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert steps["noise"].values[0] == pytest.approx(np.log(2) + 1e-4)
    assert (steps["epochs"] >= 1).all() and (steps["residual"] < 0.1).all() and (steps["converged"] == 1).all()
    # a solve, and one pass over K for the gradient
    assert (steps["work"] > steps["epochs"] + 1).all()
    assert (steps["kappa"] > steps["kappa_prime"]).all() and (steps["kappa_prime"] > 1).all()
    assert all({"long_name", "units"} <= set(v.attrs) for v in steps.data_vars.values())
    np.testing.assert_array_equal(values(trace.hyperparameters), values(final))
    assert trace.finished and trace.converged and trace.attrs["kind"] == "training"
    assert "7 steps" in repr(trace) and trace.to_dataframe("step").index.name == "step"


def test_kappa_of_a_step_equals_the_condition_number_of_its_matrix():
    trained = training(spectrum=True, steps=1)
    trained.run()
    x, _ = data()
    noise, scale, ell = np.log(2) + 1e-4, np.log(2), np.log(2)
    r = np.sqrt(5) * np.linalg.norm((x[:, None] - x[None]).numpy() / ell, axis=-1)
    k = scale * (1 + r + r**2 / 3) * np.exp(-r) + noise * np.eye(len(x))
    assert float(trained.trace["step"]["kappa"][0]) == pytest.approx(np.linalg.cond(k), rel=1e-6)


def test_recorders_record_the_solve_of_every_step():
    recorder = apviz.Recorder()
    training(solver=apviz.AlternatingProjection(block_size=30, tol=0.1), steps=3).run([recorder])
    assert [t.attrs["noise"] for t in recorder.traces] == sorted([t.attrs["noise"] for t in recorder.traces])[::-1]
    assert len(recorder.traces) == 3 and recorder.trace.attrs["right_hand_sides"] == 16


KILLED = """
import os, signal, sys
import torch
sys.path.insert(0, {root!r})
import apviz
from tests.gp.small_trainings import training

class Kill(apviz.TrainingHook):
    def on_step(self, step, settings):
        if step.number == 3:
            os.kill(os.getpid(), signal.SIGKILL)

training({path!r}, **{settings!r}).run([Kill()])
"""


@pytest.mark.slow
@pytest.mark.parametrize("warm_start", [False, True], ids=["cold", "warm"])
def test_a_killed_training_resumes_from_its_last_step_with_the_same_result(tmp_path, warm_start):
    path, settings = str(tmp_path / "killed.zarr"), {"warm_start": warm_start}
    script = KILLED.format(root=str(Path(__file__).parents[2]), path=path, settings=settings)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert apviz.open_trace(path).outcome == "interrupted" and apviz.open_trace(path)["step"].sizes["step"] == 3
    resumed, whole = training(path, **settings), training(**settings)
    assert resumed.steps_done == 3
    np.testing.assert_array_equal(values(resumed.run()), values(whole.run()))
    names = [name for name in whole.trace["step"] if name != "seconds"]
    written = apviz.open_trace(path)
    for name in names:
        np.testing.assert_array_equal(written["step"][name], whole.trace["step"][name])
    assert written.finished


def test_a_training_killed_after_its_last_step_still_marks_kappa_as_exact(tmp_path, monkeypatch):
    monkeypatch.setattr(native, "is_built", lambda *_: False)  # as while another process compiles

    class Enough(apviz.TrainingHook):
        def on_step(self, step, settings):
            if step.number == settings.steps:
                raise KeyboardInterrupt

    path, settings = tmp_path / "t.zarr", {"steps": 2, "spectrum": True}
    with pytest.raises(KeyboardInterrupt):
        training(path, **settings).run([Enough()])
    training(path, **settings).run()
    found, whole = apviz.open_trace(path), training(**settings)
    whole.run()
    assert found.finished and found["step"].drop_vars("seconds").identical(whole.trace["step"].drop_vars("seconds"))
    assert found["step"]["kappa"].attrs["is_estimate"] is False


@pytest.fixture(scope="module")
def trained_with():
    """Return a function that trains with the compiled engine or without, once for both directions of a test."""

    @functools.cache
    def trained(solver, built, **settings):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "is_built", lambda *_: built)
            return values(training(solver=solver, **settings).run())

    return trained


@only_on_the_cpu("the compiled engine runs there")
@pytest.mark.parametrize("begun_with", [False, True], ids=["without", "with"])
@pytest.mark.parametrize(
    "solver",
    [CHOLESKY, apviz.AlternatingProjection(block_size=30, partition=KDTree(overlap=0.5), tol=1e-3)],
    ids=["exact", "ap"],
)
def test_a_training_resumes_with_the_engine_that_it_began_with_to_the_same_bits(
    tmp_path, monkeypatch, begun_with, solver, trained_with
):
    class Built(apviz.TrainingHook):  # another process builds the engine, or removes it
        def on_step(self, step, settings):
            if step.number == 3:
                monkeypatch.setattr(native, "is_built", lambda *_: not begun_with)

    class Enough(apviz.TrainingHook):
        def on_step(self, step, settings):
            if step.number == 3:
                raise KeyboardInterrupt

    if native.library() is None:
        pytest.skip("no C++ compiler on this machine")
    # n is large enough for the engines to differ in the last digits on every processor
    settings = {"solver": solver, "kernel": "matern52", "n": 200}
    want = trained_with(built=begun_with, **settings)
    assert (want != trained_with(built=not begun_with, **settings)).any()
    monkeypatch.setattr(native, "is_built", lambda *_: begun_with)
    with pytest.raises(KeyboardInterrupt):
        training(tmp_path / "t.zarr", **settings).run([Enough()])
    np.testing.assert_array_equal(values(training(**settings).run([Built()])), want)
    np.testing.assert_array_equal(values(training(tmp_path / "t.zarr", **settings).run()), want)
    assert apviz.open_trace(tmp_path / "t.zarr").attrs["compiled_engine"] == begun_with


@only_on_the_cpu("the compiled engine runs there")
def test_a_trace_records_the_compiled_engine_and_resuming_without_it_warns(tmp_path, monkeypatch):
    class Enough(apviz.TrainingHook):
        def on_step(self, step, settings):
            if step.number == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(native, "is_wanted", lambda *_: True)
    monkeypatch.setattr(native, "supports", lambda *_: False)
    training(tmp_path / "without.zarr", steps=1).run()
    assert apviz.open_trace(tmp_path / "without.zarr").attrs["compiled_engine"] is False
    with monkeypatch.context() as there, pytest.raises(KeyboardInterrupt):
        there.setattr(native, "supports", lambda *_: True)
        training(tmp_path / "with.zarr", steps=3).run([Enough()])
    with pytest.warns(UserWarning, match="started with the compiled engine, which is not available here"):
        training(tmp_path / "with.zarr", steps=3).run()
    assert apviz.open_trace(tmp_path / "with.zarr").finished
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is left to compute
        training(tmp_path / "with.zarr", steps=3).run()


def test_a_finished_training_keeps_its_trace_and_can_be_extended(tmp_path):
    path = tmp_path / "t.zarr"
    training(path, steps=2).run()
    again = training(path, steps=2)
    assert apviz.open_trace(path).finished and again.steps_done == 2
    longer = training(path, steps=4)
    np.testing.assert_array_equal(values(longer.run()), values(training(steps=4).run()))
    assert apviz.open_trace(path)["step"].sizes["step"] == 4
    assert '"steps": 4' in apviz.open_trace(path).attrs["training_settings"]


def test_a_checkpoint_of_another_training_is_rejected_with_the_difference(tmp_path):
    path = tmp_path / "t.zarr"
    training(path, steps=1).run()
    with pytest.raises(ValueError, match=r"t.zarr.checkpoint.npz belongs to another training: probes was 15, is 7"):
        training(path, probes=7)
    with pytest.raises(ValueError, match=r"data was '\w+', is '\w+'"):
        training(path, x=data()[0] + 1)
    (tmp_path / "t.zarr.checkpoint.npz").write_bytes(b"not an archive")
    with pytest.raises(ValueError, match="is not a checkpoint of a training .* move it away to start again"):
        training(path)


def test_a_trace_without_a_checkpoint_is_never_overwritten(tmp_path):
    path = tmp_path / "t.zarr"
    training(path, steps=1).run()
    (tmp_path / "t.zarr.checkpoint.npz").unlink()
    with pytest.raises(FileExistsError, match="traces are never overwritten"):
        training(path)


class StopAtStep(apviz.Hook):
    """Stops the k-th solve, or raises in it."""

    def __init__(self, at, error=None):
        self.at, self.solves, self.error = at, 0, error

    def on_start(self, run):
        self.solves += 1
        if self.solves == self.at and self.error:
            raise self.error
        if self.solves == self.at:
            run.request_stop("enough")


@pytest.mark.parametrize("error", [None, KeyboardInterrupt()], ids=["a stop", "Ctrl-C"])
def test_steps_before_a_stop_or_ctrl_c_are_kept_and_the_training_can_resume(tmp_path, error):
    solver = apviz.AlternatingProjection(block_size=20, tol=1e-2)
    cut = training(tmp_path / "t.zarr", solver=solver)
    if error:
        with pytest.raises(KeyboardInterrupt):
            cut.run([StopAtStep(3, error)])
    else:
        cut.run([StopAtStep(3)])
    assert cut.steps_done == 2 and not cut.trace.finished
    assert apviz.open_trace(tmp_path / "t.zarr")["step"].sizes["step"] == 2
    np.testing.assert_array_equal(values(cut.run()), values(training(solver=solver).run()))


def test_an_unconverged_solve_is_used_and_marked_with_one_warning():
    solver = apviz.AlternatingProjection(block_size=5, tol=1e-12, max_epochs=1)
    trained = training(solver=solver, steps=3)
    with pytest.warns(UserWarning, match=r"training step 1 hit the epoch limit: .* not converged \(residual .*e-"):
        trained.run()
    steps = trained.trace["step"]
    assert (steps["converged"] == 0).all() and (steps["residual"] > 1e-12).all()
    assert trained.trace.finished and not trained.trace.converged


def test_an_error_in_a_step_names_it_and_keeps_the_earlier_steps(tmp_path):
    class Fails(apviz.Hook):
        solves = 0

        def on_start(self, run):
            Fails.solves += 1
            if Fails.solves == 3:
                raise MemoryError("the factors need 7 GiB, 2 GiB are free")

    cut = training(tmp_path / "t.zarr")
    with pytest.raises(
        apviz.TrainingError,
        match=r"training step 3: the factors need 7 GiB, 2 GiB are free. The 2 steps before it are kept in .*t.zarr",
    ):
        cut.run([Fails()])
    assert apviz.open_trace(tmp_path / "t.zarr")["step"].sizes["step"] == 2
    assert training(tmp_path / "t.zarr").steps_done == 2


def test_a_full_disk_causes_one_warning_and_nothing_is_lost(tmp_path, monkeypatch):
    trained = training(tmp_path / "t.zarr", steps=3)
    monkeypatch.setattr(np, "savez", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        trained.run()
    said = [str(w.message) for w in seen if "could not be written" in str(w.message)]
    assert len(said) == 1 and "No space left on device" in said[0] and trained.trace["step"].sizes["step"] == 3


def test_a_warm_start_keeps_the_probes_and_needs_fewer_epochs():
    recorder = apviz.Recorder()
    settings = {"solver": apviz.AlternatingProjection(block_size=20, tol=1e-3), "steps": 8, "step_size": 0.01}
    warm, cold = training(warm_start=True, **settings), training(**settings)
    warm.run([recorder])
    cold.run()
    assert len({t.attrs["seed"] for t in recorder.traces}) == 1
    assert int(warm.trace["step"]["epochs"][1:].sum()) < int(cold.trace["step"]["epochs"][1:].sum())


def test_the_noise_has_settled_once_it_stays_within_a_hundredth_for_five_steps_until_the_end():
    assert settled_at(np.array([1.0, 0.9, 0.8])) is None
    assert settled_at(np.linspace(1, 0.5, 30)) is None
    falling = np.concatenate([np.geomspace(1, 0.1, 11), np.full(6, 0.1)])
    assert settled_at(falling) == 15
    turning = np.array([0.3548, 0.3459, 0.3421, 0.3423, 0.3462, 0.3533])  # ends within 1% of its start
    assert settled_at(turning) is None
    assert settled_at(np.concatenate([falling, [0.102]])) is None
    assert settled_at(np.concatenate([falling, [0.102], np.full(6, 0.102)])) == 22


def test_a_long_training_reports_that_the_noise_has_settled(caplog):
    caplog.set_level("INFO", "apviz")
    trained = training(steps=80, probes=50)
    trained.run()
    said = [int(step) for step in re.findall(r"has settled at step (\d+)", caplog.text)]
    noise = np.append(trained.trace["step"]["noise"].values, trained.hyperparameters.noise)
    assert said and said[-1] == trained.noise_settled_at
    assert noise[said[-1] - 5 :].max() < 1.05 * noise[said[-1] - 5 :].min()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"kernel": "periodic"}, "kernel must be one of matern12, .*, or a kernel such as .*, got 'periodic'"),
        ({"solver": "cg"}, r"solver must be a solver, such as apviz.Automatic\(\), got 'cg'"),
        ({"steps": 0}, "steps must be a whole number, at least 1, got 0"),
        ({"step_size": 0.0}, "step_size must be a positive number, such as 0.1, got 0.0"),
        ({"probes": 0}, "probes must be a whole number, at least 1, got 0"),
        ({"noise_floor": -1.0}, "noise_floor must be a number, at least 0, got -1.0"),
        ({"seed": -1}, "seed must be a whole number, at least 0, at most 4611686018427387904, got -1"),
    ],
)
def test_a_setting_out_of_range_is_rejected(setting, message):
    with pytest.raises(ValueError, match=message):
        apviz.TrainingSettings(**setting)


def test_bad_data_is_refused_before_any_work():
    x, y = data()
    with pytest.raises(ValueError, match=r"y must have shape \(n,\) or \(n, p\), .* got \(80, 1, 1\)"):
        apviz.Training(x, y[:, None, None])
    with pytest.raises(
        ValueError, match="operator must be auto, dense, tiled, fourier, keops, fused, fused-tf32x3, got 'sparse'"
    ):
        apviz.Training(x, y, operator="sparse")
    x[3, 1] = float("nan")
    with pytest.raises(ValueError, match="x has 1 NaN or infinite values in column 1"):
        apviz.Training(x, y)


def test_progress_shows_the_noise_the_solve_the_time_left_and_failures_to_converge():
    text = io.StringIO()
    progress = apviz.TrainingProgress(Console(file=text, width=200), every=2)
    solver = apviz.AlternatingProjection(block_size=5, tol=1e-12, max_epochs=1)
    with pytest.warns(UserWarning, match="not converged"):
        training(solver=solver, steps=3).run([progress])
    lines = text.getvalue().splitlines()
    assert len(lines) == 2 and "step 2 of 3, σ² = 0." in lines[0] and "1 epochs to residual" in lines[0]
    assert "step 3 of 3" in lines[1] and all("not converged" in line and "s left" in line for line in lines)


# --- a training reads, writes and removes only its own files ----------------------------------------------------------


def contents(folder):
    """Return the bytes and the time of modification of every file, by name."""
    return {
        path.relative_to(folder): (path.read_bytes(), path.stat().st_mtime_ns) if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def foreign_folder(path):
    (path / "thesis").mkdir(parents=True)
    (path / "thesis" / "chapter.tex").write_text("years of work")
    return contents(path)


@pytest.mark.parametrize("names", [("out.1", "out.2"), ("v0.1", "v0.2"), ("t.zarr", "t.other"), ("t", "t.zarr")])
def test_a_folder_next_to_a_training_is_never_mistaken_for_its_trace(tmp_path, names):
    first, second = (tmp_path / name for name in names)
    training(first, steps=2).run()
    before = foreign_folder(second)
    with pytest.raises(FileExistsError, match="never overwritten"):
        training(second, steps=2)
    assert contents(second) == before


def test_trainings_whose_names_differ_after_a_dot_are_separate(tmp_path):
    training(tmp_path / "out.1", steps=2).run()
    other = training(tmp_path / "out.2", steps=2, probes=7)
    assert other.steps_done == 0
    other.run()
    assert training(tmp_path / "out.1", steps=2).steps_done == 2
    assert training(tmp_path / "out.2", steps=2, probes=7).steps_done == 2


def test_a_training_does_not_resume_over_something_else_at_the_place_of_its_trace(tmp_path):
    path = tmp_path / "t.zarr"
    training(path, steps=2).run()
    path.rename(tmp_path / "moved.zarr")
    before = foreign_folder(path)
    with pytest.raises(FileExistsError, match=r"t.zarr is not the trace that belongs to t.zarr.checkpoint.npz"):
        training(path, steps=4)
    assert contents(path) == before
    path.rename(tmp_path / "mine")
    x, y = data()
    system = apviz.KernelSystem(x, y, apviz.RBF(lengthscale=0.5), noise=0.1, device=DEVICE)
    apviz.solve(system, CHOLESKY, [apviz.Recorder(path)])
    before = contents(path)
    with pytest.raises(FileExistsError, match="not the trace that belongs to"):
        training(path, steps=4)
    assert contents(path) == before


def test_a_trace_that_was_moved_away_is_written_again_from_its_checkpoint(tmp_path):
    path = tmp_path / "t.zarr"
    training(path, steps=2).run()
    path.rename(tmp_path / "moved.zarr")
    training(path, steps=3).run()
    assert apviz.open_trace(path)["step"].sizes["step"] == 3


def test_creating_a_training_again_changes_no_file_before_it_runs(tmp_path):
    training(tmp_path / "t.zarr", steps=2).run()
    before = contents(tmp_path)
    again = training(tmp_path / "t.zarr", steps=4)
    assert again.steps_done == 2 and contents(tmp_path) == before


class Replace(apviz.TrainingHook):
    """Moves a file or folder away after the second step, and puts another in its place."""

    def __init__(self, path, put):
        self.path, self.put, self.before = path, put, None

    def on_step(self, step, settings):
        if step.number == 2:
            self.path.rename(self.path.with_name("moved"))
            self.put(self.path)
            self.before = contents(self.path) if self.path.is_dir() else self.path.read_bytes()


@pytest.mark.parametrize("name", ["t.zarr", "t.zarr.checkpoint.npz"])
def test_a_training_whose_files_are_replaced_during_a_run_continues_under_another_name(tmp_path, name):
    cut, place = training(tmp_path / "t.zarr", steps=4), tmp_path / name
    put = foreign_folder if name == "t.zarr" else lambda path: path.write_bytes(b"numbers of mine")
    replace = Replace(place, put)
    with pytest.warns(UserWarning, match=rf"something else has replaced .*{name} .* continues in .*t-continued.zarr"):
        cut.run([replace])
    assert (contents(place) if place.is_dir() else place.read_bytes()) == replace.before
    assert apviz.open_trace(tmp_path / "t-continued.zarr")["step"].sizes["step"] == 4
    longer = training(tmp_path / "t-continued.zarr", steps=6)
    assert longer.steps_done == 4
    np.testing.assert_array_equal(values(longer.run()), values(training(steps=6).run()))


@pytest.mark.slow
def test_of_several_processes_that_train_to_one_path_one_trains_and_the_others_raise(tmp_path):
    path = tmp_path / "t.zarr"
    context = multiprocessing.get_context("spawn")
    results, start = context.Queue(), context.Barrier(3)
    processes = [context.Process(target=train_to, args=(str(path), results, start)) for _ in range(3)]
    for process in processes:
        process.start()
    said = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    assert said.count("trained") == 1
    refused = r"FileExistsError: .*(is being written by process \d+|another training has written to)"
    assert all(re.match(refused, word) for word in said if word != "trained"), said
    written = training(path, steps=5)
    np.testing.assert_array_equal(values(written.hyperparameters), values(training(steps=5).run()))
    assert sorted(os.listdir(tmp_path)) == ["t.zarr", "t.zarr.checkpoint.npz"]


def test_a_training_resumed_elsewhere_cannot_resume_from_an_older_state(tmp_path):
    path = tmp_path / "t.zarr"
    old = training(path, steps=6)
    training(path, steps=3).run()
    with pytest.raises(
        FileExistsError, match="another training has written to .* create it again to resume from there"
    ):
        old.run()
    assert apviz.open_trace(path)["step"].sizes["step"] == 3
    np.testing.assert_array_equal(values(training(path).run()), values(training().run()))
