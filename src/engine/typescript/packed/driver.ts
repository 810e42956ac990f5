import {
  COUNT_ADDED,
  COUNT_BYTES_IN,
  COUNT_BYTES_OUT,
  COUNT_CLAMPED,
  COUNT_COMPLETED,
  COUNT_FULL,
  COUNT_INDIRECT,
  COUNT_NOTIFIED,
  COUNT_SUPPRESSED,
  COUNT_TABLE_FAILED,
  COUNT_TABLE_HIGH_WATER,
  COUNTERS,
  DESC_BYTES,
  DESC_F_INDIRECT,
  DESC_F_NEXT,
  DESC_F_WRITE,
  EVENT_BYTES,
  FAULT_NONE,
  FAULT_USED_ID,
  FAULT_USED_ID_RANGE,
  FAULT_USED_LEN,
  RESULT_BROKEN,
  RESULT_TOO_LONG,
  RING_EVENT_FLAGS_DESC,
  RING_EVENT_FLAGS_DISABLE,
  RING_EVENT_FLAGS_ENABLE,
} from '../../../../assembly/abi/layout.js';
import type { LinearMemory } from '../../../memory.js';
import type {
  BufferState,
  DriverRing,
  DriverRingConfig,
  DriverRingState,
  Position,
  TableConfig,
} from '../../engine.js';
import { byTable } from '../../table-pages.js';
import { EVENT_WINDOW_MAX } from '../abi/event.js';
import * as Desc from '../abi/packed-desc.js';
import { behind, positionOf, slotOf, wrapOf } from '../abi/position.js';
import * as Record from '../abi/records.js';
import { eventFlags, eventOffWrap, eventStructure, flagsOf, wantsEvent } from '../abi/suppress.js';
import * as Words from '../abi/words.js';
import { granuleOf, isListed, listedName, NO_TABLE, Tables, uncached } from '../indirect/tables.js';
import { Threshold, wantsTable } from '../indirect/threshold.js';
import { NONE } from '../mm/pages.js';
import { acquire, acquireWord, publish, publishUpper } from '../order.js';
import { BaseRing } from '../ring.js';

// An imported constant is looked up in its module each time, one of this module is compiled in. So what the
// loops below need has a name here.
const NEXT = DESC_F_NEXT;
const WRITE = DESC_F_WRITE;
const INDIRECT = DESC_F_INDIRECT;
const ADDR_LOW = Desc.ADDR_LOW;
const ADDR_HIGH = Desc.ADDR_HIGH;
const LEN = Desc.LEN;
const ID_AND_FLAGS = Desc.ID_AND_FLAGS;
const FLAGS_SHIFT = Desc.FLAGS_SHIFT;
const ID = Desc.ID;
const FLAGS = Desc.FLAGS;
const SHIFT = Desc.SHIFT;
const AVAIL_USED = Desc.AVAIL_USED;
/** Bits of a used descriptor's word that decide whether it answers for one buffer and no other: id, AVAIL and USED. */
const DECISIVE = 0xffff | (AVAIL_USED << FLAGS_SHIFT);
const SEGMENT_LOW = Record.SEGMENT_LOW;
const SEGMENT_HIGH = Record.SEGMENT_HIGH;
const SEGMENT_LENGTH = Record.SEGMENT_LENGTH;
const SEGMENT_FLAGS = Record.SEGMENT_FLAGS;
const SEGMENT_SHIFT = Record.SEGMENT_SHIFT;
const SEGMENT_COUNT_SHIFT = Record.SEGMENT_COUNT_SHIFT;
const COMPLETION_TOKEN = Record.COMPLETION_TOKEN;
const COMPLETION_LENGTH = Record.COMPLETION_LENGTH;
const COMPLETION_SHIFT = Record.COMPLETION_SHIFT;
const WORD = Words.WORD;
const HEAD = Words.HEAD;

// What the driver keeps per buffer id, words id * 4 + … of `buffers`. On the JavaScript heap, so a device can
// make the driver believe nothing about a buffer. TOKEN and WRITABLE have a meaning only while it is in flight.
const BUFFER_SHIFT = 2;
/**
 * In flight: bits 0-15 the first slot, bits 16-31 the number of slots, or TABLE. Free: the id that follows in
 * the list of free ones.
 */
const LINK = 0;
const TOKEN = 1;
/** Device-writable bytes, saturated at 2^32-1: no used length can be above. */
const WRITABLE = 2;

const COUNT_SHIFT = 16;
const FIRST_SLOT = 0xffff;
/** In place of the number of slots: one, which refers to a table. */
const TABLE = 0xffff;

/** Driver side of a packed virtqueue (virtio 1.4, 2.8). */
export class PackedDriver extends BaseRing implements DriverRing {
  // Numbers start as small integers and objects never start as undefined: V8 then knows the kind of each
  // field and checks nothing on the hot path.
  numFree = 0;
  inFlight = 0;

  private readonly size: number = 0;
  private readonly eventIdx: boolean = false;
  private readonly inOrder: boolean = false;
  private readonly indirect: boolean = false;
  private readonly strict: boolean = false;
  declare private readonly areas: DriverRingConfig['areas'];

  // Where things are in memory: word indices, 32 or 16 bits wide.
  private readonly ring: number = 0; // u32
  private readonly ownOffWrap: number = 0; // u16
  private readonly ownFlags: number = 0; // u16
  private readonly deviceEvent: number = 0; // u32

