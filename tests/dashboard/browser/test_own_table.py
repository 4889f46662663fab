"""Your own file, from dropping it to an answer."""

from __future__ import annotations

import re
import shutil
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

import apviz
from tests.dashboard.browser.server import PATIENCE, Server
from tests.ports import wait_until

GOOD = "a,b,price\n" + "\n".join(f"{k / 60},{(7 * k % 60) / 60},{(k % 13) / 13}" for k in range(60))
ROWS, COPIES = 4_500, 300


def messy() -> bytes:
    """Write rents: semicolons, decimal commas, Latin-1, dates with points, gaps, a constant, row names, duplicates."""
    rng = np.random.default_rng(0)
    size, warm, rooms = rng.uniform(20, 180, ROWS), rng.normal(20, 5, ROWS), rng.integers(1, 9, ROWS)
    town = np.array(["Zürich", "Genève", "Köln", "Wien", "Bern"])[rng.integers(0, 5, ROWS)]
    day = np.datetime64("2021-03-01") + rng.integers(0, 700, ROWS).astype("timedelta64[D]")
    rent = 500 + 12 * size + 100 * np.sin(size / 20) + 20 * warm + rng.normal(0, 30, ROWS)
    lines = [
        f"W-{k};{'' if k % 75 == 1 else town[k]};{'.'.join(reversed(str(day[k]).split('-')))};"
        f"{'n.a.' if k % 50 == 2 else f'{warm[k]:.1f}'};{size[k]:.2f};CHF;{rooms[k]};{rent[k]:.2f}".replace(
            ".", ",", 99
        )
        for k in range(ROWS)
    ]
    # points in dates and in n.a. are kept
    lines = [
        ";".join(
            cell.replace(",", ".") if place == 2 or "n" in cell else cell for place, cell in enumerate(line.split(";"))
        )
        for line in lines
    ]
    text = "\r\n".join(["Kennung;Stadt;Datum;Wärme;Fläche;Währung;Zimmer;Miete", *lines, *lines[:COPIES]])
    return text.encode("cp1252")


def offer(visitor, folder, name: str, content: str | bytes) -> None:
    """Drop a file."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    # other pages have hidden places for files
    visitor.tab.locator(".contextbar input[type=file]").set_input_files(path)


def finished(visitor) -> list[str]:
    """Wait for the end of a comparison, and return the names of its runs."""
    visitor.says(re.compile("runs? recorded"))
    visitor.tab.wait_for_function("/selected=[^&]/.test(location.search)")
    return parse_qs(urlsplit(visitor.tab.url).query)["runs"][0].split(",")


@pytest.mark.slow
def test_a_messy_file_leads_to_an_answer_and_survives_a_restart(visit, recorded, tmp_path):
    server = Server(shutil.copytree(recorded, tmp_path / "runs"), "--max-upload", "1", "--max-n", "5000")
    try:
        someone = visit(to=server).go(rhs=2, methods="cg", max_epochs=5)
        someone.edit("Use my data")
        offer(someone, tmp_path, "mieten.csv", messy())
        someone.says("4,800 rows, 8 columns")
        someone.says("Latin-1 (Windows-1252), separated by semicolons, decimal commas")
        boxes = {name: someone.tab.get_by_label(f"Tick {name}", exact=True) for name in ("Stadt", "Kennung", "Währung")}
        assert [boxes[name].is_checked() for name in boxes] == [True, False, False]
        # gaps in every 75th and every 50th row, also in duplicates
        gaps = sum(k % 75 == 1 or k % 50 == 2 for k in [*range(ROWS), *range(COPIES)])
        someone.says(f"{gaps} of 4,800 rows are dropped because a value is missing")
        train = int(0.8 * (4_800 - gaps))
        someone.says(f"{train:,} to train on")
        someone.press("Use this table")
        someone.tab.wait_for_function("location.search.includes('dataset=mieten.csv')")
        someone.edit("Data set").says(f"Your table: {train:,} rows to train on. Target: Miete.")
        assert someone.field("Training rows").input_value() == f"{train:,}"
        someone.press("Run")
        (name,) = finished(someone)
        trace = apviz.open_trace(server.runs / f"{name}.zarr")
        assert (trace.attrs["n"], trace.attrs["d"]) == (train, 9)
        assert "Datum: days since 2021-03-01" in trace.preparation["notes"]

        address = someone.tab.url
        someone.server_may_go = True
        server.kill()
        server.start()
        later = visit(to=server)
        later.tab.goto(address)
        later.look().edit("Data set").says(f"Your table: {train:,} rows to train on. Target: Miete.")
        later.press("Run")
        later.says("1 run recorded")
        assert len(list(server.runs.glob("mieten.csv*.zarr"))) == 2
        later.edit("Use my data")
        later.press("Remove this table")
        later.tab.wait_for_function("location.search.includes('dataset=china')")
        gone = lambda: not (server.runs / ".data").exists()  # noqa: E731
        wait_until(gone, server.process, lambda: "the table is still there", PATIENCE)
        later.server_may_go = True
    finally:
        server.kill()


@pytest.mark.slow
def test_bad_files_are_rejected_with_the_reason_and_the_next_one_is_accepted(visit, server, tmp_path):
    someone = visit().go(rhs=2, methods="cg", max_epochs=5)
    someone.edit("Use my data")
    offer(someone, tmp_path, "one.csv", "price\n1\n2\n")
    someone.says("one.csv has 1 column: a target and at least one input are needed")
    offer(someone, tmp_path, "notes.doc", GOOD)
    someone.says("notes.doc: files ending in")
    offer(someone, tmp_path, "large.csv", GOOD + "\n" + "0,0,0\n" * 200_000)
    someone.says("File is too large")
    offer(someone, tmp_path, "words.csv", "a,b\n" + "low,high\nhigh,low\n" * 30)
    someone.says("No column of this file can be predicted")
    someone.press("Close")
    offer(someone, tmp_path, "mine.csv", GOOD)
    someone.says("48 to train on")
    someone.press("Use this table")
    someone.edit("Data set").says("Your table: 48 rows to train on. Target: price.")
    someone.press("Run")
    assert all(name.startswith("mine") for name in finished(someone))
    someone.edit("Use my data").press("Remove this table")
    someone.tab.wait_for_function("location.search.includes('dataset=china')")
