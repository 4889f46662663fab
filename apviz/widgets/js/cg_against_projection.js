/** CG against alternating projection: two paths to one goal, the error by eigenvector, and both over work. */

import {dot, symmetricEigen} from "./algebra.js";
import {drawnBlocks} from "./draws.js";
import {EigenPath, conjugateGradient, eigenvectorPair, turned} from "./eigen_path.js";
import {kernelNamed} from "./kernels.js";
import {blocksWithMargins, sequential} from "./partitions.js";
import {KrylovPolynomial, productOf} from "./krylov.js";
import {PALE, number} from "./plane.js";
import {Span} from "./span.js";
import {Trajectory} from "./trajectory.js";
import {MUTED, PURPLE, View} from "./view.js";

/** iterations of CG, and work of alternating projection; work at which the bet is decided; lowest share that is drawn;
    zeros of CG's polynomial that can be drawn */
const WORK = 24,
  DECIDED = 12,
  LOWEST = 1e-12,
  ZEROS = 8;
const CG = {title: "CG", color: "var(--CG)", mark: "dot", of: "cg"},
  AP = {title: "alternating projection", color: "var(--gauss-southwell)", mark: "square", of: "ap"};
const TURN = Array.from({length: 97}, (_, k) => (2 * Math.PI * k) / 96);

/** Points and right-hand side of a state: those of `apviz.rkhs.toy_problem("even", n)`, or a probe. */
export function system({points, data}, {uniforms, normals, probe}) {
  const x = Float64Array.from(uniforms.slice(0, points)).sort();
  if (data === "a random probe") return {x, b: Float64Array.from(probe.slice(0, points))};
  let at = points;
  const b = x.map((each) => {
    // after the n uniform numbers the generator continues; a normal one takes a word of it, or a few
    const [value, words] = normals[at];
    at += words;
    return Math.sin(9 * each) * Math.exp(-each) + 0.1 * value;
  });
  return {x, b};
}

let eigen = {},
  solved = {};

/** Both paths of a state; what only the work or the plane moves is not computed again. */
export function paths(values, given) {
  const {points, data, lengthscale, noise, rule, overlap} = values,
    size = Math.min(points, values.block_size);
  const {x, b} = system(values, given),
    plain = `${points} ${lengthscale}`,
    all = JSON.stringify([points, data, lengthscale, noise, rule, overlap, size]);
  if (solved.key === all) return solved;
  const span = new Span(x, kernelNamed("matern52", lengthscale), noise);
  if (eigen.key !== plain) {
    const {values: found, vectors} = symmetricEigen(span.gram);
    eigen = {key: plain, values: found.map((each) => each - noise), vectors};
  }
  const axes = turned(eigen, noise, b),
    goal = span.interpolant(b);
  const blocks = blocksWithMargins(
    Array.from(x, (each) => [each]),
    sequential(points, size),
    overlap,
  );
  const count = Math.floor((WORK * points) / size);
  const next = drawnBlocks(rule, blocks.length),
    order = rule === "random" || rule === "shuffled" ? Array.from({length: count}, next) : rule;
  const cg = new EigenPath(conjugateGradient(span, b, Math.min(WORK, points)), goal, axes);
  const {steps} = new Trajectory(span, b, blocks, order, count);
  const ap = new EigenPath(
    steps,
    goal,
    axes,
    blocks.map((each) => each.solved),
  );
  const krylov = new KrylovPolynomial(cg.eigen.values, cg.eigen.vectors.map((each) => dot(each, b)), ZEROS);
  solved = {key: all, span, cg, ap, krylov, bounds: [cg, ap].map((each) => each.bound(span.gram, rule))};
  return solved;
}

export class CGAgainstProjectionView extends View {
  constructor(place, state, face) {
    super(place, state, face);
    const half = (width) => Math.min(330, Math.max(200, 0.52 * width));
    this.errors = this.plane("The error, which both lower: drag the work", half);
    this.residuals = this.plane("The residual, which may rise", half);
    this.paths = this.plane("Two paths to one solution", half);
    this.shares = this.plane("Error left along each eigenvector", half);
    this.polynomial = this.plane("CG's polynomial: drag a zero", () => 215, true);
    // what a slide has no room for
    for (const each of [this.residuals, this.shares]) each.figure.classList.add("detail");
  }

