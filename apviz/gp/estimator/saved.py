"""Saved models: one NumPy archive without pickle; every entry is checked on reading."""

from __future__ import annotations

import json
import math
import os
import warnings
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from apviz.datasets.sphere import AnyEncoding, encoding_from_plain
from apviz.duplicates import DistinctRows
from apviz.files import file_made_whole, path_of
from apviz.gp.estimator import sklearn_kernels
from apviz.gp.estimator.choices import DTYPES
from apviz.gp.estimator.fitting import check_settings, fitted_kernel
from apviz.gp.estimator.posteriors import restore, solved_weights
from apviz.gp.kriging.drift import DEGREES, Basis, FittedDrift, functions_of
from apviz.gp.scaling import Scaling
from apviz.gp.training.settings import checked_stages
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel
from apviz.kernels import from_plain as kernel_from_plain
from apviz.kernels import to_plain as kernel_to_plain
from apviz.solvers import Solution, StopReason
from apviz.solvers.measuring.residuals import Certificate, Kind
from apviz.solvers.serialization import from_plain, to_plain

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

Estimator = TypeVar("Estimator", bound="GaussianProcess")

FORMAT, VERSION = "apviz.GaussianProcess", 5
# this entry is JSON; all others are arrays of numbers
DESCRIPTION = "description"
OF_ROWS = ("x", "y", "row_weights", "counts", "spread", "log_weights")
#: of a drift with p basis functions; p is 0 without one
OF_DRIFT = ("drift_coefficients", "drift_solved", "drift_root")
ARRAYS = (*OF_ROWS, "weights", "centre", "half_width", "target", *OF_DRIFT)
# these settings are solvers
SOLVERS = ("solver", "training_solver")
# of a machine and a run, not of the model; the hyperparameters have an entry of their own
NOT_SETTINGS = {"path", "device", "hyperparameters"}
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def save(gp: GaussianProcess, path: str | Path) -> None:
    """Write a fitted estimator to a file atomically. A model saved at this path before is replaced.

    Raises:
        FileExistsError: the path exists and is not a saved Gaussian process.
        OSError: the disk is full or missing. The old file is kept.
        ValueError: a solver is not one of apviz's own.
    """
    path, solution, drift = path_of(path), gp.solution_, gp.drift_
    if os.path.lexists(path) and not is_saved(path):
        raise FileExistsError(f"{path} exists and is not a Gaussian process saved by apviz; choose another path")
    settings = {name: value for name, value in gp.get_params(deep=False).items() if name not in NOT_SETTINGS}
    settings["drift"] = drift.basis.drift if drift else None  # of the fit: `set_params` may have changed it since
    if isinstance(gp.random_state, np.random.RandomState):
        settings["random_state"] = None
    summary = {name: getattr(solution, name) for name in _NUMBERS} | {"epochs": solution.epochs}
    words = {"stop_reason": solution.stop_reason.name, "stop_message": solution.stop_message}
    measured = {"certificate": asdict(solution.certificate) if solution.certificate else None}
    names = getattr(gp, "feature_names_in_", None)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "settings": {name: _plain(name, value) for name, value in settings.items()},
        "hyperparameters": gp.hyperparameters_.as_plain(),
        "given": gp.hyperparameters is not None,
        "solution": summary | words | measured,
        "feature_names": None if names is None else tuple(names),
        "target_name": gp.target_name_,
        "columns": None if gp.columns_ is None else [each.as_plain() for each in gp.columns_],
        "dtype": str(gp.posterior_.system.dtype).removeprefix("torch."),
        # JSON has no infinity
        "mean_error": gp.mean_error_ if math.isfinite(gp.mean_error_) else None,
        "drift_error": drift.error if drift else 0.0,
    }
    # a grid search may set NumPy numbers
    text = json.dumps(description, allow_nan=False, default=lambda number: number.item())
    arrays = {
        **{name: each.numpy() for name, each in zip(OF_ROWS, gp.rows_.tensors, strict=True)},
        "weights": solved_weights(gp).numpy(),
        "centre": gp.scaling_.centre,
        "half_width": gp.scaling_.half_width,
        "target": np.array([gp.scaling_.mean, gp.scaling_.std]),  # (2,), or (2, p)
        **dict(zip(OF_DRIFT, _arrays_of(drift, len(gp.rows_.x)), strict=True)),
    }
    with file_made_whole(path, durable=True) as file:
        np.savez(file, **{DESCRIPTION: np.array(text)}, **arrays)  # type: ignore[arg-type]


