/** One case of the suite. */
export interface CycleOptions {
  /** Descriptors of the ring. */
  size: number;
  burst: number;
  /** Per buffer, all but the first half of them device-writable: 1 → in, 2 → out in, 4 → out out in in. */
  segments: number;
  eventIdx: boolean;
}

export const SEGMENT_BYTES = 64;
export const outSegments = (segments: number): number => segments >>> 1;
/** Bytes that the device says it wrote to each buffer. */
export const writtenBytes = (segments: number): number => (segments - outSegments(segments)) * SEGMENT_BYTES;
