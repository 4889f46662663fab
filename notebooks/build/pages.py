"""Write a page for each notebook, a page that lists them, and the scripts and styles that they share."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import pass_context
from nbconvert import HTMLExporter, TemplateExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from plotly import io as pio
from plotly.offline import get_plotlyjs
from pygments.formatters import HtmlFormatter

from apviz.plots._style import THEMES, dark_colors
from apviz.widgets.bundle import page_script
from apviz.widgets.exercise import NO_ANSWER
from apviz.widgets.live_widget import style
from notebooks.build.figures import Figures
from notebooks.build.mathematics import mathml

TEMPLATES = Path(__file__).parent / "templates"
#: replaces `NO_ANSWER` on a page, where no cell can run: for arrays too long to type, and for browsers without scripts
NO_PYTHON = "This page cannot check this answer; the notebook can. The solution is in the folded cell below."


def write_pages(notebooks: Sequence[tuple[str, NotebookNode]], folder: Path) -> None:
    """Write the pages of executed notebooks, given with their names in reading order, into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_shared(folder)
    names = [name for name, _ in notebooks]
    for place, (name, notebook) in enumerate(notebooks):
        around = {
            "before": names[place - 1] if place else "",
            "after": names[place + 1] if place + 1 < len(names) else "",
        }
        (folder / f"{name}.html").write_text(page(notebook, name, **around), "utf-8")
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
    entries = [{"name": name, "title": title(notebook), "aims": aims(notebook)} for name, notebook in notebooks]
    (folder / "index.html").write_text(environment.get_template("contents.html.jinja").render(entries=entries), "utf-8")


def write_shared(folder: Path) -> None:
    """Write the scripts and styles that pages share."""
    (folder / "plotly.min.js").write_text(get_plotlyjs(), "utf-8")
    # figures without our theme take Plotly's own dark template
    plain = pio.templates["plotly_dark"].to_plotly_json()
    plain["layout"] |= {"paper_bgcolor": THEMES["dark"].paper, "plot_bgcolor": THEMES["dark"].paper}
    dark = {"colors": dark_colors(), "onButtons": THEMES["dark"].button_text, "template": plain}
    script = (TEMPLATES / "page.js").read_text("utf-8")
    (folder / "page.js").write_text(f"const darkTheme = {json.dumps(dark)};\n{script}", "utf-8")
    for name in ("lesson.css", "exercise.js"):
        shutil.copyfile(TEMPLATES / name, folder / name)
    (folder / "widgets.js").write_text(page_script(), "utf-8")
    (folder / "widgets.css").write_text(style(), "utf-8")
    light, dark = (
        HtmlFormatter(style=name, nobackground=True).get_style_defs(".highlight")
        for name in ("a11y-high-contrast-light", "a11y-high-contrast-dark")
    )
    css = f"{light}\n@media screen and (prefers-color-scheme: dark) {{ :root:not(.on-slides) {{\n{dark}\n}} }}\n"
    (folder / "page.css").write_text((TEMPLATES / "page.css").read_text("utf-8") + css, "utf-8")


def page(notebook: NotebookNode, name: str, *, before: str = "", after: str = "") -> str:
    """Return the page of an executed notebook.

    Args:
        before, after: names of the previous and next notebook, for links.

    Raises:
        ValueError: a formula cannot become MathML.
    """
    around = {"name": name, "title": title(notebook), "before": before, "after": after}
    return exported(Exporter(), notebook, around)


def exported(exporter: Exporter, notebook: NotebookNode, around: Mapping[str, str]) -> str:
    """Return the HTML of an executed notebook, with the data of its figures at the end."""
    text, resources = exporter.from_notebook_node(notebook, {"page": dict(around)})
    data = [
        f'<script type="application/json" id="figure-{number}">{parts}</script>'
        for number, parts in enumerate(resources["figures"], start=1)
    ]
    return for_everyone(str(text)).replace(NO_ANSWER, NO_PYTHON).replace("</body>", "\n".join([*data, "</body>"]))


def for_everyone(text: str) -> str:
    """Return HTML in which a keyboard scrolls code, and empty cells of tables are not read out as headings."""
    text = text.replace('<div class=" highlight', '<div tabindex="0" class=" highlight')
    return re.sub(r"<th( class=\"blank[^\"]*\")? ?>(&nbsp;)?</th>", r"<td\1>\2</td>", text)


def title(notebook: NotebookNode) -> str:
    """Return the first heading."""
    return re.search(r"^# (.+)$", notebook.cells[0].source, re.MULTILINE)[1].strip()


def aims(notebook: NotebookNode) -> list[str]:
    """Return the entries of "What you will be able to do", as HTML."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    section = text.partition("What you will be able to do")[2].partition("\n#")[0]
    return [html(each)[3:-5] for each in re.findall(r"^[-*] (.+)$", section, re.MULTILINE)]


class Exporter(HTMLExporter):
    """nbconvert's exporter with our template, MathML, and links between pages."""

    template_name = "apviz"
    extra_template_basedirs = [str(TEMPLATES)]  # noqa: RUF012
    preprocessors = [Figures]  # noqa: RUF012

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[str, dict[str, Any]]:
        """Export without nbconvert's second parse of the page, which takes half the time; our template needs none."""
        lexer = nb.metadata.get("language_info", {}).get("pygments_lexer")
        self.register_filter("highlight_code", Highlight2HTML(pygments_lexer=lexer, parent=self))
        return TemplateExporter.from_notebook_node(self, nb, resources, **kw)

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        return html(source)


def html(markdown: str) -> str:
    """Return Markdown as HTML, with MathML."""
    text = str(MarkdownWithMath(renderer=_Renderer(escape=False, anchor_link_text="")).render(markdown)).strip()
    # remove the anchors of headings: nothing shows them, and HTML would leave them open
    return re.sub(r'<a class="anchor-link"[^>]*/>', "", text)


class _Renderer(IPythonRenderer):
    def inline_math(self, body: str) -> str:
        return mathml(body, display=False)

    def block_math(self, body: str) -> str:
        return mathml(body, display=True)

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return super().link(text, as_seen_from_pages(url), title)


def as_seen_from_pages(url: str) -> str:
    """Return a link as the pages need it: to the page of another notebook, or to a file from one folder deeper."""
    if re.match(r"[a-z]+:|#", url):
        return url
    if re.search(r"\.ipynb(#|$)", url) and "/" not in url.removeprefix("./"):
        return url.replace(".ipynb", ".html")
    return f"../{url}"
