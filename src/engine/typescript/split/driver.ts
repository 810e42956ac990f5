import {
  AVAIL_F_NO_INTERRUPT,
  COMPLETION_BYTES,
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
  DESC_BYTES,
  DESC_F_INDIRECT,
  DESC_F_WRITE,
  EVENT_FAR,
  FAULT_NONE,
  FAULT_USED_ID,
  FAULT_USED_ID_RANGE,
  FAULT_USED_IDX,
  FAULT_USED_LEN,
  RESULT_BROKEN,
  RESULT_TOO_LONG,
  USED_F_NO_NOTIFY,
} from '../../../../assembly/abi/layout.js';
import type { LinearMemory } from '../../../memory.js';
import type { DriverRing, DriverRingConfig } from '../../engine.js';
import { availBytes, availFlags, availIdx, availRing, usedEvent } from '../abi/avail.js';
import { chained, DESC_WORDS, desc } from '../abi/desc.js';
import { EVENT_WINDOW_MAX, needEvent } from '../abi/event.js';
import { availEvent, usedBytes, usedElem, usedFlags, usedIdx, usedRing } from '../abi/used.js';
import { Granules } from '../mm/granules.js';
import { acquire, publish } from '../order.js';
import { BaseRing } from '../ring.js';

// What the driver knows of the buffer whose head is descriptor h: words h * 4 + … of `buffers`. On the
// JavaScript heap, so a device can make the driver believe nothing about a buffer.
const TOKEN = 0;
/** Device-writable bytes, saturated at 2^32-1: no used length can be above. */
const WRITABLE = 1;
/** Last descriptor of the chain (bits 16-31), number of its descriptors (bits 0-15); 0: no buffer. */
const CHAIN = 2;
/** First granule of the indirect table plus 1; 0: none. */
const TABLE = 3;
const BUFFER_SHIFT = 2;

/** Driver side of a split virtqueue (virtio 1.4, 2.7). */
export class SplitDriver extends BaseRing implements DriverRing {
  numFree: number;
  inFlight = 0;

  private readonly size: number;
  private readonly eventIdx: boolean;
  private readonly indirect: boolean;
  private readonly strict: boolean;
  private readonly areas: DriverRingConfig['areas'];

  // Where the ring's fields are: word indices, 32 or 16 bits wide.
  private readonly descTable: number; // u32
  private readonly availFlags: number; // u16
  private readonly availIdx: number; // u16
  private readonly availRing: number; // u16
  private readonly usedEvent: number; // u16
  private readonly usedFlags: number; // u16
  private readonly usedIdx: number; // u16
  private readonly usedRing: number; // u32
  private readonly availEvent: number; // u16

  private readonly buffers: Uint32Array;
  /** Following descriptor, in the free list and in a chain in flight: a chain that comes back is a list. */
  private readonly next: Uint16Array;
  private readonly granules: Granules;
  private readonly tablesWord: number;
  /** Descriptors of the table of each head. */
  private readonly tableLength: Uint16Array;

  /** Front of the free list; without meaning while `numFree` is 0. */
  private free = 0;
  /** avail.idx as published: the device cannot change it, because the driver never reads it back. */
  private added = 0;
  /** used.idx up to which completions have been taken. */
  private position = 0;
  /** Buffers added since the last `kickPrepare`, saturated at EVENT_WINDOW_MAX. */
  private unkicked = 0;
  private callbacks = true;
  /** No head below is in flight, as far as `detachUnused` has found. */
  private detached = 0;

