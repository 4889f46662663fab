"""The method that solved, as data: whatever compares, groups or colours goes by this; a label is for reading."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apviz.methods import ALTERNATING_PROJECTION, CONJUGATE_GRADIENT, label_of


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method: what tells one solver from another; None where a family has no such setting.

    Args:
        family: `alternating-projection`, `conjugate-gradient`, `cholesky`, or the name of another solver.
        rule, partition: their names.
        block_size: rows a block owns, `auto` before it is chosen; also of a preconditioner with blocks.
        overlap: of a block's own rows.
        history: past updates stepped along again.
        coarse_rank: vectors of the coarse space.
        skeleton_rank: columns that stand for those of a block where it is far; None where none do.
        preconditioner: its name.
        rank: of a low-rank preconditioner.
        coarse: the kind of a preconditioner's coarse space, where it is not the usual one.
        variant: settings that only this family has, in words.
        source: who solved, where it was not apviz: `gpytorch`, `published`.
    """

    family: str
    rule: str | None = None
    partition: str | None = None
    block_size: int | str | None = None
    overlap: float | str | None = None
    history: int | str | None = None
    coarse_rank: int | str | None = None
    skeleton_rank: int | str | None = None
    preconditioner: str | None = None
    rank: int | None = None
    coarse: str | None = None
    variant: str | None = None
    source: str | None = None

    @property
    def label(self) -> str:
        """The method in a few words, for tables and legends; settings that are None or 0 are left out."""
        blocks = [
            _share(self.overlap), _setting("b", self.block_size), _setting("q", self.history),
            _setting("r", self.coarse_rank if self.rank is None else self.rank), _setting("s", self.skeleton_rank),
            self.coarse,
        ]  # fmt: skip
        if self.has_blocks:
            partition = None if self.partition == "sequential" else self.partition
            words = ["AP", self.rule, partition and partition.replace("principal-axis", "pa"), *blocks]
        elif self.family == CONJUGATE_GRADIENT:
            kind = label_of(self.family, self.preconditioner)
            partition = None if self.partition == "principal-axis-tree" else self.partition
            words = ["CG"] if self.preconditioner is None else ["PCG", kind, partition, *blocks]
        else:
            words = [label_of(self.family), *blocks]
        text = " ".join(word for word in (*words, self.variant) if word)
        if self.source == "gpytorch":
            return "GPyTorch CG"
        return f"{text} as published" if self.source == "published" else text

    @property
    def name(self) -> str:
        """The label without the sizes of blocks, for a table that has a column of them."""
        sizes = ("block_size", "coarse_rank", "skeleton_rank", "history" if self.has_blocks else "overlap", "coarse")
        return (self if self.block_size is None else self.without(*sizes)).label

    @property
    def abbreviations(self) -> dict[str, str]:
        """What the label's short forms stand for, by short form."""
        rank = "vectors of the coarse space" if self.rank is None else "rank of the preconditioner"
        every = {
            "AP": ("alternating projection", self.has_blocks),
            "PCG": ("CG with a preconditioner", self.preconditioner is not None),
            "pa-tree": ("blocks of neighbours, cut along principal axes",
                        self.has_blocks and self.partition == "principal-axis-tree"),
            "+": ("rows around its own that a block also solves on, of its own", bool(self.overlap)),
            "b": ("rows a block owns", bool(self.block_size)),
            "q": ("past updates that each one steps along again", bool(self.history)),
            "r": (rank, bool(self.coarse_rank if self.rank is None else self.rank)),
            "s": ("columns that stand for a block's where it is far", bool(self.skeleton_rank)),
        }  # fmt: skip
        return {short: words for short, (words, used) in every.items() if used and self.source is None}

    @property
    def has_blocks(self) -> bool:
        """Whether it is alternating projection."""
        return self.family == ALTERNATING_PROJECTION

    @property
    def is_plain_cg(self) -> bool:
        """Whether it is apviz' own conjugate gradients without a preconditioner, of which theory has a bound."""
        return self.family == CONJUGATE_GRADIENT and self.preconditioner is None and self.source is None

    def without(self, *settings: str) -> Method:
        """Returns the method without these settings: what the runs of a sweep over them share."""
        nothing: dict[str, Any] = dict.fromkeys(settings)
        return dataclasses.replace(self, **nothing)

    def plain(self) -> dict[str, Any]:
        """Returns the settings that are not None, as a trace holds them."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Method:
        """Makes the method of what a trace holds; settings of a later version are left out.

        Raises:
            ValueError: no family.
        """
        if not isinstance(plain.get("family"), str):
            raise ValueError(f"a method must name its family, got {str(dict(plain))[:80]}")
        known = {field.name for field in dataclasses.fields(cls)}
        for name in known & plain.keys():
            kinds = (str, int, float) if name in _NUMBERS else (str,)
            if not isinstance(plain[name], kinds) or isinstance(plain[name], bool):
                accepted = " or ".join(kind.__name__ for kind in kinds)
                raise ValueError(f"{name} of a method must be {accepted}, got {str(plain[name])[:40]!r}")
        return cls(**{name: value for name, value in plain.items() if name in known})


def settings_of(value: object) -> dict[str, Any]:
    """Settings of a solver or a part of one by name; none of what is no dataclass."""
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return {}
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def variant_of(settings: Mapping[str, Any]) -> str | None:
    """Settings in words; None for none."""
    return ", ".join(f"{name}={value!r}" for name, value in settings.items()) or None


#: settings that may be numbers
_NUMBERS: Final = ("block_size", "overlap", "history", "coarse_rank", "skeleton_rank", "rank")


def _setting(letter: str, value: float | str | None) -> str:
    return f"{letter}={value}" if value else ""


def _share(overlap: float | str | None) -> str:
    return f"+{overlap if isinstance(overlap, str) else format(overlap, '.0%')}" if overlap else ""


def abbreviations(methods: Iterable[Method]) -> str:
    """Says in a line what the short forms in the labels of methods stand for; empty where there are none.

    Examples:
        >>> from apviz.method import PLAIN_CG, Method, abbreviations
        >>> abbreviations([PLAIN_CG, Method(family="alternating-projection", block_size=50, history=8)])
        'AP: alternating projection · b: rows a block owns · q: past updates that each one steps along again'
    """
    found: dict[str, dict[str, None]] = {}
    for method in methods:
        for short, words in method.abbreviations.items():
            found.setdefault(short, {})[words] = None
    return " · ".join(f"{short}: {', or '.join(words)}" for short, words in found.items())


#: conjugate gradients without a preconditioner
PLAIN_CG: Final = Method(family=CONJUGATE_GRADIENT)
