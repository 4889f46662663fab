"""The compiled engine is optional: whatever fails while it is built, tiled operators still solve."""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from apviz import Matern32
from apviz.operators import native, native_build
from apviz.operators.dense import DenseOperator
from apviz.operators.tiled import TiledOperator
from tests.device import only_on_the_cpu

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="XDG_CACHE_HOME moves the cache on Linux only"),
    only_on_the_cpu("the compiled engine runs there"),
]

SOLVE = """
import warnings, torch, apviz
x = torch.rand(300, 3, generator=torch.Generator().manual_seed(0))
b = torch.rand(300, 2, generator=torch.Generator().manual_seed(1))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    names = "tiled", "tiled", "dense"
    systems = [apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=0.1, operator=name) for name in names]
    for system in systems:
        system.operator.prepare()
    solver = apviz.AlternatingProjection(block_size=50, rule="cyclic", max_epochs=3)
    weights = [apviz.solve(system, solver).weights for system in systems]
    error = (systems[0].operator.matmul(b) - systems[2].operator.matmul(b)).abs().max().item()
about_the_engine = [str(w.message) for w in caught if "compiled engine" in str(w.message)]
print("ENGINE", systems[0].operator.engine)
print("WARNINGS", len(about_the_engine), *about_the_engine)
print("SAME", error < 1e-3 and (weights[0] - weights[2]).abs().max().item() < 1e-3)
"""


def start(cache: Path, **environment: str) -> subprocess.Popen:
    kept = {name: value for name, value in os.environ.items() if name != "CXX"}
    environment = {**kept, "XDG_CACHE_HOME": str(cache), **environment}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SOLVE], env=environment, stdout=pipe, stderr=pipe, text=True)


def told_by(out: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in out.splitlines())


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Return the folder of an empty cache, with the engine forgotten, as after an install from source."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(native_build, "PREBUILT", tmp_path / "no-wheel")
    forgotten = (native.library, native._of_the_wheel)
    for each in forgotten:
        each.cache_clear()
    yield tmp_path
    for each in forgotten:
        each.cache_clear()


#: the formula of the kernel of `prepared`
FORMULA = TiledOperator(torch.zeros(2, 3), Matern32(lengthscale=0.5), noise=0.1).formula


