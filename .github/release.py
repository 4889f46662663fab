"""Print the words of a release from CHANGELOG.md, once its files are found to have the version of the tag.

python .github/release.py v0.2.0 dist > notes.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

REPOSITORY = "https://github.com/apviz/apviz"


def notes_of(tag: str, changelog: str) -> str:
    """Return the section of a version, with links that work outside the repository.

    Raises:
        ValueError: the tag is not a version, or its section is missing, empty or has no date.
    """
    if not re.fullmatch(r"v\d+\.\d+\.\d+(rc\d+)?", tag):
        raise ValueError(f"the tag is {tag!r}; a release is a tag such as v0.2.0 or v0.2.0rc1")
    # a candidate has the words of the release that it may become
    version = re.sub(r"rc\d+", "", tag.removeprefix("v"))
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    found = [each.partition("\n") for each in sections if each.split()[0] == version]
    if len(found) != 1 or not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", found[0][0]):
        raise ValueError(f"CHANGELOG.md needs one heading such as: ## {version} (2026-11-28)")
    words = found[0][2].strip()
    if not words:
        raise ValueError(f"CHANGELOG.md says nothing about {version}: move what is under Unreleased there")
    return re.sub(r"\]\((?!https?:|#)", f"]({REPOSITORY}/blob/{tag}/", words) + "\n"


def check_files(tag: str, folder: Path) -> None:
    """Check that a folder has a source archive and wheels of the version of a tag, and nothing else.

    Raises:
        ValueError: there is no file, or one has another version, as where the tag is not at the commit.
    """
    version = re.escape(tag.removeprefix("v"))
    names = sorted(path.name for path in folder.iterdir())
    wrong = [name for name in names if not re.fullmatch(rf"apviz-{version}(\.tar\.gz|-[^-]+-[^-]+-[^-]+\.whl)", name)]
    if wrong or not names:
        raise ValueError(f"{folder} should have only files of {tag}, and has {', '.join(wrong) or 'none'}")


if __name__ == "__main__":
    _, tag, folder = sys.argv
    check_files(tag, Path(folder))
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    print(notes_of(tag, Path("CHANGELOG.md").read_text("utf-8")), end="")
