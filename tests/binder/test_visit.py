"""A session of Binder, built from `binder/` alone: the first notebook, the dashboard behind the token, and memory.

One image for all tests here: minutes to build, 2 GB of disk while they run.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import psutil
import pytest
import requests

websocket = pytest.importorskip("websocket")
get_token_payload = pytest.importorskip("bokeh.util.token").get_token_payload

from tests.binder.image import ROOT, build, python  # noqa: E402
from tests.binder.test_files import EXTRAS, pinned, wanted  # noqa: E402
from tests.binder.visit import BASE, PATIENCE, Visit  # noqa: E402
from tests.dashboard.browser.server import SHOWN  # noqa: E402

pytestmark = pytest.mark.slow

FIRST = "lab/tree/notebooks/00-start-here.ipynb"
#: memory limit of a session on mybinder.org, in bytes
MEMORY = 2 * 10**9
ELSEWHERE = "https://elsewhere.example"
#: pattern of the session token in the page of the dashboard
TOKEN = r'"token":"([^"]+)"'


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    if python() is None:
        pytest.skip("no Python of the version in binder/runtime.txt")
    folder = tmp_path_factory.mktemp("binder")
    try:
        yield build(folder)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def visit(image):
    session = Visit(image)
    yield session
    session.end()


@pytest.fixture(scope="module")
def page(visit) -> str:
    return visit.wait_for_dashboard().text


def test_the_environment_has_the_required_versions_and_no_developer_tools(image):
    listed = json.loads(image.run("python", "-m", "pip", "list", "--format", "json"))
    found = {each["name"].lower().replace("_", "-"): each["version"] for each in listed}
    for name, requirement in wanted(*EXTRAS).items():
        assert requirement.specifier.contains(found[name].partition("+")[0]), (name, found[name])
    for name, requirement in pinned().items():
        assert requirement.specifier.contains(found[name]), (name, found[name])
    assert not {"pytest", "mypy", "ruff", "playwright", "hypothesis"} & set(found)
    assert "No broken requirements" in image.run("python", "-m", "pip", "check")


def test_the_package_is_the_wheel_and_pytorch_has_no_cuda(image):
    said = image.run("python", "-I", "-c", "import apviz, torch; print(apviz.__file__, torch.version.cuda)")
    file, cuda = said.split()
    assert Path(file).is_relative_to(image.prefix) and cuda == "None"


def test_the_link_opens_the_first_notebook(visit):
    visitor = requests.Session()
    answer = visitor.get(visit.address(FIRST), timeout=PATIENCE)
    assert answer.status_code == 200 and "jupyter-config-data" in answer.text
    content = visitor.get(visit.url + "api/contents/notebooks/00-start-here.ipynb", timeout=PATIENCE).json()
    assert content["type"] == "notebook" and content["content"]["cells"]


def begins_with(visit: Visit) -> str:
    answer = visit.get("")
    assert answer.status_code == 302
    return answer.headers["Location"].removesuffix("?")


def test_without_a_path_the_first_notebook_opens_too(visit):
    assert begins_with(visit) == BASE + FIRST


def test_jupyter_does_not_ask_about_news_and_ends_kernels_with_their_notebooks(visit):
    def default(plugin: str, name: str) -> object:
        return visit.get(f"lab/api/settings/{plugin}").json()["schema"]["properties"][name]["default"]

    assert default("@jupyterlab/apputils-extension:notification", "fetchNews") == "false"
    assert default("@jupyterlab/notebook-extension:tracker", "kernelShutdown") is True


def test_the_link_opens_the_dashboard_and_leaves_the_token_out_of_the_address(visit):
    visitor = requests.Session()
    # the first visitor gets a page that waits for the dashboard
    answer = visitor.get(visit.address("apviz/"), timeout=PATIENCE)
    assert answer.status_code == 200 or "The dashboard is starting" in answer.text
    visit.wait_for_dashboard()
    answer = visitor.get(visit.address("apviz/"), timeout=PATIENCE)
    assert answer.status_code == 200 and answer.url == visit.url + "apviz/"
    assert "<title>apviz</title>" in answer.text
    answer = visitor.get(visit.address("apviz/?page=inside&theme=dark"), timeout=PATIENCE)
    assert answer.url == visit.url + "apviz/?page=inside&theme=dark" and answer.status_code == 200


def test_the_scripts_and_styles_of_the_dashboard_come_through_the_proxy(visit, page):
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    ours = [link for link in links if not link.startswith(("http:", "https:", "data:"))]
    assert ours and not [link for link in ours if link.startswith("/")]
    for link in ours:
        assert visit.get(f"apviz/{link.removeprefix('./')}").status_code == 200, link


def test_a_websocket_through_the_proxy_yields_the_document_of_the_dashboard(visit, page):
    (token,) = set(re.findall(TOKEN, page))
    document = visit.document(token)
    assert document["title"] == "apviz" and document["roots"]
    assert "china" in json.dumps(document)


def test_a_message_may_be_nearly_as_long_as_the_limit_of_the_dashboard(visit, page):
    (token,) = set(re.findall(TOKEN, page))
    assert visit.document(token, padding=2**20)["title"] == "apviz"


def test_the_launcher_of_jupyterlab_offers_the_dashboard_and_nothing_else(visit):
    (offered,) = visit.get("server-proxy/servers-info").json()["server_processes"]
    assert offered["launcher_entry"]["title"] == "apviz dashboard"
    assert offered["launcher_entry"]["path_info"] == "apviz/"


@pytest.mark.parametrize(
    "path",
    ["README.md", "pyproject.toml", "notebooks/00-start-here.ipynb", "00-start-here", "admin", "_admin", "rest",
     "..%2f..%2fREADME.md", "%2e%2e/%2e%2e/README.md", "static/..%2f..%2fREADME.md", "plotly/..%2f..%2fREADME.md",
     "plotly/", "static/", "components/apviz/README.md", "runs", "runs/"],
)  # fmt: skip
def test_the_proxy_serves_no_file_of_the_folder_and_no_admin_page(visit, page, path):
    assert visit.get(f"apviz/{path}").status_code in (400, 403, 404)


def test_the_dashboard_was_started_without_autoreload(page):
    assert "autoreload" not in page


def test_no_other_port_of_the_machine_is_served(visit, page):
    (port,) = [each.laddr.port for each in visit.dashboard().net_connections() if each.status == psutil.CONN_LISTEN]
    for place in (port, f"127.0.0.1:{port}", f"localhost:{port}", f"absolute/{port}", f"absolute/127.0.0.1:{port}"):
        # the dashboard accepts both
        assert visit.get(f"proxy/{place}/metadata").status_code == 404, place
        with pytest.raises(websocket.WebSocketBadStatusException, match="404"):
            visit.connect(f"proxy/{place}/ws", subprotocols=["bokeh", "none"])


def test_the_server_extension_of_panel_which_runs_any_file_is_disabled(visit):
    assert visit.get("panel-preview/render/notebooks/00-start-here.ipynb").status_code == 404


def test_the_dashboard_listens_to_this_machine_only(visit, page):
    places = [each.laddr.ip for each in visit.dashboard().net_connections() if each.status == psutil.CONN_LISTEN]
    assert places == ["127.0.0.1"]


def test_without_the_token_there_is_neither_page_nor_websocket(visit, page):
    answer = visit.get("apviz/", token=False)
    assert answer.status_code == 302 and f"{BASE}login" in answer.headers["Location"]
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        visit.connect("apviz/ws", token=False)


def test_a_page_of_another_origin_gets_no_websocket_through_the_proxy(visit, page):
    visitor = requests.Session()
    visitor.get(visit.address("apviz/"), timeout=PATIENCE)
    cookies = "; ".join(f"{each.name}={each.value}" for each in visitor.cookies)
    (ours,) = set(re.findall(TOKEN, page))
    line = visit.connect("apviz/ws", token=False, cookie=cookies, subprotocols=["bokeh", ours])
    assert json.loads(line.recv())["msgtype"] == "ACK"
    line.close()
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        visit.connect("apviz/ws", token=False, cookie=cookies, subprotocols=["bokeh", ours], origin=ELSEWHERE)


def test_the_dashboard_never_sees_the_cookie_and_the_token_of_jupyter(visit):
    visit.wait_for_dashboard()
    visitor = requests.Session()
    visitor.get(visit.address("apviz/"), timeout=PATIENCE)
    assert any(each.name.startswith("username-") for each in visitor.cookies)
    for answer in (visitor.get(visit.url + "apviz/", timeout=PATIENCE), visit.get("apviz/")):
        (session_token,) = re.findall(TOKEN, answer.text)
        seen = json.dumps(get_token_payload(session_token))
        assert "Host" in seen and "username-" not in seen and visit.token not in seen


def test_the_command_of_binder_serves_the_same_pages(image):
    session = Visit(image, ("jupyter", "notebook"))
    try:
        assert begins_with(session) == BASE + FIRST
        assert "jupyter-config-data" in session.get(FIRST).text
        assert "<title>apviz</title>" in session.wait_for_dashboard().text
    finally:
        session.end()


def test_a_student_with_a_browser_sees_the_notebook_and_solves_in_the_dashboard(visit, browser):
    problems: list[str] = []
    with browser.new_context(viewport={"width": 1500, "height": 1000}) as context:
        tab = context.new_page()
        tab.set_default_timeout(1000 * PATIENCE)
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.goto(visit.address(FIRST))
        tab.locator(".jp-Notebook").get_by_role("heading", name="Start here").wait_for()
        assert not tab.get_by_text("receive official Jupyter news").count()
        tab.goto(visit.address("apviz/?n=500&methods=cg,pcg&rhs=2"))
        tab.wait_for_function("() => !document.getElementById('apviz-first')")
        tab.wait_for_selector("[role=figure][aria-label^='Residual.']:has(.main-svg)")
        assert "token=" not in tab.url and not tab.get_by_text("Not everything in this address").is_visible()
        tab.get_by_role("button", name="Run", exact=True).click()
        tab.get_by_text(re.compile("runs? recorded")).locator(SHOWN).first.wait_for()
        tab.wait_for_function("/selected=china-n500-/.test(location.search)")
    assert problems == []
    assert list((visit.image.home / "runs").glob("china-n500-cg*.zarr"))


NOTEBOOKS = sorted(each.name for each in (ROOT / "notebooks").glob("*.ipynb"))
A_SOLVE = """
import apviz
data = apviz.datasets.load("china", n=5000, seed=0)
system = apviz.KernelSystem(data.train_x, data.train_y, apviz.Matern52(lengthscale=0.2), noise=0.1, dataset="china")
print(apviz.solve(system, apviz.Automatic(tol=1e-2)).stop_reason)
"""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_while_the_dashboard_is_open(visit, page, name):
    cells = json.loads((visit.image.home / "notebooks" / name).read_text("utf-8"))["cells"]
    with visit.kernel() as kernel:
        for cell in cells:
            if cell["cell_type"] == "code":
                kernel.run("".join(cell["source"]))
    assert visit.peak < MEMORY


def test_two_notebooks_and_the_largest_solves_of_the_dashboard_take_less_than_two_gigabytes(visit, browser):
    (largest,) = re.findall(r'"--max-n", "(\d+)"', (ROOT / "binder/jupyter_server_config.py").read_text("utf-8"))
    methods = "ap,overlap,cg,pcg,schwarz,cholesky"
    with visit.kernel() as first, visit.kernel() as second, browser.new_context() as context:
        assert "converged" in first.run(A_SOLVE) and "converged" in second.run(A_SOLVE)
        tab = context.new_page()
        tab.set_default_timeout(1000 * PATIENCE)
        tab.goto(visit.address(f"apviz/?n={largest}&methods={methods}&rhs=16&dtype=float64"))
        tab.wait_for_function("() => !document.getElementById('apviz-first')")
        tab.get_by_role("button", name="Run", exact=True).click()
        tab.get_by_text(re.compile("runs? recorded")).locator(SHOWN).first.wait_for()
    assert list((visit.image.home / "runs").glob(f"china-n{largest}-cholesky*.zarr"))
    assert 0 < visit.peak < MEMORY
