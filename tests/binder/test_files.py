"""The files of `binder/` and `.devcontainer/` agree with the package, each other and the links of the README."""

from __future__ import annotations

import ast
import json
import os
import re
import tomllib
from contextlib import chdir
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import apviz

ROOT = Path(__file__).resolve().parents[2]
BINDER = ROOT / "binder"
README = (ROOT / "README.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
#: packages that a visitor may import and open, without those of developers
EXTRAS = ("dashboard", "gpytorch", "notebook")
#: packages of Jupyter
SERVERS = {"jupyter-server-proxy", "notebook"}


def wanted(*extras: str) -> dict[str, Requirement]:
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    return {canonicalize_name(found.name): found for found in map(Requirement, lines)}


def pinned() -> dict[str, Requirement]:
    lines = (BINDER / "requirements.txt").read_text("utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith(("#", "--extra-index-url "))]
    assert len({canonicalize_name(each.name) for each in found}) == len(found)
    return {canonicalize_name(each.name): each for each in found}


def test_every_requirement_is_one_version():
    for name, requirement in pinned().items():
        (only,) = requirement.specifier
        assert only.operator == "==" and Version(only.version) and not requirement.extras, name


def test_binder_has_the_requirements_of_users_and_no_developer_tools():
    assert set(pinned()) == set(wanted(*EXTRAS)) | SERVERS


@pytest.mark.parametrize("name", sorted(wanted(*EXTRAS)))
def test_every_version_is_accepted_by_the_package(name):
    (only,) = pinned()[name].specifier
    # another build is the same version
    assert wanted(*EXTRAS)[name].specifier.contains(Version(only.version).public), name


def test_pytorch_is_the_same_cpu_build_as_in_the_makefile():
    (only,) = pinned()["torch"].specifier
    lines = (BINDER / "requirements.txt").read_text("utf-8").splitlines()
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (index,) = set(re.findall(r"https://download\.pytorch\.org/whl/cpu\b", makefile))
    assert [line for line in lines if line.startswith("-")] == [f"--extra-index-url {index}"]
    assert Version(only.version).local == "cpu" and f"torch=={Version(only.version).public}\n" in makefile


def test_the_image_does_not_change_with_the_code_because_no_requirement_is_a_path():
    # for repo2docker such a line is a path, and it reinstalls everything for every commit
    lines = (BINDER / "requirements.txt").read_text("utf-8").splitlines()
    assert not [line for line in lines if line.startswith((".", "-e", "-r", "--editable", "file:"))]


def test_the_python_version_is_accepted_by_the_package():
    version = re.fullmatch(r"python-(\d+\.\d+)\n", (BINDER / "runtime.txt").read_text("utf-8"))
    assert version is not None
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(version[1])


@pytest.mark.parametrize("name", ["start", "postBuild"])
def test_scripts_are_executable(name):
    script = BINDER / name
    assert os.access(script, os.X_OK)
    assert script.read_text("utf-8").startswith("#!/bin/bash\n")


def test_the_start_script_runs_the_command_of_binder_with_one_thread_per_process():
    lines = (BINDER / "start").read_text("utf-8").splitlines()
    assert lines[-1] == 'exec "$@"' and "export OMP_NUM_THREADS=1" in lines


def test_the_post_build_script_installs_existing_files():
    script = (BINDER / "postBuild").read_text("utf-8")
    copied = re.findall(r"\bbinder/\S+", script)
    assert len(copied) == 2
    for name in copied:
        assert (ROOT / name).is_file()


def test_binder_and_codespaces_install_the_wheel_as_users_do():
    script = (BINDER / "postBuild").read_text("utf-8")
    assert "pip wheel --no-cache-dir --no-deps" in script and "editable" not in script
    assert script.index("apviz-*.whl") < script.index("python -I -c")  # -I: not from the repository


CODESPACE = ROOT / ".devcontainer"


def test_a_codespace_has_the_python_and_the_packages_of_binder():
    container = json.loads((CODESPACE / "devcontainer.json").read_text("utf-8"))
    runtime = (BINDER / "runtime.txt").read_text("utf-8").strip().removeprefix("python-")
    assert container["image"] == f"mcr.microsoft.com/devcontainers/python:{runtime}"
    for when in ("postCreateCommand", "postStartCommand"):
        script = ROOT / container[when]
        assert os.access(script, os.X_OK) and script.parent == CODESPACE
    create = (ROOT / container["postCreateCommand"]).read_text("utf-8")
    assert "pip install --no-cache-dir -r binder/requirements.txt\n" in create and "\nbinder/postBuild\n" in create


def test_a_codespace_forwards_the_port_of_the_dashboard_and_admits_its_own_address():
    from typer.main import get_command

    from apviz.cli import app

    container = json.loads((CODESPACE / "devcontainer.json").read_text("utf-8"))
    start = (ROOT / container["postStartCommand"]).read_text("utf-8")
    options = {each.opts[0]: each for each in get_command(app).commands["dashboard"].params}
    port = options["--port"].default
    assert container["forwardPorts"] == [port] and list(container["portsAttributes"]) == [str(port)]
    used = set(re.findall(r"--(?:no-)?[a-z]+(?:-[a-z]+)*", start))
    known = {name for each in options.values() for name in each.opts + each.secondary_opts}
    assert {"--no-show", "--allow-origin"} <= used <= known
    assert f"$CODESPACE_NAME-{port}.$GITHUB_CODESPACES_PORT_FORWARDING_DOMAIN" in start


def in_post_build() -> str:
    """Return the Python code at the end of the script, after the shell."""
    script = (BINDER / "postBuild").read_text("utf-8")
    (found,) = re.findall(r"^python -I -c '\n(.*)'\n\Z", script, re.DOTALL | re.MULTILINE)
    return found


def runs_made(folder: Path) -> list[str]:
    """Return the traces in `folder` after the script ran there."""
    pytest.importorskip("panel")
    with chdir(folder):
        exec(in_post_build(), {})
    return sorted(path.name for path in (folder / "runs").glob("*.zarr"))


def test_the_dashboard_of_the_image_starts_with_the_usual_first_runs(tmp_path):
    recorder = apviz.Recorder(tmp_path / "runs/one.zarr")
    system = apviz.KernelSystem(torch.rand(20, 1), torch.rand(20, 1), apviz.Matern52(lengthscale=0.5), noise=0.1)
    apviz.solve(system, apviz.ConjugateGradient(), [recorder])
    assert runs_made(tmp_path) == ["one.zarr"]
    assert "add_examples(" in in_post_build() and '"runs"' in (BINDER / "jupyter_server_config.py").read_text("utf-8")


@pytest.mark.slow
def test_no_page_of_the_dashboard_of_the_image_is_empty(tmp_path):
    made = runs_made(tmp_path)
    assert any("training" in name for name in made) and any("n1712" in name for name in made)
    noises = {apviz.open_trace(tmp_path / "runs" / name).attrs["noise"] for name in made if "n300-alternating" in name}
    assert len(noises) == 5


def test_the_settings_of_jupyter_are_valid_python_and_json():
    ast.parse((BINDER / "jupyter_server_config.py").read_text("utf-8"))
    assert all(isinstance(each, dict) for each in json.loads((BINDER / "overrides.json").read_text("utf-8")).values())


def test_the_limits_of_the_dashboard_are_existing_options():
    pytest.importorskip("typer")
    from typer.main import get_command

    from apviz.cli import app

    source = (BINDER / "jupyter_server_config.py").read_text("utf-8")
    known = get_command(app).commands["dashboard"].params
    options = {name for each in known for name in each.opts + each.secondary_opts}
    used = set(re.findall(r'"(--[a-z-]+)"', source))
    assert {"--port", "--max-n", "--max-solves", "--max-block-gb"} <= used <= options
    # it listens on this machine only: others reach it through Jupyter
    assert not used & {"--address", "--no-auth"}


def launch_links() -> list[str]:
    return re.findall(r"https://mybinder\.org/v2/[^\s)>\]]+", README)


def test_the_readme_has_a_link_to_the_first_notebook_and_one_to_the_dashboard():
    links = [urlsplit(link) for link in launch_links()]
    assert len(links) == 2
    # /v2/gh/OWNER/NAME/BRANCH is the same in both
    assert len({link.path for link in links}) == 1
    assert re.fullmatch(r"/v2/gh/[\w.-]+/[\w.-]+/main", links[0].path)
    (notebook,), (dashboard,) = (parse_qs(link.query)["urlpath"] for link in links)
    source = (BINDER / "jupyter_server_config.py").read_text("utf-8")
    assert f'"/{notebook}"' in source and dashboard == "apviz/" and '"apviz": {' in source
    assert (ROOT / notebook.removeprefix("lab/tree/")).is_file()


def test_the_address_of_the_repository_is_in_one_place():
    lines = README.splitlines()
    (place,) = [number for number, line in enumerate(lines) if line.startswith("<!-- the repository's address")]
    assert all(link in "\n".join(lines[place : place + 4]) for link in launch_links())


def test_no_file_names_this_machine():
    for path in [*BINDER.iterdir(), *CODESPACE.iterdir()]:
        assert not re.search(r"/(work|tmp|root|home)/", path.read_text("utf-8")), path.name
