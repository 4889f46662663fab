"""Names of runs at their curves, in the order of the table of page Compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apviz.dashboard.pages.compare.answer import Answer
from apviz.dashboard.pages.compare.highlight import MOST
from apviz.tracing import Trace


class Curves:
    """What the table says of curves, and the curves say of the table: looks, order, and which ones stand out."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._styles: dict[str, list[str]] = {}

    def show(
        self,
        traces: Sequence[Trace],
        styles: list[list[str]],
        ended: Mapping[str, Trace],
        growing: Mapping[str, Trace],
        pinned: Sequence[str],
    ) -> list[int] | None:
        """Show the looks of the runs' curves in the table, and return the places of those that stand out.

        Args:
            traces, styles: the drawn runs, and the looks of their curves.
            ended, growing: all runs by their names.
            pinned: names of runs whose curves always stand out.

        Returns:
            None while a drawn run is solving: then all stand out.
        """
        names = {id(trace): name for name, trace in {**growing, **ended}.items()}
        drawn = {names[id(trace)]: style for trace, style in zip(traces, styles, strict=True) if id(trace) in names}
        self._styles = {name: style for name, style in self._styles.items() if name in names.values()} | drawn
        self._answer.name_curves(self._styles)
        if any(name not in ended for name in drawn):
            return None
        first = dict.fromkeys([*pinned, *self._answer.named, *self._answer.ordered, *drawn])
        best = [name for name in first if name in drawn][: max(MOST, len(pinned))]
        return [place for place, trace in enumerate(traces) if names.get(id(trace)) in best]

    def in_order(self, traces: Sequence[Trace], ended: Mapping[str, Trace]) -> list[Trace]:
        """Return runs in the order of the table."""
        ordered = [ended[name] for name in self._answer.ordered if name in ended]
        places = {id(trace): place for place, trace in enumerate(ordered)}
        return sorted(traces, key=lambda trace: places.get(id(trace), len(places)))
