/** Controls of a widget: sliders, choices, steps that play, and numbers in a sentence that can be dragged. */

import {draggable, element} from "./elements.js";
import {number} from "./plane.js";

/**
 * What a control changes, as Python describes it.
 * @typedef {object} Control
 * @property {"range" | "places" | "choice" | "steps" | "switch"} kind
 * @property {string} label
 * @property {string} explanation HTML
 * @property {number} [min]
 * @property {number} [max]
 * @property {number} [step]
 * @property {number[]} [places] of a slider over given numbers
 * @property {Record<string, string>} [names] of values that are read as words
 * @property {[string, string][]} [options] titles and values
 * @property {number} [interval] of steps that play, in milliseconds; 1000 where nothing is said, or less motion asked for
 */

/** A value as a control reads. */
export const reading = ({names}, value) => names?.[value] ?? (Number.isInteger(value) ? String(value) : number(value, 4, 1e-4, 0));

/**
 * Values that a slider has: a number of steps, or the given places.
 * @param {Control} control
 */
export function placesOf({min, max, step, places}) {
  if (places) return places;
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  return Array.from({length: Math.floor((max - min) / step + 1e-9) + 1}, (_, k) =>
    Number((min + k * step).toFixed(digits)),
  );
}

/** The number of the place nearest to a value: by ratio where places are given, for those are round numbers of decades. */
export function nearestPlace(control, value) {
  const places = placesOf(control),
    measure = control.places ? Math.log : Number;
  let best = 0;
  places.forEach((each, k) => {
    if (Math.abs(measure(each) - measure(value)) < Math.abs(measure(places[best]) - measure(value))) best = k;
  });
  return best;
}

/** The value some places from another, kept within a control's ends, and below a limit. */
export function moved(control, value, places, limit = Infinity) {
  const all = placesOf(control).filter((each) => each <= limit);
  return all[Math.min(all.length - 1, Math.max(0, nearestPlace(control, value) + places))];
}

/**
 * A row with a control; `show` takes the values of a frame, `open` plays steps until a value, and `stop` ends it.
 * @param {string} name
 * @param {Control} control
 * @param {import("./state.js").State} state
 * @param {(name: string, values: object) => number} limitOf the largest value that a control may have now
 */
export function controlRow(name, control, state, limitOf) {
  const make = {range: slider, places: slider, choice, steps, switch: toggle}[control.kind];
  const {input, show, extras = [], open, stop} = make(name, control, state, limitOf);
  const label = element("label", {}, element("span", {class: "name"}), ...extras, input);
  label.firstChild.innerHTML = control.label;
  const explanation = element("p", {class: "explanation"});
  explanation.innerHTML = control.explanation;
  return {row: element("div", {class: "control", "data-control": name}, label, explanation), show, open, stop};
}

function slider(name, control, state, limitOf) {
  const places = placesOf(control),
    readout = element("output");
  const input = element("input", {type: "range", min: 0, max: places.length - 1, step: 1});
  input.addEventListener("input", () => state.set({[name]: places[Number(input.value)]}));
  let shown = [];
  const show = (values) => {
    const limit = limitOf(name, values);
    // a page lays a slider out again whenever its value is set
    if (shown[0] === values[name] && shown[1] === limit) return;
    shown = [values[name], limit];
    const allowed = places.filter((each) => each <= limit).length;
    input.max = String(Math.max(allowed - 1, 0));
    input.value = String(nearestPlace(control, values[name]));
    readout.textContent = reading(control, values[name]);
    input.setAttribute("aria-valuetext", readout.textContent);
  };
  return {input: element("span", {class: "slider"}, input, readout), show};
}

function choice(name, control, state) {
  const input = element("select", {}, ...control.options.map(([title, value]) => element("option", {value}, title)));
  input.addEventListener("change", () => state.set({[name]: input.value}));
  return {input, show: (values) => (input.value = values[name])};
}

/** A button that is pressed or not. */
function toggle(name, control, state) {
  const input = element("button", {type: "button", class: "switch"});
  input.innerHTML = control.label;
  input.addEventListener("click", () => state.set({[name]: !state.values[name]}));
  return {input, show: (values) => input.setAttribute("aria-pressed", String(values[name]))};
}

