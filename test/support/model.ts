import * as L from '../../assembly/abi/layout.js';
import type { PolicyConfig, TableConfig } from '../../src/engine/engine.js';
import { granuleOf, NO_TABLE, Tables, uncached } from '../../src/engine/typescript/indirect/tables.js';
import { Threshold } from '../../src/engine/typescript/indirect/threshold.js';
import {
  checkTables,
  type TableOptions,
  type TableStats,
  type ThresholdStats,
} from '../../src/queue/indirect.js';
import { PackedRules } from './packed-rules.js';
import type { Chain, Events, Rules } from './rules.js';
import { SplitRules } from './split-rules.js';

/**
 * A virtqueue in a few plain lists, written from the specification and from the choices that
 * src/engine/engine.ts fixes where the specification leaves one. No ring, no memory: buffers move from
 * list to list, indices only grow, and every operation says what a real queue must return.
 */

export interface Range {
  address: number;
  length: number;
}

/** A buffer as the test made it. Addresses are what the driver writes; the device sees them as pieces. */
export interface Buffer {
  token: number;
  out: Range[];
  in: Range[];
  /** Where the test keeps its data. */
  slot: number;
}

export const bytesOf = (ranges: Range[]): number => ranges.reduce((sum, { length }) => sum + length, 0);

export interface ModelOptions {
  ring: 'split' | 'packed';
  inOrder: boolean;
  batches: boolean;
  size: number;
  eventIdx: boolean;
  indirect: boolean;
  policy: PolicyConfig;
  tables: TableOptions;
  /** Granules of 16 bytes for indirect tables. */
  granules: number;
  /** Local pieces of a range of guest memory. */
  translate: (range: Range) => Range[];
}

/** In place of a result: the code of the VringError that is thrown. */
export class Refused {
  constructor(readonly code: string) {}
}

export const INVALID = new Refused('EINVAL');
export const NO_ROOM = new Refused('ENOSPC');

interface Placed {
  buffer: Buffer;
  chain: Chain;
  table: { name: number; count: number } | undefined;
}

interface Popped extends Placed {
  /** Filled: with a used entry that is not published yet. Gone: used, or detached. */
  state: 'popped' | 'filled' | 'gone' | 'detached';
  written: number;
}

export interface Got {
  token: number;
  length: number;
  buffer: Buffer;
}

export interface Taken {
  id: number;
  buffer: Buffer;
  out: Range[];
  in: Range[];
}

const zeroStats = () => ({
  added: 0,
  completed: 0,
  bytesOut: 0,
  bytesIn: 0,
  kicksSent: 0,
  kicksSuppressed: 0,
  interruptsSent: 0,
  interruptsSuppressed: 0,
  full: 0,
  clamped: 0,
  indirect: 0,
  tableFailed: 0,
});

export class Model {
  readonly driverStats = zeroStats();
  readonly deviceStats = zeroStats();

  private rules: Rules;
  private driverEvents: Events;
  private deviceEvents: Events;
  private tables: Tables;
  private cache: TableConfig;
  private threshold: Threshold;

  /** By head or id. */
  private readonly withDevice = new Map<number, Placed>();
  private pending: Placed[] = [];
  private popped: Popped[] = [];
  /** By the number of buffers used before it, not yet published. */
  private readonly filled = new Map<number, Popped>();
  /** `rest`: how many of its batch come after it. */
  private used: { placed: Placed; written: number; rest: number }[] = [];
  private midBatch = false;

  // Free-running indices; the ring has the lower 16 bits of them, or their slot and lap.
  private availIdx = 0;
  private availSeen = 0;
  private usedIdx = 0;
  private usedSeen = 0;
  private kicked = 0;
  private signalled = 0;
  /** Buffers published. */
  private completed = 0;

  constructor(private options: ModelOptions) {
    this.cache = checkTables(options.tables, 'tables', options.size);
    this.tables = this.newTables();
    this.threshold = new Threshold(options.policy, options.size);
    this.rules = this.newRules();
    this.driverEvents = this.rules.events();
    this.deviceEvents = this.rules.events();
  }

  private newRules(): Rules {
    return this.options.ring === 'split' ? new SplitRules(this.options) : new PackedRules(this.options);
  }

  private newTables(): Tables {
    const tables = new Tables(16 * this.options.granules);
    tables.configure(this.cache);
    return tables;
  }

  /** Tables of another ring, which goes on counting. */
  private succeed(tables: Tables): void {
    for (let i = L.COUNT_TABLE_HITS; i < L.DRIVER_COUNTERS; i++) {
      const before = this.tables.counts[i];
      if (i === L.COUNT_TABLE_HIGH_WATER) tables.counts[i] = Math.max(tables.counts[i], before);
      else tables.counts[i] += before;
    }
    this.tables = tables;
  }

