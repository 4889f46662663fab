"""Figures as compressed text in a page: numbers to six digits, and numbers that several curves share once."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any, Final

import numpy as np

#: Key of an object that stands for an array of a figure: the place of its column, or the places of several columns.
_ARRAY: Final = "$"
#: Least numbers of a list that is stored as a column; digits tried for numbers that are not whole.
_LEAST, _DIGITS = 8, (6, 9, 17)
#: Largest error of a number, as a share of the range of its column: a hundredth of a pixel.
_ERROR: Final = 1e-5


def packed(text: str) -> str:
    """Compress a text for a script element, in characters that cannot end it; `unpacked` of the page is the inverse.

    Five characters hold four bytes. `<`, which begins a comment or a tag, is replaced by a full stop.
    """
    return base64.b85encode(gzip.compress(text.encode(), mtime=0)).decode().replace("<", ".")


def packed_figures(light: Any, dark: Any) -> str:
    """Return a figure, plotly's JSON in both themes, in packed form; `restored` of the page is the inverse.

    The text holds columns of numbers, the light figure, and what differs in the dark one.
    """
    columns: dict[str, int] = {}
    light, dark = _with_columns(light, columns), _with_columns(dark, columns)
    figures = json.dumps([light, _changes(light, dark)], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return packed(f"[[{','.join(columns)}],{figures[1:]}")


def _changes(light: Any, dark: Any) -> Any:
    """Return what differs in the dark theme: objects by key or index, a changed value in a list; None if nothing."""
    if light == dark:
        return None
    if isinstance(light, dict) and isinstance(dark, dict) and light.keys() == dark.keys() - {_ARRAY}:
        both = {key: (light[key], dark[key]) for key in light}
    elif isinstance(light, list) and isinstance(dark, list) and len(light) == len(dark):
        both = {str(place): pair for place, pair in enumerate(zip(light, dark, strict=True))}
    else:
        return [dark]
    found = {key: _changes(*pair) for key, pair in both.items()}
    return {key: change for key, change in found.items() if change is not None} or None


def _with_columns(parts: Any, columns: dict[str, int]) -> Any:
    """Return plotly's JSON with its arrays replaced by places in `columns`, to which new ones are added."""
    if isinstance(parts, dict) and "bdata" in parts:
        values = np.frombuffer(base64.b64decode(parts["bdata"]), np.dtype(parts["dtype"]).newbyteorder("<"))
        shape = [int(size) for size in str(parts.get("shape", len(values))).split(",")]
        return _places(values.reshape(shape), columns)
    if isinstance(parts, dict):
        return {key: _with_columns(value, columns) for key, value in parts.items()}
    if isinstance(parts, list):
        if len(parts) >= _LEAST and all(each is None or type(each) in (int, float) for each in parts):
            return _places(np.array(parts, float), columns)
        return [_with_columns(each, columns) for each in parts]
    return parts


def _places(values: Any, columns: dict[str, int]) -> Any:
    """Return what stands for an array: its column, the columns of a table, or a list of what stands for its parts."""
    if values.ndim > 2:
        return [_places(each, columns) for each in values]
    found = [columns.setdefault(_as_text(each), len(columns)) for each in np.atleast_2d(values.T)]
    return {_ARRAY: found if values.ndim == 2 else found[0]}


def _as_text(column: Any) -> str:
    """Return numbers as JSON in as few digits as keep them where they are drawn; NaN, drawn as a gap, as null."""
    exact = np.asarray(column, float)
    known = exact[np.isfinite(exact)]
    for digits in _DIGITS:
        texts = [f"{each:.{digits}g}" for each in known.tolist()]
        error = np.abs(np.array(texts, float) - known).max(initial=0)
        if error <= _ERROR * np.ptp(known) if len(known) else True:
            break
    whole = (known == np.rint(known)) & (np.abs(known) < 2**53)
    texts = [str(int(each)) if is_whole else text for each, text, is_whole in zip(known, texts, whole, strict=True)]
    written = iter(texts)
    return f"[{','.join(next(written) if is_known else 'null' for is_known in np.isfinite(exact))}]"
