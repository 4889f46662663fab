"""Text from a trace, a file or a person, for a widget that would read it as Markdown or HTML."""

from __future__ import annotations

import html
import re

_MARKS = re.compile(r"([\\`*_\[\]|~#])")


def plain(text: str) -> str:
    """The text such that it is shown as it is."""
    return _MARKS.sub(r"\\\1", html.escape(text, quote=False))
