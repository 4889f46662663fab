"""Base of the pages that sweep one setting: the runs of the sweep as they complete, and the diagnosis of one."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz.analysis.sweeps import Over, method_of, slowest, swept, system_of
from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.tables import RunsTable
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.pages.base import HALF, Shared, SolvingPage
from apviz.dashboard.settings.systems import SystemSpec
from apviz.dashboard.store.examples import PREFIX, examples_in_words
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.method import Method
from apviz.solvers import Solver
from apviz.tracing import Trace
from apviz.tracing.opening import attributes_of
from apviz.tracing.schema import TRAINING


class SweepView(param.Parameterized):
    """Settings of the selection."""

    runs = param.List([], item_type=str, label="runs that are shown")
    selected = param.String("", label="the run that is diagnosed; empty for the slowest")


#: Most runs in one set of charts.
MAX_RUNS = 60


class SweepPage(SolvingPage):
    """Page around one sweep, with a chart called `sweep`."""

    solving: ClassVar[str] = "a sweep"
    #: Swept setting.
    over: ClassVar[Over]
    #: Charts that include the running run.
    growing: ClassVar[tuple[str, ...]] = ("sweep",)
    settings_title = "Sweep"

    def __init__(self, shared: Shared, label: str) -> None:
        super().__init__(shared, label=label)
        self.choice = SweepView()
        self.traces: dict[str, Trace] = {}
        self._table = RunsTable(lambda name: self.choice.param.update(selected=name))
        self._remark = server_owned(pmui.Typography("", variant="body2", margin=(4, 12), visible=False))
        self._diagnosis = DiagnosisCard(self.rerun)
        self._cards: dict[str, ChartCard] = self._make_cards()
        self._cards["sweep"].chart.param.watch(lambda event: self._clicked(event.new), "clicked")
        self.choice.param.watch(lambda event: self._changed(), ["runs"])
        self.choice.param.watch(lambda event: self._show_selected(), ["selected"])

    def make_main(self) -> Viewable:
        sweep, aside = self._cards["sweep"].view, self._aside()
        contents = [sweep, self._diagnosis.view]
        if aside:
            sweep.styles = HALF
            others = pn.Column(*aside, self._diagnosis.view, styles=HALF)
            contents = [pn.FlexBox(sweep, others, sizing_mode="stretch_width")]
        return pn.Column(
            self._bar.view, self.notice.view, self._remark, *contents, self._table.view, sizing_mode="stretch_width"
        )

    def shown_runs(self) -> list[Trace]:
        return list(self.traces.values())

    @property
    def shows_examples_only(self) -> bool:
        return all(name.startswith(PREFIX) for name in self.traces)

    def _aside(self) -> list[Viewable]:
        """Return the views next to the sweep, above the diagnosis."""
        return []

    @abstractmethod
    def _make_cards(self) -> dict[str, ChartCard]:
        """Return the cards of the page, by name."""

    @abstractmethod
    def _solvers(self, spec: SystemSpec) -> list[Solver]:
        """Return the solvers of the sweep with the current settings.

        Raises:
            ValueError: Invalid settings.
        """

    def _noise_factors(self) -> list[float]:
        """Return the factors of the noise of the system."""
        return [1.0]

    def open(self) -> None:
        if not self.choice.runs and not self.expects_runs:
            self.choice.runs = newest_sweep(self.shared.runs, self.over, self.shared.system.has)
        self._changed()

    def redraw(self) -> None:
        self._draw_runs()

    def _draw_runs(self) -> None:
        for name in self.growing:
            self.draw_later(card := self._cards[name], lambda card=card: self._draw(card))  # type: ignore[misc]

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        self.show_differences()
        self.draw_next()

    def run(self) -> None:
        """Start the sweep with the current settings."""
        current = self.current(self._solvers)
        if current is not None and self.start(*current, noise_factors=self._noise_factors()):
            self.choice.param.update(runs=[], selected="")

    def _take(self, job: ComparisonJob) -> None:
        """Show new runs of the job, or progress of the running one."""
        new = self.take_runs(job)
        if new:
            self.choice.runs = list(dict.fromkeys([*self.choice.runs, *new]))[-MAX_RUNS:]
        if job.live.trace is not None:
            self._draw_runs()

    # --- selection ------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        self.traces, problems = self.opened(self.choice.runs)
        name = self.choice.selected
        if name and name not in self.traces:
            if name not in self.choice.runs:
                problems.append(f"{name} is not among the runs shown")
            self.choice.selected = ""
        if problems:
            self._bar.refuse("; ".join(problems))
        remark = examples_in_words(self.traces)
        self._remark.param.update(object=remark, visible=bool(remark))
        self._show_selected()
        self._draw_runs()

    def _show_selected(self) -> None:
        trace, which = self.traces.get(self.choice.selected), ""
        if trace is None:
            trace, which = slowest(self.traces.values()), "the slowest run"
        name = next((name for name, each in self.traces.items() if each is trace), "")
        self._table.show(self.traces, name)
        self._diagnosis.show(trace, which, self.traces.values())

    def _clicked(self, point: dict[str, Any]) -> None:
        """Select the run of a clicked point, by the index in the point's first number."""
        values, drawn = point.get("values", []), self._cards["sweep"].drawn
        if not values or int(values[0]) >= len(drawn):
            return
        name = next((name for name, trace in self.traces.items() if trace is drawn[int(values[0])]), None)
        if name is not None:
            self.choice.selected = name

    def _draw(self, card: ChartCard) -> None:
        """Draw all runs again, including the running one, because its point moves and colours follow ranks."""
        live = self.job.live.trace if self.job is not None and self.job.is_active else None
        card.show([*self.traces.values(), *([live] if live is not None else [])], self.shared.theme)