def load(kind: type[Estimator], path: str | Path, device: str) -> Estimator:
    """Read an estimator of this class. Nothing in the file is executed, and memory stays below its length.

    Raises:
        OSError: there is no such file.
        ValueError: the file is not a saved model, is damaged, or has entries that do not fit each other.
    """
    path = path_of(path)
    with path.open("rb") as file:
        try:
            entries = _entries(file)
            found = _description(entries.pop(DESCRIPTION))
            settings, fitted, dtype = _checked(found, entries)
        # a forged file can provoke any error
        except Exception as error:
            raise ValueError(f"{path} cannot be read as a Gaussian process saved by apviz: {error}") from error
    known = set(kind().get_params(deep=False)) - NOT_SETTINGS
    if set(settings) != known:
        raise ValueError(f"{path}: the settings must be {', '.join(sorted(known))}")
    given = fitted["hyperparameters_"] if found["given"] else None
    gp = kind(**settings, hyperparameters=given, device=device)
    try:
        check_settings(gp)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    for name, value in fitted.items():
        setattr(gp, name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `fit` has warned about values at their bounds
        gp.kernel_ = fitted_kernel(gp, gp.hyperparameters_, gp.scaling_, gp.n_features_in_)
    restore(gp, gp.solution_.weights, dtype)
    return gp


def _arrays_of(drift: FittedDrift | None, n: int) -> tuple[NDArray[np.float64], ...]:
    if drift is None:
        return np.empty(0), np.empty((n, 0)), np.empty((0, 0))
    return tuple(each.numpy() for each in (drift.coefficients, drift.solved, drift.root))


def _plain(name: str, value: Any) -> Any:
    if name in SOLVERS:
        return to_plain(value)
    if isinstance(value, SklearnKernel):
        return sklearn_kernels.to_plain(value)
    return kernel_to_plain(value) if isinstance(value, Kernel) else value


def is_saved(path: Path) -> bool:
    """Return whether a file is a saved model, even of another version or with damaged entries."""
    try:
        with zipfile.ZipFile(path) as archive:
            return sorted(archive.namelist()) == sorted(f"{name}.npy" for name in (DESCRIPTION, *ARRAYS))
    except (OSError, zipfile.BadZipFile):
        return False


# --- from bytes to arrays and JSON --------------------------------------------------------------------------------


def _entries(file: BinaryIO) -> dict[str, NDArray[Any]]:
    if not zipfile.is_zipfile(file):
        raise ValueError("it is not a NumPy archive (*.npz), or is truncated")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        names, wanted = sorted(archive.files), sorted((DESCRIPTION, *ARRAYS))
        if names != wanted:
            raise ValueError(f"it must have the entries {', '.join(wanted)}, but has {', '.join(names)!s:.200}")
        for info in archive.zip.infolist():
            # an uncompressed entry takes no more memory than the file is long
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise ValueError(f"{info.filename} is compressed; apviz writes uncompressed entries only")
        return {name: archive[name] for name in names}


def _description(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, np.ndarray) or entry.dtype.kind != "U" or entry.ndim:
        raise ValueError(f"{DESCRIPTION} must be one string")
    found = json.loads(str(entry), parse_constant=_refuse_constant)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{DESCRIPTION} does not say that the format is {FORMAT}")
    if found.get("version") != VERSION:
        version = f"{found.get('version')!r:.20}"
        raise ValueError(
            f"it has format version {version}, but this apviz reads version {VERSION}: fit and save the model again"
        )
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"numbers in {DESCRIPTION} must be finite, got {name}")


# --- checks -------------------------------------------------------------------------------------------------------

_NUMBERS = ("residual", "work", "seconds", "setup_work", "setup_seconds", "energy")


