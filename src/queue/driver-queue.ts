import * as L from '../../assembly/abi/layout.js';
import type { DriverRing, DriverRingConfig, Engine, LocalAreas } from '../engine/engine.js';
import { show, VringError } from '../errors.js';
import type { Arena, LinearMemory } from '../memory.js';
import type { QueueStats } from '../stats.js';
import { Burst } from './burst.js';
import { integer } from './check.js';
import { Completions } from './completions.js';
import {
  checkPolicy,
  checkTables,
  type IndirectOptions,
  readTables,
  type TableOptions,
  type TableStats,
  type ThresholdStats,
} from './indirect.js';
import { type DriverInspection, inspectDriver } from './inspect/inspect.js';
import {
  type Areas,
  areaLayout,
  checkAreas,
  checkOptions,
  checkSize,
  Queue,
  type QueueOptions,
  type Segment,
} from './queue.js';
import { checkDriverState, type DriverState } from './state.js';

export interface DriverQueueOptions extends QueueOptions {
  /** Called by `kick` when the device is to be notified. */
  notify?: (queue: DriverQueue) => void;
  indirect?: IndirectOptions;
  /** Where the ring lies in the engine's memory; taken from the arena if absent. It is cleared. */
  areas?: Areas;
  /** A used length above the writable length breaks the queue; otherwise it is clamped and counted. */
  strict?: boolean;
  /**
   * For a device that finds this memory elsewhere: what is added to an address in the engine's memory, modulo
   * 2^64, to make the address that the device is told. The queue applies it to its indirect tables; the
   * addresses of segments are the caller's, and go to the device as they are. 0 if absent.
   */
  addressOffset?: number | bigint;
}

/** A buffer that came back. */
export interface Completion {
  token: number;
  /** Bytes that the device wrote. */
  length: number;
}

/** Counts of a driver queue. */
export interface DriverStats extends QueueStats {
  tables: TableStats;
  threshold: ThresholdStats;
}

const TABLE_BYTES_PER_DESCRIPTOR = 256;
const TABLE_BYTES_MAX = 1 << 20;
const SCRATCH_SEGMENTS = 64;

/**
 * Driver side of a virtqueue: makes buffers available and gets them back.
 *
 * The ring is shared with a device that is not trusted: what it writes is checked, and a violation breaks
 * the queue (`broken`, `fault`) until `reset()`.
 */
export class DriverQueue extends Queue<DriverRing> {
  private readonly engine: Engine;
  private readonly tableOption: IndirectOptions['memory'];
  private tableOptions: TableOptions;
  private plan: RingPlan;
  /** What areas that were given held before they were cleared; `restore` puts it back. */
  private before: Uint8Array[] | undefined;
  private readonly notify: ((queue: DriverQueue) => void) | undefined;
  private scratch: Burst;
  private readonly single: Completions;

  /** Use `engine.driverQueue`. @internal */
  constructor(engine: Engine, memory: LinearMemory, arena: Arena, options: DriverQueueOptions) {
    const checked = checkOptions(options);
    const { notify, strict = false, addressOffset = 0, indirect: tableOptions = {} } = options;
    if (typeof tableOptions !== 'object' || tableOptions === null)
      throw new VringError('EINVAL', `indirect must be {policy, memory, tables}, got ${show(tableOptions)}`);
    if (notify !== undefined && typeof notify !== 'function')
      throw new VringError('EINVAL', `notify must be a function, got ${show(notify)}`);
    if (typeof strict !== 'boolean')
      throw new VringError('EINVAL', `strict must be a boolean, got ${show(strict)}`);
    if (typeof addressOffset !== 'bigint' && !Number.isSafeInteger(addressOffset))
      throw new VringError('EINVAL', `addressOffset must be a whole number, got ${show(addressOffset)}`);
    const { memory: tableOption, tables: cacheOptions = {} } = tableOptions;
    const policy = checkPolicy(tableOptions);
    const cache = checkTables(cacheOptions, 'indirect.tables', checked.size);
    const indirect = checked.indirect && policy !== undefined;
    const plan = planRing(
      memory,
      arena,
      {
        ...checked,
        indirect,
        policy: policy ?? { policy: 'always', threshold: 1 },
        cache,
        strict,
        addressOffset: BigInt(addressOffset),
      },
      options.areas,
      tableOption,
    );
    const before = options.areas === undefined ? undefined : copyAreas(memory, plan.config);
    let core: DriverRing | undefined;
    let scratch: Burst | undefined;
    try {
      core = engine.driverRing(plan.config);
      scratch = new Burst(memory, arena, 1, Math.min(checked.size, SCRATCH_SEGMENTS));
      super(core, memory, arena, 'driver', checked.ring, checked.size);
      this.single = new Completions(memory, arena, 1);
    } catch (error) {
      scratch?.free();
      core?.release();
      for (const address of plan.blocks) arena.free(address);
      throw error;
    }
    this.engine = engine;
    this.tableOption = tableOption;
    this.tableOptions = cacheOptions;
    this.plan = plan;
    this.before = before;
    this.notify = notify;
    this.scratch = scratch;
  }

