"""Method of a solve as data, with its name and details; comparisons, groups and colours use the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apviz.methods import (
    ALTERNATING_PROJECTION,
    CONJUGATE_GRADIENT,
    PARTITION_WORDS,
    RULE_WORDS,
    MethodEntry,
    entry_of,
    in_words,
)

#: other software whose solves become traces, by `Method.source`
LIBRARIES: Final = {"gpytorch": "GPyTorch", "scipy": "SciPy", "petsc": "PETSc"}
#: name of a preconditioner of which apviz knows nothing more
GIVEN: Final = "given"


@dataclass(frozen=True, kw_only=True)
class Method:
    """Method: the settings that distinguish solvers, with None for settings that a family does not have.

    Args:
        family: `alternating-projection`, `conjugate-gradient`, `cholesky`, or the name of another solver.
        rule: Name of the rule.
        partition: Name of the partition.
        block_size: Number of rows a block owns, `auto` before it is chosen; also of a preconditioner with blocks.
        overlap: Margin of a block, relative to its own rows.
        history: Number of past updates to step along again.
        coarse_rank: Number of vectors of the coarse space.
        skeleton_rank: Number of columns that represent those of a block far from it; None without skeletons.
        preconditioner: Name of the preconditioner.
        rank: Rank of a low-rank preconditioner.
        coarse: Kind of a preconditioner's coarse space, unless it is the usual one.
        variant: Settings that only this family has, in words.
        source: Software that solved, if not apviz: one of `LIBRARIES`, or `published`.
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
    def name(self) -> str:
        """The display name of the method, from the registry.

        Examples:
            >>> from apviz.method import Method
            >>> Method(family="alternating-projection", rule="gauss-southwell", block_size=250).name
            'Alternating projection (greedy, b = 250)'
        """
        if self.source in LIBRARIES:
            solver = "CG" if self.family == CONJUGATE_GRADIENT else self.family.upper()
            return f"{LIBRARIES[self.source]} {solver}{', preconditioned' if self.preconditioner == GIVEN else ''}"
        entry, words = self._entry, self._words()
        named, usual = (entry.named, entry.usual) if entry else (("rank",), {})
        short = words | ({"block_size": f"b = {self.block_size:,}"} if isinstance(self.block_size, int) else {})
        shown = [
            short[setting] for setting in named
            if short[setting] and getattr(self, setting) not in ("auto", usual.get(setting))
        ]  # fmt: skip
        name = _with(self.kind, ", ".join(shown))
        return f"{name}, as published" if self.source == "published" else name

    @property
    def kind(self) -> str:
        """The name without settings, which methods of one registry entry share."""
        if (entry := self._entry) is not None:
            return entry.name
        return f"CG + {self.preconditioner}" if self.preconditioner else self.family

    @property
    def details(self) -> str:
        """The settings that the name omits, in words; empty if there are none.

        Examples:
            >>> from apviz.method import Method
            >>> blocks = {"rule": "gauss-southwell", "partition": "principal-axis-tree", "block_size": 523}
            >>> Method(family="alternating-projection", **blocks, overlap=0.5, history=24).details
            '523 rows a block, 50% overlap, 24 past directions'
        """
        entry = self._entry
        named, usual = (entry.named, entry.usual) if entry else (("rank",), {})
        return ", ".join(
            words for setting, words in self._words().items()
            if words and setting in _DETAILS and getattr(self, setting) != usual.get(setting)
            and (setting not in named or getattr(self, setting) == "auto")
        )  # fmt: skip

    @property
    def _entry(self) -> MethodEntry | None:
        return entry_of(
            self.family, self.preconditioner, overlaps=self.has_blocks and bool(self.overlap),
            variant=self.variant or "",
        )  # fmt: skip

    def _words(self) -> dict[str, str]:
        """Return every setting in words, by its name; empty for settings that the method does not have."""
        found = {field.name: str(getattr(self, field.name) or "") for field in dataclasses.fields(self)}
        for setting, (form, automatic) in _DETAILS.items():
            value = getattr(self, setting)
            is_text = isinstance(value, str) and setting in _NUMBERS  # from a trace of other software
            found[setting] = automatic if value == "auto" else str(value) if is_text else form(value) if value else ""
        return found | {"rule": RULE_WORDS.get(self.rule or "", self.rule or "")}

    @property
    def has_blocks(self) -> bool:
        """Whether the method is alternating projection."""
        return self.family == ALTERNATING_PROJECTION

    @property
    def is_plain_cg(self) -> bool:
        """Whether the method is apviz' conjugate gradients without a preconditioner, for which theory has a bound."""
        return self.family == CONJUGATE_GRADIENT and self.preconditioner is None and self.source is None

    def without(self, *settings: str) -> Method:
        """Return the method without these settings: the common part of a sweep over them."""
        nothing: dict[str, Any] = dict.fromkeys(settings)
        return dataclasses.replace(self, **nothing)

    def plain(self) -> dict[str, Any]:
        """Return the settings that are not None, in the form stored in a trace."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Method:
        """Return the method from the settings in a trace; settings of a later version are ignored.

        Raises:
            ValueError: The family is missing.
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
    """Return the settings of a solver or a part of one by name; empty if the value is not a dataclass."""
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return {}
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def variant_of(settings: Mapping[str, Any]) -> str | None:
    """Return settings in words; None for none."""
    return ", ".join(in_words(settings)) or None


