import * as L from '../../assembly/abi/layout.js';
import type {
  DriverRing,
  PolicyConfig,
  TableConfig,
  TableStrategy,
  ThresholdChange,
} from '../engine/engine.js';
import { show, VringError } from '../errors.js';
import { integer } from './check.js';

/** Where the tables of indirect descriptors come from. What does not concern the strategy is ignored. */
export interface TableOptions {
  /**
   * `list` (default): tables of one size, kept in a list, last in, first out. `slab`: of one size, from a slab
   * cache. `slab-bulk`: the same, several at a time. `none`: every table from the general allocator. Buffers
   * that do not fit the tables of a cache get theirs from the general allocator, too.
   */
  strategy?: TableStrategy;
  /** Descriptors of a table of the cache: 2 … 256, default 8. A buffer of more segments does not fit. */
  descriptors?: number;
  /** The same in bytes, in place of `descriptors`: a multiple of 16 from 32 to 4096. */
  bytes?: number;
  /** Most tables that a list keeps: 0 … 32768, default the queue size. Those above go back to the allocator. */
  bound?: number;
  /** Tables that a list has from the start, as far as there is memory: 0 … `bound`, default 0. */
  prefill?: number;
}

/** How buffers of more than one segment are laid out when INDIRECT_DESC is negotiated. */
export interface IndirectOptions {
  /**
   * When a buffer goes through a table. `always` (default): if it has more than one segment. `never`: always a chain
   * of direct descriptors. `static`: if it has more segments than `threshold`. `adaptive`: the threshold starts
   * at the queue size and is halved each time that the ring is under stress. `adaptive-hysteresis`: a buffer goes
   * direct as long as those behind it in its burst keep a descriptor each; the threshold is halved when a buffer
   * finds no descriptor, and rises again when the pressure is gone. But for `never`, a buffer that has more segments
   * than there are free descriptors goes through a table, too, if at least one is free.
   */
  policy?: PolicyConfig['policy'] | 'never';
  /** For `static`: 1 … 32768. */
  threshold?: number;
  /**
   * Memory for the tables: bytes to take from the arena (default 256 per descriptor, at most 1 MiB), or a
   * range of the engine's memory that the device can reach. Where it is exhausted, buffers go direct.
   */
  memory?: number | { address: number; length: number };
  tables?: TableOptions;
}

/** What became of a driver's tables. At any time hits + misses = returned + inFlight. */
export interface TableStats {
  strategy: TableStrategy;
  /** Descriptors of a table of the cache. */
  descriptors: number;
  /** Tables that the cache had ready. */
  hits: number;
  /** Tables that had to come from the allocator. */
  misses: number;
  /** Times that the cache had to get something from the allocator: a table (list), a page (slab), up to 32 tables (slab-bulk). */
  refills: number;
  /** Descriptors of the tables taken that their buffers did not need. */
  wasted: number;
  /** Tables that came back. */
  returned: number;
  /** Tables that are with the device. */
  inFlight: number;
  /** Tables in the list, and the most that there were. */
  length: number;
  highWater: number;
  /** Bytes of table memory that are in use or kept by a cache: whole pages. 0 after `trimTables(0)` with none in flight. */
  memory: number;
}

/** When a driver's buffers go through a table. */
export interface ThresholdStats {
  policy: NonNullable<IndirectOptions['policy']>;
  /** A buffer of more segments goes through a table. */
  value: number;
  /** How often it changed, and the last changes, at most 64, oldest first; since the ring was made. */
  changes: number;
  history: ThresholdChange[];
}

export const DESCRIPTORS_MAX = L.TABLES_PAGE_MAX / L.DESC_BYTES;
const DESCRIPTORS_DEFAULT = 8;

const POLICIES = ['always', 'never', 'static', 'adaptive', 'adaptive-hysteresis'] as const;
const STRATEGIES: readonly TableStrategy[] = ['none', 'slab', 'slab-bulk', 'list'];

/** @throws VringError EINVAL */
export function checkPolicy({ policy = 'always', threshold }: IndirectOptions): PolicyConfig | undefined {
  if (!POLICIES.includes(policy))
    throw new VringError(
      'EINVAL',
      `indirect.policy must be one of '${POLICIES.join("', '")}', got ${show(policy)}`,
    );
  if (policy === 'static') integer(threshold, 'indirect.threshold', 1, L.QUEUE_SIZE_MAX);
  else if (threshold !== undefined)
    throw new VringError(
      'EINVAL',
      `indirect.threshold goes with policy 'static', got ${show(threshold)} with '${policy}'`,
    );
  return policy === 'never' ? undefined : { policy, threshold: threshold ?? 1 };
}

/** @throws VringError EINVAL */
export function checkTables(options: TableOptions, what: string, size: number): TableConfig {
  if (typeof options !== 'object' || options === null)
    throw new VringError(
      'EINVAL',
      `${what} must be {strategy, descriptors, bound, prefill}, got ${show(options)}`,
    );
  // Only what is absent has a default: null is a mistake.
  const { strategy = 'list', bytes, bound = size, prefill = 0 } = options;
  if (!STRATEGIES.includes(strategy))
    throw new VringError(
      'EINVAL',
      `${what}.strategy must be one of '${STRATEGIES.join("', '")}', got ${show(strategy)}`,
    );
  let { descriptors = DESCRIPTORS_DEFAULT } = options;
  if (bytes !== undefined) {
    if (options.descriptors !== undefined)
      throw new VringError('EINVAL', `${what} has both descriptors and bytes: leave one out`);
    integer(bytes, `${what}.bytes`, 2 * L.DESC_BYTES, L.TABLES_PAGE_MAX);
    if (bytes % L.DESC_BYTES !== 0)
      throw new VringError('EINVAL', `${what}.bytes must be a multiple of ${L.DESC_BYTES}, got ${bytes}`);
    descriptors = bytes / L.DESC_BYTES;
  }
  return {
    strategy,
    descriptors: integer(descriptors, `${what}.descriptors`, 2, DESCRIPTORS_MAX),
    bound: integer(bound, `${what}.bound`, 0, L.QUEUE_SIZE_MAX),
    prefill: integer(prefill, `${what}.prefill`, 0, bound),
  };
}

export function readTables(ring: DriverRing, { strategy, descriptors }: TableConfig): TableStats {
  return {
    strategy,
    descriptors: strategy === 'none' ? 0 : descriptors,
    hits: ring.counter(L.COUNT_TABLE_HITS),
    misses: ring.counter(L.COUNT_TABLE_MISSES),
    refills: ring.counter(L.COUNT_TABLE_REFILLS),
    wasted: ring.counter(L.COUNT_TABLE_WASTED),
    returned: ring.counter(L.COUNT_TABLE_RETURNED),
    inFlight: ring.tableCount,
    length: ring.listLength,
    highWater: ring.counter(L.COUNT_TABLE_HIGH_WATER),
    memory: ring.tableMemory,
  };
}
