"""Archives of traces: zip files (`.zarr.zip`), written, and unpacked without trusting their author.

A single trace is at the root of its zip, which `zarr.storage.ZipStore` opens as it is; several are in folders
`NAME.zarr`.

All checks of names and sizes come before the first file is written. Accepted are the files of a trace only, of bounded
number and size, whose metadata describe plain little-endian numbers (Zarr v3, codec `bytes`) of bounded size. So no
file leaves the folder, none is a link, none chooses a decoder, and no array is larger than its file.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from apviz.files import require_short_list
from apviz.tracing.schema import GROUPS

#: size of all traces in a zip, unpacked
MOST_BYTES: Final = 2**30
MOST_FILES: Final = 50_000
#: size of one file of metadata
MOST_METADATA: Final = 4 * 2**20

_ROOT: Final = "zarr.json"
_FILE: Final = re.compile(r"(?:\w{1,60}/){0,2}zarr\.json|\w{1,60}/\w{1,60}/c(?:/\d{1,9}){0,4}", re.ASCII)
_FOLDER: Final = re.compile(r"(?P<name>[^/\\]{1,200})\.zarr/(?P<rest>.+)")
# what the archive tools of some systems add
_LITTER: Final = re.compile(r"__MACOSX/.*|(?:.*/)?(?:\.DS_Store|\._[^/]*)")
# a group, or an array in one
_NODE: Final = re.compile(r"\w{1,60}(?:/\w{1,60})?", re.ASCII)
_DTYPES: Final = sorted({variable.dtype for group in GROUPS.values() for variable in group.values()})


def pack(traces: Mapping[str, Path], file: BinaryIO) -> None:
    """Write traces by name into a zip file; a trace that is still being written, as of its last flush.

    Raises:
        OSError: a trace that cannot be read.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in traces.items():
            prefix = "" if len(traces) == 1 else f"{name}.zarr/"
            root = path / _ROOT
            # first: a flush meanwhile may add numbers, which a root read before it leaves out
            for each in (root, *(other for other in sorted(path.rglob("*")) if other != root)):
                inside = each.relative_to(path).as_posix()
                if _FILE.fullmatch(inside) and each.is_file():
                    archive.writestr(f"{prefix}{inside}", each.read_bytes())


def unpack(
    file: BinaryIO, folder: Path, *, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES
) -> dict[str, Path]:
    """Unpack the traces of a zip file into an empty folder; return their paths by name, `""` for one at the root.

    Raises:
        ValueError: not a zip file, or one with other files than traces have; the caller deletes `folder`.
    """
    try:
        require_short_list(file, most_files)
        with zipfile.ZipFile(file) as archive:
            members = _checked(archive, most_bytes, most_files)
            found: dict[str, Path] = {}
            for (name, inside), member in members.items():
                # never a name from the zip on disk
                place = found.setdefault(name, folder / f"{len(found)}.zarr")
                target = place / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("xb") as written:
                    shutil.copyfileobj(source, written)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise ValueError(f"it cannot be unpacked as a zip file: {error}") from error
    except Exception as error:
        # the decoders of zipfile raise errors of their own
        raise error if isinstance(error, ValueError) else ValueError(f"it is a damaged zip file: {error}") from error
    for name, place in found.items():
        if not (place / _ROOT).is_file():
            raise ValueError(f"{name or 'it'} has no {_ROOT} at its root: not a Zarr v3 trace")
        check_metadata(place, most_bytes, most_files)
    return found


