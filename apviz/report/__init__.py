"""The report of a comparison: a table and a self-contained HTML page, from traces alone."""

from apviz.report.page import find_traces, write_report
from apviz.report.table import terminal_table

__all__ = ["find_traces", "terminal_table", "write_report"]
