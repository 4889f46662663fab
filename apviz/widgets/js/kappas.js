/** κ and κ′: eigenvalues of K and of its blocks, Theorem 1 next to the measured error, and a bet on which is faster. */

import {matrix, norm, part, plus, solve} from "./algebra.js";
import {kernelNamed} from "./kernels.js";
import {numbersOf} from "./packing.js";
import {finished, kdTree, sequential} from "./partitions.js";
import {number} from "./plane.js";
import {Slices} from "./slices.js";
import {coupling, eigenvaluesOf, errorsOverBlocks, factorOf, largestOfPart} from "./spectra.js";
import {MUTED as WHOLE, View} from "./view.js";

/** epochs of a solve; share of ‖W−W*‖²_K to count epochs to; results that are kept */
const EPOCHS = 15,
  SHARE = 0.01,
  KEPT = 64;
const SIZES = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/** share below which an error is rounding */
const FLOOR = 1e-12;
const SIDES = {
  sequential: {title: "consecutive rows", color: "var(--cyclic)", mark: "dot", blocks: sequential, of: "sequential"},
  "kd-tree": {title: "the k-d tree", color: "var(--gauss-southwell)", mark: "square", blocks: kdTree, of: "tree"},
};

const kept = new Map();

/** What `make` returned for a key before, the oldest of several forgotten. */
function remembered(key, make) {
  const found = kept.get(key) ?? make();
  kept.delete(key);
  kept.set(key, found);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  return found;
}

/** Points of a data set, as float32 have them: (n, d), and b. */
export function dataOf({points, dimension, inputs, targets}) {
  const flat = numbersOf(inputs);
  return {
    points: Array.from({length: points}, (_, i) => flat.slice(i * dimension, (i + 1) * dimension)),
    b: numbersOf(targets),
  };
}

/** Rows that the blocks of either partition hold. */
export const setsOf = (points, size) => ({
  sequential: sequential(points.length, size),
  "kd-tree": kdTree(points, size),
});

/**
 * All that a state shows, part by part: what is not there yet is undefined. Eigenvalues of K and of blocks are without
 * noise, which adds σ² to each; so they last while only σ² moves.
 * @param {{points: Float64Array[], b: Float64Array}} data
 * @param {{name: string, block_size: number, lengthscale: number, noise: number, sizes?: number[], epochs?: number}} of
 * @param {{isTold: boolean}} wish whether the couplings are wanted too
 */
export class Situation {
  constructor(data, of, wish) {
    Object.assign(this, {...of, data, wish});
    const {name, block_size, lengthscale, noise} = of,
      system = `${name} ${lengthscale}`;
    this.sets = remembered(`sets ${name} ${block_size}`, () => setsOf(data.points, block_size));
    this._spectrum = remembered(`spectrum ${system}`, () => ({growth: {sequential: [], "kd-tree": []}}));
    this._blocks = remembered(`blocks ${system} ${block_size}`, () => ({}));
    this._whole = remembered(`K ${system} ${noise}`, () => ({}));
    this.solves = remembered(`solves ${system} ${noise} ${block_size}`, () => ({}));
    this.couplings = remembered(`couplings ${system} ${noise} ${block_size}`, () => ({}));
  }

  /** With noise, largest first. */
  get eigenvalues() {
    return this._spectrum.values?.map((each) => each + this.noise);
  }

  blockValues(side) {
    return this._blocks[side]?.map((values) => values.map((each) => each + this.noise));
  }

  /** λ′max by block size, as far as it is known. */
  growth(side) {
    return this._spectrum.growth[side].map((each) => each + this.noise);
  }

  get kappa() {
    return this.eigenvalues && this.eigenvalues[0] / this.eigenvalues.at(-1);
  }

  kappaPrime(side) {
    const blocks = this._blocks[side];
    if (!blocks || !this._spectrum.values) return undefined;
    return (Math.max(...blocks.map(([first]) => first)) + this.noise) / this.eigenvalues.at(-1);
  }

  get hasSpectra() {
    return this._spectrum.values !== undefined && Object.keys(this._blocks).length === Object.keys(this.sets).length;
  }

  get isSolved() {
    return Object.keys(this.solves).length === Object.keys(this.sets).length;
  }

  /** What is known, as a text. */
  get parts() {
    const {sequential: one, "kd-tree": other} = this._spectrum.growth;
    return [this.hasSpectra, this.isSolved, Object.keys(this.couplings).length, one.length, other.length].join(" ");
  }