def _checked(archive: zipfile.ZipFile, most_bytes: int, most_files: int) -> dict[tuple[str, str], zipfile.ZipInfo]:
    """Return the files by trace and by name inside it, from the table of contents of the zip."""
    members = [each for each in archive.infolist() if not each.is_dir() and not _LITTER.fullmatch(each.filename)]
    if len(members) > most_files:
        raise ValueError(f"it has {len(members):,} files; up to {most_files:,} are accepted")
    size = sum(each.file_size for each in members)
    if size > most_bytes:
        raise ValueError(f"it unpacks to {size / 1e6:,.0f} MB; up to {most_bytes / 1e6:,.0f} MB are accepted")
    found: dict[tuple[str, str], zipfile.ZipInfo] = {}
    for each in members:
        kind = stat.S_IFMT(each.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise ValueError(f"{each.filename!r} in it is a link or a special file")
        if each.flag_bits & 1:
            raise ValueError(f"{each.filename!r} in it is encrypted")
        # `orig_filename`: zipfile itself cuts names off at a zero byte
        inside = _FOLDER.fullmatch(each.orig_filename)
        name, rest = (inside["name"], inside["rest"]) if inside else ("", each.orig_filename)
        if not _FILE.fullmatch(rest):
            raise ValueError(f"{each.orig_filename!r} in it is not a file of a trace")
        if rest.endswith(_ROOT) and each.file_size > MOST_METADATA:
            raise ValueError(f"{each.filename!r} in it is larger than any metadata, {MOST_METADATA / 1e6:.0f} MB")
        if (name, rest) in found:
            raise ValueError(f"{each.filename!r} is in it twice")
        found[name, rest] = each
    if not found:
        raise ValueError("there is no trace in it")
    if len({name for name, _ in found}) > 1 and any(name == "" for name, _ in found):
        raise ValueError("it has traces both at its root and in folders")
    return found


def consolidated_nodes(root: Any) -> dict[str, Any]:
    """Return the metadata of the groups and arrays that a root holds, by name; empty where it holds none."""
    return (root.get("consolidated_metadata") or {}).get("metadata") or {}


def check_metadata(place: Path, most_bytes: int, most_files: int) -> None:
    """Check that arrays hold plain numbers, and that together they take at most `most_bytes`.

    Raises:
        ValueError: another kind of array, or a larger size.
    """
    nodes: list[Any] = []
    for path in sorted(place.rglob(_ROOT)):
        try:
            node = json.loads(path.read_bytes())
            inside = consolidated_nodes(node)
            if inside and path.parent != place:
                raise ValueError("consolidated, and not of the root")
            # the name of a node is a path, which could lead elsewhere
            strange = [name for name in inside if not _NODE.fullmatch(name)]
            if strange or any(map(consolidated_nodes, inside.values())):
                raise ValueError(f"strange nodes {strange}"[:200])
            nodes += [node, *inside.values()]
        except (ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"its {path.relative_to(place)} is not Zarr metadata: {error}") from error
    described = 0.0
    for node in nodes:
        try:
            nbytes, chunks = _size(node)
        except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"it has metadata that describe no array: {type(error).__name__} {error}") from error
        # every array is described twice: in its own file and in the root's
        described += nbytes / 2
        if described > most_bytes or nbytes > most_bytes or chunks > most_files:
            raise ValueError(f"its arrays are larger than {most_bytes / 1e6:,.0f} MB, the limit")


def _size(node: Any) -> tuple[float, float]:
    """Return bytes and number of chunks of an array; zeros for a group."""
    if node["zarr_format"] != 3 or node["node_type"] not in ("array", "group"):
        raise ValueError("it is not in the format Zarr v3")
    if node["node_type"] == "group":
        return 0.0, 0.0
    if node["data_type"] not in _DTYPES:
        raise ValueError(f"it has an array of {str(node['data_type'])[:40]!r}; a trace has {', '.join(_DTYPES)}")
    codecs = [codec if isinstance(codec, str) else codec["name"] for codec in node["codecs"]]
    if codecs != ["bytes"] or node.get("storage_transformers"):
        raise ValueError(
            f"its arrays are coded by {', '.join(map(str, codecs))[:80]}; plain bytes are accepted. "
            "Save the trace again with this apviz, `apviz.open_trace(path).save(other)`"
        )
    grid = node["chunk_grid"]
    shape, chunk = node["shape"], grid["configuration"]["chunk_shape"]
    if grid["name"] != "regular" or len(shape) != len(chunk) or len(shape) > 4:
        raise ValueError("it has an array that is not cut into regular chunks")
    if not all(isinstance(size, int) for size in (*shape, *chunk)) or min((*shape, *chunk), default=1) < 0:
        raise ValueError("it has an array without a shape")
    held = math.prod(max(1, size) for size in chunk)
    chunks = math.prod(-(-size // max(1, part)) for size, part in zip(shape, chunk, strict=True))
    return 8.0 * max(math.prod(shape), held), float(chunks)
