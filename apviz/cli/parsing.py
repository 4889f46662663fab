"""Values of options: lists separated by commas, decimal marks, and orders of dates."""

from __future__ import annotations

from typing import Any

from apviz import datasets
from apviz.datasets.tables.columns import ORDERS
from apviz.datasets.tables.decimals import MARKS
from apviz.datasets.tables.table import inspect_table


def words(text: str) -> list[str]:
    """Return the words of a list separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def integers(text: str, option: str) -> list[int]:
    """Return the whole numbers of a list.

    Raises:
        ValueError: names the option.
    """
    try:
        return [int(word) for word in words(text)]
    except ValueError:
        raise ValueError(f"{option} takes whole numbers separated by commas, such as 200,1000; got {text!r}") from None


def floats(text: str | None, option: str) -> list[float] | None:
    """Return the numbers of a list; None if the option was not given.

    Raises:
        ValueError: names the option.
    """
    try:
        return None if text is None else [float(word) for word in words(text)]
    except ValueError:
        raise ValueError(f"{option} takes numbers separated by commas, such as 0.1,0.2; got {text!r}") from None


def decimal_marks(given: list[str] | None) -> str | dict[str, str] | None:
    """Return the decimal mark for all columns, or one for each."""
    return _by_column("--decimal", given, MARKS)


def date_orders(given: list[str] | None) -> str | dict[str, str] | None:
    """Return the order of day and month for all columns, or one for each."""
    return _by_column("--dates", given, tuple(ORDERS))


def _by_column(option: str, given: list[str] | None, answers: tuple[str, ...]) -> str | dict[str, str] | None:
    if not given or given[0] in answers:
        return given[0] if given else None
    split = [word.rpartition("=") for word in given]
    wrong = [word for word, (name, _, answer) in zip(given, split, strict=True) if not name or answer not in answers]
    if wrong:
        named = " or ".join(f"NAME={answer}" for answer in answers)
        raise ValueError(f"{option} takes {' or '.join(answers)} or {named} for one column; got {wrong[0]!r}")
    return {name: answer for name, _, answer in split}


def refuse_choices(dataset: str, choices: dict[str, Any]) -> None:
    """Refuse a choice of columns for a data set of apviz, whose inputs are those of the paper or its source.

    Raises:
        ValueError: names the options.
    """
    if dataset in datasets.registry and (choices.get("inputs") is not None or choices.get("ids") == "drop"):
        raise ValueError(f"--inputs and --ids are for your own tables; {dataset} has its own inputs")


def target_column(path: str, target: str | None, decimal: Any) -> str | int:
    """Return the name or position of a table's target.

    Raises:
        ValueError: no target was given; with the columns that can be one.
    """
    if target is None:
        able = ", ".join(each.name for each in inspect_table(path, decimal=decimal).columns if each.can_be_target)
        raise ValueError(
            f"{path} is a file: say which column to predict with --target NAME (or a position); there are {able}"
        )
    return int(target) if target.lstrip("-").isdigit() else target
