"""Many runs together: groups that differ only in the seed, median and band, equal curves, performance profiles."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from apviz.analysis.sweeps import SAME_RELATIVE, system_key
from apviz.method import distinct_names
from apviz.tracing.trace import Trace

Floats = NDArray[np.float64]
Band = Literal["quartiles", "range"]
Unit = Literal["work", "epochs", "seconds"]

#: Root attributes that runs of one group share, in addition to the method and the settings of the solver.
_SHARED: Final = (
    "dataset", "n", "d", "right_hand_sides", "kernel", "kernel_parameters", "lengthscale", "outputscale", "noise",
    "largest_noise", "dtype", "tol", "engine", "device_name", "threads",
)  # fmt: skip
_QUANTILES: Final = {"quartiles": (0.25, 0.5, 0.75), "range": (0.0, 0.5, 1.0)}
_VARIABLES: Final = {"work": "work", "epochs": "epoch", "seconds": "seconds"}
#: Relative difference of residuals and of work that a chart cannot show.
SAME_CURVE: Final = 0.01


def but_for_the_seed(traces: Iterable[Trace]) -> list[list[Trace]]:
    """Group runs that differ only in the seed: all settings of system, solver and machine agree, whatever the results.

    For a named data set, another seed means another split or another draw. For runs without a seed, the data themselves
    are compared. Repeated runs with one seed are in one group too.

    Examples:
        >>> import torch, apviz
        >>> x, recorder = torch.linspace(0, 1, 200, dtype=torch.float64), apviz.Recorder()
        >>> for seed in (0, 1):
        ...     y = torch.sin(6 * x) + 0.1 * torch.randn(200, generator=torch.Generator().manual_seed(int(seed)))
        ...     kernel = apviz.Matern52(lengthscale=0.2)
        ...     system = apviz.KernelSystem(x, y, kernel, noise=0.01, seed=seed, dataset="sine", device="cpu")
        ...     solution = apviz.solve(system, apviz.ConjugateGradient(), hooks=[recorder])
        >>> [[trace.attrs["seed"] for trace in runs] for runs in apviz.analysis.but_for_the_seed(recorder.traces)]
        [[0, 1]]
    """
    found: dict[str, list[Trace]] = {}
    for trace in traces:
        found.setdefault(_group_key(trace), []).append(trace)
    return list(found.values())


def _group_key(trace: Trace) -> str:
    attrs = trace.attrs
    settings = [_without_seeds(json.loads(attrs.get(name, "{}"))) for name in ("solver_settings", "training_settings")]
    data = attrs.get("data") if attrs.get("seed") is None else None
    return repr([attrs.get("kind"), attrs["method"], *(attrs.get(key) for key in _SHARED), data, settings])


def _without_seeds(settings: Any) -> Any:
    """Remove all seeds from settings, including those of their parts."""
    if isinstance(settings, dict):
        return {name: _without_seeds(value) for name, value in settings.items() if name != "seed"}
    return [_without_seeds(each) for each in settings] if isinstance(settings, list) else settings


def median_and_band(
    traces: Sequence[Trace], variable: str = "residual", *, x: Unit = "work", band: Band = "quartiles"
) -> pd.DataFrame:
    """Return median and band of a variable over several runs, at every x at which one of them ends an epoch.

    At any x, a run counts with its value after its last completed epoch. So there is no interpolation and no grid. A
    converged run keeps its last value. The table ends at the median of the runs' ends, as in `group_table`, or where
    the first run ends without convergence.

    Args:
        variable: Variable of the group `epoch`; epochs in which it is not finite are skipped.
        band: `quartiles`, or the `range` from minimum to maximum.

    Returns:
        A row for every x: `x`, `low`, `median`, `high`. Quantiles between two runs are interpolated in their logarithms
            if all values are positive, as a log axis shows them.

    Raises:
        ValueError: No run; one in which the variable is nowhere finite.

    Examples:
        >>> import torch, apviz
        >>> x, recorder = torch.linspace(0, 1, 60), apviz.Recorder()
        >>> system = apviz.KernelSystem(x, x.sin(), apviz.Matern52(lengthscale=0.2), noise=0.1, device="cpu")
        >>> for size in (10, 20, 20):
        ...     solution = apviz.solve(system, apviz.AlternatingProjection(block_size=size), hooks=[recorder])
        >>> table = apviz.analysis.median_and_band(recorder.traces, band="range")
        >>> list(table), bool((table["low"] <= table["median"]).all())
        (['x', 'low', 'median', 'high'], True)
    """
    curves = [_steps(trace, variable, x) for trace in traces]
    if not curves:
        raise ValueError("no run to take the median of")
    start = max(float(places[0]) for places, _ in curves)
    ends = np.array([places[-1] for places, _ in curves])
    converged = np.array([trace.converged for trace in traces])
    stopped = float(ends.min(initial=math.inf, where=~converged))
    end = max(start, min(stopped, float(np.median(np.where(converged, ends, math.inf)))))
    grid = np.unique(np.concatenate([[end], *(places for places, _ in curves)]))
    grid = grid[(grid >= start) & (grid <= end)]
    values = np.array([values[np.searchsorted(places, grid, side="right") - 1] for places, values in curves])
    is_log = bool((values > 0).all())
    found = np.quantile(np.log(values) if is_log else values, _QUANTILES[band], axis=0)
    low, median, high = np.exp(found) if is_log else found
    return pd.DataFrame({"x": grid, "low": low, "median": median, "high": high})


def _steps(trace: Trace, variable: str, x: Unit) -> tuple[Floats, Floats]:
    epochs = trace["epoch"]
    places, values = epochs[_VARIABLES[x]].values.astype(float), epochs[variable].values.astype(float)
    known = np.isfinite(values)
    if not known.any():
        raise ValueError(f"{trace.method_name} has recorded no {variable}; leave it out")
    return places[known], values[known]


def group_table(groups: Sequence[Sequence[Trace]]) -> pd.DataFrame:
    """Return a table of groups: numbers of runs and of converged runs, medians; `work` and `seconds` if converged.

    Examples:
        >>> import torch, apviz
        >>> x, recorder = torch.linspace(0, 1, 60), apviz.Recorder()
        >>> system = apviz.KernelSystem(x, x.sin(), apviz.Matern52(lengthscale=0.2), noise=0.1, device="cpu")
        >>> for size in (10, 20, 20):
        ...     solution = apviz.solve(system, apviz.AlternatingProjection(block_size=size), hooks=[recorder])
        >>> apviz.analysis.group_table([recorder.traces])[["runs", "converged"]].values.tolist()
        [[3, 3]]
    """
    rows = []
    for runs in groups:
        last = [trace["epoch"].isel(epoch=-1) for trace in runs]
        solved = [each for each, trace in zip(last, runs, strict=True) if trace.converged]
        rows.append(
            {
                "runs": len(runs),
                "converged": len(solved),
                "work": _median([float(each["work"]) for each in solved]),
                "seconds": _median([float(each["seconds"]) for each in solved]),
                "residual": _median([float(each["residual"]) for each in last]),
                "test_rmse": _median([float(each["test_rmse"]) for each in last]),
            }
        )
    return pd.DataFrame(rows)


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.median(known)) if known else math.nan


def coinciding(traces: Sequence[Trace]) -> list[list[int]]:
    """Return indices of runs whose curves of residuals coincide: within 1% after every epoch, at the same work.

    Examples:
        >>> import torch, apviz
        >>> x, recorder = torch.linspace(0, 1, 60), apviz.Recorder()
        >>> system = apviz.KernelSystem(x, x.sin(), apviz.Matern52(lengthscale=0.2), noise=0.1, device="cpu")
        >>> for size in (10, 20, 20):
        ...     solution = apviz.solve(system, apviz.AlternatingProjection(block_size=size), hooks=[recorder])
        >>> apviz.analysis.coinciding(recorder.traces)
        [[1, 2]]
    """
    found: list[list[int]] = []
    lengths: dict[int, list[list[int]]] = {}
    for place, trace in enumerate(traces):
        alike = lengths.setdefault(trace["epoch"].sizes["epoch"], [])
        for group in alike:
            if _is_same_curve(traces[group[0]], trace):
                group.append(place)
                break
        else:
            alike.append([place])
    for alike in lengths.values():
        found += [group for group in alike if len(group) > 1]
    return sorted(found)


def _is_same_curve(one: Trace, other: Trace) -> bool:
    return all(
        np.allclose(one["epoch"][name].values, other["epoch"][name].values, rtol=SAME_CURVE, atol=0.0, equal_nan=True)
        for name in ("residual", "work")
    )


def performance_profile(traces: Sequence[Trace], measure: Literal["work", "seconds"] = "work") -> pd.DataFrame:
    """Return the performance profile of methods over systems (Dolan & Moré 2002, doi:10.1007/s101070100263).

    ρ(τ) of a method is the share of the systems that it solved with at most τ times the work, or the seconds, of the
    best method on each. A run that ended without convergence never solved its system; an unfinished run is left out. A
    system is identified together with its tolerance, and counts if all methods have a run on it. If a method has
    several runs on one system, their median counts.

    Returns:
        A row for each method and ratio: `method`, `ratio`, `share`. A method that solved none has one row, of share 0
        at ratio 1. `attrs` has `systems`, their number; `left_out`, the number of systems on which some method has no
        run; `unsolved`, the number of systems that no method solved; and `runs`, the indices in `traces` of the runs
        that count.

    Raises:
        ValueError: No run that has ended; no system on which all methods have a run.

    Examples:
        >>> import torch, apviz
        >>> x, recorder = torch.linspace(0, 1, 200, dtype=torch.float64), apviz.Recorder()
        >>> for noise in (0.1, 0.01):
        ...     kernel = apviz.Matern52(lengthscale=0.2)
        ...     system = apviz.KernelSystem(x, torch.sin(6 * x), kernel, noise=noise, device="cpu")
        ...     for solver in (apviz.AlternatingProjection(block_size=50), apviz.ConjugateGradient(max_epochs=2)):
        ...         solution = apviz.solve(system, solver, hooks=[recorder])
        >>> profile = apviz.analysis.performance_profile(recorder.traces)
        >>> profile.attrs["systems"], profile.groupby("method")["share"].max().to_dict()
        (2, {'Alternating projection (greedy, b = 50)': 1.0, 'CG': 0.0})
    """
    costs: dict[str, dict[str, list[float]]] = {}
    places: dict[str, list[int]] = {}
    names = solver_names(traces)
    for place, (trace, name) in enumerate(zip(traces, names, strict=True)):
        if trace.finished and "epoch" in trace:
            system = f"{system_key(trace.attrs)} {trace.attrs.get('tol')}"
            cost = float(trace["epoch"][measure][-1]) if trace.converged else math.inf
            costs.setdefault(name, {}).setdefault(system, []).append(cost)
            places.setdefault(system, []).append(place)
    if not costs:
        raise ValueError("none of these runs has ended, so there is nothing to compare yet")
    common = [system for system in places if all(system in of_one for of_one in costs.values())]
    if not common:
        lacking = ", ".join(f"{name}: {len(of_one)}" for name, of_one in costs.items())
        raise ValueError(f"no system has a run of every method (systems of each: {lacking}); leave a method out")
    table = np.array([[float(np.median(of_one[system])) for system in common] for of_one in costs.values()])
    best = table.min(axis=0)
    rows = []
    for name, own in zip(costs, table, strict=True):
        solved = np.sort(np.maximum(own[np.isfinite(own)] / best[np.isfinite(own)], 1.0))
        ratios = np.unique(np.concatenate([[1.0], solved]))
        shares = np.searchsorted(solved, ratios * (1 + SAME_RELATIVE), side="right") / len(common)
        rows.append(pd.DataFrame({"method": name, "ratio": ratios, "share": shares}))
    found = pd.concat(rows, ignore_index=True)
    found.attrs = {
        "systems": len(common),
        "left_out": len(places) - len(common),
        "unsolved": int(np.isinf(best).sum()),
        "runs": sorted(place for system in common for place in places[system]),
    }
    return found


def solver_names(traces: Sequence[Trace]) -> list[str]:
    """Return the method of each run, with its precision if its runs differ in that."""
    names, dtypes = distinct_names([trace.method for trace in traces]), dict[str, set[str]]()
    for trace, name in zip(traces, names, strict=True):
        dtypes.setdefault(name, set()).add(trace.attrs["dtype"])
    return [
        f"{name}, {trace.attrs['dtype']}" if len(dtypes[name]) > 1 else name
        for trace, name in zip(traces, names, strict=True)
    ]


#: Settings of a system, and of a method, that a sweep may vary, in the order of their axes.
_OF_SYSTEM: Final = ("dataset", "n", "d", "kernel", "lengthscale", "outputscale", "noise", "dtype", "tol")
_OF_METHOD: Final = (
    "rule", "partition", "preconditioner", "coarse", "block_size", "overlap", "history", "coarse_rank",
    "skeleton_rank", "rank",
)  # fmt: skip


def varied(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return a table of the settings in which runs differ, except the seed, and of their results: one row per run.

    Columns are settings of the system and of the method with at least two values, as numbers or text. A method that
    lacks a setting has None or NaN. Then follow `work` and `seconds` to the tolerance, NaN if it was not reached, and
    the last `test_rmse`. For lengthscales by input, the column has their geometric mean.

    Examples:
        >>> import torch, apviz
        >>> x, recorder = torch.linspace(0, 1, 60), apviz.Recorder()
        >>> system = apviz.KernelSystem(x, x.sin(), apviz.Matern52(lengthscale=0.2), noise=0.1, device="cpu")
        >>> for size in (10, 20, 20):
        ...     solution = apviz.solve(system, apviz.AlternatingProjection(block_size=size), hooks=[recorder])
        >>> apviz.analysis.varied(recorder.traces)["block_size"].tolist()
        [10, 20, 20]
    """
    rows = []
    for trace in traces:
        attrs, method = trace.attrs, trace.method.plain()
        row = {name: attrs.get(name) for name in _OF_SYSTEM} | {name: method.get(name) for name in _OF_METHOD}
        scales = attrs.get("lengthscale") or []
        row["lengthscale"] = math.exp(sum(map(math.log, scales)) / len(scales)) if scales else None
        rows.append(row)
    table = pd.DataFrame(rows, dtype=object)
    table = table[[name for name in table if table[name].dropna().map(str).nunique() > 1]]
    last = [trace["epoch"].isel(epoch=-1) for trace in traces]
    for name in ("work", "seconds"):
        table[name] = [float(e[name]) if t.converged else math.nan for e, t in zip(last, traces, strict=True)]
    rmse = [float(each["test_rmse"]) for each in last]
    return table.assign(test_rmse=rmse) if any(map(math.isfinite, rmse)) else table