  private clear(): void {
    this.rules = this.newRules();
    this.driverEvents = this.rules.events();
    this.deviceEvents = this.rules.events();
    this.withDevice.clear();
    this.pending = [];
    this.popped = [];
    this.filled.clear();
    this.used = [];
    this.midBatch = false;
    this.availIdx = this.availSeen = this.usedIdx = this.usedSeen = this.kicked = this.signalled = 0;
    this.completed = 0;
  }

  // ---- What the test chooses from ----

  get numFree(): number {
    return this.rules.numFree;
  }

  get driverInFlight(): number {
    return this.withDevice.size;
  }

  get tableBytes(): number {
    return 16 * this.tables.descriptors;
  }

  get tableStats(): TableStats {
    const { tables, cache } = this;
    const { strategy, descriptors } = cache;
    return {
      strategy,
      descriptors: strategy === 'none' ? 0 : descriptors,
      hits: tables.counts[L.COUNT_TABLE_HITS],
      misses: tables.counts[L.COUNT_TABLE_MISSES],
      refills: tables.counts[L.COUNT_TABLE_REFILLS],
      wasted: tables.counts[L.COUNT_TABLE_WASTED],
      returned: tables.counts[L.COUNT_TABLE_RETURNED],
      inFlight: [...this.withDevice.values()].filter(({ table }) => table !== undefined).length,
      length: tables.listLength,
      highWater: tables.counts[L.COUNT_TABLE_HIGH_WATER],
      memory: tables.memory,
    };
  }

  get thresholdStats(): Omit<ThresholdStats, 'policy'> {
    const { value, changes, history } = this.threshold;
    return { value, changes, history };
  }

  get deviceInFlight(): number {
    return this.popped.filter(({ state }) => state === 'popped' || state === 'filled').length;
  }

  /** Heads of the elements that the device can push, oldest first. */
  get inHand(): number[] {
    return this.popped.filter(({ state }) => state === 'popped').map(({ chain }) => chain.id);
  }

  /** Elements at the front that are gone can never be put back: forgets them. */
  private trim(): void {
    const first = this.popped.findIndex(({ state }) => state !== 'gone');
    this.popped.splice(0, first < 0 ? this.popped.length : first);
  }

  private find(id: number): Popped | undefined {
    return this.popped.find(({ state, chain }) => state === 'popped' && chain.id === id);
  }

  bufferOf(id: number): Buffer | undefined {
    return this.find(id)?.buffer;
  }

  // ---- Driver ----

  /** Segments with the device. */
  private get demand(): number {
    const buffers = [...this.withDevice.values()];
    return buffers.reduce((sum, { buffer }) => sum + buffer.out.length + buffer.in.length, 0);
  }

  private place(buffer: Buffer, done: number, left: number): Placed | undefined {
    const count = buffer.out.length + buffer.in.length;
    const { threshold } = this;
    const { numFree } = this.rules;
    if (threshold.adaptive)
      threshold.observe(count, buffer.out.length > 0, numFree, this.driverStats.added + done);
    // Those behind it in the burst are to have a descriptor each.
    const most = threshold.hysteresis ? Math.max(1, numFree - (left - 1)) : numFree;
    if (this.options.indirect && numFree > 0 && count > Math.min(threshold.value, numFree, most)) {
      const name = this.tables.alloc(count, Math.min(left, numFree));
      if (name !== NO_TABLE) {
        this.driverStats.indirect++;
        return { buffer, chain: this.rules.take(1) as Chain, table: { name, count } };
      }
      this.driverStats.tableFailed++;
    }
    const chain = this.rules.take(count);
    return chain && { buffer, chain, table: undefined };
  }

  /** How many of the buffers went in. */
  addBurst(buffers: Buffer[]): number | Refused {
    const before = this.demand;
    let added = 0;
    for (const buffer of buffers) {
      if (buffer.out.length + buffer.in.length > this.options.size) {
        if (added === 0) return INVALID;
        break;
      }
      const placed = this.place(buffer, added, buffers.length - added);
      if (!placed) {
        this.driverStats.full++;
        break;
      }
      this.withDevice.set(placed.chain.id, placed);
      this.rules.added(placed.chain, this.availIdx);
      this.availIdx += placed.chain.units;
      this.pending.push(placed);
      this.driverStats.bytesOut += bytesOf(buffer.out);
      added++;
    }
    this.tables.settle();
    this.driverStats.added += added;
    const { threshold, demand } = this;
    if (threshold.hysteresis) threshold.settle(demand - before, demand, this.driverStats.added);
    return added;
  }

  add(buffer: Buffer): boolean | Refused {
    const added = this.addBurst([buffer]);
    return typeof added === 'number' ? added === 1 : added;
  }

