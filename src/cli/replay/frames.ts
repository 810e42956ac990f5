import type { Capture } from '../capture/capture.js';
import { HEADER_BYTES, writeReceivedHeader } from './net-header.js';

const ALIGN = 16;

/**
 * All frames of the captures behind one another, each with the header that a received packet must have:
 * what every buffer is compared with. In shared memory, so that both engines' workers read the same bytes.
 */
export interface Frames {
  bytes: SharedArrayBuffer;
  /** Per packet: offset of its header in `bytes`, and bytes of header and frame. */
  offsets: Uint32Array;
  lengths: Uint32Array;
  /** Bytes of the frames alone. */
  frameBytes: number;
  /** Bytes of the longest packet, header included. */
  longest: number;
}

export function collectFrames(captures: readonly Capture[]): Frames {
  const frames = captures.flatMap((capture) => capture.frames);
  const offsets = new Uint32Array(frames.length);
  const lengths = new Uint32Array(frames.length);
  let end = 0;
  let frameBytes = 0;
  let longest = HEADER_BYTES;
  frames.forEach((frame, i) => {
    offsets[i] = end;
    lengths[i] = HEADER_BYTES + frame.length;
    longest = Math.max(longest, lengths[i]);
    frameBytes += frame.length;
    end = Math.ceil((end + lengths[i]) / ALIGN) * ALIGN;
  });
  const bytes = new SharedArrayBuffer(end);
  const u8 = new Uint8Array(bytes);
  frames.forEach((frame, i) => {
    writeReceivedHeader(u8, offsets[i]);
    u8.set(frame, offsets[i] + HEADER_BYTES);
  });
  return { bytes, offsets, lengths, frameBytes, longest };
}