  /** Epochs until ‖W−W*‖²_K is at most a share of its start. */
  epochsTo(side, share = SHARE) {
    const solved = this.solves[side];
    const found = solved ? solved.errors.findIndex((each) => each <= share) : -1;
    return found < 0 ? Infinity : found / this.sets[side].length;
  }

  /** Computes what is missing, what is seen first first. */
  *work() {
    const {b, points} = this.data,
      n = points.length,
      sides = Object.entries(this.sets),
      whole = this._whole;
    const plain = (this._spectrum.gram ??= yield* gramOf(this.data, this.lengthscale));
    for (const [side, sets] of sides) {
      if (this._blocks[side]) continue;
      const values = [];
      for (const set of sets) {
        values.push(yield* eigenvaluesOf(part(plain, set)));
        yield;
      }
      this._blocks[side] = values;
    }
    this._spectrum.values ??= yield* eigenvaluesOf(plain);
    if (!this.isSolved || this.wish.isTold) {
      whole.gram ??= plain.map((row, i) => row.map((each, j) => (i === j ? each + this.noise : each)));
      whole.factor ??= yield* factorOf(whole.gram);
      whole.goal ??= solve(whole.factor, b);
      yield;
    }
    for (const [side, sets] of sides) {
      this.solves[side] ??= yield* errorsOverBlocks(whole.gram, b, whole.goal, sets, (this.epochs ?? EPOCHS) * sets.length);
    }
    const sizes = this.sizes ?? SIZES,
      {growth} = this._spectrum;
    for (const [side] of sides) {
      while (growth[side].length < sizes.length) {
        let largest = 0;
        for (const set of setsOf(points, Math.min(sizes[growth[side].length], n))[side]) {
          largest = Math.max(largest, yield* largestOfPart(plain, set));
          yield;
        }
        growth[side].push(largest);
      }
    }
    if (!this.wish.isTold) return;
    for (const [side, sets] of sides) this.couplings[side] ??= yield* coupling(whole.gram, whole.factor, sets);
  }
}

/** K without noise. */
function* gramOf(data, lengthscale) {
  const k = kernelNamed("matern52", lengthscale),
    n = data.points.length,
    gram = matrix(n, n),
    distances = (data.distances ??= distancesOf(data.points));
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) gram[i][j] = gram[j][i] = k(distances[i][j], 0);
    if (i % 100 === 99) yield;
  }
  return gram;
}

/** Of every point from those before it, and from itself. */
const distancesOf = (points) =>
  points.map((x, i) => Float64Array.from({length: i + 1}, (_, j) => norm(plus(x, points[j], -1))));

/** All of a situation at once. */
export function wholeSituation(data, of) {
  const found = new Situation(data, of, {isTold: true});
  finished(found.work());
  return found;
}

export class KappasView extends View {
  constructor(place, state, face) {
    super(place, state, face);
    Object.assign(this, {data: {}, _drawn: {}});
    this.errors = this.plane("Bound of Theorem 1 and measured error", () => 320, true);
    this.growth = this.plane("λ′max grows with the block size: drag it");
    this.spectrum = this.plane("Eigenvalues of K and of its blocks");
    this._slices = new Slices(place, {
      isOpen: () => this._running !== null,
      next: () => this._next(),
      known: () => [this._seen, this._solved].map((each) => each && `${each.key} ${each.parts}`).join(),
      tell: () => state.tell(),
    });
  }

  draw(values) {
    const {data: name, block_size, lengthscale, noise, bet} = values;
    const key = JSON.stringify([name, block_size, lengthscale, noise]),
      isTold = bet !== "";
    if (key !== this._wanted?.key) {
      this.data[name] ??= dataOf(this.face.given.data[name]);
      this._wanted = new Situation(this.data[name], {key, name, block_size, lengthscale, noise}, {isTold});
      // what has begun is finished as far as it is drawn: who drags on and on sees pictures too
      if (!this._now || this._now.isSolved || this._wanted.isSolved) this._begin();
    } else if (isTold && !this._wanted.wish.isTold) {
      this._wanted.wish.isTold = true;
      if (this._now === this._wanted) this._running ??= this._now.work();
    }
    this._slices.start();
    return this._show(values);
  }

  _begin() {
    this._now = this._wanted;
    this._running = this._now.work();
    this._note();
  }

  _next() {
    if (this._running.next().done) this._running = null;
    this._note();
    if (this._now !== this._wanted && this._now.isSolved) this._begin();
  }

  /** Which situation a chart can be drawn of. */
  _note() {
    if (this._now.hasSpectra) this._seen = this._now;
    if (this._now.hasSpectra && this._now.isSolved) this._solved = this._now;
  }

