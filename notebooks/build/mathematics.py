"""LaTeX of the notebooks as MathML, which browsers draw by themselves."""

from __future__ import annotations

from latex2mathml.converter import convert


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
    return f'<div class="formula">{found}</div>' if display else found
