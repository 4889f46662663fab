"""The image of `Dockerfile` and the services of `compose.yaml`: their files, and what visitors reach through nginx.

Without Docker the same commands run here: the dashboard as the image's entry point starts it, behind nginx with the
same configuration.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.ports import free_port, wait_until

yaml = pytest.importorskip("yaml")
websocket = pytest.importorskip("websocket")

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
NGINX = (ROOT / "docker/nginx.conf").read_text("utf-8")
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
PREFIX, PASSWORD = "/gp/", "open sesame"
#: seconds for a build, and for any other step; a busy machine is slow
BUILD, PATIENCE = 1800, 180
#: where Debian has nginx, a folder that only root's PATH has
PATH = f"{os.environ['PATH']}:/usr/sbin"


def instructions(name: str) -> list[str]:
    """Return the arguments of an instruction in the last stage of the Dockerfile."""
    return re.findall(rf"^{name} (.+)$", DOCKERFILE.rpartition("\nFROM ")[2], re.MULTILINE)


# --- files --------------------------------------------------------------------------------------------------------


def test_the_image_runs_as_a_user_without_rights_and_keeps_runs_on_a_volume():
    (user,), (volume,), entry = instructions("USER"), instructions("VOLUME"), command()
    assert user not in ("root", "0") and f"useradd --uid 1000 --create-home {user}" in DOCKERFILE
    assert Path(entry[entry.index("--runs") + 1]).is_relative_to(volume)
    assert [each.partition(":")[2] for each in SERVICES["apviz"]["volumes"]] == [volume]


def command() -> list[str]:
    (entry,) = instructions("ENTRYPOINT")
    return json.loads(entry)


def test_the_image_has_no_password_and_compose_takes_it_from_the_environment():
    assert "PASSWORD" not in " ".join(instructions("ENV") + instructions("ARG")) and "--no-auth" not in command()
    assert SERVICES["apviz"]["environment"] == {"APVIZ_PASSWORD": "${APVIZ_PASSWORD:?choose a password}"}


def test_the_image_installs_the_tested_versions_with_the_cpu_build_of_pytorch():
    installs = [line for line in DOCKERFILE.splitlines() if "pip install" in line]
    assert len(installs) == 2 and all("--constraint /src/tested.txt" in line for line in installs)
    assert "COPY binder/requirements.txt /src/tested.txt" in DOCKERFILE
    assert re.search(r"^torch==[\d.]+\+cpu$", (ROOT / "binder/requirements.txt").read_text("utf-8"), re.MULTILINE)


def test_the_context_of_the_build_has_what_the_wheel_needs_and_nothing_else():
    listed = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    kept = [line.removeprefix("!") for line in listed if line.startswith("!")]
    assert "*" in listed and all(list(ROOT.glob(each)) for each in kept)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [each.removeprefix("/") for each in wheel["include"]] + [each["path"] for each in wheel["hooks"].values()]
    assert {*needed, project["project"]["readme"], *project["project"]["license-files"]} <= set(kept)


def test_the_image_has_the_python_that_the_versions_were_tested_with():
    stages = re.findall(r"^FROM python:([\d.]+)-slim", DOCKERFILE, re.MULTILINE)
    runtime = (ROOT / "binder/runtime.txt").read_text("utf-8")
    assert len(stages) == 2 and {f"python-{version}\n" for version in stages} == {runtime}


def test_the_service_is_reached_through_nginx_alone_and_only_from_this_machine():
    assert "ports" not in SERVICES["apviz"]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["nginx"]["ports"])
    (target,) = re.findall(r"proxy_pass http://(\w+):(\d+)/;", NGINX)
    assert target[0] in SERVICES and list(target[1:]) == instructions("EXPOSE")
    mounted = SERVICES["nginx"]["volumes"][0].split(":")[0]
    assert (ROOT / mounted).is_file()


# --- services -----------------------------------------------------------------------------------------------------


def visit(url: str) -> None:
    """Log in below the prefix, and get the dashboard's page and the first answer of its WebSocket."""
    someone = requests.Session()
    form = someone.get(f"{url}{PREFIX.rstrip('/')}", timeout=PATIENCE)
    assert form.status_code == 200 and form.url.startswith(url + PREFIX), form.url
    (token,) = re.findall(r'name="_xsrf" value="([^"]+)"', form.text)
    wrong = someone.post(form.url, {"_xsrf": token, "password": "sesame"}, timeout=PATIENCE)
    assert '"token":"' not in wrong.text
    page = someone.post(form.url, {"_xsrf": token, "password": PASSWORD}, timeout=PATIENCE)
    assert page.url == url + PREFIX
    (session,) = re.findall(r'"token":"([^"]+)"', page.text)
    cookies = "; ".join(f"{each.name}={each.value}" for each in someone.cookies)
    line = websocket.create_connection(
        f"ws{url.removeprefix('http')}{PREFIX}ws", timeout=PATIENCE, origin=url, subprotocols=["bokeh", session],
        cookie=cookies,
    )  # fmt: skip
    try:
        assert json.loads(line.recv())["msgtype"] == "ACK"
    finally:
        line.close()
    for script in set(re.findall(r'<script[^>]* src="([^"]+)"', page.text)):
        assert not script.startswith(("http", "/")), "it would be sought outside the prefix"
    foreign = requests.get(url + PREFIX, headers={"Origin": "https://elsewhere.example"}, timeout=PATIENCE)
    assert foreign.status_code == 403


