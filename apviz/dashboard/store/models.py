"""Fitted models and their last predictions, in folders of their names in `.models` of the folder of runs.

Deleted ones are kept for some days in `.trash` of that folder.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

from apviz.dashboard.store.importing import require_inside
from apviz.dashboard.store.trash import Deleted, Trash
from apviz.files import folder_made_whole

#: Files of a model, and of a set of predictions: `PICTURE` has what is drawn of them.
MODEL, RECORD, PICTURE, TABLE = "model.apviz", "record.json", "picture.nc", "predictions"
#: Sets of predictions that are kept of a model.
KEPT: Final = 3


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """What a page shows of a model without loading it.

    Attributes:
        dataset, target, kernel: Names of the data, the column that is predicted and the kernel.
        rows, total: Numbers of the rows that were fitted, and of the table.
        hyperparameters: Name, value and explanation of each, in the units of the table.
        facts: Sentences on the model and its accuracy.
        notes, warnings: Sentences on the preparation of the table, and warnings of the fit.
        checked: Observations, and their predictions (mean, sd) from all other rows, by name.
        data: Input and target of rows, for one input; empty for more.
        decimal: Decimal marks of ambiguous columns.
    """

    dataset: str
    target: str
    kernel: str
    rows: int
    total: int
    hyperparameters: list[list[str]]
    facts: list[str]
    notes: list[str]
    warnings: list[str]
    checked: dict[str, list[float]]
    data: list[list[float]] = field(default_factory=list)
    decimal: Any = None


@dataclass(frozen=True, kw_only=True)
class PredictionsRecord:
    """What a page shows of predictions.

    Attributes:
        source: What was predicted: the name of a table, or a grid in words.
        rows: Number of points.
        what: Sentence on the predicted columns, with their units.
        accuracy: How far they may be from the exact posterior.
        notes, warnings: Sentences on the rows, and warnings of the prediction.
        head: The first rows, by column.
        endings: Endings of the files for download.
    """

    source: str
    rows: int
    what: str
    accuracy: str
    notes: list[str]
    warnings: list[str]
    head: dict[str, list[Any]]
    endings: list[str]


class Models:
    """Folder of models. A restarted dashboard on the same runs finds them again.

    Raises:
        FileNotFoundError: No model has the name.
        ValueError: The name leads out of the folder.
    """

    def __init__(self, runs: Path) -> None:
        self.folder = runs / ".models"
        self._trash = Trash(self.folder / ".trash")
        self._trash.remove_expired()

    def names(self) -> list[str]:
        """Return the names of the models, the newest first."""
        found = [each.parent for each in self.folder.glob(f"[!.]*/{RECORD}")]
        return [each.name for each in sorted(found, key=lambda each: -(each / MODEL).stat().st_mtime_ns)]

    def path_of(self, name: str) -> Path:
        """Return the path of a model."""
        require_inside(name)
        path = self.folder / name / MODEL
        if not path.is_file():
            raise FileNotFoundError(f"there is no model {name}; it may have been deleted")
        return path

    def record(self, name: str) -> ModelRecord:
        """Return the record of a model."""
        return ModelRecord(**json.loads(self.path_of(name).with_name(RECORD).read_text("utf-8")))

    def add(self, wanted: str, save: Callable[[Path], None], record: ModelRecord) -> str:
        """Keep a model under the wanted name, or the next free one, and return the name.

        Args:
            save: Writes the model to a path.
        """
        for name in self._free_names(wanted):
            try:
                with folder_made_whole(self.folder / name) as made:
                    save(made / MODEL)
                    _write(made, record)
                return name
            except OSError:
                # another visitor may have taken the name first
                if not os.path.lexists(self.folder / name):
                    raise
        raise AssertionError  # names do not end

    def delete(self, name: str) -> Deleted:
        """Move a model and its predictions into the trash, from where `restore` brings them back."""
        return self._trash.put(name, [self.path_of(name).parent])

    def deleted(self) -> list[Deleted]:
        """Return the models in the trash, the last deleted first."""
        return self._trash.all()

    def restore(self, key: str) -> str:
        """Restore a deleted model, and return its name, which differs if a new model has the old one."""
        return self._trash.restore(key, lambda name: [self.folder / name], lambda name: next(self._free_names(name)))

    def _free_names(self, wanted: str) -> Iterator[str]:
        """Yield the wanted name and others like it, without those that are taken."""
        for name in chain([wanted], (f"{wanted} ({number})" for number in count(2))):
            require_inside(name)
            if not os.path.lexists(self.folder / name):
                yield name

    @contextmanager
    def new_predictions(self, name: str) -> Iterator[tuple[Path, Callable[[PredictionsRecord], None]]]:
        """Yield a folder for predictions of a model, kept if all is well, and a function that writes their record."""
        place = self.path_of(name).parent
        with folder_made_whole(place / f"{TABLE}-{time.time_ns()}") as made:
            yield made, lambda record: _write(made, record)
        for old in self._predictions(name)[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)

    def predictions(self, name: str) -> tuple[Path, PredictionsRecord] | None:
        """Return the folder and the record of the last predictions of a model; None if there are none."""
        for path in self._predictions(name):
            return path, PredictionsRecord(**json.loads((path / RECORD).read_text("utf-8")))
        return None

    def _predictions(self, name: str) -> list[Path]:
        found = [each.parent for each in self.path_of(name).parent.glob(f"{TABLE}-*/{RECORD}")]
        return sorted(found, key=lambda each: each.name, reverse=True)


def _write(folder: Path, record: ModelRecord | PredictionsRecord) -> None:
    (folder / RECORD).write_text(json.dumps(asdict(record), ensure_ascii=False), "utf-8")
