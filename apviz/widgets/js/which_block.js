/** Which block next: a bet on the four rules of block selection, and what every block would have removed. */

import {element} from "./elements.js";
import {kernelNamed} from "./kernels.js";
import {number} from "./plane.js";
import {RULES, RuleComparison} from "./rule_comparison.js";
import {Span} from "./span.js";
import {INK, MUTED, View} from "./view.js";

/** updates of every rule; bets on none; room for the names of rules, in em; blocks with a number under them */
const STEPS = 24,
  NO_BET = "no bet",
  NO_BLOCK = -1,
  MARGIN = 7.6,
  LABELS = 12;
const colorOf = (rule) => `var(--${rule})`;
const exactly = (share) => `${number(100 * share, 3)}%`;
/** Rounding leaves shares of 1e-11 where a block has nothing to give. */
const percent = (share) => (share > 0 && share < 1e-5 ? "under 0.001%" : exactly(share));
const updates = (count) => `${count} update${count === 1 ? "" : "s"}`;

/** The comparison of a state. */
export function situation({data, block_size, lengthscale, noise, seed}, {systems}) {
  const {x, b} = systems[data],
    span = new Span(x, kernelNamed("matern52", lengthscale), noise);
  return new RuleComparison(span, b, block_size, STEPS, seed);
}

export class WhichBlockView extends View {
  static longest = {last: "24", verdict: "It takes 35, yours removes under 0.001%; in the end gauss-southwell is first."};

  constructor(place, state, face) {
    super(place, state, face);
    const stack = element("div", {class: "stack"});
    place.append(stack);
    this.residual = this.plane("", () => 240, false, stack);
    this.removed = this.plane("Share of ½‖r‖² in H that each block would remove", () => 230, false, stack);
    this.taken = this.plane("Which block each rule takes here", () => 200, false, stack);
    this.race = this.plane("Four rules, the same system", (width) => Math.min(520, Math.max(300, 1.1 * width)));
    this.residual.svg.addEventListener("click", (event) => {
      if (!state.values.reveal && !event.target.closest(".handle")) this._bet(this._blockAt(this.residual.pointer(event)[0]));
    });
  }

  /** Blocks of 36 points. */
  static limit(name, {data, block_size}, {given}) {
    return name === "bet_block" ? Math.ceil(given.systems[data].x.length / block_size) - 1 : Infinity;
  }

  draw(values) {
    const {data, block_size, lengthscale, noise, seed, rule, reveal} = values;
    this._endBet(values);
    const key = JSON.stringify([data, block_size, lengthscale, noise, seed]);
    if (key !== this._key) {
      this._key = key;
      this._found = situation(values, this.face.given);
      const solves = Object.values(this._found.trajectories).flatMap(({steps}) => steps);
      this._most = 1.1 * Math.max(...solves.flatMap(({residual}) => [...residual].map(Math.abs)));
      this._missed = this._found.suboptimalUpdates().length;
      this._highest = {};
    }
    const found = this._found,
      step = Math.min(values.step, found.steps),
      choices = found.choices(rule, step);
    this._highest[rule] ??= 1.1 * found.largestShare(rule);
    // nothing is to be seen there before the bet
    if (this.race.figure.hidden === reveal) {
      for (const each of [this.removed, this.taken, this.race]) {
        each.figure.hidden = !reveal;
        if (!reveal) each.clear();
      }
      this.resize();
    }
    const now = {found, choices, step, rule, reveal, bet: values.bet_block, betRule: values.bet_rule};
    this._drawResidual(now);
    if (reveal) {
      this._drawRemoved(now);
      this._drawTaken(now);
      this._drawRace(now);
    }
    return {last: found.steps, verdict: reveal ? verdict(now) : "Then reveal."};
  }

  /** A bet on the next block ends with the state that it was placed on; other block sizes keep it. */
  _endBet({step, rule, data, lengthscale, noise, seed, bet_block: bet}) {
    const about = JSON.stringify([step, rule, data, lengthscale, noise, seed]),
      isOld = this._about !== undefined && about !== this._about && bet === this._placed;
    [this._about, this._placed] = [about, isOld ? NO_BLOCK : bet];
    if (isOld) this.state.set({bet_block: NO_BLOCK});
  }

  /** The axis along the points, whose blocks have their numbers, and every other block a shade. */
  _begin(plane, {found: {blocks}, choices, rule, reveal}, axes) {
    const every = Math.ceil(blocks.length / LABELS),
      last = blocks.at(-1).at(-1) + 1;
    const xTicks = blocks.map((_, k) => [this._centre(k), String(k)]).filter((_, k) => k % every === 0);
    plane.begin({x: [0.5, last + 0.5], xTicks, xLabel: "block, of neighbouring points", yLabel: "", margin: MARGIN, ...axes});
    blocks.forEach((_, k) => {
      const next = reveal && k === choices.taken[rule];
      if (next) plane.box(this._ends(k), undefined, {color: colorOf(rule), opacity: 0.14, of: "rule verdict"}, `block ${k}`);
      else if (k % 2) plane.box(this._ends(k), undefined, {color: "var(--grid)", opacity: 0.5, of: "block_size"}, `block ${k}`);
    });
  }