  /** Where the parts of the ring lie; what a device queue or a transport is told. `resize` moves them. */
  get areas(): Readonly<LocalAreas> {
    return this.plan.config.areas;
  }

  /** Free descriptors. */
  get numFree(): number {
    return this.core.numFree;
  }

  /** Buffers that are with the device. */
  get inFlight(): number {
    return this.core.inFlight;
  }

  /** Bytes of indirect tables that are with the device. */
  get tableBytes(): number {
    return this.core.tableBytes;
  }

  /** Counts since the queue was created. */
  override stats(): DriverStats {
    const { cache, indirect, policy } = this.plan.config;
    return {
      ...super.stats(),
      tables: readTables(this.core, cache),
      threshold: { policy: indirect ? policy.policy : 'never', ...this.core.threshold },
    };
  }

  /**
   * Takes indirect tables from elsewhere from now on; at any time, also with buffers in flight, whose tables go
   * back to the allocator. What was cached goes there at once.
   * @throws VringError EINVAL; nothing was changed
   */
  setTables(options: TableOptions): void {
    const cache = this.counted(() => checkTables(options, 'tables', this.size));
    this.core.setTables(cache);
    this.tableOptions = { ...options };
    this.plan = { ...this.plan, config: { ...this.plan.config, cache } };
  }

  /**
   * Gives cached tables back to the allocator until `length` are left in the list, and the pages in which no table
   * is in use or in the list.
   */
  trimTables(length = 0): void {
    this.counted(() => integer(length, 'length', 0, L.QUEUE_SIZE_MAX));
    this.core.trimTables(length);
  }

  /**
   * Makes one buffer available (virtio 1.4, 2.7.13). The device may use it from now on; `kick` tells it.
   * @param out device-readable segments, `in` device-writable ones; at least one in all
   * @param token comes back with the completion: 0 … 2^32-1
   * @returns false if there are not enough free descriptors; nothing was changed then
   * @throws VringError EINVAL for bad arguments or more segments than the queue has descriptors; the fault's
   *   code when the queue is broken
   */
  add(out: readonly Segment[], in_: readonly Segment[], token: number): boolean {
    const burst = this.fillScratch(out, in_, token);
    return this.addPending(burst, 1) === 1;
  }

  private fillScratch(out: readonly Segment[], in_: readonly Segment[], token: number): Burst {
    if (!Array.isArray(out) || !Array.isArray(in_))
      this.fail(
        'EINVAL',
        `out and in must be arrays of {address, length}, got ${show(out)} and ${show(in_)}`,
      );
    const count = out.length + in_.length;
    if (count > this.size)
      this.fail('EINVAL', `a buffer of ${count} segments does not fit a queue of ${this.size} descriptors`);
    if (count > this.scratch.segments) {
      const larger = new Burst(this.memory, this.arena, 1, Math.min(this.size, count * 2));
      this.scratch.free();
      this.scratch = larger;
    }
    const burst = this.scratch;
    burst.clear();
    try {
      for (let i = 0; i < out.length; i++) burst.out(out[i].address, out[i].length);
      for (let i = 0; i < in_.length; i++) burst.in(in_[i].address, in_[i].length);
      burst.end(token);
    } catch (error) {
      // Also what a segment that is no object throws: a TypeError of the property access.
      if (error instanceof VringError) this.fail(error.code, error.message.slice(error.code.length + 2));
      this.fail('EINVAL', `a segment must be {address, length}: ${String(error)}`);
    }
    return burst;
  }

  private addPending(burst: Burst, pending: number): number {
    const added = this.core.addBurst(burst.segmentsAddress, burst.tokensAddress, pending);
    if (added > 0) burst.shift(added);
    else if (added < 0) this.failAdd(added, burst);
    return added;
  }

