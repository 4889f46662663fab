"""Which solve to record with pictures."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.settings.recording import MAX_RECORDED_VALUES, RecordChoice


def test_the_solver_has_the_settings_and_its_block_size_is_ignored_by_conjugate_gradients():
    solver = RecordChoice(rule="random", partition="kd-tree", block_size=9, overlap=1.0, tol=0.1).solver(50, 3)
    assert solver.label == "AP random kd-tree +100% b=9" and solver.tol == 0.1
    assert RecordChoice(method="cg").solver(50, 0).label == "CG"


def test_more_pictures_than_a_run_may_record_are_refused_with_how_many_it_may():
    most = MAX_RECORDED_VALUES // 50_000 - 1
    assert RecordChoice(updates=most).solver(50_000, 0)
    with pytest.raises(ValueError, match=rf"record at most {most} updates, or take fewer rows"):
        RecordChoice(updates=most + 1).solver(50_000, 0)
