/** A bet before the result: until one has bet, presets are letters, and what would tell is not drawn. */

import {element} from "./elements.js";

/**
 * @typedef {object} Betting
 * @property {string} question HTML
 * @property {[string, string][]} options titles and values of the answers
 */

/** The row with the question, the answers, and after the bet what came of it: `answer` and `result` of a view's figures. */
export class Bet {
  constructor({betting}, state) {
    const question = element("p", {class: "question"});
    question.innerHTML = betting.question;
    this._buttons = [...betting.options, ["just show it", "shown"]].map(([title, value]) => {
      const made = element("button", {type: "button", value}, title);
      made.addEventListener("click", () => state.set({bet: value}));
      return made;
    });
    this._titles = Object.fromEntries(betting.options.map(([title, value]) => [value, title]));
    this._result = element("p", {class: "result", role: "status"});
    this.row = element(
      "div",
      {class: "bet"},
      question,
      element("div", {class: "answers", role: "group", "aria-label": "your bet"}, ...this._buttons),
      this._result,
    );
  }

  show(values, {answer, result}) {
    const {bet} = values,
      isOpen = bet === "";
    for (const each of this._buttons) {
      each.setAttribute("aria-pressed", String(each.value === bet));
      each.disabled = !isOpen;
    }
    // the verdict is on what was bet on, and on nothing that is moved afterwards
    const about = JSON.stringify({...values, bet: ""});
    if (isOpen || bet !== this._bet) this._about = about;
    this._bet = bet;
    const isMeant = bet !== "shown" && answer !== null && about === this._about;
    const verdict = isMeant ? `<b>${bet === answer ? "You were right" : "You were wrong"}:</b> ` : "";
    const said = verdict ? result : result?.replace(/^\p{Ll}/u, (letter) => letter.toUpperCase());
    const words = isOpen || !result ? "" : `${verdict}${said}`;
    if (words !== this._words) this._result.innerHTML = this._words = words;
  }
}

/**
 * Lets presets be letters until they have been bet on.
 * @param {HTMLOptionElement[]} options
 * @param {(values: object) => boolean} isOpen whether the bet on what is shown is still open
 * @param {object} shown values with which a preset that has been seen before is not bet on again
 */
export function letters(options, isOpen, shown) {
  const revealed = new Set();
  const write = () => {
    options.forEach((each, k) => {
      const words = revealed.has(each.value) ? each.value : String.fromCharCode(65 + k);
      if (each.textContent !== words) each.textContent = words;
    });
  };
  write();
  return {
    /** What a preset is chosen with that has been seen before. */
    known: (name) => (revealed.has(name) ? shown : {}),
    forget() {
      revealed.clear();
      write();
    },
    show(name, values) {
      if (!isOpen(values) && name) revealed.add(name);
      write();
    },
  };
}