  private failAdd(result: number, burst: Burst): never {
    if (result === L.RESULT_TOO_LONG)
      this.fail(
        'EINVAL',
        `a buffer of ${burst.firstCount} segments does not fit a queue of ${this.size} descriptors`,
      );
    this.failBroken();
  }

  /**
   * Makes the buffers of a burst available; the device sees them all at once.
   * @returns how many; those for which there were not enough free descriptors stay in the burst
   * @throws VringError EINVAL if the first buffer has more segments than the queue has descriptors (drop it
   *   with `burst.clear()`); the fault's code when the queue is broken
   */
  addBurst(burst: Burst): number {
    if (!(burst instanceof Burst) || burst.memory !== this.memory) this.failRecords(burst, 'burst');
    const { pending } = burst;
    return pending === 0 ? 0 : this.addPending(burst, pending);
  }

  /** Room for buffers to be added in one go. @param segments in all; four for each buffer if absent */
  createBurst(buffers: number, segments?: number): Burst {
    return new Burst(this.memory, this.arena, buffers, segments);
  }

  /** Room for completions to be got in one go. */
  createCompletions(capacity: number): Completions {
    return new Completions(this.memory, this.arena, capacity);
  }

  /** Tells the device, if it wants to know, that buffers were added. @returns whether it did (2.7.13.4) */
  kick(): boolean {
    if (!this.kickPrepare()) return false;
    this.notify?.(this);
    return true;
  }

  /** Decides whether the device is to be notified of what was added since the last call, and says so only. */
  kickPrepare(): boolean {
    return this.core.kickPrepare() === 1;
  }

  /**
   * Takes one buffer back.
   * @returns undefined if there is none
   * @throws VringError the fault's code when the device broke the rules of the ring
   */
  getBuf(): Completion | undefined {
    const { single } = this;
    const got = this.core.getBurst(single.address, 1);
    if (got < 0) this.failBroken();
    single.count = got;
    return got === 0 ? undefined : { token: single.token(0), length: single.length(0) };
  }

  /**
   * Takes back as many buffers as there are and `completions` holds.
   * @returns how many; if fewer than it holds, an interrupt will come for the next one
   */
  getBurst(completions: Completions): number {
    if (!(completions instanceof Completions) || completions.memory !== this.memory)
      this.failRecords(completions, 'completions');
    const got = this.core.getBurst(completions.address, completions.capacity);
    if (got < 0) this.failBroken();
    completions.count = got;
    return got;
  }

  /** Whether `getBuf` has something to look at. */
  moreUsed(): boolean {
    return this.core.moreUsed() === 1;
  }

  /** Asks the device for no more interrupts (2.7.7). A hint: they may still come. */
  disableCallbacks(): void {
    this.core.disableCallbacks();
  }

  /** Asks for an interrupt at the next used buffer. @returns false if one is there already: get it first */
  enableCallbacks(): boolean {
    return this.core.poll(this.core.enableCallbacksPrepare()) === 0;
  }

  /** First half of `enableCallbacks`. @returns a value for `poll` */
  enableCallbacksPrepare(): number {
    return this.core.enableCallbacksPrepare();
  }

  /** Whether something was used since `enableCallbacksPrepare` returned `opaque`. */
  poll(opaque: number): boolean {
    this.counted(() => {
      integer(opaque, 'opaque', 0, 65535);
      if (this.ring === 'packed') integer(opaque & 0x7fff, 'slot of opaque', 0, this.size - 1);
    });
    return this.core.poll(opaque) === 1;
  }

  /**
   * The 32 bits of a notification under NOTIFICATION_DATA (2.9): the queue's index, and where the next buffer
   * will be made available.
   * @param index of the queue, or its notification config data: 0 … 65535
   */
  notificationData(index: number): number {
    this.counted(() => integer(index, 'index', 0, 65535));
    return (index | (this.core.position << 16)) >>> 0;
  }

  /**
   * Asks for an interrupt when three quarters of the outstanding buffers are used.
   * @returns false if that many are used already
   */
  enableCallbacksDelayed(): boolean {
    return this.core.enableCallbacksDelayed() === 1;
  }

  /**
   * Takes back a buffer that the device did not return. Only when the queue is not live (virtio 1.4, 3.3.1):
   * after the device was reset. @returns its token, or undefined when none is left
   */
  detachUnused(): number | undefined {
    const { single } = this;
    if (this.core.detachUnused(single.address) !== 1) return undefined;
    single.count = 1;
    return single.token(0);
  }

