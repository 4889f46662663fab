"""Scripts in untrusted texts never run on any page."""

from __future__ import annotations

import json
import shutil

import pytest

from apviz.dashboard.pages import PAGES
from tests.dashboard.browser.server import SHOWN, Server

#: a script in HTML, in an attribute, and in a formula within an attribute
SCRIPT = (
    "\"'><img src=x onerror=window.hacked=1><svg onload=window.hacked=1>{{hacked=1}}</script><script>hacked=1</script>"
)
HACKED = "() => window.hacked !== undefined"


@pytest.fixture
def strange(recorded, tmp_path):
    """Return a folder of runs with scripts in names, notes and every free text."""
    folder = shutil.copytree(recorded, tmp_path / "runs")
    for number, path in enumerate(sorted(folder.glob("*.zarr"))):
        metadata = json.loads((path / "zarr.json").read_text())
        metadata["attributes"]["method"]["rule"] = SCRIPT
        for key in (
            "method_name",
            "method_details",
            "dataset",
            "device_name",
            "engine",
            "stop_message",
            "apviz_version",
        ):
            metadata["attributes"][key] += SCRIPT
        (path / "zarr.json").write_text(json.dumps(metadata))
        name = f"{number}<img src=x onerror=window.hacked=1>"
        path.rename(folder / f"{name}.zarr")
        (folder / ".notes").mkdir(exist_ok=True)
        (folder / ".notes" / f"{name}.txt").write_text(SCRIPT)
        (folder / ".notes" / f"{name}.tags").write_text("<svg onload=window.hacked=1>")
    return folder


@pytest.mark.slow
def test_scripts_in_names_labels_and_notes_of_runs_are_shown_as_text_on_every_page(strange, visit):
    server = Server(strange)
    try:
        someone = visit(to=server)
        for page in PAGES:
            someone.go(page=page)
            someone.tab.wait_for_timeout(1500)
            assert not someone.tab.evaluate(HACKED), page
        someone.go(page="runs")
        row = someone.tab.get_by_text("0<img src=x onerror=window.hacked=1>").locator(SHOWN).first
        row.wait_for()
        row.click()
        someone.says("Selected run")
        someone.tab.wait_for_timeout(1500)
        assert not someone.tab.evaluate(HACKED)
        someone.server_may_go = True
    finally:
        server.kill()
