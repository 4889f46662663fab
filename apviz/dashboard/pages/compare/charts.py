"""Charts of the page Compare, their tables, and sentences on their contents."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from apviz import plots
from apviz.analysis.seed_verdict import groups_over_seeds
from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.components.solve_cards import error_card, named, norms_card, rmse_figure, timeline_card
from apviz.dashboard.pages.compare.answer import curve_styles
from apviz.dashboard.pages.compare.highlight import SIZE, SIZE_LECTURE, highlight, log_x
from apviz.plots._axes import X, without_buttons
from apviz.plots._labels import legend_entry, run_names
from apviz.plots._style import ThemeName
from apviz.tracing import Trace
from apviz.tracing.trace import is_estimate

#: Texts of the first chart before it has a curve.
NOTHING_YET = "Nothing has run yet. Choose data and methods above, then press Run."
SOLVING = "Solving; the first curve appears in a moment."
#: Charts of the selected run only; the others are of all runs.
OF_ONE_RUN = ("timeline", "blocks")
#: Charts of all runs that grow with the running one.
GROWING = ("residuals", "rmse", "theory")
#: Pixels above the axes of the first chart, for plotly's buttons.
_TOP = 34
#: Pixels below the first chart, for its notes and the first rows of the table; on a projector for the best row.
BELOW, BELOW_LECTURE = 190, 216
#: Called with the runs in a chart and the looks of their curves.
StandingOut = Callable[[Sequence[Trace], list[list[str]]], Collection[int] | None]
InOrder = Callable[[Sequence[Trace]], Sequence[Trace]]


def compare_cards(
    x: Callable[[], X], is_log: Callable[[], bool], standing_out: StandingOut, in_order: InOrder, *, lecture: bool
) -> dict[str, ChartCard]:
    """Return the cards of the page by name, in their order.

    Args:
        x: Function that returns the current unit of the curves' x axis.
        is_log: Function that returns whether that axis is logarithmic.
        standing_out: Called with the runs in the first chart and the looks of their curves. It returns the places of
            those that stand out; None if all do, without names.
        in_order: Called with the runs of a chart that has a row for each; it returns them in the order of the table.
    """

    def scaled(figure: go.Figure) -> go.Figure:
        figure = without_buttons(figure)
        return log_x(figure) if is_log() else figure

    curves: dict[str, Any] = {"x_unit": x, "lecture": lecture}
    return {
        "residuals": _residuals_card(x, scaled, standing_out, curves),
        **_cards_of_curves(x, scaled, curves),
        **_other_cards(in_order, lecture),
    }


def _residuals_card(
    x: Callable[[], X], scaled: Callable[[go.Figure], go.Figure], standing_out: StandingOut, curves: dict[str, Any]
) -> ChartCard:
    """Return the first card, which fills the window."""
    lecture = curves["lecture"]

    def residuals(traces: Sequence[Trace], theme: ThemeName) -> go.Figure:
        if groups_over_seeds(traces):
            return scaled(plots.grouped_curves(traces, x=x(), theme=theme))
        figure = scaled(plots.residuals(traces, x=x(), theme=theme))
        styles = curve_styles(figure)
        # with many runs, the legend lists methods
        if len(styles) != len(traces):
            return figure
        # a residual begins at 1, which a logarithmic time axis does not show
        figure.layout.yaxis.autorangeoptions.include = [1.0]
        # the verdict is the title on the page; a downloaded picture has the figure's own
        own = {"title": figure.layout.title.to_plotly_json(), "top": figure.layout.margin.t}
        figure.update_layout(showlegend=False, title_text="", margin_t=_TOP, meta=own)
        places = standing_out(traces, styles)
        if places is None:
            return figure
        named = list(zip(run_names(traces), traces, strict=True))
        labels = {legend_entry(*named[at]): short_label(named[at][0]) for at in places}
        # on a phone a legend names the others
        figure.layout.meta = own | {"behind": [entry for each in named if (entry := legend_entry(*each)) not in labels]}
        return highlight(figure, labels, theme, SIZE_LECTURE if lecture else SIZE)

    return ChartCard(
        "Residual", "Cross: not converged. Open diamond: checked on all rows. Work 1: every kernel entry once. "
        "Point at a grey curve for its name. AP: alternating projection.", residuals,
        empty=NOTHING_YET,
        fits=BELOW_LECTURE if lecture else BELOW, **curves,
    )  # fmt: skip


def short_label(name: str) -> str:
    """Return the name of a run where space is short; the caption of the first chart explains AP."""
    return name.replace("Alternating projection", "AP")


def _cards_of_curves(
    x: Callable[[], X], scaled: Callable[[go.Figure], go.Figure], curves: dict[str, Any]
) -> dict[str, ChartCard]:
    """Return the other cards with a curve for each run."""

    def k_norm_error(traces: Sequence[Trace], theme: ThemeName) -> go.Figure:
        figure = plots.k_norm_error(traces, x=x(), theme=theme)
        # the first chart and the table name the runs
        figure.update_traces(showlegend=False, selector=lambda each: each.legendgroup)
        # names of bounds, which a phone would cut
        figure.for_each_trace(
            lambda each: each.update(name=short_label(each.name)),
            selector=lambda each: each.name and not each.legendgroup,
        )
        return scaled(figure)

    return {
        "rmse": ChartCard(
            "Test error and residual",
            "Where the upper curve is flat, solving longer no longer improves the predictions. A star marks where this "
            "begins in a converged run.",
            lambda traces, theme: scaled(rmse_figure(traces, x(), theme)),
            takes=lambda trace: bool(trace["epoch"]["test_rmse"].notnull().any()),
            axes=420,
            **curves,
        ),
        "theory": error_card(k_norm_error, curves),
    }


def _other_cards(in_order: InOrder, lecture: bool) -> dict[str, ChartCard]:
    """Return the cards without curves over work or time, in their order on the page."""

    def kappas(traces: Sequence[Trace], theme: ThemeName) -> go.Figure:
        figure = plots.condition_numbers(in_order(traces), theme=theme)
        # names of rows, which a phone would cut
        figure.for_each_annotation(lambda each: each.update(text=short_label(each.text)))
        return figure

    return {
        "kappas": ChartCard(
            "κ and κ′", "The bound of CG depends on κ, that of Theorem 1 (Wu et al., AISTATS 2024) on κ′; either may "
            "be loose. ≈ is an estimate, and a dotted line leads to the bound that is certain.",
            kappas, takes=has_kappa,
            table=kappas_table, sentence=kappa_sentence, lecture=lecture,
        ),
        "timeline": timeline_card("One mark per update of the selected run; the colour: energy removed.", lecture),
        "blocks": norms_card("Residual norm of every block after every epoch of the selected run.", lecture),
    }  # fmt: skip


def has_kappa(trace: Trace) -> bool:
    """Test whether κ is known, which requires a kernel of apviz."""
    return "spectrum" in trace and math.isfinite(trace["spectrum"]["kappa"])


def kappas_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return a table of κ and κ′, with the method of each, and whether it is an estimate."""
    rows = []
    for name, trace in named(traces):
        spectrum = trace["spectrum"]
        for which in ("kappa", "kappa_prime"):
            value = spectrum[which]
            known = {"value": float(value), "is_estimate": is_estimate(value), "how": value.attrs.get("how", "")}
            rows.append({"run": name, "number": which} | known)
    return pd.DataFrame(rows)


def kappa_sentence(trace: Trace) -> str:
    """Return a sentence on the condition numbers of a run."""
    known = [each for each in ("kappa", "kappa_prime") if math.isfinite(trace["spectrum"][each])]
    return f"{trace.method_name}: {' and '.join(trace.condition(each) for each in known)}"
