"""The JavaScript of the widgets in one piece: neither a notebook nor a page from a disk can import module by module.

Each module of `js/` becomes a function that returns what it exports, so that names of two modules never meet.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("js")
#: the module that others need not import: it brings widgets to a notebook or a page
ENTRY: Final = "home.js"

_IMPORT: Final = re.compile(r'^import \{([^}]+)\} from "\./([\w.]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:const|function\*?|class) (\w+))", re.MULTILINE)
#: what a page need not have, a third of the bytes: comments that fill lines, and indentation
_COMMENTS: Final = re.compile(r"^ *(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)\n|^ +", re.MULTILINE | re.DOTALL)


@cache
def modules(entry: str = ENTRY) -> str:
    """Statement `const modules = …` of a module and all that it imports, by file name.

    Raises:
        ValueError: imports or exports in another form than `import {a, b} from "./file.js";` and `export const a`,
            `export function a`, `export class a`.
    """
    written: dict[str, str] = {}
    _add(entry, written, ())
    parts = [f'modules["{name}"] = (() => {{\n{body}}})();\n' for name, body in written.items()]
    return "const modules = {};\n" + "".join(parts)


def notebook_module() -> str:
    """ES module of all widgets as anywidget takes it."""
    return f'{modules()}export default {{render: modules["{ENTRY}"].render}};\n'


def page_script() -> str:
    """Script for a page, which brings to life every widget that stands there, and again where it is run again."""
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
