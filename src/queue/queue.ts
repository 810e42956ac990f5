import * as L from '../../assembly/abi/layout.js';
import type { LocalAreas, Ring } from '../engine/engine.js';
import { describeFault, type ErrorCode, type Fault, show, VringError } from '../errors.js';
import { FEATURE_BITS_MAX, Feature } from '../features.js';
import type { Arena, LinearMemory } from '../memory.js';
import { type QueueStats, readStats } from '../stats.js';
import { integer } from './check.js';

/** A contiguous range: part of a buffer. */
export interface Segment {
  /** Driver side: what the device is to use, up to 2^64-1. Device side: byte offset in the engine's memory. */
  address: number | bigint;
  /** Bytes, 0 … 2^32-1. */
  length: number;
}

/**
 * Where the three parts of a virtqueue lie (virtio 1.4, 2.6): descriptor area, driver area (the available
 * ring), device area (the used ring).
 */
export interface Areas {
  descriptor: number | bigint;
  driver: number | bigint;
  device: number | bigint;
}

/** Ring formats. */
export type RingFormat = 'split';

/** What driver and device queues have in common. */
export interface QueueOptions {
  ring: RingFormat;
  /** Descriptors: a power of two from 1 to 32768. */
  size: number;
  /** Negotiated feature bits; those that do not concern a queue are ignored. */
  features?: Iterable<Feature | number>;
}

export interface CheckedOptions {
  size: number;
  eventIdx: boolean;
  indirect: boolean;
}

// A queue that ignored one of these would misread its ring.
const UNSUPPORTED = [Feature.RING_PACKED, Feature.IN_ORDER];

export function checkOptions(options: QueueOptions): CheckedOptions {
  if (typeof options !== 'object' || options === null)
    throw new VringError('EINVAL', `options must be an object {ring, size, features}, got ${show(options)}`);
  if (options.ring !== 'split')
    throw new VringError('EINVAL', `ring must be 'split', got ${show(options.ring)}`);
  const size = integer(options.size, 'size', 1, L.QUEUE_SIZE_MAX);
  if ((size & (size - 1)) !== 0)
    throw new VringError('EINVAL', `the size of a split queue must be a power of two, got ${size}`);
  const { features: given = [] } = options;
  if (typeof given !== 'object' || typeof given?.[Symbol.iterator] !== 'function')
    throw new VringError('EINVAL', `features must be an array or a Set of bit numbers, got ${show(given)}`);
  const features = new Set<number>();
  for (const feature of given) features.add(integer(feature, 'feature', 0, FEATURE_BITS_MAX - 1));
  for (const feature of UNSUPPORTED)
    if (features.has(feature))
      throw new VringError(
        'ENOTSUP',
        `a split queue cannot be used with ${Feature[feature]} (${feature}): do not negotiate it`,
      );
  return { size, eventIdx: features.has(Feature.EVENT_IDX), indirect: features.has(Feature.INDIRECT_DESC) };
}

/** Bytes and alignment of each area of a split queue (2.7). */
export const splitAreas = (size: number) =>
  ({
    descriptor: { bytes: size * L.DESC_BYTES, align: L.SPLIT_DESCRIPTOR_ALIGN },
    driver: { bytes: L.AVAIL_RING + size * 2 + 2, align: L.SPLIT_DRIVER_ALIGN },
    device: { bytes: L.USED_RING + size * L.USED_ELEM_BYTES + 2, align: L.SPLIT_DEVICE_ALIGN },
  }) as const;

const AREAS = ['descriptor', 'driver', 'device'] as const;

/**
 * Checks alignment and range of areas and gives their local addresses.
 * @param locate local address of a range, or undefined if it is not in reach
 */
