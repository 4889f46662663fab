"""The file of a fitted Gaussian process: loading restores it, and a forged or damaged file does no harm."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import apviz
from apviz import partitions, rules
from apviz.solvers import Subspace
from tests.device import DEVICE

GIVEN = apviz.Hyperparameters("matern52", (0.4, 0.9), 1.3, 0.05, 0.2, "by hand")
GRID = np.random.default_rng(1).uniform(-1, 1, (20, 2))


def fitted(n=40, **settings):
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.uniform(-1, 1, (n, 2)), columns=["east", "north"])
    y = 5 + np.sin(3 * x["east"]) + 0.1 * rng.standard_normal(n)
    return apviz.GaussianProcess(**{"hyperparameters": GIVEN, "device": DEVICE, **settings}).fit(x, y)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "gp.npz"
    fitted().save(path)
    return path


@pytest.fixture
def path(saved, tmp_path):
    """Return the file of a fitted model, which the test may change."""
    return Path(shutil.copy(saved, tmp_path))


def predictions(gp):
    return gp.predict(pd.DataFrame(GRID, columns=["east", "north"]), return_std=True, include_noise=True)


@pytest.mark.parametrize(("drift", "later"), [(None, "linear"), ("linear", None), ("quadratic", "constant")])
def test_a_setting_changed_after_the_fit_does_not_change_the_saved_drift(drift, later, tmp_path):
    gp = fitted(drift=drift)
    expected = predictions(gp)
    gp.set_params(drift=later).save(tmp_path / "gp.npz")
    loaded = apviz.GaussianProcess.load(tmp_path / "gp.npz", device=DEVICE)
    assert loaded.drift == drift
    np.testing.assert_allclose(predictions(loaded), expected, rtol=1e-10)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dtype": "float64", "solver": apviz.Cholesky(tol=1e-5), "variance": "lanczos", "rank": 12, "scale": False},
        {"stages": ((0.25, np.int64(4)), (0.5, 2)), "max_epochs": np.int64(1), "trace_estimator": "pathwise"},
        {"hyperparameters": None, "max_steps": np.int64(2), "ard": False, "kernel": "rbf", "random_state": 5},
        {
            "solver": apviz.AlternatingProjection(
                block_size=10, rule=rules.Random(seed=3), partition=partitions.ShuffledRows(seed=4), tol=1e-4
            )
        },
        {
            "solver": apviz.AlternatingProjection(
                block_size="auto", partition=partitions.KDTree(overlap=0.5), step=Subspace(length=np.int64(3))
            )
        },
        {
            "solver": apviz.ConjugateGradient(
                preconditioner=apviz.TwoLevelSchwarz(
                    block_size=10, coarse_rank=3, partition=partitions.KDTree(overlap=0.5)
                )
            ),
            "training_solver": apviz.ConjugateGradient(
                preconditioner=apviz.RandomlyPivotedCholesky(rank=7, seed=2), min_epochs=11
            ),
            "operator": "tiled",
        },
        {"drift": "quadratic"},
    ],
    ids=["default", "cholesky", "less work", "trained", "ap", "auto", "schwarz", "drift"],
)
def test_a_loaded_model_has_the_same_settings_and_predicts_the_same(tmp_path, settings):
    gp = fitted(**settings)
    gp.save(tmp_path / "some folder" / "gp.npz")
    again = apviz.GaussianProcess.load(tmp_path / "some folder" / "gp.npz", device=DEVICE)
    assert again.get_params() == gp.get_params()
    assert again.hyperparameters_ == gp.hyperparameters_ and again.trace_ is None
    assert again.feature_names_in_.tolist() == ["east", "north"] and again.n_features_in_ == 2
    for name in ("stop_reason", "stop_message", "residual", "epochs", "work", "energy"):
        assert getattr(again.solution_, name) == getattr(gp.solution_, name)
    for found, expected in zip(predictions(again), predictions(gp), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    again.save(tmp_path / "again.npz")
    np.testing.assert_array_equal(predictions(apviz.GaussianProcess.load(tmp_path / "again.npz")), predictions(again))


def test_a_loaded_model_has_no_feature_names_if_the_saved_one_had_none(tmp_path):
    gp = apviz.GaussianProcess(hyperparameters=GIVEN).fit(GRID, GRID[:, 0])
    gp.save(tmp_path / "gp.npz")
    again = apviz.GaussianProcess.load(tmp_path / "gp.npz")
    assert not hasattr(again, "feature_names_in_")
    np.testing.assert_array_equal(again.predict(GRID), gp.predict(GRID))


def test_a_solve_that_did_not_converge_does_not_look_converged_after_loading(tmp_path):
    with pytest.warns(UserWarning, match="not converged"):
        fitted(solver=apviz.AlternatingProjection(block_size=5, tol=1e-9, max_epochs=1)).save(tmp_path / "gp.npz")
    solution = apviz.GaussianProcess.load(tmp_path / "gp.npz").solution_
    assert not solution.converged and solution.residual > 1e-9


def test_a_file_contains_no_local_path_and_no_random_state(tmp_path):
    gp = fitted(path=tmp_path / "secret.zarr", random_state=np.random.RandomState(0))
    gp.save(tmp_path / "gp.npz")
    assert b"s\0\0\0e\0\0\0c\0\0\0r\0\0\0e\0\0\0t" not in (tmp_path / "gp.npz").read_bytes()
    again = apviz.GaussianProcess.load(tmp_path / "gp.npz")
    assert again.path is None and again.device == "auto" and again.random_state is None


class Own(apviz.Cholesky):
    """A custom solver."""


def test_a_custom_solver_cannot_be_saved_and_an_existing_file_stays(path):
    before = path.read_bytes()
    with pytest.raises(
        ValueError, match=r"solver = Own\(tol=0.01\) cannot be saved; those that can are .*AlternatingProjection"
    ):
        fitted(solver=Own()).save(path)
    with pytest.raises(ValueError, match="partition = <function .* cannot be saved; those that can are Sequential"):
        partition = partitions.Sequential().__call__
        fitted(solver=apviz.AlternatingProjection(block_size=10, partition=lambda *a: partition(*a))).save(path)
    assert path.read_bytes() == before


def test_a_full_disk_does_not_change_the_existing_file(path, monkeypatch):
    before, gp = path.read_bytes(), fitted()
    monkeypatch.setattr(
        np, "savez", lambda file, **_: file.write(b"half") and (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.raises(OSError, match="full"):
        gp.save(path)
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        apviz.GaussianProcess().save(tmp_path / "gp.npz")


def test_a_missing_file_raises_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        apviz.GaussianProcess.load(tmp_path / "nothing.npz")


# --- files from strangers -----------------------------------------------------------------------------------------


def rewrite(path, *, change=None, compressed=False, drop=(), **arrays):
    """Rewrite the file with other arrays, without some, or with a description edited by `change`."""
    with np.load(path) as archive:
        entries = {name: archive[name] for name in archive.files if name not in drop}
    if change is not None:
        description = json.loads(str(entries["description"]))
        change(description)
        entries["description"] = np.array(json.dumps(description))
    (np.savez_compressed if compressed else np.savez)(path, **(entries | arrays))


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return (__import__("os").mkdir, (str(self.folder),))


@pytest.mark.parametrize("entry", ["x", "weights", "description"])
def test_a_pickle_inside_is_rejected_and_never_runs(path, tmp_path, entry):
    evil = np.array([Evil(tmp_path / "ran")], dtype=object)
    rewrite(path, **{entry: evil})
    with pytest.raises(ValueError, match="gp.npz cannot be read as a Gaussian process saved by apviz: Object arrays"):
        apviz.GaussianProcess.load(path)
    assert not (tmp_path / "ran").exists()
    np.load(path, allow_pickle=True)[entry]
    assert (tmp_path / "ran").exists()  # it would have run


def test_a_pickle_instead_of_the_file_or_an_entry_is_rejected_and_never_runs(path, tmp_path):
    path.write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    with pytest.raises(ValueError, match=r"it is not a NumPy archive \(\*.npz\), or is truncated"):
        apviz.GaussianProcess.load(path)
    with pytest.raises(FileExistsError, match="is not a Gaussian process saved by apviz; choose another path"):
        fitted().save(path)
    assert path.read_bytes() == pickle.dumps(Evil(tmp_path / "ran"))
    path.unlink()
    fitted().save(path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, held in (entries | {"y.npy": pickle.dumps(Evil(tmp_path / "ran"))}).items():
            archive.writestr(name, held)
    with pytest.raises(ValueError, match="y must have dtype float32 or float64, got not an array"):
        apviz.GaussianProcess.load(path)
    assert not (tmp_path / "ran").exists()


def test_a_file_truncated_anywhere_is_rejected(path):
    whole = path.read_bytes()
    for length in (0, 1, 30, *range(100, len(whole), 211), len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="cannot be read as a Gaussian process saved by apviz"):
            apviz.GaussianProcess.load(path)


def test_a_damaged_byte_is_detected_or_harmless(path):
    whole, expected = path.read_bytes(), predictions(apviz.GaussianProcess.load(path))
    refused = 0
    for place in np.random.default_rng(0).integers(len(whole), size=150).tolist():
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            gp = apviz.GaussianProcess.load(path)
        except ValueError:
            refused += 1
        else:
            np.testing.assert_array_equal(predictions(gp), expected)
    assert refused > 120


def test_compressed_entries_are_rejected_because_they_may_exceed_the_memory(path):
    rewrite(path, compressed=True)
    with pytest.raises(ValueError, match=r".npy is compressed; apviz writes uncompressed entries only"):
        apviz.GaussianProcess.load(path)


def test_an_entry_that_claims_more_numbers_than_it_contains_is_rejected(path):
    claim = io.BytesIO()
    np.lib.format.write_array_header_1_0(claim, {"descr": "<f8", "fortran_order": False, "shape": (10**16,)})
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, held in (entries | {"y.npy": claim.getvalue()}).items():
            archive.writestr(name, held)
    with pytest.raises(ValueError, match="cannot be read as a Gaussian process saved by apviz"):
        apviz.GaussianProcess.load(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"drop": ["weights"]}, "it must have the entries centre, counts, .* but has centre, counts"),
        ({"more": np.ones(3)}, "it must have the entries"),
        ({"x": np.ones(40, np.float32)}, r"x must have shape \(n, d\) with n ≥ 2 and d ≥ 1, got \(40,\)"),
        ({"x": np.ones((1, 2), np.float32)}, "x must have shape"),
        ({"x": np.ones((40, 2), np.int64)}, "x must have dtype float32 or float64, got int64"),
        ({"weights": np.ones(40, np.int64)}, "weights must have dtype float32 or float64, got int64"),
        ({"y": np.ones(39)}, r"y must have shape \(40,\), got \(39,\)"),
        ({"y": np.full(40, np.nan)}, "y has 40 NaN or infinite values"),
        ({"weights": np.ones((40, 1), np.float32)}, r"weights must have shape \(40,\), got \(40, 1\)"),
        ({"weights": np.full(40, np.inf, np.float32)}, "weights has 40 NaN or infinite values"),
        ({"row_weights": np.zeros(40)}, "row_weights has 40 values that no merged row has"),
        ({"counts": np.full(40, 1.5)}, "counts has 40 values that no merged row has"),
        ({"spread": np.full(40, -1.0)}, "spread has 40 values that no merged row has"),
        ({"log_weights": np.full(40, np.nan)}, "log_weights has 40 NaN or infinite values"),
        ({"half_width": -np.ones(2)}, "half_width has negative values"),
        ({"target": np.zeros(2)}, "the target's standard deviation is not positive"),
        ({"description": np.array("not JSON")}, "Expecting value"),
        ({"description": np.array("[" * 100_000)}, "cannot be read"),
        ({"description": np.array("3")}, "description does not say that the format is apviz.GaussianProcess"),
        ({"description": np.ones(3)}, "description must be one string"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_invalid_entry_is_rejected_with_the_reason(path, arrays, message):
    rewrite(path, **arrays)
    with pytest.raises(ValueError, match=message):
        apviz.GaussianProcess.load(path)


def put(*keys, value):
    def change(description):
        for key in keys[:-1]:
            description = description[key]
        description[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("forget", "message"),
    [
        (lambda found: found["settings"].pop("stages"), "the settings must be accuracy, .*, stages, "),
        (lambda found: found.pop("dtype"), "dtype must be a str, got None"),
        (lambda found: found.pop("mean_error"), "mean_error must be a float or int, got None"),
        (
            lambda found: found["solution"].update(certificate={"kind": "guessed"}),
            "certificate must have a kind of exact, bounded, sampled",
        ),
    ],
    ids=["setting", "dtype", "bound", "measured"],
)
def test_a_file_that_lacks_an_entry_is_rejected_with_its_name(path, forget, message):
    rewrite(path, change=forget)
    with pytest.raises(ValueError, match=message):
        apviz.GaussianProcess.load(path)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("version",), 1, "it has format version 1, but this apviz reads version 5: fit and save the model again"),
        (("format",), "torch", "does not say that the format is"),
        (("given",), 1, "given must be a bool, got 1"),
        (("feature_names",), ["east"], "feature_names must be 2 names, or null"),
        (("hyperparameters", "kernel"), "cosine", "kernel must be one of"),
        (("hyperparameters", "lengthscale"), [1, 2, 3], "lengthscale must have 1 or 2 values for 2 inputs, got 3"),
        (("hyperparameters", "lengthscale"), ["1", 2], "lengthscale must be a float or int, got '1'"),
        (("hyperparameters", "outputscale"), -1.0, "outputscale must be finite and positive, got -1.0"),
        (("hyperparameters", "noise"), 0, "noise must be positive, got 0.0"),
        (("hyperparameters", "mean"), float("nan"), "numbers in description must be finite, got NaN"),
        (("hyperparameters", "mean"), True, "mean must be a float or int, got True"),
        (("solution", "stop_reason"), "PERFECT", "stop_reason must be one of CONVERGED, .* got 'PERFECT'"),
        (("solution", "residual"), 10**400, "int too large"),
        (("solution", "epochs"), 1.5, "epochs must be a int, got 1.5"),
        (("settings",), [], "settings must be a dict"),
        (("settings", "path"), "/etc/passwd", "gp.npz: the settings must be accuracy, ard, drift, dtype, kernel"),
        (("settings", "drift"), "linear", r"drift_coefficients must have shape \(3,\), got \(0,\)"),
        (("settings", "drift"), "cubic", "drift must be one of constant, linear, quadratic, for one output, or null"),
        (("settings", "rank"), 0, "gp.npz: rank must be a whole number, at least 1, got 0"),
        (("settings", "stages"), [[2.0, 3]], "stages must be pairs of a share of the rows, below 1"),
        (("settings", "stages"), {"a": 1}, "stages must be pairs"),
        (("settings", "rank"), [1], r"the setting 'rank' must be a plain value, got \[1\]"),
        (
            ("settings", "operator"),
            "magic",
            "gp.npz: operator must be one of auto, dense, tiled, fourier, keops, .*, got 'magic'",
        ),
        (("settings", "solver"), "apviz.Cholesky()", "solver must be a dictionary of settings or null"),
        (
            ("settings", "solver"),
            {"type": "os.system"},
            "solver must be one of .*AlternatingProjection.*, got 'os.system'",
        ),
        (("settings", "solver"), {"type": ["Cholesky"]}, r"solver must be one of .*, got \['Cholesky'\]"),
        (("settings", "solver"), {"type": "Explodes"}, "solver must be one of .*, got 'Explodes'"),
        (("settings", "solver"), {"type": "Cholesky", "tol": -1}, "tol must be a positive relative residual"),
        (("settings", "solver"), {"type": "Cholesky", "run": "x"}, "Cholesky has no setting 'run'"),
        (("settings", "solver"), {"type": "Cholesky", "tol": {"type": "Cholesky"}}, "tol must be one of the plain"),
        (
            ("settings", "training_solver"),
            {"type": "ConjugateGradient", "preconditioner": {"type": "Cholesky"}},
            "preconditioner must be one of .*Nystrom, .*, got 'Cholesky'",
        ),
        (
            ("settings", "training_solver"),
            {"type": "ConjugateGradient", "preconditioner": "PivotedCholesky"},
            "preconditioner must be a dictionary of settings or null",
        ),
        (
            ("settings", "solver"),
            {"type": "AlternatingProjection", "rule": {"type": "Random", "seed": "x"}},
            "seed must be a whole number",
        ),
        (
            ("settings", "solver"),
            {"type": "AlternatingProjection", "partition": {"type": "Cyclic"}},
            "partition must be one of Sequential, .*, got 'Cyclic'",
        ),
        (("settings", "solver"), {"type": "AlternatingProjection", "rule": ["x"]}, "cannot be read"),
    ],
)
def test_an_invalid_description_is_rejected_with_the_reason(path, keys, value, message):
    rewrite(path, change=put(*keys, value=value))
    with pytest.raises(ValueError, match=message):
        apviz.GaussianProcess.load(path)
