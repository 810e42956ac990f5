import * as L from '../assembly/abi/layout.js';
import type { Ring } from './engine/engine.js';
import type { ErrorCode } from './errors.js';

/** Counts of one queue since it was created, as one side saw them. A reset does not clear them. */
export interface QueueStats {
  /** Buffers made available (driver) or popped (device; one that was put back counts again). */
  added: number;
  /** Buffers got back (driver) or pushed (device). */
  completed: number;
  /** Device-readable bytes of the added buffers. */
  bytesOut: number;
  /** Bytes that the device reported as written. */
  bytesIn: number;
  /** Available-buffer notifications found necessary, and found suppressed (driver). */
  kicksSent: number;
  kicksSuppressed: number;
  /** Used-buffer notifications found necessary, and found suppressed (device). */
  interruptsSent: number;
  interruptsSuppressed: number;
  /** Adds and bursts that ended for want of free descriptors (driver). */
  full: number;
  /** Used lengths above the writable length, cut to it (driver). */
  clamped: number;
  /** Buffers that went through an indirect table. */
  indirect: number;
  /** Tables that could not be had; their buffers went out as direct descriptors (driver). */
  tableFailed: number;
  /** Errors thrown by this queue object, by code. */
  errors: Partial<Record<ErrorCode, number>>;
}

export function readStats(
  ring: Pick<Ring, 'counter'>,
  side: 'driver' | 'device',
  errors: Map<ErrorCode, number>,
): QueueStats {
  const notified = ring.counter(L.COUNT_NOTIFIED);
  const suppressed = ring.counter(L.COUNT_SUPPRESSED);
  const driver = side === 'driver';
  return {
    added: ring.counter(L.COUNT_ADDED),
    completed: ring.counter(L.COUNT_COMPLETED),
    bytesOut: ring.counter(L.COUNT_BYTES_OUT),
    bytesIn: ring.counter(L.COUNT_BYTES_IN),
    kicksSent: driver ? notified : 0,
    kicksSuppressed: driver ? suppressed : 0,
    interruptsSent: driver ? 0 : notified,
    interruptsSuppressed: driver ? 0 : suppressed,
    full: ring.counter(L.COUNT_FULL),
    clamped: ring.counter(L.COUNT_CLAMPED),
    indirect: ring.counter(L.COUNT_INDIRECT),
    tableFailed: ring.counter(L.COUNT_TABLE_FAILED),
    errors: Object.fromEntries(errors),
  };
}
