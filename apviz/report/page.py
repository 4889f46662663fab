"""Report of a comparison: one self-contained HTML page, from traces alone."""

from __future__ import annotations

import html
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, get_args

import numpy as np

from apviz import plots
from apviz.analysis.sweeps import system_key
from apviz.analysis.verdict import Verdict, judge
from apviz.methods import choices_in_words
from apviz.places import P, Place, place_of
from apviz.plots._labels import full_names, run_names
from apviz.plots._style import ThemeName, looks
from apviz.report.rendering import Draw, Figure, embedded, write_page
from apviz.report.table import ENDING, HEADINGS, METHOD, MINOR, Row, table_row, table_rows
from apviz.tracing import Trace, TrainingTrace, open_trace
from apviz.tracing.opening import check_complete

#: Most residuals in all pictures of a section, for a page of at most 3 MB; each takes 2.5 bytes.
PICTURED_VALUES: Final = 200_000


@dataclass(frozen=True)
class Section:
    """Runs of one system: verdict, first chart, table, and further charts.

    Attributes:
        rows: Rows of the table, the best run first.
        prepared: Preparation of a user's own table, and oddities of the data, one sentence each.
        chosen: Choice of `auto` for a run, with the reason.
    """

    title: str
    verdict: Verdict
    facts: dict[str, str]
    prepared: list[str]
    chosen: dict[str, str]
    first: Figure
    rows: list[Row]
    swatches: list[Swatch]
    figures: list[Figure]
    earlier: int


class Swatch(NamedTuple):
    """Line of a run in the charts: its colours in both themes, and its dash in CSS."""

    light: str
    dark: str
    dash: str