  constructor(memory: LinearMemory, config: DriverRingConfig) {
    super(memory);
    const { size, areas, tables } = config;
    this.size = size;
    this.eventIdx = config.eventIdx;
    this.indirect = config.indirect;
    this.strict = config.strict;
    this.areas = areas;
    this.descTable = areas.descriptor >>> 2;
    this.availFlags = availFlags(areas.driver);
    this.availIdx = availIdx(areas.driver);
    this.availRing = availRing(areas.driver);
    this.usedEvent = usedEvent(areas.driver, size);
    this.usedFlags = usedFlags(areas.device);
    this.usedIdx = usedIdx(areas.device);
    this.usedRing = usedRing(areas.device);
    this.availEvent = availEvent(areas.device, size);
    this.buffers = new Uint32Array(size << BUFFER_SHIFT);
    this.next = new Uint16Array(size);
    this.granules = new Granules(config.indirect ? Math.floor(tables.length / DESC_BYTES) : 0);
    this.tablesWord = tables.address >>> 2;
    this.tableLength = new Uint16Array(config.indirect ? size : 0);
    this.numFree = size;
    this.reset();
  }

  get tableBytes(): number {
    return this.granules.used * DESC_BYTES;
  }

  reset(): void {
    const { memory, areas, size, next } = this;
    memory.fresh();
    memory.u8.fill(0, areas.descriptor, areas.descriptor + size * DESC_BYTES);
    memory.u8.fill(0, areas.driver, areas.driver + availBytes(size));
    memory.u8.fill(0, areas.device, areas.device + usedBytes(size));
    this.buffers.fill(0);
    for (let i = 0; i < size; i++) next[i] = i + 1;
    this.granules.clear();
    this.numFree = size;
    this.inFlight = 0;
    this.free = 0;
    this.added = 0;
    this.position = 0;
    this.unkicked = 0;
    this.callbacks = true;
    this.detached = 0;
    this.mend();
  }

  // ---- Making buffers available (2.7.13) ----

  addBurst(segments: number, tokens: number, n: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    const { memory, buffers, next, size, descTable, availRing, indirect } = this;
    memory.fresh();
    const { u16, u32 } = memory;
    const mask = size - 1;
    let { free, numFree, added } = this;
    let segment = segments >>> 2;
    const token = tokens >>> 2;
    let bytesOut = 0;
    let full = false;
    let i = 0;
    while (i < n) {
      const flagsCount = u32[segment + 3]; // this side's own record: flags, and the count in the upper half
      const count = flagsCount >>> 16;
      const head = free;
      const b = head << BUFFER_SHIFT;
      if (count === 1) {
        if (numFree === 0) {
          full = true;
          break;
        }
        const d = desc(descTable, head);
        const length = u32[segment + 2];
        const write = flagsCount & DESC_F_WRITE;
        u32[d] = u32[segment];
        u32[d + 1] = u32[segment + 1];
        u32[d + 2] = length;
        u32[d + 3] = write;
        buffers[b + CHAIN] = (head << 16) | 1;
        if (write !== 0) {
          buffers[b + WRITABLE] = length;
        } else {
          buffers[b + WRITABLE] = 0;
          bytesOut += length;
        }
        free = next[head];
        numFree--;
      } else {
        // A count of 0 describes no buffer: refused like one that can never fit.
        if (count === 0 || count > size) {
          if (i === 0) return RESULT_TOO_LONG;
          break;
        }
        if (numFree === 0) {
          full = true;
          break;
        }
        if (indirect && this.chainIndirect(segment, count, head)) {
          free = next[head];
          numFree--;
        } else if (count <= numFree) {
          free = this.chainDirect(segment, count, head);
          numFree -= count;
        } else {
          full = true;
          break;
        }
      }
      buffers[b + TOKEN] = u32[token + i];
      u16[availRing + (added & mask)] = head;
      added++;
      segment += count * DESC_WORDS;
      i++;
    }
    if (full) this.counts[COUNT_FULL]++;
    if (i === 0) return 0;
    this.free = free;
    this.numFree = numFree;
    this.inFlight += i;
    this.added = added & 0xffff;
    this.detached = 0;
    const unkicked = this.unkicked + i;
    this.unkicked = Math.min(unkicked, EVENT_WINDOW_MAX);
    this.counts[COUNT_ADDED] += i;
    this.counts[COUNT_BYTES_OUT] += bytesOut;
    // The device sees the descriptors and ring entries above before the index that exposes them.
    publish(this.shared, u16, this.availIdx, added & 0xffff);
    return i;
  }

