"""Self-contained HTML pages: a template of this folder, filled, with plotly's own script inside."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2
from plotly.offline import get_plotlyjs


def write_page(path: Path, template: str, **values: Any) -> Path:
    """Writes the page that the template gives with these values, whole or not at all; returns its path.

    Args:
        template: a file of `apviz/report/templates` that extends `base.html.jinja`.
    """
    loader = jinja2.PackageLoader("apviz.report", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    shared = {"version": metadata.version("apviz"), "plotly": get_plotlyjs()}
    page = environment.get_template(template).render(shared | values)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.new")
    written.write_text(page, "utf-8")
    written.replace(path)
    return path
