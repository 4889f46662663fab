"""What the figures of CG beside alternating projection have to say of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apviz.plots.parts.span_words import system_words

if TYPE_CHECKING:
    from apviz.rkhs import EigenPath


def settings(cg: EigenPath, ap: EigenPath) -> list[str]:
    """n, kernel, noise, b, κ and κ′."""
    sizes = [len(rows) for rows in ap.walk.blocks]
    apart = sum(sizes) == cg.walk.span.n
    blocks = f"b = {max(sizes)}" if apart else f"blocks with margin: {max(sizes)}"
    return [system_words(cg.walk.span), f"{blocks} · κ = {_plain(cg.kappa)} · κ′ = {_plain(ap.kappa_prime())}"]


def state(cg: EigenPath, ap: EigenPath, work: float) -> str:
    """How far both are after so much work."""
    return f"work {work:g}: CG {_count(cg, work, 'iteration')}, AP {_count(ap, work, 'update')}"


def _count(path: EigenPath, work: float, name: str) -> str:
    done = path.at(work)
    if done < 0:
        return "still factors its blocks"
    return f"{done} {name}{'' if done == 1 else 's'}"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
