/** A photograph, block by block: scattered blocks next to blocks of neighbours, solved in the page. */

import {sizesByStep, stepsToBorder} from "./borders.js";
import {nearestPlace} from "./controls.js";
import {element} from "./elements.js";
import {bytesOf} from "./packing.js";
import {Picture, PictureSolve} from "./photograph_solver.js";
import {number} from "./plane.js";
import {Slices} from "./slices.js";
import {View} from "./view.js";

/** updates at most; solves that are kept, fewer of many pixels; a value that is white; sizes below
    are rounding; steps from a border that are told apart */
const MOST = 1000,
  KEPT = 6,
  MANY = 5000,
  BRIGHT = 2,
  ROUNDING = 1e-12,
  FAR = 6;
const SIDES = [
  {name: "scattered", title: "Scattered blocks", color: "var(--cyclic)", mark: "dot"},
  {name: "neighbours", title: "Blocks of neighbours", color: "var(--gauss-southwell)", mark: "square"},
];

const pictures = new Map(),
  solvesOfWidgets = new WeakMap();

function pictureOf(pixels, {controls, given}) {
  const n = controls.pixels.places[nearestPlace(controls.pixels, pixels)];
  if (!pictures.has(n)) {
    const {rows, columns, grey} = given.pictures[n];
    pictures.set(n, new Picture(rows, columns, bytesOf(grey)));
  }
  return pictures.get(n);
}

/** Both solves of a state, the same while nothing but the step and the look change. */
function solvesOf(values, face) {
  const {pixels, block_size, partition, overlap, rule, tol} = values;
  const {lengthscale, noise} = face.given;
  // each widget of a page has its own, so that none makes another start again
  const solves = solvesOfWidgets.get(face) ?? new Map();
  solvesOfWidgets.set(face, solves);
  return ["sequential", partition].map((kind) => {
    const key = JSON.stringify([pixels, block_size, kind, overlap, rule, tol]);
    const found = solves.get(key);
    solves.delete(key);
    const picture = found?.picture ?? pictureOf(pixels, face);
    const settings = {overlap, rule, tol, lengthscale, noise, most: MOST};
    const solve = found ?? new PictureSolve(picture, {sets: picture.blocks(kind, block_size), ...settings});
    solves.set(key, solve);
    // the oldest make room: factors of many pixels take a hundred megabytes
    while (solves.size > (picture.n > MANY ? 2 : KEPT)) solves.delete(solves.keys().next().value);
    return solve;
  });
}

/** The update nearest to a place of the axis; beyond what is solved, as if every update took what the last one took. */
export function stepAt(place, x) {
  const last = x.length - 1;
  if (last > 0 && place > x[last]) return last + Math.round((place - x[last]) / (x[last] - x[last - 1]));
  return x.reduce((best, each, j) => (Math.abs(each - place) < Math.abs(x[best] - place) ? j : best), 0);
}

export class PhotographView extends View {
  static longest = {scattered: "0.000123", neighbours: "0.000123"};

  constructor(place, state, face) {
    super(place, state, face);
    this.sides = SIDES.map((side) => {
      const canvas = element("canvas", {role: "img", "data-of": `${side.name} block_size overlap`}),
        caption = element("figcaption"),
        note = element("p", {class: "note"});
      place.append(element("figure", {class: "picture"}, caption, canvas, note));
      return {...side, canvas, caption, note};
    });
    this.curves = this.plane("Residual of both: drag the step, also beyond the end", () => 280, true);
    this.borders = this.plane("What is left at borders between blocks, and away from them", () => 160, true);
    this.borders.figure.classList.add("under");
    this._probe = element("i", {hidden: true});
    place.append(this._probe);
    this._slices = new Slices(place, {
      isOpen: () => this.sides.some(({solve}) => !solve.isThere),
      next: () => this.sides.forEach(({solve}) => solve.goOn()),
      known: () => this.sides.map(({solve}) => solve.at).join(),
      tell: () => state.tell(),
    });
  }

  /** Beyond where both solves ended there is no step. */
  static limit(name, values, face) {
    if (name !== "step") return Infinity;
    const both = solvesOf(values, face);
    return both.every(({isEnded}) => isEnded) ? Math.max(...both.map(({steps}) => steps.length - 1)) : Infinity;
  }

  draw(values) {
    const both = solvesOf(values, this.face);
    if (both.some((each, k) => each !== this.sides[k].solve)) this.sides.forEach((side) => (side.shown = null));
    this.sides.forEach((side, k) => {
      if (side.solve?.sets !== both[k].sets) side.toBorder = stepsToBorder(both[k].picture, both[k].sets, FAR);
      side.solve = both[k];
      if (!both[k].isThere || both[k].target !== values.step) both[k].target = values.step;
    });
    this._slices.start();
    return this._show(values);
  }

  _show(values) {
    const figures = {};
    for (const side of this.sides) {
      const {solve, name} = side;
      if (!solve.isBetween) {
        this._paint(side, values);
        side.sizes = sizesByStep(solve.residual, side.toBorder, FAR);
      }
      const {norm} = solve.steps[solve.at];
      figures[name] = number(norm, 3);
      const isDone = solve.isEnded && solve.at === solve.steps.length - 1 && norm < solve.tol;
      side.caption.textContent = values.partition === "sequential" ? SIDES[0].title : side.title;
      side.note.textContent =
        `update ${solve.at}${isDone ? ", done" : ""}: ‖r‖ is ${number(norm, 3)} of ‖b‖, ` +
        `work ${number(solve.steps[solve.at].work, 3)} · ${solve.sets.length} blocks`;
    }
    this._drawCurves(values);
    this._drawBorders(values);
    return figures;
  }

