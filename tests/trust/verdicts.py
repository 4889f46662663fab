"""Verdicts on cases, and how an error of a case becomes one."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: wall-clock limit of a case on a busy machine, in seconds
ENDLESS = 120.0
#: documented errors of a solve
REFUSALS = (ValueError, MemoryError)


@dataclass(frozen=True)
class Verdict:
    """Outcome: `converged`, `ended` (and says so), `refused`, or the failure: `false`, `error`, `endless`."""

    how: str
    said: str = ""
    claimed: float = float("nan")
    true: float = float("nan")

    @property
    def is_wrong(self) -> bool:
        return self.how in ("false", "error", "endless")


def judged(*refusals: type[Exception]) -> Callable[[Callable[..., Verdict | str]], Callable[..., Verdict]]:
    """Make a judge of a function that returns a verdict, or in a word how a case ended; warnings are ignored.

    Args:
        refusals: documented errors, which need a message; a failed assertion is a false claim, any other error a fault.
    """

    def decorate(check: Callable[..., Verdict | str]) -> Callable[..., Verdict]:
        @functools.wraps(check)
        def judge(*case: Any) -> Verdict:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = check(*case)
                except refusals as refused:
                    said = str(refused)
                    return Verdict("refused" if said else "error", said or f"{type(refused).__name__} without a word")
                except AssertionError as wrong:
                    return Verdict("false", str(wrong))
                except Exception as error:
                    return Verdict("error", f"{type(error).__name__}: {error}")
            return found if isinstance(found, Verdict) else Verdict(found)

        return judge

    return decorate
