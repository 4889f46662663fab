"""Convert LaTeX of the notebooks to MathML, which browsers render without a library."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from latex2mathml.converter import convert

#: x′ as a superscript; many fonts already draw the prime raised and small
_PRIME = re.compile(
    r"<(msup|msubsup)>(<mi>[^<]*</mi>)((?:<mrow>(?:<m[ion]>[^<]*</m[ion]>)*</mrow>|<m[in]>[^<]*</m[in]>)?)"
    r"<mi>(&#x0203[23];)</mi></\1>"
)

#: letters of an inline formula that fit on one line of a phone; longer formulas may break
_ON_ONE_LINE = 20
_RELATIONS = frozenset("=<>≤≥≈")
_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", _NAMESPACE)


def mathml(latex: str, *, display: bool) -> str:
    """Convert a formula to MathML.

    Raises:
        ValueError: the converter does not know a command; the page would show it with its backslash.
    """
    try:
        found = convert(latex.strip(), display="block" if display else "inline")
    except Exception as error:
        raise ValueError(f"this formula cannot become MathML ({type(error).__name__}): {latex}") from error
    if "\\" in found:
        command = "\\" + found.partition("\\")[2].partition("<")[0]
        raise ValueError(f"{command} cannot become MathML; use simpler LaTeX: {latex}")
    found = _PRIME.sub(_prime_in_line, found)
    return f'<div class="formula">{found}</div>' if display else _in_parts(found)


def _in_parts(formula: str) -> str:
    """Split a long formula after its relations, so that a line can break there; MathML itself has no line breaks."""
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
            child.set("form", "infix")  # the relation is the last element of its part, and keeps its space
            parts.append([])
    made = []
    for part in filter(None, parts):
        math = ElementTree.Element(root.tag, root.attrib)
        ElementTree.SubElement(math, row.tag, row.attrib).extend(part)
        made.append(ElementTree.tostring(math, encoding="unicode"))
    return "<wbr>".join(made)


def _prime_in_line(match: re.Match[str]) -> str:
    """Put the prime in the line, right after its letter."""
    _, letter, below, prime = match.groups()
    primed = f'<mrow>{letter}<mo lspace="0" rspace="0">{prime}</mo></mrow>'
    return f"<msub>{primed}{below}</msub>" if below else primed
