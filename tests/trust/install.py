"""apviz in other environments: on other Pythons, with the lowest and the newest versions of its dependencies, without a
compiler, a network or a home folder, in other locales and encodings, and in folders with odd names.

A case is a place; a round visits all places. In each, a process runs `journey.py`. Places of other versions are
environments that `uv` makes from the wheel, if `uv` and the Python are available; there the fast tests of the
mathematics run too.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import RESULTS
from tests.trust.verdicts import Verdict

ROOT: Final = Path(__file__).parents[2]
JOURNEY: Final = Path(__file__).with_name("journey.py")
#: timeouts of a journey, an installation, and the tests, in seconds
ENDS_WITHIN, INSTALLED_WITHIN, TESTED_WITHIN = 900, 3600, 3600
EXTRAS: Final = "cluster,dashboard,gpytorch,hdf5,keops,notebook"
#: packages for the tests and their oracles
TOOLS: Final = ("pytest", "pytest-xdist", "hypothesis", "mpmath")
TESTED: Final = (
    "tests/kernels", "tests/operators", "tests/preconditioners", "tests/solvers", "tests/gp", "tests/gpytorch",
    "tests/tracing", "tests/datasets", "tests/experiments", "tests/plots", "tests/report", "tests/test_method.py",
    "tests/test_rules.py", "tests/test_system.py", "tests/test_cli.py",
)  # fmt: skip
#: mounts a folder read-only, so that even root cannot write to it
READ_ONLY: Final = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
#: limits connections of Python to this machine
OFFLINE: Final = """
import socket
def refusing(connect):
    def to(self, address, *rest):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(101, "Network is unreachable")
        return connect(self, address, *rest)
    return to
socket.socket.connect = refusing(socket.socket.connect)
socket.socket.connect_ex = refusing(socket.socket.connect_ex)
def nobody(host, *rest, resolve=socket.getaddrinfo, **given):
    if host not in ("127.0.0.1", "::1", "localhost", "", None):
        raise socket.gaierror(-3, "Temporary failure in name resolution")
    return resolve(host, *rest, **given)
socket.getaddrinfo = nobody
"""


class NotHere(Exception):
    """This machine lacks what a place needs."""


@dataclass
class Place:
    """Where a process runs.

    Attributes:
        folder: it works in, empty at first.
        python: that it runs.
        env: that differs from ours; None where a variable is not set.
        within: the command that runs it there.
        tests: whether tests run after the journey.
    """

    folder: Path
    python: str = sys.executable
    env: dict[str, str | None] = field(default_factory=dict)
    within: tuple[str, ...] = ()
    tests: bool = False


def no_compiler(at: Path) -> Place:
    """Hide the compiler, and any engine compiled before."""
    bare = at / "bin"
    bare.mkdir()
    (bare / "python").symlink_to(sys.executable)
    cache = {"XDG_CACHE_HOME": str(at / "cache"), "KEOPS_CACHE_FOLDER": str(at / "keops")}
    return Place(at / "work", env={"PATH": str(bare), "CXX": None, "CC": None, **cache})


def read_only_home(at: Path) -> Place:
    """Make home and cache read-only."""
    home = at / "home"
    (home / ".cache").mkdir(parents=True)
    for folder in (home / ".cache", home):
        folder.chmod(0o555)
    if os.geteuid() == 0 and shutil.which("unshare") is None:
        raise NotHere("unshare")
    within = ("unshare", "--mount", "sh", "-c", READ_ONLY, str(home)) if os.geteuid() == 0 else ()
    return Place(at / "work", env={"HOME": str(home), **_without_xdg()}, within=within)


def no_home(at: Path) -> Place:
    """Set a home folder that does not exist, as in containers with a numeric user."""
    return Place(at / "work", env={"HOME": "/dev/null/home", **_without_xdg()})


def _without_xdg() -> dict[str, str | None]:
    return {name: None for name in os.environ if name.startswith("XDG_")}


def no_network(at: Path) -> Place:
    """Block the network, without files fetched before."""
    (at / "sitecustomize.py").write_text(OFFLINE)
    unset: dict[str, str | None] = dict.fromkeys(
        ("APVIZ_DATA", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    )
    return Place(
        at / "work",
        env={"PYTHONPATH": str(at), "XDG_CACHE_HOME": str(at / "cache"), "APVIZ_OFFLINE": "1", **unset},
    )


def ascii_only(at: Path) -> Place:
    """Use the C locale, as before Python's UTF-8 mode."""
    return Place(at / "work", env={"LC_ALL": "C", "LANG": None, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})


def printed_as_cp1252(at: Path) -> Place:
    """Use the encoding of a pipe on Windows."""
    return Place(at / "work", env={"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"})


def turkish(at: Path) -> Place:
    """Use a locale in which `i` and `I` are different letters and numbers have commas."""
    if shutil.which("localedef") is None:
        raise NotHere("localedef")
    made = subprocess.run(
        ["localedef", "-i", "tr_TR", "-f", "UTF-8", at / "tr_TR.UTF-8"], capture_output=True, check=False
    )
    if not (at / "tr_TR.UTF-8").is_dir():
        raise NotHere(f"the Turkish locale ({made.stderr.decode()[:80].strip()})")
    return Place(at / "work", env={"LOCPATH": str(at), "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"})


def encodings_said(at: Path) -> Place:
    """Make text files opened without an encoding an error; on Windows they would not be UTF-8."""
    return Place(at / "work", env={"PYTHONWARNDEFAULTENCODING": "1", "PYTHONWARNINGS": "error::EncodingWarning:apviz"})


