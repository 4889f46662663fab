"""Which runs can be looked at together: not more than one chart holds, and none whose name breaks the address."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from apviz.dashboard.runs.folder_table import MOST_RUNS


def chosen_of(ticked: Sequence[str], before: Sequence[str], in_table: Collection[str]) -> tuple[list[str], str]:
    """The runs that are chosen now, those from before first; and why not all that are ticked, empty if they are.

    Args:
        before: chosen so far; of these, the filter may have left some out of the table: they stay.
        in_table: the runs that could be ticked.
    """
    kept = [name for name in before if name in ticked or name not in in_table]
    chosen, problem = [*kept, *(name for name in ticked if name not in kept)], ""
    with_comma = [name for name in chosen if "," in name]
    if with_comma:
        problem = (
            f"{with_comma[0]} has a comma in its name, which separates runs in the address: click its row and give it "
            "another name first"
        )
        chosen = [name for name in chosen if name not in with_comma]
    if len(chosen) > MOST_RUNS:
        problem = f"{len(chosen)} runs are too many for one chart; up to {MOST_RUNS} can be chosen"
    return chosen[:MOST_RUNS], problem