  /**
   * Writes `count` segments to free descriptors from `head` on; at least `count` are free. Returns the new
   * front of the free list.
   */
  private chainDirect(segment: number, count: number, head: number): number {
    const { u32 } = this.memory;
    const { next, descTable } = this;
    let s = segment;
    let at = head;
    for (let left = count - 1; left > 0; left--) {
      const d = desc(descTable, at);
      const following = next[at];
      u32[d] = u32[s];
      u32[d + 1] = u32[s + 1];
      u32[d + 2] = u32[s + 2];
      u32[d + 3] = chained(u32[s + 3] & DESC_F_WRITE, following);
      at = following;
      s += DESC_WORDS;
    }
    const d = desc(descTable, at);
    u32[d] = u32[s];
    u32[d + 1] = u32[s + 1];
    u32[d + 2] = u32[s + 2];
    u32[d + 3] = u32[s + 3] & DESC_F_WRITE;
    this.buffers[(head << BUFFER_SHIFT) + CHAIN] = (at << 16) | count;
    this.measure(segment, count, head);
    return next[at];
  }

  /**
   * Writes `count` segments to a table and lets descriptor `head` refer to it (2.7.5.3). False if there is no
   * table to be had; then nothing was written.
   */
  private chainIndirect(segment: number, count: number, head: number): boolean {
    const granule = this.granules.alloc(count);
    if (granule < 0) {
      this.counts[COUNT_TABLE_FAILED]++;
      return false;
    }
    const { u32 } = this.memory;
    const table = this.tablesWord + granule * DESC_WORDS;
    let s = segment;
    let d = table;
    for (let i = 1; i < count; i++) {
      u32[d] = u32[s];
      u32[d + 1] = u32[s + 1];
      u32[d + 2] = u32[s + 2];
      u32[d + 3] = chained(u32[s + 3] & DESC_F_WRITE, i);
      d += DESC_WORDS;
      s += DESC_WORDS;
    }
    u32[d] = u32[s];
    u32[d + 1] = u32[s + 1];
    u32[d + 2] = u32[s + 2];
    u32[d + 3] = u32[s + 3] & DESC_F_WRITE;
    const h = desc(this.descTable, head);
    u32[h] = table << 2;
    u32[h + 1] = 0;
    u32[h + 2] = count * DESC_BYTES;
    u32[h + 3] = DESC_F_INDIRECT;
    const b = head << BUFFER_SHIFT;
    this.buffers[b + CHAIN] = (head << 16) | 1;
    this.buffers[b + TABLE] = granule + 1;
    this.tableLength[head] = count;
    this.counts[COUNT_INDIRECT]++;
    this.measure(segment, count, head);
    return true;
  }

