"""Dropping a file of one's own, and using it."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

import panel as pn
import panel_material_ui as pmui
from panel.models.file_dropper import DeleteEvent

from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.system_choice import SystemChoice, upload_panel

GOOD = "a,b,price\n" + "\n".join(f"{k / 60},{(7 * k % 60) / 60},{(k % 13) / 13}" for k in range(60))
OTHER = GOOD.replace("0.", "1.")
CONSTANT = "\n".join(f"{line},{last}" for line, last in zip(GOOD.split("\n"), ["one", *60 * [1]], strict=True))


class Panel:
    """What a visitor does with it."""

    def __init__(self, folder):
        self.system, self.folder = SystemChoice(Limits()), folder
        everything = upload_panel(self.system, folder)
        (self._drop,) = everything.select(pn.widgets.FileDropper)
        (self._use,) = everything.select(pmui.Button)
        (self.target,) = everything.select(pmui.Select)
        (self.note,) = everything.select(pmui.Alert)

    def drop(self, text, name="mine.csv"):
        self._drop.value = {name: text.encode()}

    def takes_away(self, name):
        self._drop._process_event(DeleteEvent(None, {"name": name}))

    def use(self):
        self._use.clicks += 1

    def files(self):
        return [path for path in self.folder.rglob("*") if path.is_file()]


@pytest.fixture
def panel(tmp_path):
    return Panel(tmp_path)


def test_a_file_that_was_only_dropped_changes_nothing_of_the_one_in_use(panel):
    panel.drop(GOOD)
    assert panel.system.dataset == "china"
    panel.use()
    upload = panel.system.spec().upload
    assert panel.system.dataset == "mine.csv" and upload.path.read_text() == GOOD
    panel.drop(OTHER)
    assert panel.system.spec().upload == upload and upload.path.read_text() == GOOD
    panel.use()
    assert panel.system.dataset == "mine.csv (2)"
    assert panel.system.spec().upload.path.read_text() == OTHER and upload.path.read_text() == GOOD


def test_a_file_can_be_used_again_with_another_column(panel):
    panel.drop(GOOD)
    panel.use()
    panel.target.value = "a"
    panel.use()
    assert [upload.target for upload in panel.system.uploads.values()] == ["price", "a"]
    assert panel.system.spec().upload.target == "a" and len(panel.files()) == 1


def test_a_file_that_is_refused_can_be_used_with_another_column(panel):
    panel.drop(CONSTANT)
    panel.use()
    assert panel.note.visible and "the target one is constant" in panel.note.object
    assert panel.system.dataset == "china"
    panel.target.value = "price"
    panel.use()
    assert panel.system.dataset == "mine.csv" and not panel.note.visible


def test_files_that_nobody_used_do_not_pile_up(panel):
    for text in (GOOD, OTHER, GOOD, "one\n1\n"):
        panel.drop(text)
    assert panel.files() == []


def test_a_file_stays_when_the_browser_tells_late_that_the_one_before_was_taken_away(panel):
    panel.drop(CONSTANT, "large.csv")
    panel.drop(GOOD)
    panel.takes_away("large.csv")
    panel.use()
    assert panel.system.dataset == "mine.csv"
    panel.drop(CONSTANT, "constant.csv")
    panel.use()
    panel.takes_away("mine.csv")
    assert panel.note.visible and "the target one is constant" in panel.note.object
