/** What takes long is computed in slices between frames: a key is heard at once, and a frame waits for one slice at most. */

/** milliseconds of a slice */
const SLICE = 4;

export class Slices {
  /**
   * @param {Element} place whose parent says that something is missing, by `data-busy`
   * @param {{isOpen: () => boolean, next: () => void, known: () => string, tell: () => void}} on whether something is
   *     missing, its next portion, what can be drawn, as a text, and what has it drawn
   */
  constructor(place, on) {
    Object.assign(this, {place, on});
    const {port1, port2} = new MessageChannel();
    this._turn = port2;
    port1.onmessage = () => this._goOn();
  }

  /** A view calls it as it draws, once it knows what is wanted: quick results are ready at once. */
  start() {
    cancelAnimationFrame(this._frame);
    this._frame = 0;
    // a frame that was asked for by what is known is for drawing alone
    if (!this._isTelling) this._compute();
    this._drawn = this.on.known();
    this._plan();
  }

  _compute() {
    const until = performance.now() + SLICE;
    while (this.on.isOpen() && performance.now() < until) this.on.next();
  }

  _goOn() {
    this._isAsked = false;
    if (!this.place.isConnected) return;
    this._compute();
    if (!this.on.isOpen() || this.on.known() !== this._drawn) {
      this._frame ||= requestAnimationFrame(() => {
        this._isTelling = true;
        this.on.tell();
        this._isTelling = false;
      });
    }
    this._plan();
  }

  _plan() {
    const isOpen = this.on.isOpen();
    this.place.parentElement.toggleAttribute("data-busy", isOpen || Boolean(this._frame));
    if (!isOpen || this._isAsked) return;
    this._isAsked = true;
    this._turn.postMessage(0);
  }
}