  /** Notes the writable length of a buffer of several segments and counts its readable bytes. */
  private measure(segment: number, count: number, head: number): void {
    const { u32 } = this.memory;
    let readable = 0;
    let writable = 0;
    let s = segment;
    for (let i = 0; i < count; i++) {
      // At most 32768 lengths below 2^32: the sums are exact.
      if ((u32[s + 3] & DESC_F_WRITE) !== 0) writable += u32[s + 2];
      else readable += u32[s + 2];
      s += DESC_WORDS;
    }
    this.buffers[(head << BUFFER_SHIFT) + WRITABLE] = Math.min(writable, 0xffffffff);
    this.counts[COUNT_BYTES_OUT] += readable;
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
    const { memory, buffers, next, size, usedRing, shared, indirect } = this;
    memory.fresh();
    const { u16, u32 } = memory;
    const mask = size - 1;
    let { position, free, numFree } = this;
    let completion = completions >>> 2;
    let bytesIn = 0;
    let taken = 0;
    let sound = true;
    while (sound && taken < max) {
      const idx = acquire(shared, u16, this.usedIdx);
      const ready = (idx - position) & 0xffff;
      if (ready === 0) break;
      if (ready > this.inFlight - taken) {
        if (taken === 0) return this.broke(FAULT_USED_IDX, BigInt(idx), BigInt(position));
        break;
      }
      const from = taken;
      const end = taken + Math.min(ready, max - taken);
      while (taken < end) {
        const e = usedElem(usedRing, position & mask);
        const id = u32[e];
        let length = u32[e + 1];
        // 2.7.8: an id is 32 bits wide and compared as such; the upper half does not vanish.
        if (id >= size) {
          if (taken === 0) return this.broke(FAULT_USED_ID_RANGE, BigInt(id), BigInt(size));
          sound = false;
          break;
        }
        const b = id << BUFFER_SHIFT;
        const chain = buffers[b + CHAIN];
        if (chain === 0) {
          if (taken === 0) return this.broke(FAULT_USED_ID, BigInt(id), BigInt(length));
          sound = false;
          break;
        }
        const writable = buffers[b + WRITABLE];
        if (length > writable) {
          if (this.strict) {
            if (taken === 0) return this.broke(FAULT_USED_LEN, BigInt(length), BigInt(writable));
            sound = false;
            break;
          }
          length = writable;
          this.counts[COUNT_CLAMPED]++;
        }
        u32[completion] = buffers[b + TOKEN];
        u32[completion + 1] = length;
        bytesIn += length;
        buffers[b + CHAIN] = 0;
        if (indirect && buffers[b + TABLE] !== 0) this.releaseTable(id);
        next[chain >>> 16] = free;
        free = id;
        numFree += chain & 0xffff;
        position = (position + 1) & 0xffff;
        completion += COMPLETION_BYTES >>> 2;
        taken++;
      }
      // Without EVENT_IDX the flag says enough: a device that finishes more will interrupt.
      if (taken === from || !this.eventIdx || !this.callbacks) break;
      // Published before used.idx is acquired again: what comes after that look causes an interrupt.
      publish(shared, u16, this.usedEvent, position);
    }
    if (taken === 0) return 0;
    this.position = position;
    this.free = free;
    this.numFree = numFree;
    this.inFlight -= taken;
    this.counts[COUNT_COMPLETED] += taken;
    this.counts[COUNT_BYTES_IN] += bytesIn;
    return taken;
  }

  private releaseTable(head: number): void {
    const b = (head << BUFFER_SHIFT) + TABLE;
    this.granules.release(this.buffers[b] - 1, this.tableLength[head]);
    this.buffers[b] = 0;
  }

  moreUsed(): number {
    return this.poll(this.position);
  }

  detachUnused(completion: number): number {
    this.memory.fresh();
    const { buffers, size } = this;
    for (let head = this.detached; head < size; head++) {
      const b = head << BUFFER_SHIFT;
      const chain = buffers[b + CHAIN];
      if (chain === 0) continue;
      const { u32 } = this.memory;
      u32[completion >>> 2] = buffers[b + TOKEN];
      u32[(completion >>> 2) + 1] = 0;
      buffers[b + CHAIN] = 0;
      if (this.indirect && buffers[b + TABLE] !== 0) this.releaseTable(head);
      this.next[chain >>> 16] = this.free;
      this.free = head;
      this.numFree += chain & 0xffff;
      this.inFlight--;
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
    if (this.eventIdx) publish(this.shared, u16, this.usedEvent, (this.position + EVENT_FAR) & 0xffff);
    else publish(this.shared, u16, this.availFlags, AVAIL_F_NO_INTERRUPT);
  }

  enableCallbacksPrepare(): number {
    this.enable(this.position);
    return this.position;
  }

  poll(opaque: number): number {
    this.memory.fresh();
    return acquire(this.shared, this.memory.u16, this.usedIdx) !== (opaque & 0xffff) ? 1 : 0;
  }

  enableCallbacksDelayed(): number {
    // inFlight is at most 32768, so three quarters of it stay far from wrapping.
    const enough = (this.inFlight * 3) >>> 2;
    this.enable((this.position + enough) & 0xffff);
    const come = (acquire(this.shared, this.memory.u16, this.usedIdx) - this.position) & 0xffff;
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
}
