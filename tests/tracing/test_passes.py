"""Recorded passes of a solve: the residual claimed by the recursion, and the true B − KW."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

import apviz
from apviz.partitions import PrincipalAxisTree
from apviz.solvers import Skeletons, Subspace
from apviz.tracing.archive import pack, unpack
from apviz.tracing.opening import check_complete
from tests.device import DEVICE

X = np.random.default_rng(0).uniform(size=(300, 2))
B = np.sin(9 * X[:, :1]) + 0.3 * np.random.default_rng(1).standard_normal((300, 2))
# Matérn-3/2, lengthscale 0.2, noise 0.05, written out
R = np.sqrt(3) * np.linalg.norm(X[:, None] - X[None], axis=-1) / 0.2
K = (1 + R) * np.exp(-R) + 0.05 * np.eye(300)

SKELETONS = apviz.AlternatingProjection(
    block_size=40,
    partition=PrincipalAxisTree(overlap=0.5),
    step=Subspace(length=2),
    columns=Skeletons(rank=8),
    tol=1e-6,
)
SOLVERS = (
    SKELETONS,
    apviz.AlternatingProjection(
        block_size=40, partition=PrincipalAxisTree(overlap=1.0), precision="float32", tol=1e-6, check_every=3
    ),
    apviz.ConjugateGradient(tol=1e-6, check_every=7),
)


class Dense(apviz.Hook):
    """Computes the expected numbers of passes by dense algebra."""

    def on_start(self, run):
        self.run, self.residuals, self.works = run, [], []

    def on_pass(self, found):
        r = B - K @ self.run.weights.numpy()
        self.residuals.append((np.linalg.norm(r, axis=0) / np.linalg.norm(B, axis=0)).mean())
        self.works.append(self.run.work)


def recorded(solver, path=None, *hooks):
    system = apviz.KernelSystem(
        X, B, apviz.Matern32(lengthscale=0.2), noise=0.05, dtype=torch.float64, device=DEVICE, dataset="made"
    )
    recorder = apviz.Recorder(path)
    apviz.solve(system, solver, [*hooks, recorder])
    return recorder.trace


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)
def test_a_pass_is_recorded_with_the_residual_by_dense_algebra(tmp_path, solver):
    dense = Dense()
    trace = recorded(solver, tmp_path / "a.zarr", dense)
    check_complete(trace)
    found, epoch = trace["pass"], trace["epoch"]
    assert found.sizes["pass"] > 1
    np.testing.assert_array_equal(found["pass"], np.arange(1, found.sizes["pass"] + 1))
    exact = found["is_exact"].values == 1
    np.testing.assert_allclose(found["residual"].values[exact], np.array(dense.residuals)[exact], rtol=1e-6)
    np.testing.assert_allclose(found["residual"].values[~exact], np.array(dense.residuals)[~exact], rtol=1e-2)
    np.testing.assert_array_equal(found["work"], dense.works)
    # the epoch of a pass records it too
    at = np.flatnonzero(epoch["checked_residual"].notnull())
    np.testing.assert_array_equal(found["epoch"], epoch["epoch"].values[at])
    for of_pass, of_epoch in (("residual", "checked_residual"), ("drift", "drift"), ("work", "work")):
        np.testing.assert_array_equal(found[of_pass], epoch[of_epoch].values[at])
    # the last pass is in float64
    assert trace.converged and exact[-1] and found["residual"].values[-1] < solver.tol
    assert trace.to_dataframe("pass").index.name == "pass"


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)
def test_the_residual_equals_b_minus_kw_after_an_adopted_pass_and_is_off_by_the_drift_after_others(solver):
    class After(apviz.Hook):
        def on_start(self, run):
            self.run, self.off = run, []

        def on_pass(self, found):
            r = B - K @ self.run.weights.numpy()
            self.off.append(np.linalg.norm(self.run.residual_vectors.double().numpy() - r) / np.linalg.norm(B))

    after = After()
    found = recorded(solver, None, after)["pass"]
    expected = np.where(found["is_adopted"] == 1, 0.0, found["drift"])
    np.testing.assert_allclose(after.off, expected, rtol=1e-2, atol=1e-7 * float(found["residual"].max()))


def test_cg_adopts_the_residual_of_a_pass_only_when_it_claims_convergence():
    found = recorded(SOLVERS[-1])["pass"]
    claimed = found["claimed_residual"] < SOLVERS[-1].tol
    assert set(found["is_adopted"].values) == {0, 1}
    np.testing.assert_array_equal(found["is_adopted"] == 1, claimed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_refinement_of_a_direct_solve_is_a_pass_without_extra_evaluations(dtype):
    system = apviz.KernelSystem(X, B, apviz.Matern32(lengthscale=0.2), noise=0.05, dtype=dtype, device=DEVICE)
    dense, recorder = Dense(), apviz.Recorder()
    solution = apviz.solve(system, apviz.Cholesky(tol=1e-11), [dense, recorder])
    check_complete(recorder.trace)
    found, epochs = recorder.trace["pass"], recorder.trace["epoch"]
    assert found.sizes["pass"] == solution.epochs and (solution.epochs > 1) == (dtype == torch.float32)
    # K is evaluated once for its factor, and once a pass
    np.testing.assert_allclose(found["work"], 1 + np.arange(1, solution.epochs + 1))
    np.testing.assert_allclose(found["residual"], dense.residuals, rtol=1e-2, atol=1e-12)  # bounds rounding
    np.testing.assert_array_equal(found["residual"], epochs["residual"][1:])
    assert found["claimed_residual"].isnull().all() and found["drift"].isnull().all()  # there is no recursion
    assert (found["is_exact"] == 1).all() and (found["is_adopted"] == 1).all()


def test_passes_are_read_back_from_disk_and_from_a_zip_file(tmp_path):
    trace = recorded(SKELETONS, tmp_path / "a.zarr")
    file = io.BytesIO()
    pack({"a": tmp_path / "a.zarr"}, file)
    (path,) = unpack(file, tmp_path / "unpacked").values()
    for opened in (apviz.open_trace(tmp_path / "a.zarr"), apviz.open_trace(path)):
        assert opened["pass"].identical(trace["pass"])


def test_the_trace_of_a_solve_without_passes_is_complete_without_their_group(tmp_path):
    trace = recorded(apviz.ConjugateGradient(tol=1e-9), tmp_path / "a.zarr", apviz.StopHook(max_work=1.5))
    for each in (trace, apviz.open_trace(tmp_path / "a.zarr")):
        assert "pass" not in each
        check_complete(each)


def test_a_group_of_passes_that_lacks_a_variable_is_refused():
    trace = recorded(SKELETONS)
    trace.tree["pass"] = trace["pass"].drop_vars("claimed_residual")
    with pytest.raises(ValueError, match="its group pass has no claimed_residual"):
        check_complete(trace)


def test_passes_of_an_interrupted_solve_are_kept(tmp_path):
    class Interrupt(apviz.Hook):
        def on_pass(self, found):
            if found.number == 2:
                raise KeyboardInterrupt

    system = apviz.KernelSystem(X, B, apviz.Matern32(lengthscale=0.2), noise=0.05, dtype=torch.float64, device=DEVICE)
    with pytest.raises(KeyboardInterrupt):
        solver = apviz.AlternatingProjection(block_size=40, tol=1e-12, check_every=1)
        apviz.solve(system, solver, [apviz.Recorder(tmp_path / "a.zarr"), Interrupt()])
    assert apviz.open_trace(tmp_path / "a.zarr")["pass"].sizes["pass"] == 2
