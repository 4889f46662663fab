"""Output of an experiment: tables in the terminal, and one page with tables and charts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import rich.table
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape

from apviz.experiments.base import Experiment, Options, Row, Table
from apviz.experiments.measuring import machines
from apviz.experiments.published import PAPER
from apviz.experiments.running import folder_of
from apviz.report.rendering import embedded, write_page

# start of a cell with a number, or with a sign for a missing one
_NUMBER = re.compile(r"[-−–>≥<~∞\d]")
# width of a column of words, if its cells need it
_WORDS = 16


def write_experiment_report(experiment: Experiment, rows: Mapping[str, Row], options: Options) -> Path:
    """Write `report.html` on the completed cells into the experiment's folder; return its path.

    Args:
        rows: Rows by the key of their cell, in order; at least one.
    """
    folder, total = folder_of(experiment, options), len(experiment.cells(options))
    missing = f"{len(rows)} of {total} cells are done; the command at the end of this page runs the others."
    how = {
        "training rows": f"at most {options.n:,} of each data set" if options.n else "all, as in the paper",
        "data sets": "; ".join(dict.fromkeys(row["data"] for row in rows.values() if "data" in row)),
        "seeds": str(options.seeds),
        "measured on": machines(rows.values()),
        "traces": str(folder),
    }
    return write_page(
        folder / "report.html",
        "experiment.html.jinja",
        title=experiment.title,
        source=experiment.source,
        missing=missing if len(rows) < total else "",
        how={name: value for name, value in how.items() if value},
        tables=[
            {"title": t.title, "headings": t.headings, "rows": t.rows, "note": t.note, "texts": _texts(t)}
            for t in experiment.tables(rows, options)
        ],
        figures=[embedded(chart.heading, chart.text, chart.draw) for chart in experiment.charts(rows, folder)],
        command=command(experiment, options),
    )


def command(experiment: Experiment, options: Options) -> str:
    """Return the command line that ran the experiment, and resumes it."""
    words = ["apviz", "experiment", experiment.name]
    given = {"--n": options.n, "--dataset": options.dataset, "--out": options.out}
    given |= {"--device": options.device} if options.device != "auto" else {}
    given |= {"--seeds": options.seeds} if options.seeds > 1 else {}
    return shlex.join(words + [str(word) for pair in given.items() if pair[1] is not None for word in pair])


@dataclass(frozen=True)
class TerminalTable:
    """Table for a terminal that breaks neither numbers nor words, and truncates nothing.

    A table that is too wide for the terminal continues below, with its first columns of words repeated.
    """

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, texts = self.table, _texts(self.table)
        least = [_least_width(table, index, index in texts) for index in range(len(table.headings))]
        for number, columns in enumerate(_parts(table, least, texts, options.max_width)):
            yield self._part(columns, texts, least, options.max_width, ", continued" if number else "")

    def _part(
        self, columns: Sequence[int], texts: Sequence[int], least: Sequence[int], width: int, continued: str
    ) -> rich.table.Table:
        """Return some of the columns; spare width goes to words, first columns first."""
        shown = rich.table.Table(
            title=escape(self.table.title + continued), title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0)
        )
        left = width - _whole_width(columns, least)
        for index in columns:
            heading, cells = self.table.headings[index], [row[index] for row in self.table.rows]
            wanted = max(map(cell_len, [heading, *cells] if index in texts else cells))
            more = max(0, min(left, wanted - least[index]))
            left -= more
            shown.add_column(
                escape(heading),
                justify="left" if index in texts else "right",
                width=least[index] + more,
                overflow="fold",  # for a word longer than the terminal's width
            )
        for row in self.table.rows:
            shown.add_row(*(escape(row[index]) for index in columns))
        return shown


def _least_width(table: Table, index: int, text: bool) -> int:
    """Return the least width of a column: its longest word, heading included; for numbers its longest cell."""
    cells, heading = [row[index] for row in table.rows], table.headings[index].split()
    if not text:
        return max(map(cell_len, [*heading, *cells]))
    words = [word for cell in cells for word in cell.split()]
    return max(min(_WORDS, max(map(cell_len, cells))), *map(cell_len, [*heading, *words]))


def _whole_width(columns: Sequence[int], widths: Sequence[int]) -> int:
    """Return the width of a table of these columns: one space after each, one between two, and one at either edge."""
    return sum(widths[index] for index in columns) + 2 * len(columns) + 1


def _parts(table: Table, widths: Sequence[int], texts: Sequence[int], width: int) -> list[list[int]]:
    """Split the columns of a table that is too wide; the columns of words at the left are in every part.

    A column of the paper's numbers stays next to ours.
    """
    lead = [index for place, index in enumerate(texts) if index == place]
    groups: list[list[int]] = []
    for index in range(len(lead), len(widths)):
        if table.headings[index] == PAPER and groups:
            groups[-1].append(index)
        else:
            groups.append([index])
    parts = [lead]
    for group in groups:
        if len(parts[-1]) > len(lead) and _whole_width([*parts[-1], *group], widths) > width:
            parts.append(lead)
        parts[-1] = [*parts[-1], *group]
    return parts


def _texts(table: Table) -> tuple[int, ...]:
    """Return the columns of words: the first, and those with a cell that does not begin as a number."""
    columns = list(zip(*table.rows, strict=True))
    words = (index for index, cells in enumerate(columns) if not all(_NUMBER.match(cell) for cell in cells))
    return tuple(sorted({0, *words}))
