"""LaTeX as MathML, as in the pages of the notebooks: no script, no font, no network; |I| in docstrings is kept."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

from notebooks.build.mathematics import mathml


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("autodoc-process-docstring", _keep_bars)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _keep_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Keep |I|, the number of rows in I, from being read as the name of a substitution."""
    lines[:] = [re.sub(r"\|([A-Z])\|", r"\\|\1\\|", line) for line in lines]


def _inline(writer: Any, node: Any) -> None:
    writer.body.append(mathml(node.astext(), display=False))
    raise nodes.SkipNode


def _block(writer: Any, node: Any) -> None:
    writer.body.append(mathml(node.astext(), display=True))
    raise nodes.SkipNode