  draw(values) {
    const found = paths(values, this.face.given),
      {cg, ap} = found,
      isOpen = values.bet === "";
    // before a bet nothing has moved yet
    const now = {...found, isOpen, places: [cg, ap].map((each) => Math.max(0, isOpen ? 0 : each.at(values.work)))};
    const pair = eigenvectorPair(cg, values.plane);
    this._hideAnswers(isOpen);
    this._drawPaths(now, pair);
    if (!isOpen) {
      this._drawShares(now, pair);
      this._drawOverWork(now, values);
      this._drawPolynomial(now, values.work);
    }
    const left = (path, at) => path.errors[Math.max(0, path.at(at))] / path.errors[0];
    const [one, other] = [cg, ap].map((path) => left(path, DECIDED));
    const growth = cg.firstCgStep();
    const sees = (path) => (isOpen ? "…" : number(left(path, values.work), 3));
    return {
      cg: sees(cg),
      ap: sees(ap),
      kappa: number(cg.kappa, 3),
      answer: one < other ? "cg" : "ap",
      result:
        `after work ${DECIDED} CG has left ${number(one, 3)} of ‖W−W*‖²<sub>K</sub>, alternating projection ` +
        `${number(other, 3)}; κ = ${number(cg.kappa, 3)}, κ′ = ${number(ap.kappaPrime(found.span.gram), 3)}. CG's first ` +
        `iteration takes ‖r‖ times ${number(Math.sqrt(growth), 3)}: ${growth > 1 ? "up, while the error falls" : "down"}.`,
    };
  }

  /** Before the bet there is one picture: where both start, and their goal. */
  _hideAnswers(isOpen) {
    if (this.errors.figure.hidden === isOpen) return;
    for (const each of [this.errors, this.residuals, this.shares, this.polynomial]) {
      each.figure.hidden = isOpen;
      if (isOpen) each.clear();
    }
    this.paths.caption.textContent = isOpen ? `Start and goal: who is closer after work ${DECIDED}?` : "Two paths to one solution";
    this.resize();
  }

  _drawPaths({cg, ap, places, isOpen}, [j, i]) {
    const plane = this.paths,
      {values} = cg.eigen;
    const start = cg.coordinates(0),
      radius = Math.hypot(start[i], start[j]) || 1,
      share = Math.sqrt(values[i] * start[i] ** 2 + values[j] * start[j] ** 2);
    const runs = [
      {...CG, path: cg, at: places[0]},
      {...AP, path: ap, at: places[1]},
    ].map((each) => ({...each, x: each.path.coordinate(i), y: each.path.coordinate(j)}));
    const ends = (letter, least) => {
      const every = isOpen ? [] : runs.flatMap((each) => each[letter]);
      return [Math.min(-radius, ...every) - least, Math.max(radius, ...every) + least];
    };
    const [x, y] = this._alike(plane, ends("x", 0.06 * radius), ends("y", 0.06 * radius));
    const label = (k) => `c${below(k + 1)}, λ = ${number(values[k], 3)}`;
    plane.begin({x, y, xLabel: label(i), yLabel: label(j)});
    const inside = (points, [low, high]) => points.map((each) => (each >= low && each <= high ? each : NaN));
    const ring = (across, up, width) => {
      const xs = TURN.map((turn) => across * Math.cos(turn));
      const ys = inside(
        TURN.map((turn) => up * Math.sin(turn)),
        y,
      );
      plane.line(
        xs,
        ys.map((each, k) => (xs[k] >= x[0] && xs[k] <= x[1] ? each : NaN)),
        {color: MUTED, width},
      );
    };
    ring(radius, radius, 1.2);
    ring(share / Math.sqrt(values[i]), share / Math.sqrt(values[j]), 2.6);
    for (const {x: xs, y: ys, color, at, of} of runs) {
      if (isOpen) continue;
      plane.line(xs.slice(at), ys.slice(at), {color, width: 1.2, opacity: 0.35});
      plane.line(xs.slice(0, at + 1), ys.slice(0, at + 1), {color, of});
      for (let k = 0; k < at; k++) plane.dot(xs[k], ys[k], {color, size: 2.5});
    }
    for (const {x: xs, y: ys, color, mark, at, title, path, of} of runs) {
      plane.dot(xs[at], ys[at], {color, shape: mark, size: 6, of: `${of} work`}, `${title}, work ${number(path.work[at], 3)}`);
    }
    plane.dot(0, 0, {color: "var(--ink)", shape: "diamond", size: 5}, "the goal g");
    plane.end();
    plane.legend([
      [CG.title, CG.color, "dot"],
      [AP.title, AP.color, "square"],
      ["thin: error as at the start; thick: residual", MUTED, "line"],
    ]);
    const held = (start[i] ** 2 + start[j] ** 2) / cg.errors[0];
    plane.note(`cᵢ: the error along eigenvector i · these two hold ${(100 * held).toFixed(0)}% of it at the start`);
  }

