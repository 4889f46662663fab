"""Checks of settings where they enter: the message names the setting, its value and what would be accepted."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Final, Literal

#: beyond it three times a seed, of which some draw, is none of PyTorch's
LARGEST_SEED: Final = 2**62
# characters of a value that a message shows
_MOST_SHOWN = 200
#: of a setting that apviz chooses, see `apviz.solvers.choices`
Auto = Literal["auto"]


def shown(value: object) -> str:
    """Returns a value as a message shows it: in one line, and of a long one the beginning."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def require(condition: bool, setting: str, value: object, accepted: str) -> None:
    """Refuses a setting whose condition does not hold.

    Raises:
        ValueError: naming the setting, its value and what would be accepted.
    """
    if not condition:
        raise ValueError(f"{setting} must be {accepted}, got {shown(value)}")


def require_torch_defaults() -> None:
    """Refuses global settings of PyTorch under which what apviz computes would be no numbers, or rounded to 8 bits.

    Raises:
        ValueError: autocast, or a default device that holds no numbers or is not there; with what to do.
    """
    import torch

    try:
        why = "is meta, which holds no numbers" if torch.get_default_device().type == "meta" else ""
    except (AssertionError, RuntimeError) as error:  # it is asked for its number
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
    """Leaves autocast, which rounds float32 to 8 bits, TF32, and where gradients are needed, inference mode.

    A decorator too.
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
    """Compute matrix products in full float32, whatever PyTorch's global flags allow, and restore the flags.

    TF32 keeps 10 bits of a number, bfloat16 7; residuals and Cholesky factors need all 23. A decorator too. The flags
    belong to the process, so that another thread may restore them inside a guard: every product has a guard of its own.
    Nothing is counted, for a count that an interrupt leaves behind would switch all later guards off.
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
    """PyTorch's flags of each backend, which it has as from 2.9."""
    import torch

    flags = (getattr(each, "matmul", None) for each in (torch.backends.cuda, torch.backends.mkldnn))
    return tuple(each for each in flags if hasattr(each, "fp32_precision"))


def require_kind(name: str, value: object, kinds: type | tuple[type, ...], accepted: str) -> None:
    """Refuses objects of another class; also a class in the place of an object.

    Raises:
        TypeError: naming the argument, its value and what would be accepted.
    """
    if not isinstance(value, kinds):
        what = f"the class {value.__name__}" if isinstance(value, type) else shown(value)
        raise TypeError(f"{name} must be {accepted}, got {what}")


def require_seed(value: object) -> None:
    """Refuses what no generator starts from."""
    require_whole("seed", value, 0, LARGEST_SEED)


def require_whole(setting: str, value: object, low: int, high: float = math.inf) -> None:
    """Refuses all but whole numbers from `low` to `high`; NumPy's are whole numbers, True and 2.0 are not."""
    whole = isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high
    require(whole, setting, value, f"a whole number, at least {low}" + (f", at most {high}" if high < math.inf else ""))


def require_whole_or_auto(setting: str, value: object, low: int) -> None:
    """Refuses all but whole numbers from `low`, and `auto`."""
    if not isinstance(value, str):
        require_whole(setting, value, low)
    else:
        require(value == "auto", setting, value, f"a whole number, at least {low}, or 'auto'")


def require_overlap(value: object) -> None:
    """Refuses all but finite fractions of a block's rows from 0, and `auto`."""
    accepted = "a finite fraction of a block's rows, at least 0, or 'auto'"
    if not isinstance(value, str):
        require_number("overlap", value, 0, accepted)
    else:
        require(value == "auto", "overlap", value, accepted)


def require_number(setting: str, value: object, low: float, accepted: str, *, strictly: bool = False) -> None:
    """Refuses all but finite numbers from `low`, or with `strictly` above it."""
    number = isinstance(value, Real) and not isinstance(value, bool) and _is_finite(value)
    fits = number and (value > low if strictly else value >= low)  # type: ignore[operator]
    require(bool(fits), setting, value, accepted)


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def positive(setting: str, value: float) -> float:
    """Checks that a value is finite and positive, and returns it as a Python float.

    Raises:
        ValueError: one that is not finite and positive.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # which one, by what it is
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{setting} must be finite and positive, got {shown(value)}")
    return number


def require_tolerance(value: object) -> None:
    """Refuses all but positive finite numbers."""
    require_number("tol", value, 0.0, "a positive relative residual, such as 0.01", strictly=True)


def chosen(setting: str, value: float | Auto) -> float:
    """Returns a setting that must be a number by now.

    Raises:
        ValueError: it still says `auto`.
    """
    if isinstance(value, str):
        raise ValueError(f"{setting} is still {value!r}: apviz.solve chooses it, or call resolve(operator) first")
    return value
