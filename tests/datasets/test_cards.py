"""Each data card is read from its own file, and an error about a card names its place and the reason."""

import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from apviz import datasets
from apviz.datasets.cards import Card, folder, read_card
from apviz.datasets.loading import entry_of

LEAST = {
    "title": "Houses of a town",
    "n": 20,
    "d": 2,
    "target": "price",
    "licence": "CC BY 4.0",
    "citation": "A. Clerk (2020).",
    "page": "https://example.org/houses",
    "documented": "Area and age.",
    "reading": "None open.",
    "files": ["houses.csv"],
    "target_column": "price",
    "how_to_get": "Ask the clerk.",
}
HYPERPARAMETERS = {
    "kernel": "matern52",
    "lengthscale": [0.5, 1],
    "outputscale": 1,
    "noise": 0.1,
    "mean": 0,
    "provenance": "by hand",
}


def toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def written(path: Path, hyperparameters: dict | None = None, **changes: object) -> Path:
    fields = {key: value for key, value in (LEAST | changes).items() if value is not None}
    lines = [f"{key} = {toml(value)}" for key, value in fields.items()]
    if hyperparameters:
        lines += ["[hyperparameters]", *(f"{key} = {toml(value)}" for key, value in hyperparameters.items())]
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_every_card_holds_the_values_of_its_file():
    files = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in folder().glob("*.toml")}
    assert set(files) == set(datasets.cards())
    for name, values in files.items():
        card = datasets.card(name)
        found = values.pop("hyperparameters", None)
        assert (found is None) == (card.hyperparameters is None)
        for field, value in (found or {}).items():
            kept = getattr(card.hyperparameters, field)
            assert (list(kept) if isinstance(kept, tuple) else kept) == value, (name, field)
        for field, value in values.items():
            kept = getattr(card, field)
            assert (list(kept) if isinstance(kept, tuple) else kept) == value, (name, field)


def test_a_new_data_set_needs_one_file(tmp_path, empty_folders, monkeypatch):
    card = read_card(written(tmp_path / "houses.toml", HYPERPARAMETERS))
    assert card.name == "houses" and card.d_raw == 2 and card.hyperparameters.lengthscale == (0.5, 1.0)
    monkeypatch.setitem(datasets.registry, "houses", entry_of(card))
    with pytest.raises(datasets.DatasetUnavailable, match=r"Ask the clerk. Put houses.csv into"):
        datasets.load("houses")
    rows = pd.DataFrame({"area": range(20), "price": [i * i for i in range(20)], "age": range(20, 40)})
    rows.to_csv(empty_folders / "data" / "houses.csv", index=False)
    data = datasets.load("houses")
    assert data.feature_names == ("area", "age") and data.target_name == "price" and len(data.train_x) == 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": "many"}, "n = 'many': expected a positive whole number"),
        ({"d": True}, "d = True: expected a positive whole number"),
        ({"d_raw": 1}, "d_raw = 1: expected at least d = 2"),
        ({"title": ""}, "title = '': expected text that is not empty"),
        ({"reading": None}, "reading is missing; expected text"),
        ({"license": "MIT"}, "license is not a field. Did you mean licence? Accepted are title, n, d, "),
        ({"files": "houses.csv"}, "files = 'houses.csv': expected a list of texts"),
        ({"files": None}, "files is missing; expected the names of the file that is fetched or read"),
        ({"how_to_get": None}, "how_to_get is missing; without urls, expected a sentence"),
        ({"sha256": "abc"}, "sha256 = 'abc': expected 64 hexadecimal digits"),
        ({"target_column": 1.5}, "target_column = 1.5: expected a column's name, or its position"),
        ({"in_paper": "yes"}, "in_paper = 'yes': expected true or false"),
        ({"hyperparameters": HYPERPARAMETERS | {"noise": 0}}, "noise = 0: expected a finite positive number"),
        ({"hyperparameters": HYPERPARAMETERS | {"lengthscale": [1.0]}}, "lengthscale has 1 values: expected one for"),
        ({"hyperparameters": HYPERPARAMETERS | {"kernel": "matern51"}}, "kernel = 'matern51': "),
    ],
)
def test_an_error_about_a_card_names_its_file_the_field_and_the_accepted_values(tmp_path, changes, message):
    path = written(tmp_path / "houses.toml", **changes)
    with pytest.raises(datasets.CardError, match=rf"houses\.toml: {re.escape(message)}"):
        read_card(path)


def test_an_error_about_invalid_toml_names_the_line(tmp_path):
    path = tmp_path / "houses.toml"
    path.write_text("title = 'Houses'\nn = twenty\n")
    with pytest.raises(datasets.CardError, match=r"houses\.toml: not TOML: .*line 2"):
        read_card(path)


def test_a_card_without_a_target_column_needs_a_recipe_of_its_name(tmp_path):
    card: Card = read_card(written(tmp_path / "houses.toml", target_column=None))
    with pytest.raises(datasets.CardError, match=r"houses\.toml: target_column is missing; .* no recipe in .*houses"):
        entry_of(card)
