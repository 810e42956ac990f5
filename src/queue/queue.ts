import * as L from '../../assembly/abi/layout.js';
import type { LocalAreas, Ring, RingFormat } from '../engine/engine.js';
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

/** What driver and device queues have in common. */
export interface QueueOptions {
  ring: RingFormat;
  /** Descriptors: 1 to 32768; a power of two in a split ring. */
  size: number;
  /** Negotiated feature bits; those that do not concern a queue are ignored. */
  features?: Iterable<Feature | number>;
}

export interface CheckedOptions {
  ring: RingFormat;
  size: number;
  eventIdx: boolean;
  inOrder: boolean;
  indirect: boolean;
}

export function checkSize(ring: RingFormat, size: unknown): number {
  const checked = integer(size, 'size', 1, L.QUEUE_SIZE_MAX);
  if (ring === 'split' && (checked & (checked - 1)) !== 0)
    throw new VringError('EINVAL', `the size of a split queue must be a power of two, got ${checked}`);
  return checked;
}

export function checkOptions(options: QueueOptions): CheckedOptions {
  if (typeof options !== 'object' || options === null)
    throw new VringError('EINVAL', `options must be an object {ring, size, features}, got ${show(options)}`);
  const { ring } = options;
  if (ring !== 'split' && ring !== 'packed')
    throw new VringError('EINVAL', `ring must be 'split' or 'packed', got ${show(ring)}`);
  const size = checkSize(ring, options.size);
  const { features: given = [] } = options;
  if (typeof given !== 'object' || typeof given?.[Symbol.iterator] !== 'function')
    throw new VringError('EINVAL', `features must be an array or a Set of bit numbers, got ${show(given)}`);
  const features = new Set<number>();
  for (const feature of given) features.add(integer(feature, 'feature', 0, FEATURE_BITS_MAX - 1));
  if (ring === 'split' && features.has(Feature.RING_PACKED))
    throw new VringError('EINVAL', "RING_PACKED (34) was negotiated: the ring must be 'packed', got 'split'");
  return {
    ring,
    size,
    eventIdx: features.has(Feature.EVENT_IDX),
    inOrder: features.has(Feature.IN_ORDER),
    indirect: features.has(Feature.INDIRECT_DESC),
  };
}

interface AreaLayout {
  bytes: number;
  align: number;
}

/** Bytes and alignment of each area (2.7, 2.8.10.1). */
export function areaLayout(
  ring: RingFormat,
  size: number,
): Record<'descriptor' | 'driver' | 'device', AreaLayout> {
  return ring === 'split'
    ? {
        descriptor: { bytes: size * L.DESC_BYTES, align: L.SPLIT_DESCRIPTOR_ALIGN },
        driver: { bytes: L.AVAIL_RING + size * 2 + 2, align: L.SPLIT_DRIVER_ALIGN },
        device: { bytes: L.USED_RING + size * L.USED_ELEM_BYTES + 2, align: L.SPLIT_DEVICE_ALIGN },
      }
    : {
        descriptor: { bytes: size * L.DESC_BYTES, align: L.PACKED_DESCRIPTOR_ALIGN },
        driver: { bytes: L.EVENT_BYTES, align: L.PACKED_EVENT_ALIGN },
        device: { bytes: L.EVENT_BYTES, align: L.PACKED_EVENT_ALIGN },
      };
}

const AREAS = ['descriptor', 'driver', 'device'] as const;

/**
 * Checks alignment and range of areas and gives their local addresses.
 * @param locate local address of a range, or undefined if it is not in reach
 */
export function checkAreas(
  areas: Areas,
  ring: RingFormat,
  size: number,
  locate: (address: number | bigint, bytes: number) => number | undefined,
): LocalAreas {
  if (typeof areas !== 'object' || areas === null)
    throw new VringError('EINVAL', `areas must be {descriptor, driver, device}, got ${show(areas)}`);
  const layout = areaLayout(ring, size);
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
  get: failReleased,
});

function failReleased(): never {
  throw new VringError('EINVAL', 'the queue was released: make a new one');
}

/** What both sides of a queue have: a ring of the engine, its fault, statistics. */
export abstract class Queue<R extends Ring> {
  readonly ring: RingFormat;
  /** Descriptors. `resize` changes it. */
  size: number;
  protected readonly errors = new Map<ErrorCode, number>();

  protected constructor(
    protected core: R,
    protected readonly memory: LinearMemory,
    protected readonly arena: Arena,
    private readonly side: 'driver' | 'device',
    ring: RingFormat,
    size: number,
  ) {
    this.ring = ring;
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

  /** Puts another ring in the place of the present one, which goes; the counts go on. */
  protected replace(core: R, size: number): void {
    const counters = this.side === 'driver' ? L.DRIVER_COUNTERS : L.COUNTERS;
    for (let index = 0; index < counters; index++) core.addCounter(index, this.core.counter(index));
    this.core.release();
    this.core = core;
    this.size = size;
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

  /** For what takes memory before it looks at the present ring. */
  protected checkReleased(): void {
    if (this.core === RELEASED) failReleased();
  }

  /** Gives the ring back. Whatever is asked of the queue afterwards is refused. */
  protected releaseCore(): void {
    this.core.release();
    this.core = RELEASED as R;
  }
}