  /** Ranges for which a circle is one. */
  _alike({width, height, em}, x, y) {
    const aspect = (width - 4.8 * em) / (height - 3.6 * em),
      [wide, high] = [x[1] - x[0], y[1] - y[0]];
    const wider = Math.max(0, high * aspect - wide) / 2,
      higher = Math.max(0, wide / aspect - high) / 2;
    return [
      [x[0] - wider, x[1] + wider],
      [y[0] - higher, y[1] + higher],
    ];
  }

  _drawShares({cg, ap, places}, pair) {
    const plane = this.shares,
      n = cg.goal.length,
      numbers = Array.from({length: n}, (_, i) => i + 1);
    const sharesAt = (path, at) => path.coordinates(at).map((each) => Math.max(LOWEST, each ** 2 / cg.errors[0]));
    const start = sharesAt(cg, 0),
      runs = [
        {...CG, y: sharesAt(cg, places[0])},
        {...AP, y: sharesAt(ap, places[1])},
      ];
    const highest = Math.max(1, ...runs.flatMap(({y}) => y));
    plane.begin({
      x: [0, n + 1],
      y: [-10, Math.log10(highest) + 0.4],
      log: true,
      whole: true,
      xLabel: "eigenvector of K, the largest λ first",
      yLabel: "share of the error at the start",
    });
    const above = (values) => values.map((each) => (each >= 1e-10 ? each : NaN));
    for (const each of pair) plane.line([each + 1, each + 1], [1e-10, highest], {color: MUTED, width: 1});
    plane.line(numbers, above(start), {color: MUTED, width: 5, opacity: 0.4});
    for (const {y, color, mark, title, of} of runs) {
      plane.line(numbers, above(y), {color, width: 1.5, of});
      above(y).forEach((each, i) => {
        const words = `${title}, λ = ${number(cg.eigen.values[i], 3)}: ${number(each, 3)}`;
        plane.dot(i + 1, each, {color, shape: mark, size: 2.6}, words);
      });
    }
    plane.end();
    plane.legend([
      ["at the start", MUTED, "line"],
      [CG.title, CG.color, "dot"],
      [AP.title, AP.color, "square"],
    ]);
    plane.note("thin lines: the two eigenvectors of the paths");
  }

  _drawOverWork({cg, ap, bounds, places}, {work}) {
    const runs = [
      {...CG, path: cg, at: places[0], bound: bounds[0]},
      {...AP, path: ap, at: places[1], bound: bounds[1]},
    ].map((each) => ({
      ...each,
      errors: each.path.errors.map((one) => one / cg.errors[0]),
      residuals: each.path.residuals.map((one) => Math.sqrt(one / cg.residuals[0])),
    }));
    for (const [plane, what, yLabel] of [
      [this.errors, "errors", "‖W − W*‖² in K, ÷ start"],
      [this.residuals, "residuals", "‖r‖ ÷ ‖b‖"],
    ]) {
      const known = runs.flatMap((each) => each[what]).filter((each) => each > LOWEST);
      const shown = what === "errors" ? [...known, 4] : known;
      const [low, high] = [Math.min(0.5, ...shown), Math.max(1, ...shown)];
      plane.begin({
        x: [0, WORK],
        y: [Math.floor(2 * Math.log10(low)) / 2, Math.log10(high) + 0.15],
        log: true,
        xLabel: "work: kernel entries ÷ n²",
        yLabel,
      });
      const floor = 10 ** plane.y[0],
        top = 10 ** plane.y[1],
        seen = (path, values) => values.map((each, j) => {
          return each >= floor && each <= top && path.work[j] <= WORK ? each : NaN;
        });
      plane.line([work, work], [floor, top], {color: MUTED, width: 1, of: "work"});
      for (const {path, bound, color, of} of runs) {
        if (what === "errors") plane.line(path.work, seen(path, bound), {color, width: 2, dash: "2 5", of: of === "cg" ? "kappa" : null});
      }
      for (const {path, color, mark, at, title, of, ...each} of runs) {
        const curve = seen(path, each[what]);
        plane.line(path.work, curve, {color, of});
        plane.dot(path.work[at], curve[at], {color, shape: mark, size: 6, of: `${of} work`}, `${title}: ${number(each[what][at], 3)}`);
      }
      plane.end();
      plane.legend([
        [CG.title, CG.color, "line"],
        [AP.title, AP.color, "line"],
        ...(what === "errors" ? [["bounds by κ and κ′", [CG.color, AP.color], "dots"]] : []),
      ]);
      plane.note("an iteration of CG costs 1, an update b/n");
    }
    const spec = {x: this.errors.sx(work), y: this.errors.top + 10, label: "the work", value: `work ${work}`};
    this.grip(this.errors, "work", spec, (x) => this.errors.fromX(x));
  }

