"""Escaping of text from a trace, a file or a person against reading as Markdown, HTML or a formula."""

from __future__ import annotations

import html
import re

import pandas as pd

# Characters that start a formula in a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARKS = re.compile(r"([\\`*_\[\]|~#])")


def escape(text: str) -> str:
    """Return text with HTML and Markdown characters escaped, so that Markdown shows it verbatim."""
    return _MARKS.sub(r"\\\1", html.escape(text, quote=False))


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table without spreadsheet formulas: text that would start one gets a leading apostrophe."""
    return frame.map(lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell)
