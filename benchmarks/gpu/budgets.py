"""The stages in order of value, and the seconds of each."""

from __future__ import annotations

from typing import NamedTuple


class Stage(NamedTuple):
    """A stage: its letter on the command line, its module, and its seconds of eight minutes."""

    letter: str
    name: str
    seconds: float


STAGES = (
    Stage("a", "truth", 50), Stage("b", "suite", 150), Stage("c", "products", 70), Stage("d", "profiled", 30),
    Stage("e", "solves", 90), Stage("f", "table1", 60), Stage("g", "million", 30),
)  # fmt: skip


def chosen(text: str) -> list[Stage]:
    """Return the stages of a list such as `a,c` or `truth,products`, in order of value; all where it is empty.

    Raises:
        ValueError: an unknown stage.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    known = {key for stage in STAGES for key in stage[:2]}
    if unknown := sorted(set(words) - known):
        names = ", ".join(f"{stage.letter} ({stage.name})" for stage in STAGES)
        raise ValueError(f"stages are {names}; got {', '.join(unknown)}")
    return [stage for stage in STAGES if not words or stage.letter in words or stage.name in words]


def budget(left: float, stages: list[Stage]) -> float:
    """Return the seconds of the first of the remaining stages: its share of `left`.

    Later stages receive the unused time of earlier ones.
    """
    return left * stages[0].seconds / sum(stage.seconds for stage in stages)