def odd_folder(at: Path) -> Place:
    """Work in a folder with an odd but realistic name."""
    return Place(at / "Meine Läufe #1 (50% neu) & ältere" / "o'hara")


def _environment(version: str, resolution: str) -> Callable[[Path], Place]:
    def place(at: Path) -> Place:
        return Place(at / "work", python=str(environment(version, resolution)), tests=True)

    return place


PLACES: Final[dict[str, Callable[[Path], Place]]] = {
    "no compiler": no_compiler,
    "a home and a cache that are read-only": read_only_home,
    "no home": no_home,
    "no network": no_network,
    "the C locale in ASCII": ascii_only,
    "output in cp1252": printed_as_cp1252,
    "the Turkish locale": turkish,
    "every encoding is said": encodings_said,
    "a folder with an odd name": odd_folder,
    "Python 3.11, the lowest versions": _environment("3.11", "lowest-direct"),
    "Python 3.11, the newest versions": _environment("3.11", "highest"),
    "Python 3.12, the newest versions": _environment("3.12", "highest"),
    "Python 3.13, the newest versions": _environment("3.13", "highest"),
    "Python 3.14, the newest versions": _environment("3.14", "highest"),
}


#: environments of gigabytes, removed with this process
_environments: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def environment(version: str, resolution: str) -> Path:
    """Return the Python of a new environment with apviz from its wheel, its extras, and the packages of its tests."""
    base, uv = shutil.which(f"python{version}"), shutil.which("uv")
    # a shim of pyenv may exist without its Python
    if base is None or subprocess.run([base, "--version"], capture_output=True, check=False).returncode:
        raise NotHere(f"python{version}")
    if uv is None:
        raise NotHere("uv (pip install uv)")
    _environments.append(tempfile.TemporaryDirectory(prefix="apviz-install-", ignore_cleanup_errors=True))
    at = Path(_environments[-1].name)
    python = at / "venv/bin/python"

    def do(*command: str | Path) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALLED_WITHIN, cwd=at, check=False)
        assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr[-2000:]}"
        return done.stdout

    do(uv, "build", "--wheel", "--quiet", "--out-dir", at, ROOT)
    [wheel] = at.glob("*.whl")
    do(uv, "venv", "--quiet", "--python", Path(base).resolve(), at / "venv")
    install = (uv, "pip", "install", "--quiet", "--python", python)
    # `lowest-direct` lowers what the command names: of a wheel only the wheel would be
    extras = [part for extra in EXTRAS.split(",") for part in ("--extra", extra)]
    do(*install, "--resolution", resolution, "--requirements", ROOT / "pyproject.toml", *extras)
    do(*install, "--no-deps", wheel)
    (at / "installed.txt").write_text(do(uv, "pip", "freeze", "--exclude", "apviz", "--python", python))
    do(*install, "--constraints", at / "installed.txt", *TOOLS)
    return python


#: results of this process for each place
_went: dict[str, str] = {}


def measured() -> dict[str, dict[str, str]]:
    """Return the last result of every place."""
    path = RESULTS / "trust.json"
    before = json.loads(path.read_text("utf-8")).get("install", {}).get("places", {}) if path.exists() else {}
    whole = before | _went
    return {"places": {name: whole[name] for name in PLACES if name in whole}}


def case(seed: int) -> str:
    """Return the place of a seed."""
    return list(PLACES)[seed % len(PLACES)]


def described(seed: int) -> dict[str, Any]:
    """Describe a case in words."""
    return {"place": case(seed)}


def judge(seed: int) -> Verdict:
    """Run the journey at the place of a seed."""
    verdict = _judged(PLACES[case(seed)])
    _went[case(seed)] = f"{verdict.how}: {verdict.said}"
    return verdict


def _judged(place: Callable[[Path], Place]) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as folder:
        try:
            return _visited(place(Path(folder)))
        except NotHere as missing:
            return Verdict("not here", f"there is no {missing} on this machine")
        except subprocess.TimeoutExpired as error:
            return Verdict("endless", str(error))
        except AssertionError as error:
            return Verdict("error", str(error))


def _visited(place: Place) -> Verdict:
    place.folder.mkdir(parents=True, exist_ok=True)
    env = {name: value for name, value in (os.environ | place.env).items() if value is not None}
    done = subprocess.run(
        [*place.within, place.python, JOURNEY], cwd=place.folder, env=env, capture_output=True, timeout=ENDS_WITHIN,
        check=False,
    )  # fmt: skip
    last = done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if done.returncode:
        said = json.loads(last)["fault"] if last.startswith("{") else done.stderr.decode("utf-8", "replace")[-2000:]
        return Verdict("error", said)
    if place.tests:
        return _tested(place)
    return Verdict("as at home", f"{json.loads(last)['files']} files")


def _tested(place: Place) -> Verdict:
    """Run the tests away from the source, so that they import the installed package."""
    copied = place.folder / "tests-alone"
    ignored = shutil.ignore_patterns("apviz", ".*", "runs", "build", "dist", "html")
    shutil.copytree(ROOT, copied, ignore=lambda at, names: ignored(at, names) if Path(at) == ROOT else ())
    done = subprocess.run(
        [place.python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "not slow", *TESTED],
        cwd=copied, capture_output=True, text=True, timeout=TESTED_WITHIN, check=False,
    )  # fmt: skip
    last = done.stdout.strip().rpartition("\n")[2]
    failed = "\n".join(line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR")))
    return Verdict("error", f"{last}\n{failed}") if done.returncode else Verdict("as at home, and its tests", last)
