"""Exercises of the notebooks: check an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
from IPython.display import Markdown, display
from numpy.typing import NDArray

NO_ANSWER: Final = "No answer yet: replace the dots in the cell above with yours, run that cell, then this one again."
#: MIME type of what a page needs to check an answer without Python.
EXERCISE: Final = "application/vnd.apviz.exercise+json"
#: Least number of digits of a rounded number that counts as correct.
FEW_DIGITS: Final = 2
#: Relative tolerance for numbers that count as a usual wrong answer.
LOOSE: Final = 1e-3
#: Most entries of an answer that a reader of a page types.
MOST_TYPED: Final = 8
#: Usual mistakes: functions that turn the right number into a wrong one.
_USUAL: Final[dict[str, Callable[[NDArray[Any]], NDArray[Any]]]] = {
    "Its sign is wrong.": lambda right: -right,
    "You forgot the square.": lambda right: np.sqrt(np.abs(right)),
    "That is the square: you forgot the root.": np.square,
    "That is twice the answer.": lambda right: 2 * right,
    "That is half the answer.": lambda right: right / 2,
    "That is the reciprocal.": lambda right: 1 / right,
    "That is one minus the answer.": lambda right: 1 - right,
    "That is a percentage; give a fraction.": lambda right: 100 * right,
}


def check(
    answer: Any, right: Any, *, hint: str, tolerance: float = 1e-6, mistakes: Mapping[str, Any] | None = None
) -> bool:
    """Say below the cell whether an answer is right, and give a hint if it is not.

    Numbers that are not whole may be rounded to two digits or more, each entry of an array by itself. Fractions are
    accepted, also as text. So are rows, columns, lists and tensors, including tensors that require gradients. Texts are
    compared without capitals and surrounding spaces.

    Args:
        answer: Answer of the student; `...` for none yet.
        right: Right answer computed by the cell: a number, an array, a text, or true or false.
        hint: Sentence that helps without giving the answer.
        tolerance: Tolerance for numbers, relative to the largest entry of the right answer.
        mistakes: Usual wrong answers, numbers or texts, by a sentence on each; general ones, such as a forgotten
            square, are known.

    Returns:
        Whether the answer is right.
    """
    if answer is ...:  # in a notebook only the text is shown
        display({"text/markdown": f"*{NO_ANSWER}*", **_for_a_page(right, hint, tolerance, mistakes or {})}, raw=True)
        return False
    found, why = _compare(answer, right, tolerance, mistakes or {})
    display(Markdown(f"✓ **Right.** {why}" if found else f"✗ **Not yet.** {why} *Hint: {hint}*"))
    return found


def _for_a_page(right: Any, hint: str, tolerance: float, mistakes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page needs to check a typed answer, by its MIME type; nothing for a long array."""
    asked: dict[str, Any]
    if isinstance(right, str | bool | np.bool_):
        kind, known = ("text", right) if isinstance(right, str) else ("truth", bool(right))
        asked = {"kind": kind, "right": known, "mistakes": [[said, wrong] for said, wrong in mistakes.items()]}
    else:
        theirs = _numbers(right)
        if theirs.size > MOST_TYPED:
            return {}
        known_wrong = [[said, wrong.ravel().tolist()] for said, wrong in _wrong_answers(theirs, mistakes)]
        asked = {"kind": "numbers", "right": theirs.ravel().tolist(), "mistakes": known_wrong}
        asked |= {"tolerance": tolerance, "digits": _with_more_digits(theirs)}
    return {EXERCISE: {**asked, "hint": hint}}


