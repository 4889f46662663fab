"""Sweeps: runs that differ in one setting, as series and as tables of results and of settings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from apviz.analysis.errors import conjugate_gradient_iterations
from apviz.memory import numbers_held
from apviz.method import Method, distinct_names
from apviz.tracing.trace import Trace

Over = Literal["block_size", "noise"]

_HYPERPARAMETERS: Final = ("kernel", "kernel_parameters", "lengthscale", "outputscale", "noise")
#: For runs recorded before traces had a fingerprint of their data; the seed also determines the split.
_POINTS: Final = ("dataset", "n", "d", "right_hand_sides")
#: Seconds of two machines, or of two numbers of threads, do not compare.
_MACHINE: Final = ("device_name", "threads")

#: Attributes that are results, or settings under another name.
_NOT_SETTINGS: Final = frozenset({
    "status", "stop_reason", "stop_message", "residual", "epochs", "work", "seconds", "created", "schema_version",
    "setup_work", "setup_seconds", "initial_energy", "rhs_norms", "versions", "solver_settings", "training_settings",
    "choices", "hyperparameters", "stagnated_steps", "tol", "kind", "trace_id", "method", "method_details", "data",
    "distinct_rows", "input_spreads", "zero_right_hand_sides", "target_mean_square", "duplicate_disagreement", "signal",
    "nearest_correlation", "smallest_correlation", "oddities", "certificate", "certificate_error",
})  # fmt: skip

#: Relative difference of numbers of two traces that differ only by rounding.
SAME_RELATIVE: Final = 1e-6

#: Number of points of a bound over the range of κ.
BOUND_POINTS: Final = 40


def swept(attrs: Mapping[str, Any], over: Over) -> float | None:
    """Return the value of the swept setting from the root attributes of a trace; None if a run lacks it."""
    method = Method.from_plain(attrs["method"])
    value = (method.block_size if method.has_blocks else None) if over == "block_size" else attrs.get(over)
    return value if isinstance(value, int | float) else None


def method_of(attrs: Mapping[str, Any], over: Over) -> Method:
    """Return the method in the root attributes of a trace without the swept setting."""
    method = Method.from_plain(attrs["method"])
    return method.without("block_size") if over == "block_size" else method


def system_of(attrs: Mapping[str, Any], over: Over) -> str:
    """Return a key of everything that the runs of a series share, except the swept setting and the seed.

    The key has the data (by name, otherwise by fingerprint), hyperparameters, dtype, tolerance and the machine.
    """
    points = _POINTS if attrs.get("dataset") else (*_POINTS, "data")
    return repr([attrs.get(key) for key in (*points, *_HYPERPARAMETERS, "dtype", "tol", *_MACHINE) if key != over])


def machine_of(attrs: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what the seconds of a run depend on apart from the solve: processor or GPU, and threads."""
    return tuple(attrs.get(key) for key in _MACHINE)


def system_key(attrs: Mapping[str, Any]) -> str:
    """Return a key that runs of one system share, whatever the method, dtype and tolerance."""
    points = ("data",) if "data" in attrs else (*_POINTS, "seed")
    return repr([attrs.get(key) for key in (*points, *_HYPERPARAMETERS)])


def same_system(one: Trace, other: Trace) -> bool:
    """Test whether two runs solved the same system, with any methods and tolerances.

    GPyTorch's own CG, for example, records no fingerprint of the data. Such runs without a name count as the same if
    the norms of the right-hand sides and λmax agree. The norms alone are not enough: those of standardised targets
    always agree.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> for solver in (apviz.Cholesky(), apviz.ConjugateGradient()):
        ...     solution = apviz.solve(system, solver, hooks=[recorder])
        >>> apviz.analysis.same_system(*recorder.traces)
        True
    """
    if "data" in one.attrs and "data" in other.attrs:
        return system_key(one.attrs) == system_key(other.attrs)
    if any(one.attrs.get(key) != other.attrs.get(key) for key in (*_POINTS, *_HYPERPARAMETERS, "seed")):
        return False
    norms, others = one.attrs.get("rhs_norms"), other.attrs.get("rhs_norms")
    if norms is None or others is None:
        return bool(one.attrs.get("dataset"))
    if len(norms) != len(others) or not np.allclose(norms, others, rtol=SAME_RELATIVE, atol=0.0):
        return False
    return bool(one.attrs.get("dataset")) or _same_largest_eigenvalue(one, other)


