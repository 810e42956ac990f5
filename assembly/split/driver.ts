// Driver side of a split virtqueue (virtio 1.4, 2.7).

import {
  AVAIL_F_NO_INTERRUPT,
  DESC_BYTES,
  DESC_F_INDIRECT,
  DESC_F_NEXT,
  DESC_F_WRITE,
  EVENT_FAR,
  FAULT_NONE,
  FAULT_USED_ID,
  FAULT_USED_ID_RANGE,
  FAULT_USED_IDX,
  FAULT_USED_LEN,
  RESULT_BROKEN,
  RESULT_TOO_LONG,
  SEGMENT_BYTES,
  USED_F_NO_NOTIFY,
} from '../abi/layout';
import { Queue } from '../abi/queue';
import { completionSet, restCount, segmentAddress, segmentRest, token } from '../abi/records';
import {
  availEvent,
  availFlagsSet,
  availIdxSet,
  availRingSet,
  descAddrSet,
  descRestSet,
  descriptor,
  packRest,
  passed,
  restLen,
  usedElem,
  usedElemId,
  usedElemLen,
  usedEventSet,
  usedFlags,
  usedIdx,
} from '../abi/split';
import { Granules } from '../mm/granules';
import { fence } from '../order';

/**
 * What the driver remembers of the buffer whose chain starts at a descriptor. Private memory: the device
 * could overwrite the descriptors themselves, so nothing is ever read back from them.
 */
@unmanaged
export class Buffer {
  token: u32;
  /** Device-writable bytes, saturated at 2^32 - 1: the bound of what a used length may claim. */
  writable: u32;
  /** Address of the indirect table, or 0 for a direct chain. */
  table: u32;
  /** Segments; 0 means that no buffer in flight starts here. */
  segments: u16;
  /** Last descriptor of the chain, so that the whole chain is freed in one step. */
  tail: u16;

  /** All fields in two stores. */
  set(token: u32, writable: u32, table: u32, segments: u32, tail: u32): void {
    const self = changetype<usize>(this);
    store<u64>(self, <u64>token | ((<u64>writable) << 32), offsetof<Buffer>('token'));
    store<u64>(self, <u64>table | ((<u64>(segments | (tail << 16))) << 32), offsetof<Buffer>('table'));
  }
}

function bufferAt(buffers: usize, head: u32): Buffer {
  return changetype<Buffer>(buffers + <usize>head * offsetof<Buffer>());
}

function nextAt(next: usize, index: u32): u32 {
  return load<u16>(next + ((<usize>index) << 1));
}

function nextAtSet(next: usize, index: u32, value: u32): void {
  store<u16>(next + ((<usize>index) << 1), <u16>value);
}

@unmanaged
export class SplitDriver extends Queue {
  // Where things are; fixed at creation. The areas are seen by the device, all else is private.
  desc: usize;
  avail: usize;
  used: usize;
  /** Buffer[size] */
  buffers: usize;
  /** u16[size]: the next descriptor of a chain, or of the list of free ones. */
  next: usize;
  eventIdx: bool;
  indirect: bool;
  strict: bool;

  /** Used events are wanted. */
  callbacks: bool;
  /** avail.idx as published. */
  availIdxShadow: u16;
  /** used.idx up to which completions were taken. */
  lastUsed: u16;
  /** First free descriptor; meaningless while numFree is 0. */
  freeHead: u32;
  numFree: u32;
  inFlight: u32;
  /** Buffers added since the last kickPrepare. */
  unkicked: u32;

  granules: Granules;

  init(
    size: u32,
    desc: usize,
    avail: usize,
    used: usize,
    buffers: usize,
    next: usize,
    granules: Granules,
    eventIdx: bool,
    indirect: bool,
    strict: bool,
  ): void {
    memory.fill(changetype<usize>(this), 0, offsetof<SplitDriver>());
    this.size = size;
    this.desc = desc;
    this.avail = avail;
    this.used = used;
    this.buffers = buffers;
    this.next = next;
    this.granules = granules;
    this.eventIdx = eventIdx;
    this.indirect = indirect;
    this.strict = strict;
    this.reset();
  }

  reset(): void {
    const size = this.size;
    this.mend();
    this.callbacks = true;
    this.availIdxShadow = 0;
    this.lastUsed = 0;
    this.freeHead = 0;
    this.numFree = size;
    this.inFlight = 0;
    this.unkicked = 0;
    this.granules.reset();
    memory.fill(this.buffers, 0, <usize>size * offsetof<Buffer>());
    for (let i: u32 = 0; i < size; i++) nextAtSet(this.next, i, i + 1);
    memory.fill(this.desc, 0, <usize>size * DESC_BYTES);
    memory.fill(this.avail, 0, 6 + <usize>size * 2);
    memory.fill(this.used, 0, 6 + <usize>size * 8);
  }

