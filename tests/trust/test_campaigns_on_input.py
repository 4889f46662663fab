"""A slice of every campaign on input: traces of strangers, tables, arguments, addresses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import apviz
from tests.trust import addresses, arguments, strangers, tables
from tests.trust.slices import of_which_one_is_quick, wrong


@pytest.mark.parametrize("first", of_which_one_is_quick([0, 2]))
def test_a_changed_trace_is_rejected_or_escaped_and_never_hides_the_good_one(first):
    assert not wrong(strangers, first, 2 if first == 0 else 6)


def test_the_campaign_finds_a_report_without_escaping(monkeypatch):
    def unescaped(traces, path):
        path.write_text(f"<td>CG</td>{strangers.MARK}")
        return path

    monkeypatch.setattr(strangers, "write_report", unescaped)
    assert strangers.judge(0).how == "false"


@pytest.mark.slow
def test_changes_of_every_kind_are_tried(tmp_path):
    import shutil

    kinds = set()
    for seed in range(60):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        shutil.copytree(strangers.good() / "ap.zarr", tmp_path / "t")
        kinds.add(strangers.mutate(tmp_path / "t", np.random.default_rng(seed)).split()[0])
    assert kinds >= {"flip", "cut", "lose", "lie", "rename", "link", "strange"}


@pytest.mark.parametrize("first", of_which_one_is_quick([0, 20]))
def test_tables_are_read_as_written_or_rejected_in_one_sentence(first):
    assert not wrong(tables, first, 20 if first == 0 else 40)


def test_tables_of_every_kind_are_tried():
    cases = [tables.case(seed) for seed in range(150)]
    whole = [each for each in cases if each.truth is not None]
    assert 30 < len(whole) < 120
    written = " ".join(each.words["written"] for each in whole)
    for word in (".csv", ".tsv", ".gz", "Parquet", "utf-16", "cp1252", "decimal ,", "zstd"):
        assert word in written
    then = {each.words.get("then", "").split()[0] for each in cases if each.words.get("then")}
    assert then >= {"cut", "flip", "insert", "called", "a", "zip"}


def test_the_campaign_finds_a_table_read_as_other_numbers(monkeypatch):
    from apviz.datasets.tables import reading

    seed = next(
        seed for seed in range(99) if tables.case(seed).truth is not None and tables.judge(seed).how.startswith("read")
    )

    def reversed_by(read):
        return lambda *args, **given: read(*args, **given).iloc[::-1].reset_index(drop=True)

    monkeypatch.setattr(reading.pd, "read_csv", reversed_by(reading.pd.read_csv))
    monkeypatch.setattr(reading, "READERS", {endings: reversed_by(read) for endings, read in reading.READERS.items()})
    assert tables.judge(seed).how == "false"


@pytest.mark.parametrize("first", of_which_one_is_quick(range(0, 300, 100)))
def test_odd_arguments_are_used_or_rejected_by_name(first):
    assert not wrong(arguments, first, 100)


def test_every_public_class_and_function_that_takes_settings_is_called():
    called = {recipe.name.split(".")[0] for recipe in arguments.recipes()}
    # made by apviz and not by users, or without a setting
    without = {
        "Advice", "Hook", "Kernel", "ModelAdvice", "NotConverged", "Prepared", "Solution", "Stationary", "StopReason",
        "Trace", "TrainingError", "TrainingHook", "TrainingProgress", "TrainingSettings",
    }  # fmt: skip
    public = {name for name in apviz.__all__ if callable(getattr(apviz, name))}
    assert public - without - called == set()


def test_the_campaign_finds_undocumented_errors_and_errors_without_a_name(monkeypatch):
    seed = next(seed for seed in range(999) if arguments.case(seed).recipe.name == "open_trace")
    for error in (ValueError("no"), KeyError("path"), ValueError("path\npath")):

        def failing(path, error=error):
            raise error

        made = arguments.case(seed)
        monkeypatch.setattr(
            arguments, "case", lambda seed, made=made, use=failing: replace(made, recipe=replace(made.recipe, use=use))
        )
        assert arguments.judge(seed).how == "error"


@pytest.mark.parametrize("first", of_which_one_is_quick([0, 20]))
def test_addresses_and_fields_are_accepted_or_omitted_with_a_message(first):
    assert not wrong(addresses, first, 20 if first == 0 else 40)


def test_the_campaign_finds_a_setting_that_is_omitted_silently(monkeypatch):
    apply = addresses.address.apply
    monkeypatch.setattr(addresses.address, "apply", lambda query, models: apply(query, models)[:0])
    assert any(addresses.judge(seed).how == "false" for seed in range(20))
