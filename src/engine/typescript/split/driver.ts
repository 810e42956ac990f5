import {
  AVAIL_F_NO_INTERRUPT,
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
  EVENT_FAR,
  FAULT_NONE,
  FAULT_USED_BATCH,
  FAULT_USED_ID,
  FAULT_USED_ID_RANGE,
  FAULT_USED_IDX,
  FAULT_USED_LEN,
  RESULT_BROKEN,
  RESULT_TOO_LONG,
  USED_F_NO_NOTIFY,
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
import * as Avail from '../abi/avail.js';
import * as Desc from '../abi/desc.js';
import { EVENT_WINDOW_MAX, needEvent } from '../abi/event.js';
import * as Record from '../abi/records.js';
import * as Used from '../abi/used.js';
import * as Words from '../abi/words.js';
import { granuleOf, isListed, listedName, NO_TABLE, Tables, uncached } from '../indirect/tables.js';
import { Threshold, wantsTable } from '../indirect/threshold.js';
import { NONE } from '../mm/pages.js';
import { acquire, publish } from '../order.js';
import { BaseRing } from '../ring.js';

// An imported constant is looked up in its module each time, one of this module is compiled in. So what the
// loops below need has a name here.
const NEXT = DESC_F_NEXT;
const WRITE = DESC_F_WRITE;
const INDIRECT = DESC_F_INDIRECT;
const ADDR_LOW = Desc.ADDR_LOW;
const ADDR_HIGH = Desc.ADDR_HIGH;
const LEN = Desc.LEN;
const FLAGS = Desc.FLAGS;
const NEXT_SHIFT = Desc.NEXT_SHIFT;
const SHIFT = Desc.SHIFT;
const ELEM_ID = Used.ELEM_ID;
const ELEM_LEN = Used.ELEM_LEN;
const ELEM_SHIFT = Used.ELEM_SHIFT;
const COMPLETION_TOKEN = Record.COMPLETION_TOKEN;
const COMPLETION_LENGTH = Record.COMPLETION_LENGTH;
const COMPLETION_SHIFT = Record.COMPLETION_SHIFT;
const WORD = Words.WORD;
const HALF_WORD = Words.HALF_WORD;
const HEAD = Words.HEAD;

// What the driver keeps per descriptor h, words h * 4 + … of `buffers`. On the JavaScript heap, so a device
// can make the driver believe nothing about a buffer. All but LINK have a meaning only in the head of a
// buffer in flight.
const BUFFER_SHIFT = 2;
/**
 * Bits 0-15: descriptor that follows this one, in the free list and in a chain: so a chain that comes back
 * is a list. Bits 16-31: number of descriptors of the chain whose head this is, 0 if it is none.
 */
const LINK = 0;
const TOKEN = 1;
/** Device-writable bytes, saturated at 2^32-1: no used length can be above. */
const WRITABLE = 2;
/** Last descriptor, for a chain of several. */
const TAIL = 3;

const COUNT_SHIFT = 16;
const FOLLOWING = 0xffff;
/** In place of the number of descriptors: one, which refers to a table. */
const TABLE = 0xffff;

/** Driver side of a split virtqueue (virtio 1.4, 2.7). */
export class SplitDriver extends BaseRing implements DriverRing {
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

  // Where the ring's fields are: word indices, 32 or 16 bits wide.
  private readonly descTable: number = 0; // u32
  private readonly availFlags: number = 0; // u16
  private readonly availIdx: number = 0; // u16
  private readonly availRing: number = 0; // u16
  private readonly usedEvent: number = 0; // u16
  private readonly usedFlags: number = 0; // u16
  private readonly usedIdx: number = 0; // u16
  private readonly usedRing: number = 0; // u32
  private readonly availEvent: number = 0; // u16

  declare private readonly buffers: Uint32Array;
  declare private readonly allocator: Tables;
  declare private readonly limit: Threshold;
  private readonly tablesWord: number = 0;
  /** What is added to a local address to make one that the device finds, in two words. */
  private readonly offsetLow: number = 0;
  private readonly offsetHigh: number = 0;
  /** Name and number of segments of the table of each head, if its LINK says so. */
  declare private readonly tables: Uint32Array;

  /** Front of the free list; without meaning while `numFree` is 0. */
  private free = 0;
  // Between `addBurst` and its parts: record of the segment that comes next; buffer of the burst for which there
  // was no table.
  private segment = 0;
  private refused = -1;
  /** avail.idx as published: the device cannot change it, because the driver never reads it back. */
  private added = 0;
  /** used.idx up to which completions have been taken. */
  private got = 0;
  /** Buffers added since the last `kickPrepare`, saturated at EVENT_WINDOW_MAX. */
  private unkicked = 0;
  private callbacks = true;
  /** In-order use: head of the buffer that comes back next. */
  private oldest = 0;
  /** In-order use: buffers of the last batch still to be handed out, and the length of its last one. */
  private batchLeft = 0;
  private batchLength = 0;
  /** No head below is in flight, as far as `detachUnused` has found. */
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
    this.descTable = areas.descriptor >>> 2;
    this.availFlags = Avail.availFlags(areas.driver);
    this.availIdx = Avail.availIdx(areas.driver);
    this.availRing = Avail.availRing(areas.driver);
    this.usedEvent = Avail.usedEvent(areas.driver, size);
    this.usedFlags = Used.usedFlags(areas.device);
    this.usedIdx = Used.usedIdx(areas.device);
    this.usedRing = Used.usedRing(areas.device);
    this.availEvent = Used.availEvent(areas.device, size);
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
    return this.added;
  }

  reset(): void {
    const { memory, areas, size } = this;
    memory.fresh();
    memory.u8.fill(0, areas.descriptor, areas.descriptor + size * DESC_BYTES);
    memory.u8.fill(0, areas.driver, areas.driver + Avail.availBytes(size));
    memory.u8.fill(0, areas.device, areas.device + Used.usedBytes(size));
    this.forget();
    this.allocator.fill();
    this.numFree = size;
    this.inFlight = 0;
    this.free = 0;
    this.added = 0;
    this.got = 0;
    this.unkicked = 0;
    this.callbacks = true;
    this.oldest = 0;
    this.batchLeft = 0;
    this.batchLength = 0;
  }

  /** No fault, nothing in flight, every descriptor followed by the next one. */
  private forget(): void {
    const { buffers, size } = this;
    buffers.fill(0);
    for (let i = 0; i < size; i++) buffers[(i << BUFFER_SHIFT) + LINK] = this.successor(i);
    this.allocator.clear();
    this.limit.reset();
    this.detached = 0;
    this.mend();
  }

  // ---- Making buffers available (2.7.13) ----

  addBurst(segments: number, tokens: number, n: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    const { memory, buffers, size, descTable, availRing, added } = this;
    memory.fresh();
    const { u16, u32 } = memory;
    const mask = size - 1;
    const { limit } = this;
    const { hysteresis } = limit;
    const adaptive = limit.adaptive && !hysteresis;
    const { indirect } = this;
    const token = tokens >>> 2;
    let { numFree } = this;
    let free = this.free & HEAD;
    let segment = segments >>> 2;
    let bytesOut = 0;
    let full = false;
    let i = 0;
    this.refused = -1;
    const before = this.inRing(numFree);
    let observed = 0;
    if (adaptive && numFree === size) observed = this.observeEmpty(segment, n);
    for (;;) {
      // Buffers of one segment, as many as come in a row: without a call, so that nothing is loaded anew.
      const from = i;
      // The one that takes the last descriptor puts an adaptive threshold under stress: not in this loop.
      const end = Math.min(n, i + numFree - (adaptive ? 1 : 0)) | 0;
      for (; i < end; i++) {
        const s = (segment + ((i - from) << SHIFT)) & WORD;
        const flagsCount = u32[s + FLAGS]; // this side's own record: flags, and the count in the upper half
        if (flagsCount >>> 16 !== 1) break;
        const d = (descTable + (free << SHIFT)) & WORD;
        const b = free << BUFFER_SHIFT;
        const length = u32[s + LEN];
        let writable = length;
        if ((flagsCount & WRITE) === 0) {
          writable = 0;
          bytesOut += length;
        }
        buffers[b + WRITABLE] = writable;
        buffers[b + TOKEN] = u32[(token + i) & WORD];
        u32[d + ADDR_LOW] = u32[s + ADDR_LOW];
        u32[d + ADDR_HIGH] = u32[s + ADDR_HIGH];
        u32[d + LEN] = length;
        u32[d + FLAGS] = flagsCount & WRITE;
        u16[(availRing + ((added + i) & mask)) & HALF_WORD] = free;
        free = buffers[b + LINK] & HEAD;
        buffers[b + LINK] = 1 << COUNT_SHIFT;
      }
      segment += (i - from) << SHIFT;
      numFree -= i - from;
      if (i === n) break;

      const count = u32[segment + FLAGS] >>> 16;
      // A count of 0 describes no buffer: refused like one that can never fit.
      if (count === 0 || count > size) {
        if (i === 0) return RESULT_TOO_LONG;
        break;
      }
      if (hysteresis ? numFree === 0 : adaptive && i >= observed) {
        const out = (u32[segment + FLAGS] & WRITE) === 0;
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
      this.segment = segment;
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
      segment = this.segment;
    }
    this.allocator.settle();
    if (full) this.counts[COUNT_FULL]++;
    if (hysteresis) {
      const now = this.inRing(numFree);
      limit.settle(now - before, now, this.counts[COUNT_ADDED] + i);
    }
    if (i === 0) return 0;
    this.free = free;
    this.numFree = numFree;
    this.inFlight += i;
    this.added = (added + i) & 0xffff;
    this.detached = 0;
    this.unkicked = Math.min(this.unkicked + i, EVENT_WINDOW_MAX);
    this.counts[COUNT_ADDED] += i;
    this.counts[COUNT_BYTES_OUT] += bytesOut;
    // The device sees the descriptors and ring entries above before the index that exposes them.
    publish(this.shared, u16, this.availIdx, this.added);
    return i;
  }

  /** Segments of the buffers in flight, with so many descriptors free. */
  private inRing(numFree: number): number {
    return this.size - numFree - this.allocator.count + this.allocator.descriptors;
  }

  /** Lets the threshold see the first of `n` buffers while the ring is empty. Returns how many it has seen. */
  private observeEmpty(segment: number, n: number): number {
    const word = this.memory.u32[segment + FLAGS];
    const count = word >>> 16;
    if (n === 0 || count === 0 || count > this.size) return 0;
    this.limit.observe(count, (word & WRITE) === 0, this.size, this.counts[COUNT_ADDED]);
    return 1;
  }

  // The parts of `addBurst` are functions of their own, so that their loops have all registers. They move `free`,
  // `numFree` and `segment` on.

  /**
   * Adds buffers from the i-th on, up to `end` of `n`, as chains of descriptors, as many as come in a row, have
   * several segments and are not to go through tables: the i-th, which fits, in any case. Returns the first that was
   * not added.
   */
  private addDirect(i: number, end: number, n: number, token: number): number {
    const { buffers, descTable, availRing, added, size, indirect } = this;
    const { u16, u32 } = this.memory;
    const { hysteresis, value } = this.limit;
    const mask = size - 1;
    let free = this.free & HEAD;
    let segment = this.segment | 0;
    let left = this.numFree | 0;
    let at = i | 0;
    let bytesOut = 0;
    let count = u32[(segment + FLAGS) & WORD] >>> 16;
    for (;;) {
      const head = free;
      const last = count - 1;
      let bytes = 0; // at most 32768 lengths below 2^32: the sums are exact
      let writable = 0;
      for (let s = 0; ; s++) {
        const r = (segment + (s << SHIFT)) & WORD;
        const d = (descTable + (free << SHIFT)) & WORD;
        const length = u32[r + LEN];
        const write = u32[r + FLAGS] & WRITE;
        bytes += length;
        if (write !== 0) writable += length;
        u32[d + ADDR_LOW] = u32[r + ADDR_LOW];
        u32[d + ADDR_HIGH] = u32[r + ADDR_HIGH];
        u32[d + LEN] = length;
        if (s === last) {
          u32[d + FLAGS] = write;
          break;
        }
        free = buffers[(free << BUFFER_SHIFT) + LINK] & HEAD;
        u32[d + FLAGS] = write | NEXT | (free << NEXT_SHIFT);
      }
      const b = head << BUFFER_SHIFT;
      const tail = free;
      free = buffers[(tail << BUFFER_SHIFT) + LINK] & HEAD;
      buffers[b + LINK] |= count << COUNT_SHIFT;
      buffers[b + TAIL] = tail;
      buffers[b + WRITABLE] = Math.min(writable, 0xffffffff);
      buffers[b + TOKEN] = u32[(token + at) & WORD];
      u16[(availRing + ((added + at) & mask)) & HALF_WORD] = head;
      bytesOut += bytes - writable;
      segment += count << SHIFT;
      left -= count;
      at++;
      if (at >= end) break;
      count = u32[(segment + FLAGS) & WORD] >>> 16;
      if (count < 2 || count > left || (indirect && wantsTable(count, value, left, n - at, hysteresis)))
        break;
    }
    this.counts[COUNT_BYTES_OUT] += bytesOut;
    this.free = free;
    this.numFree = left;
    this.segment = segment;
    return at;
  }

  /**
   * Adds buffers from the i-th on, up to `end` of `n`, that are to go through tables (2.7.5.3) and get one, as many as
   * come in a row. Returns the first that was not added; `refused` is the one that got none.
   */
  private addTables(i: number, end: number, n: number, token: number): number {
    const { buffers, tables, size, descTable, availRing, added, allocator, limit } = this;
    const { tablesWord, offsetLow, offsetHigh } = this;
    const { u16, u32 } = this.memory;
    const { list } = allocator;
    const fits = allocator.listFits | 0;
    const { hysteresis, value } = limit;
    const mask = size - 1;
    let free = this.free & HEAD;
    let segment = this.segment | 0;
    let left = this.numFree | 0;
    let at = i | 0;
    // Of tables from the list.
    let hits = 0;
    let segments = 0;
    let bytesOut = 0;
    for (; at < end && left > 0; at++) {
      const count = u32[(segment + FLAGS) & WORD] >>> 16;
      if (count === 0 || count > size || !wantsTable(count, value, left, n - at, hysteresis)) break;
      const granule = count <= fits ? list.pop() : NONE;
      const name = granule !== NONE ? listedName(granule) : allocator.alloc(count, Math.min(n - at, left));
      if (name === NO_TABLE) {
        this.refused = at;
        this.counts[COUNT_TABLE_FAILED]++;
        break;
      }
      const table = tablesWord + (granuleOf(name) << SHIFT);
      const last = count - 1;
      let bytes = 0;
      let writable = 0;
      for (let s = 0; s < count; s++) {
        const r = (segment + (s << SHIFT)) & WORD;
        const d = (table + (s << SHIFT)) & WORD;
        const length = u32[r + LEN];
        let flagsNext = u32[r + FLAGS] & WRITE;
        bytes += length;
        if (flagsNext !== 0) writable += length;
        u32[d + ADDR_LOW] = u32[r + ADDR_LOW];
        u32[d + ADDR_HIGH] = u32[r + ADDR_HIGH];
        u32[d + LEN] = length;
        if (s !== last) flagsNext |= NEXT | ((s + 1) << NEXT_SHIFT);
        u32[d + FLAGS] = flagsNext;
      }
      const d = (descTable + (free << SHIFT)) & WORD;
      // Below 2^33, so exact; the stores take it modulo 2^32.
      const address = ((table << 2) >>> 0) + offsetLow;
      u32[d + ADDR_LOW] = address;
      u32[d + ADDR_HIGH] = offsetHigh + (address > 0xffffffff ? 1 : 0);
      u32[d + LEN] = count << Desc.BYTES_SHIFT;
      u32[d + FLAGS] = INDIRECT;
      const b = free << BUFFER_SHIFT;
      tables[free << 1] = name;
      tables[(free << 1) + 1] = count;
      u16[(availRing + ((added + at) & mask)) & HALF_WORD] = free;
      free = buffers[b + LINK] & HEAD;
      buffers[b + LINK] = TABLE << COUNT_SHIFT;
      buffers[b + WRITABLE] = Math.min(writable, 0xffffffff);
      buffers[b + TOKEN] = u32[(token + at) & WORD];
      bytesOut += bytes - writable;
      if (granule !== NONE) {
        hits++;
        segments += count;
      }
      segment += count << SHIFT;
      left--;
    }
    if (at !== i) {
      allocator.took(hits, segments);
      this.counts[COUNT_INDIRECT] += at - i;
      this.counts[COUNT_BYTES_OUT] += bytesOut;
      this.free = free;
      this.numFree = left;
      this.segment = segment;
    }
    return at;
  }

  // ---- Notifying the device (2.7.10, 2.7.13.4) ----

  kickPrepare(): number {
    this.memory.fresh();
    const { u16 } = this.memory;
    const { unkicked } = this;
    this.unkicked = 0;
    // avail.idx was published before, and these words are acquired after: either the device's last look at
    // avail.idx saw the new buffers, or this look sees what the device asked for.
    let wanted: boolean;
    if (this.eventIdx) {
      if (unkicked === 0) return 0;
      wanted = needEvent(acquire(this.shared, u16, this.availEvent), this.added, unkicked);
    } else {
      wanted = (acquire(this.shared, u16, this.usedFlags) & USED_F_NO_NOTIFY) === 0;
    }
    this.counts[wanted ? COUNT_NOTIFIED : COUNT_SUPPRESSED]++;
    return wanted ? 1 : 0;
  }

  // ---- Taking used buffers (2.7.8, 2.7.14) ----

  getBurst(completions: number, max: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder) return this.getInOrder(completions, max);
    const { memory, buffers, size, usedRing, shared } = this;
    memory.fresh();
    const { u16, u32 } = memory;
    const mask = size - 1;
    const start = this.got;
    const completion = completions >>> 2;
    const listed = this.allocator.listFits !== 0;
    let { free, numFree } = this;
    let bytesIn = 0;
    let taken = 0;
    let fault = FAULT_NONE;
    while (fault === FAULT_NONE && taken < max) {
      const idx = acquire(shared, u16, this.usedIdx);
      const ready = (idx - start - taken) & 0xffff;
      if (ready === 0) break;
      if (ready > this.inFlight - taken) {
        if (taken === 0) return this.broke(FAULT_USED_IDX, BigInt(idx), BigInt(start));
        break;
      }
      const end = Math.min(max, taken + ready) | 0;
      for (;;) {
        // Direct buffers with a sound entry, as many as come in a row: without a call, so that nothing is
        // loaded anew. The first entry that is anything else is left alone.
        for (; taken < end; taken++) {
          const e = (usedRing + (((start + taken) & mask) << ELEM_SHIFT)) & WORD;
          const id = u32[e + ELEM_ID];
          const length = u32[e + ELEM_LEN];
          if (id > mask) break; // all 32 bits of it
          const head = id & HEAD;
          const b = head << BUFFER_SHIFT;
          const link = buffers[b + LINK];
          const count = link >>> COUNT_SHIFT;
          if (length > buffers[b + WRITABLE]) break;
          if (count === 1) {
            buffers[b + LINK] = free;
          } else {
            if (count === 0 || count === TABLE) break;
            buffers[b + LINK] = link & FOLLOWING;
            buffers[((buffers[b + TAIL] & HEAD) << BUFFER_SHIFT) + LINK] = free;
          }
          const c = (completion + (taken << COMPLETION_SHIFT)) & WORD;
          u32[c + COMPLETION_TOKEN] = buffers[b + TOKEN];
          u32[c + COMPLETION_LENGTH] = length;
          bytesIn += length;
          free = head;
          numFree += count;
        }
        if (taken === end) break;
        if (listed) {
          this.free = free;
          const now = this.getTables(taken, end, completion);
          free = this.free;
          numFree += now - taken;
          if (now !== taken) {
            taken = now;
            continue;
          }
        }

        // Loads that entry again and believes nothing of what was loaded before.
        const e = usedRing + (((start + taken) & mask) << ELEM_SHIFT);
        const id = u32[e + ELEM_ID];
        let length = u32[e + ELEM_LEN];
        const b = id < size ? id << BUFFER_SHIFT : 0;
        if (id >= size || buffers[b + LINK] >>> COUNT_SHIFT === 0) {
          fault = id < size ? FAULT_USED_ID : FAULT_USED_ID_RANGE;
          if (taken === 0) return this.broke(fault, BigInt(id), BigInt(id < size ? length : size));
          break;
        }
        const writable = buffers[b + WRITABLE];
        if (length > writable) {
          if (this.strict) {
            fault = FAULT_USED_LEN;
            if (taken === 0) return this.broke(fault, BigInt(length), BigInt(writable));
            break;
          }
          length = writable;
          this.counts[COUNT_CLAMPED]++;
        }
        const c = completion + (taken << COMPLETION_SHIFT);
        u32[c + COMPLETION_TOKEN] = buffers[b + TOKEN];
        u32[c + COMPLETION_LENGTH] = length;
        bytesIn += length;
        numFree += this.giveBack(id, free);
        free = id;
        taken++;
      }
      // Without EVENT_IDX the flag says enough: a device that finishes more will interrupt.
      if (!this.eventIdx || !this.callbacks) break;
      // Published before used.idx is acquired again: what comes after that look causes an interrupt.
      if (taken !== 0) publish(shared, u16, this.usedEvent, (start + taken) & 0xffff);
    }
    this.allocator.settle();
    if (taken === 0) return 0;
    this.got = (start + taken) & 0xffff;
    this.free = free;
    this.numFree = numFree;
    this.inFlight -= taken;
    this.counts[COUNT_COMPLETED] += taken;
    this.counts[COUNT_BYTES_IN] += bytesIn;
    return taken;
  }

  /**
   * Takes completions of buffers whose tables go back to the list and that have a sound entry, as many as come in
   * a row; in a function of its own as `addTables`. Returns the first that was not taken; `free` becomes the last
   * one's head.
   */
  private getTables(from: number, end: number, completion: number): number {
    const { buffers, tables, size, usedRing, got, allocator } = this;
    const { u32 } = this.memory;
    const { list, bound } = allocator;
    const mask = size - 1;
    let free = this.free & HEAD;
    let at = from | 0;
    let segments = 0;
    let bytesIn = 0;
    for (; at < end; at++) {
      const e = (usedRing + (((got + at) & mask) << ELEM_SHIFT)) & WORD;
      const id = u32[e + ELEM_ID];
      const length = u32[e + ELEM_LEN];
      if (id > mask) break;
      const head = id & HEAD;
      const b = head << BUFFER_SHIFT;
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
    }
    if (at !== from) {
      allocator.returned(at - from, segments);
      this.counts[COUNT_BYTES_IN] += bytesIn;
      this.free = free;
    }
    return at;
  }

  /**
   * `getBurst` where buffers come back in order: a used entry completes all up to the one that it names, those
   * before it with their whole length (2.7.9).
   */
  private getInOrder(completions: number, max: number): number {
    const { memory, buffers, tables, size, usedRing, shared } = this;
    memory.fresh();
    const { u16, u32 } = memory;
    const mask = size - 1;
    const start = this.got;
    const most = max | 0;
    const completion = completions >>> 2;
    const telling = this.eventIdx && this.callbacks;
    let { oldest, batchLeft, batchLength } = this;
    let ready = 0; // buffers that used.idx covers and no batch yet
    let free = 0;
    let bytesIn = 0;
    let told = 0; // completions that used_event knows of
    let taken = 0;
    // Descriptors of the last buffer: as long as others have as many, the processor knows the next head before
    // it knows a count.
    let step = 1;
    while (taken < most) {
      if (batchLeft === 0) {
        if (ready === 0) {
          const idx = acquire(shared, u16, this.usedIdx);
          ready = (idx - start - taken) & 0xffff;
          if (ready === 0) {
            if (!telling || told === taken) break;
            // Published before used.idx is acquired again: what comes after that look causes an interrupt.
            publish(shared, u16, this.usedEvent, (start + taken) & 0xffff);
            told = taken;
            continue;
          }
          if (ready > this.inFlight - taken) {
            if (taken === 0) return this.broke(FAULT_USED_IDX, BigInt(idx), BigInt(start));
            break;
          }
          // Direct buffers with a sound entry of their own, as many as come in a row: without a call, so that
          // nothing is loaded anew. The first entry that is anything else is left alone.
          const from = taken;
          const last = Math.min(most, taken + ready) | 0;
          for (; taken < last; taken++) {
            const u = (usedRing + (((start + taken) & mask) << ELEM_SHIFT)) & WORD;
            const length = u32[u + ELEM_LEN];
            if (u32[u + ELEM_ID] !== oldest) break;
            const b = (oldest & HEAD) << BUFFER_SHIFT;
            const count = buffers[b + LINK] >>> COUNT_SHIFT;
            if (count === 0 || count === TABLE || length > buffers[b + WRITABLE]) break;
            const c = (completion + (taken << COMPLETION_SHIFT)) & WORD;
            u32[c + COMPLETION_TOKEN] = buffers[b + TOKEN];
            u32[c + COMPLETION_LENGTH] = length;
            bytesIn += length;
            buffers[b + LINK] = (oldest + 1) & mask;
            free += count;
            oldest = (oldest + count) & mask;
          }
          ready -= taken - from;
          if (taken !== from) continue;
        }
        const u = (usedRing + (((start + taken) & mask) << ELEM_SHIFT)) & WORD;
        const id = u32[u + ELEM_ID];
        const length = u32[u + ELEM_LEN];
        const b = id < size ? id << BUFFER_SHIFT : 0;
        if (id >= size || buffers[b + LINK] >>> COUNT_SHIFT === 0) {
          if (taken !== 0) break;
          if (id >= size) return this.broke(FAULT_USED_ID_RANGE, BigInt(id), BigInt(size));
          return this.broke(FAULT_USED_ID, BigInt(id), BigInt(length));
        }
        const batch = this.batch(oldest, id, ready);
        if (batch === 0) {
          if (taken !== 0) break;
          return this.broke(FAULT_USED_BATCH, BigInt(id), BigInt(ready));
        }
        const writable = buffers[b + WRITABLE];
        if (length > writable) {
          if (this.strict) {
            if (taken !== 0) break;
            return this.broke(FAULT_USED_LEN, BigInt(length), BigInt(writable));
          }
          this.counts[COUNT_CLAMPED]++;
        }
        ready -= batch;
        batchLeft = batch;
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
          if (count !== step) {
            if (count === TABLE) break;
            step = count;
          }
          writable = buffers[b + WRITABLE];
          const c = (completion + (taken << COMPLETION_SHIFT)) & WORD;
          u32[c + COMPLETION_TOKEN] = buffers[b + TOKEN];
          u32[c + COMPLETION_LENGTH] = writable;
          bytesIn += writable;
          buffers[b + LINK] = (oldest + 1) & mask;
          free += step;
          oldest = (oldest + step) & mask;
        }
        if (taken === end) break;
        this.allocator.free(tables[oldest << 1], tables[(oldest << 1) + 1]);
        // What is left is a buffer of one descriptor.
        buffers[(oldest << BUFFER_SHIFT) + LINK] = 1 << COUNT_SHIFT;
      }
      if (batchLeft === 0) {
        bytesIn += batchLength - writable;
        u32[completion + ((end - 1) << COMPLETION_SHIFT) + COMPLETION_LENGTH] = batchLength;
      }
    }
    this.allocator.settle();
    if (taken === 0) return 0;
    const position = (start + taken) & 0xffff;
    if (telling && told !== taken) publish(shared, u16, this.usedEvent, position);
    this.got = position;
    this.oldest = oldest;
    this.batchLeft = batchLeft;
    this.batchLength = batchLeft === 0 ? 0 : batchLength;
    this.numFree += free;
    this.inFlight -= taken;
    this.counts[COUNT_COMPLETED] += taken;
    this.counts[COUNT_BYTES_IN] += bytesIn;
    return taken;
  }

  /**
   * In-order use: how many buffers there are from the one of head `from` up to the one of head `to`, both in
   * flight; 0 if more than `most`.
   */
  private batch(from: number, to: number, most: number): number {
    const { buffers, size } = this;
    const mask = size - 1;
    let n = 1;
    if (this.inFlight + this.numFree === size) {
      // The usual case: nobody in flight has more than one descriptor.
      n += (to - from) & mask;
      return n <= most ? n : 0;
    }
    let step = 1;
    for (let at = from; at !== to; n++) {
      if (n === most) return 0;
      const count = buffers[((at & HEAD) << BUFFER_SHIFT) + LINK] >>> COUNT_SHIFT;
      // A branch, so that the processor goes on with the next head before it knows this count.
      if (count !== step) step = count === TABLE ? 1 : count;
      at = (at + step) & mask;
    }
    return n;
  }

  /** `giveBack` where the free list is the ring itself: every descriptor keeps the one that follows it. */
  private leave(head: number): number {
    const count = this.descriptorsOf(head);
    if (this.buffers[(head << BUFFER_SHIFT) + LINK] >>> COUNT_SHIFT === TABLE)
      this.allocator.free(this.tables[head << 1], this.tables[(head << 1) + 1]);
    this.buffers[(head << BUFFER_SHIFT) + LINK] = this.successor(head);
    return count;
  }

  /** How many descriptors the buffer of `head` takes. */
  private descriptorsOf(head: number): number {
    const count = this.buffers[(head << BUFFER_SHIFT) + LINK] >>> COUNT_SHIFT;
    return count === TABLE ? 1 : count;
  }

  /** The descriptor after this one, in ring order. */
  private successor(index: number): number {
    return (index + 1) & (this.size - 1);
  }

  /**
   * Puts the descriptors of the buffer of `head` in front of the free list that starts at `free`, and gives
   * back its table. Returns how many descriptors that were.
   */
  private giveBack(head: number, free: number): number {
    const { buffers } = this;
    const b = head << BUFFER_SHIFT;
    const link = buffers[b + LINK];
    const count = link >>> COUNT_SHIFT;
    if (count === 1 || count === TABLE) {
      buffers[b + LINK] = free;
      if (count === TABLE) this.allocator.free(this.tables[head << 1], this.tables[(head << 1) + 1]);
      return 1;
    }
    buffers[b + LINK] = link & FOLLOWING;
    buffers[(buffers[b + TAIL] << BUFFER_SHIFT) + LINK] = free;
    return count;
  }

  moreUsed(): number {
    return this.poll(this.got);
  }

  detachUnused(completion: number): number {
    this.memory.fresh();
    const { buffers, size } = this;
    for (let head = this.detached; head < size; head++) {
      const b = head << BUFFER_SHIFT;
      if (buffers[b + LINK] >>> COUNT_SHIFT === 0) continue;
      const { u32 } = this.memory;
      const c = completion >>> 2;
      u32[c + COMPLETION_TOKEN] = buffers[b + TOKEN];
      u32[c + COMPLETION_LENGTH] = 0;
      if (this.inOrder) {
        this.numFree += this.leave(head);
        this.batchLeft = 0;
        this.batchLength = 0;
      } else {
        this.numFree += this.giveBack(head, this.free);
        this.free = head;
      }
      this.inFlight--;
      this.allocator.settle();
      this.detached = head + 1;
      return 1;
    }
    this.detached = size;
    return 0;
  }

  // ---- Callbacks (2.7.7) ----

  disableCallbacks(): void {
    this.memory.fresh();
    const { u16 } = this.memory;
    this.callbacks = false;
    if (this.eventIdx) publish(this.shared, u16, this.usedEvent, (this.got + EVENT_FAR) & 0xffff);
    else publish(this.shared, u16, this.availFlags, AVAIL_F_NO_INTERRUPT);
  }

  enableCallbacksPrepare(): number {
    this.enable(this.got);
    return this.got;
  }

  poll(opaque: number): number {
    this.memory.fresh();
    return acquire(this.shared, this.memory.u16, this.usedIdx) !== (opaque & 0xffff) ? 1 : 0;
  }

  enableCallbacksDelayed(): number {
    // inFlight is at most 32768, so three quarters of it stay far from wrapping.
    const enough = (this.inFlight * 3) >>> 2;
    this.enable((this.got + enough) & 0xffff);
    const come = (acquire(this.shared, this.memory.u16, this.usedIdx) - this.got) & 0xffff;
    return come > enough ? 0 : 1;
  }

  /**
   * Asks for a callback when used.idx passes `event`. Published, so that looking at used.idx afterwards
   * misses nothing: what that look does not see yet causes a callback.
   */
  private enable(event: number): void {
    this.memory.fresh();
    this.callbacks = true;
    if (this.eventIdx) publish(this.shared, this.memory.u16, this.usedEvent, event);
    else publish(this.shared, this.memory.u16, this.availFlags, 0);
  }

  // ---- State ----

  save(): DriverRingState {
    const { size, inOrder } = this;
    const buffers: BufferState[] = [];
    const free: number[] = inOrder ? [] : this.following(this.free, this.numFree);
    // Descriptors are taken in turn where they come back so: those in flight end before the first free one.
    const first = inOrder ? this.free : 0;
    for (let i = 0; i < size; ) {
      const head = (first + i) & (size - 1);
      const count = this.descriptorsOf(head);
      if (count !== 0) buffers.push(this.buffer(head));
      else if (inOrder) free.push(head);
      // Those behind the head are no heads, and not free.
      i += inOrder ? Math.max(1, count) : 1;
    }
    return {
      avail: this.added,
      used: this.got,
      events: this.callbacks ? 1 : 0,
      unkicked: this.unkicked,
      free,
      buffers,
      batchLeft: this.batchLeft,
      batchLength: this.batchLength,
      threshold: this.limit.save(),
    };
  }

  private buffer(head: number): BufferState {
    const b = head << BUFFER_SHIFT;
    const count = this.descriptorsOf(head);
    const table = this.buffers[b + LINK] >>> COUNT_SHIFT === TABLE;
    return {
      id: head,
      token: this.buffers[b + TOKEN],
      segments: table ? this.tables[(head << 1) + 1] : count,
      writable: this.buffers[b + WRITABLE],
      table: table ? this.tablesWord * 4 + granuleOf(this.tables[head << 1]) * DESC_BYTES : 0,
      room: table ? this.allocator.room(this.tables[head << 1]) : 0,
      descriptors: this.following(head, count),
    };
  }

  /** `count` descriptors, from this one on. */
  private following(index: number, count: number): number[] {
    const list: number[] = [];
    for (let at = index; list.length < count; at = this.buffers[(at << BUFFER_SHIFT) + LINK] & FOLLOWING)
      list.push(at);
    return list;
  }

  load(state: DriverRingState): void {
    const { buffers: words, allocator } = this;
    const { free, buffers } = state;
    this.forget();
    this.limit.load(state.threshold);
    for (const { id, table, room, segments } of byTable(buffers)) {
      const granule = (table - this.tablesWord * 4) / DESC_BYTES;
      this.tables[id << 1] = allocator.restore(granule, segments, room);
      this.tables[(id << 1) + 1] = segments;
    }
    allocator.fill();
    const link = (list: number[]) => {
      for (let i = 1; i < list.length; i++) words[(list[i - 1] << BUFFER_SHIFT) + LINK] = list[i];
    };
    let taken = 0;
    for (const { id, token, writable, table, descriptors } of buffers) {
      const b = id << BUFFER_SHIFT;
      let count = descriptors.length;
      taken += count;
      link(descriptors);
      if (table !== 0) count = TABLE;
      words[b + LINK] |= count << COUNT_SHIFT;
      words[b + TOKEN] = token;
      words[b + WRITABLE] = writable;
      words[b + TAIL] = descriptors[descriptors.length - 1];
    }
    link(free);
    // In-order use, with none free: the oldest one will be free next.
    this.free = free.length > 0 ? free[0] : buffers[0].id;
    this.oldest = buffers.length > 0 ? buffers[0].id : this.free;
    this.numFree = this.size - taken;
    this.inFlight = buffers.length;
    this.added = state.avail;
    this.got = state.used;
    this.callbacks = state.events !== 0;
    this.unkicked = state.unkicked;
    this.batchLeft = state.batchLeft;
    this.batchLength = state.batchLength;
  }
}