def _same_largest_eigenvalue(one: Trace, other: Trace) -> bool:
    """Test whether λmax is the same and was computed in the same way, as for the same K; False if unknown."""
    if "spectrum" not in one or "spectrum" not in other:
        return False
    first, second = one["spectrum"]["lambda_max"], other["spectrum"]["lambda_max"]
    return first.attrs.get("how") == second.attrs.get("how") and math.isclose(first, second, rel_tol=SAME_RELATIVE)


def series(traces: Iterable[Trace], over: Over) -> list[list[Trace]]:
    """Group runs that share machine, method and system except for `over`, each series sorted by it.

    Runs without the setting are omitted. A series has several runs at one value if these differ in the seed.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> for b in (100, 50):
        ...     solution = apviz.solve(system, apviz.AlternatingProjection(block_size=b), hooks=[recorder])
        >>> [[trace.block_size for trace in runs] for runs in apviz.analysis.series(recorder.traces, over="block_size")]
        [[50, 100]]
    """
    found: dict[Any, list[Trace]] = {}
    for trace in traces:
        if swept(trace.attrs, over) is not None:
            found.setdefault((method_of(trace.attrs, over), system_of(trace.attrs, over)), []).append(trace)
    for runs in found.values():
        runs.sort(key=lambda trace: swept(trace.attrs, over) or 0.0)
    return list(found.values())


def of_one_system(traces: Iterable[Trace], over: Over) -> list[Trace]:
    """Return the runs on the most frequent system, tolerance and machine, which are comparable; of two, the first."""
    found: dict[str, list[Trace]] = {}
    for trace in traces:
        found.setdefault(system_of(trace.attrs, over), []).append(trace)
    return max(found.values(), key=len, default=[])


