"""Opening a trace from disk, and checking that one from elsewhere has what figures and diagnoses rely on."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import xarray as xr

from apviz.places import Place, Remote, is_there, place_of
from apviz.tracing.archive import check_metadata, consolidated_nodes
from apviz.tracing.schema import (
    BLOCK,
    COLOUR,
    EPOCH,
    FINISHED,
    GROUPS,
    INTERRUPTED,
    PASS,
    SCHEMA_VERSION,
    SPECTRUM,
    STEP,
    TRACE_ID,
    TRAINING,
    UPDATE,
    Variable,
)
from apviz.tracing.store import trace_id_of
from apviz.tracing.trace import Trace
from apviz.tracing.training_trace import TrainingTrace

#: chunks of one array, checked before any is read
MOST_CHUNKS: Final = 10**7
#: attempts to read a trace that is replaced meanwhile
TRIES: Final = 5


def open_trace(path: str | Place) -> Trace:
    """Open a trace written by a `Recorder`, a `Training` or `Trace.save`, even if it was killed or still runs.

    Args:
        path: a folder, or a URL of an object store (`s3://bucket/runs/ap.zarr`).

    Raises:
        FileNotFoundError: the path does not exist, or it was moved while it was read.
        OSError: the store does not answer, or the trace is replaced each time it is read.
        ValueError: not a trace, a trace that lost files, or a trace of another schema.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     solution = apviz.solve(system, apviz.Cholesky(), hooks=[apviz.Recorder(f"{folder}/direct.zarr")])
        ...     trace = apviz.open_trace(f"{folder}/direct.zarr")
        >>> trace.converged, trace.attrs["n"]
        (True, 200)
    """
    place = place_of(path)
    with _naming(path):
        return _opened(path, place)


@contextmanager
def _naming(path: str | Place) -> Iterator[None]:
    """Raise any unforeseen error as a ValueError that names the trace, so that callers can skip it."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or type(error) is ValueError:
            raise
        raise ValueError(f"{path} cannot be read as a trace: {type(error).__name__} {error}".rstrip()) from error


def _opened(path: str | Place, place: Place) -> Trace:
    # a trace that is moved or replaced while it is read would read as missing numbers, or as a mixture of two
    for _ in range(TRIES):
        before = _identity(place)
        if before is None:
            raise FileNotFoundError(f"no trace at {path}")
        try:
            loaded = _loaded(path, place)
        except (OSError, ValueError):
            if _identity(place) == before:
                raise
            continue
        if _identity(place) == before:
            break
    else:
        raise OSError(f"{path} changed while it was read, {TRIES} times in a row; copy it, and open the copy")
    require_schema(path, loaded.attrs)
    return TrainingTrace(loaded) if loaded.attrs.get("kind") == TRAINING else Trace(loaded)


def require_schema(path: str | Place, attrs: Mapping[Any, Any]) -> None:
    """Raise where root attributes are not those of a trace of this schema; `path` is for the message.

    Raises:
        ValueError: with the schema found and the schema accepted.
    """
    version = attrs.get("schema_version")
    if not isinstance(version, int):
        raise ValueError(f"{path} is not an apviz trace: it has no schema_version")
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"{path} has schema {version}, this apviz reads schema {SCHEMA_VERSION}: record it again, or open it with "
            "the version of apviz that wrote it"
        )


def _identity(place: Place) -> tuple[int, int, str] | None:
    """Return what tells a folder from one that replaces it; None where no trace is."""
    if isinstance(place, Remote):  # objects are never moved, and there is no trace before its root
        return (0, 0, "") if is_there(place / "zarr.json") else None
    try:
        found = place.stat() if place.exists() else None
    except FileNotFoundError:  # removed between the two calls
        found = None
    # a new folder may get the inode of a deleted one, but its root has another id
    return None if found is None else (found.st_dev, found.st_ino, trace_id_of(place))


def _loaded(path: str | Place, place: Place) -> xr.DataTree:
    """Read a trace into memory.

    Raises:
        ValueError: it does not open, or lost a part of its numbers.
    """
    if isinstance(place, Path) and (place / "zarr.json").is_file():
        require_schema(path, json.loads((place / "zarr.json").read_bytes()).get("attributes", {}))
        try:
            check_metadata(place, psutil.virtual_memory().available, MOST_CHUNKS)
        except ValueError as error:
            raise ValueError(f"{path} does not open as a Zarr trace: {error}") from error
    if sys.flags.optimize:
        _mend_zarr()
    try:
        with xr.open_datatree(str(place), engine="zarr") as tree:
            loaded = tree.load()
            for node in loaded.subtree:  # `load` skips coordinates that are not an index of their group
                for variable in node.variables.values():
                    variable.load()
    except Exception as error:
        raise ValueError(f"{path} does not open as a Zarr trace: {error}") from error
    if TRACE_ID in loaded.attrs and place.is_dir():
        require_every_chunk(place)
    return loaded


