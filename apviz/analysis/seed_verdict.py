"""Verdict on runs that were repeated with several seeds: methods are compared by medians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apviz.analysis.ensembles import but_for_the_seed, group_table
from apviz.analysis.verdict import compared, sentences, time_words
from apviz.tracing import Trace

#: Root attributes that define a system except for its seed.
_SYSTEM = ("dataset", "n", "right_hand_sides", "kernel", "lengthscale", "outputscale", "noise", "dtype", "tol")
#: Most methods that a headline compares with the fastest.
_RIVALS = 2


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
    return SeedVerdict(tuple(standings), _headline(judged, len(seeds)), _others(standings))


def _seeds(runs: Sequence[Trace]) -> set[object]:
    return {trace.attrs.get("seed") for trace in runs}


def _headline(judged: Sequence[SeedStanding], seeds: int) -> str:
    best, *others = judged
    if not best.always_converged:
        return f"Over {seeds} seeds, no method converged every time."
    rivals = [each for each in others if each.always_converged][:_RIVALS]
    said = f"Over {seeds} seeds, {best.name} solved it in {time_words(best.seconds)} (median)"
    return sentences([said, *(compared(each.name, each.seconds, best.seconds) for each in rivals)])


def _others(standings: Sequence[SeedStanding]) -> str:
    failed = [each for each in standings if each.is_compared and not each.always_converged]
    said = [f"{each.name} converged in {each.converged} of {len(each.runs)} runs" for each in failed[:_RIVALS]]
    if len(failed) > _RIVALS:
        said.append(f"{len(failed) - _RIVALS} other methods did not always converge")
    if left := sum(len(each.runs) for each in standings if not each.is_compared):
        said.append(f"{left} run{'s' if left > 1 else ''} with other seeds or settings not compared")
    return " ".join(f"{each}." for each in said)
