"""Odd values that people and programs pass for numbers, texts, flags and arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch


class _Odd:
    """An object that is not a number, with a long repr."""

    def __repr__(self) -> str:
        return "<odd " + "o" * 250 + ">"


NUMBERS: tuple[Any, ...] = (
    math.nan,
    math.inf,
    -math.inf,
    0,
    0.0,
    -0.0,
    -1,
    -0.5,
    1,
    2,
    3,
    7,
    0.5,
    1e-320,
    1e308,
    -1e308,
    1e-12,
    2**31,
    2**63,
    2**70,
    10**400,
    True,
    False,
    None,
    "",
    "0.5",
    "auto",
    "many",
    "None",
    b"1",
    [],
    [1.0],
    [0.1, 0.2],
    (0.1, 0.2, 0.3),
    [math.nan, 1.0],
    ["a"],
    {},
    {"a": 1},
    set(),
    np.float32(0.5),
    np.float64(math.nan),
    np.int64(3),
    np.uint8(200),
    np.bool_(True),
    np.array(0.5),
    np.array([0.5]),
    np.array([0.5, 0.2]),
    np.array([]),
    np.array("a"),
    torch.tensor(0.5),
    torch.tensor([0.5, 0.2]),
    torch.tensor(3),
    torch.tensor(0.5, requires_grad=True),
    1 + 2j,
    Decimal("0.5"),
    Fraction(1, 2),
    object,
    _Odd(),
    range(3),
    torch.float32,
    torch.float16,
    "float64",
)
TEXTS: tuple[Any, ...] = (
    "",
    "auto",
    "ap",
    "AP",
    "kd-tree",
    "cyclic",
    "dense",
    "tiled",
    "cpu",
    "cuda",
    "cuda:7",
    "tpu",
    "meta",
    "keops",
    "\x00",
    "é" * 300,
    "../x",
    "a/b",
    "x.zarr",
    ".",
    "/",
    "/dev/null",
    "/nowhere/at/all",
    None,
    5,
    b"x",
    Path("y.zarr"),
    [],
    ["x"],
    True,
    math.nan,
    _Odd(),
    "light",
    "work",
    "solves",
    "lanczos",
    "standard",
    "adam",
    "l-bfgs",
)


#: values that Python treats as true or false
FLAGS: tuple[Any, ...] = (True, False, None, 0, 1, "", "yes", np.bool_(True), math.nan, [], _Odd())


def arrays_like(good: np.ndarray) -> tuple[Callable[[], Any], ...]:
    """Return functions that make other arrays to replace a good one."""
    n = len(good)

    def with_value(value: float) -> np.ndarray:
        changed = good.copy()
        changed.reshape(-1)[n // 2] = value
        return changed

    return (
        lambda: with_value(math.nan),
        lambda: with_value(math.inf),
        lambda: with_value(-math.inf),
        lambda: with_value(1e300),
        lambda: with_value(1e-320),
        lambda: good * 1e160,
        lambda: good * 1e-200,
        lambda: good * 1e39,
        lambda: -good,
        lambda: good * 0,
        lambda: good + 1e9,
        lambda: good[:0],
        lambda: good[:1],
        lambda: good[:2],
        lambda: good[: n // 2],
        lambda: np.concatenate([good, good]),
        lambda: good.T,
        lambda: good[None],
        lambda: good[..., None],
        lambda: good.reshape(-1),
        lambda: good.sum(),
        lambda: np.zeros((n, 0)),
        lambda: np.zeros((0, 0)),
        lambda: np.array([]),
        lambda: (good * 9).astype(int),
        lambda: good > 0,
        lambda: good.astype(np.float16),
        lambda: good.astype(np.longdouble),
        lambda: good.astype(">f8"),
        lambda: good * 1j,
        lambda: good.astype(str),
        lambda: good.astype(object),
        lambda: np.full(good.shape, "a"),
        lambda: np.full(good.shape, None),
        lambda: good.tolist(),
        lambda: [[1.0], [1.0, 2.0]],
        lambda: pd.DataFrame(good),
        lambda: pd.DataFrame(good).astype("Float64"),
        lambda: pd.Series(good.reshape(n, -1)[:, 0]),
        lambda: pd.DataFrame(good).astype(str),
        lambda: np.ma.masked_greater(good, 0.5),
        lambda: np.asfortranarray(good),
        lambda: np.lib.stride_tricks.as_strided(good, writeable=False),
        lambda: good[::-1],
        lambda: np.repeat(good, 2, 0)[::2],
        lambda: torch.from_numpy(good.copy()),
        lambda: torch.from_numpy(good.copy()).float(),
        lambda: torch.from_numpy(good.copy()).half(),
        lambda: torch.from_numpy(good.copy()).bfloat16(),
        lambda: torch.from_numpy(good.copy()).requires_grad_(),
        lambda: torch.from_numpy(good[:1].copy()).expand(*good.shape),
        lambda: torch.from_numpy(good.copy()).to_sparse(),
        lambda: torch.from_numpy(good.copy()).to("meta"),
        lambda: torch.from_numpy(good.copy()).cfloat(),
        lambda: (torch.from_numpy(good.copy()) * 9).int(),
        lambda: torch.from_numpy(good.copy()).T,
        lambda: torch.nn.Parameter(torch.from_numpy(good.copy())),
        lambda: torch.quantize_per_tensor(torch.from_numpy(good.copy()).float(), 0.1, 0, torch.qint8),
        lambda: None,
        lambda: 3.0,
        lambda: "x",
        lambda: {},
        lambda: {"a": good},
        lambda: set(),
        lambda: (each for each in good),
        lambda: np.array(["2020-01-01"] * n, dtype="M8[D]"),
        lambda: np.zeros(n, dtype=[("a", "f8"), ("b", "f8")]),
        lambda: _Odd(),
        lambda: object,
        lambda: range(n),
        lambda: np.zeros((n, 2, 2)),
        lambda: True,
    )
