"""Building the compiled CPU engine: a library for each form of kernel, by the machine's C++ compiler, once.

Wheels bring libraries of the common forms, compiled by `prebuild` for several instruction sets. The build of a wheel
reads this file alone, without the packages that apviz needs, so other imports stand in the functions that use them.

The source of a kernel is a few lines about its parts (`source`), around the loops of `native_loops.h`. Its numbers are
passed at run time, so that a training compiles once. `native.cpp` has the functions that need no kernel. A library is
kept in the user's cache. Its name contains hashes of the sources, the flags and the processor, so that a change of any
of them causes a new build.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

log = logging.getLogger("apviz")

SOURCE = Path(__file__).with_name("native.cpp")
HEADERS = [SOURCE.with_name(f"{name}.h") for name in ("native", "native_forms", "native_loops")]

#: a `Formula.structure`; a file: the library of another source; None: that of functions that need no kernel
Structure = Path | tuple[tuple[str, ...], tuple[bool, ...], tuple[tuple[int, ...], ...]]
# the first set of flags that the compiler accepts; 512-bit vectors, where they exist, are 1.5 times faster at small d
COMMON = ("-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
FLAGS = (
    (*COMMON, "-march=native", "-fopenmp", "-mprefer-vector-width=512"),
    (*COMMON, "-march=native", "-fopenmp"),
    (*COMMON, "-march=native", "-fopenmp-simd"),
    COMMON,
)

# Libraries of wheels are not linked to OpenMP: on Linux its functions are found in the library that PyTorch has loaded,
# so there is one pool of threads. macOS and Windows get one thread, as their usual compilers have no OpenMP. Clang
# rejects -fPIC for Windows.
_OF_WHEELS = {
    "linux": (*COMMON, "-fopenmp"),
    "darwin": (*COMMON, "-fopenmp-simd"),
    "win32": (*(flag for flag in COMMON if flag != "-fPIC"), "-fopenmp-simd"),
}
_AVX2 = ("-mavx2", "-mfma")
_AVX512 = (*_AVX2, *(f"-mavx512{part}" for part in ("f", "vl", "bw", "dq")), "-mprefer-vector-width=512")
#: flags of the instruction sets of a family of processors; PyTorch's names of capabilities stand for the same
INSTRUCTION_SETS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86": {"avx512": _AVX512, "avx2": _AVX2, "sse2": ()},
    "arm": {"neon": ()},
}
#: families by the names of machines
FAMILIES = {"x86_64": "x86", "amd64": "x86", "aarch64": "arm", "arm64": "arm"}
#: libraries in a wheel, in a folder for each instruction set
PREBUILT = Path(__file__).with_name("prebuilt")
#: what wheels have libraries of; other kernels, such as sums, are compiled when they are first used
PREBUILT_STRUCTURES: tuple[Structure | None, ...] = (
    None,
    SOURCE.parent / "fourier" / "cell_list.cpp",
    *(
        ((form,), (form == "inner_product",), ((0,),))
        for form in ("matern12", "matern32", "matern52", "rbf", "rational_quadratic", "spherical", "inner_product")
    ),
)


def compiler() -> list[str]:
    """Find the command of the C++ compiler: $CXX, else the first of c++, g++, clang++; OSError if there is none."""
    wanted = shlex.split(os.environ.get("CXX", ""))
    if wanted:
        if shutil.which(wanted[0]) is None:
            raise OSError(f"CXX={wanted[0]!r} is not on the path")
        return wanted
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise OSError("no C++ compiler was found")


def source(structure: Structure) -> str:
    """Write the source of a kernel's library; `native_loops.h` lists the required definitions."""
    if isinstance(structure, Path):
        return structure.read_text("utf-8")
    forms, of_product, terms = structure
    parts, each = range(len(forms)), range(len(terms))

    def lines(template: str, over: range) -> str:
        return "".join(template.format(k=k) for k in over)

    def product(term: Sequence[int], first: str = "") -> str:
        return " * ".join([*([first] if first else []), *(f"f{p}" for p in term)]) or "T(1)"

    by_value = {
        p: " + ".join(product([q for q in term if q != p], f"w{t}") for t, term in enumerate(terms) if p in term)
        for p in parts
    }
    sums = ", ".join([*(f"a{p}" for p in parts), *(f"t{t}" for t in each)])
    values = "".join(f"      const T f{p} = {form}::value(u{p}[j], s{p});\n" for p, form in enumerate(forms))
    tiles = lines("    T* const __restrict u{k} = us[{k}] + at;\n    const T s{k} = k.shape[{k}];\n", parts)
    tiles += lines("    const T w{k} = k.weight[{k}];\n", each)
    slopes = "".join(
        f"      const T d{p} = m[j] * ({by_value[p]});\n      a{p} += d{p} * {form}::slope_in_shape(u{p}[j], s{p});\n"
        f"      u{p}[j] = d{p} * {form}::slope(u{p}[j], s{p});\n"
        for p, form in enumerate(forms)
    )
    return f"""#include "native_loops.h"

struct Generated {{
  static constexpr int parts = {len(forms)}, terms = {len(terms)};
  static constexpr bool of_product(int p) {{
    constexpr bool found[] = {{{", ".join("true" if each else "false" for each in of_product)}}};
    return found[p];
  }}

  template <typename T>
  static inline void combined(const Numbers<Generated, T>& k, T* const* us, int64_t at, int64_t columns) {{
{tiles}#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) {{
{values}      u0[j] = {" + ".join(product(term, f"w{t}") for t, term in enumerate(terms))};
    }}
  }}

  template <typename T>
  static inline void differentiated(const Numbers<Generated, T>& k, T* const* us, const T* weights, int64_t at,
                                    int64_t columns, double* sums) {{
{tiles}    const T* const __restrict m = weights + at;
    T {" = 0, ".join(sums.split(", "))} = 0;
#pragma omp simd reduction(+ : {sums})
    for (int64_t j = 0; j < columns; ++j) {{
{values}{"".join(f"      t{t} += m[j] * {product(term)};{chr(10)}" for t, term in enumerate(terms))}{slopes}    }}
{lines("    sums[{k}] += a{k};" + chr(10), parts)}{lines("    sums[parts + {k}] += t{k};" + chr(10), each)}  }}
}};

APVIZ_EXPORT(Generated, float, f32)
APVIZ_EXPORT(Generated, double, f64)
"""