  private buffer(head: u32): Buffer {
    assert(head < this.size);
    return bufferAt(this.buffers, head);
  }

  addBurst(segments: usize, tokens: usize, n: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    const size = this.size;
    const mask = size - 1;
    const desc = this.desc;
    const avail = this.avail;
    const buffers = this.buffers;
    const nexts = this.next;
    const first = this.availIdxShadow;
    let free = this.numFree;
    let head = this.freeHead;
    let bytes: u64 = 0;
    let record = segments;
    let added: u32 = 0;
    for (; added < n; added++) {
      const rest = segmentRest(record);
      const count = restCount(rest);
      let next: u32;
      if (count == 1) {
        // One segment, one descriptor: the most frequent buffer.
        if (free == 0) {
          this.full++;
          break;
        }
        assert(head < size);
        next = nextAt(nexts, head);
        const address = descriptor(desc, head);
        descAddrSet(address, segmentAddress(record));
        descRestSet(address, linked(rest, 0));
        const writable = <u32>writableLen(rest);
        bytes += restLen(rest) - writable;
        bufferAt(buffers, head).set(token(tokens, added), writable, 0, 1, head);
        record += SEGMENT_BYTES;
        free--;
      } else {
        if (count > size) {
          if (added == 0) return RESULT_TOO_LONG;
          break;
        }
        let table: usize = 0;
        // The order of these tests is part of the contract: no free descriptor, no table.
        if (this.indirect && free > 0) {
          table = this.granules.alloc(count);
          if (table == 0) this.tableFailed++;
        }
        // Also where a table could not be had: nothing is written before the whole chain fits.
        if (table == 0 && count > free) {
          this.full++;
          break;
        }
        let total: u64 = 0;
        let writable: u64 = 0;
        let tail = head;
        next = head;
        if (table != 0) next = nextAt(nexts, head);
        for (let i: u32 = 0; i < count; i++) {
          const rest = segmentRest(record);
          let address: usize;
          let link: u32;
          if (table != 0) {
            address = descriptor(table, i);
            link = i + 1;
          } else {
            assert(next < size);
            tail = next;
            address = descriptor(desc, next);
            link = next = nextAt(nexts, next);
          }
          descAddrSet(address, segmentAddress(record));
          descRestSet(address, linked(rest, link));
          total += restLen(rest);
          writable += writableLen(rest);
          record += SEGMENT_BYTES;
        }
        if (table != 0) {
          const address = descriptor(desc, head);
          descAddrSet(address, table);
          descRestSet(address, packRest(count * DESC_BYTES, DESC_F_INDIRECT, 0));
          free--;
          this.indirects++;
        } else free -= count;
        bytes += total - writable;
        bufferAt(buffers, head).set(
          token(tokens, added),
          <u32>min<u64>(writable, 0xffff_ffff),
          <u32>table,
          count,
          tail,
        );
      }
      // Slots between the published idx and idx + numFree are not the device's to read yet.
      availRingSet(avail, (<u32>first + added) & mask, head);
      head = next;
    }
    if (added > 0) {
      this.freeHead = head;
      this.numFree = free;
      this.inFlight += added;
      this.bytesOut += bytes;
      this.added += added;
      // Saturates: from 2^16 on the window of `passed` would be ambiguous, see kickPrepare.
      this.unkicked = min<u32>(this.unkicked + added, 0x10000);
      const idx = first + <u16>added;
      this.availIdxShadow = idx;
      availIdxSet(avail, idx);
    }
    return <i32>added;
  }

  kickPrepare(): bool {
    const idx = this.availIdxShadow;
    const unkicked = this.unkicked;
    // No entry was written that an event could name.
    if (this.eventIdx && unkicked == 0) return false;
    this.unkicked = 0;
    // The device sets its event and then reads avail.idx; this side published avail.idx and now reads the
    // event. Without a fence in between both could miss the other's store (2.7.13.4.1).
    fence();
    let wanted: bool;
    if (!this.eventIdx) wanted = (usedFlags(this.used) & USED_F_NO_NOTIFY) == 0;
    else if (unkicked >= 0x10000) wanted = true;
    else wanted = passed(availEvent(this.used, this.size), idx, idx - <u16>unkicked);
    if (wanted) this.notified++;
    else this.suppressed++;
    return wanted;
  }

