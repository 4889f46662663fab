import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_LINES_OF_A_FUNCTION, MOST_LINES_OF_A_FILE = 60, 400


def sources() -> dict[str, str]:
    return {path.relative_to(ROOT / "apviz").as_posix(): path.read_text("utf-8") for path in ROOT.glob("apviz/**/*.py")}


def test_no_function_is_longer_than_a_screen():
    kinds = ast.FunctionDef, ast.AsyncFunctionDef
    lines = {
        f"{name}: {node.name}": node.end_lineno - node.lineno + 1
        for name, text in sources().items() for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)
    }  # fmt: skip
    assert len(lines) > 3_000
    assert {name: count for name, count in lines.items() if count > MOST_LINES_OF_A_FUNCTION} == {}


def test_files_can_be_read_in_one_go():
    lines = {name: len(text.splitlines()) for name, text in sources().items()}
    assert {name: count for name, count in lines.items() if count > MOST_LINES_OF_A_FILE} == {}
