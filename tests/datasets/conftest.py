import os
from pathlib import Path

import pytest

from apviz import datasets


@pytest.fixture
def empty_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point APVIZ_DATA and APVIZ_CACHE to empty folders below the returned one."""
    for variable, name in (("APVIZ_DATA", "data"), ("APVIZ_CACHE", "cache")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    return tmp_path


@pytest.fixture
def need_file():
    """Return a function that skips the test unless a file, given by name or data set, is in APVIZ_DATA."""

    def check(name: str) -> None:
        folder = os.environ.get("APVIZ_DATA")
        if not folder:
            pytest.skip("APVIZ_DATA is not set: no real data")
        files = datasets.card(name).files if name in datasets.registry else (name,)
        places = (Path(folder), Path(folder) / name)
        if not any((place / file).is_file() for place in places for file in files):
            pytest.skip(f"APVIZ_DATA has no file of {name}")

    return check
