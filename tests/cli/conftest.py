import logging
from pathlib import Path

import pytest

from tests.cli.soundings import DEPTH, GIVEN, NEW, run


@pytest.fixture(autouse=True)
def quiet():
    """Undo what a command does to logging."""
    level = logging.getLogger("apviz").level
    yield
    logging.captureWarnings(False)
    logging.getLogger("apviz").setLevel(level)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a table, a fitted model and rows to predict."""
    folder = tmp_path_factory.mktemp("soundings")
    DEPTH.to_csv(folder / "depth.csv", index=False)
    NEW.to_csv(folder / "new.csv", index=False)
    done = run(
        "fit", folder / "depth.csv", "--target", "z", "--inputs", "east,north", "--out", folder / "m.apviz", *GIVEN
    )
    assert done.exit_code == 0, done.output
    return folder
