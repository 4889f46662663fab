"""What a new visitor is shown of a table that its owner removed."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.pages.compare.page import Compare
from apviz.dashboard.store.own_data import OwnData, check, look_into
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.datasets.tables.table import TableChoices
from tests.dashboard.visiting import visitor

TABLE = "a,b,price\n" + "\n".join(f"{k / 60},{(7 * k % 60) / 60},{(k % 13) / 13}" for k in range(60))


@pytest.fixture
def arrives(tmp_path):
    """Return a function that opens page Compare for a new visitor of one folder."""

    def arrive():
        page = Compare(visitor(RunsFolder(tmp_path / "runs"), rhs=1, own=OwnData(tmp_path / "runs" / ".data")))
        page.main()
        page.open()
        page.tick()
        return page

    return arrive


def solve(page):
    page.methods.methods = ["cg"]
    page.run()
    page.job.join(60)
    page.tick()
    return page.job.done


def data_of(page):
    return {trace.attrs["dataset"] for trace in page._traces.values()}


def test_runs_of_a_removed_table_are_shown_first_only_if_there_are_no_others(arrives, tmp_path):
    (path := tmp_path / "mine.csv").write_text(TABLE)
    owner = arrives()
    owner.shared.system.n = 100
    (on_china,) = solve(owner)
    owner.shared.system.use_own(check(look_into(path, 1), TableChoices(target="price")))
    solve(owner)
    assert data_of(arrives()) == {"mine.csv"}

    owner.shared.system.remove_own()
    newcomer = arrives()
    assert data_of(newcomer) == {"china"} and newcomer.shared.system.n == 100
    assert not newcomer.notice.view.visible, "the settings are those of the runs"

    owner.shared.runs.delete(on_china)
    newcomer = arrives()
    assert data_of(newcomer) == {"mine.csv"}
    assert newcomer.notice._words.object == "The charts show mine.csv, a data set that is not here. Press Run."
