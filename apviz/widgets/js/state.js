/** What a widget shows, as plain values by name; after a change all listeners are called once a frame. */
export class State {
  /** @param {Record<string, unknown>} values */
  constructor(values) {
    this.values = {...values};
    this._listeners = [];
    this._changed = new Set();
    this._isAsked = this._hasTold = false;
  }

  /** Takes new values for some names; what is as it was is no change. */
  set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (JSON.stringify(value) === JSON.stringify(this.values[name])) continue;
      this.values[name] = value;
      this._changed.add(name);
    }
    if (!this._changed.size || this._isAsked) return;
    this._isAsked = true;
    // a key is pressed while the page waits for its next frame: what follows from it is computed in that time
    if (!this._hasTold) queueMicrotask(() => this.tell());
  }

  /** @param {(values: Record<string, unknown>, changed: Set<string>) => void} listener */
  onChange(listener) {
    this._listeners.push(listener);
  }

  /** Report changes to listeners; changes later in this frame are reported in the next. */
  tell() {
    const changed = this._changed;
    this._changed = new Set();
    this._isAsked = false;
    if (!this._hasTold) {
      this._hasTold = true;
      requestAnimationFrame(() => {
        this._hasTold = false;
        if (this._isAsked) this.tell();
      });
    }
    for (const listener of this._listeners) listener(this.values, changed);
  }
}