  declare private readonly buffers: Uint32Array;
  declare private readonly allocator: Tables;
  declare private readonly limit: Threshold;
  private readonly tablesWord: number = 0;
  /** What is added to a local address to make one that the device finds, in two words. */
  private readonly offsetLow: number = 0;
  private readonly offsetHigh: number = 0;
  /** Name and number of segments of the table of each id, if its LINK says so. */
  declare private readonly tables: Uint32Array;

  /** Front of the list of free ids; without meaning while none is free. */
  private free = 0;
  // Between `addBurst` and its parts: record of the segment that comes next; id and flags of the burst's first
  // descriptor, which expose it; buffer of the burst for which there was no table.
  private segment = 0;
  private exposing = 0;
  private refused = -1;
  /** In-order use: id of the buffer that comes back next. */
  private oldest = 0;
  // Where the next buffer will be made available, and where the next one will be used: slot and wrap counter.
  private availSlot = 0;
  private availWrap = 1;
  private usedSlot = 0;
  private usedWrap = 1;
  /** Slots made available since the last `kickPrepare`, saturated at EVENT_WINDOW_MAX. */
  private unkicked = 0;
  /** The flags of the driver's event structure: the device cannot change them, the driver never reads them. */
  private events = RING_EVENT_FLAGS_ENABLE;
  /** In-order use: buffers of the last batch still to be handed out, and the length of its last one. */
  private batchLeft = 0;
  private batchLength = 0;
  /** No id below is in flight, as far as `detachUnused` has found. */
  private detached = 0;

  constructor(memory: LinearMemory, config: DriverRingConfig) {
    super(memory);
    const { size, areas, tables } = config;
    this.size = size;
    this.eventIdx = config.eventIdx;
    this.inOrder = config.inOrder;
    this.indirect = config.indirect;
    this.strict = config.strict;
    this.areas = areas;
    this.ring = areas.descriptor >>> 2;
    this.ownOffWrap = eventOffWrap(areas.driver);
    this.ownFlags = eventFlags(areas.driver);
    this.deviceEvent = eventStructure(areas.device);
    this.buffers = new Uint32Array(size << BUFFER_SHIFT);
    this.allocator = new Tables(config.indirect ? tables.length : 0);
    this.limit = new Threshold(config.policy, size);
    this.tablesWord = tables.address >>> 2;
    this.offsetLow = Number(BigInt.asUintN(32, config.addressOffset));
    this.offsetHigh = Number(BigInt.asUintN(32, config.addressOffset >> 32n));
    this.tables = new Uint32Array(config.indirect ? size << 1 : 0);
    this.reset();
    this.allocator.configure(config.cache);
  }

  get tableBytes(): number {
    return this.allocator.descriptors * DESC_BYTES;
  }

  get tableCount(): number {
    return this.allocator.count;
  }

  get listLength(): number {
    return this.allocator.listLength;
  }

  get tableMemory(): number {
    return this.allocator.memory;
  }

  get threshold(): DriverRing['threshold'] {
    const { value, changes, history } = this.limit;
    return { value, changes, history };
  }

  override counter(index: number): number {
    return index < COUNTERS ? this.counts[index] : this.allocator.counts[index];
  }

  override addCounter(index: number, n: number): void {
    const { counts } = this.allocator;
    if (index < COUNTERS) this.counts[index] += n;
    else if (index === COUNT_TABLE_HIGH_WATER) counts[index] = Math.max(counts[index], n);
    else counts[index] += n;
  }

  setTables(cache: TableConfig): void {
    const { tables } = this;
    for (let i = 0; i < tables.length; i += 2) tables[i] = uncached(tables[i]);
    this.allocator.configure(cache);
  }

  trimTables(length: number): void {
    this.allocator.trim(length);
    this.allocator.shrink();
  }

  get position(): Position {
    return positionOf(this.availSlot, this.availWrap);
  }

  reset(): void {
    const { memory, areas, size } = this;
    memory.fresh();
    memory.u8.fill(0, areas.descriptor, areas.descriptor + size * DESC_BYTES);
    memory.u8.fill(0, areas.driver, areas.driver + EVENT_BYTES);
    memory.u8.fill(0, areas.device, areas.device + EVENT_BYTES);
    this.forget();
    this.allocator.fill();
    this.numFree = size;
    this.inFlight = 0;
    this.free = 0;
    this.oldest = 0;
    this.availSlot = 0;
    this.availWrap = 1;
    this.usedSlot = 0;
    this.usedWrap = 1;
    this.unkicked = 0;
    this.events = RING_EVENT_FLAGS_ENABLE;
    this.batchLeft = 0;
    this.batchLength = 0;
  }

  /** No fault, nothing in flight, every id followed by the next one. */
  private forget(): void {
    const { buffers, size } = this;
    buffers.fill(0);
    for (let id = 0; id < size; id++) buffers[(id << BUFFER_SHIFT) + LINK] = this.successor(id);
    this.allocator.clear();
    this.limit.reset();
    this.detached = 0;
    this.mend();
  }

  /** The id after this one, in ring order. */
  private successor(id: number): number {
    return id + 1 === this.size ? 0 : id + 1;
  }

  // ---- Making buffers available (2.8.21) ----