#: Number of newest runs of the folder to search for a sweep.
MAX_SEARCHED = 200


def newest_sweep(runs: RunsFolder, over: Over, has: Callable[[str], bool] = lambda dataset: True) -> list[str]:
    """Return the names of the runs in the newest sweep over a setting in a folder; empty if there is none.

    A sweep has every method with at least two values of the setting, and all seeds. All runs are on the system and the
    machine of the newest such run, and have its epoch limit; examples do not mix with others. Of equal runs the last
    counts, and of more than `MAX_RUNS` runs every second, third, …
    Only root attributes are read, because opening a trace takes ten times as long.

    Args:
        has: Function that returns whether a data set can be chosen; others count if there is no sweep of such.
    """
    found: dict[tuple[bool, str], dict[Method, dict[tuple[float, int], str]]] = {}
    # from the oldest, so that the last of equal runs stays
    for name in reversed(runs.names()[:MAX_SEARCHED]):
        attrs = _attributes(runs.path_of(name))
        if not attrs or attrs.get("kind") == TRAINING or (value := swept(attrs, over)) is None:
            continue
        # seconds of another machine do not compare
        key = f"{system_of(attrs, over)} {_cap(attrs)} {name.startswith(PREFIX)}"
        system = has(str(attrs.get("dataset"))), key
        # the newest system comes last
        found[system] = found.pop(system, {})
        found[system].setdefault(method_of(attrs, over), {})[value, attrs.get("seed") or 0] = name
    newest_first = list(found.items())[::-1]
    for _, methods in sorted(newest_first, key=lambda item: not item[0][0]):
        sweeps = [runs for runs in methods.values() if len({value for value, _ in runs}) > 1]
        if sweeps:
            names = [name for runs in sweeps for _, name in sorted(runs.items())]
            return names[:: math.ceil(len(names) / MAX_RUNS)]
    return []


def _cap(attrs: dict[str, Any]) -> Any:
    """Return the limit on epochs or iterations, which runs of one sweep share and others rarely do."""
    return json.loads(attrs.get("solver_settings", "{}")).get("max_epochs")


def _attributes(path: Path) -> dict[str, Any]:
    """Return the root attributes of a trace; empty if they cannot be read."""
    try:
        return attributes_of(path)
    except (OSError, ValueError):
        return {}