def _checked(found: dict[str, Any], entries: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], torch.dtype]:
    """Return the settings, the fitted attributes but the posterior, and the dtype in which the model solves."""
    x = entries["x"]
    if not isinstance(x, np.ndarray) or x.ndim != 2 or len(x) < 2 or x.shape[1] < 1:
        raise ValueError(f"x must have shape (n, d) with n ≥ 2 and d ≥ 1, got {getattr(x, 'shape', 'none')}")
    n, d = x.shape
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*OF_ROWS, "weights"), (n,))
    outputs = np.shape(entries["y"])[1:2]
    if outputs in ((0,), (1,)):
        raise ValueError(f"y must have shape (n,), or (n, p) with p ≥ 2, got {entries['y'].shape}")
    shapes |= {"x": (n, d), "centre": (d,), "half_width": (d,), "target": (2, *outputs)}
    shapes |= dict.fromkeys(("y", "spread", "weights"), (n, *outputs))
    settings = _settings(_get(found, "settings", dict))
    p = 0 if settings.get("drift") is None else functions_of(_drift_name(settings["drift"], outputs), d)
    shapes |= dict(zip(OF_DRIFT, ((p,), (n, p), (p, p)), strict=True))
    for name, shape in shapes.items():
        _check_array(name, entries[name], shape, FLOATS)
    mean, std = entries["target"].astype(np.float64) if outputs else entries["target"].tolist()
    if (entries["half_width"] < 0).any() or np.min(std) <= 0:
        raise ValueError("half_width has negative values, or the target's standard deviation is not positive")
    for name, is_good in (
        ("row_weights", entries["row_weights"] > 0), ("spread", entries["spread"] >= 0),
        ("counts", _are_counts(entries["counts"])),
    ):  # fmt: skip
        if not is_good.all():
            raise ValueError(f"{name} has {int((~is_good).sum())} values that no merged row has")
    dtype = _get(found, "dtype", str)
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r:.80}")
    names, target_name = _feature_names(found.get("feature_names"), d), found.get("target_name")
    if not (target_name is None or isinstance(target_name, str)):
        raise ValueError(f"target_name must be a text, or null, got {target_name!r:.80}")
    rows = DistinctRows(*(torch.from_numpy(entries[name].astype(np.float64)) for name in OF_ROWS))
    _get(found, "given", bool)
    centre, half_width = (entries[name].astype(np.float64) for name in ("centre", "half_width"))
    fitted = {
        "rows_": rows,
        "hyperparameters_": _hyperparameters(_get(found, "hyperparameters", dict), d),
        "solution_": _solution(_get(found, "solution", dict), entries["weights"]),
        "mean_error_": _mean_error(found),
        "scaling_": Scaling(centre, half_width, mean, std),
        "target_name_": target_name,
        "columns_": _columns(found.get("columns"), names),
        "drift_": _drift(settings.get("drift"), rows, entries, _number(found, "drift_error")),
        "n_features_in_": d,
        "trace_": None,
    }
    if names is not None:
        fitted["feature_names_in_"] = np.array(names, dtype=object)
    return settings, fitted, DTYPES[dtype]


def _drift_name(found: Any, outputs: tuple[int, ...]) -> str:
    if not isinstance(found, str) or found not in DEGREES or outputs:
        raise ValueError(f"drift must be one of {', '.join(DEGREES)}, for one output, or null, got {found!r:.80}")
    return found


def _drift(name: Any, rows: DistinctRows, entries: dict[str, Any], error: float) -> FittedDrift | None:
    if name is None:
        return None
    coefficients, solved, root = (torch.from_numpy(entries[each].astype(np.float64)) for each in OF_DRIFT)
    return FittedDrift(Basis.of(name, rows.x.numpy()), coefficients, solved, root, error)