@contextmanager
def nginx(folder: Path, port: int, upstream: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run nginx with the configuration of the container, but with ports of this machine."""
    server = NGINX.replace("listen 80;", f"listen 127.0.0.1:{port};").replace("apviz:5006", f"127.0.0.1:{upstream}")
    assert server.count("127.0.0.1") == 2
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    whole = f"pid {folder}/pid; daemon off; events {{}} http {{ access_log off; {temporary} {server} }}"
    (folder / "nginx.conf").write_text(whole)
    words = [str(shutil.which("nginx", path=PATH)), "-p", str(folder), "-e", "error.log", "-c", "nginx.conf"]
    tested = subprocess.run([*words, "-t"], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stderr
    process = subprocess.Popen(words)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=PATIENCE).ok
    except requests.ConnectionError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nginx", path=PATH) is None, reason="nginx is not installed")
def test_the_commands_of_the_image_serve_the_dashboard_behind_nginx(tmp_path):
    inner, outer = free_port(), free_port()
    entry = command()
    entry[entry.index("--runs") + 1] = str(tmp_path / "runs")
    entry[entry.index("--address") + 1] = "127.0.0.1"
    host = [each.replace("${APVIZ_HOST:-localhost}", "localhost") for each in SERVICES["apviz"]["command"]]
    words = [sys.executable, "-m", *entry, *host, "--port", str(inner)]
    assert PASSWORD not in " ".join(words)
    process = subprocess.Popen(words, env={**os.environ, "APVIZ_PASSWORD": PASSWORD}, cwd=tmp_path)
    try:
        (health,) = instructions("HEALTHCHECK")
        check = json.loads(health.partition(" CMD ")[2].replace("5006", str(inner)))
        assert check[0] == "python"
        is_healthy = lambda: subprocess.run([sys.executable, *check[1:]], capture_output=True).returncode == 0  # noqa: E731
        wait_until(is_healthy, process, lambda: "the dashboard did not start", PATIENCE)
        with nginx(tmp_path, outer, inner) as front:
            url = f"http://localhost:{outer}"
            wait_until(lambda: answers(url + PREFIX), front, lambda: "nginx does not answer", PATIENCE)
            visit(url)
    finally:
        process.kill()
        process.wait()


def test_the_entry_point_does_not_start_without_a_password(tmp_path):
    from typer.testing import CliRunner

    from apviz.cli import app

    entry = command()[1:]
    entry[entry.index("--runs") + 1] = str(tmp_path / "runs")
    done = CliRunner().invoke(app, entry, env={"APVIZ_PASSWORD": ""})
    assert done.exit_code == 2 and "choose a password with --basic-auth" in " ".join(done.output.split())


def docker(*words: str, patience: int = PATIENCE, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *words], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=patience,
    )  # fmt: skip


def has_docker() -> bool:
    """Return whether a daemon answers and `docker compose` exists."""
    return shutil.which("docker") is not None and not any(
        docker(*shlex.split(words)).returncode for words in ("info", "compose version")
    )


@pytest.mark.slow
def test_compose_builds_and_serves_the_dashboard_behind_nginx():
    if not has_docker():
        pytest.skip("no Docker daemon with compose; the test above runs the same commands without it")
    name = f"apviz-test-{os.getpid()}"
    compose = ("compose", "--project-name", name)
    try:
        up = docker(*compose, "up", "--build", "--detach", "--wait", patience=BUILD, APVIZ_PASSWORD=PASSWORD)
        assert up.returncode == 0, up.stderr
        (port,) = re.findall(r":(\d+):80$", SERVICES["nginx"]["ports"][0])
        until = time.monotonic() + PATIENCE
        while not answers(f"http://localhost:{port}{PREFIX}") and time.monotonic() < until:
            time.sleep(0.5)
        visit(f"http://localhost:{port}")
        who = docker(*compose, "exec", "apviz", "id", "-u", APVIZ_PASSWORD=PASSWORD)
        assert who.stdout.strip() == "1000"
    finally:
        docker(*compose, "down", "--volumes", "--rmi", "local", patience=BUILD, APVIZ_PASSWORD=PASSWORD)
