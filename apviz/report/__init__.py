"""Report of a comparison: a table and a self-contained HTML page, from traces alone."""

from apviz.report.page import find_traces, write_report
from apviz.report.table import HEADINGS, table_row, terminal_table

__all__ = ["HEADINGS", "find_traces", "table_row", "terminal_table", "write_report"]
