import fc from 'fast-check';
import type { TableOptions } from '../../src/index.js';
import type { EngineName } from './engines.js';
import type { Config } from './lockstep.js';

/** Every pairing of the engines: whoever is on the other side, both must leave the same bytes. */
export const PAIRINGS: [EngineName, EngineName][] = [
  ['wasm', 'wasm'],
  ['typescript', 'typescript'],
  ['wasm', 'typescript'],
  ['typescript', 'wasm'],
];

const splitSizes = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(1, 2, 4, 8) },
  { weight: 4, arbitrary: fc.constantFrom(16, 32, 64) },
  { weight: 1, arbitrary: fc.constantFrom(256, 4096, 32768) },
);

const packedSizes = fc.oneof(
  { weight: 12, arbitrary: fc.integer({ min: 1, max: 9 }) },
  { weight: 5, arbitrary: fc.integer({ min: 1, max: 64 }) },
  { weight: 1, arbitrary: fc.constantFrom(255, 3000, 32767, 32768) },
);

const split = fc.record({ ring: fc.constant('split' as const), size: splitSizes });
const packed = fc.record({ ring: fc.constant('packed' as const), size: packedSizes });

/** Caches of every kind, mostly of small tables. */
export const tableOptions: fc.Arbitrary<TableOptions> = fc
  .record(
    {
      strategy: fc.constantFrom('none' as const, 'slab' as const, 'slab-bulk' as const, 'list' as const),
      descriptors: fc.oneof(fc.integer({ min: 2, max: 6 }), fc.integer({ min: 2, max: 32 })),
      bound: fc.nat(9),
      prefill: fc.nat(9),
    },
    { requiredKeys: ['strategy'] },
  )
  .map((options) =>
    options.prefill === undefined
      ? options
      : { ...options, prefill: Math.min(options.prefill, options.bound ?? 1) },
  );
const strategy = fc.constantFrom('lazy' as const, 'eager' as const);

const others = fc.record({
  inOrder: fc.boolean(),
  batches: fc.boolean(),
  eventIdx: fc.boolean(),
  indirect: fc.boolean(),
  policy: fc.oneof(
    { weight: 3, arbitrary: fc.constant('always' as const) },
    { weight: 1, arbitrary: fc.constantFrom('never' as const, 'static' as const) },
    { weight: 3, arbitrary: fc.constantFrom('adaptive' as const, 'adaptive-hysteresis' as const) },
  ),
  threshold: fc.integer({ min: 1, max: 5 }),
  tables: tableOptions,
  strict: fc.boolean(),
  granules: fc.oneof(fc.nat(12), fc.nat(200)),
  shared: fc.boolean(),
  callbacks: fc.boolean(),
  fenced: fc.boolean(),
  translation: fc.record({ wasm: strategy, typescript: strategy }),
  regions: fc.option(
    fc.record({
      cuts: fc.array(fc.nat(0xffff), { maxLength: 12 }),
      order: fc.array(fc.nat(9), { minLength: 1, maxLength: 8 }),
      top: fc.boolean(),
    }),
    { nil: undefined },
  ),
});

const withOthers = (rings: fc.Arbitrary<Pick<Config, 'ring' | 'size'>>): fc.Arbitrary<Config> =>
  fc.tuple(rings, others).map(([ring, other]) => ({ ...ring, ...other }));

/** Queues of every kind, mostly small. */
export const configs = withOthers(fc.oneof(split, packed));

/** Split queues whose buffers are used in any order. */
export const splitConfigs = withOthers(split).map((config) => ({ ...config, inOrder: false }));

/**
 * Parameters of a property that runs `times`, or as often as VRING_RUNS says: a longer search for a change of
 * an engine. A failure is made smaller for a minute and then reported as it is.
 */
export const runs = (times: number) => ({
  numRuns: Number(process.env.VRING_RUNS ?? times),
  interruptAfterTimeLimit: process.env.VRING_RUNS === undefined ? 60000 : 3600000,
});
