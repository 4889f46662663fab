"""What an experiment shows: its tables in the terminal, and one page with tables and charts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import rich.table
from rich import box
from rich.markup import escape

from apviz.experiments.base import Experiment, Options, Row, Table
from apviz.experiments.measuring.solving import machines
from apviz.experiments.running import folder_of
from apviz.report.figures import embedded
from apviz.report.rendering import write_page

# how a cell with a number, or without one, begins
_NUMBER = re.compile(r"[-−–>≥<~∞\d]")


def write_experiment_report(experiment: Experiment, rows: Mapping[str, Row], options: Options) -> Path:
    """Writes `report.html` into the experiment's folder, of the cells that are done; returns its path.

    Args:
        rows: by the key of their cell, in order; at least one.
    """
    folder, total = folder_of(experiment, options), len(experiment.cells(options))
    missing = f"{len(rows)} of {total} cells are done; the command at the end of this page goes on with the others."
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
    """The command line that ran the experiment, and goes on with it."""
    words = ["apviz", "experiment", experiment.name]
    given = {"--n": options.n, "--dataset": options.dataset, "--out": options.out}
    given |= {"--device": options.device} if options.device != "auto" else {}
    given |= {"--seeds": options.seeds} if options.seeds > 1 else {}
    return shlex.join(words + [str(word) for pair in given.items() if pair[1] is not None for word in pair])


def terminal_table(table: Table) -> rich.table.Table:
    """The table for a terminal: in a narrow one words wrap, and nothing is cut."""
    shown = rich.table.Table(title=escape(table.title), title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
    texts = _texts(table)
    for index, heading in enumerate(table.headings):
        width = max(len(row[index]) for row in table.rows)
        # numbers stay whole where there is room
        shown.add_column(
            escape(heading),
            justify="left" if index in texts else "right",
            min_width=min(width, 16 if index in texts else 9),
            overflow="fold",
        )
    for row in table.rows:
        shown.add_row(*map(escape, row))
    return shown


def _texts(table: Table) -> tuple[int, ...]:
    """The columns of words: the first, and those with a cell that does not begin as a number."""
    columns = list(zip(*table.rows, strict=True))
    words = (index for index, cells in enumerate(columns) if not all(_NUMBER.match(cell) for cell in cells))
    return tuple(sorted({0, *words}))
