/** Numbers that a page carries as text: base64 of bytes, or of float32 in little-endian order. */

/** @returns {Uint8Array} */
export const bytesOf = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));

/** @returns {Float64Array} */
export function numbersOf(text) {
  const {buffer} = bytesOf(text),
    view = new DataView(buffer);
  return Float64Array.from({length: buffer.byteLength / 4}, (_, i) => view.getFloat32(4 * i, true));
}
