"""What page Compare shows: the settings of its view, and runs of one data set, as many as fit into its charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import param

from apviz.analysis.seed_verdict import groups_over_seeds
from apviz.analysis.verdict import judge
from apviz.dashboard.store.examples import PREFIX
from apviz.racing import By
from apviz.tracing import Trace

#: Maximum number of methods in one set of charts, and of runs, if they are repeated with several seeds.
MAX_RUNS, MAX_OVER_SEEDS = 12, 60

#: Name and number of rows of a data set.
Data = tuple[str, int | None]

#: Ways to run several methods at once, and the measure of each.
RACES: dict[str, By] = {"race on work": "work", "race on seconds": "seconds"}


class CompareView(param.Parameterized):
    """Settings of the view, which the address of the page holds."""

    x = param.Selector(default="seconds", objects=["seconds", "work", "epochs"], label="x axis")
    scale = param.Selector(default="log", objects=["log", "linear"], label="scale of the x axis")
    order = param.Selector(default="one by one", objects=["one by one", *RACES], label="Methods run")
    runs = param.List([], item_type=str, label="runs that are shown")
    selected = param.String("", label="the run that is looked at in detail")
    pinned = param.List([], item_type=str, label="runs whose curves stand out and which are compared")
    hidden = param.List([], item_type=str, label="runs without a curve")
    more = param.Boolean(False, label="whether the other charts and the diagnosis are shown")


def of_one_data_set(
    runs: Sequence[str],
    selected: str,
    data: Mapping[str, Data],
    opened: Callable[[Sequence[str]], Mapping[str, Trace]],
) -> tuple[list[str], list[str] | None]:
    """Return the runs with the data of the selected one, and sentences on those left out; None if all are shown.

    Args:
        data: of the runs, by their names.
        opened: a function that returns the traces of runs.
    """
    leading = data.get(selected) or next(iter(data.values()), None)
    alike = [name for name in runs if data.get(name, leading) == leading]
    kept = _at_most(alike, opened)
    others = [each for each in data.values() if each != leading]
    if not others and len(kept) == len(alike):
        return kept, None
    left_out = elsewhere(others, leading) if leading else []
    if len(kept) < len(alike):
        left_out.append(f"{len(kept)} of {len(alike)} runs opened: Compare draws {MAX_RUNS} methods.")
    return kept, left_out


def _at_most(runs: Sequence[str], opened: Callable[[Sequence[str]], Mapping[str, Trace]]) -> list[str]:
    """Return the last runs that fit into one set of charts; runs over several seeds count once a method."""
    if len(runs) <= MAX_RUNS:
        return list(runs)
    traces = opened(runs[-MAX_OVER_SEEDS:])
    groups = groups_over_seeds(list(traces.values()))
    if not groups:
        return list(runs[-MAX_RUNS:])
    kept = {id(trace) for group in groups[-MAX_RUNS:] for trace in group}
    return [name for name, trace in traces.items() if id(trace) in kept]


def elsewhere(others: Iterable[Data], shown: Data) -> list[str]:
    """Return a sentence for every data set whose runs are not shown."""
    return [
        f"{count} run{'s' if count > 1 else ''} of {name or 'other data'}"
        f"{f' with {n:,} rows' if name == shown[0] and n else ''} {'are' if count > 1 else 'is'} on page Runs."
        for (name, n), count in Counter(each for each in others if each != shown).items()
    ]


def best_run(traces: Mapping[str, Trace]) -> str:
    """Return the name of the best run, of those that are no stored examples if there are any; empty without runs."""
    here = [trace for name, trace in traces.items() if not name.startswith(PREFIX)]
    standings = judge(here or traces.values()).standings
    return next((name for name, trace in traces.items() if trace is standings[0].trace), "")