def prepared():
    x = torch.rand(60, 3, generator=torch.Generator().manual_seed(0))
    operators = [TiledOperator(x, Matern32(lengthscale=0.5), noise=0.1) for _ in range(2)]
    for operator in operators:
        operator.prepare()
    v = torch.rand(60, 2, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(operators[0].matmul(v), DenseOperator(x, Matern32(lengthscale=0.5), noise=0.1).matmul(v))
    return operators[1].engine


def test_without_a_compiler_a_solve_warns_once_and_gives_the_dense_weights(fresh, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(fresh / "nothing"))
    exec(SOLVE, {})
    told = told_by(capsys.readouterr().out)
    assert told["ENGINE"].startswith("in-place torch tiles")
    assert told["WARNINGS"].startswith("1 the compiled engine is not available")
    assert "It needs a C++ compiler" in told["WARNINGS"] and told["SAME"] == "True"


@pytest.mark.slow
def test_two_processes_that_build_at_the_same_time_both_use_the_compiled_engine(tmp_path):
    if not has_compiler():
        pytest.skip("no C++ compiler on this machine")
    for process in [start(tmp_path), start(tmp_path)]:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        told = told_by(out)
        assert told["ENGINE"].startswith("compiled") and told["WARNINGS"] == "0" and told["SAME"] == "True"
    built = sorted(path.name for path in (tmp_path / "apviz" / "native").iterdir())
    libraries = [name for name in built if name.endswith(".so")]  # nothing half-built is left
    assert len(libraries) == 2 and built == sorted([*libraries, *(f"{name}.sha256" for name in libraries)])


def has_compiler():
    try:
        return bool(native_build.compiler())
    except OSError:
        return False


@pytest.mark.parametrize(
    ("cxx", "reason"),
    [("/bin/false", "/bin/false failed"), ("no-such-compiler", "CXX='no-such-compiler'")],
    ids=["broken", "absent"],
)
def test_one_warning_names_a_broken_compiler_and_tiles_run_in_place(fresh, monkeypatch, cxx, reason):
    monkeypatch.setenv("CXX", cxx)
    with pytest.warns(UserWarning, match="the compiled engine is not available") as caught:
        engine = prepared()
    assert len(caught) == 1 and reason in str(caught[0].message)
    assert engine.startswith("in-place torch tiles")
    assert not native.is_built()


def test_one_warning_names_a_read_only_cache_and_tiles_run_in_place(fresh, monkeypatch):
    if not has_compiler():
        pytest.skip("no C++ compiler on this machine")
    (fresh / "a-file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(fresh / "a-file"))
    with pytest.warns(UserWarning, match=r"the compiled engine is not available .*a-file"):
        assert prepared().startswith("in-place torch tiles")


#: loads the engine from libraries truncated to several lengths, each in a process of its own
LOAD_TRUNCATED = """
import os, pathlib, sys
from apviz.operators import native
built = pathlib.Path(sys.argv[1])
whole = built.read_bytes()
for length in (len(whole) // 2, len(whole) * 3 // 4, 4096):
    built.unlink()
    built.write_bytes(whole[:length])
    child = os.fork()
    if child == 0:
        os._exit(native.library() is None)
    assert os.waitpid(child, 0)[1] == 0, length
    assert built.read_bytes() == whole, length
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return a folder with the libraries that the machine's compiler makes."""
    if not has_compiler():
        pytest.skip("no C++ compiler on this machine")
    folder = tmp_path_factory.mktemp("compiled")
    for structure in (None, FORMULA.structure):
        native.build(folder / native.path_of(structure).name, structure)
    return folder


@pytest.fixture
def quick_compiler(fresh, compiled, monkeypatch):
    """Return the file of arguments of a compiler that copies libraries compiled before."""
    script, arguments = fresh / "quick-c++", fresh / "arguments"
    script.write_text(f"""#!/bin/sh
printf '%s\\n' "$@" > '{arguments}'
while [ "$1" != -o ]; do shift; done
cp '{compiled}'/"$(basename "$2")" "$2"
""")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", f"{script} -DNAME='two words'")
    return arguments


@pytest.mark.slow
def test_cxx_may_contain_arguments(quick_compiler):
    assert prepared().startswith("compiled") and native.is_built(FORMULA)
    assert quick_compiler.read_text().splitlines()[0] == "-DNAME=two words"


def test_the_engine_is_built_at_prepare_and_found_again_without_a_compiler(quick_compiler, monkeypatch):
    assert not native.is_built()
    assert prepared().startswith("compiled") and native.is_built(FORMULA)
    native.library.cache_clear()
    monkeypatch.setenv("CXX", "/bin/false")
    assert prepared().startswith("compiled")


def test_a_damaged_library_is_built_again(fresh, quick_compiler):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert native.library() is not None
        built = native.path_of()
        built.unlink()
        built.write_bytes(b"half a library")
        native.library.cache_clear()
        assert prepared().startswith("compiled")


@pytest.mark.slow
def test_a_truncated_library_is_built_again_and_does_not_crash_the_process(fresh, quick_compiler):
    native.library()
    program = [sys.executable, "-c", LOAD_TRUNCATED, str(native.path_of())]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_short_solve_does_not_compile_and_a_long_one_does(quick_compiler):
    x = torch.rand(20, 2, generator=torch.Generator().manual_seed(0))
    short, long = (TiledOperator(x, Matern32(lengthscale=0.5), noise=0.1) for _ in range(2))
    short.fix_engine(1e4, 1)
    assert not native.is_built() and short.engine.startswith("in-place")
    long.fix_engine(1e12, 1)
    assert native.is_built(FORMULA) and long.engine.startswith("compiled")
    assert short.engine.startswith("in-place")  # a running solve keeps its engine


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (3, 17, 2), (130, 256, 5), (701, 523, 13)])
def test_the_squared_distance_to_the_nearest_point_agrees_with_scipy_even_far_from_the_origin(n, m, d, dtype):
    if native.library() is None:
        pytest.skip("no C++ compiler on this machine")
    generator = torch.Generator().manual_seed(n)
    x, z = (torch.rand(rows, d, generator=generator, dtype=dtype) + 50 for rows in (n, m))
    z[0] = x[0]
    expected = cdist(x.double(), z.double(), "sqeuclidean").min(1)
    np.testing.assert_allclose(native.nearest(x, z), expected, rtol=20 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_changes_no_bit(threads):
    if native.library() is None:
        pytest.skip("no C++ compiler on this machine")
    generator = torch.Generator().manual_seed(0)
    x, v = torch.rand(1001, 3, generator=generator), torch.rand(1001, 5, generator=generator)
    operator = TiledOperator(x, Matern32(lengthscale=0.5), noise=0.1, compiled=True)
    before, expected = torch.get_num_threads(), operator.matmul(v)
    try:
        torch.set_num_threads(threads)
        assert torch.equal(operator.matmul(v), expected)
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def wheel(fresh, compiled, monkeypatch):
    """Return the folder of a wheel's libraries for this processor; PATH has no compiler."""
    folder = fresh / "site-packages" / "prebuilt"
    monkeypatch.setattr(native_build, "PREBUILT", folder)
    for structure in (None, FORMULA.structure):
        path = native_build.prebuilt_path(structure, native.instruction_set())
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(compiled / native.path_of(structure).name, path)
    monkeypatch.setenv("PATH", str(fresh / "nothing"))
    return folder


def test_the_libraries_of_a_wheel_need_no_compiler_and_no_cache(wheel, fresh):
    assert native.is_built(FORMULA) and prepared().startswith("compiled")
    assert not (fresh / "apviz").exists()
    assert native.origin().startswith(f"prebuilt for {native.instruction_set().upper()}")


def test_a_compiler_named_by_cxx_comes_before_the_libraries_of_a_wheel(wheel, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert not native.is_built()
    with pytest.warns(UserWarning, match="CXX='no-such-compiler'"):
        assert prepared().startswith("in-place torch tiles")


def test_a_library_of_a_wheel_that_does_not_load_stays_and_is_not_used(wheel):
    path = native_build.prebuilt_path(None, native.instruction_set())
    path.write_bytes(b"of another system")
    assert native.prebuilt(None) is None and not native.is_built()
    with pytest.warns(UserWarning, match="no C\\+\\+ compiler was found"):
        assert prepared().startswith("in-place torch tiles")
    assert path.read_bytes() == b"of another system"


def test_a_library_of_other_sources_is_not_used(wheel, monkeypatch):
    changed = wheel.parent / "native.h"
    changed.write_text("// changed\n" + native_build.HEADERS[0].read_text())
    assert native.prebuilt(None) is not None
    monkeypatch.setattr(native_build, "HEADERS", [changed, *native_build.HEADERS[1:]])
    native._of_the_wheel.cache_clear()
    assert native.prebuilt(None) is None


RECORDING = """#!/bin/sh
printf '%s ' "$@" >> '{arguments}'; echo >> '{arguments}'
while [ "$1" != -o ]; do shift; done
: > "$2"
"""


@pytest.mark.parametrize(
    ("system", "machine", "sets"),
    [
        ("linux", "x86_64", ["avx2", "avx512", "sse2"]),
        ("linux", "aarch64", ["neon"]),
        ("darwin", "arm64", ["neon"]),
        ("win32", "AMD64", ["avx2", "avx512", "sse2"]),
    ],
)
def test_wheels_have_every_library_for_every_instruction_set_linked_to_no_openmp(
    system, machine, sets, tmp_path, monkeypatch
):
    script, arguments = tmp_path / "c++", tmp_path / "arguments"
    script.write_text(RECORDING.format(arguments=arguments))
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setattr(native_build, "PREBUILT_STRUCTURES", (None, FORMULA.structure))
    found = list(native_build.prebuild(tmp_path / "wheel", system=system, machine=machine))
    assert found == [
        tmp_path / "wheel" / native_build.prebuilt_path(structure, each).relative_to(native_build.PREBUILT)
        for each in native_build.INSTRUCTION_SETS[native_build.FAMILIES[machine.lower()]]
        for structure in (None, FORMULA.structure)
    ]
    assert sorted({path.parent.name for path in found}) == sets
    lines = arguments.read_text().splitlines()
    compiling, linking = [line for line in lines if " -c " in line], [line for line in lines if "-shared" in line]
    assert len(compiling) == len(linking) == len(found)
    assert not any("openmp" in line for line in linking) and not any("-march=native" in line for line in lines)
    assert all(("-fopenmp " in line) == (system == "linux") for line in compiling)
    assert all(("-fPIC" in line) == (system != "win32") for line in compiling)


def test_a_wheel_for_an_unknown_processor_or_without_a_compiler_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="no engine is prebuilt for linux on ppc64le"):
        next(native_build.prebuild(tmp_path, system="linux", machine="ppc64le"))
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(OSError, match="/bin/false failed: no message"):
        next(native_build.prebuild(tmp_path, system="linux", machine="x86_64"))


def test_the_hook_of_the_build_makes_a_platform_wheel_only_where_it_is_asked(tmp_path, monkeypatch):
    pytest.importorskip("hatchling")
    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("hatch_build", root / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built = SimpleNamespace(prebuild=lambda folder, **_: [folder / "avx2" / "tiles.so"])
    monkeypatch.setattr(module, "build_module", lambda root: built)
    hook = module.PrebuiltEngine(str(root), {}, None, None, str(tmp_path), "wheel", SimpleNamespace(display_info=print))
    for version, wanted in (("standard", "0"), ("standard", ""), ("editable", "1")):
        monkeypatch.setenv("APVIZ_PREBUILD", wanted)
        data = {"force_include": {}, "pure_python": True}
        hook.initialize(version, data)
        assert data == {"force_include": {}, "pure_python": True}
    monkeypatch.setenv("APVIZ_PREBUILD", "1")
    hook.initialize("standard", data)
    hook.finalize("standard", data, "")
    assert list(data["force_include"].values()) == ["apviz/operators/prebuilt"] and not data["pure_python"]
    assert data["tag"].startswith("py3-none-linux_") and not Path(*data["force_include"]).exists()


@pytest.mark.slow
def test_every_instruction_set_of_this_processor_gives_the_numbers_of_the_compiler_here(fresh, monkeypatch):
    if not has_compiler():
        pytest.skip("no C++ compiler on this machine")
    structures = (None, FORMULA.structure)
    monkeypatch.setattr(native_build, "PREBUILT_STRUCTURES", structures)
    best = native.instruction_set()
    monkeypatch.setattr(native_build, "PREBUILT", fresh / "prebuilt")
    assert list(native_build.prebuild(native_build.PREBUILT, system=sys.platform, machine=platform.machine()))
    generator = torch.Generator().manual_seed(0)
    x, v = torch.rand(701, 3, generator=generator), torch.rand(701, 5, generator=generator)
    names = list(native_build.INSTRUCTION_SETS[native_build.FAMILIES[platform.machine().lower()]])
    for dtype in (torch.float32, torch.float64):
        found = {}
        for name in ["here", *names[names.index(best) :]]:
            with pytest.MonkeyPatch.context() as there:
                there.setattr(native, "instruction_set", lambda name=name: name)
                for cached in (native.library, native._function, native._counted):
                    cached.cache_clear()
                assert (native.prebuilt(None) is None) == (name == "here")
                operator = TiledOperator(x, Matern32(lengthscale=0.5), 0.1, dtype, compiled=True)
                operator.prepare()
                found[name] = operator.matmul(v.to(dtype))
        for product in found.values():
            torch.testing.assert_close(product, found["here"], rtol=50 * torch.finfo(dtype).eps, atol=0)
    for cached in (native.library, native._function, native._counted):
        cached.cache_clear()


PRODUCTS = """
import numpy as np, torch, apviz
rng = np.random.default_rng(0)
for n, m, d, sides in ((37, 1, 1, 1), (300, 290, 3, 4), (131, 70, 13, 5), (260, 64, 2, 17), (90, 90, 5, 33)):
    for dtype in (torch.float32, torch.float64):
        x, u = rng.standard_normal((n, d)), rng.standard_normal((n, sides))
        r = np.sqrt(5) * np.linalg.norm(x[:, None] - x[None], axis=2) / 1.5
        k = (1 + r + r**2 / 3) * np.exp(-r) + 0.1 * np.eye(n)
        kernel = apviz.Matern52(lengthscale=1.5)
        operator = apviz.KernelSystem(x, u, kernel, noise=0.1, operator="tiled", dtype=dtype, device="cpu").operator
        operator.prepare()
        assert operator.engine.startswith("compiled"), operator.engine
        v, atol = torch.from_numpy(u).to(dtype), 1e-4 if dtype == torch.float32 else 1e-11
        np.testing.assert_allclose(operator.matmul(v).numpy(), k @ u, atol=atol)
        np.testing.assert_allclose(operator.columns_matmul(slice(0, m), v[:m]).numpy(), k[:, :m] @ u[:m], atol=atol)
        np.testing.assert_allclose(operator.block(slice(0, m)).numpy(), k[:m, :m], atol=atol)
"""


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
@pytest.mark.parametrize("size", [16, *(pytest.param(size, marks=pytest.mark.slow) for size in (32, 64))])
def test_vectors_of_any_width_compute_the_same_products(size, tmp_path):
    kept = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "CXX": f"c++ -DAPVIZ_VECTOR_BYTES={size}"}
    done = subprocess.run([sys.executable, "-c", PRODUCTS], env=kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
