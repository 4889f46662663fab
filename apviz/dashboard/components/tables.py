"""Tables on a page: a table of runs or other rows, sorted by its headings, and a plain table without clicks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import pandas as pd
import panel as pn
import panel_material_ui as pmui
import param

from apviz.dashboard.components.script_component import ScriptComponent
from apviz.plots._labels import method_names
from apviz.tracing import Trace
from apviz.tracing.trace import sign_of

#: Format of the cells of a column.
Form = Literal["text", "integer", "2 decimals", "4 decimals", "3 digits", "scientific"]
#: Value of a cell. A number may be paired with the sign to print before it, such as ≈.
Cell = str | float | tuple[float, str] | None


class SortedTable(ScriptComponent):
    """HTML table with one row per run, sorted by its headings, in pages. A click selects a run; runs can be ticked.

    Panel's Tabulator takes some time to build, and loses rows that it receives meanwhile.

    Args:
        columns: Format of the cells, by column heading; the first column names the run.
    """

    caption = param.String("Runs", doc="what the rows are, for those who do not see it")
    columns = param.List([], item_type=list, doc="heading and form of each")
    rows = param.List(
        [], item_type=list, doc="of each the key, then its cells; None is missing, a number and its sign a list"
    )
    selected = param.String("", doc="key of the row that is looked at, or empty")
    can_tick = param.Boolean(False, doc="whether rows have boxes to tick")
    ticked = param.List([], item_type=str, doc="keys of the ticked rows, in the order of the rows")
    actions = param.List([], item_type=str, doc="what the buttons of a row change: `pinned`, `hidden`, or both")
    hidden = param.List([], item_type=str, doc="keys of the hidden rows, or of those whose curves are hidden")
    pinned = param.List([], item_type=str, doc="keys of the rows whose curves always stand out, first pinned first")
    marks = param.Dict({}, doc="by heading: signs, > or <, and bounds beyond which its numbers are marked")
    page_rows = param.Integer(0, bounds=(0, None), doc="rows of a page; 0 for one page")
    page = param.Integer(0, bounds=(0, None), doc="the page that is shown, from 0")
    sorted_by = param.String("", doc="heading of the column by which rows are sorted; empty for the order given")
    details = param.Dict({}, doc="by the key of a row: what is said of its name where the pointer is")
    swatches = param.Dict({}, doc="by the key of a row: colour, dash and symbol of its curve, drawn before its name")
    descending = param.Boolean(False, doc="whether the largest comes first; what is missing comes last anyway")

    _esm = Path(__file__).with_name("table.js")
    _stylesheets: ClassVar[list[str]] = [Path(__file__).with_name("table.css").read_text("utf-8")]

    def __init__(self, columns: Mapping[str, Form], **params: Any) -> None:
        super().__init__(columns=[[title, form] for title, form in columns.items()], **params)

    def show(self, rows: Mapping[str, Sequence[Cell]], **state: Any) -> None:
        """Replace the rows, by their keys, and set other parameters; order, page and focus stay.

        Args:
            state: Values of other parameters, such as `selected`.
        """
        self.param.update(rows=[[key, *map(_to_json, cells)] for key, cells in rows.items()], **state)

    def on_click(self, call: Callable[[str], None]) -> None:
        """Call `call` with the key of every clicked row, even if it is already selected."""
        self.on_msg(lambda event: call(event.data))


def _to_json(cell: Cell) -> str | float | list[float | str] | None:
    """Return the value of a cell for JSON, which has no NaN and no tuples."""
    number = cell[0] if isinstance(cell, tuple) else cell
    if isinstance(number, float) and math.isnan(number):
        return None
    return list(cell) if isinstance(cell, tuple) else cell


_SOLVE_COLUMNS: dict[str, Form] = {
    "method": "text", "block size": "integer", "σ²": "3 digits", "epochs (CG: iterations)": "integer",
    "work": "2 decimals", "set-up work": "2 decimals", "seconds": "2 decimals", "residual": "scientific",
    "result": "text", "test RMSE": "4 decimals", "κ": "3 digits", "κ′": "3 digits",
}  # fmt: skip


class RunsTable:
    """Table of solves, with one row per run.

    Args:
        select: Called with the name of a clicked run.
    """

    def __init__(self, select: Callable[[str], None]) -> None:
        self.table = SortedTable(_SOLVE_COLUMNS, sizing_mode="stretch_width")
        self.table.on_click(select)
        self.view = pmui.Paper(
            pmui.Typography("Runs", variant="h6", margin=(8, 12, 0, 12)),
            pmui.Typography("Click a row to look at that run in detail; click a heading to sort.", variant="body2",
                            margin=(0, 12)),
            self.table, sizing_mode="stretch_width", margin=8, elevation=1,
        )  # fmt: skip

    def show(self, traces: Mapping[str, Trace], selected: str) -> None:
        """Show runs by their names in the folder, and mark the selected one."""
        methods = method_names(list(traces.values()))
        rows = {name: _solve_row(each, method) for (name, each), method in zip(traces.items(), methods, strict=True)}
        self.table.show(rows, selected=selected, details=details_of(traces))


def details_of(traces: Mapping[str, Trace]) -> dict[str, str]:
    """Return the non-empty details of runs, by the names of the runs in the folder."""
    return {key: trace.details for key, trace in traces.items() if trace.details}


def _solve_row(trace: Trace, method: str) -> list[Cell]:
    a, last, spectrum = trace.attrs, trace["epoch"].isel(epoch=-1), trace["spectrum"]
    block_size = trace.block_size
    return [
        method,
        float(block_size) if isinstance(block_size, int | float) else None,
        float(a["noise"]),
        int(last["epoch"]),
        float(last["work"]),
        float(a["setup_work"]),
        float(last["seconds"]),
        (float(last["residual"]), "" if trace.residual_is_measured else "≈ "),
        trace.status(with_residual=False),
        float(last["test_rmse"]),
        *((float(spectrum[name]), sign_of(spectrum, name).replace("=", "")) for name in ("kappa", "kappa_prime")),
    ]


# Panel's own font size does not scale for a projector. The first column stays while a wide table scrolls.
_STYLE: Final = """table.panel-df { font: var(--mui-font-body2, var(--apviz-type) / 1.4 var(--apviz-font)); }
table.panel-df tbody th { position: sticky; left: 0; background: var(--apviz-paper); }
table.panel-df thead th { text-align: %s !important; }"""


def plain_table(frame: pd.DataFrame, **options: Any) -> pn.pane.DataFrame:
    """Return a table as wide as the page, without sorting and clicks; its text is shown verbatim."""
    align = options.pop("text_align", "start")
    look = {"sizing_mode": "stretch_width", "stylesheets": [_STYLE % align], **options}
    return pn.pane.DataFrame(frame, escape=True, text_align=align, **look)
