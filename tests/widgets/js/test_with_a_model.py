"""The state of a widget and of its model, which is in Python in JupyterLab."""

from __future__ import annotations

import json

import pytest

from apviz.widgets import Angles
from apviz.widgets.bundle import notebook_module
from apviz.widgets.live_widget import style

#: the model that anywidget passes to a widget: values by name, and listeners
MODEL = """(values) => ({
    values, sent: [], listeners: {},
    get(name) { return this.values[name]; },
    set(name, value) {
        if (JSON.stringify(value) === JSON.stringify(this.values[name])) return;
        this.values[name] = value;
        (this.pending ??= new Set()).add(name);
        for (const each of this.listeners[`change:${name}`] ?? []) each();
    },
    save_changes() {
        if (this.pending?.size) this.sent.push([...this.pending].sort());
        this.pending = new Set();
    },
    on(name, listener) { (this.listeners[name] ??= []).push(listener); },
    off(name, listener) { this.listeners[name] = (this.listeners[name] ?? []).filter((each) => each !== listener); },
})"""


@pytest.fixture
def alive(browser):
    """Show a widget with such a model, as `model` of the page."""
    tabs, problems = [], []

    def make(widget):
        tab = browser.new_page(viewport={"width": 1100, "height": 1200})
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tabs.append(tab)
        values = widget.values | {"face": widget.face, "theme": widget.theme, "lecture": widget.lecture}
        tab.set_content(f"<style>{style()}</style><div id=place></div>")
        module = json.dumps(notebook_module())
        tab.evaluate(
            f"""async (values) => {{
                const url = URL.createObjectURL(new Blob([{module}], {{type: "text/javascript"}}));
                window.model = ({MODEL})(values);
                const {{render}} = (await import(url)).default;
                window.end = render({{model, el: document.querySelector("#place")}});
            }}""",
            values,
        )
        return tab

    yield make
    for tab in tabs:
        tab.close()
    assert problems == []


def frames(tab, count=3):
    tab.evaluate("count => new Promise(d => { const n = () => count-- ? requestAnimationFrame(n) : d(); n(); })", count)


def test_changes_in_the_browser_reach_python_once_and_those_of_python_are_shown(alive):
    tab = alive(Angles())
    tab.locator("[data-number=distance]").focus()
    tab.keyboard.press("ArrowRight")
    frames(tab)
    assert tab.evaluate("model.values.distance") == 0.12
    assert tab.evaluate("model.sent") == [["distance"]]
    tab.evaluate("model.set('distance', 0.8); model.set('shared', 3); model.save_changes()")
    frames(tab)
    assert tab.locator("[data-control=distance] output").inner_text() == "0.8"
    assert tab.locator("[data-control=shared] output").inner_text() == "3"
    # changes by Python are not sent back
    assert tab.evaluate("model.sent.length") == 2
    tab.evaluate("model.set('lecture', true); model.set('theme', 'dark')")
    frames(tab)
    assert tab.locator(".apviz-live.lecture[data-theme=dark]").count() == 1


def test_a_closed_widget_has_no_listeners(alive):
    tab = alive(Angles())
    tab.evaluate("end()")
    assert tab.evaluate("Object.values(model.listeners).flat().length") == 0
