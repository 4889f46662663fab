"""What figures of few points say of their system, and of points by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from apviz.plots.parts.captions import KERNELS

if TYPE_CHECKING:
    from apviz.rkhs import Span

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def system_words(span: Span) -> str:
    """n, kernel, lengthscale and noise."""
    given = span.kernel.lengthscale
    lengths = given if isinstance(given, tuple) else (given,)
    scales = ", ".join(f"{each:.3g}" for each in lengths)
    return f"n = {span.n} · {KERNELS[span.kernel.name]}, ℓ = {scales} · σ² = {span.noise:.3g}"


def block_words(blocks: Sequence[Sequence[int]]) -> str:
    """{1, 2} {3}: points are counted from 1 in what people read."""
    return " ".join("{" + ", ".join(str(point + 1) for point in block) + "}" for block in blocks)


def subscript(number: int) -> str:
    return str(number).translate(_SUBSCRIPTS)


def superscript(number: int) -> str:
    """⁽³⁾"""
    return f"⁽{str(number).translate(_SUPERSCRIPTS)}⁾"
