"""Small notebooks for tests."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def made(*cells: str | tuple[str, str], title: str = "Made by a test") -> NotebookNode:
    """Make a notebook with a title and code cells; a pair is a tag and code, or "text" and Markdown."""
    notebook = new_notebook(cells=[new_markdown_cell(f"# {title}")], metadata=KERNEL)
    for cell in cells:
        tag, source = ("", cell) if isinstance(cell, str) else cell
        if tag == "text":
            notebook.cells.append(new_markdown_cell(source))
        else:
            notebook.cells.append(new_code_cell(source, metadata={"tags": [tag]} if tag else {}))
    return notebook


def written(path: Path, *cells: str | tuple[str, str]) -> Path:
    """Write such a notebook to a file."""
    nbformat.write(made(*cells), path)
    return path
