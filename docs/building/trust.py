"""The table of the page "Trust": figures of `python -m tests.trust`, and what was found, as Markdown.

Figures are in `benchmarks/results/trust.json`, which the campaigns write; what each tries, and which tests hold what it
found, in `tests/trust/campaigns.toml`.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from building.links import ROOT

PAGE = "benchmarks/trust"
MARK, MUTANTS_MARK = "<!-- the table of benchmarks/results/trust.json -->", "<!-- its table of mutants -->"
PLACES_MARK, VISITORS_MARK = "<!-- its table of places -->", "<!-- what its visitors left -->"
FIGURES, CAMPAIGNS = ROOT / "benchmarks/results/trust.json", ROOT / "tests/trust/campaigns.toml"
# what comes first is in sight on a phone too
MUTANTS_COLUMNS = ("file", "%", "killed", "tried", "made", "room")
COLUMNS = ("campaign", "what is tried", "cases", "hours", "wrong", "what was found and fixed", "machine")
#: of a page in `docs/benchmarks`, to the repository
_UP = "../../"


def table() -> str:
    """A row for every campaign that has been run."""
    figures = json.loads(FIGURES.read_text("utf-8"))
    known = tomllib.loads(CAMPAIGNS.read_text("utf-8"))
    figures.pop("mutants", None)
    return _table(COLUMNS, [_row(known.get(name, {"title": name}), found) for name, found in figures.items()])


def mutants_table() -> str:
    """A row for every file of which mutants were tried."""
    figures = json.loads(FIGURES.read_text("utf-8")).get("mutants", {})
    return _table(MUTANTS_COLUMNS, [_mutants_row(name, found) for name, found in figures.items()])


def places_table() -> str:
    """A row for every place where apviz was installed, or could not be for what this machine lacks."""
    places = json.loads(FIGURES.read_text("utf-8")).get("install", {}).get("places", {})
    return _table(("place", "how it went"), [[place, how] for place, how in places.items()])


def visitors_table() -> str:
    """What a server had after the first rounds of visitors, and after the last; empty where none came."""
    long = json.loads(FIGURES.read_text("utf-8")).get("long")
    if not long:
        return ""
    kinds = {"threads": "threads", "files": "files", "sockets": "sockets", "children": "processes",
             "folders": "folders", "mb": "MB"}  # fmt: skip
    rounds = {"the first rounds": long["after the first rounds"], f"all {long['rounds']}": long["at the end"]}
    rows = [[when, *(f"{found[each]:,.0f}" for each in kinds)] for when, found in rounds.items()]
    said = f"{long['visitors']} visitors in {long['minutes']:.0f} minutes; memory grew by {long['growth in MB']:.0f} MB"
    return f"{said} by the median of slopes, of which 100 would be wrong.\n\n{_table(('after', *kinds.values()), rows)}"


def _table(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [list(columns), ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _mutants_row(name: str, found: dict[str, Any]) -> list[str]:
    killed, path = found["how"].get("killed", 0), Path(name)
    # figures are of the day they were measured; a file may have moved since
    where = f"[{path.name}]({_UP}{name})" if (ROOT / name).exists() else name
    return [
        where, f"{killed / found['mutants']:.0%}", f"{killed:,}", f"{found['mutants']:,}",
        f"{found['made']:,}", path.parent.name,
    ]  # fmt: skip


def _machine(machine: dict[str, Any]) -> str:
    return f"{machine['processor']}, {machine['cores']} cores, {machine['date'][:10]}"


def _row(campaign: dict[str, Any], figures: dict[str, Any]) -> list[str]:
    found = [f"• {each['what']} ({_links(each['tests'])})" for each in campaign.get("found", [])]
    return [
        campaign["title"], campaign.get("tried", "–"), f"{figures['cases']:,}", f"{figures['hours']:.2f}",
        f"{len(figures['wrong']):,}", "<br>".join(found) or "–", _machine(figures["machine"]),
    ]  # fmt: skip


def _links(tests: list[str]) -> str:
    return ", ".join(f"[{path.rsplit('/', 1)[-1]}]({_UP}{path})" for path in tests)


def _on_source(app: Any, page: str, text: list[str]) -> None:
    if page == PAGE:
        assert MARK in text[0]
        tables = {MARK: table(), MUTANTS_MARK: mutants_table(), PLACES_MARK: places_table(),
                  VISITORS_MARK: visitors_table()}  # fmt: skip
        for mark, made in tables.items():
            text[0] = text[0].replace(mark, made)


def setup(app: Any) -> dict[str, bool]:
    # before links of the repository become those of the site
    app.connect("source-read", _on_source, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
