"""The diagnosis of a GPyTorch model with its measurements, as text and for notebooks."""

from __future__ import annotations

import html
from dataclasses import dataclass, field

from apviz.analysis.diagnosis import Diagnosis, Limit
from apviz.gpytorch.rescue.measuring import Solved
from apviz.tracing import Trace


@dataclass(frozen=True, eq=False, repr=False)
class ModelDiagnosis(Diagnosis):
    """A diagnosis of a model, with its measurements.

    Args:
        before: results of GPyTorch without changes; None if they could not be measured.
        after: results with the change; None if there is no change, or it could not be tried.
        rows: number of measured rows, of `all_rows`.
        remarks: other findings, which are not the cause.
        trace: of GPyTorch's CG in training, with this diagnosis: after `found.trace.save("runs/mine.zarr")` the
            dashboard shows both. None if GPyTorch took Cholesky, or nothing was solved.
    """

    before: Solved | None = None
    after: Solved | None = None
    rows: int = 0
    all_rows: int = 0
    remarks: tuple[str, ...] = ()
    trace: Trace | None = field(default=None)

    def table(self) -> list[dict[str, str]]:
        """Return the figures before and after the change, compared with Cholesky in float64."""
        return [{**row} for row in self.figures]

    def __str__(self) -> str:
        lines = [_sentence(self.limit.value), self.evidence, self.advice]
        table = self.table()
        if table:
            widths = [max(len(row[key]) for row in [{k: k for k in table[0]}, *table]) for key in table[0]]
            lines += [
                "  ".join(value.ljust(width) for value, width in zip(row.values(), widths, strict=True))
                for row in [{key: key for key in table[0]}, *table]
            ]
        return "\n".join(line.rstrip() for line in [*lines, *self.remarks] if line)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
        paragraphs = [f"<strong>{html.escape(_sentence(self.limit.value))}</strong>", html.escape(self.evidence)]
        paragraphs += [html.escape(line) for line in (self.advice, *self.remarks) if line]
        table = self.table()
        rows = ""
        if table:
            head = "".join(f"<th>{html.escape(key)}</th>" for key in table[0])
            body = ["".join(f"<td>{html.escape(value)}</td>" for value in row.values()) for row in table]
            rows = f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in body)}</table>"
        return f"<div>{''.join(f'<p>{line}</p>' for line in paragraphs)}{rows}</div>"


def reported(
    found: Diagnosis,
    n: int,
    remarks: tuple[str, ...],
    rows: int = 0,
    before: Solved | None = None,
    after: Solved | None = None,
) -> ModelDiagnosis:
    """Add the measurements to a diagnosis, and write it into the trace of its solve."""
    trace = None if before is None else before.trace
    named = (("GPyTorch as it is", before), ("with the change", after))
    figures = tuple({"": name} | each.figures() for name, each in named if each is not None and not each.error)
    diagnosis = ModelDiagnosis(
        found.limit, found.evidence, found.advice, found.change, figures,
        before=before, after=after, rows=rows, all_rows=n, remarks=remarks, trace=trace,
    )  # fmt: skip
    if trace is not None and found.limit is not Limit.NOTHING:
        diagnosis.write_into(trace)
    return diagnosis


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
