"""Test addresses and form values of the dashboard: each is accepted, or rejected in a sentence that names it.

A case is its seed: a query of settings of a page, some of them odd, in an address that may be broken; and the same
values typed into the fields of the page. The page's own address must then reproduce every accepted value, and
every job of these settings must be made or refused in a sentence. One case in sixteen opens the whole page.
"""

from __future__ import annotations

import functools
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, quote

import numpy as np
import panel as pn
import param
from bokeh.document import Document
from panel.io.state import set_curdoc

from apviz.dashboard import address
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.limits import Limits
from apviz.dashboard.pages import PAGES
from apviz.dashboard.pages.base import View
from apviz.dashboard.pages.compare.shown import CompareView
from apviz.dashboard.pages.predict.page import PredictChoice
from apviz.dashboard.pages.replay.page import ReplayView
from apviz.dashboard.pages.runs.viewing import RunsView
from apviz.dashboard.session import Session
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.methods import BlockSizeSweep, MethodChoice, NoiseSweep
from apviz.dashboard.settings.recording import RecordChoice
from apviz.dashboard.settings.system_choice import SystemChoice
from apviz.dashboard.settings.training import TrainingPlan
from apviz.dashboard.store.runs_folder import RunsFolder
from tests.trust.bounds import Endless, TooLarge, bounded, fault_of
from tests.trust.verdicts import Verdict

MARK = "<img src=x onerror=stolen()>"
ODD = (
    "",
    " ",
    "0",
    "-1",
    "1",
    "2",
    "0.5",
    "1e3",
    "1e-320",
    "1e400",
    "-1e400",
    "nan",
    "inf",
    "-inf",
    "NaN",
    "1,000",
    "1_000",
    "1,5",
    "0x10",
    "１２",
    "٣",
    "²",
    "½",
    "true",
    "True",
    "false",
    "none",
    "None",
    "null",
    "[]",
    "{}",
    "1;2",
    "1 2 3",
    ",,,",
    "100,200",
    "100,,200",
    "100,many",
    "-5,7",
    "9" * 400,
    "9" * 5_000,
    "a" * 20_000,
    "ap",
    "ap,cg",
    "ap,nothing",
    "china",
    "diabetes",
    "../../etc/passwd",
    "/etc/passwd",
    "\x00",
    "\n",
    "\r\n",
    "\u202e",
    "\ud7ff",
    "𝒳",
    "é",
    MARK,
    "' OR 1=1 --",
    "%",
    "%zz",
    "%00",
    "+",
    "&",
    "=",
    "#",
    "?",
    "matern52",
    "float16",
    "float64",
    "kd-tree",
    "-",
    ".",
    "1.",
    ".5",
    "+5",
    "1e0",
)
STRANGE_NAMES = (
    "",
    "nothing",
    "N",
    "n ",
    "__class__",
    "name",
    "param",
    "dataset[]",
    MARK,
    "limits",
    "own",
    "a" * 3_000,
)
#: length of the longest allowed sentence, which may quote a value
_MOST_SENTENCE = 1_500


@dataclass
class Case:
    """A page, and the query of its address."""

    page: str
    query: str
    whole: bool


def _models(page: str) -> list[Any]:
    """Return the settings of a page as it opens."""
    own: dict[str, list[Any]] = {
        "compare": [MethodChoice(), CompareView()],
        "predict": [PredictChoice()],
        "block-size": [BlockSizeSweep()],
        "noise": [NoiseSweep(), MethodChoice()],
        "training": [TrainingPlan()],
        "replay": [RecordChoice(), ReplayView()],
        "runs": [RunsView()],
    }
    view = View()
    view.param.page.objects = list(PAGES)
    return [view, SystemChoice(Limits()), *own.get(page, [])]


@functools.cache
def _names(page: str) -> tuple[str, ...]:
    return tuple(name for model in _models(page) for name in address.settings(model))


def case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)

    def one_of(values: Any) -> Any:
        return values[rng.integers(len(values))]

    page = str(one_of(list(PAGES)))
    models = _models(page)
    texts = {name: address.write(getattr(model, name)) for model in models for name in address.settings(model)}
    parts = []
    for _ in range(int(rng.integers(1, 6))):
        name = one_of(STRANGE_NAMES) if rng.random() < 0.1 else one_of(_names(page))
        good = texts.get(str(name), "")
        text = good if rng.random() < 0.25 else one_of(ODD)
        quoted = str(text).encode("utf-8", "surrogatepass")
        parts.append(f"{quote(str(name))}={quote(quoted)}" if rng.random() < 0.9 else f"{name}={text}")
    query = "&".join(parts)
    if rng.random() < 0.2:
        query = one_of(
            (
                "&" + query,
                query + "&&=&",
                query.replace("=", "", 1),
                query * 40,
                query.replace("&", ";"),
                f"?{query}",
                "%" + query,
            )
        )
    return Case(page, f"?{query}", bool(rng.random() < 0.0625))


# --- the verdict ------------------------------------------------------------------------------------------------------


