"""Text from a trace, a file or a person, for what would read it as Markdown, HTML or a formula."""

from __future__ import annotations

import html
import re

import pandas as pd

# what a spreadsheet takes for the beginning of a formula
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARKS = re.compile(r"([\\`*_\[\]|~#])")


def escape(text: str) -> str:
    """Text with its marks escaped, so that Markdown shows it as it is."""
    return _MARKS.sub(r"\\\1", html.escape(text, quote=False))


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Table of which a spreadsheet takes no text for a formula: such cells get an apostrophe before them."""
    return frame.map(lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell)
