/** Who owns which rows, and who solves on which: the partitions of `apviz.partitions`. */

/** Rows in the order they come in. @returns {number[][]} */
export const sequential = (n, size, order = null) =>
  Array.from({length: Math.ceil(n / size)}, (_, j) =>
    Array.from({length: Math.min(size, n - j * size)}, (_, k) => (order ? order[j * size + k] : j * size + k)),
  );

/** Neighbours: halves along the longest side of a part until a block is full. @param {ArrayLike<number>[]} points */
export const kdTree = (points, size) =>
  tree(points, size, (rows) => {
    const sides = Array.from(points[0], (_, k) => {
      let [low, high] = [Infinity, -Infinity];
      for (const i of rows) [low, high] = [Math.min(low, points[i][k]), Math.max(high, points[i][k])];
      return high - low;
    });
    const side = sides.indexOf(Math.max(...sides));
    return (i) => points[i][side];
  });

/** Neighbours in the plane: halves across the axis of largest variance (McNames 2001). */
export const principalAxisTree = (points, size) =>
  tree(points, size, (rows) => {
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

function tree(points, size, along) {
  const parts = [Array.from(points, (_, i) => i)],
    leaves = [];
  while (parts.length) {
    const rows = parts.pop();
    if (rows.length <= size) {
      leaves.push(...rows);
      continue;
    }
    // a cut at a whole number of blocks keeps all blocks but the last full
    const cut = Math.floor(Math.ceil(rows.length / size) / 2) * size,
      coordinate = along(rows);
    const key = new Map(rows.map((i) => [i, coordinate(i)]));
    const sorted = [...rows].sort((i, j) => key.get(i) - key.get(j));
    parts.push(sorted.slice(cut), sorted.slice(0, cut));
  }
  return sequential(points.length, size, leaves);
}

/** Rows of the margin of a block that owns so many of n. */
export const marginSize = (owned, n, overlap, blocks) =>
  blocks > 1 ? Math.min(Math.floor(overlap * owned), n - owned) : 0;

/** The `count` rows nearest to any that is owned; of rows as near, the first. @returns {number[]} in the order of rows */
export function margin(points, owned, count) {
  if (!count) return [];
  const isOwned = new Uint8Array(points.length),
    distance = new Float64Array(points.length).fill(Infinity);
  for (const i of owned) isOwned[i] = 1;
  const others = [];
  for (let i = 0; i < points.length; i++) {
    if (isOwned[i]) continue;
    others.push(i);
    for (const j of owned) {
      let sum = 0;
      for (let k = 0; k < points[i].length; k++) sum += (points[i][k] - points[j][k]) ** 2;
      if (sum < distance[i]) distance[i] = sum;
    }
  }
  return others
    .sort((i, j) => distance[i] - distance[j] || i - j)
    .slice(0, count)
    .sort((i, j) => i - j);
}

/** Blocks that solve on a margin too. @returns {import("./trajectory.js").Block[]} rows in increasing order */
export function blocksWithMargins(points, sets, overlap) {
  return sets.map((owned) => {
    const count = marginSize(owned.length, points.length, overlap, sets.length);
    return {owned, solved: [...owned, ...margin(points, owned, count)].sort((i, j) => i - j)};
  });
}