  /** p with p(0) = 1, by which CG has multiplied the error along every eigenvector, and its zeros, which can be moved. */
  _drawPolynomial({cg, krylov}, work) {
    const plane = this.polynomial,
      {values} = cg.eigen,
      count = Math.min(work, krylov.length),
      own = count <= ZEROS ? [...krylov.zeros(count)] : [],
      key = JSON.stringify(own);
    if (key !== this._own) [this._own, this._zeros] = [key, own];
    const zeros = this._zeros,
      ends = [Math.log10(values.at(-1)) - 0.08, Math.log10(values[0]) + 0.08],
      along = Array.from({length: 241}, (_, i) => ends[0] + ((ends[1] - ends[0]) * i) / 240);
    const shares = cg.coordinates(0).map((each) => each ** 2 / cg.errors[0]),
      leftBy = (of) => values.reduce((sum, each, i) => sum + shares[i] * productOf(of, each) ** 2, 0),
      inside = (each) => (Math.abs(each) <= 1.3 ? each : NaN);
    plane.begin({x: ends, y: [-1.3, 1.3], powers: true, xLabel: "eigenvalue λ of K", yLabel: "p(λ)"});
    plane.line(ends, [0, 0], {color: MUTED, width: 1});
    if (zeros.length || !work) {
      plane.line(along, along.map((each) => inside(productOf(own, 10 ** each))), {color: CG.color, ...PALE});
      plane.line(along, along.map((each) => inside(productOf(zeros, 10 ** each))), {color: PURPLE, of: "cg"});
      values.forEach((each, i) => {
        const size = 2 + 6 * Math.sqrt(shares[i]);
        plane.dot(Math.log10(each), inside(productOf(zeros, each)), {color: CG.color, size, of: "points lengthscale noise kappa"}, `λ = ${number(each, 3)} holds ${number(100 * shares[i], 2)}% of the error`);
      });
    }
    plane.end();
    plane.legend([
      ["p of your zeros", PURPLE, "line"],
      ["p of CG", CG.color, "wide"],
      ["eigenvalues; large where much error is", CG.color, "dot"],
    ]);
    plane.note(
      count > ZEROS
        ? `p has ${count} zeros here: at most ${ZEROS} are drawn, up to work ${ZEROS}`
        : `${many(count, "iteration")}, ${many(count, "zero")}, and p(0) = 1: yours leave ${number(100 * leftBy(zeros), 3)}% of the error, ` +
            `CG's ${number(100 * leftBy(own), 3)}%; no other zeros leave less`,
    );
    plane.keepHandles(zeros.map((_, k) => `zero ${k}`));
    zeros.forEach((each, k) => {
      const at = Math.log10(each),
        spec = {x: plane.sx(at), y: plane.sy(0), label: `zero ${k + 1}`, value: number(each, 3), size: 9, of: "cg"};
      const go = (place) => {
        this._zeros[k] = 10 ** Math.min(ends[1] + 0.3, Math.max(ends[0] - 0.3, place));
        this.state.tell();
      };
      plane.handle(`zero ${k}`, spec, this.held((px) => go(plane.fromX(px)), spec, (right, up) => go(at + 0.01 * (right + up))));
    });
  }

  /** Gives the zeros back to CG. */
  reset() {
    this._own = null;
  }
}

const many = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
const below = (i) => String(i).replace(/\d/g, (each) => "₀₁₂₃₄₅₆₇₈₉"[each]);
