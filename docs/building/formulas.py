"""LaTeX as MathML, as in the pages of the notebooks: no script, no font, no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes

from notebooks.build.mathematics import mathml


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: Any) -> None:
    writer.body.append(mathml(node.astext(), display=False))
    raise nodes.SkipNode


def _block(writer: Any, node: Any) -> None:
    writer.body.append(mathml(node.astext(), display=True))
    raise nodes.SkipNode