def _are_counts(counts: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which counts are whole numbers; the halves of a single row count as a half (`duplicates.as_two`)."""
    is_split = len(counts) == 2 and bool((counts == 0.5).all())
    return np.full(2, True) if is_split else (counts >= 1) & (counts == np.round(counts))


def _check_array(name: str, array: Any, shape: tuple[int, ...], dtypes: tuple[np.dtype[Any], ...]) -> None:
    if not isinstance(array, np.ndarray) or array.dtype not in dtypes or array.dtype not in FLOATS:
        kind = getattr(array, "dtype", "not an array")
        raise ValueError(f"{name} must have dtype {' or '.join(map(str, dtypes))}, got {kind!s:.80}")
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    bad = int(array.size - np.isfinite(array).sum())
    if bad:
        raise ValueError(f"{name} has {bad} NaN or infinite values")


def _get(found: dict[str, Any], name: str, *kinds: type) -> Any:
    """Return found[name]. It must have exactly one of these types."""
    if type(found.get(name)) not in kinds:
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{name} must be a {wanted}, got {found.get(name)!r:.80}")
    return found[name]


def _number(found: dict[str, Any], name: str) -> float:
    number = float(_get(found, name, float, int))
    if not math.isfinite(number):  # 1e999 is valid JSON and reads as infinity
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def _mean_error(found: dict[str, Any]) -> float:
    is_infinite = "mean_error" in found and found["mean_error"] is None
    return math.inf if is_infinite else _number(found, "mean_error")


def _settings(found: dict[str, Any]) -> dict[str, Any]:
    for name, value in found.items():
        known = name in SOLVERS or (name == "kernel" and isinstance(value, dict)) or name == "stages"
        if not (known or value is None or isinstance(value, str | int | float)):
            raise ValueError(f"the setting {name!r:.80} must be a plain value, got {value!r:.80}")
    settings = {name: from_plain(value) if name in SOLVERS else value for name, value in found.items()}
    if isinstance(found.get("kernel"), dict):
        plain = found["kernel"]
        read = sklearn_kernels.from_plain if sklearn_kernels.CLASS in plain else kernel_from_plain
        settings["kernel"] = read(plain)
    if found.get("stages", "auto") != "auto":
        settings["stages"] = checked_stages(found["stages"])
    return settings


def _hyperparameters(found: dict[str, Any], d: int) -> Hyperparameters:
    lengthscale = tuple(_get(found, "lengthscale", list))
    kernel = _get(found, "kernel", str, dict)
    if isinstance(kernel, dict):
        kernel = kernel_from_plain(kernel)
        kernel.lowered(d)  # raises if a column does not exist
    elif len(lengthscale) not in (1, d):
        raise ValueError(f"lengthscale must have 1 or {d} values for {d} inputs, got {len(lengthscale)}")
    parameters = _get({"kernel_parameters": {}} | found, "kernel_parameters", dict)
    h = Hyperparameters(
        kernel=kernel,
        lengthscale=tuple(_number({"lengthscale": value}, "lengthscale") for value in lengthscale),
        outputscale=_number(found, "outputscale"),
        noise=_number(found, "noise"),
        mean=_number(found, "mean"),
        provenance=_get(found, "provenance", str),
        kernel_parameters={name: _number(parameters, name) for name in parameters},
    )
    h.build_kernel()  # raises for numbers that are not positive, unknown kernels and unknown parameters
    if h.noise <= 0:
        raise ValueError(f"noise must be positive, got {h.noise}")
    return h


def _solution(found: dict[str, Any], weights: NDArray[Any]) -> Solution:
    reason = _get(found, "stop_reason", str)
    if reason not in StopReason.__members__:
        raise ValueError(f"stop_reason must be one of {', '.join(StopReason.__members__)}, got {reason!r:.80}")
    numbers: dict[str, Any] = {name: _number(found, name) for name in _NUMBERS}
    return Solution(
        weights=torch.from_numpy(weights),
        stop_reason=StopReason[reason],
        stop_message=_get(found, "stop_message", str),
        residual_per_rhs=torch.tensor([numbers["residual"]], dtype=torch.float64),
        epochs=_get(found, "epochs", int),
        certificate=_certificate(found.get("certificate")),
        **numbers,
    )


def _certificate(found: Any) -> Certificate | None:
    if found is None:
        return None
    if not isinstance(found, dict) or (kind := _get(found, "kind", str)) not in get_args(Kind):
        raise ValueError(f"certificate must have a kind of {', '.join(get_args(Kind))}, got {found!r:.80}")
    return Certificate(kind, _number(found, "residual"), _number(found, "error"), _get(found, "rows", int))


def _feature_names(found: Any, d: int) -> tuple[str, ...] | None:
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != d or not all(isinstance(name, str) for name in found):
        raise ValueError(f"feature_names must be {d} names, or null")
    return tuple(found)


def _columns(found: Any, names: tuple[str, ...] | None) -> tuple[AnyEncoding, ...] | None:
    if found is None:
        return None
    if not isinstance(found, list) or names is None:
        raise ValueError(f"columns must be a list, for inputs with names, or null, got {found!r:.80}")
    columns = tuple(encoding_from_plain(each) for each in found)
    made = [name for each in columns for name in each.names]
    if sorted(made) != sorted(names):
        raise ValueError(f"columns must make the inputs {', '.join(names)!s:.200}, got {', '.join(made)!s:.200}")
    return columns
