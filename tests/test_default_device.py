"""Global settings of PyTorch change nothing, or are rejected with a clear message."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

import apviz

X = np.linspace(0, 1, 40)[:, None]
Y = np.sin(9 * X[:, 0])


def system():
    kernel = apviz.Matern32(lengthscale=0.2)
    return apviz.KernelSystem(X, Y, kernel, noise=0.05, dtype=torch.float64, device="cpu")


def weights():
    return np.asarray(apviz.solve(system(), apviz.AlternatingProjection(block_size=10, tol=1e-8)).weights)


@contextlib.contextmanager
def default_device(name):
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextlib.contextmanager
def default_dtype(dtype):
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "setting",
    [torch.no_grad, torch.inference_mode, deterministic, lambda: default_dtype(torch.float64),
     lambda: default_dtype(torch.float16), lambda: default_device("cpu")],
    ids=["no_grad", "inference_mode", "deterministic", "float64", "float16", "cpu"],
)  # fmt: skip
def test_a_solve_is_the_same_under_global_settings(setting):
    dense = np.exp(-np.sqrt(3) * np.abs(X - X.T) / 0.2) * (1 + np.sqrt(3) * np.abs(X - X.T) / 0.2) + 0.05 * np.eye(40)
    with setting():
        found = weights()
    np.testing.assert_allclose(found, np.linalg.solve(dense, Y), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("setting", [lambda: default_device("meta"), lambda: torch.device("meta")])
@pytest.mark.parametrize(
    "do", [lambda made: apviz.Matern32(lengthscale=0.2), lambda made: apviz.solve(made, apviz.ConjugateGradient()),
           lambda made: apviz.KernelSystem(X, Y, made.kernel, noise=0.05),
           lambda made: apviz.GaussianProcess().fit(X, Y)]
)  # fmt: skip
def test_a_default_device_that_stores_no_numbers_is_rejected_with_a_remedy(setting, do):
    made = system()
    with setting(), pytest.raises(ValueError, match=r"default device is meta, which holds no numbers; .*\(None\)"):
        do(made)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_missing_default_device_is_rejected_with_a_remedy():
    with (
        default_device("cuda"),
        pytest.raises(ValueError, match="default device is not on this machine"),
    ):
        system()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_autocast_to_bfloat16_changes_no_solve(dtype):
    made = apviz.KernelSystem(X, Y, apviz.Matern32(lengthscale=0.2), noise=0.05, dtype=dtype, device="cpu")
    plain = apviz.solve(made, apviz.ConjugateGradient())
    with torch.autocast("cpu", torch.bfloat16):
        found = apviz.solve(made, apviz.ConjugateGradient())
    assert torch.equal(found.weights, plain.weights)


def test_the_estimator_is_the_same_under_global_settings():
    plain = apviz.GaussianProcess(device="cpu", dtype="float32").fit(X, Y)
    for setting in (torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)):
        with setting():
            found = apviz.GaussianProcess(device="cpu", dtype="float32").fit(X, Y)
            assert found.hyperparameters_ == plain.hyperparameters_
            np.testing.assert_array_equal(found.predict(X[:5]), plain.predict(X[:5]))


def test_a_training_runs_in_inference_mode_but_is_created_outside_it():
    settings = apviz.TrainingSettings(solver=apviz.Cholesky(), steps=2, probes=2)

    def made():
        return apviz.Training(X, Y, settings, operator="dense", device="cpu")

    plain, other = made().run(), made()
    with torch.inference_mode():
        assert other.run() == plain
        with pytest.raises(ValueError, match="a training needs gradients, which torch.inference_mode"):
            made()


def test_a_system_created_under_autocast_is_rejected_with_a_remedy():
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ValueError, match="torch.autocast rounds float32"):
        system()