  getBurst(completions: usize, max: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    const size = this.size;
    const mask = size - 1;
    const used = this.used;
    const buffers = this.buffers;
    const nexts = this.next;
    let last = this.lastUsed;
    let taken: u32 = 0;
    while (taken < max) {
      const idx = usedIdx(used);
      const ready = <u32>(<u16>(idx - last));
      if (ready == 0) break;
      if (ready > this.inFlight) {
        if (taken == 0) return this.break(FAULT_USED_IDX, idx, last);
        break;
      }
      const from = taken;
      const until = min(max, taken + ready);
      let free = this.freeHead;
      let freed: u32 = 0;
      let bytes: u64 = 0;
      for (; taken < until; taken++) {
        const elem = usedElem(used, <u32>last & mask);
        const id = usedElemId(elem);
        let len = usedElemLen(elem);
        // The 32-bit id is checked before anything is looked up by it, never truncated.
        if (id >= size) {
          if (taken == 0) return this.break(FAULT_USED_ID_RANGE, id, size);
          break;
        }
        const buffer = bufferAt(buffers, id);
        const segments = <u32>buffer.segments;
        if (segments == 0) {
          if (taken == 0) return this.break(FAULT_USED_ID, id, len);
          break;
        }
        const writable = buffer.writable;
        if (len > writable) {
          if (this.strict) {
            if (taken == 0) return this.break(FAULT_USED_LEN, len, writable);
            break;
          }
          len = writable;
          this.clamped++;
        }
        completionSet(completions, taken, buffer.token, len);
        bytes += len;
        buffer.segments = 0;
        const table = buffer.table;
        if (table != 0) {
          this.granules.free(table, segments);
          freed++;
        } else freed += segments;
        nextAtSet(nexts, buffer.tail, free);
        free = id;
        last++;
      }
      const got = taken - from;
      this.freeHead = free;
      this.numFree += freed;
      this.inFlight -= got;
      this.completed += got;
      this.bytesIn += bytes;
      this.lastUsed = last;
      if (got > 0) this.askFrom(last);
      // Ended early by a bad entry: what is before it goes to the caller, the next call will report it.
      if (taken < until) break;
    }
    // Also when nothing was taken: a device that pushed between the last read and the event's store saw
    // the old event and stayed silent.
    return <i32>taken;
  }

  /** With event index and callbacks on, asks for an event at the next used buffer. */
  private askFrom(position: u16): void {
    if (!this.eventIdx || !this.callbacks) return;
    usedEventSet(this.avail, this.size, position);
    // The store must be seen before used.idx is read again (2.7.14, the note on re-checking).
    fence();
  }

  moreUsed(): bool {
    return usedIdx(this.used) != this.lastUsed;
  }

  disableCallbacks(): void {
    this.callbacks = false;
    if (this.eventIdx) usedEventSet(this.avail, this.size, this.lastUsed + <u16>EVENT_FAR);
    else availFlagsSet(this.avail, <u16>AVAIL_F_NO_INTERRUPT);
  }

  enableCallbacksPrepare(): u32 {
    this.enableAt(this.lastUsed);
    return this.lastUsed;
  }

  private enableAt(event: u16): void {
    this.callbacks = true;
    if (this.eventIdx) usedEventSet(this.avail, this.size, event);
    else availFlagsSet(this.avail, 0);
    fence();
  }

  poll(opaque: u32): bool {
    fence();
    return usedIdx(this.used) != <u16>opaque;
  }

  enableCallbacksDelayed(): bool {
    // At most QUEUE_SIZE_MAX buffers are outstanding: the product fits 32, the result 16 bits.
    const delay = <u16>((this.inFlight * 3) >> 2);
    this.enableAt(this.lastUsed + delay);
    return <u16>(usedIdx(this.used) - this.lastUsed) <= delay;
  }

  detachUnused(completion: usize): bool {
    for (let head: u32 = 0; head < this.size; head++) {
      const buffer = this.buffer(head);
      const segments = <u32>buffer.segments;
      if (segments == 0) continue;
      completionSet(completion, 0, buffer.token, 0);
      buffer.segments = 0;
      if (buffer.table != 0) {
        this.granules.free(buffer.table, segments);
        this.numFree++;
      } else this.numFree += segments;
      nextAtSet(this.next, buffer.tail, this.freeHead);
      this.freeHead = head;
      this.inFlight--;
      return true;
    }
    return false;
  }
}

/** A segment record's word made a descriptor's: `next` in place of the count, 0 without NEXT. */
function linked(rest: u64, next: u32): u64 {
  const more = rest & ((<u64>DESC_F_NEXT) << 32);
  return (rest & 0xffff_ffff_ffff) | (more ? (<u64>next) << 48 : 0);
}

function writableLen(rest: u64): u64 {
  return rest & ((<u64>DESC_F_WRITE) << 32) ? restLen(rest) : 0;
}
