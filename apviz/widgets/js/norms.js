/** Both norms of the residual after every step, and a handle on the step. */

import {Plane, number} from "./plane.js";

/** share below which a norm is rounding */
const FLOOR = 1e-12;
const NORM = "var(--gauss-southwell)",
  EUCLIDEAN = "var(--CG)";

export class NormsPicture extends Plane {
  /** @param {import("./state.js").State} state whose `step` is dragged */
  constructor(place, heightOf, state) {
    super(place, "‖r‖ in H never rises, Euclidean ‖r‖ may", heightOf);
    this._state = state;
  }

  /**
   * @param {import("./trajectory.js").Trajectory} trajectory
   * @param {number} j the step that is shown
   * @param {string} hint where to see Euclidean ‖r‖ rise, if it does not here
   */
  draw(trajectory, j, hint = "") {
    const both = [
      [trajectory.errors(), "‖r‖ in H, which is ‖W−W*‖<sub>K</sub>", NORM, "dot", "left"],
      [trajectory.residualNorms(), "Euclidean ‖r‖", EUCLIDEAN, "diamond", "euclidean"],
    ].map(([norms, ...look]) => [norms.map((each) => (each > FLOOR * norms[0] ? each / norms[0] : NaN)), ...look]);
    const steps = trajectory.steps.map((_, k) => k),
      count = steps.length - 1;
    const seen = both.flatMap(([each]) => each).filter(Number.isFinite);
    const low = Math.floor(Math.log10(Math.min(1, ...seen)) - 0.15),
      high = Math.log10(Math.max(1, ...seen)) + 0.15;
    this.begin({
      x: [-0.5, Math.max(count, 1) + 0.5],
      y: [low, high],
      log: true,
      whole: true,
      xLabel: "step j",
      yLabel: "relative to the start",
    });
    const rises = [];
    for (const [norms, name, color, shape, of] of both) {
      this.line(steps, norms, {color, of});
      norms.forEach((each, k) => {
        const words = `${name.replace(/<[^>]*>/g, "")} after step ${k}: ${number(each)}`;
        this.dot(k, each, {color, shape, size: k === j ? 6.5 : 3.5, of: [k === j && `${of} step`, k === count && "steps"].filter(Boolean).join(" ")}, words);
      });
      rises.push(steps.filter((k) => k && norms[k] > norms[k - 1] * (1 + 1e-9)).length);
    }
    this.end();
    this.legend(both.map(([, name, color, shape]) => [name, color, shape]));
    const rose = (many) => ["never rose", "rose once"][many] ?? `rose ${many} times`;
    this.note(`in ${count} steps ‖r‖ in H ${rose(rises[0])}, Euclidean ‖r‖ ${rose(rises[1])}${rises[1] ? "" : hint}`);
    const go = (step) => this._state.set({step: Math.min(count, Math.max(0, Math.round(step)))});
    const at = Number.isFinite(both[0][0][j]) ? this.sy(both[0][0][j]) : this.bottom;
    this.handle(
      "step",
      {x: this.sx(j), y: at, label: "the step", value: `step ${j}`, of: "step left"},
      {
        drag: (px) => go(this.fromX(px)),
        step: (right, up) => go(j + right + up),
      },
    );
  }
}
