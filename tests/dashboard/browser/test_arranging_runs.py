"""The page Runs in a browser: hidden runs, marked numbers, an outlier and a damaged trace next to others."""

from __future__ import annotations

import json
import re
import shutil

import pytest

pytest.importorskip("panel")

from tests.dashboard.browser.server import Server


@pytest.mark.slow
def test_a_visitor_hides_marks_and_reloads_next_to_an_outlier_and_a_damaged_trace(visit, recorded, tmp_path):
    runs = shutil.copytree(recorded, tmp_path / "runs")
    first, second, *_ = sorted(runs.glob("*.zarr"))
    far = shutil.copytree(first, runs / "far.zarr")
    _multiply_seconds(far, 1e9)
    broken = shutil.copytree(first, runs / "broken.zarr")
    (broken / "zarr.json").write_bytes(b"\x00{")
    server = Server(runs)
    try:
        names = [first.stem, second.stem, "far"]
        someone = visit(to=server).go(page="runs", runs=",".join(names), x="seconds", thresholds="seconds > 1000")
        someone.says("Marked: seconds > 1000 (1)")
        (marked,) = someone.tab.get_by_role("cell", name=re.compile("above 1000$")).all()
        assert marked.evaluate("each => getComputedStyle(each).backgroundColor") != "rgba(0, 0, 0, 0)"
        assert someone.tab.get_by_role("cell", name="Damaged", exact=True).count() == 1
        chart = someone.chart("Residual")
        assert "beyond the axes" in chart.inner_text()
        assert chart.evaluate("chart => chart._fullLayout.xaxis.range[1]") < 1000
        someone.press(f"Hide {second.stem}")
        someone.says("1 hidden.")
        someone.tab.wait_for_function(f"decodeURIComponent(location.search).includes('hidden={second.stem}')")
        someone.tab.reload()
        someone.look().says("1 hidden.")
        assert someone.tab.get_by_role("button", name=second.stem, exact=True).count() == 0
        someone.field("Show hidden runs").click()
        someone.press(f"Show {second.stem}")
        someone.tab.get_by_text("1 hidden.").wait_for(state="hidden")
        someone.server_may_go = True
    finally:
        server.kill()


def _multiply_seconds(trace, factor):
    """Let a trace take longer."""
    zarr = pytest.importorskip("zarr")
    seconds = zarr.open_array(trace / "epoch" / "seconds", mode="r+")
    seconds[:] = seconds[:] * factor
    root = json.loads((trace / "zarr.json").read_text())
    root["attributes"]["seconds"] *= factor
    (trace / "zarr.json").write_text(json.dumps(root))
