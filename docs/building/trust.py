"""The table of the page "Trust": figures of `python -m tests.trust`, and what was found, as Markdown.

Figures are in `benchmarks/results/trust.json`, which the campaigns write; what each tries, and which tests hold what it
found, in `tests/trust/campaigns.toml`.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any

from building.links import ROOT

PAGE, MARK = "benchmarks/trust", "<!-- the table of benchmarks/results/trust.json -->"
FIGURES, CAMPAIGNS = ROOT / "benchmarks/results/trust.json", ROOT / "tests/trust/campaigns.toml"
COLUMNS = ("campaign", "what is tried", "cases", "hours", "wrong", "what was found and mended", "machine")
#: of a page in `docs/benchmarks`, to the repository
_UP = "../../"


def table() -> str:
    """A row for every campaign that has been run."""
    figures = json.loads(FIGURES.read_text("utf-8"))
    known = tomllib.loads(CAMPAIGNS.read_text("utf-8"))
    rows = [_row(known.get(name, {"title": name}), found) for name, found in figures.items()]
    return "\n".join([f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}", *rows])


def _row(campaign: dict[str, Any], figures: dict[str, Any]) -> str:
    found = [f"{each['what']} ({_links(each['tests'])})" for each in campaign.get("found", [])]
    machine = figures["machine"]
    return "| " + " | ".join([
        campaign["title"], campaign.get("tried", "–"), f"{figures['cases']:,}", f"{figures['hours']:.2f}",
        f"{len(figures['wrong']):,}", "<br>".join(found) or "–",
        f"{machine['processor']}, {machine['cores']} cores, {machine['date'][:10]}",
    ]) + " |"  # fmt: skip


def _links(tests: list[str]) -> str:
    return ", ".join(f"[{path.rsplit('/', 1)[-1]}]({_UP}{path})" for path in tests)


def _on_source(app: Any, page: str, text: list[str]) -> None:
    if page == PAGE:
        assert MARK in text[0]
        text[0] = text[0].replace(MARK, table())


def setup(app: Any) -> dict[str, bool]:
    # before links of the repository become those of the site
    app.connect("source-read", _on_source, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
