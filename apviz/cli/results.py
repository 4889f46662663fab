"""What `compare` and `advise` print of solves: answers, tables, and the report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from apviz import comparison
from apviz.analysis.verdict import judge
from apviz.cli.terminal import console, errors
from apviz.distributed import records
from apviz.methods import choices_in_words
from apviz.places import Place
from apviz.plots._labels import full_names
from apviz.report import find_traces, terminal_table, write_report
from apviz.solvers import Solver


def say(answer: str, *rest: str) -> None:
    """Print an answer, and below it the reason and the action, if there are any."""
    console.print(f"[bold]{escape(answer)}[/]", highlight=False)
    for line in filter(None, rest):
        console.print(line, highlight=False, markup=False)


def table_of(rows: Sequence[dict[str, str]]) -> Table:
    """Return a table of rows with the same keys."""
    table = Table(*rows[0], box=box.SIMPLE, padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*map(escape, row.values()))
    return table


def present(outcomes: Iterator[comparison.Outcome], out: Place, order: Sequence[Solver] = ()) -> int:
    """Print the table in an order, write the report, also after Ctrl-C, and return the exit status."""
    done, failures, interrupted = list[comparison.Outcome](), list[str](), False
    try:
        done.extend(outcomes)
    except KeyboardInterrupt:
        interrupted = True
        errors.print("interrupted: the table so far")
    except OSError as error:
        failures.append(str(error))
    done.sort(key=lambda outcome: order.index(outcome.solver) if order else 0)
    traces = [outcome.trace for outcome in done if outcome.trace is not None]
    failures += [f"{outcome.solver.method.name}: {outcome.error}" for outcome in done if outcome.error]
    if traces and records():
        console.print(terminal_table(traces))
        names = full_names(traces)
        verdict = judge(traces, names)
        say(verdict.headline, verdict.others, verdict.change)
        for name, trace in zip(names, traces, strict=True):
            choices = json.loads(trace.attrs.get("choices", "{}"))
            if choices:
                console.print(f"Chosen for {name}:", highlight=False, markup=False)
            for line in choices_in_words(choices):
                console.print(f"  {line}", highlight=False, markup=False)
        try:
            written = write_report(find_traces(out), out / "report.html")
            console.print(f"{len(traces)} traces in {out}, report: {written}")
        except OSError as error:
            failures.append(f"the report: {error}")
    for failure in failures:
        errors.print(f"[red]failed:[/] {escape(failure)}", highlight=False)
    return 130 if interrupted else int(bool(failures))
