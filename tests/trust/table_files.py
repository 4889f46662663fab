"""Files of tables as people and programs write them, whole, damaged and mislabelled, each from its seed."""

from __future__ import annotations

import functools
import gzip
import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import torch

WORDS = (
    "red",
    "green",
    "blue",
    "Zürich",
    "São Paulo",
    "a, b; c",
    'say "no"',
    "N/A?",
    "=1+1",
    "<b>x</b>",
    "1st",
    "x" * 80,
)
NAMES = ("x", "size", "Größe", "price (€)", "a,b", "Unnamed: 0", " y ", "2020", "=cmd", "列", "nan", "target", "x.1")
MISSING = ("", "NA", "NaN", "?", "-", "null")


@dataclass
class Case:
    """A file and the arguments for reading it.

    Attributes:
        truth: numbers of columns, by name, that a whole file was written from; None: it may be refused.
        marks: of columns whose numbers were written in a way of their own, the decimal mark that is right.
        cells: their texts.
        order: names of all columns.
        words: for people.
    """

    name: str
    content: bytes | None
    settings: dict[str, Any]
    truth: dict[str, np.ndarray] | None
    words: dict[str, str]
    marks: dict[str, str] = field(default_factory=dict)
    cells: dict[str, list[str]] = field(default_factory=dict)
    order: tuple[str, ...] = ()