def conjugate_gradient_bounds(traces: Iterable[Trace]) -> pd.DataFrame:
    """Return bounds on plain CG's iterations in exact arithmetic over the κ of runs: `tol`, `kappa`, `iterations`."""
    kappas: dict[float, list[float]] = {}
    for trace in traces:
        if trace.method.is_plain_cg:
            kappas.setdefault(float(trace.attrs["tol"]), []).append(float(trace["spectrum"]["kappa"]))
    frames = []
    for tol, values in sorted(kappas.items()):
        kappa = np.geomspace(min(values), max(values), BOUND_POINTS)
        iterations = conjugate_gradient_iterations(kappa, tol)
        frames.append(pd.DataFrame({"tol": tol, "kappa": kappa, "iterations": iterations}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["tol", "kappa", "iterations"])


def fastest_over_seeds(traces: Iterable[Trace], over: Over) -> list[Trace]:
    """Return the runs at the value of a setting with the shortest median time over seeds, if all of them converged.

    Examples:
        >>> import torch, apviz
        >>> x, recorder = torch.linspace(0, 1, 60), apviz.Recorder()
        >>> system = apviz.KernelSystem(x, x.sin(), apviz.Matern52(lengthscale=0.2), noise=0.1, device="cpu")
        >>> for size in (10, 20, 10):
        ...     solution = apviz.solve(system, apviz.AlternatingProjection(block_size=size), hooks=[recorder])
        >>> len({trace.block_size for trace in fastest_over_seeds(recorder.traces, "block_size")})
        1
    """
    converged = [runs for runs in repeats(traces, over) if all(trace.converged for trace in runs)]
    return min(converged, key=lambda runs: float(np.median([*map(_seconds, runs)])), default=[])


def repeats(traces: Iterable[Trace], over: Over) -> list[list[Trace]]:
    """Group runs of one method at one value of a setting, which differ only in the seed; by rising value."""
    found: dict[Any, list[Trace]] = {}
    for runs in series(traces, over):
        for trace in runs:
            key = (method_of(trace.attrs, over), system_of(trace.attrs, over), swept(trace.attrs, over))
            found.setdefault(key, []).append(trace)
    return list(found.values())


def nearest(traces: Iterable[Trace]) -> Trace | None:
    """Return the run whose last residual is the smallest; None if there is none.

    Examples:
        >>> import torch, apviz
        >>> x, recorder = torch.linspace(0, 1, 60), apviz.Recorder()
        >>> system = apviz.KernelSystem(x, x.sin(), apviz.Matern52(lengthscale=0.2), noise=0.1, device="cpu")
        >>> for tol in (0.01, 1e-4):
        ...     solution = apviz.solve(system, apviz.AlternatingProjection(block_size=20, tol=tol), hooks=[recorder])
        >>> apviz.analysis.nearest(recorder.traces).attrs["tol"]
        0.0001
    """
    return min((trace for trace in traces if math.isfinite(_residual(trace))), key=_residual, default=None)


def slowest(traces: Iterable[Trace]) -> Trace | None:
    """Return the run that took the most seconds, converged or not; None if there is none."""
    return max(traces, key=_seconds, default=None)


def factor_bytes(trace: Trace) -> float:
    """Return the bytes of block factors, two of which share one square of the solved rows; NaN without blocks."""
    if "block" not in trace:
        return math.nan
    sizes = trace["block"]["solved_size"].values.tolist()
    # optional: by default, a trace keeps factors in the dtype of its system
    return float(numbers_held(sizes) * np.dtype(trace.attrs.get("factor_dtype", trace.attrs["dtype"])).itemsize)


def sweep_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return a table with one row per run; `epochs`, `work` and `seconds` are to the tolerance only for converged runs.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> for b in (50, 100):
        ...     solution = apviz.solve(system, apviz.AlternatingProjection(block_size=b), hooks=[recorder])
        >>> table = apviz.analysis.sweep_table(recorder.traces)
        >>> table["block_size"].tolist(), table["converged"].tolist()
        ([50, 100], [True, True])
    """
    names = distinct_names([trace.method for trace in traces])
    return pd.DataFrame(
        [
            {
                "method": name, "block_size": math.nan if trace.block_size is None else trace.block_size,
                "noise": trace.attrs["noise"], "kappa": float(trace["spectrum"]["kappa"]),
                "kappa_prime": float(trace["spectrum"]["kappa_prime"]), "epochs": int(trace["epoch"]["epoch"][-1]),
                "work": float(trace["epoch"]["work"][-1]), "seconds": _seconds(trace),
                "residual": float(trace["epoch"]["residual"][-1]), "factor_bytes": factor_bytes(trace),
                "converged": trace.converged, "outcome": trace.outcome,
            }
            for trace, name in zip(traces, names, strict=True)
        ]
    )  # fmt: skip


def _seconds(trace: Trace) -> float:
    return float(trace["epoch"]["seconds"][-1])


def _residual(trace: Trace) -> float:
    return float(trace["epoch"]["residual"][-1])


def settings(trace: Trace) -> dict[str, Any]:
    """Return everything decided before a run: data, kernel, machine, versions, and each setting of the solver."""
    attrs = trace.attrs
    found = {("method" if name == "method_name" else name): v for name, v in attrs.items() if name not in _NOT_SETTINGS}
    for name, prefix in (("training_settings", "training: "), ("solver_settings", ""), ("versions", "version of ")):
        values = json.loads(attrs.get(name, "{}"))
        found |= {prefix + key.replace("_", " "): value for key, value in values.items() if key != "type"}
    return {name.replace("_", " "): value for name, value in found.items()}


def settings_table(traces: Sequence[Trace], *, only_differences: bool = False) -> dict[str, list[str]]:
    """Return the settings of runs as text, by setting; a dash if a run lacks it.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> for b in (50, 100):
        ...     solution = apviz.solve(system, apviz.AlternatingProjection(block_size=b), hooks=[recorder])
        >>> apviz.analysis.settings_table(recorder.traces, only_differences=True)["block size"]
        ['50', '100']
    """
    every = [settings(trace) for trace in traces]
    names = dict.fromkeys(name for each in every for name in each)
    rows = {name: [_text(each.get(name)) for each in every] for name in names}
    return {name: row for name, row in rows.items() if not only_differences or len(set(row)) > 1}


def _text(value: Any) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        inside = ", ".join(f"{name}={_text(each)}" for name, each in value.items() if name != "type")
        return f"{value.get('type', '')}({inside})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
