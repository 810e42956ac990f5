import fc from 'fast-check';
import type { EngineName } from './engines.js';
import type { Config } from './lockstep.js';

/** Every pairing of the engines: whoever is on the other side, both must leave the same bytes. */
export const PAIRINGS: [EngineName, EngineName][] = [
  ['wasm', 'wasm'],
  ['typescript', 'typescript'],
  ['wasm', 'typescript'],
  ['typescript', 'wasm'],
];

const sizes = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(1, 2, 4, 8) },
  { weight: 4, arbitrary: fc.constantFrom(16, 32, 64) },
  { weight: 1, arbitrary: fc.constantFrom(256, 4096, 32768) },
);

/** Queues of every kind, mostly small. */
export const configs: fc.Arbitrary<Config> = fc.record({
  size: sizes,
  eventIdx: fc.boolean(),
  indirect: fc.boolean(),
  policy: fc.oneof(
    { weight: 4, arbitrary: fc.constant('always' as const) },
    { weight: 1, arbitrary: fc.constant('never' as const) },
  ),
  strict: fc.boolean(),
  granules: fc.oneof(fc.nat(12), fc.nat(200)),
  shared: fc.boolean(),
  callbacks: fc.boolean(),
  fenced: fc.boolean(),
  regions: fc.option(
    fc.record({
      cuts: fc.array(fc.nat(0xffff), { maxLength: 12 }),
      order: fc.array(fc.nat(9), { minLength: 1, maxLength: 8 }),
      top: fc.boolean(),
    }),
    { nil: undefined },
  ),
});

/**
 * Parameters of a property that runs `times`, or as often as VRING_RUNS says: a longer search for a change of
 * an engine. A failure is made smaller for a minute and then reported as it is.
 */
export const runs = (times: number) => ({
  numRuns: Number(process.env.VRING_RUNS ?? times),
  interruptAfterTimeLimit: process.env.VRING_RUNS === undefined ? 60000 : 3600000,
});
