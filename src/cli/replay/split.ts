import { HEADER_BYTES } from './net-header.js';

/**
 * Lengths of the segments of a packet of `length` bytes, header included: one, or the header and the rest
 * in up to `segments - 1` parts of equal size. A part is never empty.
 */
export function splitPacket(length: number, segments: number): number[] {
  const payload = length - HEADER_BYTES;
  const parts = Math.min(segments - 1, payload);
  if (parts < 1) return [length];
  const lengths = [HEADER_BYTES];
  for (let i = 0; i < parts; i++)
    lengths.push(Math.floor((payload * (i + 1)) / parts) - Math.floor((payload * i) / parts));
  return lengths;
}
