"""The device on which tests solve: `APVIZ_DEVICE=cuda python -m pytest …` runs the same tests on a GPU.

Oracles stay on the CPU in float64. Where code of a test compares a result with one of them, or subtracts one from the
other, `read_results_on_the_cpu` copies the result to the CPU. The library gets no such help: its own code must move
the tensors that it reads, or it fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

DEVICE = os.environ.get("APVIZ_DEVICE", "cpu")
ON_CPU = torch.device(DEVICE).type == "cpu"
TESTS = str(Path(__file__).parent)
# modules between a test and the tensor that it reads
BETWEEN = (np.__name__, torch.__name__, "pytest", "_pytest", "scipy", "contextlib")
OPERATORS = (
    "__add__", "__sub__", "__mul__", "__truediv__", "__matmul__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__",
    "__ge__",
)  # fmt: skip


def only_on_the_cpu(reason: str) -> pytest.MarkDecorator:
    """Skip a test on other devices."""
    return pytest.mark.skipif(not ON_CPU, reason=f"only on the CPU: {reason}")


def only_on_a_gpu(reason: str) -> pytest.MarkDecorator:
    """Skip a test on the CPU."""
    return pytest.mark.skipif(ON_CPU, reason=f"only with APVIZ_DEVICE=cuda: {reason}")


def read_results_on_the_cpu() -> None:
    """Let tests compare results of any device with oracles of the CPU."""
    for name in ("numpy", "__array__"):
        setattr(Tensor, name, _from_tests_on_the_cpu(getattr(Tensor, name)))
    torch.equal = _from_tests_on_the_cpu(torch.equal)
    torch.allclose = _from_tests_on_the_cpu(torch.allclose)
    torch.testing.assert_close = _on_the_cpu(torch.testing.assert_close)
    for name in OPERATORS:
        setattr(Tensor, name, _of_two_devices(getattr(Tensor, name)))
    Tensor.__getitem__ = _indexed(Tensor.__getitem__)


def _from_tests_on_the_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    moved = _on_the_cpu(function)

    def called(*given: Any, **settings: Any) -> Any:
        return (moved if _is_from_a_test(sys._getframe(1)) else function)(*given, **settings)

    return called


def _of_two_devices(operator: Callable[..., Any]) -> Callable[..., Any]:
    def called(left: Tensor, right: Any) -> Any:
        differ = isinstance(right, Tensor) and right.ndim and left.ndim and left.device != right.device
        if differ and _is_from_a_test(sys._getframe(1)):
            left, right = left.cpu(), right.cpu()
        return operator(left, right)

    return called


def _indexed(getitem: Callable[..., Any]) -> Callable[..., Any]:
    def called(tensor: Tensor, index: Any) -> Any:
        if tensor.device.type == "cpu" and _is_from_a_test(sys._getframe(1)):
            index = _moved(index)
        return getitem(tensor, index)

    return called


def _on_the_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*given: Any, **settings: Any) -> Any:
        return function(*map(_moved, given), **{name: _moved(value) for name, value in settings.items()})

    return called


def _moved(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.cpu()
    if isinstance(value, list | tuple) and any(isinstance(each, Tensor) for each in value):
        return type(value)(map(_moved, value)) if type(value) in (list, tuple) else value
    return {key: _moved(each) for key, each in value.items()} if isinstance(value, dict) else value


def _is_from_a_test(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(TESTS)
