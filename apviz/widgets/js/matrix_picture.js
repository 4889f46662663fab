/** A matrix of few rows as shades, and what an update solves with and reads of it. */

import {Figure} from "./plane.js";

/** shades of an entry */
const SHADES = 12;

export class MatrixPicture extends Figure {
  constructor(place, title, heightOf) {
    super(place, title, heightOf);
    this.figure.classList.add("matrix");
  }

  /**
   * Draws K, its blocks, and an update.
   * @param {import("./algebra.js").Matrix} gram of entries ≥ 0
   * @param {number[][]} owned rows of every block, neighbours
   * @param {number[]} lit the rows that the update solves on
   * @param {string} color of the update
   */
  draw(gram, owned, lit, color) {
    const n = gram.length;
    this.begin();
    this.side = Math.min(this.width - 2 * this.em, this.height - 0.5 * this.em);
    this.left = (this.width - this.side) / 2;
    this.cell = this.side / n;
    if (gram !== this._gram || this.cell !== this._shadedAt) {
      this._shaded = shades(gram, (k) => this.at(k), this.left);
      [this._gram, this._shadedAt] = [gram, this.cell];
    }
    this._shaded.forEach((d, shade) => {
      const opacity = ((0.85 * shade) / SHADES).toFixed(3);
      this.axes.draw("path", {d, fill: "var(--ink)", "fill-opacity": opacity, "shape-rendering": "crispEdges"});
    });
    const runs = runsOf(lit);
    for (const [from, to] of runs) this._rect([0, n], [from, to], {fill: color, "fill-opacity": 0.28});
    for (const set of owned) {
      const ends = [set[0], set.at(-1) + 1];
      this._rect(ends, ends, {fill: "none", stroke: "var(--muted)", "stroke-width": 1.5, "data-of": "block_size"});
    }
    for (const rows of runs) {
      for (const columns of runs) this._rect(rows, columns, {fill: color, "fill-opacity": 0.3, stroke: color, "stroke-width": 3, "data-of": "what"});
    }
    this.end();
  }

  /** Pixels of the edge before a row or a column, without the margin. */
  at(k) {
    return k * this.cell;
  }

  _rect(rows, columns, look) {
    const [top, bottom, left, right] = [...rows, ...columns].map((each) => this.at(each));
    const place = {x: this.left + left, y: top, width: right - left, height: bottom - top};
    for (const name in place) place[name] = place[name].toFixed(1);
    this.marks.draw("rect", {...place, ...look});
  }
}

/** Outlines of all cells of a shade, by shade; neighbouring cells of a row are one rectangle. */
function shades(gram, at, left) {
  const largest = Math.max(...gram.map((row) => Math.max(...row))),
    paths = Array.from({length: SHADES + 1}, () => []);
  gram.forEach((row, i) => {
    const shadeOf = (j) => Math.round((SHADES * row[j]) / largest);
    for (let j = 0, from = 0; j < row.length; j++) {
      if (j + 1 < row.length && shadeOf(j + 1) === shadeOf(j)) continue;
      const x = (each) => (left + at(each)).toFixed(1);
      if (shadeOf(j)) paths[shadeOf(j)].push(`M${x(from)} ${at(i).toFixed(1)}H${x(j + 1)}V${at(i + 1).toFixed(1)}H${x(from)}Z`);
      from = j + 1;
    }
  });
  return paths.map((each) => each.join(""));
}

/** Whole numbers as ranges [from, to). */
function runsOf(numbers) {
  const found = [];
  for (const each of [...numbers].sort((i, j) => i - j)) {
    if (found.at(-1)?.[1] === each) found.at(-1)[1]++;
    else found.push([each, each + 1]);
  }
  return found;
}
