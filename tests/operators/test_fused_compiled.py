"""The fused kernels as machine code of three architectures, compiled here without a GPU.

They show the instructions of the code, but not its behaviour on a GPU: races, waiting, and the rounding of TF32.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("triton", reason="Triton is for Linux: pip install 'apviz[gpu]'")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton compiles nothing where it interprets", allow_module_level=True)

from apviz.operators.fused import DOUBLE, FILL, GRADIENT, tile_of
from benchmarks.roofline import DTYPES, GPUS, compiled, machine_code, minimum

#: architectures; the fast tests use one of them
SOME = [pytest.param(each, marks=() if each == max(GPUS) else pytest.mark.slow) for each in GPUS]
FEW = [pytest.param(each, d, 16, marks=() if each == max(GPUS) else pytest.mark.slow) for each in GPUS for d in (3, 26)]
MANY = [(capability, d, sides) for capability in GPUS for d in (1, 9, 100, 385) for sides in (1, 16, 32)]


def check(capability: int, form: str, d: int, sides: int) -> None:
    tile = tile_of(sides, capability)
    found = compiled(tile.kernel, capability, form, d, tile)
    # on Blackwell with many inputs, one register in a tile of columns with about a thousand instructions
    assert found.spilled <= (2 if capability == 100 and d >= 100 else 0) and found.registers <= 255
    assert found.programs(tile.warps) >= 2, (
        "a multiprocessor should hold two programs, so that one computes while the other waits"
    )
    # each entry is evaluated once and multiplied with every right-hand side once
    multiplied = found.an_entry["FFMA"] + 2 * found.an_entry["FFMA2"]
    assert multiplied >= tile.sides + d
    assert round(found.an_entry["MUFU"]) == (1 if form == "rbf" else 2), "one exponential, and one root"
    assert not found.mma, "in full float32, which tensor cores do not have"
    # `benchmarks/results/roofline.json` has each ratio: 1.0 to 1.4; with few inputs and one right-hand side, there is
    # too little arithmetic to hide the other instructions
    if d >= 9:
        assert max(found.cycles(capability).values()) <= 1.55 * minimum(form, d, tile.sides, capability)


@pytest.mark.parametrize(("capability", "d", "sides"), FEW)
def test_a_product_spills_no_registers_and_is_near_the_fewest_instructions(capability, d, sides):
    check(capability, "matern52", d, sides)


DOUBLES = [
    pytest.param(each, d, sides, marks=() if each == 90 and d in (3, 13) and sides in (1, 16) else pytest.mark.slow)
    for each in GPUS for d in (1, 3, 13, 100, 385) for sides in (1, 4, 16)
]  # fmt: skip


@pytest.mark.parametrize(("capability", "d", "sides"), DOUBLES)
def test_a_product_in_float64_spills_no_registers_and_is_near_the_fewest_instructions(capability, d, sides):
    tile = tile_of(sides, capability, DTYPES["fp64"])
    found = compiled(tile.kernel, capability, "matern52", d, tile, dtype="fp64")
    assert found.spilled == 0 and found.registers <= 255
    assert found.programs(tile.warps) >= 2
    assert round(found.an_entry["MUFU"]) == 1, "the start of one root; everything else is arithmetic in float64"
    assert max(found.cycles(capability).values()) <= 1.35 * minimum("matern52", d, sides, capability, "fp64")


@pytest.mark.parametrize("tile", [*DOUBLE[::2], FILL[DTYPES["fp64"]]])
def test_float64_uses_float32_only_to_start_a_square_root(tile):
    code = machine_code(tile.kernel, 90, COMPOSITE, tile, dtype="fp64").asm["ptx"]
    assert code.count("cvt.f64.f32") == code.count("rsqrt.approx.ftz.f32") > 0
    assert "ex2.approx" not in code and "lg2.approx" not in code


@pytest.mark.slow
@pytest.mark.parametrize("form", ["matern12", "matern32", "matern52", "rbf"])
@pytest.mark.parametrize(("capability", "d", "sides"), MANY)
def test_every_product_spills_no_registers_and_is_near_the_fewest_instructions(capability, form, d, sides):
    check(capability, form, d, sides)


@pytest.mark.parametrize("capability", SOME)
def test_derivatives_and_blocks_fit_the_registers(capability):
    for tile, dtype in ((GRADIENT, "fp32"), *((FILL[of_torch], dtype) for dtype, of_torch in DTYPES.items())):
        found = compiled(tile.kernel, capability, "matern52", 9, tile, dtype=dtype)
        assert found.registers <= 255 and found.spilled == 0


@pytest.mark.parametrize("capability", GPUS)
def test_tensor_cores_compute_three_tf32_products(capability):
    tile = tile_of(16, capability)
    assert compiled("product_kernel", capability, "matern52", 9, tile, precision="tf32x3").mma


#: forms, whether they use inner products, starts of features, and terms, of one part or of several
COMPOSITE = {
    "FORMS": (("matern52", 0, 0), ("rational_quadratic", 0, 0), ("power", 2, 0)), "PRODUCTS": (False, False, True),
    "STARTS": (0, 1, 2, 3), "TERMS": ((0, 1), (2,)),
}  # fmt: skip
FORMS = (("matern12", 0, 0), ("equal", 0, 0), ("rbf", 0, 0), ("piecewise", 3, 5), ("inner_product", 0, 0))
#: tiles with their kernels, and dtypes; the fast tests use the first three
KERNELS = [
    (tile_of(1, 90), "fp32"), (FILL[DTYPES["fp32"]], "fp32"), (DOUBLE[0], "fp64"),
    (tile_of(16, 90), "fp32"), (GRADIENT, "fp32"), *((tile, "fp64") for tile in (*DOUBLE[1:], FILL[DTYPES["fp64"]])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tile", "dtype"), [*KERNELS[:3], *(pytest.param(*each, marks=pytest.mark.slow) for each in KERNELS[3:])]
)
def test_kernels_of_several_parts_compile(tile, dtype):
    assert machine_code(tile.kernel, 90, COMPOSITE, tile, dtype=dtype).asm["cubin"]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(("tile", "dtype"), KERNELS)
def test_every_form_compiles(tile, dtype, form):
    one = {"FORMS": (form,), "PRODUCTS": (form[0] == "inner_product",), "STARTS": (0, 3), "TERMS": ((0,),)}
    assert machine_code(tile.kernel, 90, one, tile, dtype=dtype).asm["cubin"]