def find_traces(folder: str | Place) -> list[Trace]:
    """Return the traces of solves in a folder, or below a URL (`*.zarr`), oldest first.

    A trace that cannot be read is left out with a warning.

    Raises:
        FileNotFoundError: No such folder, or no readable trace of a solve in it.
    """
    folder = place_of(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder; give the one that `apviz compare --out` wrote to")
    paths: list[Place] = [*folder.glob("*.zarr")]
    if not paths:
        raise FileNotFoundError(f"there is no trace (*.zarr) in {folder}; `apviz compare --out {folder}` writes some")
    traces, problems = list[Trace](), list[str]()
    for path in sorted(paths, key=str):
        try:
            trace = open_trace(path)
            if not isinstance(trace, TrainingTrace):
                check_complete(trace)
                # fields that the terminal and the page need from every trace
                table_row(trace), system_key(trace.attrs)
                traces.append(trace)
        except Exception as error:  # any kind of error: one invalid file must not hide the others
            problems.append(f"{path.name} is left out because it cannot be read: {_reason(error)}")
    for problem in problems:
        warnings.warn(problem, stacklevel=2)
    if problems and not traces:
        raise FileNotFoundError(
            f"there is no trace of a solve in {folder} that can be read; `apviz compare --out {folder}` writes some"
        )
    return sorted(traces, key=lambda trace: trace.attrs["created"])


def write_report(traces: Sequence[Trace], path: P) -> P:
    """Write the page: a table and the charts of every system among the traces.

    A trace that cannot be drawn is left out with a warning, unless no other remains.
    """
    return write_page(
        path,
        "comparison.html.jinja",
        sections=_sections(traces),
        headings=HEADINGS,
        texts=(METHOD, ENDING),
        ending=ENDING,
        minor=MINOR,
    )


def _reason(error: Exception) -> str:
    """Return the message of an error, with its kind if it was unexpected."""
    is_foreseen = (type(error) is ValueError or isinstance(error, OSError)) and str(error)
    return str(error) if is_foreseen else f"{type(error).__name__} {error}".rstrip()


def _sections(traces: Sequence[Trace]) -> list[Section]:
    found, errors = list[Section](), list[Exception]()
    for group in _by_system(traces):
        try:
            found.append(_section(group))
            continue
        except Exception as error:
            errors.append(error)
        alone = dict[int, Section]()
        for number, trace in enumerate(group):
            try:
                alone[number] = _section([trace])
            except Exception as error:
                warnings.warn(
                    f"{trace.method_name} is left out because it cannot be drawn: {_reason(error)}", stacklevel=3
                )
        try:
            found += [_section([group[number] for number in alone])] if alone else []
        except Exception:  # only together do they fail
            found += alone.values()
    if errors and not found:
        raise errors[0]
    return found


def _by_system(traces: Sequence[Trace]) -> list[list[Trace]]:
    groups: dict[str, list[Trace]] = {}
    for trace in traces:
        groups.setdefault(system_key(trace.attrs), []).append(trace)
    return list(groups.values())


def _section(traces: Sequence[Trace]) -> Section:
    # of runs with the same settings the latest is drawn
    latest = {(t.method, t.attrs["solver_settings"], t.attrs["dtype"], t.attrs["device"]): t for t in traces}
    drawn = list(latest.values())
    a = drawn[-1].attrs
    scales = ", ".join(f"{value:.3g}" for value in a["lengthscale"])
    facts = {
        "data": a["dataset"] or "unnamed",
        "training rows n": f"{a['n']:,}",
        "inputs d": str(a["d"]),
        "right-hand sides": str(a["right_hand_sides"]),
        "kernel": a["kernel"],
        **({"lengthscale": scales, "outputscale": f"{a['outputscale']:.4g}"} if scales else {}),
        "noise σ²": drawn[-1].noise_in_words(4),
        "κ of K": _estimate(drawn[-1], "kappa"),
        "tolerance": f"{a['tol']:g}" if "tol" in a else "–",
        "precision": a["dtype"],
        "operator": a["engine"],
        "machine": f"{a['device_name']}, {a['threads']} threads",
    }
    verdict = judge(drawn, full_names(drawn))
    # the names distinguish the runs in the order of the charts
    ordered = _best_first(drawn, verdict)
    every_row, every_swatch = table_rows(drawn), _swatches(drawn)
    rows, swatches = [every_row[place] for place in ordered], [every_swatch[place] for place in ordered]
    names = [html.unescape(name) for name in run_names(drawn)]
    choices = {name: json.loads(trace.attrs.get("choices", "{}")) for name, trace in zip(names, drawn, strict=True)}
    chosen = {run: "; ".join(choices_in_words(whys)) for run, whys in choices.items() if whys}
    title = f"{a['dataset'] or 'unnamed data'}: n = {a['n']:,}, d = {a['d']}"
    # the notes of a table include its oddities, with names of columns
    said = drawn[-1].preparation.get("notes", drawn[-1].oddities)
    first, *others = _figures(drawn)
    earlier = len(traces) - len(drawn)
    return Section(title, verdict, facts, said, chosen, first, rows, swatches, others, earlier)


def _best_first(traces: Sequence[Trace], verdict: Verdict) -> list[int]:
    """Return the places of the runs in the order of the verdict; runs that it leaves out come last."""
    place = {id(trace): number for number, trace in enumerate(traces)}
    ranked = [place[id(standing.trace)] for standing in verdict.standings]
    return [*ranked, *(number for number in range(len(traces)) if number not in ranked)]


def _swatches(traces: Sequence[Trace]) -> list[Swatch]:
    dashes = {"solid": "solid", "dot": "dotted"}
    light, dark = (looks([trace.method for trace in traces], theme) for theme in get_args(ThemeName))
    return [Swatch(a.color, b.color, dashes.get(a.dash, "dashed")) for a, b in zip(light, dark, strict=True)]


def _estimate(trace: Trace, name: str) -> str:
    # the heading says κ
    number = trace.condition(name).split(" ", 1)[1].removeprefix("= ")
    return f"{number} ({trace['spectrum'][name].attrs['how']})"


def _figures(traces: Sequence[Trace]) -> list[Figure]:
    drawn = [*_of_errors(traces), *_of_blocks(traces), *_of_passes(traces)]
    return [embedded(title, words, draw, has_legend=number > 0) for number, (title, words, draw) in enumerate(drawn)]


#: Title, explanation, and a function that draws the figure in a theme.
_Drawn = tuple[str, str, Draw]


def _of_errors(traces: Sequence[Trace]) -> Iterator[_Drawn]:
    """Yield the figures on the error of each run: residual, test error, K-norm error, eigenvalues."""
    yield (
        "Residual",
        "Lower is better; the thin line is the tolerance. Work counts kernel entries and includes set-up, so it is "
        "the fair axis; the buttons switch to epochs and seconds. A cross ends a run that did not converge.",
        partial(plots.residuals, traces),
    )
    if any(t["epoch"]["test_rmse"].notnull().any() for t in traces):
        yield (
            "Test error and residual",
            "Where the upper curve is flat, solving longer no longer improves the predictions. The unit is that of the "
            "target as solved: its standard deviation, for data sets and files that apviz loads.",
            partial(plots.test_rmse, traces),
        )
    yield (
        "Error in the K-norm, and theory's bound",
        "The error follows from recorded energies; the band is what the last residual leaves uncertain. Dotted: "
        "theory, in exact arithmetic. In float32, or where far blocks are approximated, the error is known only where "
        "the residual is computed from all rows.",
        partial(plots.k_norm_error, traces),
    )
    if any("eigenvalues" in t for t in traces):
        yield (
            "Eigenvalues",
            "CG converges faster the closer together the eigenvalues are. A preconditioner P replaces the eigenvalues "
            "of K by those of P⁻¹K. κ is the largest eigenvalue divided by the smallest.",
            partial(plots.eigenvalues, traces),
        )


def _of_blocks(traces: Sequence[Trace]) -> Iterator[_Drawn]:
    """Yield the figures on blocks: their sizes, their order, their residuals."""
    blocks = [t for t in traces if "block" in t and len(t["epoch"]["epoch"]) > 1]
    rule = [t for t in blocks if t.method.rule == "gauss-southwell" and not t.method.overlap]
    if len({t.method.block_size for t in rule}) > 1:
        yield (
            "Block size",
            "Smaller blocks need fewer epochs, but more updates one after another (paper, Figure 3).",
            partial(plots.batch_sizes, rule),
        )
    coloured = [t for t in traces if t.parts == "colour" and "update" in t]
    for trace in coloured[:1]:
        yield (
            "Which colour, when",
            "One mark an update, of far-apart blocks at once; the colour is the energy it removed, an estimate.",
            partial(plots.block_timeline, trace),
        )
    for trace in rule[:1] or blocks[:1]:
        yield (
            "Which block, when",
            "One mark per update; the colour is the energy it removed.",
            partial(plots.block_timeline, trace),
        )
        yield (
            "Where the residual is",
            "Residual norm of every block after every epoch.",
            partial(plots.block_norms, trace),
        )
    pictured = [trace for trace in traces if _has_picture(trace)]
    for trace in pictured:
        yield (
            f"The residual as a picture: {trace.method_name}",
            "The residual of the targets after each recorded update: play, or drag the slider.",
            partial(plots.residual_image, trace, compared_with=pictured, values=PICTURED_VALUES // len(pictured)),
        )


def _of_passes(traces: Sequence[Trace]) -> Iterator[_Drawn]:
    """Yield the figures on the difference between the recursion and B − KW."""
    refined = [t for t in traces if "pass" in t]
    if refined:
        yield (
            "The recursion against B − KW",
            "The line is the residual that the cheap recursion claims. A large mark is a pass: B − KW evaluated on all "
            "rows. Only a float64 pass, filled, may say that a run converged.",
            partial(plots.passes, refined),
        )


def _has_picture(trace: Trace) -> bool:
    if trace.attrs["d"] != 2 or "rows" not in trace or "snapshot" not in trace:
        return False
    return bool(np.isfinite(trace["snapshot"]["residual"].values).all(axis=1).any())