def judge(seed: int) -> Verdict:
    """Open the address of a seed, and type its values."""
    made = case(seed)
    said = f"{made.page} {made.query[:300]!r}"
    try:
        with bounded(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            how = _opened(made) if made.whole else _applied(made)
    except Endless as error:
        return Verdict("endless", f"{said}: {error}")
    except TooLarge as error:
        return Verdict("error", f"{said}: took {error}")
    except AssertionError as wrong:
        return Verdict("false", f"{said}: {wrong}")
    except Exception as error:
        return Verdict("error", f"{said}: {type(error).__name__}: {error}"[:2_000])
    return Verdict(how, said)


def _applied(made: Case) -> str:
    models = _models(made.page)
    problems = address.apply(made.query, models)
    _check_sentences(made.query, problems, models)
    _check_kept(models)
    _check_address(made.page, models)
    _check_jobs(models)
    typed = _typed(made)
    return "taken" if not problems and not typed else "left out, and says so"


def _check_sentences(query: str, problems: list[str], models: list[Any]) -> None:
    """Check that every requested setting is accepted, or named in a problem."""
    owners = {name: model for model in models for name in address.settings(model)}
    for problem in problems:
        assert "\n" not in problem.strip() and len(problem) <= _MOST_SENTENCE, f"not a sentence: {problem[:300]!r}"
        assert any(name in problem for name in (*owners, "in the address is not a setting")), (
            f"names nothing: {problem}"
        )
    last = dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True))
    for name, text in last.items():
        told = any(problem.startswith(address.shown(name)) for problem in problems)
        if name not in owners:
            assert told, f"{name[:40]!r} is no setting, and nothing says so"
        elif not told and name not in ("dataset", "n"):  # one of them limits the other
            value = address.read(text, owners[name].param[name])
            assert getattr(owners[name], name) == value, (
                f"{name} is {getattr(owners[name], name)!r}, asked for was {text!r}"
            )


def _check_kept(models: list[Any]) -> None:
    """Check that every setting is valid for its parameter."""
    for model in models:
        for name in address.settings(model):
            value = getattr(model, name)
            model.param[name]._validate(value)
            if isinstance(value, float):
                assert np.isfinite(value), f"{name} is {value}"


def _check_address(page: str, models: list[Any]) -> None:
    """Check that the page's own address opens the same settings."""
    written = address.to_query(models)
    again = _models(page)
    problems = address.apply(written, again)
    assert not problems, f"its own address is not taken: {problems}"
    assert address.to_query(again) == written, "its own address says something else"


def _check_jobs(models: list[Any]) -> None:
    """Check that every job is made, or refused in a sentence."""
    by = {type(model): model for model in models}
    system = by[SystemChoice]
    asked: dict[type[Any], Any] = {
        SystemChoice: system.spec,
        MethodChoice: lambda: by[MethodChoice].solvers(system.seed[0]),
        BlockSizeSweep: lambda: by[BlockSizeSweep].solvers(system.n),
        NoiseSweep: lambda: by[NoiseSweep].factors(),
        RecordChoice: lambda: by[RecordChoice].solver(system.n, system.seed[0]),
        TrainingPlan: lambda: by[TrainingPlan].settings(system.spec()),
    }
    for kind, make in asked.items():
        if kind not in by:
            continue
        try:
            make()
        except ValueError as refused:
            fault = fault_of(refused, (ValueError,))
            assert not fault, f"{kind.__name__}: {fault}"


def _typed(made: Case) -> list[str]:
    """Type the same values into text fields; return the problems."""
    models = _models(made.page)
    told: list[str] = []
    fields = Fields(lambda problems: told.__setitem__(slice(None), problems))
    shown = {
        name: fields.add(model.param[name])
        for model in models
        for name in address.settings(model)
        if isinstance(model.param[name], param.Number | param.List)
        and not isinstance(model.param[name], param.Boolean | param.ListSelector)
    }
    owners = {name: model for model in models for name in address.settings(model)}
    for name, text in parse_qsl(made.query.removeprefix("?"), keep_blank_values=True):
        if name not in shown:
            continue
        shown[name].value_input = text
        shown[name].value = text
        if fields.ready(name):
            value = address.read(text.strip(), owners[name].param[name])
            assert getattr(owners[name], name) == value, (
                f"the field {name} holds {text!r}, the setting is {getattr(owners[name], name)!r}"
            )
        else:
            label = owners[name].param[name].label
            assert any(label in problem for problem in told), f"the field {label} cannot be read, and nothing says so"
    for problem in told:
        assert "\n" not in problem.strip() and len(problem) <= _MOST_SENTENCE, f"not a sentence: {problem[:300]!r}"
    return told


class _Location(param.Parameterized):
    """The browser's address."""

    pathname = param.String("/")
    search = param.String("")


def _opened(made: Case) -> str:
    """Render the whole page, as the server does for a visitor."""
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as folder, set_curdoc(Document()):
        separator = "&" if len(made.query) > 1 else ""
        place = _Location(search=f"?page={made.page}{separator}{made.query.removeprefix('?')}")
        with patch.object(type(pn.state), "location", property(lambda state: place)):
            session = Session(Limits(), JobQueue(1), RunsFolder(Path(folder)), dataset=None, lecture=False)
            try:
                session._is_loaded = True
                session._show_page()
                for _ in range(20):
                    session.page.tick()
                session._write_address()
                sight = session.preview()
                assert MARK not in sight, "a text is not escaped"
                for problem in session.problems:
                    assert len(problem) <= _MOST_SENTENCE, f"not a sentence: {problem[:300]!r}"
            finally:
                session.shared.end()
    return "opened"


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    made = case(seed)
    return {"page": made.page, "query": made.query[:1_000], "whole page": str(made.whole)}