def _compare(answer: Any, right: Any, tolerance: float, mistakes: Mapping[str, Any]) -> tuple[bool, str]:
    if isinstance(right, str):
        return _compare_texts(answer, right, mistakes)
    if isinstance(right, bool | np.bool_):
        said = isinstance(answer, bool | np.bool_) and bool(answer) == bool(right)
        return said, f"Your answer: {answer}."
    try:
        yours, theirs = _numbers(answer), _numbers(right)
    except (TypeError, ValueError, ZeroDivisionError, RuntimeError):
        asked = f"an array of shape {np.shape(right)}" if np.ndim(right) else "a number"
        return False, f"Give {asked}; yours is of type {type(answer).__name__}."
    if yours.squeeze().shape != theirs.squeeze().shape:
        return False, f"The shape is {yours.shape}, but should be {theirs.shape}."
    yours = yours.reshape(theirs.shape)
    if not np.isfinite(yours).all():
        return False, "It has values that are not finite."
    gap, scale = float(np.abs(yours - theirs).max(initial=0.0)), float(np.abs(theirs).max(initial=0.0)) or 1.0
    if gap <= tolerance * scale:
        return True, ""
    if theirs.size == 1 and _is_rounded(_entries(answer)[0], float(theirs.item())):
        return True, _with_more_digits(theirs)
    if theirs.size > 1 and _all_rounded(_entries(answer), theirs, tolerance * scale):
        return True, _with_more_digits(theirs)
    return False, _what_it_is(yours, theirs, tolerance, mistakes) or (
        f"Yours differs by {gap / scale:.2g} of the largest entry." if theirs.size > 1
        else f"Yours is too {'large' if yours.item() > theirs.item() else 'small'}."
    )  # fmt: skip


def _compare_texts(answer: Any, right: str, mistakes: Mapping[str, Any]) -> tuple[bool, str]:
    if not isinstance(answer, str):
        return False, f"Your answer: {answer}. Give a text in quotation marks."
    plain = answer.strip().casefold()
    why = next((said for said, wrong in mistakes.items() if str(wrong).casefold() == plain), f"Your answer: {answer}.")
    return plain == right.casefold(), f"Your answer: {answer}." if plain == right.casefold() else why


def _numbers(given: Any) -> NDArray[Any]:
    """Convert numbers, fractions, texts such as 1/12, arrays, tensors, and lists of these to an array of float64."""
    if isinstance(given, str):
        given = float(Fraction(given.strip()))
    if isinstance(given, list | tuple):
        return np.array([_numbers(each) for each in given])
    if hasattr(given, "detach"):
        given = given.detach().cpu()
    return np.asarray(given, dtype=float)


def _entries(given: Any) -> list[Any]:
    """Return the entries of an answer as they were written, to count their digits."""
    if isinstance(given, list | tuple):
        return [entry for each in given for entry in _entries(each)]
    return [given] if isinstance(given, str) or not np.ndim(_numbers(given)) else _numbers(given).ravel().tolist()


def _all_rounded(entries: list[Any], theirs: NDArray[Any], near: float) -> bool:
    """Test whether every entry is right, or correctly rounded."""
    pairs = zip(entries, theirs.ravel().tolist(), strict=True)
    return all(abs(float(_numbers(one)) - right) <= near or _is_rounded(one, right) for one, right in pairs)


def _is_rounded(answer: Any, right: float) -> bool:
    """Test whether a number equals another one rounded to the given digits."""
    try:
        given = Decimal(answer if isinstance(answer, str) else repr(float(_numbers(answer))))
    except (TypeError, ValueError, ArithmeticError):
        return False
    digits, exponent = given.as_tuple().digits, given.as_tuple().exponent
    if right == int(right) or not isinstance(exponent, int) or len(digits) < FEW_DIGITS:
        return False
    return abs(float(given) - right) <= 0.5000001 * 10.0**exponent


def _with_more_digits(theirs: NDArray[Any]) -> str:
    more = " …" if theirs.size > 4 else "."
    return f"With more digits: {', '.join(f'{each:.6g}' for each in theirs.ravel()[:4])}{more}"


def _what_it_is(yours: NDArray[Any], theirs: NDArray[Any], tolerance: float, mistakes: Mapping[str, Any]) -> str:
    """Return a sentence on a usual wrong answer; empty for other answers."""
    for said, wrong in _wrong_answers(theirs, mistakes):
        scale = float(np.abs(wrong).max(initial=0.0)) or 1.0
        if np.abs(yours - wrong).max() <= max(tolerance, LOOSE) * scale:
            return said
    return ""


def _wrong_answers(theirs: NDArray[Any], mistakes: Mapping[str, Any]) -> list[tuple[str, NDArray[Any]]]:
    """Return usual wrong answers of the shape of the right one, those of this exercise first."""
    with np.errstate(all="ignore"):
        usual = {said: make(theirs) for said, make in _USUAL.items()}
    if theirs.ndim == 2 and theirs.shape[0] == theirs.shape[1]:
        usual["Rows and columns are swapped."] = theirs.T
    every = {said: _numbers(each) for said, each in mistakes.items()} | usual
    return [(said, wrong) for said, wrong in every.items() if wrong.shape == theirs.shape and np.isfinite(wrong).all()]
