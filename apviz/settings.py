"""Validation of settings: messages name the setting, its value and the accepted values."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Final, Literal

#: Largest seed; some draws use three times the seed, which must be valid for PyTorch.
LARGEST_SEED: Final = 2**62
# largest number of characters of a value in a message
_MOST_SHOWN = 200
#: Value of a setting that apviz chooses, see `apviz.solvers.recommended`.
Auto = Literal["auto"]


def shown(value: object) -> str:
    """Return a value for a message: on one line, and only the beginning if it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def require(condition: bool, setting: str, value: object, accepted: str) -> None:
    """Raise a ValueError that names the setting, its value and the accepted values if the condition is false."""
    if not condition:
        raise ValueError(f"{setting} must be {accepted}, got {shown(value)}")


def require_torch_defaults() -> None:
    """Reject global settings of PyTorch under which apviz would compute no numbers, or round them to 8 bits."""
    import torch

    try:
        why = "is meta, which holds no numbers" if torch.get_default_device().type == "meta" else ""
    except (AssertionError, RuntimeError) as error:  # PyTorch initialises the device to get its number
        why = f"is not on this machine ({error})"
    if why:
        raise ValueError(
            f"PyTorch's default device {why}; apviz chooses devices by itself: call torch.set_default_device(None), "
            "and leave `with torch.device(...)`"
        )
    if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
        raise ValueError("torch.autocast rounds float32 to 8 bits here: leave it, or solve in float64 outside of it")


@contextlib.contextmanager
def in_full_precision(*, with_gradients: bool = False) -> Iterator[None]:
    """Disable autocast, which rounds float32 to 8 bits, TF32 and, if gradients are needed, inference mode.

    Also a decorator.
    """
    import torch

    with contextlib.ExitStack() as ends:
        if with_gradients and torch.is_inference_mode_enabled():
            ends.enter_context(torch.inference_mode(False))
        for device in filter(torch.is_autocast_enabled, ("cpu", "cuda")):
            ends.enter_context(torch.autocast(device, enabled=False))
        ends.enter_context(without_tf32())
        yield


class without_tf32(contextlib.ContextDecorator):  # noqa: N801
    """Context in which matrix products use full float32, whatever PyTorch's global flags allow.

    TF32 keeps 10 bits of a number, bfloat16 7; residuals and Cholesky factors need all 23. Also a decorator. The flags
    are restored afterwards. They belong to the process, so another thread may restore them inside a guard; therefore
    every product has its own guard. Guards are not counted, because an interrupt could leave a wrong count, which would
    disable all later guards.
    """

    def __init__(self) -> None:
        self._before: tuple[str, dict[Any, str]] | None = None

    def _recreate_cm(self) -> without_tf32:
        return without_tf32()

    def __enter__(self) -> None:
        import torch

        try:
            precision = torch.get_float32_matmul_precision()
        except RuntimeError:  # only the newer flags, of each backend, were set
            precision = "highest"
        newer = {backend: backend.fp32_precision for backend in _newer_flags()}
        if precision != "highest" or {"tf32", "bf16"} & set(newer.values()):
            self._before = precision, newer
            torch.set_float32_matmul_precision("highest")  # sets the newer flags too

    def __exit__(self, *error: object) -> None:
        import torch

        if self._before is not None:
            precision, newer = self._before
            torch.set_float32_matmul_precision(precision)
            for backend, value in newer.items():
                backend.fp32_precision = value


@functools.cache
def _newer_flags() -> tuple[Any, ...]:
    """Return PyTorch's flags of each backend, which exist since 2.9."""
    import torch

    flags = (getattr(each, "matmul", None) for each in (torch.backends.cuda, torch.backends.mkldnn))
    return tuple(each for each in flags if hasattr(each, "fp32_precision"))


def require_kind(name: str, value: object, kinds: type | tuple[type, ...], accepted: str) -> None:
    """Reject objects of another class, and classes instead of objects."""
    if not isinstance(value, kinds):
        what = f"the class {value.__name__}" if isinstance(value, type) else shown(value)
        raise TypeError(f"{name} must be {accepted}, got {what}")


def require_seed(value: object) -> None:
    """Reject a value that cannot seed a generator."""
    require_whole("seed", value, 0, LARGEST_SEED)


def require_whole(setting: str, value: object, low: int, high: float = math.inf) -> None:
    """Require a whole number from `low` to `high`; NumPy's are whole numbers, True and 2.0 are not."""
    whole = isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high
    require(whole, setting, value, f"a whole number, at least {low}" + (f", at most {high}" if high < math.inf else ""))


def require_whole_or_auto(setting: str, value: object, low: int) -> None:
    """Require a whole number from `low`, or `auto`."""
    if not isinstance(value, str):
        require_whole(setting, value, low)
    else:
        require(value == "auto", setting, value, f"a whole number, at least {low}, or 'auto'")


def require_overlap(value: object) -> None:
    """Require a finite fraction of a block's rows from 0, or `auto`."""
    accepted = "a finite fraction of a block's rows, at least 0, or 'auto'"
    if not isinstance(value, str):
        require_number("overlap", value, 0, accepted)
    else:
        require(value == "auto", "overlap", value, accepted)


def require_number(setting: str, value: object, low: float, accepted: str, *, strictly: bool = False) -> None:
    """Require a finite number from `low`, or above it with `strictly`."""
    number = isinstance(value, Real) and not isinstance(value, bool) and _is_finite(value)
    fits = number and (value > low if strictly else value >= low)  # type: ignore[operator]
    require(bool(fits), setting, value, accepted)


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float
        return False


def positive(setting: str, value: float) -> float:
    """Check that a value is finite and positive, and return it as a Python float."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the error depends on the kind of value
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{setting} must be finite and positive, got {shown(value)}")
    return number


def require_tolerance(value: object) -> None:
    """Require a positive finite number."""
    require_number("tol", value, 0.0, "a positive relative residual, such as 0.01", strictly=True)


def chosen(setting: str, value: float | Auto) -> float:
    """Return a setting that must be a number by now; ValueError if it is still `auto`."""
    if isinstance(value, str):
        raise ValueError(f"{setting} is still {value!r}: apviz.solve chooses it, or call resolve(operator) first")
    return value
