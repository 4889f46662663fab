"""List every message that apviz can raise, warn with or log, as a table in Markdown.

python -m tests.messages > messages.md
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: functions whose first text is shown to a user; classes are found by their capital letter after `raise`
SHOWN = {"warn", "warning", "info", "fail", "explained", "require", "warn_once"}


@dataclass(frozen=True)
class Message:
    """A message and its place; a value that is filled in at run time is `…`."""

    path: str
    line: int
    kind: str
    text: str

    def sentences(self) -> list[str]:
        """Split the text at full stops, semicolons and colons that end a clause."""
        return [part for part in re.split(r"(?<=[.!?;:])\s+|\n", self.text) if part.strip()]


def text_of(node: ast.expr) -> str:
    """Return a literal or formatted text, with `…` for values; empty for other expressions."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(each) if isinstance(each, ast.Constant) else "…" for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return ""


def name_of(call: ast.Call) -> str:
    """Return the last part of the name that is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def messages_in(path: Path) -> Iterator[Message]:
    """Yield the messages of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    where = path.relative_to(ROOT).as_posix()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call = node.exc
        elif isinstance(node, ast.Call) and name_of(node) in SHOWN:
            call = node
        else:
            continue
        texts = [text for text in map(text_of, call.args) if " " in text]
        if texts:
            yield Message(where, node.lineno, name_of(call), max(texts, key=len))


def all_messages() -> list[Message]:
    """Return every message of the package, in the order of files and lines."""
    found = {each for path in sorted((ROOT / "apviz").rglob("*.py")) for each in messages_in(path)}
    return sorted(found, key=lambda each: (each.path, each.line))


def main() -> None:
    """Print the table."""
    print("| file | line | kind | message |\n|---|---|---|---|")
    for each in all_messages():
        print(f"| `{each.path}` | {each.line} | {each.kind} | {each.text.replace('|', '∣')} |")


if __name__ == "__main__":
    main()
