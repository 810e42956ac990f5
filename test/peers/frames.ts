// Frames that tell whether they arrived whole, in order and once.

/** Destination, source, an ethertype for experiments. */
const ETHERNET = new Uint8Array([0x52, 0x54, 0, 0, 0, 1, 0x52, 0x54, 0, 0, 0, 2, 0x88, 0xb5]);
const SEQUENCE = ETHERNET.length;
const BODY = SEQUENCE + 4;
const MIN = 60;

const mix = (n: number): number => Math.imul(n ^ (n >>> 15), 0x2c1b3c6d) >>> 0;

/** Length of frame `n`: 60 … `max`, all over the place. */
export const frameLength = (n: number, max: number): number => MIN + (mix(n + 1) % (max - MIN + 1));

const patterns: Uint8Array[] = [];

/** The bytes behind the sequence number: one of 251 patterns. */
function body(n: number, max: number): Uint8Array {
  const which = n % 251;
  let pattern = patterns[which];
  if (pattern === undefined || pattern.length < max) {
    pattern = new Uint8Array(max);
    for (let i = 0; i < max; i++) pattern[i] = mix(which * 65536 + i);
    patterns[which] = pattern;
  }
  return pattern;
}

/** Writes frame `n`. @returns its length */
export function writeFrame(u8: Uint8Array, at: number, n: number, max: number): number {
  const length = frameLength(n, max);
  u8.set(ETHERNET, at);
  for (let i = 0; i < 4; i++) u8[at + SEQUENCE + i] = n >>> (8 * i);
  u8.set(body(n, max).subarray(0, length - BODY), at + BODY);
  return length;
}

/** Throws unless frame `n` is there. */
export function checkFrame(frame: Uint8Array, n: number, max: number): void {
  const length = frameLength(n, max);
  const view = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
  if (frame.length !== length || view.readUInt32LE(SEQUENCE) !== n >>> 0)
    throw new Error(
      `frame ${n} of ${length} bytes was due, frame ${view.readUInt32LE(SEQUENCE)} of ${frame.length} came`,
    );
  if (
    view.compare(ETHERNET, 0, SEQUENCE, 0, SEQUENCE) !== 0 ||
    view.compare(body(n, max), 0, length - BODY, BODY) !== 0
  )
    throw new Error(`frame ${n} has other bytes than it had`);
}
