"""What the fused kernels cost on GPUs, from their machine code: no GPU is needed.

python -m benchmarks.roofline      compiles for three architectures, prints the table, writes results/roofline.json

Triton compiles a kernel for an architecture on any machine; `cuobjdump` and `nvdisasm`, which come with it, show its
registers and its instructions. Loops are found by their backward branches; what a kernel entry costs is the body of
the loop over columns, with that of the loop over inputs d times, over the entries that a thread has.

The bound is that of the busiest pipe, as if nothing ever waited: no number was measured on a GPU, and memory, barriers
and the loads of features keep any kernel below it. The minimum are the operations that no kernel could do without: d
differences and squares, the function of the distance, and a multiply-add for every right-hand side.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import RESULTS

#: as Triton and as torch call them
DTYPES = {"fp32": torch.float32, "fp64": torch.float64}

#: instructions a cycle of a multiprocessor, all four of its schedulers together: NVIDIA's CUDA programming guide,
#: throughput of native arithmetic instructions, compute capability 8.0, 9.0, 10.0
ISSUED, LOADED = 128, 32
#: of special functions (MUFU); and FP32, by compute capability
MUFU, FP32 = 16, {80: 64, 90: 128, 100: 128}
#: FP64 outside tensor cores, by compute capability, and conversions to and from it
FP64, CONVERTED = {80: 32, 90: 64, 100: 64}, 16
#: multiprocessors and GHz at boost of the SXM modules, of NVIDIA's architecture papers
GPUS = {80: ("A100", 108, 1.41), 90: ("H100", 132, 1.98), 100: ("B200", 148, 1.85)}
FP32_OPCODES = ("FFMA", "FADD", "FMUL", "FMNMX", "FSETP", "FSEL", "FFMA2", "FADD2", "FMUL2")
FP64_OPCODES = ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX")
SHARED_OPCODES = ("LDS", "STS", "STSM", "LDSM")
#: FP32 and special instructions of the functions of a distance, at least: √u as u·rsqrt(u), exp as 2^(x log₂e)
FUNCTIONS = {"rbf": (1, 1), "matern12": (2, 2), "matern32": (4, 2), "matern52": (5, 2)}
#: FP64 instructions of an exponential and of a root, as `decay` and `root` of `fused_entries` have them
EXP64, ROOT64 = 15, 7


@dataclass(frozen=True)
class Compiled:
    """A kernel of an architecture.

    Attributes:
        registers: of a thread, of 255.
        shared: bytes of a program.
        spilled: loads and stores, in the loop over columns, of what registers do not hold.
        an_entry: instructions by opcode, per kernel entry.
        mma: whether products are on tensor cores.
    """

    registers: int
    shared: int
    spilled: int
    an_entry: Counter[str]
    mma: bool

    def programs(self, warps: int) -> int:
        """Programs that a multiprocessor holds at once: 65,536 registers, 2,048 threads, 164 kB of shared memory."""
        by_registers = 65_536 // (-(-self.registers // 8) * 8 * 32 * warps)
        return min(by_registers, 2_048 // (32 * warps), 164 * 1024 // max(self.shared + 1024, 1))

    def cycles(self, capability: int) -> dict[str, float]:
        """Cycles of a multiprocessor per kernel entry, pipe by pipe."""
        opcodes = self.an_entry
        # FFMA2 and its like do two in one instruction
        fp32 = sum(count * (2 if opcode.endswith("2") else 1) for opcode, count in opcodes.items()
                   if opcode in FP32_OPCODES)  # fmt: skip
        return {
            "issue": sum(opcodes.values()) / ISSUED,
            "FP32": fp32 / FP32[capability],
            "FP64": sum(opcodes[opcode] for opcode in FP64_OPCODES) / FP64[capability],
            "MUFU": opcodes["MUFU"] / MUFU + opcodes["F2F"] / CONVERTED,
            "shared memory": sum(opcodes[opcode] for opcode in SHARED_OPCODES) / LOADED,
        }


def minimum(form: str, d: int, sides: int, capability: int, dtype: str = "fp32") -> float:
    """Cycles per kernel entry that no kernel can do without; two FP32 operations issue at once from Blackwell on."""
    of_form, special = FUNCTIONS[form]
    arithmetic = 2 * d + of_form + sides
    if dtype == "fp64":
        return (arithmetic + EXP64 + ROOT64 * (special - 1)) / FP64[capability]
    return max(arithmetic / FP32[capability], special / MUFU)


def compiled(
    kernel: str, capability: int, form: str, d: int, tile: Any, precision: str = "ieee", dtype: str = "fp32"
) -> Compiled:
    """Compiles a kernel of `apviz.operators.fused_kernels` for one part of d inputs, and reads what came out."""
    structure = {"FORMS": ((form, 0, 0),), "PRODUCTS": (False,), "STARTS": (0, d), "TERMS": ((0,),)}
    made = machine_code(kernel, capability, structure, tile, precision, dtype)
    code = _disassembled(made.asm["cubin"])
    entries = tile.rows * tile.columns / (32 * tile.warps)
    mma = any("MMA" in opcode for opcode, _ in code.instructions)
    an_entry = code.an_entry(entries, d)
    spilled = round((an_entry["LDL"] + an_entry["STL"]) * entries)
    return Compiled(code.registers, made.metadata.shared, spilled, an_entry, mma)


def machine_code(
    kernel: str, capability: int, structure: dict[str, Any], tile: Any, precision: str = "ieee", dtype: str = "fp32"
) -> Any:
    """Compile a kernel of `apviz.operators.fused_kernels` for FORMS, PRODUCTS, STARTS and TERMS of a formula."""
    import triton
    from triton.backends.compiler import GPUTarget

    from apviz.operators import fused_kernels

    function = getattr(fused_kernels, kernel)
    constants = structure | {"BM": tile.rows, "BN": tile.columns, "P": tile.sides, "PRECISION": precision}
    doubles, pointers = ("features", "sums"), ("x", "z", "u", "out", "numbers", "a", "b")
    kinds = dict.fromkeys(doubles, "*fp64") | dict.fromkeys(pointers, f"*{dtype}")
    kinds |= dict.fromkeys(constants, "constexpr")
    signature = {name: kinds.get(name, "i32") for name in function.arg_names}
    aligned = {(at,): [["tt.divisibility", 16]] for at, name in enumerate(signature) if signature[name][0] == "*"}
    source = triton.compiler.ASTSource(
        function, signature=signature, attrs=aligned,
        constexprs={name: value for name, value in constants.items() if name in signature},
    )  # fmt: skip
    target = GPUTarget("cuda", capability, 32)
    return triton.compile(source, target=target, options={"num_warps": tile.warps, "enable_fp_fusion": True})


@dataclass(frozen=True)
class _Code:
    registers: int
    instructions: list[tuple[str, str]]
    labels: dict[str, int]

    def loops(self) -> list[range]:
        """The instructions of every loop, from its label to the branch back to it."""
        found = []
        for at, (opcode, rest) in enumerate(self.instructions):
            label = re.search(r"\.L_x_\d+", rest)
            if opcode == "BRA" and label and self.labels.get(label[0], at) < at:
                found.append(range(self.labels[label[0]], at + 1))
        return found

    def an_entry(self, entries: float, d: int) -> Counter[str]:
        """Instructions per kernel entry: the longest loop, with the loops in it as often as they go around."""
        loops = self.loops()
        outer = max(loops, key=len, default=range(len(self.instructions)))  # a kernel that fills a tile has none
        inner = [loop for loop in loops if loop != outer and loop[0] >= outer[0] and loop[-1] <= outer[-1]]
        total = Counter(self.instructions[at][0] for at in outer if not any(at in loop for loop in inner))
        for loop in inner:
            body = Counter(self.instructions[at][0] for at in loop)
            differences = body["FADD"] + 2 * body["FADD2"] + body["DADD"]
            features = max(1, round(differences / entries))
            for opcode, number in body.items():
                total[opcode] += number * d / features
        return Counter({opcode: number / entries for opcode, number in total.items()})  # type: ignore[misc]


def _disassembled(cubin: bytes) -> _Code:
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)

        def said(*command: str) -> str:
            return subprocess.run([str(tools / command[0]), *command[1:], str(path)], capture_output=True, text=True,
                                  check=True).stdout  # fmt: skip

        registers = max(int(found) for found in re.findall(r"REG:(\d+)", said("cuobjdump", "--dump-resource-usage")))
        text = said("nvdisasm", "-c")
    instructions, labels = list[tuple[str, str]](), dict[str, int]()
    for line in text.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(instructions)
        elif found := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)(.*)", line):
            instructions.append((found[1], found[2]))
    return _Code(registers, instructions, labels)


def row(capability: int, form: str, d: int, sides: int, dtype: str = "fp32") -> dict[str, Any]:
    """What a product costs on the GPU of an architecture."""
    from apviz.operators.fused import tile_of

    tile = tile_of(sides, capability, DTYPES[dtype])
    found = compiled(tile.kernel, capability, form, d, tile, dtype=dtype)
    pipes, least = found.cycles(capability), minimum(form, d, tile.sides, capability, dtype)
    name, multiprocessors, gigahertz = GPUS[capability]
    busiest = max(pipes, key=lambda pipe: pipes[pipe])
    return {
        "gpu": name, "kernel": form, "dtype": dtype, "inputs": d, "sides": sides, "tile": list(tile[:4]),
        "registers": found.registers, "shared bytes": found.shared, "spilled": found.spilled,
        "programs": found.programs(tile.warps),
        "cycles": {pipe: round(cycles, 4) for pipe, cycles in pipes.items()}, "busiest": busiest,
        "times the minimum": round(pipes[busiest] / least, 3),
        "entries per second": round(multiprocessors * gigahertz * 1e9 / pipes[busiest] / 1e9, 1) * 1e9,
    }  # fmt: skip


def main() -> None:
    rows = [
        row(capability, form, d, sides, dtype)
        for form, d, sides, dtype in (
            *(("matern52", d, 16, "fp32") for d in (3, 9, 26, 385)),
            ("matern52", 9, 1, "fp32"), ("matern52", 9, 32, "fp32"),
            *((form, 9, 16, "fp32") for form in ("matern32", "matern12", "rbf")),
            *(("matern52", d, sides, "fp64") for d in (3, 13) for sides in (1, 16)),
        )
        for capability in GPUS
    ]  # fmt: skip
    for each in rows:
        print(
            f"{each['gpu']} {each['dtype']} {each['kernel']:9} d {each['inputs']:3} sides {each['sides']:2}: "
            f"{each['registers']:3} registers, {each['programs']} programs, spilled {each['spilled']}; at most "
            f"{each['entries per second'] / 1e12:.2f} 10¹² entries/s ({each['busiest']}), "
            f"{each['times the minimum']:.2f} times the minimum",
            flush=True,
        )
    (RESULTS / "roofline.json").write_text(json.dumps({"rows": rows}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
