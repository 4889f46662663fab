"""Compute the minutes of lessons and lectures from their texts, and compare them with what pages state.

python -m notebooks.build.times
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import nbformat
from nbformat import NotebookNode

from apviz import widgets
from notebooks.build.slides import FOR_READERS, on_slides

ROOT: Final = Path(__file__).resolve().parent.parent.parent
#: Of a text read aloud.
WORDS_PER_MINUTE: Final = 140
#: Most minutes that a lesson may take to read.
LONGEST: Final = 15
#: What a reader skips: folded answers, and the last section.
_SKIPPED: Final = r"<details>.*?</details>|## For the lecturer.*"


@dataclass(frozen=True)
class Times:
    """Times of one lesson.

    Attributes:
        number: Number of the lesson, such as `01b`.
        words: Number of words of its text, without folded answers and notes.
        words_on_slides: Number of words on its slides.
        played: Seconds in which its animations play once.
    """

    number: str
    words: int
    words_on_slides: int
    played: float

    @property
    def to_read(self) -> int:
        """Return the minutes to read it, with its animations."""
        return round(self.words / WORDS_PER_MINUTE + self.played / 60)

    @property
    def aloud(self) -> float:
        """Return the minutes to read its slides aloud, with its animations."""
        return self.words_on_slides / WORDS_PER_MINUTE + self.played / 60


def times_of(notebook: NotebookNode, number: str) -> Times:
    """Return the times of a lesson."""
    slides = [cell for cell in on_slides(notebook) if cell.cell_type == "markdown"]
    spoken = [cell.source for cell in slides if cell.metadata["slideshow"]["slide_type"] != "notes"]
    words = len(re.sub(_SKIPPED, "", _text(notebook), flags=re.DOTALL).split())
    on_them = sum(len(text.partition(FOR_READERS)[0].split()) for text in spoken)
    return Times(number, words, on_them, played_seconds(notebook))


def played_seconds(notebook: NotebookNode) -> float:
    """Return the seconds in which the animations of a lesson play once.

    Widgets play the steps that they show from the first to the last; for figures the text states "play (11 seconds)".
    """
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    shown = [getattr(widgets, name) for name in re.findall(r"^widgets\.([A-Z]\w+)\(", code, re.MULTILINE)]
    steps = [kind.controls[name] for kind in shown for name in kind.in_sight if kind.controls[name]["kind"] == "steps"]
    stated = re.findall(r"\bplay\b\W*\((\d+)\s+seconds\)", _text(notebook))
    return sum(each["max"] * each.get("interval", 1000) / 1000 for each in steps) + sum(map(int, stated))


def plan(lecture: str) -> dict[str, int]:
    """Return the minutes that the plan of the lectures has for each lesson, by number."""
    rows = re.findall(r"^\| (\d+)–(\d+) \|[^|]*\| \[(\d+b?)\]\(", lecture.split("## If there")[0], re.MULTILINE)
    return {number: int(end) - int(start) for start, end, number in rows}


def table(lessons: list[Times], lecture: str) -> str:
    """Return the table of the times on slides, as Markdown."""
    planned = plan(lecture)
    rows = [
        f"| {each.number} | {each.words_on_slides:,} | {each.played:.0f} | {each.aloud:.0f} | {planned[each.number]} |"
        for each in lessons
        if each.number in planned
    ]
    head = "| lesson | words on slides | seconds of animations | minutes aloud | minutes in the plan |"
    return "\n".join([head, "|---|---:|---:|---:|---:|", *rows])


def disagreements(root: Path = ROOT) -> list[str]:
    """Return what pages state otherwise than computed here, one sentence each."""
    paths = sorted((root / "notebooks").glob("*.ipynb"))
    notebooks = [nbformat.read(path, nbformat.NO_CONVERT) for path in paths]
    lessons = [times_of(each, path.stem.partition("-")[0]) for each, path in zip(notebooks, paths, strict=True)]
    lecture = (root / "notebooks" / "LECTURE.md").read_text("utf-8")
    planned, found, exercises = plan(lecture), [], []
    for each, notebook in zip(lessons, notebooks, strict=True):
        begin, _, notes = _text(notebook).partition("## For the lecturer")
        stated = re.search(r"About\s+(\d+)\s+minutes\s+to\s+read.*?(\d+)\s+more\s+for\s+the\s+exercises", begin)
        again = re.search(
            r"\*\*Time\*\*: (\d+) minutes to read, (\d+) for the exercises(?:; (\d+) in the lecture)?", notes
        )
        if stated is None or again is None or stated.groups() != again.groups()[:2]:
            found.append(f"{each.number} does not state the same minutes at its beginning and in its notes")
            continue
        if again[3] != (str(planned[each.number]) if each.number in planned else None):
            found.append(
                f"{each.number} states {again[3]} minutes in the lecture, and the plan {planned.get(each.number)}"
            )
        exercises.append(int(stated[2]))
        if int(stated[1]) != each.to_read:
            found.append(f"{each.number} states {stated[1]} minutes to read, and has {each.to_read}")
        if each.to_read > LONGEST:
            found.append(f"{each.number} takes {each.to_read} minutes to read, more than {LONGEST}")
    reading = [each.to_read for each in lessons]
    ranges = [f"{min(reading)} to {max(reading)} minutes", f"{min(exercises)} to {max(exercises)} more for exercises"]
    for page, wanted in (("README.md", ranges[:1]), ("docs/lessons.md", ranges)):
        text = " ".join((root / page).read_text("utf-8").split())
        found += [f"{page} does not state {each!r}" for each in wanted if each not in text]
    if table(lessons, lecture) not in lecture:
        found.append(f"notebooks/LECTURE.md lacks this table:\n{table(lessons, lecture)}")
    found += [
        f"{each.number} takes {each.aloud:.0f} minutes aloud, and the plan has {planned[each.number]}"
        for each in lessons
        if each.aloud > planned.get(each.number, LONGEST)
    ]
    parts = [plan(part) for part in re.split(r"^## \w+ lecture: ", lecture, flags=re.MULTILINE)[1:]]
    aloud = [round(sum(each.aloud for each in lessons if each.number in part)) for part in parts]
    if f"{min(aloud)} to {max(aloud)} minutes read aloud" not in lecture:
        found.append(
            f"notebooks/LECTURE.md does not state that a lecture has {min(aloud)} to {max(aloud)} minutes read aloud"
        )
    return found


def _text(notebook: NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


if __name__ == "__main__":
    problems = disagreements()
    print("\n".join(problems) or "all stated times agree")
    sys.exit(bool(problems))