  kickPrepare(): boolean {
    const added = this.availIdx - this.kicked;
    this.kicked = this.availIdx;
    if (added === 0 && this.deviceEvents.silent) return false;
    const wanted = this.deviceEvents.wants(this.availIdx, added);
    if (wanted) this.driverStats.kicksSent++;
    else this.driverStats.kicksSuppressed++;
    return wanted;
  }

  private takeBack({ chain, table }: Placed): void {
    this.withDevice.delete(chain.id);
    this.rules.giveBack(chain);
    this.usedSeen += chain.units;
    if (table) this.tables.free(table.name, table.count);
  }

  getBurst(max: number): Got[] {
    const got = this.used.splice(0, max).map(({ placed, written, rest }) => {
      this.takeBack(placed);
      this.midBatch = rest > 0;
      this.driverStats.bytesIn += written;
      return { token: placed.buffer.token, length: written, buffer: placed.buffer };
    });
    this.tables.settle();
    this.driverStats.completed += got.length;
    if (got.length > 0) this.driverEvents.took(this.usedSeen);
    return got;
  }

  moreUsed(): boolean {
    return this.used.length > 0;
  }

  disableCallbacks(): void {
    this.driverEvents.disable(this.usedSeen);
  }

  enableCallbacksPrepare(): number {
    this.driverEvents.enable(this.usedSeen);
    return this.rules.position(this.usedSeen);
  }

  poll(opaque: number): boolean | Refused {
    return this.rules.poll(opaque, this.usedIdx, this.midBatch) ?? INVALID;
  }

  enableCallbacks(): boolean {
    this.enableCallbacksPrepare();
    return this.used.length === 0;
  }

  enableCallbacksDelayed(): boolean {
    const delay = this.rules.delay(this.withDevice.size);
    this.driverEvents.enable(this.usedSeen + delay);
    return !this.rules.late(this.used.length, delay);
  }

  notificationData(index: number): number {
    return index + this.rules.position(this.availIdx) * 65536;
  }

  /** Takes back what the device has, lowest head first. */
  private drain(): Buffer[] {
    const heads = [...this.withDevice.keys()].sort((a, b) => a - b);
    return heads.map((head) => {
      const { buffer, table } = this.withDevice.get(head) as Placed;
      if (table) this.tables.free(table.name, table.count);
      this.tables.settle();
      return buffer;
    });
  }

  /** Both sides as new. Returns the buffers that were in flight, lowest head first. */
  reset(): Buffer[] {
    const buffers = this.drain();
    this.clear();
    this.tables.clear();
    this.tables.fill();
    this.threshold.reset();
    return buffers;
  }

  /** As `reset`, and of another size. */
  resize(size: number): Buffer[] | Refused {
    const power = (size & (size - 1)) === 0;
    if (!Number.isInteger(size) || size < 1 || size > 32768 || (this.options.ring === 'split' && !power))
      return INVALID;
    const buffers = this.drain();
    this.options = { ...this.options, size };
    this.clear();
    this.cache = checkTables(this.options.tables, 'tables', size);
    this.succeed(this.newTables());
    this.threshold = new Threshold(this.options.policy, size);
    return buffers;
  }

  setTables(tables: TableOptions): void {
    this.options = { ...this.options, tables };
    this.cache = checkTables(tables, 'tables', this.options.size);
    for (const { table } of this.withDevice.values()) if (table) table.name = uncached(table.name);
    this.tables.configure(this.cache);
  }

  trimTables(length: number): void {
    this.tables.trim(length);
    this.tables.shrink();
  }

  /** Another ring takes over: the tables in flight are where they were, all else is free. */
  restore(): void {
    const inFlight = [...this.withDevice.values()]
      .flatMap(({ table }) => table ?? [])
      .map((table) => ({ table, room: this.tables.room(table.name), granule: granuleOf(table.name) }))
      .sort((a, b) => a.granule - b.granule);
    const tables = this.newTables();
    tables.clear();
    for (const { table, room, granule } of inFlight) table.name = tables.restore(granule, table.count, room);
    tables.fill();
    this.succeed(tables);
    const state = this.threshold.save();
    this.threshold = new Threshold(this.options.policy, this.options.size);
    this.threshold.load(state);
  }

  // ---- Device ----

  private pieces(ranges: Range[]): Range[] {
    return ranges.flatMap((range) =>
      range.length === 0 ? [{ address: 0, length: 0 }] : this.options.translate(range),
    );
  }