def _mend_zarr() -> None:
    """Remove `node_type` from the metadata of groups, as Zarr does inside an `assert`, which Python's -O skips."""
    from zarr.core.group import GroupMetadata

    plain = GroupMetadata.from_dict.__func__  # type: ignore[attr-defined]
    if plain.__module__ == GroupMetadata.__module__:
        GroupMetadata.from_dict = classmethod(  # type: ignore[method-assign, assignment]
            lambda cls, data: plain(cls, {name: value for name, value in data.items() if name != "node_type"})
        )


def attributes_of(path: Path) -> dict[str, Any]:
    """Read the root attributes of a trace in a folder, ten times as fast as opening it.

    Raises:
        OSError: the path does not exist.
        ValueError: not a trace, or a trace of another schema.
    """
    with _naming(path):
        attrs: dict[str, Any] = json.loads((path / "zarr.json").read_bytes())["attributes"]
        require_schema(path, attrs)
        return attrs


def last_number(path: Path, arrays: Mapping[str, Any], name: str) -> float:
    """Read the last number of an array of a trace on disk, a hundred times as fast as opening the trace.

    Args:
        arrays: metadata of its arrays by name, as its root holds them.

    Returns:
        NaN where there is no number, or where it is not stored as apviz writes it, in plain float64.
    """
    about = arrays.get(name, {})
    try:
        shape, chunks = about["shape"], about["chunk_grid"]["configuration"]["chunk_shape"]
        codecs = [each["name"] for each in about["codecs"]]
        if about["data_type"] != "float64" or codecs != ["bytes"] or len(shape) > 1 or 0 in shape:
            return math.nan
        number, place = divmod(shape[0] - 1, chunks[0]) if shape else (None, 0)
        chunk = (path / name / "c").joinpath(*([] if number is None else [str(number)])).read_bytes()
        return float(np.frombuffer(chunk, "<f8", 1, 8 * place)[0])
    except Exception:  # a stranger may have written anything
        return math.nan


def require_every_chunk(path: Place) -> None:
    """Raise where a trace lost a chunk: Zarr reads it as NaN or zeros, while apviz writes every chunk.

    Raises:
        ValueError: with the chunk that is missing or cut.
    """
    root = json.loads((path / "zarr.json").read_bytes())
    held = path.files() if isinstance(path, Remote) else None
    for name, node in consolidated_nodes(root).items():
        if node.get("node_type") != "array":
            continue
        chunks = node["chunk_grid"]["configuration"]["chunk_shape"]
        counts = [math.ceil(size / chunk) for size, chunk in zip(node["shape"], chunks, strict=True)]
        plain = [each["name"] for each in node["codecs"]] == ["bytes"] and isinstance(node["data_type"], str)
        size = math.prod(chunks) * np.dtype(node["data_type"]).itemsize if plain else None
        # one at a time: a stranger's grid may be huge
        for number in range(math.prod(counts)):
            place = "/".join(["c", *map(str, np.unravel_index(number, counts))])
            if not (f"{name}/{place}" in held if held is not None else _has_size(Path(str(path)) / name / place, size)):
                raise ValueError(f"{path} lacks {name}/{place}, a part of its data; restore it from a copy")


def _has_size(path: Path, size: int | None) -> bool:
    """Test whether a file exists, and has that size if one is known."""
    try:
        return path.stat().st_size == size or (size is None and path.is_file())
    except OSError:
        return False


_NUMBER: Final = (int, float)
# d is None for a matrix that linear_cg got without a kernel
_COMMON: Final[dict[str, Any]] = {
    "status": str, "created": str, "method": dict, "method_name": str, "method_details": str, "dataset": str, "n": int,
    "d": (int, type(None)), "kernel": str,
    "dtype": str, "device": str, "device_name": str, "threads": int, "solver_settings": str,
}  # fmt: skip
_SOLVE: Final[dict[str, Any]] = {
    "lengthscale": list, "outputscale": _NUMBER, "noise": _NUMBER, "right_hand_sides": int, "rhs_norms": list,
    "solver": str, "engine": str, "setup_work": _NUMBER,
}  # fmt: skip
_TRAINING: Final[dict[str, Any]] = {"training_settings": str}
#: attributes that a trace may lack
_OPTIONAL: Final[dict[str, Any]] = {
    "stop_reason": str, "stop_message": str, "tol": _NUMBER, "seed": int, "choices": str, "hyperparameters": str,
    "certificate": str, "certificate_error": _NUMBER, "kernel_parameters": str, "stagnated_steps": int,
    "trace_id": str, "factor_dtype": str, "merged_rows": int,
    "distinct_rows": int, "input_spreads": list, "zero_right_hand_sides": list, "target_mean_square": _NUMBER,
    "duplicate_disagreement": _NUMBER, "signal": _NUMBER, "nearest_correlation": _NUMBER,
    "smallest_correlation": _NUMBER, "oddities": list,
}  # fmt: skip
#: attributes whose text is JSON
_JSON: Final = ("solver_settings", "training_settings", "choices", "hyperparameters", "kernel_parameters")
#: characters of an attribute that people read
_MOST_CHARACTERS: Final = 2_000