  _ends(block) {
    const rows = this._found.blocks[block];
    return [rows[0] + 0.5, rows.at(-1) + 1.5];
  }

  _centre(block) {
    const [left, right] = this._ends(block);
    return (left + right) / 2;
  }

  _blockAt(px) {
    const at = this.residual.fromX(px);
    return at < 0.5 ? NO_BLOCK : this._found.blocks.filter((rows) => rows[0] + 0.5 <= at).length - 1;
  }

  /** The residual, above a lane with the bet on a block. */
  _drawResidual(now) {
    const plane = this.residual,
      {found, choices, rule, reveal, step, bet, betRule} = now,
      lane = -1.22 * this._most,
      {x} = found.trajectories[rule].span;
    const lit = reveal ? found.blocks[choices.taken[rule]] : [];
    const high = Number((this._most / 1.1).toPrecision(2)),
      yTicks = [...[-high, 0, high].map((each) => [each, number(each)]), [lane, "your bet"]];
    this._begin(plane, now, {y: [-1.44 * this._most, this._most], yTicks, yLabel: "residual"});
    const ends = [0.5, x.length + 0.5];
    plane.line(ends, [0, 0], {color: MUTED, width: 1});
    const places = [...x].flatMap((_, i) => [i + 1, i + 1, i + 1]),
      stems = [...choices.residual].flatMap((each) => [0, each, NaN]);
    plane.line(places, stems, {color: MUTED, width: 1.5, of: "rule lengthscale noise"});
    choices.residual.forEach((each, i) => {
      const look = lit.includes(i) ? {color: colorOf(rule), size: 5, of: "step rule"} : {color: INK, size: 3.5, of: "step"};
      plane.dot(i + 1, each, look, `x = ${number(x[i], 3)}: residual ${number(each)}`);
    });
    if (bet !== NO_BLOCK) plane.dot(this._centre(bet), lane, {color: INK, size: 6, shape: "diamond", of: "bet_block"}, `your bet: block ${bet}`);
    if (RULES.includes(betRule)) {
      // on the side where the other bet is not
      const isLeft = bet !== NO_BLOCK && 2 * this._centre(bet) > plane.x[0] + plane.x[1],
        place = {x: isLeft ? plane.left + 30 : plane.right - 6, y: (plane.sy(lane) + 0.3 * plane.em).toFixed(1)};
      const look = {"text-anchor": isLeft ? "start" : "end", class: "name halo", "data-of": "bet_rule"};
      plane.marks.draw("text", {...place, ...look}, `${betRule} in the end`);
    }
    plane.end();
    plane.caption.textContent = reveal ? "The residual, and the next block" : "The residual: which block is next? Click one";
    plane.note(`after ${updates(step)} of ${rule}: ½‖r‖²<sub>H</sub> = ${number(choices.left, 3)}`);
    const size = found.blocks[0].length,
      set = (to) => this.change("block_size", 0, to);
    const spec = {x: plane.sx(size + 0.5), y: plane.top, label: "the edge of the first block", value: `${size} points a block`, of: "block_size"};
    plane.handle("size", spec, {
      drag: (px, py, first) => !first && set(Math.round(plane.fromX(px) - 0.5)),
      step: (right, up) => set(size + right + up),
    });
    const at = {x: bet === NO_BLOCK ? plane.left + 14 : plane.sx(this._centre(bet)), y: plane.sy(lane)};
    plane.handle("bet", {...at, label: "your bet", value: bet === NO_BLOCK ? "none" : `block ${bet}`, of: "bet_block"}, {
      drag: (px, py, first) => !first && this._bet(this._blockAt(px)),
      step: (right, up) => this._bet(bet + right + up),
    });
  }

  _drawRemoved(now) {
    const plane = this.removed,
      {choices, rule} = now,
      {decreasePerBlock, left, guaranteed, norms, taken, best} = choices;
    const top = 100 * this._highest[rule],
      floor = (100 * guaranteed) / left;
    this._begin(plane, now, {y: [0, top], yLabel: "removes, %"});
    decreasePerBlock.forEach((each, k) => {
      const [from, to] = this._ends(k),
        inset = 0.1 * (to - from);
      const look = k === taken[rule] ? {color: colorOf(rule)} : {color: MUTED, opacity: 0.55};
      const words = `block ${k}: would remove ${number(each)}, ${percent(each / left)} of ½‖r‖²; ‖r_I‖ = ${number(norms[k])}`;
      plane.box([from + inset, to - inset], [0, (100 * each) / left], look, words);
    });
    plane.line(plane.x, [floor, floor], {color: INK, width: 2, dash: "2 5", of: "noise lengthscale"});
    plane.end();
    plane.legend([["guaranteed to gauss-southwell (Theorem 1)", INK, "dots"]]);
    const greedy = taken["gauss-southwell"],
      share = (k) => percent(decreasePerBlock[k] / left);
    const honest =
      greedy === best
        ? `block ${greedy} has the largest ‖r<sub>I</sub>‖ and removes the most, ${share(best)}`
        : `largest ‖r<sub>I</sub>‖: block ${greedy}, which removes ${share(greedy)}; block ${best} removes ${share(best)}`;
    plane.note(honest);
  }

