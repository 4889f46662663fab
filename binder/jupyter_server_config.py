"""Configure Jupyter on Binder: JupyterLab opens the first notebook; the dashboard is at apviz/, behind Jupyter's token.

We do not use jupyter-panel-proxy: it starts Panel with every notebook and script of the folder as an app, an admin page
and autoreload. Panel's own server extension runs any file of the folder as an app.
"""

from urllib.parse import parse_qsl, urlencode

import jupyter_server_proxy
import tornado.websocket
from jupyter_server_proxy.handlers import RewritableResponse
from tornado.httputil import HTTPServerRequest

FIRST = "/lab/tree/notebooks/00-start-here.ipynb"

# what fits into 2 GB next to a few notebooks: Cholesky in float64 at this n is four matrices of 72 MB
LIMITS = ["--max-solves", "1", "--max-n", "3000", "--max-block-gb", "0.3", "--max-upload", "10"]


def leave_token_out(response: RewritableResponse, request: HTTPServerRequest, path: str) -> None:
    """Redirect to the address without ?token=…, which Binder's links have, once the cookie replaces it."""
    query = parse_qsl(request.query, keep_blank_values=True)
    if path == "/" and "token" in dict(query):
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        response.code, response.body = 302, b""
        response.headers["Location"] = f"/?{rest}" if rest else "/"


c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.ServerApp.default_url = c.LabApp.default_url = c.JupyterNotebookApp.default_url = FIRST
c.ServerApp.jpserver_extensions = {"panel.io.jupyter_server_extension": False}
# shut down idle notebooks, to free their memory
c.MappingKernelManager.cull_idle_timeout = 600
c.ServerProxy.servers = {
    "apviz": {
        "command": ["apviz", "dashboard", "--no-show", "--port", "{port}", "--runs", "runs", *LIMITS],
        "timeout": 120,
        # Jupyter has checked the user and the origin; the dashboard knows only its own address, and needs no cookie
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
# the proxy's default limit is 10 MiB; a larger download from the dashboard would end the visitor's session
tornado.websocket._default_max_message_size = 64 * 2**20
# otherwise it would also forward requests to every other port of the machine, at proxy/PORT; no setting prevents it
jupyter_server_proxy.setup_handlers = lambda web_app, config: None
