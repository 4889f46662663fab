"""The README's animation: scattered against neighbouring blocks on a photograph, update by update.

Two solves of the same system, whose updates all solve for 250 pixels. The paper's blocks are consecutive rows, which
are scattered over the photograph. A block of neighbours owns 166 pixels and solves on a margin of 50% around them. The
upper panels show what a solve has reconstructed so far, with the pixels of the current block in colour; the lower ones
show the residual.

python -m benchmarks.animation      writes results/animation.webp
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

import apviz
from apviz.partitions import KDTree
from benchmarks.machine import RESULTS

FILE = RESULTS / "animation.webp"
SOLVED, UPDATES = 250, 60
MAGNIFIED = 3
SCALE, GAP, HEADER, LABEL, FOOTER = 3, 20, 30, 24, 40
ROWS = 4489
FRAME_MS, HOLD_MS, QUALITY = 120, 3_500, 55
INK, FAINT, PAPER = 25, 120, 255
COLOURS = {"Scattered blocks": (213, 94, 0), "Blocks of neighbours": (0, 114, 178)}
SOLVERS = {
    "Scattered blocks": {"block_size": SOLVED, "partition": "sequential"},
    "Blocks of neighbours": {"block_size": SOLVED * 2 // 3, "partition": KDTree(overlap=0.5)},
}


Place = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Step:
    """The state after one update: the rows of its block, the residual of every row, and ‖R‖/‖B‖."""

    rows: np.ndarray
    residual: np.ndarray
    relative: float


class KeepSteps(apviz.Hook):
    """Keep the state after each of the first updates, then stop the solve."""

    def on_start(self, run: Any) -> None:
        self.run, self.steps = run, list[Step]()

    def on_update(self, update: Any) -> None:
        partition = self.run.partition
        residual = self.run.residual_vectors[:, 0].numpy()
        rows = partition.order[partition.solved(update.block)].numpy()
        self.steps.append(Step(rows, residual, update.squared_residual[0].sqrt().item()))
        if update.number == UPDATES:
            self.run.request_stop("the animation ends here")


def solve(system: apviz.KernelSystem, settings: dict[str, Any]) -> list[Step]:
    kept = KeepSteps()
    apviz.solve(system, apviz.AlternatingProjection(tol=1e-6, max_epochs=100, **settings), hooks=[kept])
    return kept.steps[:UPDATES]


def pixels(x: np.ndarray) -> Place:
    """Return the row and column of every point on the photograph's grid."""
    return tuple(np.unique(x[:, axis].round(6), return_inverse=True)[1] for axis in (0, 1))


def panels(step: Step, y: np.ndarray, place: Place, colour: tuple[int, ...]) -> list[Image.Image]:
    """Return the reconstruction and the residual as images, magnified around grey."""
    shape = tuple(axis.max() + 1 for axis in place)
    low, high = np.quantile(y, [0.005, 0.995])
    found = np.full((*shape, 3), PAPER)
    found[place] = np.clip(255 * (y - step.residual - low) / (high - low), 0, 255)[:, None]
    block = tuple(axis[step.rows] for axis in place)
    found[block] = 0.35 * found[block] + 0.65 * np.array(colour)
    left = np.full((*shape, 3), PAPER)
    left[place] = np.clip(128 + MAGNIFIED * 127 * step.residual / (high - low), 0, 255)[:, None]
    size = (SCALE * shape[1], SCALE * shape[0])
    return [Image.fromarray(each.astype(np.uint8)).resize(size, Image.Resampling.NEAREST) for each in (found, left)]


def frame(steps: dict[str, Step], number: int, y: np.ndarray, place: Place) -> Image.Image:
    drawn = {name: panels(step, y, place, COLOURS[name]) for name, step in steps.items()}
    width, height = next(iter(drawn.values()))[0].size
    canvas = Image.new("RGB", (2 * width + GAP, HEADER + 2 * height + LABEL + FOOTER), (PAPER,) * 3)
    draw, title, text = ImageDraw.Draw(canvas), ImageFont.load_default(19), ImageFont.load_default(15)
    for index, (name, (found, left)) in enumerate(drawn.items()):
        x, colour, share = index * (width + GAP), COLOURS[name], steps[name].relative
        draw.text((x, 2), name, fill=colour, font=title)
        canvas.paste(found, (x, HEADER))
        said = f"residual {100 * share:.1f}%, drawn {MAGNIFIED} times as strong"
        draw.text((x, HEADER + height + 2), said, fill=(INK,) * 3, font=text)
        canvas.paste(left, (x, HEADER + height + LABEL))
        below = HEADER + 2 * height + LABEL + 6
        draw.rectangle((x, below, x + width - 1, below + 7), fill=(232,) * 3)
        draw.rectangle((x, below, x + round(min(share, 1.0) * (width - 1)), below + 7), fill=colour)
    said = f"update {number} of {UPDATES}, 250 pixels each"
    draw.text((2 * width + GAP, canvas.height - 2), said, fill=(FAINT,) * 3, font=text, anchor="rd")
    return canvas


def shown() -> list[int]:
    """Return the numbers of the updates that are drawn: all at first, then every third."""
    return [*range(1, 31), *range(33, UPDATES + 1, 3)]


def both() -> tuple[dict[str, list[Step]], torch.Tensor, torch.Tensor]:
    """Solve with both kinds of blocks; return the steps, the pixels' places and their values."""
    data = apviz.datasets.load("china", n=ROWS, seed=0)
    h = data.card.hyperparameters
    x, y = torch.cat([data.train_x, data.test_x]), torch.cat([data.train_y, data.test_y])
    system = apviz.KernelSystem(x, y - h.mean, h.build_kernel(), noise=h.noise, dataset="china")
    return {name: solve(system, settings) for name, settings in SOLVERS.items()}, x, y


def main() -> None:
    solves, x, y = both()
    place, grey = pixels(x.numpy()), y.numpy()
    frames = [
        frame({name: steps[number - 1] for name, steps in solves.items()}, number, grey, place) for number in shown()
    ]
    durations = [FRAME_MS] * (len(frames) - 1) + [HOLD_MS]
    made = io.BytesIO()
    frames[0].save(
        made, "WEBP", save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=QUALITY, method=6
    )
    FILE.write_bytes(made.getvalue())
    print(f"{FILE}: {len(frames)} frames, {len(made.getvalue()) / 1000:.0f} kB")
    for name, steps in solves.items():
        print(name, [round(steps[number - 1].relative, 3) for number in (10, 20, 30, UPDATES)])


if __name__ == "__main__":
    main()
