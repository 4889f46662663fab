"""LaTeX of the notebooks as MathML, which browsers draw by themselves."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from latex2mathml.converter import convert

#: x′ as a superscript; fonts without a size for scripts draw the sign raised and small already
_PRIME = re.compile(
    r"<(msup|msubsup)>(<mi>[^<]*</mi>)((?:<mrow>(?:<m[ion]>[^<]*</m[ion]>)*</mrow>|<m[in]>[^<]*</m[in]>)?)"
    r"<mi>(&#x0203[23];)</mi></\1>"
)

#: letters of a formula in the text that stay on one line; what is longer may be wider than a phone
_ON_ONE_LINE = 20
_RELATIONS = frozenset("=<>≤≥≈")
_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", _NAMESPACE)


def mathml(latex: str, *, display: bool) -> str:
    """MathML of a formula.

    Raises:
        ValueError: a command that is not known here, which a page would show with its backslash.
    """
    try:
        found = convert(latex.strip(), display="block" if display else "inline")
    except Exception as error:
        raise ValueError(f"this formula cannot become MathML ({type(error).__name__}): {latex}") from error
    if "\\" in found:
        command = "\\" + found.partition("\\")[2].partition("<")[0]
        raise ValueError(f"{command} cannot become MathML; say it with simpler LaTeX: {latex}")
    found = _PRIME.sub(_beside, found)
    return f'<div class="formula">{found}</div>' if display else _in_parts(found)


def _in_parts(formula: str) -> str:
    """A long formula as several beside one another, so that a line can end after a relation; MathML has no breaks."""
    root = ElementTree.fromstring(formula)
    (row,) = root
    if len("".join(root.itertext())) <= _ON_ONE_LINE:
        return formula
    parts: list[list[ElementTree.Element]] = [[]]
    depth = 0
    for child in row:
        parts[-1].append(child)
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(child.text or "", 0)
        if child.tag == f"{{{_NAMESPACE}}}mo" and child.text in _RELATIONS and depth == 0:
            child.set("form", "infix")  # it is the last of its part, and keeps its space
            parts.append([])
    made = []
    for part in filter(None, parts):
        math = ElementTree.Element(root.tag, root.attrib)
        ElementTree.SubElement(math, row.tag, row.attrib).extend(part)
        made.append(ElementTree.tostring(math, encoding="unicode"))
    return "<wbr>".join(made)


def _beside(match: re.Match[str]) -> str:
    """The prime in the line, beside its letter."""
    _, letter, below, prime = match.groups()
    primed = f'<mrow>{letter}<mo lspace="0" rspace="0">{prime}</mo></mrow>'
    return f"<msub>{primed}{below}</msub>" if below else primed
