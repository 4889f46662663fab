"""Jupyter on Binder: JupyterLab begins with the first notebook, and the dashboard is at apviz/, behind Jupyter's token.

Not through jupyter-panel-proxy, which starts Panel itself, with every notebook and script of the folder as an app, an
admin page and autoreload; and not through Panel's own server extension, which runs any file of the folder as an app.
"""

from urllib.parse import parse_qsl, urlencode

import jupyter_server_proxy
import tornado.websocket
from jupyter_server_proxy.handlers import RewritableResponse
from tornado.httputil import HTTPServerRequest

FIRST = "/lab/tree/notebooks/00-start-here.ipynb"

# what 2 GB can take beside a few notebooks: Cholesky in float64 at this n is four matrices of 72 MB
LIMITS = ["--max-solves", "1", "--max-n", "3000", "--max-block-gb", "0.3", "--max-upload", "10"]


def leave_token_out(response: RewritableResponse, request: HTTPServerRequest, path: str) -> None:
    """Binder's links bring ?token=…, which the cookie then stands for: sends the browser to the address without it."""
    query = parse_qsl(request.query, keep_blank_values=True)
    if path == "/" and "token" in dict(query):
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        response.code, response.body = 302, b""
        response.headers["Location"] = f"/?{rest}" if rest else "/"


c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.ServerApp.default_url = c.LabApp.default_url = c.JupyterNotebookApp.default_url = FIRST
c.ServerApp.jpserver_extensions = {"panel.io.jupyter_server_extension": False}
# a notebook that nobody looks at gives its memory back
c.MappingKernelManager.cull_idle_timeout = 600
c.ServerProxy.servers = {
    "apviz": {
        "command": ["apviz", "dashboard", "--no-show", "--port", "{port}", "--runs", "runs", *LIMITS],
        "timeout": 120,
        # Jupyter has checked who asks and from where; the dashboard knows its own address only, and needs no cookie
        "request_headers_override": {
            "Host": "127.0.0.1:{port}",
            "Origin": "http://127.0.0.1:{port}",
            "Cookie": "",
            "Authorization": "",
        },
        "rewrite_response": leave_token_out,
        "launcher_entry": {"title": "apviz dashboard"},
    }
}
# the proxy's own limit is 10 MiB, and a larger download from the dashboard would end the visitor's session
tornado.websocket._default_max_message_size = 64 * 2**20
# it would also pass on requests to every other port of the machine, at proxy/PORT, without a setting against it
jupyter_server_proxy.setup_handlers = lambda web_app, config: None
