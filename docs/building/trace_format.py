"""Write the tables of the page on the trace's format from the schema: `python -m docs.building.trace_format`."""

from __future__ import annotations

from pathlib import Path

from apviz.tracing.schema import GROUPS

PAGE = Path(__file__).resolve().parent.parent / "guide/trace_format.md"
MARKS = "<!-- the tables of apviz.tracing.schema -->", "<!-- their end -->"
#: what a group holds
WORDS = {
    "update": "one row for each update",
    "epoch": "one row for each epoch or iteration; row 0 is the starting guess",
    "pass": "one row for each evaluation of B − KW on all rows",
    "block": "one row for each block, and its history",
    "colour": "of coloured projections",
    "spectrum": "eigenvalues of K",
    "eigenvalues": "all eigenvalues, of small systems",
    "rows": "inputs, for pictures",
    "snapshot": "residuals of all rows after some updates",
    "lanczos": "of one experiment",
    "step": "the only group of the trace of a training, whose root attribute `kind` is `training`",
}


def tables() -> str:
    """Return a table for every group."""
    parts = []
    for group, variables in GROUPS.items():
        rows = [
            f"| `{name}` | {', '.join(each.dims) or '–'} | {each.dtype} | {each.long_name.replace('|', chr(92) + '|')} "
            f"| {each.units} | {'optional' if each.is_optional else ''} |"
            for name, each in variables.items()
        ]
        head = ["| variable | over | type | meaning | unit | |", "|---|---|---|---|---|---|"]
        parts.append("\n".join([f"### {group}\n", f"{WORDS[group][:1].upper()}{WORDS[group][1:]}.\n", *head, *rows]))
    return "\n\n".join(parts)


def written() -> str:
    """Return the page with the tables of the present schema."""
    before, rest = PAGE.read_text("utf-8").split(MARKS[0])
    _, after = rest.split(MARKS[1])
    return f"{before}{MARKS[0]}\n{tables()}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
