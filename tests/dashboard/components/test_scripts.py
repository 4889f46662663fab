"""Scripts of the dashboard: a browser accepts each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import apviz

SCRIPTS = sorted((Path(apviz.__file__).parent / "dashboard").rglob("*.js"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_browser_reads_a_script_as_a_module(browser, path):
    tab = browser.new_page()
    # a module that cannot be read stops every page; code after the first error of running it does not matter here
    said = tab.evaluate(
        """async (code) => {
          const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
          return import(address).then(() => "", (error) => error.name);
        }""",
        path.read_text("utf-8"),
    )
    tab.close()
    assert said != "SyntaxError"
