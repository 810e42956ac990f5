// Driver side of a split virtqueue (virtio 1.4, 2.7).

import {
  AVAIL_F_NO_INTERRUPT,
  BUFFER_BYTES,
  DESC_BYTES,
  DESC_F_INDIRECT,
  DRIVER_AVAIL,
  DRIVER_BATCH_LEFT,
  DRIVER_BATCH_LENGTH,
  DRIVER_EVENTS,
  DRIVER_FREE,
  DRIVER_IN_FLIGHT,
  DRIVER_NUM_FREE,
  DRIVER_OLDEST,
  DRIVER_UNKICKED,
  DRIVER_USED,
  EVENT_FAR,
  FAULT_NONE,
  FAULT_USED_BATCH,
  FAULT_USED_ID,
  FAULT_USED_ID_RANGE,
  FAULT_USED_IDX,
  FAULT_USED_LEN,
  RESULT_BROKEN,
  RESULT_TOO_LONG,
  SEGMENT_BYTES,
  THRESHOLD_HYSTERESIS,
  THRESHOLD_NO_LIMIT,
  USED_F_NO_NOTIFY,
} from '../abi/layout';
import { Queue } from '../abi/queue';
import {
  completionFull,
  completionLess,
  completionSet,
  isReadable,
  linked,
  restCount,
  restLength,
  segmentAddress,
  segmentRest,
  token,
  unlinked,
  writableLength,
} from '../abi/records';
import {
  availEvent,
  availFlagsSet,
  availIdxSet,
  availRingSet,
  descAddrSet,
  descRestSet,
  descriptor,
  packRest,
  pairId,
  pairLen,
  passed,
  usedElem,
  usedElemPair,
  usedEventSet,
  usedFlags,
  usedIdx,
} from '../abi/split';
import { Buffer, bufferAt, chainPlace, chainSegments, chainTable, wordAt, wordAtSet } from '../abi/state';
import { Tables } from '../indirect/tables';
import { Threshold } from '../indirect/threshold';
import { fence } from '../order';

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
  inOrder: bool;
  indirect: bool;
  strict: bool;
  /** Added to a local address to make one that the device finds (modulo 2^64). */
  addressOffset: u64;

  /** Used events are wanted. */
  callbacks: bool;
  /** avail.idx as published. */
  availIdxShadow: u16;
  /** used.idx up to which completions were taken. */
  lastUsed: u16;
  /** Of the burst under way: its next segment's record. */
  record: usize;
  freeHead: u32;
  numFree: u32;
  inFlight: u32;
  /** Buffers added since the last kickPrepare. */
  unkicked: u32;
  /** In-order use: head of the oldest buffer in flight. */
  oldest: u32;
  /** In-order use: buffers of a batch not handed out yet, and the length of the last of them. */
  batchLeft: u32;
  batchLength: u32;

  tables: Tables;
  threshold: Threshold;

  init(
    size: u32,
    desc: usize,
    avail: usize,
    used: usize,
    buffers: usize,
    next: usize,
    tables: Tables,
    threshold: Threshold,
    eventIdx: bool,
    inOrder: bool,
    indirect: bool,
    strict: bool,
    addressOffset: u64,
  ): void {
    memory.fill(changetype<usize>(this), 0, offsetof<SplitDriver>());
    this.size = size;
    this.desc = desc;
    this.avail = avail;
    this.used = used;
    this.buffers = buffers;
    this.next = next;
    this.tables = tables;
    this.threshold = threshold;
    this.eventIdx = eventIdx;
    this.inOrder = inOrder;
    this.indirect = indirect;
    this.strict = strict;
    this.addressOffset = addressOffset;
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
    this.oldest = 0;
    this.batchLeft = 0;
    this.batchLength = 0;
    this.tables.reset();
    this.threshold.reset();
    memory.fill(this.buffers, 0, <usize>size * BUFFER_BYTES);
    // A ring of descriptors: in-order use never changes it (2.7.5.2).
    for (let i: u32 = 0; i < size; i++) wordAtSet(this.next, i, (i + 1) & (size - 1));
    memory.fill(this.desc, 0, <usize>size * DESC_BYTES);
    memory.fill(this.avail, 0, 6 + <usize>size * 2);
    memory.fill(this.used, 0, 6 + <usize>size * 8);
  }

  @inline
  private buffer(head: u32): Buffer {
    assert(head < this.size);
    return bufferAt(this.buffers, head);
  }

  addBurst(segments: usize, tokens: usize, n: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    const threshold = this.threshold;
    const before = this.segmentsInFlight();
    this.record = segments;
    let added = this.addSingles(tokens, n);
    let result: i32 = 0;
    while (added < n) {
      added += this.addChains(tokens, added, n);
      if (added == n) break;
      const failed = this.tableFailed;
      if (this.indirect)
        added += this.addTables(tokens, added, n, n, this.direct(n - added), threshold.spare(this.numFree));
      if (added == n) break;
      result = this.addOne(tokens, added, n, this.tableFailed != failed);
      if (result <= 0) break;
      added++;
    }
    this.tables.settle();
    this.added += added;
    if (threshold.mode == THRESHOLD_HYSTERESIS) {
      const now = this.segmentsInFlight();
      threshold.settle(now - before, now, this.added);
    }
    if (added == 0) return result;
    this.inFlight += added;
    // Saturates: from 2^16 on the window of `passed` would be ambiguous, see kickPrepare.
    this.unkicked = min<u32>(this.unkicked + added, 0x10000);
    const idx = this.availIdxShadow + <u16>added;
    this.availIdxShadow = idx;
    availIdxSet(this.avail, idx);
    return <i32>added;
  }

  /**
   * Remembers the buffer with this index in the burst under its head, and makes the head the next entry of the
   * available ring: slots between the published idx and idx + numFree are not the device's to read yet.
   */
  @inline
  private enter(index: u32, token: u32, head: u32, writable: u64, table: u32, count: u32, tail: u32): void {
    const position = <u16>(<u32>this.availIdxShadow + index);
    const place: u32 = this.inOrder ? position : tail;
    bufferAt(this.buffers, head).set(token, <u32>min<u64>(writable, 0xffff_ffff), table, count, place);
    availRingSet(this.avail, <u32>position & (this.size - 1), head);
  }

  /** Segments of the buffers in flight, in the ring and in tables. */
  private segmentsInFlight(): u32 {
    const tables = this.tables;
    return this.size - this.numFree - tables.count + tables.descriptors;
  }

  /**
   * Adds buffers of one direct segment, the most frequent ones, from the first of a burst on: up to another one, or
   * to one that the threshold has to see.
   * @returns how many
   */
  private addSingles(tokens: usize, n: u32): u32 {
    const mask = this.size - 1;
    const desc = this.desc;
    const avail = this.avail;
    const buffers = this.buffers;
    const nexts = this.next;
    const first = <u32>this.availIdxShadow;
    const inOrder = this.inOrder;
    const threshold = this.threshold;
    const until = min(n, threshold.room(this.numFree));
    let record = this.record;
    let head = this.freeHead;
    let bytes: u64 = 0;
    let added: u32 = 0;
    for (; added < until; added++) {
      const rest = segmentRest(record);
      if (restCount(rest) != 1) break;
      assert(head <= mask);
      const address = descriptor(desc, head);
      descAddrSet(address, segmentAddress(record));
      descRestSet(address, rest & 0xffff_ffff_ffff);
      const writable = <u32>writableLength(rest);
      bytes += restLength(rest) - writable;
      const place = inOrder ? (first + added) & 0xffff : head;
      bufferAt(buffers, head).set(token(tokens, added), writable, 0, 1, place);
      // See `enter`.
      availRingSet(avail, (first + added) & mask, head);
      head = wordAt(nexts, head);
      record += SEGMENT_BYTES;
    }
    if (added == 0) return 0;
    this.record = record;
    this.freeHead = head;
    this.numFree -= added;
    this.bytesOut += bytes;
    return added;
  }

  /**
   * Adds direct buffers of any length from the one with index `from` on: up to one that goes through a table, does not
   * fit, or has to be seen by the threshold.
   * @returns how many
   */
  private addChains(tokens: usize, from: u32, n: u32): u32 {
    const threshold = this.threshold;
    const free = this.numFree;
    const room = threshold.room(free);
    if (!this.indirect) return this.addDirect(tokens, from, n, room, room, THRESHOLD_NO_LIMIT);
    return this.addDirect(tokens, from, n, threshold.value, room, threshold.reserve(free, n - from));
  }

  /**
   * Adds direct buffers of up to `limit` segments each and `room` segments in all: the i-th (from 0 on) only if they
   * have no more than `reserve` + i with it.
   * @returns how many
   */
  private addDirect(tokens: usize, from: u32, n: u32, limit: u32, room: u32, reserve: u32): u32 {
    const table = this.desc;
    const nexts = this.next;
    let record = this.record;
    let head = this.freeHead;
    let segments: u32 = 0;
    const behindFrom = reserve - from;
    let bytes: u64 = 0;
    let added = from;
    for (; added < n; added++) {
      const count = restCount(segmentRest(record));
      // A count of 0 makes the largest number.
      if (count - 1 >= limit) break;
      const after = segments + count;
      if (after > min(room, behindFrom + added)) break;
      let total: u64 = 0;
      let writable: u64 = 0;
      let tail = head;
      let next = head;
      let more = count;
      for (;;) {
        assert(next < this.size);
        const rest = segmentRest(record);
        const desc = descriptor(table, next);
        tail = next;
        next = wordAt(nexts, next);
        descAddrSet(desc, segmentAddress(record));
        total += restLength(rest);
        writable += writableLength(rest);
        record += SEGMENT_BYTES;
        if (--more == 0) {
          descRestSet(desc, unlinked(rest));
          break;
        }
        descRestSet(desc, linked(rest, next));
      }
      segments = after;
      bytes += total - writable;
      this.enter(added, token(tokens, added), head, writable, 0, count, tail);
      head = next;
    }
    this.record = record;
    this.freeHead = head;
    this.numFree -= segments;
    this.bytesOut += bytes;
    return added - from;
  }

  /** Most segments of a direct buffer, with so many buffers left in the burst, it included. */
  private direct(n: u32): u32 {
    return min(this.threshold.value, this.threshold.reserve(this.numFree, n));
  }

  /**
   * Adds buffers that go through a table, because they have more than `direct` segments or more than there are free
   * descriptors, from the one with index `from` on: up to `until`, to another one, to one of more than `spare` segments
   * beyond the free descriptors, or where no table can be had. `n` ends the burst.
   * @returns how many
   */
  private addTables(tokens: usize, from: u32, until: u32, n: u32, direct: u32, spare: u32): u32 {
    const size = this.size;
    const tables = this.tables;
    let record = this.record;
    let head = this.freeHead;
    let free = this.numFree;
    let bytes: u64 = 0;
    let added = from;
    for (; added < until && free > 0; added++) {
      const count = restCount(segmentRest(record));
      if ((count <= direct && count <= free) || count > size) break;
      if (count > free + spare) break;
      const table = tables.alloc(count, min(n - added, free));
      if (table == 0) {
        this.tableFailed++;
        break;
      }
      const at = <usize>Tables.address(table);
      let total: u64 = 0;
      let writable: u64 = 0;
      let next: u32 = 0;
      for (let desc = at; ; desc += DESC_BYTES) {
        const rest = segmentRest(record);
        descAddrSet(desc, segmentAddress(record));
        total += restLength(rest);
        writable += writableLength(rest);
        record += SEGMENT_BYTES;
        if (++next == count) {
          descRestSet(desc, unlinked(rest));
          break;
        }
        descRestSet(desc, linked(rest, next));
      }
      assert(head < size);
      const desc = descriptor(this.desc, head);
      descAddrSet(desc, at + this.addressOffset);
      descRestSet(desc, packRest(count * DESC_BYTES, DESC_F_INDIRECT, 0));
      bytes += total - writable;
      this.enter(added, token(tokens, added), head, writable, table, count, head);
      head = wordAt(this.next, head);
      free--;
    }
    const some = added - from;
    this.record = record;
    this.freeHead = head;
    this.numFree = free;
    this.bytesOut += bytes;
    this.indirects += some;
    return some;
  }

  /**
   * Adds one buffer of any kind, for which no table is to be had if that was `tried`.
   * @returns 1; 0 if there is no room for it; RESULT_TOO_LONG
   */
  private addOne(tokens: usize, index: u32, n: u32, tried: bool): i32 {
    const free = this.numFree;
    const threshold = this.threshold;
    const rest = segmentRest(this.record);
    const count = restCount(rest);
    // A count of 0 describes no buffer: refused like one that can never fit.
    if (count == 0 || count > this.size) return RESULT_TOO_LONG;
    threshold.observe(count, isReadable(rest), free, this.added + index);
    // The order of these tests is part of the contract: no free descriptor, no table.
    if (!tried && this.indirect) {
      const direct = this.direct(n - index);
      if (this.addTables(tokens, index, index + 1, n, direct, THRESHOLD_NO_LIMIT) > 0) return 1;
    }
    // Also where a table could not be had: nothing is written before the whole chain fits.
    if (count > free) {
      this.full++;
      return 0;
    }
    this.addDirect(tokens, index, index + 1, count, count, count);
    return 1;
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
    if (this.inOrder) return this.getInOrder(completions, max);
    const size = this.size;
    const mask = size - 1;
    const used = this.used;
    const buffers = this.buffers;
    const nexts = this.next;
    let taken: u32 = 0;
    let result: i32 = 1;
    while (taken < max && result > 0) {
      let last = this.lastUsed;
      const idx = usedIdx(used);
      const ready = <u32>(<u16>(idx - last));
      if (ready == 0) break;
      if (ready > this.inFlight) {
        if (taken == 0) return this.break(FAULT_USED_IDX, idx, last);
        break;
      }
      const from = taken;
      const until = min(max, taken + ready);
      while (taken < until) {
        // Direct buffers with a sound entry, in a loop that keeps everything in registers.
        let free = this.freeHead;
        let freed: u32 = 0;
        let bytes: u64 = 0;
        const start = taken;
        for (; taken < until; taken++) {
          const pair = usedElemPair(usedElem(used, <u32>last & mask));
          const id = pairId(pair);
          const len = pairLen(pair);
          // The 32-bit id is checked before anything is looked up by it, never truncated.
          if (id >= size) break;
          const buffer = bufferAt(buffers, id);
          const chain = buffer.chain;
          if (chainTable(chain) != 0) break;
          const tokenWritable = buffer.tokenWritable;
          if (len > <u32>(tokenWritable >> 32)) break;
          const segments = <u32>buffer.segments;
          if (segments == 0) break;
          completionSet(completions, taken, <u32>tokenWritable, len);
          bytes += len;
          freed += segments;
          buffer.segments = 0;
          wordAtSet(nexts, chainPlace(chain), free);
          free = id;
          last++;
        }
        this.freeHead = free;
        this.numFree += freed;
        this.inFlight -= taken - start;
        this.bytesIn += bytes;
        this.lastUsed = last;
        if (taken == until) break;
        const tabled = this.getTables(completions, taken, until);
        if (tabled > 0) {
          taken += tabled;
          last += <u16>tabled;
          continue;
        }
        result = this.getOne(completions, taken, usedElemPair(usedElem(used, <u32>last & mask)));
        if (result <= 0) break;
        taken++;
        last++;
      }
      this.completed += taken - from;
      if (taken > from) this.askFrom(last);
    }
    this.tables.settle();
    // A bad entry that is not first in line waits for the next call.
    return taken > 0 || result >= 0 ? <i32>taken : result;
  }

  /** Takes buffers that have tables and a sound entry, as many as come in a row, to the records from `index` on. */
  private getTables(completions: usize, index: u32, until: u32): u32 {
    const size = this.size;
    const mask = size - 1;
    const used = this.used;
    const tables = this.tables;
    let last = this.lastUsed;
    let free = this.freeHead;
    let bytes: u64 = 0;
    let taken = index;
    for (; taken < until; taken++) {
      const pair = usedElemPair(usedElem(used, <u32>last & mask));
      const id = pairId(pair);
      const len = pairLen(pair);
      if (id >= size) break;
      const buffer = bufferAt(this.buffers, id);
      const chain = buffer.chain;
      const segments = chainSegments(chain);
      const table = chainTable(chain);
      const tokenWritable = buffer.tokenWritable;
      if (segments == 0 || table == 0 || len > <u32>(tokenWritable >> 32)) break;
      completionSet(completions, taken, <u32>tokenWritable, len);
      bytes += len;
      buffer.segments = 0;
      tables.takeBack(table, segments);
      wordAtSet(this.next, id, free);
      free = id;
      last++;
    }
    const some = taken - index;
    this.freeHead = free;
    this.numFree += some;
    this.inFlight -= some;
    this.bytesIn += bytes;
    this.lastUsed = last;
    return some;
  }

  /** Takes the buffer of one used entry of any kind. 1, or 0 if it is bad and not the first, or RESULT_BROKEN. */
  private getOne(completions: usize, index: u32, pair: u64): i32 {
    const id = pairId(pair);
    let len = pairLen(pair);
    if (id >= this.size) return index == 0 ? this.break(FAULT_USED_ID_RANGE, id, this.size) : 0;
    const buffer = this.buffer(id);
    const segments = <u32>buffer.segments;
    if (segments == 0) return index == 0 ? this.break(FAULT_USED_ID, id, len) : 0;
    if (len > buffer.writable) {
      if (this.strict) return index == 0 ? this.break(FAULT_USED_LEN, len, buffer.writable) : 0;
      len = buffer.writable;
      this.clamped++;
    }
    completionSet(completions, index, buffer.token, len);
    this.numFree += buffer.slots;
    if (buffer.table != 0) this.tables.free(buffer.table, segments);
    buffer.segments = 0;
    wordAtSet(this.next, buffer.place, this.freeHead);
    this.freeHead = id;
    this.inFlight--;
    this.bytesIn += len;
    this.lastUsed++;
    return 1;
  }

  /** getBurst with IN_ORDER: one used entry may answer for several buffers (2.7.9). */
  private getInOrder(completions: usize, max: u32): i32 {
    const mask = this.size - 1;
    const buffers = this.buffers;
    let taken: u32 = 0;
    let asked = false;
    while (taken < max) {
      if (this.batchLeft == 0) {
        const idx = usedIdx(this.used);
        const ready = <u32>(<u16>(idx - this.lastUsed));
        if (ready == 0) {
          if (asked || taken == 0) break;
          asked = true;
          this.askFrom(this.lastUsed);
          continue;
        }
        const result = this.openBatch(idx, ready, taken == 0);
        if (result < 0) return result;
        if (result == 0) break;
      }
      asked = false;
      // openBatch has counted the buffers up to the one that was named: there are batchLeft of them.
      const some = min(this.batchLeft, max - taken);
      const left = this.batchLeft - some;
      const end = taken + some;
      let oldest = this.oldest;
      let freed: u32 = 0;
      let bytes: u64 = 0;
      for (; taken < end; taken++) {
        assert(oldest <= mask);
        const buffer = bufferAt(buffers, oldest);
        const chain = buffer.chain;
        let slots = chainSegments(chain);
        if (chainTable(chain) != 0) {
          this.tables.free(chainTable(chain), slots);
          slots = 1;
        }
        buffer.segments = 0;
        // Completely written, all but the last of a batch.
        const tokenWritable = buffer.tokenWritable;
        completionFull(completions, taken, tokenWritable);
        bytes += tokenWritable >> 32;
        freed += slots;
        oldest = (oldest + slots) & mask;
      }
      if (left == 0) bytes += completionLess(completions, end - 1, this.batchLength);
      this.batchLeft = left;
      this.bytesIn += bytes;
      this.oldest = oldest;
      this.numFree += freed;
      this.inFlight -= some;
      this.completed += some;
      this.lastUsed += <u16>some;
    }
    this.tables.settle();
    if (taken > 0 && !asked) this.askFrom(this.lastUsed);
    return <i32>taken;
  }

  /**
   * Reads a used entry of in-order use: finds how many buffers it answers for. 1, or 0 if it is bad and not
   * first in line, or RESULT_BROKEN.
   */
  private openBatch(idx: u16, ready: u32, first: bool): i32 {
    const size = this.size;
    if (ready > this.inFlight) return first ? this.break(FAULT_USED_IDX, idx, this.lastUsed) : 0;
    const pair = usedElemPair(usedElem(this.used, <u32>this.lastUsed & (size - 1)));
    const last = pairId(pair);
    let len = pairLen(pair);
    if (last >= size) return first ? this.break(FAULT_USED_ID_RANGE, last, size) : 0;
    const buffer = this.buffer(last);
    if (buffer.segments == 0) return first ? this.break(FAULT_USED_ID, last, len) : 0;
    // It is in flight, so it was made available behind the last one that came back; used.idx says how far
    // behind it may be.
    const count = <u32>(<u16>(buffer.place - this.lastUsed)) + 1;
    if (count > ready) return first ? this.break(FAULT_USED_BATCH, last, ready) : 0;
    if (len > buffer.writable) {
      if (this.strict) return first ? this.break(FAULT_USED_LEN, len, buffer.writable) : 0;
      len = buffer.writable;
      this.clamped++;
    }
    this.batchLeft = count;
    this.batchLength = len;
    return 1;
  }

  /** With event index and callbacks on, asks for an event at the next used buffer. */
  private askFrom(position: u16): void {
    if (!this.eventIdx || !this.callbacks) return;
    usedEventSet(this.avail, this.size, position);
    // The store must be seen before used.idx is read again (2.7.14, the note on re-checking).
    fence();
  }

  moreUsed(): bool {
    return this.batchLeft > 0 || usedIdx(this.used) != this.lastUsed;
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

  /** Where the next buffer will be made available. */
  get position(): u32 {
    return this.availIdxShadow;
  }

  save(words: usize): void {
    store<u32>(words, this.availIdxShadow, DRIVER_AVAIL << 2);
    store<u32>(words, this.lastUsed, DRIVER_USED << 2);
    store<u32>(words, this.callbacks, DRIVER_EVENTS << 2);
    store<u32>(words, this.unkicked, DRIVER_UNKICKED << 2);
    store<u32>(words, this.freeHead, DRIVER_FREE << 2);
    store<u32>(words, this.numFree, DRIVER_NUM_FREE << 2);
    store<u32>(words, this.inFlight, DRIVER_IN_FLIGHT << 2);
    store<u32>(words, this.batchLeft, DRIVER_BATCH_LEFT << 2);
    // Without an open batch it is the length of one that was handed out.
    store<u32>(words, this.batchLeft > 0 ? this.batchLength : 0, DRIVER_BATCH_LENGTH << 2);
  }

  load(words: usize): void {
    this.mend();
    this.availIdxShadow = <u16>load<u32>(words, DRIVER_AVAIL << 2);
    this.lastUsed = <u16>load<u32>(words, DRIVER_USED << 2);
    this.callbacks = load<u32>(words, DRIVER_EVENTS << 2) != 0;
    this.unkicked = load<u32>(words, DRIVER_UNKICKED << 2);
    this.freeHead = load<u32>(words, DRIVER_FREE << 2);
    this.numFree = load<u32>(words, DRIVER_NUM_FREE << 2);
    this.inFlight = load<u32>(words, DRIVER_IN_FLIGHT << 2);
    this.oldest = load<u32>(words, DRIVER_OLDEST << 2);
    this.batchLeft = load<u32>(words, DRIVER_BATCH_LEFT << 2);
    this.batchLength = load<u32>(words, DRIVER_BATCH_LENGTH << 2);
  }

  /** Another source of tables. Those in flight go back to the allocator and not to a list. */
  setTables(strategy: u32, descriptors: u32, bound: u32, prefill: u32): void {
    for (let head: u32 = 0; head < this.size; head++) {
      const buffer = this.buffer(head);
      buffer.table = Tables.address(buffer.table);
    }
    this.tables.configure(strategy, descriptors, bound, prefill);
  }

  detachUnused(completion: usize): bool {
    for (let head: u32 = 0; head < this.size; head++) {
      const buffer = this.buffer(head);
      const segments = <u32>buffer.segments;
      if (segments == 0) continue;
      completionSet(completion, 0, buffer.token, 0);
      this.numFree += buffer.slots;
      if (buffer.table != 0) this.tables.free(buffer.table, segments);
      this.tables.settle();
      buffer.segments = 0;
      // In-order use never changes the ring of descriptors; only a reset makes it usable again after this.
      if (!this.inOrder) {
        wordAtSet(this.next, buffer.place, this.freeHead);
        this.freeHead = head;
      }
      this.batchLeft = 0;
      this.inFlight--;
      return true;
    }
    return false;
  }
}
