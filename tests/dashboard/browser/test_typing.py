"""A run uses the values shown in fields, or does not start."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

import apviz

SMALL = {"n": 300, "rhs": 2, "methods": "cg,ap", "rules": "cyclic", "block_sizes": 60, "source": "by hand"}


def traces(server) -> set[str]:
    return {path.name for path in server.runs.iterdir()}


def both_runs(visitor) -> list[str]:
    """Wait for the end of a comparison of two methods, and return the names of its runs."""
    visitor.says("2 runs recorded")
    visitor.tab.wait_for_function("/runs=[^&]+(,|%2C)/i.test(location.search)")
    return parse_qs(urlsplit(visitor.tab.url).query)["runs"][0].split(",")


def held(visitor, *words: str) -> None:
    """Wait until the alert next to Run says all of `words`."""
    alert = visitor.tab.get_by_role("alert").filter(has_text="Cannot run")
    for word in words:
        alert = alert.filter(has_text=word)
    alert.wait_for()


#: chip of the editor of a field
CHIPS = {"Block size b": "Methods", "Noise variance σ²": "Noise", "Training rows": "Rows", "Tolerance": "Methods"}
#: label of a field: an invalid value, its message, and a valid value with the name and number in a trace
FIELDS = {
    "Block size b": ("foo, -3", "whole numbers above 0", "75", "block_size", 75),
    "Noise variance σ²": ("-1", "a finite number above 0", "0.03", "noise", 0.03),
    "Training rows": ("0", "a whole number from 10 to 5,000", "320", "n", 320),
    "Tolerance": ("0", "a number above 0 and at most 1", "0.5", "tol", 0.5),
}


@pytest.mark.slow
def test_nothing_runs_while_a_field_is_invalid_and_then_all_shown_values_are_used(visit, server):
    someone = visit().go(**SMALL)
    before = traces(server)
    for label, (bad, *_) in FIELDS.items():
        someone.edit(CHIPS[label]).field(label).fill(bad)
    for label, (bad, accepted, good, *_) in FIELDS.items():
        someone.press("Run")
        held(someone, label, bad, accepted)
        field = someone.edit(CHIPS[label]).field(label)
        assert field.input_value() == bad
        if label == list(FIELDS)[-1]:
            # one invalid field is left, which prevents the run
            someone.tab.wait_for_timeout(1000)
        assert traces(server) == before
        field.fill(good)

    someone.press("Run")
    names = both_runs(someone)
    ran = [apviz.open_trace(server.runs / f"{each}.zarr") for each in names]
    attrs = [{**trace.attrs, "block_size": trace.block_size} for trace in ran]
    for label, (_, _, good, name, value) in FIELDS.items():
        assert someone.edit(CHIPS[label]).field(label).input_value() == good
        assert value in [each.get(name) for each in attrs]
        assert name == "block_size" or all(each[name] == value for each in attrs)


@pytest.mark.slow
def test_a_typed_value_is_used_before_its_field_is_left(visit, server):
    someone = visit().go(**SMALL)
    field = someone.edit("Noise").field("Noise variance σ²")
    field.press("ControlOrMeta+a")
    field.press_sequentially("0.07")
    # like a screen reader: the field keeps the focus
    someone.tab.get_by_role("button", name="Run", exact=True).evaluate("button => button.click()")
    names = both_runs(someone)
    assert {apviz.open_trace(server.runs / f"{each}.zarr").attrs["noise"] for each in names} == {0.07}