def _source(structure: Structure | None) -> str:
    return SOURCE.read_text("utf-8") if structure is None else source(structure)


@cache
def _key(structure: Structure | None) -> str:
    processor = platform.machine() + platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        processor += next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "")
    return _digest_of_sources(structure, repr(FLAGS) + processor)


def _digest_of_sources(structure: Structure | None, more: str = "") -> str:
    read = [_source(structure).encode(), *(header.read_bytes() for header in HEADERS)]
    return hashlib.sha256(b"".join(read) + more.encode()).hexdigest()[:16]


def path_of(structure: Structure | None = None) -> Path:
    """Return the path of the library for a kernel of this structure, or of the library without kernel."""
    return _folder(os.environ.get("XDG_CACHE_HOME")) / f"tiles-{_key(structure)}.so"


@cache
def _folder(home: str | None) -> Path:
    """Return the folder of libraries, below XDG_CACHE_HOME; finding it takes longer than predicting a row."""
    import pooch

    return Path(pooch.os_cache("apviz")) / "native"


def loaded(path: Path, structure: Structure | None) -> ctypes.CDLL:
    """Load the library at `path`, rebuilt once if it is damaged; loading a truncated one would kill the process."""
    digest = _digest_of(path)
    try:
        if digest.exists() and digest.read_text("utf-8") != _sha256(path):
            raise OSError(f"{path} differs from the library that was built")
        return ctypes.CDLL(str(path))
    except OSError:
        path.unlink(missing_ok=True)
        build(path, structure)
        return ctypes.CDLL(str(path))


def _digest_of(library: Path) -> Path:
    """Return the path of a library's digest."""
    return library.with_name(f"{library.name}.sha256")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build(path: Path, structure: Structure | None = None) -> None:
    """Compile the engine to `path`, for a kernel or without; OSError with the compiler's message."""
    cxx = compiler()
    started = time.perf_counter()
    log.info("compiling the CPU engine with %s (once on this machine)", cxx[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    error = ""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built, text = Path(folder) / path.name, Path(folder) / "tiles.cpp"
        text.write_text(_source(structure), "utf-8")
        for flags in FLAGS:
            command = [*cxx, *flags, f"-I{SOURCE.parent}", "-o", str(built), str(text)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                digest = _sha256(built)
                built.replace(path)  # atomic: another process may build at the same time
                _digest_of(path).write_text(digest, "utf-8")
                log.info("compiled in %.1f s", time.perf_counter() - started)
                return
            error = (done.stderr.strip().splitlines() or ["no message"])[-1]
    raise OSError(f"{cxx[0]} failed: {error}")


def prebuilt_path(structure: Structure | None, instruction_set: str) -> Path:
    """Return the path of a wheel's library; its name contains a hash of the sources, so that both fit together."""
    return PREBUILT / instruction_set / f"tiles_{_digest_of_sources(structure)}.so"


def prebuild(folder: Path, *, system: str, machine: str, more: Sequence[str] = ()) -> Iterator[Path]:
    """Compile the libraries of a wheel into `folder`, and yield their paths.

    Args:
        folder: takes the place of `PREBUILT`.
        system, machine: of the wheel, as `sys.platform` and `platform.machine()` name them.
        more: flags of the compiler, such as `-arch arm64`.

    Raises:
        OSError: there is no compiler, it fails, or wheels are not built for this system or machine.
    """
    family = FAMILIES.get(machine.lower())
    if system not in _OF_WHEELS or family is None:
        raise OSError(f"no engine is prebuilt for {system} on {machine}: use one of {', '.join(FAMILIES)}")
    for name, flags in INSTRUCTION_SETS[family].items():
        for structure in PREBUILT_STRUCTURES:
            path = folder / prebuilt_path(structure, name).relative_to(PREBUILT)
            path.parent.mkdir(parents=True, exist_ok=True)
            compiled = [flag for flag in (*_OF_WHEELS[system], *flags, *more) if flag != "-shared"]
            with tempfile.TemporaryDirectory() as scratch:
                text, part, built = (Path(scratch) / name for name in ("tiles.cpp", "tiles.o", path.name))
                text.write_text(_source(structure), "utf-8")
                _run([*compiler(), *compiled, f"-I{SOURCE.parent}", "-c", "-o", str(part), str(text)])
                _run([*compiler(), "-shared", *more, "-o", str(built), str(part)])
                shutil.copyfile(built, path)  # alone: a linker of Windows writes more next to a library
            yield path


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
