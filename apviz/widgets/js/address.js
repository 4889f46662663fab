/**
 * A moment of a widget in the address of its page, so that a lecturer links to it:
 * `#Angles&preset=the+worst+data&distance=0.4&lecture=true`.
 */

/**
 * Values and look that an address names; what a control cannot have is left out.
 * @param {string} hash
 * @param {import("./home.js").Face} face
 * @returns {{values: object, look: object} | undefined} where it names this widget
 */
export function momentOf(hash, face) {
  const [name, ...pairs] = hash.slice(1).split("&");
  if (name !== face.name) return undefined;
  const asked = new URLSearchParams(pairs.join("&")),
    [first] = Object.keys(face.presets),
    look = {};
  const values = {...face.presets[first], ...face.presets[asked.get("preset")]};
  for (const [key, text] of asked) {
    if (key === "lecture") look.lecture = text === "true";
    if (key === "theme" && ["auto", "light", "dark"].includes(text)) look.theme = text;
    if (!(key in values)) continue;
    const value = typed(values[key], text);
    if (isAllowed(face, key, value, values[key])) values[key] = value;
  }
  return {values, look};
}

/** The address of a moment: what differs from the first preset. */
export function addressOf(values, {name, presets}) {
  const [first] = Object.keys(presets),
    kept = new URLSearchParams({preset: first});
  for (const [key, value] of Object.entries(values)) {
    if (String(value) !== String(presets[first][key])) kept.set(key, Array.isArray(value) ? value.join(" ") : value);
  }
  return `#${name}&${kept}`;
}

function typed(like, text) {
  if (Array.isArray(like)) return text.split(" ").map(Number);
  if (typeof like === "boolean") return text === "true";
  return typeof like === "number" ? Number(text) : text;
}

function isAllowed({controls, given, betting}, key, value, like) {
  if (key === "bet") return ["", "shown", ...betting.options.map(([, each]) => each)].includes(value);
  const control = controls[key];
  if (control?.kind === "switch") return true;
  if (control?.kind === "choice") return control.options.some(([, each]) => each === value);
  const ends = control ? (control.places ?? [control.min, control.max]) : given.limits[key];
  const inside = (each) => each >= ends[0] && each <= ends.at(-1);
  return Array.isArray(value) ? value.length === like.length && value.every(inside) : inside(value);
}
