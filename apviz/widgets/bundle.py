"""JavaScript of the widgets in one piece, because neither notebooks nor pages from disk can import single modules.

Each module of `js/` becomes a function that returns its exports, so names of different modules never collide.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("js")
#: Module that brings widgets to a notebook or a page; other modules need not import it.
ENTRY: Final = "home.js"

_IMPORT: Final = re.compile(r'^import \{([^}]+)\} from "\./([\w.]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:const|function\*?|class) (\w+))", re.MULTILINE)
#: Whole-line comments and indentation, a third of the bytes, which a page does not need.
_COMMENTS: Final = re.compile(r"^ *(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)\n|^ +", re.MULTILINE | re.DOTALL)


@cache
def modules(entry: str = ENTRY) -> str:
    """Return the statement `const modules = …` with a module and all its imports, by file name.

    Raises:
        ValueError: Imports or exports in another form than `import {a, b} from "./file.js";` and `export const a`,
            `export function a`, `export class a`.
    """
    written: dict[str, str] = {}
    _add(entry, written, ())
    parts = [f'modules["{name}"] = (() => {{\n{body}}})();\n' for name, body in written.items()]
    return "const modules = {};\n" + "".join(parts)


def notebook_module() -> str:
    """Return the ES module of all widgets in the form that anywidget expects."""
    return f'{modules()}export default {{render: modules["{ENTRY}"].render}};\n'


def page_script() -> str:
    """Return the script of a page, which starts every widget on the page; it may run more than once."""
    return f'(() => {{\n"use strict";\n{modules()}modules["{ENTRY}"].mountAll(document);\n}})();\n'


def _add(name: str, written: dict[str, str], above: tuple[str, ...]) -> None:
    if name in written:
        return
    if name in above:
        raise ValueError(f"{' → '.join((*above, name))}: modules that import one another in a circle")
    source = (FOLDER / name).read_text("utf-8")
    for match in _IMPORT.finditer(source):
        _add(match[2], written, (*above, name))
    names = _EXPORT.findall(source)
    body = _IMPORT.sub(lambda match: f'const {{{match[1].replace(" as ", ": ")}}} = modules["{match[2]}"];', source)
    body = _COMMENTS.sub("", _EXPORT.sub("", body))
    if unknown := re.search(r"^(import|export)\b.*$", body, re.MULTILINE):
        raise ValueError(f"{name}: a form of import or export that is not known here: {unknown[0]}")
    written[name] = f"{body}return {{{', '.join(names)}}};\n"
