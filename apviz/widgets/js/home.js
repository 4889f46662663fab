/** Where widgets live: in a notebook, where Python has the same state, and on a page, where there is only this. */

import {addressOf, momentOf} from "./address.js";
import {AnglesView} from "./angles.js";
import {Bet, letters} from "./bets.js";
import {CGAgainstProjectionView} from "./cg_against_projection.js";
import {Sentence, controlRow} from "./controls.js";
import {couple} from "./coupling.js";
import {EarlyStoppingView} from "./early_stopping.js";
import {element} from "./elements.js";
import {ForecastView} from "./forecast.js";
import {KappasView} from "./kappas.js";
import {PhotographView} from "./photograph.js";
import {PositiveDefiniteView} from "./positive_definite.js";
import {ProjectionView} from "./projection.js";
import {ProjectionPlayerView} from "./projection_player.js";
import {SamplePathsView} from "./sample_paths.js";
import {State} from "./state.js";
import {WhichBlockView} from "./which_block.js";
import {ZigzagView} from "./zigzag.js";

/** A view draws what its values say: see `View` of view.js. */
const VIEWS = {
  Angles: AnglesView,
  CGAgainstProjection: CGAgainstProjectionView,
  EarlyStopping: EarlyStoppingView,
  Forecast: ForecastView,
  Kappas: KappasView,
  Photograph: PhotographView,
  PositiveDefinite: PositiveDefiniteView,
  Projection: ProjectionView,
  ProjectionPlayer: ProjectionPlayerView,
  SamplePaths: SamplePathsView,
  WhichBlock: WhichBlockView,
  Zigzag: ZigzagView,
};

/**
 * What Python says of a widget, the same in both homes.
 * @typedef {object} Face
 * @property {string} name of `VIEWS`
 * @property {string} title
 * @property {string} text HTML
 * @property {string} sentence of `Sentence`
 * @property {Record<string, import("./controls.js").Control>} controls
 * @property {string[]} inSight names of the controls that are not under "more"
 * @property {Record<string, Record<string, unknown>>} presets the first sets everything
 * @property {string} [hiddenUntil] the value that must be true before presets, which are letters till then, get their names
 * @property {string} [opening] name of steps that play once, from 0, when they are first seen
 * @property {Record<string, unknown>} given numbers that only Python draws
 * @property {import("./bets.js").Betting} [betting] a bet before the result; `bet` is one of the values
 */

/**
 * Makes a widget in a place.
 * @param {HTMLElement} place
 * @param {Face} face
 * @param {Record<string, unknown>} values
 * @param {{theme?: string, lecture?: boolean}} look
 * @param {boolean} isOpening whether steps may play by themselves
 */
export function mount(place, face, values, {theme = "auto", lecture = false} = {}, isOpening = false) {
  const state = new State(values),
    kind = VIEWS[face.name];
  const limitOf = (name, now) => kind.limit?.(name, now, face) ?? Infinity;
  const heading = element("header", {}, element("h3", {}, face.title), element("p", {class: "text"}));
  heading.lastChild.innerHTML = face.text;
  const rows = Object.entries(face.controls).map(([name, control]) => [
    name,
    controlRow(name, control, state, limitOf),
  ]);
  const presets = presetRow(face, state, () => {
    for (const [, {stop}] of rows) stop?.();
    view.reset?.();
    state.tell();
  });
  const inSight = rows.filter(([name]) => face.inSight.includes(name)).map(([, {row}]) => row);
  const others = rows.filter(([name]) => !face.inSight.includes(name)).map(([, {row}]) => row);
  inSight[0].classList.add("first");
  const more = element("details", {class: "more"}, element("summary", {}, "more"), ...others);
  const bet = face.betting && new Bet(face, state);
  const controls = element("div", {class: "controls"}, presets.row, ...(bet ? [bet.row] : []), ...inSight, more);
  const said = element("p", {class: "sentence", "aria-live": "off"}),
    charts = element("div", {class: "charts"});
  const body = element(
    "div",
    {class: "apviz-live", "data-theme": theme},
    heading,
    said,
    element("div", {class: "body"}, controls, charts),
  );
  // keys that are pressed in here are no shortcuts of a notebook, but for saving and running it
  body.addEventListener("keydown", (event) => {
    const command = event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key === "Enter");
    if (!command) event.stopPropagation();
  });
  body.classList.toggle("lecture", lecture);
  couple(body);
  place.replaceChildren(body);
  const view = new kind(charts, state, face),
    sentence = new Sentence(said, face.sentence, face.controls, state, limitOf);
  const draw = () => {
    const now = state.values;
    for (const [name] of rows) {
      const limit = limitOf(name, now);
      if (typeof now[name] === "number" && now[name] > limit) state.set({[name]: limit});
    }
    for (const [name, {row, show, stop}] of rows) {
      show(now);
      // steps show nothing before the bet
      if (!bet || face.controls[name].kind !== "steps") continue;
      row.hidden = now.bet === "";
      if (row.hidden) stop();
    }
    presets.show(now);
    const figures = view.draw(now);
    sentence.show(now, figures);
    bet?.show(now, figures);
  };
  state.onChange(draw);
  const fit = () => {
    if (!view.resize()) return;
    sentence.reserve(kind.longest);
    draw();
  };
  const watch = new ResizeObserver(fit);
  watch.observe(charts);
  // a ResizeObserver does not see a page that is printed
  addEventListener("beforeprint", fit);
  if (isOpening && face.opening) playOnce(body, face.opening, Object.fromEntries(rows)[face.opening], state);
  view.resize();
  sentence.reserve(kind.longest);
  draw();
  const end = () => {
    watch.disconnect();
    removeEventListener("beforeprint", fit);
  };
  return {state, body, end};
}

