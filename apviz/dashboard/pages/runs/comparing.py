"""Chosen runs side by side: their curves, one by one or in groups, profiles and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui
import plotly.graph_objects as go

from apviz import plots
from apviz.analysis.ensembles import group_table, performance_profile, varied
from apviz.analysis.seed_verdict import groups_over_seeds, judge_over_seeds
from apviz.analysis.sweeps import settings_table
from apviz.dashboard.components.chart_card import ChartCard, steps_table
from apviz.dashboard.components.cursor import clicked_epoch
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.solve_cards import names_over_seeds, rmse_figure
from apviz.dashboard.components.tables import plain_table
from apviz.dashboard.components.text import escape
from apviz.dashboard.pages.base import HALF
from apviz.dashboard.pages.runs.viewing import RunsView
from apviz.dashboard.store.run_entry import has_steps, is_solve, solves_of
from apviz.plots._axes import without_buttons
from apviz.plots._labels import legend_entry, run_names
from apviz.plots._style import ThemeName
from apviz.plots.models.training import entry_of
from apviz.tracing import Trace

#: Number of runs whose settings are shown side by side; of more, a line each has the settings that differ.
SETTINGS_OF = 12


class RunComparison:
    """Chosen runs side by side: their curves, and the settings in which they differ.

    Runs that differ only in the seed are groups: one curve and one row each, and a verdict by their medians.

    Args:
        select: Called with the name of a run whose curve is clicked.
    """

    def __init__(self, choice: RunsView, select: Callable[[str], None], *, lecture: bool) -> None:
        self._choice, self._select = choice, select
        self._traces: dict[str, Trace] = {}
        self.cards = _cards(choice, self._is_hidden, lecture=lecture)
        for card in self.cards.values():
            card.view.styles = HALF
        self.cards["residuals"].chart.param.watch(lambda event: self._clicked(event.new), "clicked")
        self.groups = pn.Column(sizing_mode="stretch_width", visible=False)
        self.settings = pn.Column(sizing_mode="stretch_width")
        choice.param.watch(lambda event: self._show_settings(), ["differences"])
        choice.param.watch(lambda event: self._show_groups(), ["group"])
        self.progress = server_owned(pmui.Typography("", variant="body2", margin=(8, 12), visible=False))
        look = {"size": "small", "margin": (0, 12)}
        #: Switch that is shown if there are groups.
        self._group = server_owned(pmui.Switch.from_param(choice.param.group, margin=(0, 12)), editable=["value"])
        self._controls = pn.FlexBox(
            pmui.RadioButtonGroup.from_param(choice.param.x, label="x axis of the curves", **look), self._group,
            align_items="center", sizing_mode="stretch_width",
        )  # fmt: skip
        self._everything = pn.Column(
            self._controls, self.groups,
            pn.FlexBox(*(card.view for card in self.cards.values()), sizing_mode="stretch_width"),
            pmui.Paper(
                pmui.Typography("Settings", variant="h6", margin=(8, 12, 0, 12)),
                pmui.Switch.from_param(choice.param.differences, margin=(0, 12)), self.settings,
                sizing_mode="stretch_width", margin=8, elevation=1,
            ),
            sizing_mode="stretch_width", visible=False,
        )  # fmt: skip
        self.view = pn.Column(self.progress, self._everything, sizing_mode="stretch_width")

    def show(self, traces: Mapping[str, Trace]) -> None:
        """Show everything except the charts, which are drawn later in turn."""
        self._traces, solves = dict(traces), solves_of(traces)
        several = list(solves.values())
        self.cards["residuals"].view.visible = bool(solves)
        self.cards["rmse"].view.visible = any(map(has_rmse, several))
        self.cards["profiles"].view.visible = has_profile(several)
        self.cards["training"].view.visible = any(map(has_steps, traces.values()))
        self._everything.visible = bool(traces)
        self._show_settings()
        self._show_groups()

    def _is_hidden(self, trace: Trace) -> bool:
        """Test whether a run is hidden: it has no curve of its own, but groups and profiles still count it."""
        return any(self._traces.get(name) is trace for name in self._choice.hidden)

    def say_progress(self, opened: int, wanted: int) -> None:
        """Show how many traces are open, until all are."""
        self.progress.param.update(object=f"Opening runs: {opened} of {wanted}", visible=opened < wanted)

    def _clicked(self, point: dict[str, Any]) -> None:
        """Select the run whose curve was clicked."""
        hit = clicked_epoch(self.cards["residuals"].drawn, point)
        if hit is not None:
            self._select_trace(hit[0])

    def _select_trace(self, trace: Trace) -> None:
        name = next((name for name, each in self._traces.items() if each is trace), None)
        if name is not None:
            self._select(name)

    def _show_groups(self) -> None:
        """Say which method was best over the seeds, above the medians of all; nothing without several seeds."""
        groups = groups_over_seeds(list(solves_of(self._traces).values()))
        self._group.visible = bool(groups)
        self.groups.visible = self._choice.group and bool(groups)
        if self.groups.visible:
            names = names_over_seeds(groups)
            table = plain_table(groups_table(groups, names), index=False, max_height=460, margin=(0, 12, 8, 12))
            said = judge_over_seeds(groups, names).headline
            words = "Medians over seeds; work and seconds of the runs that converged. RMSE as in the chart."
            self.groups[:] = [
                pmui.Typography(escape(said), variant="h6", margin=(8, 12, 0, 12)),
                pmui.Typography(words, variant="body2", margin=(0, 12)), table,
            ]  # fmt: skip

    def _show_settings(self) -> None:
        traces = {name: trace for name, trace in self._traces.items() if not self._is_hidden(trace)}
        if len(traces) > SETTINGS_OF:
            solves = solves_of(traces)
            table = varied(list(solves.values())).set_axis(list(solves), axis=0)
            look = {"float_format": "{:.3g}".format, "max_height": 480, "margin": (0, 12, 8, 12)}
            self.settings[:] = [plain_table(table, **look)]
            return
        rows = settings_table(list(traces.values()), only_differences=self._choice.differences and len(traces) > 1)
        if not rows:
            words = "These runs do not differ in any setting." if traces else "No run is chosen."
            self.settings[:] = [pmui.Typography(words, margin=(0, 12, 8, 12))]
            return
        table = pd.DataFrame.from_dict(rows, orient="index", columns=list(traces))
        self.settings[:] = [plain_table(table, max_height=480, margin=(0, 12, 8, 12))]


def _cards(choice: RunsView, is_hidden: Callable[[Trace], bool], *, lecture: bool) -> dict[str, ChartCard]:
    """Return the cards of the page by name, in their order; the settings of curves are read when they are drawn."""

    def visible(figure: go.Figure, traces: Sequence[Trace]) -> go.Figure:
        """Remove the curves of hidden runs; the others keep their colours and names."""
        entries = {
            entry_of(name, trace) if has_steps(trace) else legend_entry(name, trace)
            for name, trace in zip(run_names(traces), traces, strict=True)
            if is_hidden(trace)
        }
        figure.data = [curve for curve in figure.data if curve.legendgroup not in entries]
        return figure

    def residuals(traces: Sequence[Trace], theme: ThemeName) -> go.Figure:
        if choice.group and groups_over_seeds(traces):
            return plots.grouped_curves(traces, x=choice.x, theme=theme)
        return visible(without_buttons(plots.residuals(traces, x=choice.x, theme=theme)), traces)

    def rmse(traces: Sequence[Trace], theme: ThemeName) -> go.Figure:
        if choice.group and groups_over_seeds(traces):
            return plots.grouped_curves(traces, y="test_rmse", x=choice.x, theme=theme)
        return visible(without_buttons(rmse_figure(traces, choice.x, theme)), traces)

    return {
        "residuals": ChartCard(
            "Residual", "Lower is better. The thin line is the tolerance; a cross ends a run that did not converge, "
            "an open circle one that was interrupted or still runs.",
            residuals, takes=is_solve, axes=380, lecture=lecture,
        ),
        "rmse": ChartCard(
            "Test error", "Lower is better. Where the upper curve is flat, solving longer no longer helps.",
            rmse, takes=has_rmse, axes=380, lecture=lecture,
        ),
        "profiles": ChartCard(
            "Performance profile",
            "Higher is better: the share of systems that a method solves with at most this multiple of the work, or "
            "the time, of the best method on each.",
            lambda traces, theme: plots.performance_profiles(traces, theme=theme), takes=is_solve,
            table=performance_profile, axes=380, lecture=lecture,
        ),
        "training": ChartCard(
            "Trainings", "The noise and what each step's solve took, by step.",
            lambda traces, theme: visible(plots.training(traces, theme=theme), traces),
            takes=has_steps, table=steps_table, axes=520, lecture=lecture,
        ),
    }  # fmt: skip


def has_rmse(trace: Trace) -> bool:
    """Test whether a trace is of a solve with a test RMSE."""
    return is_solve(trace) and bool(trace["epoch"]["test_rmse"].notnull().any())


def has_profile(traces: Sequence[Trace]) -> bool:
    """Test whether at least two methods have runs on the same systems, and on at least two."""
    try:
        profile = performance_profile(traces)
    except ValueError:
        return False
    return profile["method"].nunique() > 1 and profile.attrs["systems"] > 1


def groups_table(groups: Sequence[Sequence[Trace]], names: Sequence[str]) -> pd.DataFrame:
    """Return a table of groups that differ only in the seed, with the names used in charts."""
    table = group_table(groups)
    table.insert(0, "group", names)
    form = {"work": "{:.3g}", "seconds": "{:.3g}", "residual": "{:.2e}", "test_rmse": "{:.4g}"}
    for column, shown in form.items():
        table[column] = ["–" if pd.isna(value) else shown.format(value) for value in table[column]]
    return table.rename(columns={"test_rmse": "test RMSE"})
