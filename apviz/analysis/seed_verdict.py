"""Verdict on runs that were repeated with several seeds: methods are compared by medians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apviz.analysis.ensembles import but_for_the_seed, group_table
from apviz.analysis.verdict import compared, made_apart, sentences, time_words
from apviz.tracing import Trace

#: Root attributes that runs share whose seconds compare, except for the seed: those of the system and the machine.
_SYSTEM = (
    "dataset", "n", "right_hand_sides", "kernel", "lengthscale", "outputscale", "noise", "dtype", "tol", "device_name",
    "threads",
)  # fmt: skip
#: Most methods that a headline compares with the fastest.
_RIVALS = 2
#: Ratio of work from which it is said as a multiple, not in percent.
_TWICE = 2.0


@dataclass(frozen=True)
class SeedStanding:
    """Runs of one method with several seeds.

    Args:
        runs: Its runs, one or several for each seed.
        seconds, work: Medians over the runs that converged; NaN if none did.
        residual, test_rmse: Medians over all runs.
        converged: Number of runs that converged.
        is_compared: Whether it has runs with all seeds, on the compared system.
    """

    name: str
    runs: tuple[Trace, ...]
    seconds: float
    work: float
    residual: float
    test_rmse: float
    converged: int
    is_compared: bool

    @property
    def always_converged(self) -> bool:
        """Whether every run converged."""
        return self.converged == len(self.runs)


@dataclass(frozen=True)
class SeedVerdict:
    """Verdict over seeds in words, and methods: those that always converged by median seconds, then the others."""

    standings: tuple[SeedStanding, ...]
    headline: str
    others: str


def groups_over_seeds(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Group runs that differ only in the seed; return nothing if no group has two seeds."""
    groups = but_for_the_seed(trace for trace in traces if "epoch" in trace)
    return groups if any(len(_seeds(runs)) > 1 for runs in groups) else []


def judge_over_seeds(groups: Sequence[Sequence[Trace]], names: Sequence[str]) -> SeedVerdict:
    """Compare methods by their medians over the same seeds; groups as `groups_over_seeds` returns them, with names."""
    systems: dict[str, list[int]] = {}
    for place, runs in enumerate(groups):
        systems.setdefault(repr([runs[0].attrs.get(key) for key in _SYSTEM]), []).append(place)
    chosen = max(systems.values(), key=lambda places: sum(len(groups[place]) for place in places))
    seeds = max((_seeds(groups[place]) for place in chosen), key=len)
    table = group_table(groups)
    standings = [
        SeedStanding(
            name, tuple(runs), float(row["seconds"]), float(row["work"]), float(row["residual"]),
            float(row["test_rmse"]), int(row["converged"]), place in chosen and _seeds(runs) == seeds,
        )
        for place, (name, runs, (_, row)) in enumerate(zip(names, groups, table.iterrows(), strict=True))
    ]  # fmt: skip
    standings.sort(key=lambda each: (not each.is_compared, not each.always_converged, each.seconds, each.residual))
    judged = [each for each in standings if each.is_compared]
    rivals = [each for each in judged[1:] if each.always_converged][:_RIVALS] if judged[0].always_converged else []
    headline = _headline(judged[0], rivals, len(seeds))
    return SeedVerdict(tuple(standings), headline, _others(standings, [judged[0], *rivals] if rivals else []))


def _seeds(runs: Sequence[Trace]) -> set[object]:
    return {trace.attrs.get("seed") for trace in runs}


def _seconds(runs: Sequence[Trace]) -> dict[object, float]:
    """Return the seconds of a method by seed; of several runs with one seed, their median."""
    return {
        seed: float(np.median([float(run["epoch"]["seconds"][-1]) for run in runs if run.attrs.get("seed") == seed]))
        for seed in _seeds(runs)
    }


def _headline(best: SeedStanding, rivals: Sequence[SeedStanding], seeds: int) -> str:
    if not best.always_converged:
        return f"Over {seeds} seeds, no method converged every time."
    said = f"Over {seeds} seeds, {best.name} solved it in {time_words(best.seconds)} (median)"
    return sentences([said, *(_compared(each, best) for each in rivals)])


def _compared(rival: SeedStanding, best: SeedStanding) -> str:
    """Compare medians, and count the seeds with which the rival was slower: a small difference may be chance."""
    theirs, ours = _seconds(rival.runs), _seconds(best.runs)
    slower = sum(theirs[seed] > ours[seed] for seed in ours)
    return (
        f"{compared(rival.name, rival.seconds, best.seconds)} (slower on {slower} of {len(ours)} seeds) and "
        f"{_work(rival.work, best.work)}"
    )


def _work(work: float, least: float) -> str:
    ratio = work / least if least > 0 else 1.0
    if ratio >= _TWICE:
        return f"{ratio:{'.2g' if ratio < 10 else ',.0f'}} times the work"
    percent = round(100 * (ratio - 1))
    return f"{abs(percent)}% {'more' if percent > 0 else 'less'} work" if percent else "the same work"


def _others(standings: Sequence[SeedStanding], named: Sequence[SeedStanding]) -> str:
    said = []
    if named:
        ranges = [sorted(_seconds(each.runs).values()) for each in named]
        words = [f"{time_words(each[0]).removesuffix(' s')} to {time_words(each[-1])}" for each in ranges]
        said.append(f"Range over seeds: {', against '.join(words)}")
    said += made_apart([trace for each in named for trace in each.runs])
    failed = [each for each in standings if each.is_compared and not each.always_converged]
    said += [f"{each.name} converged in {each.converged} of {len(each.runs)} runs" for each in failed[:_RIVALS]]
    if len(failed) > _RIVALS:
        said.append(f"{len(failed) - _RIVALS} other methods did not always converge")
    return " ".join(f"{each}." for each in [*said, *_left_out([each for each in standings if not each.is_compared])])


def _left_out(standings: Sequence[SeedStanding]) -> list[str]:
    """Return a sentence on the runs that the headline does not compare; none if it compares all."""
    if not (count := sum(len(each.runs) for each in standings)):
        return []
    have, are = ("has", "is") if count == 1 else ("have", "are")
    what = "only one seed" if all(len(_seeds(each.runs)) == 1 for each in standings) else "other seeds or settings"
    return [f"{count} run{'s' * (count > 1)} {have} {what} and {are} left out of the headline"]