class _Draw:
    """Random choices of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def of(self, values: Sequence[Any]) -> Any:
        return values[self.rng.integers(len(values))]

    def often(self, chance: float) -> bool:
        return bool(self.rng.random() < chance)

    def up_to(self, most: int) -> int:
        return int(self.rng.integers(most + 1))


def case(seed: int) -> Case:
    """Return the case of a seed."""
    draw = _Draw(seed)
    whole = draw.often(0.5)
    columns, truth = _columns(draw, whole)
    kind = draw.of(("text",) * 5 + ("parquet",) * 3 + ("npy", "npz"))
    # points separate thousands only in files without decimal points
    european = draw.often(0.5)
    own = whole and kind == "text" and draw.often(0.6)
    marks = _written_their_own_way(draw, columns, truth, european) if own else {}
    cells = {name.strip(): [str(each) for each in columns[name]] for name in columns if name.strip() in marks}
    writers = {"text": _text, "parquet": _parquet, "npy": _arrays, "npz": _arrays}
    name, content, words = writers[kind](draw, columns, "european" if own and european else kind, whole)
    settings = _settings(draw, list(columns), truth, whole)
    if whole and kind == "parquet" and isinstance(settings["target"], str):
        settings["target"] = next(iter(columns))  # unchanged, with its spaces
    if "header" in words:
        settings["header"] = words["header"] == "True"
        if whole and not settings["header"]:
            settings["target"] = 0
    if not whole:
        name, content = _damaged(draw, name, content, words)
    truth_of_whole = truth if whole and kind in ("text", "parquet") else None
    return Case(name, content, settings, truth_of_whole, words, marks, cells, tuple(map(str.strip, columns)))


# --- what is in it ----------------------------------------------------------------------------------------------------


def _columns(draw: _Draw, whole: bool) -> tuple[dict[str, list[Any]], dict[str, np.ndarray]]:
    """Return columns of Python values, None for missing ones, and the numbers of numeric columns."""
    rows = int(draw.rng.integers(12, 80)) if whole or draw.often(0.8) else draw.up_to(12)
    names = [str(name) for name in draw.rng.permutation(NAMES)[: int(draw.rng.integers(2, 7))]]
    columns: dict[str, list[Any]] = {}
    truth = {}
    for place, name in enumerate(names):
        # the target and one input are numbers
        kind = (
            "number"
            if place < 2 and whole
            else draw.of(("number", "number", "whole", "text", "date", "bool", "constant"))
        )
        values: list[Any]
        if kind == "number":
            found = draw.rng.standard_normal(rows) * 10.0 ** draw.rng.integers(-8, 9)
            values = [float(each) for each in found]
            values = [float(f"{each:.3g}") for each in values] if draw.often(0.3) else values
            truth[name.strip()] = np.array(values)
        elif kind == "whole":
            values = [int(each) for each in draw.rng.integers(-1000, 1000, rows)]
            truth[name.strip()] = np.array(values, dtype=np.float64)
        elif kind == "text":
            values = [str(draw.of(WORDS[: 2 + draw.up_to(10)])) for _ in range(rows)]
        elif kind == "date":
            values = list(pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.rng.integers(0, 2000, rows), "D"))
        elif kind == "bool":
            values = [bool(each) for each in draw.rng.integers(0, 2, rows)]
        else:
            values = [draw.of((0, "x", 1.5, None))] * rows
        if place > 1 and draw.often(0.3):
            for row in draw.rng.integers(0, max(rows, 1), draw.up_to(5)):
                if rows > 20:
                    values[row] = None
                    if name.strip() in truth:
                        truth[name.strip()][row] = np.nan
        columns[name] = values
    return columns, truth


def _written_their_own_way(
    draw: _Draw, columns: dict[str, list[Any]], truth: dict[str, np.ndarray], european: bool
) -> dict[str, str]:
    """Write numbers of some columns as texts, each with its own decimals and thousands; return the decimal marks.

    Commas may mean anything in any file, as in `ticks79.csv`, where prices have decimal commas and volumes others.
    """
    marks = {}
    for name, values in columns.items():
        if name.strip() not in truth or None in values or draw.often(0.4):
            continue
        rows, mark = len(values), draw.of((".", ","))
        other = {".": ",", ",": "."}[mark]
        largest = 10.0 ** draw.of((5, 6, 8))
        numbers = draw.rng.uniform(-largest, largest, rows)
        if draw.often(0.5):
            numbers = np.sign(numbers) * draw.rng.uniform(1_000, 999_999, rows)
        how = draw.of(("thousands", "thousands", "three decimals", "both", "decimals"))
        if european != (mark == ","):
            how = "thousands" if european else draw.of(("three decimals", "decimals", "both"))
        if how == "three decimals":
            numbers = draw.rng.uniform(draw.of((0, 1)), draw.of((999, 20_000)), rows)
        form = {"thousands": ",.0f", "three decimals": ".3f", "both": ",.2f", "decimals": f".{draw.up_to(5)}f"}[how]
        texts = [f"{number:{form}}" for number in numbers]
        truth[name.strip()] = np.array([float(text.replace(",", "")) for text in texts])
        columns[name] = [text.translate(str.maketrans({",": other, ".": mark})) for text in texts]
        marks[name.strip()] = mark
    return marks


def _settings(draw: _Draw, names: list[str], truth: dict[str, np.ndarray], whole: bool) -> dict[str, Any]:
    """Return arguments of `load_table`."""
    first = names[0].strip()
    if whole:
        target: Any = draw.of((first, first, 0, -len(names)))
        return {
            "target": target,
            "missing": draw.of(("drop", "fill")),
            "duplicates": draw.of(("keep", "drop")),
            "seed": draw.up_to(9),
            "dtype": draw.of((torch.float32, torch.float64)),
        }
    settings: dict[str, Any] = {
        "target": draw.of((first,) * 12 + (names[-1], 0, -1, 1, 99, "nothing of it", "", True, 1.5, None))
    }
    odd = {
        "missing": ("drop", "fill", "refuse", "maybe", None, 1),
        "duplicates": ("keep", "drop", "both", None),
        "header": (None, True, False, None, None),
        "inputs": (None, None, names, names[:1], names[1:], [], "x", ["nothing of it"], [names[-1]] * 2, [1], [None]),
        "seed": (0, 1, -1, 2**40, 2**70, "0", 1.5, True, None),
        "n": (None, None, 5, 1, 0, -3, 10**9, 2.5, "all", True),
        "dtype": (torch.float32, torch.float64, torch.float16, torch.int64, "float32", None),
    }
    for name, values in odd.items():
        if draw.often(0.08):
            settings[name] = draw.of(values)
    return settings


# --- how it is written ------------------------------------------------------------------------------------------------


def _text(draw: _Draw, columns: dict[str, list[Any]], kind: str, whole: bool) -> tuple[str, bytes, dict[str, str]]:
    names = list(columns)
    rows = len(next(iter(columns.values())))
    separator = draw.of((";", "\t", "|") if kind == "european" else (",", ",", ";", "\t", "|"))
    decimal = "," if kind == "european" or (separator in ";\t|" and draw.often(0.4)) else "."
    missing = draw.of(MISSING)
    nameless = draw.often(0.15)

    def cell(value: Any) -> str:
        if value is None:
            return str(missing)
        if isinstance(value, float):
            return repr(value).replace(".", decimal)
        if isinstance(value, pd.Timestamp):
            return f"{value:%Y-%m-%d}"
        text = str(value)
        if any(sign in text for sign in (separator, '"', "\n")) or (quotes and isinstance(value, str)):
            text = '"' + text.replace('"', '""') + '"'
        return text

    quotes = draw.often(0.3)
    lines = [] if nameless else [separator.join(cell(name) for name in names)]
    lines += [separator.join(cell(columns[name][row]) for name in names) for row in range(rows)]
    end = draw.of(("\n", "\n", "\r\n", "\r"))
    text = end.join(lines) + draw.of((end, end, "", end * 3))
    excel = draw.often(0.05) and end != "\r"
    if excel:
        text = f"sep={separator}{end}{text}"
    encoding = draw.of(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"))
    if encoding == "cp1252" and any(ord(sign) > 255 and sign != "€" for sign in text):
        encoding = "utf-8"
    suffix = draw.of((".csv", ".csv", ".tsv", ".txt", ".csv.gz", ".CSV", ".txt.gz"))
    content = text.encode(encoding)
    if suffix.lower().endswith(".gz"):
        content = gzip.compress(content)
    words = {"written": f"{suffix}, {encoding}, {separator!r}, decimal {decimal}, ends {end!r}"}
    if nameless:
        words["header"] = "False"
    elif draw.often(0.5) or names != [name for name in names if not name.strip().isdigit()]:
        words["header"] = "True"
    return f"table{suffix}", content, words


def _parquet(draw: _Draw, columns: dict[str, list[Any]], kind: str, whole: bool) -> tuple[str, bytes, dict[str, str]]:
    arrays = {name: pyarrow.array(values, from_pandas=True) for name, values in columns.items()}
    if not whole:
        rows = len(next(iter(columns.values())))
        odd: dict[str, Callable[[], Any]] = {
            "list": lambda: pyarrow.array([[1, 2]] * rows),
            "struct": lambda: pyarrow.array([{"a": 1}] * rows, pyarrow.struct([("a", pyarrow.int64())])),
            "decimal": lambda: pyarrow.array([None] * rows, pyarrow.decimal128(30, 10)),
            "uint64": lambda: pyarrow.array([2**64 - 1 - k for k in range(rows)], pyarrow.uint64()),
            "float16": lambda: pyarrow.array(np.arange(rows).astype(np.float16)),
            "binary": lambda: pyarrow.array([b"\xff"] * rows),
            "time": lambda: pyarrow.array(np.arange(rows), pyarrow.time64("us")),
            "duration": lambda: pyarrow.array(np.arange(rows), pyarrow.duration("ns")),
            "zone": lambda: pyarrow.array(np.arange(rows), pyarrow.timestamp("ns", "Europe/Oslo")),
            "far": lambda: pyarrow.array([10**13 + k for k in range(rows)], pyarrow.timestamp("s")),
            "none": lambda: pyarrow.array([None] * rows, pyarrow.null()),
            "levels": lambda: pyarrow.array([str(k % 3) for k in range(rows)]).dictionary_encode(),
            "infinite": lambda: pyarrow.array(
                [np.inf if k % 5 == 0 else -np.inf for k in range(rows)], pyarrow.float64()
            ),
            "huge": lambda: pyarrow.array([1e308 * (-1) ** k for k in range(rows)], pyarrow.float64()),
            "long": lambda: pyarrow.array(["y" * 1_000_000 if k else "" for k in range(rows)]),
        }
        for _ in range(draw.up_to(3)):
            which = draw.of(list(odd))
            arrays[which] = odd[which]()
    compression = draw.of(("snappy", "zstd", "gzip", "none"))
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(arrays), file, compression=compression)
    return (
        draw.of(("table.parquet", "table.pq")),
        file.getvalue(),
        {"written": f"Parquet, {compression}, {', '.join(arrays)}"},
    )


def _arrays(draw: _Draw, columns: dict[str, list[Any]], kind: str, whole: bool) -> tuple[str, bytes, dict[str, str]]:
    rows = len(next(iter(columns.values())))
    made: dict[str, Callable[[], np.ndarray]] = {
        "matrix": lambda: draw.rng.standard_normal((rows, 3)),
        "fortran": lambda: np.asfortranarray(draw.rng.standard_normal((rows, 3))),
        "float16": lambda: draw.rng.standard_normal((rows, 2)).astype(np.float16),
        "long double": lambda: draw.rng.standard_normal((rows, 2)).astype(np.longdouble),
        "big end": lambda: draw.rng.standard_normal((rows, 2)).astype(">f8"),
        "fields": lambda: np.array([(k, k * 0.5) for k in range(rows)], dtype=[("a", "i4"), ("b", "f8")]),
        "complex": lambda: draw.rng.standard_normal((rows, 2)) * 1j,
        "bool": lambda: draw.rng.random((rows, 2)) > 0.5,
        "texts": lambda: np.array([["a", "1"]] * rows),
        "bytes": lambda: np.array([[b"a", b"1"]] * rows),
        "dates": lambda: (
            np.array(["2020-01-01"] * rows, dtype="M8[D]")[:, None].repeat(2, 1) + np.arange(rows)[:, None]
        ),
        "objects": lambda: np.array([[None, 1]] * rows, dtype=object),
        "number": lambda: np.array(3.0),
        "cube": lambda: np.zeros((rows, 2, 2)),
        "nothing": lambda: np.zeros((0, 3)),
        "no column": lambda: np.zeros((rows, 0)),
        "vector": lambda: draw.rng.standard_normal(rows),
        "infinite": lambda: np.full((rows, 2), np.inf),
    }
    file = io.BytesIO()
    if kind == "npy":
        which = draw.of(list(made))
        np.save(file, made[which](), allow_pickle=True)
        return "table.npy", file.getvalue(), {"written": f"npy of {which}"}
    some = draw.rng.permutation(list(made))[: 1 + draw.up_to(2)]
    np.savez_compressed(file, **{str(name): made[str(name)]() for name in some})
    return "table.npz", file.getvalue(), {"written": f"npz of {', '.join(some)}"}


# --- what goes wrong with it ------------------------------------------------------------------------------------------


def _damaged(draw: _Draw, name: str, content: bytes, words: dict[str, str]) -> tuple[str, bytes | None]:
    """Damage a file; return None for a folder or nothing at its path."""
    what = draw.of(
        ("cut", "flip", "flip", "insert", "relabel", "relabel", "cell", "cell", "row", "nothing", "bomb", "zip", "none")
    )
    words["then"] = what
    if what == "cut":
        return name, content[: draw.up_to(len(content))]
    if what == "flip":
        changed = bytearray(content)
        for _ in range(1 + draw.up_to(8)):
            if changed:
                changed[draw.up_to(len(changed) - 1)] ^= 1 << draw.up_to(7)
        return name, bytes(changed)
    if what == "insert":
        place, length = draw.up_to(len(content)), 1 + draw.up_to(40)
        return name, content[:place] + draw.rng.bytes(length) + content[place:]
    if what == "relabel":
        suffix = draw.of((".csv", ".parquet", ".npy", ".npz", ".csv.gz", ".txt", ".xlsx", "", ".csv.zip", ".tsv.gz"))
        words["then"] = f"called {suffix or 'nothing'}"
        return f"table{suffix}", content
    if what == "cell":
        # another value somewhere in a text
        odd = draw.of(
            (
                "1e400",
                "1e200",
                "-inf",
                "nan",
                "0x1F",
                "1_000",
                "１２",
                "\0",
                '"',
                '""',
                "'",
                "1;2",
                "1,2,3",
                "\u2028",
                "\ufeff",
                "٣",
                "True",
                "1e-400",
                "9" * 400,
                "-0",
                "(5)",
                "5%",
                "€ 3",
                "\x1a",
                "#",
            )
        )
        place = draw.up_to(len(content))
        words["then"] = f"{odd[:20]!r} at {place}"
        return name, content[:place] + odd.encode() + content[place:]
    if what == "row":
        rows = draw.of(
            (b"1,2,3,4,5,6,7,8,9\n", b"\n\n\n", b",,,,,\n", b"x\n", b'"\n', b";" * 3000 + b"\n", b"1\n" * 50)
        )
        words["then"] = f"{rows[:20]!r} at its end"
        return name, content + rows
    if what == "nothing":
        return name, draw.of(
            (
                b"",
                b"\n",
                b" ",
                b"a",
                b"a,b",
                b"a,b\n",
                b"1,2\n",
                b"\xff\xfe",
                b"\xef\xbb\xbf",
                b"PAR1",
                b"\x1f\x8b",
                b"PK\x05\x06" + bytes(18),
                b"\x93NUMPY",
                b"a,b\n" + b"1,2\n" * 9,
            )
        )
    if what == "bomb":
        return _bomb(draw, words)
    if what == "zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as members:
            members.writestr("../table.csv", content)
        return draw.of((name, "table.zip", "table.npz")), file.getvalue()
    words["then"] = draw.of(("a folder", "not there"))
    return name, None


def _bomb(draw: _Draw, words: dict[str, str]) -> tuple[str, bytes]:
    which = draw.of(("one line", "columns", "rows", "array", "deep", "texts"))
    words["then"] = f"a bomb of {which}"
    return _made_bomb(which)


@functools.cache
def _made_bomb(which: str) -> tuple[str, bytes]:
    """Return a small file that needs much memory."""
    file = io.BytesIO()
    if which == "one line":
        return "table.csv.gz", gzip.compress(b"9" * 60_000_000, 1)
    if which == "columns":
        return "table.csv", b",".join(b"c%d" % k for k in range(60_000)) + b"\n" + (b"1," * 59_999 + b"1\n") * 12
    if which == "rows":
        return "table.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 3_000_000, 1)
    if which == "array":
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 4)})
        return "table.npy", file.getvalue() + bytes(64)
    if which == "deep":
        return "table.csv", b"a,b\n" + b'"' * 100_000 + b"\n1,2\n"
    table = pyarrow.table({"a": ["z" * 4_000_000] * 100, "b": list(range(100))})
    pyarrow.parquet.write_table(table, file, compression="zstd")
    return "table.parquet", file.getvalue()
