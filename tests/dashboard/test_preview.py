"""What a page shows until its scripts have loaded."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("panel")

from apviz.dashboard import preview

CHIPS = [["Data set", "china"], ["Rows", "1,712"]]


def test_texts_of_visitors_are_shown_unchanged_and_the_figure_cannot_end_its_script():
    bad = "<img src=x onerror=alert(1)></script>"
    figure = json.dumps({"data": [{"name": bad}], "layout": {}})
    made = preview.page(preview.Preview(bad, bad, figure), [["Data set", bad]], ["Compare"], "Compare")
    assert "<img" not in made and made.count("</script>") == 1
    (found,) = re.findall(r"id=.apviz-figure.>(.*)</script>", made)
    assert json.loads(found)["data"][0]["name"] == bad


def test_without_contents_grey_shapes_are_shown_with_the_chips_and_the_open_tab():
    made = preview.page(None, CHIPS, ["Compare", "Runs"], "Runs")
    assert "class=grey" in made and "<b>1,712</b>" in made and "<span class=now>Runs</span>" in made