/** Steps begin at 0, and play to where they were once they are seen; a hand or a printer ends that. */
function playOnce(body, name, {open}, state) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const until = state.values[name];
  let stop = () => state.set({[name]: until});
  state.set({[name]: 0});
  const seen = new IntersectionObserver(
    ([{isIntersecting}]) => {
      if (!isIntersecting) return;
      seen.disconnect();
      stop = open(until);
    },
    {threshold: 0.5},
  );
  seen.observe(body.querySelector("figure"));
  const finish = ({target}) => {
    seen.disconnect();
    // the buttons of the player stop it themselves
    if (!target.closest?.(".player")) stop();
    for (const each of ["pointerdown", "keydown"]) body.removeEventListener(each, finish);
    removeEventListener("beforeprint", finish);
  };
  for (const each of ["pointerdown", "keydown"]) body.addEventListener(each, finish);
  addEventListener("beforeprint", finish);
}

function presetRow({presets, controls, betting, hiddenUntil}, state, onReset) {
  const [first] = Object.keys(presets);
  const own = element("option", {value: "", hidden: true}, "your own");
  const options = Object.keys(presets).map((name) => element("option", {value: name}, name));
  const isOpen = (values) => (betting ? values.bet === "" : !values[hiddenUntil]);
  const hidden = betting || hiddenUntil ? letters(options, isOpen, betting ? {bet: "shown"} : {}) : undefined;
  // a bet, and what it is placed and looked at with, leave a preset what it is
  const isBeside = (key) => key.startsWith("bet") || (hiddenUntil && ["steps", "switch"].includes(controls[key]?.kind));
  const select = element("select", {"aria-label": "preset"}, own, ...options);
  const reset = element("button", {type: "button", class: "reset"}, "reset");
  const choose = (name) => state.set({...presets[first], ...presets[name], ...hidden?.known(name)});
  select.addEventListener("change", () => choose(select.value));
  reset.addEventListener("click", () => {
    hidden?.forget();
    choose(first);
    onReset();
  });
  const is = (name, values) => {
    return Object.entries({...presets[first], ...presets[name]}).every(([key, each]) => {
      return isBeside(key) || each === values[key] || JSON.stringify(each) === JSON.stringify(values[key]);
    });
  };
  const label = element("label", {}, element("span", {class: "name"}, "preset"), select, reset);
  const show = (values) => {
    select.value = Object.keys(presets).find((name) => is(name, values)) ?? "";
    hidden?.show(select.value, values);
  };
  return {row: element("div", {class: "control", "data-control": "preset"}, label), show};
}

/** anywidget's: the state of the model and of what is seen are one. */
export function render({model, el}) {
  const face = model.get("face"),
    names = Object.keys(face.presets[Object.keys(face.presets)[0]]);
  const values = Object.fromEntries(names.map((name) => [name, model.get(name)]));
  const {state, body, end} = mount(el, face, values, {theme: model.get("theme"), lecture: model.get("lecture")});
  el.classList.add("apviz-widget");
  state.onChange((now, changed) => {
    for (const name of changed) model.set(name, now[name]);
    model.save_changes();
  });
  const hear = () => state.set(Object.fromEntries(names.map((name) => [name, model.get(name)])));
  const look = () => {
    body.dataset.theme = model.get("theme");
    body.classList.toggle("lecture", model.get("lecture"));
  };
  for (const name of names) model.on(`change:${name}`, hear);
  for (const name of ["theme", "lecture"]) model.on(`change:${name}`, look);
  return () => {
    end();
    for (const name of names) model.off(`change:${name}`, hear);
    for (const name of ["theme", "lecture"]) model.off(`change:${name}`, look);
  };
}

/** Every widget of a page that is not alive yet, once it is near, or the page is printed. */
export function mountAll(page) {
  const enliven = (target) => {
    if (target.dataset.alive !== undefined) return;
    target.dataset.alive = "";
    near.unobserve(target);
    const {face, values, look} = JSON.parse(target.querySelector("script").textContent);
    // the address of a notebook is not its widgets'
    if (target.closest(".apviz-static")) mount(target, face, values, look, true);
    else {
      const asked = momentOf(location.hash, face),
        moment = asked ?? {values, look: {}};
      const {state} = mount(target, face, moment.values, {...look, ...moment.look}, !asked);
      state.onChange((now) => keep(() => addressOf(now, face)));
    }
  };
  const near = new IntersectionObserver(
    (entries) => {
      for (const {isIntersecting, target} of entries) if (isIntersecting) enliven(target);
    },
    {rootMargin: "400px"},
  );
  const places = [...page.querySelectorAll(".apviz-place")];
  for (const each of places) near.observe(each);
  addEventListener("beforeprint", () => places.forEach(enliven));
  const named = (each) => JSON.parse(each.querySelector("script").textContent).face.name;
  if (location.hash) places.find((each) => location.hash.startsWith(`#${named(each)}&`))?.scrollIntoView();
}

let later = 0;

/** Browsers refuse many changes of the address a second. */
function keep(address) {
  clearTimeout(later);
  later = setTimeout(() => history.replaceState(null, "", address()), 300);
}