  popBurst(max: number, capacity: number): Taken[] | Refused {
    const taken: Taken[] = [];
    let room = capacity;
    while (taken.length < max && this.pending.length > 0) {
      const [placed] = this.pending;
      const { buffer, chain } = placed;
      const out = this.pieces(buffer.out);
      const in_ = this.pieces(buffer.in);
      room -= out.length + in_.length;
      if (room < 0) {
        if (taken.length === 0) return NO_ROOM;
        break;
      }
      this.pending.shift();
      this.popped.push({ ...placed, state: 'popped', written: 0 });
      this.availSeen += chain.units;
      this.deviceStats.added++;
      this.deviceStats.bytesOut += bytesOf(buffer.out);
      if (placed.table) this.deviceStats.indirect++;
      taken.push({ id: chain.id, buffer, out, in: in_ });
    }
    if (taken.length > 0) this.deviceEvents.took(this.availSeen);
    return taken;
  }

  fill(id: number, written: number, offset: number): undefined | Refused {
    const popped = this.find(id);
    if (!popped || written > bytesOf(popped.buffer.in)) return INVALID;
    if (!this.options.inOrder) {
      // Further ahead there may be entries that the driver has not taken yet.
      if (offset >= this.deviceInFlight || this.filled.has(this.completed + offset)) return INVALID;
      this.filled.set(this.completed + offset, popped);
    }
    popped.state = 'filled';
    popped.written = written;
    return undefined;
  }

  flush(n: number): undefined | Refused {
    if (this.options.inOrder) {
      this.complete();
      return undefined;
    }
    for (let i = 0; i < n; i++) if (!this.filled.has(this.completed + i)) return INVALID;
    for (let i = 0; i < n; i++) {
      const popped = this.filled.get(this.completed) as Popped;
      this.filled.delete(this.completed);
      this.publish([popped]);
    }
    this.trim();
    return undefined;
  }

  /** In-order use: publishes what is done, from the oldest on. */
  private complete(): void {
    let batch: Popped[] = [];
    for (const popped of this.popped) {
      if (popped.state === 'gone') continue;
      if (popped.state !== 'filled') break;
      batch.push(popped);
      // The next one may be named instead if this one is used completely.
      if (this.options.batches && popped.written === bytesOf(popped.buffer.in)) continue;
      this.publish(batch);
      batch = [];
    }
    this.publish(batch);
    this.trim();
  }

  /** One used entry, for all of these. */
  private publish(batch: Popped[]): void {
    if (batch.length > 0) this.rules.used(this.usedIdx);
    batch.forEach((popped, i) => {
      popped.state = 'gone';
      this.usedIdx += popped.chain.units;
      this.completed++;
      this.used.push({ placed: popped, written: popped.written, rest: batch.length - 1 - i });
      this.deviceStats.completed++;
      this.deviceStats.bytesIn += popped.written;
    });
  }

  push(id: number, written: number): undefined | Refused {
    return this.fill(id, written, 0) ?? this.flush(1);
  }

  /** How many were pushed before the first that cannot be. */
  pushBurst(elements: { id: number; written: number }[]): number | Refused {
    if (this.filled.size > 0) return INVALID;
    let pushed = 0;
    for (const { id, written } of elements) {
      if (this.options.inOrder ? this.fill(id, written, 0) : this.push(id, written)) break;
      pushed++;
    }
    if (this.options.inOrder && pushed > 0) this.complete();
    return pushed;
  }

  rewind(n: number): boolean {
    if (n > this.deviceInFlight) return false;
    const last = this.popped.slice(this.popped.length - n);
    if (last.some(({ state }) => state !== 'popped')) return false;
    this.popped.length -= n;
    this.pending.unshift(...last);
    for (const { chain } of last) this.availSeen -= chain.units;
    return true;
  }

  unpop(id: number): undefined | Refused {
    const last = this.popped.at(-1);
    return last?.state === 'popped' && last.chain.id === id && this.rewind(1) ? undefined : INVALID;
  }

  detach(id: number): undefined | Refused {
    const popped = this.find(id);
    if (!popped) return INVALID;
    // In order nothing passes it.
    popped.state = this.options.inOrder ? 'detached' : 'gone';
    this.trim();
    return undefined;
  }

  availableBytes(maxIn: number, maxOut: number): { in: number; out: number } {
    const sum = { in: 0, out: 0 };
    for (const { buffer } of this.pending) {
      if (sum.in >= maxIn && sum.out >= maxOut) break;
      sum.in += bytesOf(buffer.in);
      sum.out += bytesOf(buffer.out);
    }
    return sum;
  }

  shouldInterrupt(): boolean {
    const pushed = this.usedIdx - this.signalled;
    this.signalled = this.usedIdx;
    if (pushed === 0) return false;
    const wanted = this.driverEvents.wants(this.usedIdx, pushed);
    if (wanted) this.deviceStats.interruptsSent++;
    else this.deviceStats.interruptsSuppressed++;
    return wanted;
  }

  enableNotifications(): boolean {
    this.deviceEvents.enable(this.availSeen);
    return this.pending.length === 0;
  }

  disableNotifications(): void {
    this.deviceEvents.disable(this.availSeen);
  }
}
