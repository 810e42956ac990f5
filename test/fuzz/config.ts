import type { RingFormat, TranslationStrategy } from '../../src/engine/engine.js';
import type { IndirectOptions, TableOptions } from '../../src/index.js';
import type { Random } from './prng.js';

/** Whose peer is hostile. The other side exists, too, and plays by the rules. */
export type Victim = 'driver' | 'device' | 'both';

/** Where the buffers lie in guest memory. */
export type GuestMap = 'low' | 'high' | 'top' | 'straddling';

/** What a scenario is about. */
export interface Config {
  ring: RingFormat;
  size: number;
  eventIdx: boolean;
  indirect: boolean;
  inOrder: boolean;
  batches: boolean;
  strict: boolean;
  translation: TranslationStrategy;
  /** 16-byte granules of table memory. */
  granules: number;
  policy: NonNullable<IndirectOptions['policy']>;
  tables: TableOptions;
  guest: GuestMap;
  victim: Victim;
  /** The hostile side is the peer alone: the queue of that side does nothing. */
  raw: boolean;
  /** Give the queues their callbacks, in which the peer may strike, too. */
  callbacks: boolean;
  /** How many of 100 operations are the peer's. */
  hostility: number;
}

const SIZES = {
  split: [1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 32],
  packed: [1, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 8, 9, 16, 31],
};
const LARGE = { split: [64, 256], packed: [64, 100, 255] };
const GUESTS: readonly GuestMap[] = ['low', 'high', 'top', 'straddling'];
const VICTIMS: readonly Victim[] = ['driver', 'device', 'device', 'both', 'both'];
const GRANULES = [0, 1, 3, 8, 16, 64];
const POLICIES = ['always', 'always', 'never', 'static', 'adaptive', 'adaptive-hysteresis'] as const;
/** Of a static policy. */
export const THRESHOLD = 2;
const STRATEGIES = ['none', 'slab', 'slab-bulk', 'list', 'list'] as const;
const HOSTILITY = [1, 4, 10, 20, 35, 60];

/** A cache of any kind, mostly of small tables. */
export const chooseTables = (random: Random): TableOptions => ({
  strategy: random.pick(STRATEGIES),
  descriptors: 2 + random.below(random.once(8) ? 31 : 4),
  bound: 4 + random.below(8),
  prefill: random.below(4),
});

export function chooseConfig(random: Random): Config {
  const flag = () => random.once(2);
  const ring = random.pick(['split', 'packed'] as const);
  const size = random.once(2000) ? 32768 : random.pick((random.once(12) ? LARGE : SIZES)[ring]);
  const victim = random.pick(VICTIMS);
  return {
    ring,
    size,
    eventIdx: flag(),
    indirect: flag(),
    inOrder: random.once(3),
    batches: flag(),
    strict: random.once(4),
    translation: flag() ? 'lazy' : 'eager',
    granules: random.pick(GRANULES),
    policy: random.pick(POLICIES),
    tables: chooseTables(random),
    guest: random.pick(GUESTS),
    victim,
    raw: victim !== 'both' && random.once(3),
    callbacks: random.once(3),
    hostility: random.pick(HOSTILITY),
  };
}