  _drawTaken(now) {
    const plane = this.taken,
      {choices, bet} = now,
      {taken, decreasePerBlock, left} = choices;
    const lanes = [...RULES, "your bet"],
      height = (name) => lanes.length - 1 - lanes.indexOf(name);
    this._begin(plane, now, {y: [-0.6, lanes.length - 0.4], yTicks: lanes.map((name) => [height(name), name])});
    const mark = (name, block, look) => {
      const x = this._centre(block),
        isRight = x > (plane.x[0] + plane.x[1]) / 2;
      plane.dot(x, height(name), {size: 6, ...look}, `${name}: block ${block}`);
      const at = {x: (plane.sx(x) + (isRight ? -14 : 14)).toFixed(1), y: (plane.sy(height(name)) + 0.3 * plane.em).toFixed(1)};
      const words = percent(decreasePerBlock[block] / left);
      plane.marks.draw("text", {...at, "text-anchor": isRight ? "end" : "start", class: "name halo"}, words);
    };
    for (const rule of RULES) mark(rule, taken[rule], {color: colorOf(rule), of: "verdict"});
    if (bet !== NO_BLOCK) mark("your bet", bet, {color: INK, shape: "diamond", of: "bet_block"});
    plane.end();
  }

  _bet(block) {
    this.state.set({bet_block: Math.min(this._found.blocks.length - 1, Math.max(NO_BLOCK, block))});
  }

  _drawRace(now) {
    const plane = this.race,
      {found, step, rule, betRule} = now,
      {errors, steps} = found;
    const lowest = Math.log10(Math.min(...RULES.map((rule) => errors[rule].at(-1))));
    const range = [1.05 * lowest - 0.05, 0.08],
      yTicks = shares(range);
    plane.begin({
      x: [-0.02 * steps, 1.02 * steps],
      y: range,
      log: true,
      whole: true,
      xLabel: "updates",
      yLabel: "‖r‖ in H, relative to the start",
      yTicks,
      margin: 5,
    });
    const count = Array.from({length: steps + 1}, (_, k) => k);
    plane.line([step, step], range.map((each) => 10 ** each), {color: MUTED, width: 1.5, of: "step"});
    for (const each of RULES) {
      const of = [each === rule && "rule", each === betRule && "bet_rule"].filter(Boolean).join(" ");
      plane.line(count, errors[each], {color: colorOf(each), width: each === betRule ? 4.5 : 2.5, of});
    }
    for (const each of RULES) {
      const words = `${each}, ${updates(step)}: ${percent(errors[each][step])} left`;
      plane.dot(step, errors[each][step], {color: colorOf(each), size: 6}, words);
    }
    plane.end();
    plane.legend(RULES.map((rule) => [rule === betRule ? `<b>${rule}, your bet</b>` : rule, colorOf(rule), "line"]));
    const leads = step ? `after ${updates(step)} ${found.ranking(step)[0]} leads` : "before the first update all are equal";
    const missed = `gauss-southwell missed the best block ${this._missed} of ${steps} times`;
    plane.note(`${leads} · ${missed}`);
    const go = (to) => this.state.set({step: Math.min(steps, Math.max(0, Math.round(to)))});
    const spec = {x: plane.sx(step), y: plane.top + 12, label: "the step", value: updates(step), of: "step"};
    plane.handle("step", spec, {
      drag: (px) => go(plane.fromX(px)),
      step: (right, up) => go(step + right + up),
    });
  }
}

/** How the bets ended. */
function verdict({found, choices, bet, betRule}) {
  const {taken, decreasePerBlock, left} = choices,
    greedy = taken["gauss-southwell"];
  const ranking = found.ranking(found.steps);
  const ofBlock = bet === NO_BLOCK || bet === greedy ? "" : `, yours removes ${percent(decreasePerBlock[bet] / left)}`;
  const right = bet === greedy ? "It does" : `It takes ${greedy}`;
  const placed = betRule === NO_BET ? `${ranking[0]} is first` : `your rule is number ${1 + ranking.indexOf(betRule)}`;
  return `${right}${ofBlock}; in the end ${placed}.`;
}

/** Shares in per cent along a log axis: decades, and numbers between where they are few. */
function shares([low, high]) {
  const digits = high - low < 0.9 ? [1, 1.5, 2, 3, 5, 7] : high - low < 1.8 ? [1, 2, 5] : [1],
    found = [];
  for (let k = Math.floor(low); k <= high; k++) {
    if (high - low > 6 && k % 2) continue;
    for (const each of digits) {
      const value = each * 10 ** k;
      if (Math.log10(value) >= low && Math.log10(value) <= high) found.push([value, exactly(value)]);
    }
  }
  return found;
}