  /** Grey by the root of |r| with its sign, so that little is seen too; the block of the update is tinted. */
  _paint(side, {picture}) {
    const {solve, canvas} = side,
      {rows, columns, n} = solve.picture;
    const key = `${solve.at} ${picture} ${getComputedStyle(this._probe).color}`;
    if (side.shown === key) return;
    side.shown = key;
    if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, {width: columns, height: rows});
    const pen = canvas.getContext("2d"),
      image = pen.createImageData(columns, rows),
      {data} = image;
    const values = picture === "residual" ? solve.residual : solve.mean();
    for (let i = 0; i < n; i++) {
      const size = Math.min(1, Math.sqrt(Math.abs(values[i]) / BRIGHT));
      data[4 * i] = data[4 * i + 1] = data[4 * i + 2] = 127.5 * (1 + (values[i] < 0 ? -size : size));
      data[4 * i + 3] = 255;
    }
    const {block} = solve.steps[solve.at];
    if (block >= 0) {
      this._probe.style.color = side.color;
      const tint = getComputedStyle(this._probe).color.match(/[\d.]+/g).map(Number);
      for (const i of solve.solved(block)) {
        for (let k = 0; k < 3; k++) data[4 * i + k] = 0.45 * data[4 * i + k] + 0.55 * tint[k];
      }
    }
    pen.putImageData(image, 0, 0);
    canvas.setAttribute(
      "aria-label",
      `${side.title}: ${picture === "residual" ? "the residual" : "the mean"} after update ${solve.at}`,
    );
  }

  _drawCurves({axis, tol}) {
    const plane = this.curves,
      ofWork = axis === "work";
    const runs = this.sides.map((side) => ({
      ...side,
      x: side.solve.steps.map(({work}, j) => (ofWork ? work : j)),
      y: side.solve.steps.map(({norm}) => norm),
    }));
    const last = Math.max(ofWork ? 1 : 10, ...runs.map(({x}) => x.at(-1)));
    // in steps, so that the axis stands still for a while, and with room to drag the step beyond what is solved
    if (!this.isHeld || !this._reach) this._reach = ofWork ? Math.ceil(last * 1.15) : 20 * Math.ceil((last + 8) / 20);
    const reach = this._reach;
    const low = Math.min(tol, ...runs.map(({y}) => Math.min(...y)));
    plane.begin({
      x: [0, reach],
      y: [Math.floor(2 * Math.log10(low)) / 2, 0.25],
      log: true,
      whole: !ofWork,
      xLabel: ofWork ? "work: entries of K evaluated ÷ n², set-up included" : "updates",
      yLabel: "‖r‖ ÷ ‖b‖",
    });
    plane.line([0, reach], [tol, tol], {color: "var(--muted)", dash: "6 4", width: 1.5});
    for (const {name, x, y, color} of runs) plane.line(x, y, {color, of: name});
    for (const {name, x, y, color, mark, solve} of runs) {
      plane.dot(x[solve.at], y[solve.at], {color, shape: mark, size: 6, of: `${name} step`}, `update ${solve.at}: ${number(y[solve.at], 3)}`);
    }
    plane.end();
    plane.legend([
      ...SIDES.map(({title, color}) => [title.toLowerCase(), color, "line"]),
      ["tolerance", "var(--muted)", "dashes"],
    ]);
    const {x, y, solve} = runs.find(({solve}) => solve.at === Math.max(...runs.map((each) => each.solve.at)));
    const spec = {x: plane.sx(x[solve.at]), y: plane.sy(y[solve.at]), label: "the step", value: `update ${solve.at}`};
    this.grip(plane, "step", spec, (px) => stepAt(plane.fromX(px), x));
  }

  /** The root mean square of the residual at 1, 2, … pixels from the nearest border, where updates undo each other. */
  _drawBorders({tol}) {
    const plane = this.borders,
      along = Array.from({length: FAR}, (_, k) => k + 1),
      all = this.sides.flatMap(({sizes = []}) => [...sizes]).filter((each) => each >= ROUNDING);
    // the axis stands still under a pointer that drags
    if (!this.isHeld || !this._low) this._low = Math.floor(Math.log10(Math.min(tol / 10, ...all)));
    const low = this._low;
    plane.begin({
      x: [0.5, FAR + 0.5],
      y: [low, 0.25],
      log: true,
      xTicks: along.map((each) => [each, each < FAR ? String(each) : `${each} or more`]),
      xLabel: "pixels to the nearest pixel of another block",
      yLabel: "size of r",
    });
    const words = this.sides.map(({name, title, color, mark, sizes = [], toBorder, solve}) => {
      const seen = along.map((_, k) => (sizes[k] >= 10 ** low ? sizes[k] : NaN));
      plane.line(along, seen, {color, of: name});
      seen.forEach((each, k) => {
        const what = `${title.toLowerCase()}, ${along[k]} pixels from a border: ${number(each, 3)}`;
        plane.dot(along[k], each, {color, shape: mark, size: 5, of: name}, what);
      });
      return `${toBorder.filter((each) => each === 1).length.toLocaleString("en")} of ${solve.picture.n.toLocaleString("en")} in ${title.toLowerCase()}`;
    });
    plane.end();
    plane.legend(SIDES.map(({title, color, mark}) => [title.toLowerCase(), color, mark]));
    plane.note(`size: root mean square · pixels at a border: ${words.join(", ")}`);
  }
}