export function checkAreas(
  areas: Areas,
  size: number,
  locate: (address: number | bigint, bytes: number) => number | undefined,
): LocalAreas {
  if (typeof areas !== 'object' || areas === null)
    throw new VringError('EINVAL', `areas must be {descriptor, driver, device}, got ${show(areas)}`);
  const layout = splitAreas(size);
  const local: LocalAreas = { descriptor: 0, driver: 0, device: 0 };
  for (const area of AREAS) {
    const address = areas[area];
    const { bytes, align } = layout[area];
    const valid =
      typeof address === 'bigint' ? address >= 0n : Number.isSafeInteger(address) && (address as number) >= 0;
    if (!valid) throw new VringError('EINVAL', `areas.${area} must be an address, got ${show(address)}`);
    if (BigInt(address) % BigInt(align) !== 0n)
      throw new VringError('EINVAL', `areas.${area} must be a multiple of ${align}, got ${show(address)}`);
    const at = locate(address, bytes);
    if (at === undefined)
      throw new VringError(
        'EFAULT',
        `areas.${area}: ${bytes} bytes at ${show(address)} are outside the memory or regions`,
      );
    if (at % align !== 0)
      throw new VringError(
        'EINVAL',
        `areas.${area} lies at ${at} in the memory, not at a multiple of ${align}: align the region`,
      );
    local[area] = at;
  }
  const ranges = AREAS.map((area) => ({ area, start: local[area], end: local[area] + layout[area].bytes }));
  ranges.sort((a, b) => a.start - b.start);
  for (let i = 1; i < ranges.length; i++)
    if (ranges[i].start < ranges[i - 1].end)
      throw new VringError(
        'EINVAL',
        `areas overlap: ${ranges[i - 1].area} ends at ${ranges[i - 1].end}, ${ranges[i].area} starts at ${ranges[i].start}`,
      );
  return local;
}

/** The ring of a queue that was released. In place of a flag: what is not misused pays nothing for it. */
const RELEASED = new Proxy({} as Ring, {
  get() {
    throw new VringError('EINVAL', 'the queue was released: make a new one');
  },
});

/** What both sides of a queue have: a ring of the engine, its fault, statistics. */
export abstract class Queue<R extends Ring> {
  readonly ring: RingFormat = 'split';
  /** Descriptors. */
  readonly size: number;
  protected readonly errors = new Map<ErrorCode, number>();

  protected constructor(
    protected core: R,
    protected readonly memory: LinearMemory,
    protected readonly arena: Arena,
    private readonly side: 'driver' | 'device',
    size: number,
  ) {
    this.size = size;
  }

  /** True from the first fault on until `reset()`: every operation then throws the same error. */
  get broken(): boolean {
    return this.core.fault !== L.FAULT_NONE;
  }

  /** Why the queue is broken, or undefined. */
  get fault(): Fault | undefined {
    const { fault, faultA, faultB } = this.core;
    return fault === L.FAULT_NONE ? undefined : describeFault(fault, faultA, faultB);
  }

  /** Counts since the queue was created. */
  stats(): QueueStats {
    return readStats(this.core, this.side, this.errors);
  }

  /** Counts an error and throws it. */
  protected fail(code: ErrorCode, message: string): never {
    this.errors.set(code, (this.errors.get(code) ?? 0) + 1);
    throw new VringError(code, message);
  }

  /** Throws the error of a broken queue. */
  protected failBroken(): never {
    const fault = this.fault;
    if (fault === undefined) throw new Error('invariant: a sound queue reported RESULT_BROKEN');
    this.fail(fault.code, `the queue is broken: ${fault.reason}; reset it`);
  }

  /** Runs a check of arguments, counting the error that it throws. */
  protected counted<T>(check: () => T): T {
    try {
      return check();
    } catch (error) {
      if (error instanceof VringError) this.errors.set(error.code, (this.errors.get(error.code) ?? 0) + 1);
      throw error;
    }
  }

  protected failRecords(records: unknown, what: string): never {
    this.fail(
      'EINVAL',
      `${what} must come from a queue of this engine and not be freed, got ${show(records)}`,
    );
  }

  /** Gives the ring back. Whatever is asked of the queue afterwards is refused. */
  protected releaseCore(): void {
    this.core.release();
    this.core = RELEASED as R;
  }
}