  /**
   * Makes the queue as new: ring cleared, no fault, nothing in flight. Only when the queue is not live.
   * @returns the tokens of the buffers that were in flight
   */
  reset(): number[] {
    const tokens = this.drain();
    this.core.reset();
    this.before = undefined;
    return tokens;
  }

  private drain(): number[] {
    const tokens: number[] = [];
    for (let token = this.detachUnused(); token !== undefined; token = this.detachUnused())
      tokens.push(token);
    return tokens;
  }

  /**
   * Gives the queue another size, in a new ring. Only when the queue is not live: the device was told to
   * reset it (2.6.1), and gets the new `areas` before it is used again.
   * @param areas where the new ring lies; taken from the arena if absent
   * @returns the tokens of the buffers that were in flight
   * @throws VringError EINVAL, EFAULT, ENOMEM; the old ring is as it was and goes on working
   */
  resize(size: number, areas?: Areas): number[] {
    this.checkReleased();
    const next = this.counted(() => {
      checkSize(this.ring, size);
      const cache = checkTables(this.tableOptions, 'tables', size);
      return this.build({ ...this.plan.config, size, cache }, areas);
    });
    const tokens = this.drain();
    this.adopt(next);
    return tokens;
  }

  /** Makes a ring beside the present one; nothing is left behind if it fails. */
  private build(
    wanted: Omit<DriverRingConfig, 'areas' | 'tables'>,
    areas?: Areas,
  ): { plan: RingPlan; core: DriverRing } {
    const plan = planRing(this.memory, this.arena, wanted, areas, this.tableOption);
    try {
      return { plan, core: this.engine.driverRing(plan.config) };
    } catch (error) {
      for (const address of plan.blocks) this.arena.free(address);
      throw error;
    }
  }

  private adopt({ plan, core }: { plan: RingPlan; core: DriverRing }): void {
    this.replace(core, plan.config.size);
    for (const address of this.plan.blocks) this.arena.free(address);
    this.plan = plan;
    this.before = undefined;
  }

  /** The queue as plain data: survives JSON and structured clone. Ring, tables and buffers stay in memory. */
  save(): DriverState {
    if (this.broken) this.failBroken();
    // The state belongs to the ring as it is now, also if it comes back to this queue.
    this.before = undefined;
    const { ring, size, eventIdx, inOrder, areas, tables } = this.plan.config;
    const counts = Array.from({ length: L.DRIVER_COUNTERS }, (_, index) => this.core.counter(index));
    return {
      side: 'driver',
      version: 1,
      ring,
      size,
      eventIdx,
      inOrder,
      areas: { ...areas },
      tables: { ...tables },
      counts,
      ...this.core.save(),
    };
  }

  /**
   * Goes on where the queue that was saved stopped. This queue must have the same ring format, size and
   * features, and lie where the ring's bytes are: create it with `areas` of the state. The memory of the
   * saved queue, its tables included, now belongs to this one: do not use or release that one any more.
   * @throws VringError EINVAL if the state does not fit this queue or contradicts itself; nothing was changed
   */
  restore(state: DriverState): void {
    this.checkReleased();
    const { config } = this.plan;
    const checked = this.counted(() => checkDriverState(state, config, this.memory.buffer.byteLength));
    const tables = config.indirect || checked.tables.length > 0 ? checked.tables : config.tables;
    this.counted(() => checkApart({ ...config, tables }, 'the saved state does not fit: the table memory'));
    const mine = tables.address === config.tables.address && tables.length === config.tables.length;
    const now = copyAreas(this.memory, config);
    // Whether this queue has written anything yet: the first two areas are its own.
    const untouched = now.slice(0, 2).every((area) => area.every((byte) => byte === 0));
    const bytes = untouched ? this.before : undefined;
    const core = this.engine.driverRing({ ...config, tables });
    // Making a ring clears its areas: put back what they held, which is what the state belongs to.
    pasteAreas(this.memory, config, bytes ?? now);
    core.load(checked);
    checked.counts.forEach((n, index) => {
      core.addCounter(index, n);
    });
    this.core.release();
    this.core = core;
    this.before = undefined;
    if (!mine) this.plan = { config: { ...config, tables }, blocks: this.plan.blocks };
  }

