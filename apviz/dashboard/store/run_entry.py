"""Entries of the list of runs, read from root attributes alone, and the kinds of traces."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apviz.tracing import Trace
from apviz.tracing.archive import consolidated_nodes
from apviz.tracing.opening import last_number, require_every_chunk, require_schema
from apviz.tracing.schema import FAILED, FINISHED, TRACE_ID, TRAINING
from apviz.tracing.trace import status_words

#: Stop reason of a solve that reached its tolerance.
CONVERGED = status_words("converged")
#: Stop reasons of what cannot be opened: files are lost or changed; it is no trace, or one of another version.
DAMAGED, UNREADABLE = "damaged", "cannot be read"
#: A trace written to within this number of seconds may still grow.
FRESH_SECONDS = 30.0


@dataclass(frozen=True)
class RunEntry:
    """Entry of one run in the list.

    Args:
        kind: `solve`, `training`, or empty if the trace cannot be read.
        ending: the stop reason in words, as far as known.
        finished: whether the run stopped by itself; otherwise it was interrupted or still runs.
        epochs: epochs of a solve, or steps of a training.
        work, seconds, residual: NaN if the root attributes lack them.
        rmse: the last test RMSE; kappa: κ of K; both NaN if they were not recorded.
        lengthscale: for one lengthscale per input, their geometric mean.
        details: details of the method.
        created: ISO, in UTC.
        changed: time of the last write, in seconds since 1970.
        problem: why the trace cannot be read; empty if it can.
    """

    name: str
    changed: float
    kind: str = ""
    method: str = ""
    dataset: str = ""
    n: int | None = None
    ending: str = ""
    finished: bool = False
    epochs: int | None = None
    work: float = math.nan
    seconds: float = math.nan
    residual: float = math.nan
    residual_is_measured: bool = False
    created: str = ""
    details: str = ""
    d: int | None = None
    block_size: int | None = None
    noise: float = math.nan
    tol: float = math.nan
    lengthscale: float = math.nan
    kernel: str = ""
    dtype: str = ""
    seed: int | None = None
    rmse: float = math.nan
    kappa: float = math.nan
    kappa_is_estimate: bool = True
    note: str = ""
    tags: tuple[str, ...] = ()
    problem: str = ""

    # dataclasses compare numbers one by one since Python 3.13, so that NaN would make every entry unequal to its copy
    def __eq__(self, other: object) -> bool:
        """Compare all fields; a missing number, NaN, equals another."""
        return isinstance(other, RunEntry) and self._comparable() == other._comparable()

    def __hash__(self) -> int:
        """Return the hash of the name."""
        return hash(self.name)

    def _comparable(self) -> list[object]:
        return [None if isinstance(each, float) and math.isnan(each) else each for each in vars(self).values()]

    def ended(self, now: float) -> str:
        """Return the stop reason in words, as far as it is known at a time in seconds since 1970."""
        fresh = self.ending == "interrupted" and now - self.changed < FRESH_SECONDS
        words = "interrupted, or still running" if fresh else self.ending
        return words[:1].upper() + words[1:]

    def matches(self, words: str) -> bool:
        """Return whether the name, method, data set, kind, ending, tags or note contain every word, ignoring case."""
        text = " ".join((
            self.name, self.method, self.details, self.dataset, self.kind, self.ending, *self.tags, self.note,
            self.problem,
        ))  # fmt: skip
        return all(word in text.casefold() for word in words.casefold().split())


def read_entry(name: str, path: Path, changed: float) -> RunEntry:
    """Return the entry of the trace at `path`; with a `problem` if it cannot be read."""
    ending = DAMAGED
    try:
        root = json.loads((path / "zarr.json").read_bytes())
        attrs = root["attributes"]
        ending = UNREADABLE
        require_schema("it", attrs)
        ending = DAMAGED
        if TRACE_ID in attrs:
            require_every_chunk(path)
        training = attrs.get("kind") == TRAINING
        return RunEntry(
            name, changed, TRAINING if training else "solve", str(attrs["method_name"]), str(attrs["dataset"]),
            int(attrs["n"]), _ending(attrs), attrs["status"] == FINISHED,
            _length(root, "step/step" if training else "epoch/epoch"), _number(attrs, "work"),
            _seconds(path, root), _number(attrs, "residual"), bool(attrs.get("certificate")),
            str(attrs["created"]), details=str(attrs["method_details"]), **_settings(attrs),
            **_results(path, root),
        )  # fmt: skip
    except FileNotFoundError:
        problem = "it has no zarr.json: not a Zarr v3 trace, or one whose files were lost"
    except (OSError, ValueError) as error:
        said = str(error).replace(str(path), "it")
        problem = said if said.startswith("it ") else f"its zarr.json cannot be read: {said}"
    except Exception as error:  # of any kind: the other runs are listed
        problem = f"its zarr.json is not that of an apviz trace: {type(error).__name__} {error}"
    return RunEntry(name, changed, ending=ending, problem=problem)


def last_change(path: Path) -> os.stat_result:
    """Return the status of the file that every flush of a trace replaces, or of its folder if there is no such file."""
    try:
        return (path / "zarr.json").stat()
    except OSError:
        return path.stat()


def _ending(attrs: dict[str, Any]) -> str:
    """Return the stop reason, as `apviz.Trace.status` says it, or for a run without an end what is known."""
    reason = attrs.get("stop_reason")
    if attrs["status"] == FINISHED:
        return status_words(str(reason))
    if reason == FAILED:
        return str(reason)
    message = str(attrs.get("stop_message", ""))
    return message if message.startswith("interrupted") else "interrupted"


def _settings(attrs: dict[str, Any]) -> dict[str, Any]:
    """Return the settings for the columns of a list of runs, as far as a trace has them."""
    scales = [each for each in attrs.get("lengthscale") or [] if each > 0]
    size = attrs["method"].get("block_size")
    d, seed = attrs.get("d"), attrs.get("seed")
    return {
        "d": None if d is None else int(d),
        "block_size": size if isinstance(size, int) else None,
        "noise": _number(attrs, "noise"),
        "tol": _number(attrs, "tol"),
        "lengthscale": math.exp(sum(math.log(each) for each in scales) / len(scales)) if scales else math.nan,
        "kernel": str(attrs.get("kernel", "")),
        "dtype": str(attrs.get("dtype", "")),
        "seed": None if seed is None else int(seed),
    }


def _results(path: Path, root: dict[str, Any]) -> dict[str, Any]:
    kappa = consolidated_nodes(root).get("spectrum/kappa", {})
    return {
        "rmse": last_number(path, consolidated_nodes(root), "epoch/test_rmse"),
        "kappa": last_number(path, consolidated_nodes(root), "spectrum/kappa"),
        "kappa_is_estimate": bool(kappa.get("attributes", {}).get("is_estimate", True)),
    }


def _seconds(path: Path, root: dict[str, Any]) -> float:
    """Return the seconds to the last epoch, as charts draw them; those of a solve also include what follows."""
    last = last_number(path, consolidated_nodes(root), "epoch/seconds")
    return _number(root["attributes"], "seconds") if math.isnan(last) else last


def _number(attrs: dict[str, Any], name: str) -> float:
    value = attrs.get(name, math.nan)
    return float(value)


def _length(root: dict[str, Any], array: str) -> int | None:
    """Return the length of an array, from its metadata in the root."""
    shape = consolidated_nodes(root).get(array, {}).get("shape")
    # The first epoch of a solve is number 0, before any update.
    return None if not shape else int(shape[0]) - (array == "epoch/epoch")


def is_solve(trace: Trace) -> bool:
    """Return whether a trace has epochs or iterations of a solve; a trace that just began has none."""
    return "epoch" in trace and trace["epoch"].sizes["epoch"] > 0


def has_steps(trace: Trace) -> bool:
    """Return whether a trace has steps of a training."""
    return "step" in trace and trace["step"].sizes["step"] > 0


def solves_of(traces: Mapping[str, Trace]) -> dict[str, Trace]:
    """Return the traces of solves among these."""
    return {name: trace for name, trace in traces.items() if is_solve(trace)}
