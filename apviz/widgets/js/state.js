/** What a widget shows, as plain values by name; whoever changes them, all who listen hear of it once a frame. */
export class State {
  /** @param {Record<string, unknown>} values */
  constructor(values) {
    this.values = {...values};
    this._listeners = [];
    this._changed = new Set();
    this._asked = 0;
  }

  /** Takes new values for some names; what is as it was is no change. */
  set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (JSON.stringify(value) === JSON.stringify(this.values[name])) continue;
      this.values[name] = value;
      this._changed.add(name);
    }
    if (this._changed.size) this._asked ||= requestAnimationFrame(() => this.tell());
  }

  /** @param {(values: Record<string, unknown>, changed: Set<string>) => void} listener */
  onChange(listener) {
    this._listeners.push(listener);
  }

  /** Tells of what has changed since the last frame. */
  tell() {
    cancelAnimationFrame(this._asked);
    const changed = this._changed;
    this._asked = 0;
    this._changed = new Set();
    for (const listener of this._listeners) listener(this.values, changed);
  }
}
