// What the conformance tests of both ring formats have in common.

import { expect } from 'chai';
import fc from 'fast-check';
import { type Host, VringError } from '../../src/index.js';
import type { Load } from './engines.js';

// The memory: guest memory with rings, tables and buffers first, the engine's arena behind it.
export const GUEST = 0x40000;
export const AREAS = { descriptor: 0x1000, driver: 0x10000, device: 0x20000 };
export const TABLES = { address: 0x30000, length: 0x2000 };
export const DATA = 0x38000;

/** An engine whose arena lies behind `GUEST` bytes that are the test's own. */
export function loadBeside(load: Load): Promise<Host> {
  return load({ memory: new WebAssembly.Memory({ initial: 64 }), base: GUEST });
}

/** Asserts that `action` throws a VringError with this code; returns its message. */
export function refuses(action: () => unknown, code: string): string {
  let error: unknown;
  try {
    action();
  } catch (e) {
    error = e;
  }
  expect(error).to.be.instanceOf(VringError);
  expect((error as VringError).code, String(error)).to.equal(code);
  return (error as VringError).message;
}

export const guestBytes = (engine: Host): Uint8Array => new Uint8Array(engine.buffer).slice(0, GUEST);

export interface Segment {
  address: bigint;
  length: number;
}

/** A buffer as the test asked for it. */
export interface Added {
  out: Segment[];
  in: Segment[];
}

const segment: fc.Arbitrary<Segment> = fc.record({
  address: fc.bigInt({ min: 0n, max: 2n ** 64n - 2n ** 20n }),
  length: fc.integer({ min: 0, max: 2 ** 20 }),
});

/** A buffer of up to ten segments. */
export const buffer: fc.Arbitrary<[out: Segment[], in_: Segment[]]> = fc
  .tuple(fc.array(segment, { maxLength: 5 }), fc.array(segment, { maxLength: 5 }))
  .filter(([out, in_]) => out.length + in_.length > 0);

/** What the random tests of a driver queue do with it, and with the device that is played by hand. */
export const operation = fc.oneof(
  { weight: 4, arbitrary: fc.record({ add: buffer }) },
  { weight: 1, arbitrary: fc.record({ burst: fc.array(buffer, { maxLength: 4 }) }) },
  { weight: 4, arbitrary: fc.record({ use: fc.nat() }) },
  { weight: 4, arbitrary: fc.constant({ call: 'getBuf' as const }) },
  {
    weight: 3,
    arbitrary: fc
      .constantFrom('kick', 'moreUsed', 'disableCallbacks', 'enableCallbacks', 'enableCallbacksDelayed')
      .map((call) => ({ call: call as 'kick' })),
  },
);