  addBurst(segments: number, tokens: number, n: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    const { memory, buffers, size, ring } = this;
    memory.fresh();
    const { u16, u32 } = memory;
    const { limit } = this;
    const { hysteresis } = limit;
    const adaptive = limit.adaptive && !hysteresis;
    const { indirect, numFree: had, availSlot: burst } = this;
    const token = tokens >>> 2;
    let { numFree } = this;
    let free = this.free & HEAD;
    let slot = burst | 0;
    let wrap = this.availWrap;
    let segment = segments >>> 2;
    let exposing = 0;
    this.refused = -1;
    let bytesOut = 0;
    let full = false;
    let i = 0;
    const before = this.inRing(numFree);
    let observed = 0;
    if (adaptive && numFree === size) observed = this.observeEmpty(segment, n);
    for (;;) {
      // Buffers of one segment, as many as come in a row before the end of the ring: without a call, so that
      // nothing is loaded anew.
      const from = i;
      const ahead = slot - i;
      // The one that takes the last slot puts an adaptive threshold under stress: not in this loop.
      const end = Math.min(n, i + numFree - (adaptive ? 1 : 0), size - ahead) | 0;
      const available = Desc.availableUnder(wrap);
      for (; i < end; i++) {
        const s = (segment + ((i - from) << SEGMENT_SHIFT)) & WORD;
        const flagsCount = u32[s + SEGMENT_FLAGS]; // this side's own record
        if (flagsCount >>> SEGMENT_COUNT_SHIFT !== 1) break;
        const d = (ring + ((ahead + i) << SHIFT)) & WORD;
        const b = free << BUFFER_SHIFT;
        const length = u32[s + SEGMENT_LENGTH];
        let writable = length;
        if ((flagsCount & WRITE) === 0) {
          writable = 0;
          bytesOut += length;
        }
        buffers[b + WRITABLE] = writable;
        buffers[b + TOKEN] = u32[(token + i) & WORD];
        u32[d + ADDR_LOW] = u32[s + SEGMENT_LOW];
        u32[d + ADDR_HIGH] = u32[s + SEGMENT_HIGH];
        u32[d + LEN] = length;
        const word = free | (((flagsCount & WRITE) | available) << FLAGS_SHIFT);
        if (i !== 0) u32[d + ID_AND_FLAGS] = word;
        else exposing = word;
        free = buffers[b + LINK] & HEAD;
        buffers[b + LINK] = (1 << COUNT_SHIFT) | (ahead + i);
      }
      segment += (i - from) << SEGMENT_SHIFT;
      numFree -= i - from;
      slot = ahead + i;
      if (slot === size) {
        slot = 0;
        wrap ^= 1;
        if (i !== n) continue;
      }
      if (i === n) break;

      const count = u32[segment + SEGMENT_FLAGS] >>> SEGMENT_COUNT_SHIFT;
      // A count of 0 describes no buffer: refused like one that can never fit.
      if (count === 0 || count > size) {
        if (i === 0) return RESULT_TOO_LONG;
        break;
      }
      if (hysteresis ? numFree === 0 : adaptive && i >= observed) {
        const out = (u32[segment + SEGMENT_FLAGS] & WRITE) === 0;
        limit.observe(count, out, numFree, this.counts[COUNT_ADDED] + i);
      }
      if (numFree === 0) {
        full = true;
        break;
      }
      const table =
        indirect && i !== this.refused && wantsTable(count, limit.value, numFree, n - i, hysteresis);
      // The 2012 policy looks at each buffer before it is added.
      const alike = adaptive ? i + 1 : n;
      const at = i;
      this.free = free;
      this.numFree = numFree;
      this.availSlot = slot;
      this.availWrap = wrap;
      this.segment = segment;
      this.exposing = exposing;
      if (table) i = this.addTables(i, alike, n, token);
      if (i === at) {
        // Also where a table could not be had.
        if (count > numFree) {
          full = true;
          break;
        }
        i = this.addDirect(i, alike, n, token);
      }
      free = this.free & HEAD;
      numFree = this.numFree;
      slot = this.availSlot | 0;
      wrap = this.availWrap;
      segment = this.segment;
      exposing = this.exposing;
    }
    this.allocator.settle();
    if (full) this.counts[COUNT_FULL]++;
    if (hysteresis) {
      const now = this.inRing(numFree);
      limit.settle(now - before, now, this.counts[COUNT_ADDED] + i);
    }
    if (i === 0) return 0;
    this.unkicked = Math.min(this.unkicked + had - numFree, EVENT_WINDOW_MAX);
    this.free = free;
    this.numFree = numFree;
    this.inFlight += i;
    this.availSlot = slot;
    this.availWrap = wrap;
    this.detached = 0;
    this.counts[COUNT_ADDED] += i;
    this.counts[COUNT_BYTES_OUT] += bytesOut;
    // The device looks at no descriptor before the first one is available, and then sees all of them.
    publishUpper(this.shared, u16, u32, ring + (burst << SHIFT) + ID_AND_FLAGS, exposing);
    return i;
  }

  /** Segments of the buffers in flight, with so many slots free. */
  private inRing(numFree: number): number {
    return this.size - numFree - this.allocator.count + this.allocator.descriptors;
  }

  /** Lets the threshold see the first of `n` buffers while the ring is empty. Returns how many it has seen. */
  private observeEmpty(segment: number, n: number): number {
    const word = this.memory.u32[segment + SEGMENT_FLAGS];
    const count = word >>> SEGMENT_COUNT_SHIFT;
    if (n === 0 || count === 0 || count > this.size) return 0;
    this.limit.observe(count, (word & WRITE) === 0, this.size, this.counts[COUNT_ADDED]);
    return 1;
  }

