"""The folder of models: names, and how many predictions it keeps."""

from __future__ import annotations

import pytest

from apviz.dashboard.store.models import KEPT, ModelRecord, Models, PredictionsRecord

RECORD = ModelRecord(
    dataset="t.csv", target="y", kernel="RBF", rows=3, total=4, hyperparameters=[], facts=[], notes=[], warnings=[],
    checked={},
)  # fmt: skip


def predicted(number: int) -> PredictionsRecord:
    return PredictionsRecord(
        source=f"{number}.csv", rows=1, what="", accuracy="", notes=[], warnings=[], head={"x": [number]}, endings=[]
    )


@pytest.fixture
def models(tmp_path):
    models = Models(tmp_path)
    for _ in range(2):
        models.add("fit", lambda path: path.write_text("model"), RECORD)
    return models


def test_a_second_model_of_a_name_gets_another_one_and_both_are_found_again(models, tmp_path):
    assert sorted(Models(tmp_path).names()) == ["fit", "fit (2)"] and Models(tmp_path).record("fit") == RECORD
    models.delete("fit")
    assert models.names() == ["fit (2)"]
    for name in ("fit", "", "../fit", ".hidden"):
        with pytest.raises((FileNotFoundError, ValueError)):
            models.record(name)


def test_the_last_predictions_are_kept_and_failed_ones_leave_nothing(models):
    assert models.predictions("fit") is None
    for number in range(KEPT + 2):
        with models.new_predictions("fit") as (_, keep):
            keep(predicted(number))
    with pytest.raises(RuntimeError), models.new_predictions("fit"):
        raise RuntimeError
    _, last = models.predictions("fit")
    assert last == predicted(KEPT + 1)
    assert len(list((models.folder / "fit").glob("*predictions*"))) == KEPT


def test_a_deleted_model_comes_back_whole_under_a_free_name_and_is_removed_after_a_week(models, tmp_path):
    with models.new_predictions("fit") as (_, keep):
        keep(predicted(1))
    deleted = models.delete("fit")
    models.add("fit", lambda path: path.write_text("another"), RECORD)
    assert models.restore(deleted.key) == "fit (3)" and models.deleted() == []
    assert models.path_of("fit (3)").read_text() == "model" and models.predictions("fit (3)")[1] == predicted(1)
    old, new = models.delete("fit (2)"), models.delete("fit")
    (models.folder / ".trash" / old.key).rename(models.folder / ".trash" / str(int(old.key) - 8 * 86_400 * 10**9))
    assert [each.key for each in Models(tmp_path).deleted()] == [new.key]
