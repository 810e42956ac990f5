import type { IndirectOptions, RingFormat, TableStrategy } from '../../src/index.js';

/** What is varied from case to case. */
export interface TableParams {
  /** Descriptors of the ring. */
  size: number;
  /** Buffers that the driver adds at once, as far as they fit. */
  burst: number;
  /** Segments of each buffer, or of 1, 2, 4 and 17 in turn. */
  segments: number | 'mixed';
  /** `send`: every segment is readable. `receive`: every segment is writable. */
  species: 'send' | 'receive';
  /** Who answers: `device`, a device queue of the same engine; `echo`, bare loads and stores, so that the driver alone is measured. */
  peer: 'device' | 'echo';
}

/** What a contender is told. */
export interface TableTaskOptions extends TableParams {
  ring: RingFormat;
  engine: 'wasm' | 'typescript';
  strategy: TableStrategy;
  /** Descriptors of a table of the cache. */
  table: number;
  policy: NonNullable<IndirectOptions['policy']>;
}

export const SEGMENT_BYTES = 64;
/** Of a static policy: what the proposal's author found best. */
export const THRESHOLD = 16;

const MIX = [1, 2, 4, 17];

/** Segments of the i-th buffer of a burst. */
export const segmentsOf = (segments: number | 'mixed', i: number): number =>
  segments === 'mixed' ? MIX[i % MIX.length] : segments;

export const mostSegments = (segments: number | 'mixed'): number => (segments === 'mixed' ? 17 : segments);
