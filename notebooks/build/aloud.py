"""Take the minutes in which a speech synthesiser reads the slides of the lectures aloud, formulas in words.

Needs espeak-ng, which Linux distributions have. The figures are stated in `notebooks/LECTURE.md`.

    python -m notebooks.build.aloud
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import wave
from pathlib import Path
from typing import Final

import nbformat

from notebooks.build.slides import FOR_READERS, on_slides
from notebooks.build.times import ROOT, WORDS_PER_MINUTE, plan, times_of

#: how a lecturer reads a formula; what stands later reads what the former left
SPOKEN: Final = (
    (r"<[^>]*>|\\(left|right|big|,|;|qquad|quad|text|mathrm|mathbf|mathcal|tilde)\b|[`*#]", " "),
    (r"\[([^\]]*)\]\([^)]*\)", r"\1"),
    (r"\\[td]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r" \1 over \2 "),
    (r"\\sqrt\s*\{([^{}]*)\}", r" the square root of \1 "),
    (r"\\\|([^|]*)\\\|", r" the norm of \1 "),
    (r"\\langle([^\\]*)\\rangle", r" the inner product of \1 "),
    (r"\^\{?\\top\}?", " transpose "),
    (r"\^\{?2\}?", " squared "),
    (r"\^\{?-1\}?", " inverse "),
    (r"\^\{?\*\}?", " star "),
    (r"\^", " to the "),
    (r"_", " "),
    (r"'(?=[\s$),.;}]|\\)", " prime "),
    (r"\\leq?\b|\u2264", " at most "),
    (r"\\geq?\b|\u2265", " at least "),
    (r"\\leftarrow|=", " equals "),
    (r"\\approx", " about "),
    (r"\\cdot", " times "),
    (r"\\in\b", " in "),
    (r"\\perp", " is orthogonal to "),
    (r"\\sum", " the sum over "),
    (r"\\([a-zA-Z]+)", r" \1 "),
    (r"[${}\\|]", " "),
)


def speech(markdown: str) -> str:
    """Return a text with its formulas in words, as it is read aloud.

    Examples:
        >>> " ".join(speech(r"The norm, $\\|f\\|^2 = v^\\top K v$.").split())
        'The norm, the norm of f squared equals v transpose K v .'
    """
    for written, spoken in SPOKEN:
        markdown = re.sub(written, spoken, markdown)
    return markdown


def seconds(text: str) -> float:
    """Return the seconds in which espeak-ng reads a text, by the length of the sound."""
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(folder) / "read.wav"
        command = ["espeak-ng", "-v", "en", "-s", str(WORDS_PER_MINUTE), "-w", str(sound), "--stdin"]
        subprocess.run(command, input=text, text=True, check=True)
        with wave.open(str(sound)) as read:
            return read.getnframes() / read.getframerate()


def main() -> None:
    lecture, spoken, computed = (ROOT / "notebooks" / "LECTURE.md").read_text("utf-8"), 0.0, 0.0
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        number, notebook = path.stem.partition("-")[0], nbformat.read(path, nbformat.NO_CONVERT)
        if number not in plan(lecture):
            continue
        slides = [cell for cell in on_slides(notebook) if cell.cell_type == "markdown"]
        texts = [cell.source for cell in slides if cell.metadata["slideshow"]["slide_type"] != "notes"]
        times = times_of(notebook, number)
        took = seconds(speech("\n\n".join(text.partition(FOR_READERS)[0] for text in texts))) + times.played
        print(f"{number}: {took / 60:.1f} minutes read by espeak-ng, {times.aloud:.1f} computed")
        spoken, computed = spoken + took / 60, computed + times.aloud
    print(f"together: {spoken:.0f} and {computed:.0f} minutes")


if __name__ == "__main__":
    main()