def check_complete(trace: Trace) -> None:
    """Check attributes, groups and variables of a trace against the schema.

    Raises:
        ValueError: something is missing, or differs from the schema.
    """
    with _naming("the trace"):
        _check_complete(trace)


def _check_complete(trace: Trace) -> None:
    training = isinstance(trace, TrainingTrace)
    _check_attributes(trace.attrs, _COMMON | (_TRAINING if training else _SOLVE))
    for group in trace.tree.children:
        if group in GROUPS:
            _check_dimensions(trace, group)
    if training:
        _check_group(trace, "step", STEP)
        return
    _check_group(trace, "epoch", EPOCH)
    _check_group(trace, "spectrum", SPECTRUM)
    spectrum = trace["spectrum"]
    for bound in ("lambda_max_bound", "lambda_min_bound"):
        if not isinstance(spectrum.attrs.get(bound), _NUMBER):
            raise ValueError(f"its group spectrum has no number {bound}")
    method = trace.method
    if method.rule is not None and not isinstance(spectrum.attrs.get("lambda_max_block_bound"), _NUMBER):
        raise ValueError("it names a rule, and its group spectrum has no number lambda_max_block_bound")
    said = [spectrum[name].attrs for name in SPECTRUM]
    if not all(isinstance(each.get("how"), str) and "is_estimate" in each for each in said):
        raise ValueError("its group spectrum does not say how its values were obtained, or whether they are estimates")
    for group, variables in {"update": UPDATE, "pass": PASS, "block": BLOCK, "colour": COLOUR}.items():
        if group in trace:
            _check_group(trace, group, variables)
    missing = [name for name in ("rule", "partition", "block_size", "overlap") if getattr(method, name) is None]
    if "block" in trace and missing:
        raise ValueError(f"it has a group block, and its method no {', '.join(missing)}")
    if method.rule is not None and "block" not in trace:
        raise ValueError("it names a rule, and has no group block")


def _check_attributes(attrs: dict[str, Any], needed: dict[str, Any]) -> None:
    for name, kind in needed.items():
        if name not in attrs:
            raise ValueError(f"it has no attribute {name}")
        _check_kind(name, attrs[name], kind)
    for name, kind in _OPTIONAL.items():
        if name in attrs:
            _check_kind(name, attrs[name], kind)
    for name in ("lengthscale", "rhs_norms"):
        if name in needed and not all(isinstance(value, _NUMBER) for value in attrs[name]):
            raise ValueError(f"its {name} must be numbers")
    for name in (each for each in _JSON if each in attrs):
        _check_json(name, attrs[name])
    if "training_settings" in needed and not isinstance(json.loads(attrs["training_settings"]).get("steps"), int):
        raise ValueError("its training_settings have no number of steps")
    if attrs["status"] not in (FINISHED, INTERRUPTED):
        raise ValueError(f"its status must be {FINISHED} or {INTERRUPTED}, got {attrs['status'][:40]!r}")
    try:
        datetime.fromisoformat(attrs["created"])
    except ValueError as error:
        raise ValueError(f"it has no valid date of creation: {error}") from error


def _check_json(name: str, text: str) -> None:
    try:
        if not isinstance(json.loads(text), dict):
            raise ValueError("it is not an object")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its {name} is not JSON as apviz writes it: {error}") from error


def _check_kind(name: str, value: Any, kind: Any) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise ValueError(f"its {name} must be {' or '.join(one.__name__ for one in kinds)}, got {str(value)[:40]!r}")
    shown = isinstance(value, str) and name not in _JSON
    if shown and (len(value) > _MOST_CHARACTERS or not value.isprintable()):
        raise ValueError(f"its {name} is too long, or has characters that cannot be shown")


def _check_group(trace: Trace, group: str, variables: dict[str, Variable]) -> None:
    if group not in trace:
        raise ValueError(f"it has no group {group}")
    found = trace[group].variables
    missing = [name for name, variable in variables.items() if name not in found and not variable.is_optional]
    if missing:
        raise ValueError(f"its group {group} has no {', '.join(missing)}")
    if group in trace[group].sizes and not trace[group].sizes[group]:
        raise ValueError(f"its group {group} is empty")


def _check_dimensions(trace: Trace, group: str) -> None:
    for name, variable in trace[group].variables.items():
        known = GROUPS[group].get(str(name))
        if known is not None and (variable.dims != known.dims or variable.dtype.name != known.dtype):
            raise ValueError(
                f"its {group}/{name} is {variable.dtype.name} over ({', '.join(map(str, variable.dims))}); the schema "
                f"has {known.dtype} over ({', '.join(known.dims)})"
            )
