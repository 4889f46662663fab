"""Rule engine: ask rules in order, answer with the first that holds, and say what could not be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVarTuple

from apviz.analysis.diagnosis.limits import Diagnosis, Limit

Subject = TypeVarTuple("Subject")


@dataclass(frozen=True)
class NotMeasured:
    """Quantity that a rule would have needed; the rule is then neither met nor refuted."""

    what: str


def decide(
    rules: Iterable[Callable[[*Subject], Diagnosis | NotMeasured | None]],
    sound: Callable[[*Subject], Diagnosis],
    *subject: *Subject,
) -> Diagnosis:
    """Return the finding of the first rule that holds, or `sound` with what was not measured.

    Each rule examines one measured quantity of the subject, and returns None if it is fine. `sound` may still return a
    cause, if nothing else explains a slow run.
    """
    missing = []
    for rule in rules:
        found = rule(*subject)
        if isinstance(found, Diagnosis):
            return found
        if found is not None:
            missing.append(found.what)
    answer = sound(*subject)
    if not missing or answer.limit is not Limit.NOTHING:
        return answer
    return replace(answer, evidence=f"{answer.evidence} Not checked: {', '.join(dict.fromkeys(missing))}.")
