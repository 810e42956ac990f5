import type { RingFormat, TranslationStrategy } from '../../src/index.js';

/** What the device does, over and over. */
export type Operation =
  /** The real driver adds a burst, the device pops and pushes it, the driver gets it back: packets per second. */
  | 'cycle'
  /** The device alone: popBurst and pushBurst. What makes buffers available again does the least that it can. */
  | 'burst'
  /** The device alone: pop and push, one call each per buffer. */
  | 'single'
  /** availableBytes, with one buffer in line. */
  | 'available';

/** What is varied from case to case. */
export interface TranslationParams {
  operation: Operation;
  segments: number;
  /** The segments stand in a table. */
  indirect: boolean;
  /** Of guest memory that buffers lie in. With more than one, each segment lies in another than the one before. */
  regions: number;
  size: number;
  burst: number;
  /** Of each segment. */
  bytes: number;
}

/** What a contender is told. */
export interface TranslationOptions extends TranslationParams {
  ring: RingFormat;
  engine: 'wasm' | 'typescript';
  translation: TranslationStrategy;
}

export const SEGMENT_BYTES = 64;
/** Half of the segments are readable, rounded down; so one alone is writable. */
export const outSegments = (segments: number): number => segments >>> 1;
export const writtenBytes = (segments: number): number => (segments - outSegments(segments)) * SEGMENT_BYTES;
