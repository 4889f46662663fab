"""Commands that show what exists: `report`, `show`, `doctor`."""

from __future__ import annotations

import json
import math
from typing import Annotated, Final

import typer
from rich.markup import escape
from rich.table import Table

from apviz.cli import options
from apviz.cli.terminal import console, fail
from apviz.doctor import Finding, examine
from apviz.places import place_of
from apviz.report import find_traces, terminal_table, write_report
from apviz.tracing import Trace, TrainingTrace, open_trace
from apviz.tracing.opening import check_complete
from apviz.tracing.trace import sign_of

REPORT_EXAMPLES: Final = options.examples("apviz report runs/diabetes", "apviz report s3://bucket/runs")
SHOW_EXAMPLES: Final = options.examples("apviz show runs/ap.zarr", "apviz show s3://bucket/runs/ap.zarr")
DOCTOR_EXAMPLES: Final = options.examples("apviz doctor", "apviz doctor --no-keops")


def report(folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder of traces, or a URL.")]) -> None:
    """Rebuild the report of a folder from its traces."""
    try:
        place = place_of(folder)
        traces = find_traces(place)
    except (ValueError, OSError) as error:
        fail(error)
    console.print(terminal_table(traces))
    try:
        console.print(f"report: {write_report(traces, place / 'report.html')}")
    except OSError as error:
        fail(error)


def show(path: Annotated[str, typer.Argument(metavar="TRACE", help="Trace, such as runs/ap.zarr or s3://….")]) -> None:
    """Print one trace: the system, how the solve ended, the spectrum and the last epochs."""
    try:
        trace = open_trace(path)
        check_complete(trace)
        if isinstance(trace, TrainingTrace):
            raise ValueError(
                f"{path} is the trace of a training, not of one solve; open it on the page Training of "
                "`apviz dashboard`"
            )
        _print_trace(trace)
    except (ValueError, OSError) as error:
        fail(error)
    except Exception as error:  # an invalid trace may hold any numbers
        fail(ValueError(f"{path} cannot be shown: {type(error).__name__} {error}"))


def _print_trace(trace: Trace) -> None:
    a = trace.attrs
    merged = f" (merged from {a['merged_rows']:,})" if "merged_rows" in a else ""
    console.print(f"[bold]{escape(trace.method_name)}[/] on {a['dataset'] or 'unnamed data'}, n = {a['n']:,}{merged}, "
                  f"d = {a['d']}, {a['right_hand_sides']} right-hand sides")  # fmt: skip
    if trace.details:
        console.print(trace.details, highlight=False, markup=False)
    console.print(f"{a['kernel']}, σ² = {trace.noise_in_words(6)}, {a['dtype']} on {a['device_name']}, {a['engine']}")
    console.print(f"settings: {json.loads(a['solver_settings'])}", highlight=False)
    console.print(trace.status(), highlight=False, markup=False)
    if trace.advice:
        console.print(trace.advice, highlight=False, markup=False)
    console.print(terminal_table([trace]))
    spectrum = Table("eigenvalues", "value", "method")
    for name, value in trace["spectrum"].data_vars.items():
        label = str(value.attrs["long_name"])
        sign = sign_of(trace["spectrum"], str(name)).replace("=", "")
        shown = f"{sign} {float(value):.4g}".strip() if math.isfinite(value) else "unknown"
        spectrum.add_row(f"{name}: {label}", shown, str(value.attrs["how"]))
    console.print(spectrum)
    epochs = trace.to_dataframe("epoch").tail(10)
    table = Table("epoch", *map(str, epochs.columns), title="last epochs", title_justify="left")
    for number, values in epochs.iterrows():
        table.add_row(str(number), *(f"{value:.4g}" for value in values))
    console.print(table)


def doctor(
    keops: Annotated[bool, typer.Option(help="Test KeOps too; it compiles for a while the first time.")] = True,
) -> None:
    """Test every engine on this machine, measure its speed, and say what to fix; takes a minute."""
    found = list[Finding]()
    for each in examine(keops=keops):
        found.append(each)
        mark = "[red]✗[/]" if each.is_wrong else "[yellow]![/]" if each.advice else "[green]✓[/]"
        console.print(f"{mark} [bold]{escape(each.subject)}[/]: {escape(each.found)}", highlight=False)
        if each.advice:
            console.print(f"  → {escape(each.advice)}", highlight=False)
    wrong = [each.subject for each in found if each.is_wrong]
    if wrong:
        fail(RuntimeError(f"wrong results on this machine: {', '.join(wrong)}"))