  // The parts of `addBurst` are functions of their own, so that their loops have all registers. They move `free`,
  // `numFree`, `availSlot`, `availWrap` and `segment` on, and leave id and flags of the burst's first descriptor in
  // `exposing`.

  /**
   * Adds buffers from the i-th on, up to `end` of `n`, as lists of descriptors, as many as come in a row, have several
   * segments and are not to go through tables: the i-th, which fits, in any case. Returns the first that was not
   * added.
   */
  private addDirect(i: number, end: number, n: number, token: number): number {
    const { buffers, ring, size, indirect } = this;
    const { u32 } = this.memory;
    const { hysteresis, value } = this.limit;
    let free = this.free & HEAD;
    let slot = this.availSlot | 0;
    let available = Desc.availableUnder(this.availWrap);
    let segment = this.segment | 0;
    let left = this.numFree | 0;
    let at = i | 0;
    let bytesOut = 0;
    let count = u32[(segment + SEGMENT_FLAGS) & WORD] >>> SEGMENT_COUNT_SHIFT;
    for (;;) {
      const head = slot;
      const last = count - 1;
      let bytes = 0; // at most 32768 lengths below 2^32: the sums are exact
      let writable = 0;
      for (let s = 0; s < count; s++) {
        const r = (segment + (s << SEGMENT_SHIFT)) & WORD;
        const d = (ring + (slot << SHIFT)) & WORD;
        const length = u32[r + SEGMENT_LENGTH];
        let flags = u32[r + SEGMENT_FLAGS] & WRITE;
        bytes += length;
        if (flags !== 0) writable += length;
        u32[d + ADDR_LOW] = u32[r + SEGMENT_LOW];
        u32[d + ADDR_HIGH] = u32[r + SEGMENT_HIGH];
        u32[d + LEN] = length;
        flags |= available;
        if (s !== last) flags |= NEXT;
        const word = free | (flags << FLAGS_SHIFT);
        if ((at | s) !== 0) u32[d + ID_AND_FLAGS] = word;
        else this.exposing = word;
        if (++slot === size) {
          slot = 0;
          available ^= AVAIL_USED;
        }
      }
      const b = free << BUFFER_SHIFT;
      free = buffers[b + LINK] & HEAD;
      buffers[b + LINK] = (count << COUNT_SHIFT) | head;
      buffers[b + WRITABLE] = Math.min(writable, 0xffffffff);
      buffers[b + TOKEN] = u32[(token + at) & WORD];
      bytesOut += bytes - writable;
      segment += count << SEGMENT_SHIFT;
      left -= count;
      at++;
      if (at >= end) break;
      count = u32[(segment + SEGMENT_FLAGS) & WORD] >>> SEGMENT_COUNT_SHIFT;
      if (count < 2 || count > left || (indirect && wantsTable(count, value, left, n - at, hysteresis)))
        break;
    }
    this.counts[COUNT_BYTES_OUT] += bytesOut;
    this.free = free;
    this.numFree = left;
    this.availSlot = slot;
    this.availWrap = Desc.wrapUnder(available);
    this.segment = segment;
    return at;
  }

  /**
   * Adds buffers from the i-th on, up to `end` of `n`, that are to go through tables (2.8.7) and get one, as
   * many as come in a row. Returns the first that was not added; `refused` is the one that got none.
   */
  private addTables(i: number, end: number, n: number, token: number): number {
    const { buffers, tables, size, ring, allocator, limit, tablesWord, offsetLow, offsetHigh } = this;
    const { u32 } = this.memory;
    const { list } = allocator;
    const fits = allocator.listFits | 0;
    const { hysteresis, value } = limit;
    let free = this.free & HEAD;
    let slot = this.availSlot | 0;
    let available = Desc.availableUnder(this.availWrap);
    let segment = this.segment | 0;
    let left = this.numFree | 0;
    let at = i | 0;
    // Of tables from the list.
    let hits = 0;
    let segments = 0;
    let bytesOut = 0;
    for (; at < end && left > 0; at++) {
      const count = u32[(segment + SEGMENT_FLAGS) & WORD] >>> SEGMENT_COUNT_SHIFT;
      if (count === 0 || count > size || !wantsTable(count, value, left, n - at, hysteresis)) break;
      const granule = count <= fits ? list.pop() : NONE;
      const name = granule !== NONE ? listedName(granule) : allocator.alloc(count, Math.min(n - at, left));
      if (name === NO_TABLE) {
        this.refused = at;
        this.counts[COUNT_TABLE_FAILED]++;
        break;
      }
      const table = tablesWord + (granuleOf(name) << SHIFT);
      let bytes = 0;
      let writable = 0;
      for (let s = 0; s < count; s++) {
        const r = (segment + (s << SEGMENT_SHIFT)) & WORD;
        const d = (table + (s << SHIFT)) & WORD;
        const length = u32[r + SEGMENT_LENGTH];
        const flags = u32[r + SEGMENT_FLAGS] & WRITE;
        bytes += length;
        if (flags !== 0) writable += length;
        u32[d + ADDR_LOW] = u32[r + SEGMENT_LOW];
        u32[d + ADDR_HIGH] = u32[r + SEGMENT_HIGH];
        u32[d + LEN] = length;
        u32[d + ID_AND_FLAGS] = flags << FLAGS_SHIFT;
      }
      const d = (ring + (slot << SHIFT)) & WORD;
      // Below 2^33, so exact; the stores take it modulo 2^32.
      const address = ((table << 2) >>> 0) + offsetLow;
      u32[d + ADDR_LOW] = address;
      u32[d + ADDR_HIGH] = offsetHigh + (address > 0xffffffff ? 1 : 0);
      u32[d + LEN] = count << Desc.BYTES_SHIFT;
      const word = free | ((INDIRECT | available) << FLAGS_SHIFT);
      if (at !== 0) u32[d + ID_AND_FLAGS] = word;
      else this.exposing = word;
      const b = free << BUFFER_SHIFT;
      tables[free << 1] = name;
      tables[(free << 1) + 1] = count;
      free = buffers[b + LINK] & HEAD;
      buffers[b + LINK] = (TABLE << COUNT_SHIFT) | slot;
      buffers[b + WRITABLE] = Math.min(writable, 0xffffffff);
      buffers[b + TOKEN] = u32[(token + at) & WORD];
      bytesOut += bytes - writable;
      if (granule !== NONE) {
        hits++;
        segments += count;
      }
      segment += count << SEGMENT_SHIFT;
      left--;
      if (++slot === size) {
        slot = 0;
        available ^= AVAIL_USED;
      }
    }
    if (at !== i) {
      allocator.took(hits, segments);
      this.counts[COUNT_INDIRECT] += at - i;
      this.counts[COUNT_BYTES_OUT] += bytesOut;
      this.free = free;
      this.numFree = left;
      this.availSlot = slot;
      this.availWrap = Desc.wrapUnder(available);
      this.segment = segment;
    }
    return at;
  }

