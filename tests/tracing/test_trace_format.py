"""The page on the trace's format: it lists the schema, and its example is a trace that apviz reads."""

from __future__ import annotations

import re

import apviz
from apviz.tracing import check_complete
from apviz.tracing.schema import SCHEMA_VERSION
from docs.building.trace_format import PAGE, written


def test_the_page_lists_every_variable_of_the_schema():
    assert PAGE.read_text("utf-8") == written(), "run: python -m docs.building.trace_format"
    assert f"**schema {SCHEMA_VERSION}**" in PAGE.read_text("utf-8")


def test_what_the_example_of_the_page_writes_with_xarray_alone_opens_and_is_drawn_and_diagnosed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert "apviz" not in code
    exec(compile(code, "trace_format.md", "exec"), {})
    trace = apviz.open_trace("mine.zarr")
    check_complete(trace)
    assert trace.finished and not trace.converged and not trace.residual_is_measured
    assert apviz.plots.residuals(trace).data and apviz.diagnose(trace).evidence