  /**
   * Everything there is to know about the queue, for people: what it remembers beside what stands in memory,
   * and what is wrong with it. Plain data, ready for JSON. Never throws because of what the device wrote, and
   * works on a broken queue.
   */
  inspect(): DriverInspection {
    const known = { fault: this.fault, stats: super.stats() };
    return inspectDriver(this.core.save(), this.plan.config, known, this.memory.buffer);
  }

  /** Gives everything back to the arena. The queue must not be used afterwards. */
  release(): void {
    this.releaseCore();
    this.scratch.free();
    this.single.free();
    for (const address of this.plan.blocks.splice(0)) this.arena.free(address);
  }
}

/** A ring's configuration, with the blocks of the arena that it needs. */
interface RingPlan {
  config: DriverRingConfig;
  blocks: number[];
}

/** Checks or takes the memory that a ring needs. @throws VringError; nothing is left behind */
function planRing(
  memory: LinearMemory,
  arena: Arena,
  wanted: Omit<DriverRingConfig, 'areas' | 'tables'>,
  given: Areas | undefined,
  tableOption: IndirectOptions['memory'],
): RingPlan {
  const { ring, size, indirect } = wanted;
  const blocks: number[] = [];
  const take = (bytes: number, align: number) => {
    const address = arena.alloc(bytes, align);
    blocks.push(address);
    return address;
  };
  const reach = memory.extend();
  const locate = (address: number | bigint, bytes: number) =>
    Number(address) + bytes <= reach ? Number(address) : undefined;
  try {
    const layout = areaLayout(ring, size);
    const areas = checkAreas(
      given !== undefined
        ? given
        : {
            descriptor: take(layout.descriptor.bytes, layout.descriptor.align),
            driver: take(layout.driver.bytes, layout.driver.align),
            device: take(layout.device.bytes, layout.device.align),
          },
      ring,
      size,
      locate,
    );
    const tables = indirect ? tableMemory(tableOption, size, take, locate) : { address: 0, length: 0 };
    const config = { ...wanted, areas, tables };
    checkApart(config, 'indirect.memory');
    return { config, blocks };
  } catch (error) {
    for (const address of blocks) arena.free(address);
    throw error;
  }
}

const AREAS = ['descriptor', 'driver', 'device'] as const;

/** Throws EINVAL if the table memory overlaps the ring. */
function checkApart({ ring, size, areas, tables }: DriverRingConfig, what: string): void {
  const layout = areaLayout(ring, size);
  for (const area of AREAS)
    if (areas[area] < tables.address + tables.length && tables.address < areas[area] + layout[area].bytes)
      throw new VringError('EINVAL', `${what} overlaps areas.${area} at ${areas[area]}`);
}

function copyAreas(memory: LinearMemory, { ring, size, areas }: DriverRingConfig): Uint8Array[] {
  const layout = areaLayout(ring, size);
  memory.fresh();
  return AREAS.map((area) => memory.u8.slice(areas[area], areas[area] + layout[area].bytes));
}

function pasteAreas(memory: LinearMemory, { areas }: DriverRingConfig, bytes: Uint8Array[]): void {
  memory.fresh();
  AREAS.forEach((area, index) => {
    memory.u8.set(bytes[index], areas[area]);
  });
}

function tableMemory(
  memory: IndirectOptions['memory'],
  size: number,
  take: (bytes: number, align: number) => number,
  locate: (address: number, bytes: number) => number | undefined,
): { address: number; length: number } {
  if (typeof memory === 'object' && memory !== null) {
    const address = integer(memory.address, 'indirect.memory.address', 0, 2 ** 32 - 1);
    const length = integer(memory.length, 'indirect.memory.length', 0, 2 ** 32);
    if (address % L.DESC_BYTES !== 0)
      throw new VringError(
        'EINVAL',
        `indirect.memory.address must be a multiple of ${L.DESC_BYTES}, got ${address}`,
      );
    if (locate(address, length) === undefined)
      throw new VringError('EFAULT', `indirect.memory: ${length} bytes at ${address} are outside the memory`);
    return { address, length };
  }
  const bytes =
    memory === undefined
      ? Math.min(size * TABLE_BYTES_PER_DESCRIPTOR, TABLE_BYTES_MAX)
      : integer(memory, 'indirect.memory', 0, 2 ** 32);
  return { address: bytes === 0 ? 0 : take(bytes, L.DESC_BYTES), length: bytes };
}