/** A slider over steps with buttons: to the start, one back, one on, and play, at `speed` where a widget has one. */
function steps(name, control, state, limitOf) {
  const {input, show} = slider(name, control, state, limitOf);
  const go = (by) => {
    const now = state.values[name] + by,
      last = limitOf(name, state.values);
    state.set({[name]: Math.min(Math.min(control.max, last), Math.max(0, now))});
  };
  let playing = 0,
    end = Infinity;
  const stop = () => {
    clearTimeout(playing);
    playing = 0;
    play.textContent = "▶";
    play.setAttribute("aria-label", "play");
  };
  const button = (text, words, act) => {
    const made = element("button", {type: "button", "aria-label": words, title: words}, text);
    made.addEventListener("click", act);
    return made;
  };
  const play = button("▶", "play", () => {
    if (playing) return stop();
    end = Infinity;
    if (ended()) state.set({[name]: 0});
    start();
  });
  const ended = () => state.values[name] >= Math.min(end, control.max, limitOf(name, state.values));
  const start = () => {
    play.textContent = "❚❚";
    play.setAttribute("aria-label", "pause");
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const every = () => (still ? 1000 : (control.interval ?? 1000 / (state.values.speed ?? 1)));
    const tick = () => {
      if (ended() || !play.isConnected) return stop();
      // a step that is still being computed is waited for
      if (!play.closest("[data-busy]")) go(1);
      playing = wait();
    };
    const wait = () => setTimeout(tick, every());
    playing = wait();
  };
  // plays once to a value; who takes a hand in it ends that
  const open = (until) => {
    end = until;
    start();
    return stop;
  };
  const back = button("‹", "a step back", () => go(-1)),
    on = button("›", "a step on", () => go(1));
  return {input, show, open, stop, extras: [element("span", {class: "player"}, back, play, on)]};
}

/** the longest text of a figure that is a number */
const LONGEST = "1.23·10⁻¹⁵";

/** The text of a control that takes the most room. */
const longest = (control) => placesOf(control).map((each) => reading(control, each)).reduce((a, b) => (b.length > a.length ? b : a));

/**
 * A sentence in which `{name}` is a number that can be dragged, or a choice, and `[word]` a figure that follows;
 * `{name:word}` is a number of things, with the word in the singular for 1.
 * @param {Element} place
 * @param {string} template HTML
 * @param {Record<string, Control>} controls
 */
export class Sentence {
  constructor(place, template, controls, state, limitOf) {
    Object.assign(this, {_place: place, _numbers: {}, _figures: {}, _choices: {}, _counted: {}, _shown: {}, _controls: controls});
    const part = (whole, name, word) => {
      const tag = controls[name].kind === "choice" ? "select" : 'span tabindex="0" role="slider"';
      const counted = word ? ` <span data-counted="${name}">${word}</span>` : "";
      return `<${tag} class="number" data-number="${name}"></${tag.split(" ")[0]}>${counted}`;
    };
    place.innerHTML = template
      .replace(/\{(\w+)(?::(\w+))?\}/g, part)
      .replace(/\[(\w+)\]/g, '<output data-figure="$1"></output>');
    for (const each of place.querySelectorAll("[data-figure]")) this._figures[each.dataset.figure] = each;
    for (const each of place.querySelectorAll("[data-counted]")) {
      const word = each.textContent;
      this._counted[each.dataset.counted] = (value) => (each.textContent = value === 1 ? word : `${word}s`);
    }
    for (const each of place.querySelectorAll("[data-number]")) {
      const name = each.dataset.number,
        control = controls[name];
      each.setAttribute("aria-label", control.label.replace(/<[^>]*>/g, ""));
      if (control.kind === "choice") {
        this._choices[name] = each;
        each.append(...control.options.map(([title, value]) => element("option", {value}, title)));
        each.addEventListener("change", () => state.set({[name]: each.value}));
        continue;
      }
      this._numbers[name] = each;
      each.title = "drag, or use arrow keys";
      const by = (from, places) => state.set({[name]: moved(control, from, places, limitOf(name, state.values))});
      let start = 0,
        from = 0;
      draggable(
        each,
        (event, first) => {
          if (first) [start, from] = [event.clientX, state.values[name]];
          else by(from, Math.round((event.clientX - start) / 7));
        },
        (right, up) => by(state.values[name], right + up),
      );
    }
  }

  /** Keep room for the longest text, so that nothing below moves; `show` must follow. `words`: the longest of a figure. */
  reserve(words = {}) {
    const {style} = this._place;
    style.minHeight = "";
    for (const [name, each] of Object.entries(this._numbers)) each.textContent = longest(this._controls[name]);
    for (const set of Object.values(this._counted)) set(0);
    for (const [name, each] of Object.entries(this._figures)) each.innerHTML = words[name] ?? LONGEST;
    style.minHeight = `${this._place.getBoundingClientRect().height}px`;
    this._shown = {};
  }

  show(values, figures) {
    for (const [name, each] of Object.entries(this._numbers)) {
      if (this._shown[name] === values[name]) continue;
      this._shown[name] = values[name];
      each.textContent = reading(this._controls[name], values[name]);
      this._counted[name]?.(values[name]);
      each.setAttribute("aria-valuetext", each.textContent);
      each.setAttribute("aria-valuenow", values[name]);
    }
    for (const [name, each] of Object.entries(this._choices)) each.value = values[name];
    for (const [name, each] of Object.entries(this._figures)) {
      if (this._shown[`[${name}]`] !== figures[name]) each.innerHTML = this._shown[`[${name}]`] = figures[name];
    }
  }
}
