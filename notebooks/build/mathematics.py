"""LaTeX of the notebooks as MathML, which browsers draw by themselves."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

#: x′ as a superscript; fonts without a size for scripts draw the sign raised and small already
_PRIME = re.compile(
    r"<(msup|msubsup)>(<mi>[^<]*</mi>)((?:<mrow>(?:<m[ion]>[^<]*</m[ion]>)*</mrow>|<m[in]>[^<]*</m[in]>)?)"
    r"<mi>(&#x0203[23];)</mi></\1>"
)


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
    return f'<div class="formula">{found}</div>' if display else found


def _beside(match: re.Match[str]) -> str:
    """The prime in the line, beside its letter."""
    _, letter, below, prime = match.groups()
    primed = f'<mrow>{letter}<mo lspace="0" rspace="0">{prime}</mo></mrow>'
    return f"<msub>{primed}{below}</msub>" if below else primed
