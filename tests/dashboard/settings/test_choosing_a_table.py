"""Dropping your own file, choosing its columns, and using it."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.own_table import OwnTablePanel
from apviz.dashboard.settings.system_choice import SystemChoice, describe_dataset
from apviz.dashboard.store.own_data import OwnData
from tests.dashboard.dropping import drop, take_away

GOOD = "a,b,price\n" + "\n".join(f"{k / 60},{(7 * k % 60) / 60},{(k % 13) / 13}" for k in range(60))
OTHER = GOOD.replace("0.", "1.")
#: sixty rows and five duplicates, decimal commas, dates in words, three gaps, a constant, and row names
MESSY = "kürzel;größe;stadt;tag;währung;preis\n" + "".join(
    f"id-{k};{'' if k in (3, 4) else f'{k % 9},5'};{'n.a.' if k == 7 else ('Köln', 'Bern', 'Wien')[k % 3]};"
    f"{1 + k % 28:02}.03.2021;CHF;{k * k % 101},25\n"
    for k in [*range(60), *range(10, 15)]
)


class Panel:
    """The panel with the actions of a visitor."""

    def __init__(self, folder, limits=None):
        self.system = SystemChoice(limits or Limits(), OwnData(folder / "runs" / ".data"))
        self.folder = folder / "session"
        self.folder.mkdir()
        self.panel = OwnTablePanel(self.system, self.folder)
        self.system.param.watch(lambda event: self.panel.show_chosen(), "dataset")

    def __getattr__(self, name):
        return getattr(self.panel, name)

    def drops(self, text, name="mine.csv"):
        drop(self.panel.drop, name, text.encode() if isinstance(text, str) else text)

    def takes_away(self, name):
        take_away(self.panel.drop, name)

    def press(self, button):
        button.clicks += 1

    def received(self):
        return [path for path in self.folder.rglob("*") if path.is_file()]

    @property
    def said(self):
        """Return the description of the prepared data."""
        return f"{self.summary.object}\n{self.notes.object}"

    @property
    def types(self):
        return {row[0]: row[2] for row in self.columns.rows}


@pytest.fixture
def panel(tmp_path):
    return Panel(tmp_path)


def test_a_messy_file_is_read_shown_and_used_at_once(panel):
    panel.drops(MESSY.encode("latin-1"))
    assert panel.dialog.open and not panel.note.visible
    assert "65 rows, 6 columns. Latin-1 (Windows-1252), separated by semicolons, decimal commas" in panel.how.object
    assert panel.types == {
        "kürzel": "text", "größe": "number", "stadt": "text", "tag": "date", "währung": "constant", "preis": "number",
    }  # fmt: skip
    assert panel.target.value == "preis" and panel.columns.ticked == ["größe", "stadt", "tag"]
    said = panel.said
    # three of 65 rows have a gap
    for words in (
        "62 rows: 49 to train on, 13 to test; 5 inputs",
        "3 of 65 rows are dropped because a value is missing: größe (2), stadt (1)",
        "tag: days since 2021-03-01",
        "stadt: 3 inputs of 0 or 1 for 3 texts",
        "Left out because every row has the same value: währung",
        "Left out because nearly every row has its own text: kürzel (60 different: id-10, id-11, ",
    ):
        assert words in said
    panel.press(panel.use)
    assert not panel.dialog.open and panel.system.dataset == "mine.csv" and panel.system.n == 49
    assert panel.system.spec().load().feature_names[-1] == "tag"
    assert "49 rows to train on. Target: preis" in describe_dataset(panel.system)
    assert "5 of 62 rows have the inputs of an earlier row, 5 of them with the same" in describe_dataset(panel.system)
    assert panel.received() == []


def test_a_table_with_too_few_rows_is_refused_with_the_number_needed_and_its_name_as_written(panel):
    panel.drops(b"a,b\n" + b"".join(b"%d,%d\n" % (row, row % 7) for row in range(12)))
    assert panel.summary.object == "mine.csv has 12 rows; at least 13 are needed, to train and to test"
    assert panel.use.disabled


def test_the_chosen_columns_and_treatment_of_missing_values_are_used(panel):
    panel.drops(MESSY)
    panel.columns.ticked = ["größe", "währung", "preis"]
    panel.missing.value, panel.duplicates.value = "fill", "drop"
    # the five duplicates, and rows 46 and 55, which agree in the ticked columns only
    assert "59 rows: 47 to train on" in panel.said
    assert "2 missing values are filled: größe (2, by the median)" in panel.said
    panel.target.value = "tag"
    assert "tag: days since" in panel.said and "2 inputs" in panel.said
    panel.target.value = "preis"
    panel.press(panel.use)
    data = panel.system.spec().load()
    assert data.feature_names == ("größe",) and len(data.train_x) + len(data.test_x) == 59
    assert "left out because every row has the same value: währung" in data.notes


COUNTED = "sample_id,size,price\n" + "\n".join(f"{100_001 + k},{k * 7 % 31 / 31},{k % 13 / 13}" for k in range(60))


def test_a_column_that_only_counts_the_rows_is_not_ticked_and_a_warning_above_the_button_says_why(panel):
    panel.drops(COUNTED)
    assert panel.columns.ticked == ["size"]
    (row,) = [row for row in panel.columns.rows if row[0] == "sample_id"]
    assert row[4] == "from 100001 to 100060; only counts the rows"
    assert panel.ids.visible and "only counts the rows, so it is not ticked" in panel.ids.object
    order = [each for each in panel.dialog.objects if each is panel.ids or panel.use in getattr(each, "objects", [])]
    assert order[0] is panel.ids
    panel.drops(GOOD)
    assert not panel.ids.visible and panel.columns.ticked == ["a", "b"]


def test_a_choice_that_leaves_no_data_is_reported_and_cannot_be_used(panel):
    panel.drops(MESSY)
    for ticked, words in ((["preis"], "No input is ticked"), (["währung"], "no input column varies")):
        panel.columns.ticked = ticked
        assert words in panel.said and panel.summary.severity == "error" and panel.use.disabled
    panel.columns.ticked = ["größe"]
    assert panel.summary.severity == "info" and not panel.use.disabled
    panel.drops("a,b\n" + "x,y\nz,y\n" * 20)
    assert "No column of this file can be predicted" in panel.said and panel.use.disabled


TICKS = "volume;price;spread\n" + "\n".join(
    f"{1 + 7 * k % 400},{100 + k % 800};{11 + k % 37},{k % 90 + 10};{k * k}" for k in range(60)
)


def test_ambiguous_numbers_are_shown_raw_with_a_question(panel):
    panel.drops(TICKS)
    (choice,) = panel.marks.objects
    assert panel.marks.visible and choice.label == "volume: “1,100” is" and choice.value == ""
    assert list(choice.options) == ["choose …", "1100 (commas between thousands)", "1.1 (decimal comma)"]
    rows = {row[0]: [str(cell) for cell in row] for row in panel.columns.rows}
    assert any("1,100 (?)" in cell for cell in rows["volume"]) and any("11,10 → 11.1" in c for c in rows["price"])
    assert "Volume can be read in two ways: “1,100” is 1100" in panel.said and panel.use.disabled
    panel.columns.ticked = ["price"]
    assert not panel.use.disabled  # the ambiguous column is not needed
    panel.columns.ticked = ["price", "volume"]
    assert panel.use.disabled
    choice.value = "."
    assert panel.columns.ticked == ["price", "volume"] and not panel.use.disabled
    assert panel.marks.objects[0].value == "."  # and can be changed
    panel.press(panel.use)
    own = panel.system.own.find(panel.system.dataset)
    assert own.choices.decimal == {"volume": "."}
    data = panel.system.spec().load()
    assert set(data.feature_names) == {"volume", "price"}
    panel.press(panel._change)
    assert panel.marks.objects == [] or panel.marks.objects[0].value == "."
    panel.drops(GOOD)
    assert not panel.marks.visible and panel.marks.objects == []


def test_ambiguous_dates_are_asked_for_too(panel):
    panel.drops("when,price\n" + "\n".join(f"{1 + k % 12:02}/{1 + k // 12:02}/2020,{k * k}" for k in range(60)))
    (choice,) = panel.marks.objects
    assert choice.label == "when: “02/01/2020” is" and panel.use.disabled
    assert list(choice.options) == ["choose …", "2020-01-02 (day first)", "2020-02-01 (month first)"]
    choice.value = "month-first"
    assert not panel.use.disabled
    panel.press(panel.use)
    own = panel.system.own.find(panel.system.dataset)
    assert own.choices.dates == {"when": "month-first"} and own.choices.decimal is None
    assert panel.system.spec().load().feature_names == ("when",)


def test_outliers_and_equal_columns_are_reported_before_a_table_is_used(panel):
    lines = [f"{k / 60},{k / 60},{(7 * k % 60) / 60 if k != 4 else 1e6},{(k % 13) / 13}" for k in range(60)]
    panel.drops("a,b,c,price\n" + "\n".join(lines))
    assert "c is 1e+06 in row 5" in panel.said and "a and b are equal" in panel.said


def test_a_file_without_names_is_shown_so_and_the_header_can_be_switched(panel):
    lines = GOOD.split("\n")
    panel.drops("\n".join(lines[2:]))
    assert panel.target.options == ["column 1", "column 2", "column 3"] and not panel.header.value
    panel.header.value = True
    assert panel.target.options == lines[2].split(",") and "58 rows" in panel.how.object
    # a first line of equal numbers cannot be names
    panel.drops("\n".join(lines[1:]))
    panel.header.value = True
    assert "more than one column called 0.0" in panel.said
    assert panel.dialog.open and not panel.header.value and panel.target.options == ["column 1", "column 2", "column 3"]


def test_a_server_that_solves_fewer_rows_states_their_number(tmp_path):
    panel = Panel(tmp_path, Limits(max_n=20))
    panel.drops(GOOD)
    assert "48 to train on" in panel.said and "This server solves up to 20 of them" in panel.said
    panel.press(panel.use)
    assert panel.system.n == 20


def test_a_dropped_file_does_not_change_the_one_in_use(panel):
    panel.drops(GOOD)
    assert panel.system.dataset == "china"
    panel.press(panel.use)
    own = panel.system.spec().own
    assert panel.system.dataset == "mine.csv" and own.path.read_text() == GOOD
    panel.drops(OTHER)
    assert panel.system.spec().own == own and own.path.read_text() == GOOD
    panel.press(panel.use)
    assert panel.system.dataset == "mine.csv (2)"
    assert panel.system.spec().own.path.read_text() == OTHER and own.path.read_text() == GOOD


def test_a_table_that_a_run_uses_is_not_removed(panel):
    panel.drops(GOOD)
    panel.press(panel.use)
    panel.system.in_use = lambda: {"mine.csv"}
    panel.press(panel._remove)
    assert panel.system.dataset == "mine.csv" and panel.system.own.find("mine.csv") is not None
    assert panel.note.visible and panel.note.object.startswith("mine.csv is in use by a run. Stop the run")


def test_a_table_can_be_used_again_with_other_columns_and_removed(panel):
    panel.drops(GOOD)
    panel.columns.ticked = ["b"]
    panel.press(panel.use)
    assert panel._of_chosen.visible
    panel.press(panel._change)
    assert panel.dialog.open and panel.columns.ticked == ["b"] and panel.target.value == "price"
    panel.target.value = "a"
    panel.press(panel.use)
    assert panel.system.dataset == "mine.csv (2)"
    assert [panel.system.own.find(name).choices.target for name in panel.system.own.names()] == ["price", "a"]
    panel.press(panel._remove)
    assert panel.system.dataset == "china" and not panel._of_chosen.visible
    assert panel.system.own.names() == ["mine.csv"] and "mine.csv (2)" not in panel.system.param.dataset.objects


def test_unused_files_do_not_accumulate(panel):
    for text in (GOOD, OTHER, GOOD, "one\n1\n"):
        panel.drops(text)
    assert panel.received() == [] and panel.system.own.names() == []
    assert panel.note.visible and "mine.csv has 1 column" in panel.note.object and not panel.dialog.open


def test_a_file_stays_after_a_late_message_about_the_removal_of_the_previous_one(panel):
    panel.drops(OTHER, "large.csv")
    panel.drops(GOOD)
    panel.takes_away("large.csv")
    panel.press(panel.use)
    assert panel.system.dataset == "mine.csv"


def test_another_type_of_file_is_rejected_with_the_reason(panel):
    panel.drops(b"x", "mine.xlsx")
    assert panel.note.visible and "mine.xlsx: files ending in .csv" in panel.note.object


@pytest.mark.parametrize(("text", "name"), [(GOOD, "mine.csv"), ("one\n1\n", "mine.csv"), (b"x", "mine.xlsx")])
def test_the_box_is_empty_again_after_a_file_is_left_unused_or_refused(panel, text, name):
    emptied = panel.emptier.times
    panel.drops(text, name)
    if panel.dialog.open:
        panel._close()
    assert panel.emptier.times > emptied
    assert panel.received() == [] and not panel.dialog.open