  /** Draws what is known, and leaves the rest as it was. */
  _show(values) {
    const sides = Object.keys(SIDES),
      seen = this._seen,
      solved = this._solved,
      isOpen = values.bet === "";
    // nothing is to be seen there before the bet
    if (this.errors.figure.hidden !== isOpen) {
      this.errors.figure.hidden = isOpen;
      if (isOpen) this.errors.clear();
      delete this._drawn.errors;
      this.resize();
    }
    if (seen) {
      this._fresh("spectrum", seen, [], () => this._drawSpectrum(seen));
      const growth = [sides.map((side) => seen.growth(side).length), values.block_size];
      this._fresh("growth", seen, growth, () => this._drawGrowth(seen, values));
    }
    if (solved && !isOpen) this._fresh("errors", solved, Object.keys(solved.couplings), () => this._drawErrors(solved));
    for (const [chart, [of]] of Object.entries(this._drawn)) {
      this[chart].figure.toggleAttribute("data-late", of.key !== this._wanted.key);
    }
    const figures = {kappa: "…", sequential: "…", tree: "…", answer: null, result: ""};
    if (seen) {
      figures.kappa = number(seen.kappa, 3);
      figures.sequential = number(seen.kappaPrime("sequential"), 3);
      figures.tree = number(seen.kappaPrime("kd-tree"), 3);
    }
    // keep the outcome of the bet until the next one is known
    if (solved?.key !== this._wanted.key) return {...figures, result: values.bet === this._told?.bet ? this._told.words : ""};
    const epochs = Object.fromEntries(sides.map((side) => [side, solved.epochsTo(side)]));
    const ends = sides.map((side) => solved.solves[side].errors.at(-1));
    const isFirst = epochs.sequential === epochs["kd-tree"] ? ends[0] <= ends[1] : epochs.sequential < epochs["kd-tree"];
    this._told = {bet: values.bet, words: this._result(solved, epochs)};
    return {...figures, answer: isFirst ? "sequential" : "kd-tree", result: this._told.words};
  }

  /** What is drawn already is left as it is. */
  _fresh(chart, situation, more, draw) {
    const {width, em} = this[chart],
      key = JSON.stringify([situation.key, width, em, more]);
    if (this._drawn[chart]?.[1] === key) return;
    draw();
    this._drawn[chart] = [situation, key];
  }

  _result(now, epochs) {
    const ends = ([side, count]) => {
      if (Number.isFinite(count)) return `${number(count, 3)} epochs over ${SIDES[side].title}`;
      const left = number(100 * now.solves[side].errors.at(-1), 2);
      return `more than ${EPOCHS} over ${SIDES[side].title}, with ${left}% left`;
    };
    const [one, other] = Object.entries(epochs).sort((a, b) => a[1] - b[1]);
    const promised = Object.keys(SIDES).map((side) => `${number(now.kappaPrime(side) * Math.log(1 / SHARE), 3)}`);
    const sees = Object.keys(SIDES).map((side) => (now.couplings[side] ? number(1 / now.couplings[side], 3) : "…"));
    return (
      `to 1% it takes ${ends(one)}, and ${ends(other)}. Theorem 1 promises κ′ ln 100 = ${promised[0]} over ` +
      `consecutive rows and ${promised[1]} over the k-d tree, because it assumes the worst residual at every update. 1/λmin(D⁻¹K), where D holds the blocks ` +
      `alone, includes the coupling of blocks, by which updates undo each other: ${sees[0]} over consecutive ` +
      `rows, ${sees[1]} over the k-d tree.`
    );
  }

