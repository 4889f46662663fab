"""Fix HTML of Sphinx and its theme for people who hear a page; `tests/test_site.py` asks axe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

#: what is written, and what it becomes
FIXES = (
    # the button that folds a part of the navigation has no name
    (r'<summary>(?=<span class="toctree-toggle")', '<summary aria-label="Show or hide the pages below">'),
    # an empty corner of a table is no heading
    (r'<th class="head">(<p></p>)?</th>', '<td class="head"></td>'),
    # parameters of a signature are a list of definitions without terms
    (r'<dl>(?=\s*<dd><em class="sig-param">)', '<dl role="presentation">'),
)


def _fix(app: Any, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = fixed = path.read_text("utf-8")
        for written, becomes in FIXES:
            fixed = re.sub(written, becomes, fixed)
        if fixed != text:
            path.write_text(fixed, "utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", _fix)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
