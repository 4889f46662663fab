"""Self-contained HTML pages: a template of this folder, filled, with plotly's own script inside."""

from __future__ import annotations

import os
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2
from plotly.offline import get_plotlyjs

# in the head of `base.html.jinja`
_HEAD, _MARK = 2_000, '<meta name="generator" content="apviz'


def write_page(path: Path, template: str, **values: Any) -> Path:
    """Writes the page that the template gives with these values, whole or not at all; returns its path.

    A page of apviz that is there is replaced; beside any other file the page gets a name of its own.

    Args:
        template: a file of `apviz/report/templates` that extends `base.html.jinja`.
    """
    own = (path, *(path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, 10_000)))
    path = next(each for each in own if not os.path.lexists(each) or _is_ours(each))
    loader = jinja2.PackageLoader("apviz.report", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    shared = {"version": metadata.version("apviz"), "plotly": get_plotlyjs()}
    page = environment.get_template(template).render(shared | values)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with written.open("x", encoding="utf-8") as file:
            file.write(page)
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)
    return path


def _is_ours(path: Path) -> bool:
    """Whether a page came from a template of ours, of this version or an earlier one: by its head and its title."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return _MARK in head or any(f"<title>apviz {kind}" in head for kind in ("report", "experiment: "))
