/** Who owns which rows, and who solves on which: the partitions of `apviz.partitions`. */

/** Rows in the order they come in. @returns {number[][]} */
export const sequential = (n, size, order = null) =>
  Array.from({length: Math.ceil(n / size)}, (_, j) =>
    Array.from({length: Math.min(size, n - j * size)}, (_, k) => (order ? order[j * size + k] : j * size + k)),
  );

/**
 * Neighbours: halves along the longest side of a part until a block is full.
 * @param {ArrayLike<number>[]} points
 * @param {number} size
 * @param {number[]} [order] in which rows come: of rows at one place the first goes first
 */
export const kdTree = (points, size, order) =>
  tree(points, size, order, (rows) => {
    const sides = Array.from(points[0], (_, k) => {
      let [low, high] = [Infinity, -Infinity];
      for (const i of rows) [low, high] = [Math.min(low, points[i][k]), Math.max(high, points[i][k])];
      return high - low;
    });
    const side = sides.indexOf(Math.max(...sides));
    return (i) => points[i][side];
  });

/** Neighbours in the plane: halves across the axis of largest variance (McNames 2001). */
export const principalAxisTree = (points, size, order) =>
  tree(points, size, order, (rows) => {
    const mean = [0, 1].map((k) => rows.reduce((sum, i) => sum + points[i][k], 0) / rows.length);
    let [xx, xy, yy] = [0, 0, 0];
    for (const i of rows) {
      const [x, y] = [points[i][0] - mean[0], points[i][1] - mean[1]];
      [xx, xy, yy] = [xx + x * x, xy + x * y, yy + y * y];
    }
    const turn = 0.5 * Math.atan2(2 * xy, xx - yy),
      axis = [Math.cos(turn), Math.sin(turn)];
    const sign = Math.sign(Math.abs(axis[0]) >= Math.abs(axis[1]) ? axis[0] : axis[1]);
    return (i) => sign * ((points[i][0] - mean[0]) * axis[0] + (points[i][1] - mean[1]) * axis[1]);
  });

function tree(points, size, order, along) {
  const parts = [order ?? Array.from(points, (_, i) => i)],
    leaves = [],
    key = new Float64Array(points.length);
  while (parts.length) {
    const rows = parts.pop();
    if (rows.length <= size) {
      leaves.push(...rows);
      continue;
    }
    // a cut at a whole number of blocks keeps all blocks but the last full
    const cut = Math.floor(Math.ceil(rows.length / size) / 2) * size,
      coordinate = along(rows);
    for (const i of rows) key[i] = coordinate(i);
    const sorted = [...rows].sort((i, j) => key[i] - key[j]);
    parts.push(sorted.slice(cut), sorted.slice(0, cut));
  }
  return sequential(points.length, size, leaves);
}

/** Rows of the margin of a block, by the rows it owns of n. */
export const marginSize = (owned, n, overlap, blocks) =>
  blocks > 1 ? Math.min(Math.floor(overlap * owned), n - owned) : 0;

/**
 * The `count` rows nearest to any that is owned; of rows as near, the first. A generator, left after a portion of
 * distances, which returns them in the order of rows.
 */
export function* nearest(points, owned, count, portion = Infinity) {
  if (!count) return [];
  const n = points.length,
    distance = new Float64Array(n).fill(Infinity),
    sums = new Float64Array(n);
  const axes = Array.from(points[0], (_, k) => Float64Array.from(points, (each) => each[k]));
  let done = 0;
  for (const j of owned) {
    sums.fill(0);
    for (const axis of axes) {
      const from = axis[j];
      for (let i = 0; i < n; i++) sums[i] += (axis[i] - from) * (axis[i] - from);
    }
    for (let i = 0; i < n; i++) if (sums[i] < distance[i]) distance[i] = sums[i];
    if ((done += n) > portion) {
      done = 0;
      yield;
    }
  }
  for (const j of owned) distance[j] = Infinity;
  // what is farther than the last of them need not be sorted
  const last = Float64Array.from(distance).sort()[count - 1];
  const found = [];
  for (let i = 0; i < n; i++) if (distance[i] <= last) found.push(i);
  return found
    .sort((i, j) => distance[i] - distance[j] || i - j)
    .slice(0, count)
    .sort((i, j) => i - j);
}

/** What a generator returns in the end. */
export function finished(work) {
  for (;;) {
    const {done, value} = work.next();
    if (done) return value;
  }
}

/** Blocks that solve on a margin too. @returns {import("./trajectory.js").Block[]} rows in increasing order */
export function blocksWithMargins(points, sets, overlap) {
  return sets.map((owned) => {
    const count = marginSize(owned.length, points.length, overlap, sets.length);
    return {owned, solved: [...owned, ...finished(nearest(points, owned, count))].sort((i, j) => i - j)};
  });
}
