import type { RingFormat } from '../../src/index.js';

/** What is varied from case to case. */
export interface CycleParams {
  /** Descriptors of the ring. */
  size: number;
  burst: number;
  /** Per buffer, all but the first half of them device-writable: 1 → in, 2 → out in, 4 → out out in in. */
  segments: number;
  eventIdx: boolean;
}

/** What a contender is told. */
export interface CycleOptions extends CycleParams {
  ring: RingFormat;
  /** IN_ORDER is negotiated; the device uses the buffers in order in any case. */
  inOrder?: boolean;
}

export const SEGMENT_BYTES = 64;
export const outSegments = (segments: number): number => segments >>> 1;
/** Bytes that the device says it wrote to each buffer. */
export const writtenBytes = (segments: number): number => (segments - outSegments(segments)) * SEGMENT_BYTES;