#: Settings that may be numbers.
_NUMBERS: Final = ("block_size", "overlap", "history", "coarse_rank", "skeleton_rank", "rank")


#: Words of the settings in details, in their order: by value, and for `auto`.
_DETAILS: Final[dict[str, tuple[Callable[[Any], str], str]]] = {
    "partition": (lambda name: PARTITION_WORDS.get(name, f"{name} blocks"), ""),
    "block_size": ("{:,} rows a block".format, "automatic block size"),
    "overlap": ("{:.0%} overlap".format, "automatic overlap"),
    "history": ("{:,} past directions".format, "automatic past directions"),
    "skeleton_rank": ("skeletons of rank {:,}".format, "automatic skeletons"),
    "rank": ("rank {:,}".format, ""),
    "coarse_rank": ("coarse space of rank {:,}".format, "automatic coarse space"),
    "coarse": ("{} coarse space".format, ""),
    "variant": (str, ""),
}


def _with(name: str, words: str) -> str:
    """Add words to the parentheses of a name."""
    if not words:
        return name
    return f"{name[:-1]}, {words})" if name.endswith(")") else f"{name} ({words})"


def distinct_names(methods: Sequence[Method]) -> list[str]:
    """Return the names of methods for a table or a legend; differences are added to equal names of different methods.

    Examples:
        >>> from apviz.method import PLAIN_CG, Method, distinct_names
        >>> blocks = {"rule": "gauss-southwell", "partition": "principal-axis-tree", "overlap": 0.5}
        >>> several = [Method(family="alternating-projection", block_size=b, **blocks) for b in (100, 400)]
        >>> distinct_names([PLAIN_CG, *several])
        ['CG', 'Overlapping projections (100 rows a block)', 'Overlapping projections (400 rows a block)']
    """
    names = [method.name for method in methods]
    for name, alike in indices_of(names).items():
        for place, words in zip(alike, _differences([methods[place] for place in alike]), strict=True):
            names[place] = _with(name, words)
    return names


def indices_of(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of each name, in the order in which names first occur."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return places


def _differences(methods: Sequence[Method]) -> list[str]:
    """Return the settings that differ between methods of one name, in words; empty if none differ."""
    every = [method._words() for method in methods]
    settings = [*_DETAILS, *(setting for setting in every[0] if setting not in _DETAILS)]
    found: list[list[str]] = [[] for _ in methods]
    for setting in settings:
        values = [words[setting].split(", ") if setting == "variant" else [words[setting]] for words in every]
        if len({len(each) for each in values}) > 1:
            values = [[words[setting]] for words in every]
        for each in zip(*values, strict=True):
            if len(set(each)) > 1:
                for place, words in enumerate(each):
                    found[place] += [words] if words else []
    return [", ".join(own) for own in found]


#: Conjugate gradients without a preconditioner.
PLAIN_CG: Final = Method(family=CONJUGATE_GRADIENT)