  _drawErrors(now) {
    const plane = this.errors;
    const runs = Object.entries(SIDES).map(([side, look]) => {
      const {errors} = now.solves[side],
        m = now.sets[side].length,
        rate = now.kappaPrime(side);
      const x = errors.map((_, j) => j / m);
      const coupled = x.map((t) => Math.exp(-t * (now.couplings[side] ?? NaN)));
      return {...look, side, x, y: errors, bound: x.map((t) => Math.exp(-t / rate)), coupled};
    });
    const seen = runs.flatMap(({y}) => y.filter((each) => each > FLOOR));
    const low = Math.floor(2 * Math.log10(Math.min(SHARE / 2, ...seen))) / 2;
    plane.begin({
      x: [0, EPOCHS],
      y: [low, 0.2],
      log: true,
      xLabel: "epochs t, as many updates as there are blocks",
      yLabel: "squared K-norm of W − W*, ÷ start",
    });
    plane.line([0, EPOCHS], [SHARE, SHARE], {color: WHOLE, width: 1.5});
    for (const {x, bound, color, of} of runs) plane.line(x, bound, {color, dash: "2 5", width: 2, of});
    for (const {x, y, color, mark, side, coupled} of runs) {
      plane.line(x, coupled, {color, dash: "8 5", width: 1.8});
      plane.line(x, y.map((each) => (each > FLOOR ? each : NaN)), {color});
      const t = now.epochsTo(side);
      if (Number.isFinite(t)) plane.dot(t, SHARE, {color, shape: mark, size: 6}, `1% after ${number(t, 3)} epochs`);
    }
    plane.end();
    const colors = runs.map(({color}) => color);
    plane.legend([
      ...runs.map(({title, color}) => [title, color, "line"]),
      ["exp(−t/κ′)", colors, "dots"],
      ["exp(−t λmin(D⁻¹K)): random blocks, on average", colors, "dashes"],
    ]);
    plane.note("solid: gauss-southwell, exact to rounding · dashes: the bound that knows how blocks couple; D holds the blocks of K");
  }

  _drawGrowth(now, {block_size}) {
    const plane = this.growth,
      lines = Object.entries(SIDES).map(([side, look]) => ({...look, side, y: now.growth(side)}));
    const [largest] = now.eigenvalues;
    const known = lines.flatMap(({y}) => y);
    if (!this.isHeld || !this._low) this._low = Math.floor(4 * Math.log10(Math.min(largest / 3, ...known))) / 4;
    plane.begin({
      x: [0, 105],
      y: [this._low, Math.log10(largest) + 0.1],
      log: true,
      xLabel: "block size b",
      yLabel: "λ′max = max λmax(K[I, I])",
    });
    plane.line([0, 105], [largest, largest], {color: WHOLE, width: 1.5, dash: "6 4", of: "kappa"});
    for (const {side, y, color, mark, of} of lines) {
      plane.line(SIZES.slice(0, y.length), y, {color});
      const blocks = now.blockValues(side);
      const at = Math.max(...blocks.map(([first]) => first));
      plane.dot(now.block_size, at, {color, shape: mark, size: 6, of: `${of} block_size`}, `b = ${now.block_size}: λ′max = ${number(at)}`);
    }
    plane.end();
    plane.legend([...lines.map(({title, color}) => [title, color, "line"]), ["λmax(K)", WHOLE, "dashes"]]);
    plane.note(`κ′ = λ′max/λmin(K), λmin(K) = ${number(now.eigenvalues.at(-1), 3)} · λ′max can fall a little where larger blocks do not contain the smaller ones`);
    const at = Math.max(...now.blockValues("kd-tree").map(([first]) => first));
    const spec = {x: plane.sx(block_size), y: plane.sy(at), label: "the block size", value: `b = ${block_size}`};
    this.grip(plane, "block_size", spec, (px) => plane.fromX(px));
  }

  _drawSpectrum(now) {
    const plane = this.spectrum,
      whole = now.eigenvalues,
      n = whole.length;
    const place = (i) => Math.log10(i + 1);
    plane.begin({
      x: [0, Math.log10(n) + 0.05],
      y: [Math.floor(4 * Math.log10(whole.at(-1))) / 4 - 0.1, Math.log10(whole[0]) + 0.1],
      log: true,
      powers: true,
      xLabel: "number of the eigenvalue, largest first",
      yLabel: "λ",
    });
    for (const [side, {color, title, mark, of}] of Object.entries(SIDES)) {
      const blocks = now.blockValues(side);
      // of every number the smallest and the largest of all blocks that are full: the last block may have fewer rows
      const full = blocks.filter((values) => values.length === blocks[0].length),
        at = blocks[0].map((_, i) => place(i)),
        edge = (of) => blocks[0].map((_, i) => of(...full.map((values) => values[i])));
      plane.line(at, edge(Math.min), {color, width: 1.2, of});
      plane.line(at, edge(Math.max), {color, of});
      const highest = Math.max(...blocks.map(([first]) => first));
      plane.dot(place(0), highest, {color, size: 5, shape: mark, of}, `${title}: λ′max = ${number(highest)}`);
    }
    plane.line(whole.map((_, i) => place(i)), whole, {color: WHOLE, of: "kappa lengthscale noise"});
    plane.end();
    plane.legend([
      ["of K", WHOLE, "line"],
      ...Object.values(SIDES).map(({title, color}) => [`of blocks, ${title}`, color, "line"]),
    ]);
    plane.note("of full blocks the largest (thick) and the smallest (thin) of each number · all exact, from dense matrices");
  }
}
