"""The part of plotly.js that draws the figures of apviz: a quarter of the script, and a third of a browser's time.

plotly.js is a list of modules in the order of their dependencies. The last module registers the traces; the core, which
draws scatter traces, comes first. This module shortens the list of registered traces, and leaves out every module after
the last trace that remains.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from plotly.offline import get_plotlyjs

#: Traces of the figures, next to those of the core.
TRACES: Final = ("heatmap",)

#: Last module: `var index=W((a,b)=>{"use strict";var core=A();core.register([B(),C()]);…`.
_INDEX: Final = re.compile(r"var [\w$]+=([\w$]+)\(\([\w$,]*\)=>\{[^{}]*\.register\(\[([\w$(),]+)\]\)")


@cache
def plotly_script() -> str:
    """Return the script that draws the figures: all of plotly.js if it has another form than expected."""
    whole = str(get_plotlyjs())
    found = [*_INDEX.finditer(whole)]
    if len(found) != 1:
        return whole
    (index,) = found
    modules = [_module(whole, index[1], call.removesuffix("()")) for call in index[2].split(",")]
    kept = [each for each in modules if each is not None and _trace_of(whole, index[1], each) in TRACES]
    if len(kept) != len(TRACES):
        return whole
    calls = ",".join(f"{each['name']}()" for each in kept)
    end = max(each.end() for each in kept)
    return whole[:end] + whole[index.start() : index.start(2)] + calls + whole[index.end(2) :]


def _module(script: str, wrapper: str, name: str) -> re.Match[str] | None:
    """Return a module that only exports another: `var name=W((a,b)=>{"use strict";b.exports=other()});`."""
    form = r"\(\([\w$,]*\)=>\{[^{}]*\.exports=(?P<of>[\w$]+)\(\)\}\);"
    return re.search(rf"var (?P<name>{re.escape(name)})={re.escape(wrapper)}{form}", script)


def _trace_of(script: str, wrapper: str, module: re.Match[str]) -> str:
    """Return the name of the trace that a module exports; empty if it is none."""
    start = script.find(f"var {module['of']}={wrapper}(")
    named = re.compile(r'moduleType:"trace",name:"(\w+)"').search(script, start, module.start())
    return named[1] if named else ""