  // ---- Notifying the device (2.8.21.3) ----

  kickPrepare(): number {
    this.memory.fresh();
    const { unkicked } = this;
    this.unkicked = 0;
    // The new flags were published before, and this word is acquired after: either the device's last look at
    // its next descriptor saw the new buffers, or this look sees what the device asked for.
    const event = acquireWord(this.shared, this.memory.u32, this.deviceEvent);
    // As in a split ring: no position was passed, so whether it is the one asked for is no question.
    if (unkicked === 0 && this.eventIdx && flagsOf(event) === RING_EVENT_FLAGS_DESC) return 0;
    const wanted = wantsEvent(event, this.eventIdx, this.position, unkicked, this.size);
    this.counts[wanted ? COUNT_NOTIFIED : COUNT_SUPPRESSED]++;
    return wanted ? 1 : 0;
  }

  // ---- Taking used buffers (2.8.22) ----

  getBurst(completions: number, max: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder) return this.getInOrder(completions, max);
    const { memory, buffers, size, ring, shared } = this;
    memory.fresh();
    const { u16, u32 } = memory;
    const completion = completions >>> 2;
    const most = max | 0;
    const fast = shared ? 0 : most;
    const listed = !shared && this.allocator.listFits !== 0;
    const start = this.usedSlot;
    let { free } = this;
    let slot = this.usedSlot | 0;
    let wrap = this.usedWrap;
    let usedBits = Desc.usedUnder(wrap);
    let bytesIn = 0;
    let told = 0; // completions that the event structure knows of
    let taken = 0;
    for (;;) {
      // Direct buffers with a sound descriptor, as many as come in a row: without a call, so that nothing is
      // loaded anew. The first one that is anything else is left alone.
      for (; taken < fast; taken++) {
        const d = (ring + (slot << SHIFT)) & WORD;
        const word = u32[d + ID_AND_FLAGS];
        const id = Desc.idOf(word);
        if ((Desc.flagsOf(word) & AVAIL_USED) !== usedBits || id >= size) break;
        const b = (id & HEAD) << BUFFER_SHIFT;
        const count = buffers[b + LINK] >>> COUNT_SHIFT;
        if (count === 0 || count === TABLE) break;
        const length = u32[d + LEN];
        if (length > buffers[b + WRITABLE]) break;
        const c = (completion + (taken << COMPLETION_SHIFT)) & WORD;
        u32[c + COMPLETION_TOKEN] = buffers[b + TOKEN];
        u32[c + COMPLETION_LENGTH] = length;
        bytesIn += length;
        buffers[b + LINK] = free;
        free = id;
        // A branch, so that the processor goes on with the next slot before it knows this count.
        if (count === 1) slot++;
        else slot += count;
        if (slot >= size) {
          slot -= size;
          wrap ^= 1;
          usedBits ^= AVAIL_USED;
        }
      }
      if (taken === most) break;
      if (listed) {
        const at = taken;
        this.free = free;
        this.usedSlot = slot;
        this.usedWrap = wrap;
        taken = this.getTables(taken, most, completion);
        if (taken !== at) {
          free = this.free;
          slot = this.usedSlot | 0;
          wrap = this.usedWrap;
          usedBits = Desc.usedUnder(wrap);
          continue;
        }
      }

      // Loads that descriptor again and believes nothing of what was loaded before.
      const d = (ring + (slot << SHIFT)) & WORD;
      const flags = acquire(shared, u16, (d << 1) + FLAGS);
      if ((flags & AVAIL_USED) !== usedBits) {
        // With ENABLE the device will interrupt for whatever it uses from now on.
        if (this.events !== RING_EVENT_FLAGS_DESC || told === taken) break;
        // Published before those flags are acquired again: what comes after that look causes an interrupt.
        publish(shared, u16, this.ownOffWrap, positionOf(slot, wrap));
        told = taken;
        continue;
      }
      const id = u16[(d << 1) + ID];
      let length = u32[d + LEN];
      const b = id < size ? id << BUFFER_SHIFT : 0;
      if (id >= size || buffers[b + LINK] >>> COUNT_SHIFT === 0) {
        if (taken !== 0) break;
        if (id >= size) return this.broke(FAULT_USED_ID_RANGE, BigInt(id), BigInt(size));
        return this.broke(FAULT_USED_ID, BigInt(id), BigInt(length));
      }
      const writable = buffers[b + WRITABLE];
      if (length > writable && (flags & WRITE) === 0) length = 0;
      if (length > writable) {
        if (this.strict) {
          if (taken !== 0) break;
          return this.broke(FAULT_USED_LEN, BigInt(length), BigInt(writable));
        }
        length = writable;
        this.counts[COUNT_CLAMPED]++;
      }
      const c = completion + (taken << COMPLETION_SHIFT);
      u32[c + COMPLETION_TOKEN] = buffers[b + TOKEN];
      u32[c + COMPLETION_LENGTH] = length;
      bytesIn += length;
      slot += this.giveBack(id);
      buffers[b + LINK] = free;
      free = id;
      if (slot >= size) {
        slot -= size;
        wrap ^= 1;
        usedBits ^= AVAIL_USED;
      }
      taken++;
    }
    this.allocator.settle();
    if (taken === 0) return 0;
    if (this.events === RING_EVENT_FLAGS_DESC && told !== taken)
      publish(shared, u16, this.ownOffWrap, positionOf(slot, wrap));
    const slots = slot - start;
    this.numFree += slots > 0 ? slots : slots + size;
    this.usedSlot = slot;
    this.usedWrap = wrap;
    this.free = free;
    this.inFlight -= taken;
    this.counts[COUNT_COMPLETED] += taken;
    this.counts[COUNT_BYTES_IN] += bytesIn;
    return taken;
  }

  /**
   * Takes completions of buffers whose tables go back to the list and that have a sound descriptor, as many as come
   * in a row. In a function of its own, so that its loop has all registers; it moves `free`, `usedSlot` and
   * `usedWrap` on. Returns how many are taken then. Not in a shared memory.
   */
  private getTables(from: number, end: number, completion: number): number {
    const { buffers, tables, size, ring, allocator } = this;
    const { u32 } = this.memory;
    const { list, bound } = allocator;
    let free = this.free & HEAD;
    let slot = this.usedSlot | 0;
    let usedBits = Desc.usedUnder(this.usedWrap);
    let at = from | 0;
    let segments = 0;
    let bytesIn = 0;
    for (; at < end; at++) {
      const d = (ring + (slot << SHIFT)) & WORD;
      const word = u32[d + ID_AND_FLAGS];
      const id = Desc.idOf(word);
      if ((Desc.flagsOf(word) & AVAIL_USED) !== usedBits || id >= size) break;
      const head = id & HEAD;
      const b = head << BUFFER_SHIFT;
      const length = u32[d + LEN];
      if (buffers[b + LINK] >>> COUNT_SHIFT !== TABLE || length > buffers[b + WRITABLE]) break;
      const name = tables[head << 1];
      if (!isListed(name) || list.length >= bound) break;
      list.push(granuleOf(name));
      segments += tables[(head << 1) + 1];
      const c = (completion + (at << COMPLETION_SHIFT)) & WORD;
      u32[c + COMPLETION_TOKEN] = buffers[b + TOKEN];
      u32[c + COMPLETION_LENGTH] = length;
      bytesIn += length;
      buffers[b + LINK] = free;
      free = head;
      if (++slot === size) {
        slot = 0;
        usedBits ^= AVAIL_USED;
      }
    }
    if (at !== from) {
      allocator.returned(at - from, segments);
      this.counts[COUNT_BYTES_IN] += bytesIn;
      this.free = free;
      this.usedSlot = slot;
      this.usedWrap = usedBits === 0 ? 0 : 1;
    }
    return at;
  }

  /**
   * `getBurst` where buffers come back in order: a used descriptor completes all up to the one that it names,
   * those before it with their whole length (2.8.8). Ids are given out in turn, so no free list is needed to
   * know how many that are.
   */
  private getInOrder(completions: number, max: number): number {
    const { memory, buffers, size, ring, shared } = this;
    memory.fresh();
    const { u16, u32 } = memory;
    const completion = completions >>> 2;
    const most = max | 0;
    const fast = shared ? 0 : most;
    let { oldest, batchLeft, batchLength } = this;
    let slot = this.usedSlot | 0;
    let wrap = this.usedWrap;
    let bytesIn = 0;
    let told = 0; // completions that the event structure knows of
    let taken = 0;
    while (taken < most) {
      if (batchLeft === 0) {
        // Direct buffers with a sound descriptor of their own, as many as come in a row: without a call, so that
        // nothing is loaded anew. The first descriptor that is anything else is left alone.
        let usedBits = Desc.usedUnder(wrap);
        for (; taken < fast; taken++) {
          const d = (ring + (slot << SHIFT)) & WORD;
          const word = u32[d + ID_AND_FLAGS];
          if ((word & DECISIVE) !== (oldest | (usedBits << FLAGS_SHIFT))) break;
          const b = (oldest & HEAD) << BUFFER_SHIFT;
          const count = buffers[b + LINK] >>> COUNT_SHIFT;
          if (count === 0 || count === TABLE) break;
          const length = u32[d + LEN];
          if (length > buffers[b + WRITABLE]) break;
          const c = (completion + (taken << COMPLETION_SHIFT)) & WORD;
          u32[c + COMPLETION_TOKEN] = buffers[b + TOKEN];
          u32[c + COMPLETION_LENGTH] = length;
          bytesIn += length;
          oldest = oldest + 1 === size ? 0 : oldest + 1;
          buffers[b + LINK] = oldest;
          slot += count;
          if (slot >= size) {
            slot -= size;
            wrap ^= 1;
            usedBits ^= AVAIL_USED;
          }
        }
        if (taken === most) break;

        // Loads that descriptor again and believes nothing of what was loaded before.
        const d = (ring + (slot << SHIFT)) & WORD;
        const flags = acquire(shared, u16, (d << 1) + FLAGS);
        if ((flags & AVAIL_USED) !== usedBits) {
          if (this.events !== RING_EVENT_FLAGS_DESC || told === taken) break;
          // Published before those flags are acquired again: what comes after that look causes an interrupt.
          publish(shared, u16, this.ownOffWrap, positionOf(slot, wrap));
          told = taken;
          continue;
        }
        const id = u16[(d << 1) + ID];
        let length = u32[d + LEN];
        const b = id < size ? id << BUFFER_SHIFT : 0;
        if (id >= size || buffers[b + LINK] >>> COUNT_SHIFT === 0) {
          if (taken !== 0) break;
          if (id >= size) return this.broke(FAULT_USED_ID_RANGE, BigInt(id), BigInt(size));
          return this.broke(FAULT_USED_ID, BigInt(id), BigInt(length));
        }
        const writable = buffers[b + WRITABLE];
        if (length > writable && (flags & WRITE) === 0) length = 0;
        if (length > writable) {
          if (this.strict) {
            if (taken !== 0) break;
            return this.broke(FAULT_USED_LEN, BigInt(length), BigInt(writable));
          }
          this.counts[COUNT_CLAMPED]++;
        }
        batchLeft = id - oldest + 1;
        if (batchLeft <= 0) batchLeft += size;
        batchLength = Math.min(length, writable);
      }
      const end = Math.min(most, taken + batchLeft) | 0;
      batchLeft -= end - taken;
      let writable = 0;
      for (;;) {
        // Without a call, so that nothing is loaded anew.
        for (; taken < end; taken++) {
          const b = (oldest & HEAD) << BUFFER_SHIFT;
          const count = buffers[b + LINK] >>> COUNT_SHIFT;
          if (count === TABLE) break;
          writable = buffers[b + WRITABLE];
          const c = (completion + (taken << COMPLETION_SHIFT)) & WORD;
          u32[c + COMPLETION_TOKEN] = buffers[b + TOKEN];
          u32[c + COMPLETION_LENGTH] = writable;
          bytesIn += writable;
          slot += count;
          oldest = oldest + 1 === size ? 0 : oldest + 1;
          buffers[b + LINK] = oldest;
        }
        if (taken === end) break;
        this.giveBack(oldest);
        // What is left is a buffer of one slot.
        buffers[(oldest << BUFFER_SHIFT) + LINK] = 1 << COUNT_SHIFT;
      }
      // Those in flight have `size` slots at most, so it turns once at most.
      if (slot >= size) {
        slot -= size;
        wrap ^= 1;
      }
      if (batchLeft === 0) {
        bytesIn += batchLength - writable;
        u32[completion + ((end - 1) << COMPLETION_SHIFT) + COMPLETION_LENGTH] = batchLength;
      }
    }
    this.allocator.settle();
    if (taken === 0) return 0;
    if (this.events === RING_EVENT_FLAGS_DESC && told !== taken)
      publish(shared, u16, this.ownOffWrap, positionOf(slot, wrap));
    const slots = slot - this.usedSlot;
    this.numFree += slots > 0 ? slots : slots + size;
    this.usedSlot = slot;
    this.usedWrap = wrap;
    this.oldest = oldest;
    this.batchLeft = batchLeft;
    this.batchLength = batchLeft === 0 ? 0 : batchLength;
    this.inFlight -= taken;
    this.counts[COUNT_COMPLETED] += taken;
    this.counts[COUNT_BYTES_IN] += bytesIn;
    return taken;
  }

  /** Gives back the table of a buffer in flight, if it has one. Returns how many slots the buffer had. */
  private giveBack(id: number): number {
    const count = this.buffers[(id << BUFFER_SHIFT) + LINK] >>> COUNT_SHIFT;
    if (count !== TABLE) return count;
    this.allocator.free(this.tables[id << 1], this.tables[(id << 1) + 1]);
    return 1;
  }

  detachUnused(completion: number): number {
    this.memory.fresh();
    const { u32 } = this.memory;
    const { buffers, size } = this;
    for (let id = this.detached; id < size; id++) {
      const b = id << BUFFER_SHIFT;
      if (buffers[b + LINK] >>> COUNT_SHIFT === 0) continue;
      u32[(completion >>> 2) + COMPLETION_TOKEN] = buffers[b + TOKEN];
      u32[(completion >>> 2) + COMPLETION_LENGTH] = 0;
      this.numFree += this.giveBack(id);
      this.inFlight--;
      this.allocator.settle();
      this.batchLeft = 0;
      this.batchLength = 0;
      if (this.inOrder) {
        buffers[b + LINK] = this.successor(id);
      } else {
        buffers[b + LINK] = this.free;
        this.free = id;
      }
      this.detached = id + 1;
      return 1;
    }
    this.detached = size;
    return 0;
  }

  moreUsed(): number {
    return this.poll(positionOf(this.usedSlot, this.usedWrap));
  }

  poll(opaque: number): number {
    if (this.batchLeft !== 0) return 1;
    this.memory.fresh();
    const slot = slotOf(opaque);
    if (slot >= this.size) return 0;
    const flags = acquire(this.shared, this.memory.u16, ((this.ring + (slot << SHIFT)) << 1) + FLAGS);
    return (flags & AVAIL_USED) === Desc.usedUnder(wrapOf(opaque)) ? 1 : 0;
  }

  // ---- Callbacks (2.8.10) ----

  disableCallbacks(): void {
    this.memory.fresh();
    this.tell(RING_EVENT_FLAGS_DISABLE);
  }

  enableCallbacksPrepare(): number {
    const position = positionOf(this.usedSlot, this.usedWrap);
    this.enable(position);
    return position;
  }

  enableCallbacksDelayed(): number {
    const position = positionOf(this.usedSlot, this.usedWrap);
    const outstanding = this.size - this.numFree;
    this.enable(behind(position, (outstanding * 3) >>> 2, this.size));
    return this.poll(position) === 0 ? 1 : 0;
  }

  /**
   * Asks for a callback, with EVENT_IDX when the slot at `event` is used. Published, so that looking at a
   * descriptor afterwards misses nothing: what that look does not see yet causes a callback.
   */
  private enable(event: Position): void {
    this.memory.fresh();
    // The position first: the flags say that it is valid.
    if (this.eventIdx) publish(this.shared, this.memory.u16, this.ownOffWrap, event);
    if (this.events === RING_EVENT_FLAGS_DISABLE)
      this.tell(this.eventIdx ? RING_EVENT_FLAGS_DESC : RING_EVENT_FLAGS_ENABLE);
  }

  private tell(events: number): void {
    if (events === this.events) return;
    this.events = events;
    publish(this.shared, this.memory.u16, this.ownFlags, events);
  }

  // ---- State ----

  save(): DriverRingState {
    const { size, inOrder } = this;
    const buffers: BufferState[] = [];
    const free: number[] = [];
    // Ids are given out in turn where they come back so: those in flight end before the first free one.
    const first = inOrder ? this.free : 0;
    for (let i = 0; i < size; i++) {
      const id = (first + i) % size;
      if (this.buffers[(id << BUFFER_SHIFT) + LINK] >>> COUNT_SHIFT !== 0) buffers.push(this.buffer(id));
      else if (inOrder) free.push(id);
    }
    for (
      let id = this.free;
      free.length < size - this.inFlight;
      id = this.buffers[(id << BUFFER_SHIFT) + LINK]
    )
      free.push(id);
    return {
      avail: this.position,
      used: positionOf(this.usedSlot, this.usedWrap),
      events: this.events,
      unkicked: this.unkicked,
      free,
      buffers,
      batchLeft: this.batchLeft,
      batchLength: this.batchLength,
      threshold: this.limit.save(),
    };
  }

  private buffer(id: number): BufferState {
    const b = id << BUFFER_SHIFT;
    const link = this.buffers[b + LINK];
    const table = link >>> COUNT_SHIFT === TABLE;
    const slots = table ? 1 : link >>> COUNT_SHIFT;
    return {
      id,
      token: this.buffers[b + TOKEN],
      segments: table ? this.tables[(id << 1) + 1] : slots,
      writable: this.buffers[b + WRITABLE],
      table: table ? this.tablesWord * 4 + granuleOf(this.tables[id << 1]) * DESC_BYTES : 0,
      room: table ? this.allocator.room(this.tables[id << 1]) : 0,
      descriptors: Array.from({ length: slots }, (_, i) => ((link & FIRST_SLOT) + i) % this.size),
    };
  }

  load(state: DriverRingState): void {
    const { size, inOrder, allocator } = this;
    const { free, buffers } = state;
    this.forget();
    this.limit.load(state.threshold);
    for (const { id, table, room, segments } of byTable(buffers)) {
      const granule = (table - this.tablesWord * 4) / DESC_BYTES;
      this.tables[id << 1] = allocator.restore(granule, segments, room);
      this.tables[(id << 1) + 1] = segments;
    }
    allocator.fill();
    let slots = 0;
    for (const { id, token, writable, table, descriptors } of buffers) {
      const b = id << BUFFER_SHIFT;
      let count = descriptors.length;
      slots += count;
      if (table !== 0) count = TABLE;
      this.buffers[b + LINK] = (count << COUNT_SHIFT) | descriptors[0];
      this.buffers[b + TOKEN] = token;
      this.buffers[b + WRITABLE] = writable;
    }
    // In ring order every id keeps its successor; and with none free, the oldest one will be free next.
    if (!inOrder)
      for (let i = 1; i < free.length; i++) this.buffers[(free[i - 1] << BUFFER_SHIFT) + LINK] = free[i];
    this.free = free.length > 0 ? free[0] : buffers[0].id;
    this.oldest = buffers.length > 0 ? buffers[0].id : this.free;
    this.numFree = size - slots;
    this.inFlight = buffers.length;
    this.availSlot = slotOf(state.avail);
    this.availWrap = wrapOf(state.avail);
    this.usedSlot = slotOf(state.used);
    this.usedWrap = wrapOf(state.used);
    this.events = state.events;
    this.unkicked = state.unkicked;
    this.batchLeft = state.batchLeft;
    this.batchLength = state.batchLength;
  }
}
