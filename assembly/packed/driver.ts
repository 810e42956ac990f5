// Driver side of a packed virtqueue (virtio 1.4, 2.8).

import {
  BUFFER_BYTES,
  DESC_BYTES,
  DESC_F_INDIRECT,
  DESC_F_WRITE,
  DRIVER_AVAIL,
  DRIVER_BATCH_LEFT,
  DRIVER_BATCH_LENGTH,
  DRIVER_EVENTS,
  DRIVER_FREE,
  DRIVER_IN_FLIGHT,
  DRIVER_NUM_FREE,
  DRIVER_UNKICKED,
  DRIVER_USED,
  EVENT_BYTES,
  FAULT_NONE,
  FAULT_USED_BATCH,
  FAULT_USED_ID,
  FAULT_USED_ID_RANGE,
  FAULT_USED_LEN,
  RESULT_BROKEN,
  RESULT_TOO_LONG,
  RING_EVENT_FLAGS_DESC,
  RING_EVENT_FLAGS_DISABLE,
  RING_EVENT_FLAGS_ENABLE,
  SEGMENT_BYTES,
  THRESHOLD_HYSTERESIS,
  THRESHOLD_NO_LIMIT,
} from '../abi/layout';
import {
  availBits,
  descAddrSet,
  descFlags,
  descFlagsSet,
  descRest,
  descRestSet,
  descriptor,
  descSegmentSet,
  eventFlagsSet,
  eventOffWrapSet,
  eventWord,
  idFlags,
  isPublished,
  ownerBits,
  passed,
  position,
  positionSlot,
  positionWrap,
  restFlags,
  restId,
  restLen,
  usedBits,
  wordFlags,
  wordOffWrap,
} from '../abi/packed';
import { Queue } from '../abi/queue';
import {
  completionFull,
  completionLess,
  completionSet,
  isReadable,
  restCount,
  restLength,
  restSegmentFlags,
  segmentAddress,
  segmentFlagsCount,
  segmentLength,
  segmentRest,
  token,
  writableLength,
} from '../abi/records';
import { Buffer, bufferAt, chainSegments, chainTable, wordAt, wordAtSet } from '../abi/state';
import { Tables } from '../indirect/tables';
import { Threshold } from '../indirect/threshold';
import { fence } from '../order';

@unmanaged
export class PackedDriver extends Queue {
  // Where things are; fixed at creation. The areas are seen by the device, all else is private.
  ring: usize;
  driverEvent: usize;
  deviceEvent: usize;
  /** Buffer[size], by id. */
  buffers: usize;
  /** u16[size]: the id behind each free one. */
  nextId: usize;
  /** u16[size]: the id of the buffer whose head lies at a slot. Kept for in-order use only. */
  slotId: usize;
  tables: Tables;
  threshold: Threshold;
  eventIdx: bool;
  inOrder: bool;
  indirect: bool;
  strict: bool;
  /** Added to a local address to make one that the device finds (modulo 2^64). */
  addressOffset: u64;

  /** Event flags as last written. */
  eventFlags: u32;
  /** Where the next descriptor is made available, and in which lap. */
  nextAvail: u32;
  availWrap: bool;
  /** Where the next used descriptor is expected, and in which lap. */
  usedWrap: bool;
  nextUsed: u32;
  /** First free id; meaningless when no id is free. */
  freeId: u32;
  numFree: u32;
  inFlight: u32;
  /** Slots made available since the last kickPrepare. */
  unkicked: u32;
  /** Of the burst under way: its next segment's record, and the flags of its first descriptor, but AVAIL and USED. */
  record: usize;
  firstFlags: u32;
  /** In-order use: buffers of a batch not handed out yet, and the length of the last of them. */
  batchLeft: u32;
  batchLength: u32;

  init(
    size: u32,
    ring: usize,
    driverEvent: usize,
    deviceEvent: usize,
    buffers: usize,
    nextId: usize,
    slotId: usize,
    tables: Tables,
    threshold: Threshold,
    eventIdx: bool,
    inOrder: bool,
    indirect: bool,
    strict: bool,
    addressOffset: u64,
  ): void {
    memory.fill(changetype<usize>(this), 0, offsetof<PackedDriver>());
    this.size = size;
    this.ring = ring;
    this.driverEvent = driverEvent;
    this.deviceEvent = deviceEvent;
    this.buffers = buffers;
    this.nextId = nextId;
    this.slotId = slotId;
    this.tables = tables;
    this.threshold = threshold;
    this.eventIdx = eventIdx;
    this.inOrder = inOrder;
    this.indirect = indirect;
    this.strict = strict;
    this.addressOffset = addressOffset;
    this.reset();
  }

  /** Everything private as after creation; the areas are cleared by `reset`. */
  private clear(): void {
    const size = this.size;
    this.mend();
    this.eventFlags = RING_EVENT_FLAGS_ENABLE;
    this.nextAvail = 0;
    this.availWrap = true;
    this.nextUsed = 0;
    this.usedWrap = true;
    this.freeId = 0;
    this.numFree = size;
    this.inFlight = 0;
    this.unkicked = 0;
    this.batchLeft = 0;
    this.batchLength = 0;
    this.tables.reset();
    this.threshold.reset();
    memory.fill(this.buffers, 0, <usize>size * BUFFER_BYTES);
    // A ring of ids: in-order use never changes it.
    for (let id: u32 = 0; id < size; id++) wordAtSet(this.nextId, id, id + 1 < size ? id + 1 : 0);
  }

  reset(): void {
    this.clear();
    memory.fill(this.ring, 0, <usize>this.size * DESC_BYTES);
    memory.fill(this.driverEvent, 0, EVENT_BYTES);
    memory.fill(this.deviceEvent, 0, EVENT_BYTES);
  }

  get position(): u32 {
    return position(this.nextAvail, this.availWrap);
  }

  addBurst(segments: usize, tokens: usize, n: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    const firstSlot = this.nextAvail;
    const firstWrap = this.availWrap;
    const held = this.numFree;
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
    // Saturates: from 2^16 on the window of `passed` would be ambiguous, see kickPrepare. numFree counts
    // slots, so the difference is how many the burst took.
    this.unkicked = min<u32>(this.unkicked + held - this.numFree, 0x10000);
    // The device looks at slots in ring order: it cannot get past the first one before this store.
    descFlagsSet(descriptor(this.ring, firstSlot), this.firstFlags | availBits(firstWrap));
    return <i32>added;
  }

  /** Bits of a head's flags: those of the burst's first one are held back until all else is written. */
  @inline
  private headBits(index: u32): u32 {
    return index == 0 ? usedBits(!this.availWrap) : availBits(this.availWrap);
  }

  /** Makes `slot` the next one, at most one behind the last. */
  private moveTo(slot: u32): void {
    if (slot == this.size) {
      this.nextAvail = 0;
      this.availWrap = !this.availWrap;
    } else this.nextAvail = slot;
  }

  /** Remembers a buffer under an id. Returns the id behind that one in the list of free ones. */
  @inline
  private enter(token: u32, id: u32, writable: u64, table: u32, count: u32, slot: u32): u32 {
    bufferAt(this.buffers, id).set(token, <u32>min<u64>(writable, 0xffff_ffff), table, count, slot);
    if (this.inOrder) wordAtSet(this.slotId, slot, id);
    return wordAt(this.nextId, id);
  }

  /** Segments of the buffers in flight, in the ring and in tables. */
  private segmentsInFlight(): u32 {
    const tables = this.tables;
    return this.size - this.numFree - tables.count + tables.descriptors;
  }

  /**
   * Adds buffers of one direct segment, the most frequent ones, from the first of a burst on: up to another one, to
   * one that the threshold has to see, or to the end of the ring, where the bits of the flags change.
   * @returns how many
   */
  private addSingles(tokens: usize, n: u32): u32 {
    const ring = this.ring;
    const buffers = this.buffers;
    const nextId = this.nextId;
    const inOrder = this.inOrder;
    const threshold = this.threshold;
    const first = this.nextAvail;
    const until = min(n, min(threshold.room(this.numFree), this.size - first));
    if (until == 0) return 0;
    const owner = availBits(this.availWrap);
    let bits = this.headBits(0);
    let record = this.record;
    let id = this.freeId;
    let slot = first;
    let bytes: u64 = 0;
    let added: u32 = 0;
    this.firstFlags = restSegmentFlags(segmentRest(record)) & DESC_F_WRITE;
    for (; added < until; added++) {
      const rest = segmentRest(record);
      if (restCount(rest) != 1) break;
      assert(id < this.size);
      const write = restSegmentFlags(rest) & DESC_F_WRITE;
      const length = restLength(rest);
      const address = descriptor(ring, slot);
      descAddrSet(address, segmentAddress(record));
      descRestSet(address, length, id, write | bits);
      bits = owner;
      const writable = write ? length : 0;
      bytes += length - writable;
      bufferAt(buffers, id).set(token(tokens, added), writable, 0, 1, slot);
      if (inOrder) wordAtSet(this.slotId, slot, id);
      id = wordAt(nextId, id);
      record += SEGMENT_BYTES;
      slot++;
    }
    if (added == 0) return 0;
    this.record = record;
    this.freeId = id;
    this.numFree -= added;
    this.bytesOut += bytes;
    this.moveTo(slot);
    return added;
  }

  /**
   * Adds direct buffers of any length from the one with index `from` on: up to one that goes through a table, does not
   * fit, has to be seen by the threshold, or goes around the end of the ring.
   * @returns how many
   */
  private addChains(tokens: usize, from: u32, n: u32): u32 {
    const threshold = this.threshold;
    const free = this.numFree;
    const room = min(threshold.room(free), this.size - this.nextAvail);
    const limit = this.indirect ? threshold.value : room;
    const reserve = this.indirect ? threshold.reserve(free, n - from) : THRESHOLD_NO_LIMIT;
    return this.addDirect(tokens, from, n, limit, room, reserve, availBits(this.availWrap));
  }

  /**
   * Adds direct buffers of up to `limit` segments each and `room` segments in all, which is not beyond the end of the
   * ring: the i-th (from 0 on) only if they have no more than `reserve` + i with it. `owner`: the bits of an available
   * descriptor.
   * @returns how many
   */
  private addDirect(tokens: usize, from: u32, n: u32, limit: u32, room: u32, reserve: u32, owner: u32): u32 {
    const ring = this.ring;
    let bits = this.headBits(from);
    let record = this.record;
    let id = this.freeId;
    let head = descriptor(ring, this.nextAvail);
    let segments: u32 = 0;
    const behindFrom = reserve - from;
    let bytes: u64 = 0;
    let added = from;
    if (from == 0) this.firstFlags = segmentFlagsCount(record) & 0xffff;
    for (; added < n; added++) {
      const flags = segmentFlagsCount(record);
      const count = flags >> 16;
      // A count of 0 makes the largest number.
      if (count - 1 >= limit) break;
      const after = segments + count;
      if (after > min(room, behindFrom + added)) break;
      const behind = descriptor(head, count);
      const len = segmentLength(record);
      descAddrSet(head, segmentAddress(record));
      descSegmentSet(head, len, flags, idFlags(id, bits));
      bits = owner;
      let total: u64 = len;
      let writable: u64 = flags & DESC_F_WRITE ? len : 0;
      record += SEGMENT_BYTES;
      const same = idFlags(id, owner);
      for (let desc = head + DESC_BYTES; desc != behind; desc += DESC_BYTES) {
        const flags = segmentFlagsCount(record);
        const len = segmentLength(record);
        descAddrSet(desc, segmentAddress(record));
        descSegmentSet(desc, len, flags, same);
        total += len;
        writable += flags & DESC_F_WRITE ? len : 0;
        record += SEGMENT_BYTES;
      }
      segments = after;
      bytes += total - writable;
      const slot = <u32>((head - ring) / DESC_BYTES);
      id = this.enter(token(tokens, added), id, writable, 0, count, slot);
      head = behind;
    }
    this.record = record;
    this.freeId = id;
    this.numFree -= segments;
    this.bytesOut += bytes;
    this.moveTo(<u32>((head - ring) / DESC_BYTES));
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
    let id = this.freeId;
    let free = this.numFree;
    let slot = this.nextAvail;
    let bits = this.headBits(from);
    let bytes: u64 = 0;
    let added = from;
    if (from == 0) this.firstFlags = DESC_F_INDIRECT;
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
      const end = descriptor(at, count);
      let total: u64 = 0;
      let writable: u64 = 0;
      for (let desc = at; desc != end; desc += DESC_BYTES) {
        const rest = segmentRest(record);
        descAddrSet(desc, segmentAddress(record));
        descRestSet(desc, restLength(rest), 0, restSegmentFlags(rest) & DESC_F_WRITE);
        total += restLength(rest);
        writable += writableLength(rest);
        record += SEGMENT_BYTES;
      }
      const address = descriptor(this.ring, slot);
      descAddrSet(address, at + this.addressOffset);
      descRestSet(address, count * DESC_BYTES, id, DESC_F_INDIRECT | bits);
      bytes += total - writable;
      id = this.enter(token(tokens, added), id, writable, table, count, slot);
      free--;
      this.moveTo(slot + 1);
      slot = this.nextAvail;
      bits = availBits(this.availWrap);
    }
    const some = added - from;
    this.record = record;
    this.freeId = id;
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
    const size = this.size;
    const free = this.numFree;
    const threshold = this.threshold;
    const rest = segmentRest(this.record);
    const count = restCount(rest);
    // A count of 0 describes no buffer: refused like one that can never fit.
    if (count == 0 || count > size) return RESULT_TOO_LONG;
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
    if (this.nextAvail + count > size) this.addAround(tokens, index, count);
    else this.addDirect(tokens, index, index + 1, count, count, count, availBits(this.availWrap));
    return 1;
  }

  /** Adds a direct buffer that goes around the end of the ring. There is room for it. */
  private addAround(tokens: usize, index: u32, count: u32): void {
    const id = this.freeId;
    const head = this.nextAvail;
    let bits = this.headBits(index);
    let record = this.record;
    let total: u64 = 0;
    let writable: u64 = 0;
    if (index == 0) this.firstFlags = restSegmentFlags(segmentRest(record));
    for (let i: u32 = 0; i < count; i++) {
      const rest = segmentRest(record);
      const address = descriptor(this.ring, this.nextAvail);
      descAddrSet(address, segmentAddress(record));
      descSegmentSet(address, restLength(rest), restSegmentFlags(rest), idFlags(id, bits));
      total += restLength(rest);
      writable += writableLength(rest);
      record += SEGMENT_BYTES;
      this.moveTo(this.nextAvail + 1);
      bits = availBits(this.availWrap);
    }
    this.record = record;
    this.freeId = this.enter(token(tokens, index), id, writable, 0, count, head);
    this.numFree -= count;
    this.bytesOut += total - writable;
  }

  kickPrepare(): bool {
    const moved = this.unkicked;
    this.unkicked = 0;
    // The device sets its event and then looks at the descriptor; this side published the descriptor and
    // now reads the event. Without a fence in between both could miss the other's store (2.8.21.3.1).
    fence();
    const word = eventWord(this.deviceEvent);
    const flags = wordFlags(word);
    let wanted = flags != RING_EVENT_FLAGS_DISABLE;
    if (flags == RING_EVENT_FLAGS_DESC && this.eventIdx && moved < 0x10000) {
      // Nothing was made available that an event could name.
      if (moved == 0) return false;
      wanted = passed(wordOffWrap(word), this.nextAvail, this.availWrap, moved, this.size);
    }
    if (wanted) this.notified++;
    else this.suppressed++;
    return wanted;
  }

  /** True if the descriptor at a slot was used in the lap with this wrap counter. */
  private isUsed(slot: u32, wrap: bool): bool {
    return ownerBits(descFlags(descriptor(this.ring, slot))) == usedBits(wrap);
  }

  getBurst(completions: usize, max: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder) return this.getInOrder(completions, max);
    const end = descriptor(this.ring, this.size);
    let taken: u32 = 0;
    let handled: u32 = 0;
    let result: i32 = 1;
    while (taken < max) {
      const direct = this.getDirect(completions, taken, max, end, usedBits(this.usedWrap));
      taken += direct;
      if (taken == max) break;
      if (!this.isUsed(this.nextUsed, this.usedWrap)) {
        // Nothing more. Ask for an event at this slot and look once more: the device may have used it
        // before it saw the event.
        if (taken == handled || !this.askFrom(this.nextUsed, this.usedWrap)) break;
        handled = taken;
        continue;
      }
      const tabled = this.getTables(completions, taken, max);
      taken += tabled;
      if (direct + tabled > 0) continue;
      result = this.getOne(completions, taken);
      if (result <= 0) break;
      taken++;
    }
    this.tables.settle();
    this.completed += taken;
    if (taken > handled) this.askFrom(this.nextUsed, this.usedWrap);
    // A bad descriptor that is not first in line waits for the next call.
    return taken > 0 || result >= 0 ? <i32>taken : result;
  }

  /**
   * Takes direct buffers with a sound descriptor, as many as come in a row up to the end of the ring, to the records
   * from `index` on. `wanted`: the bits of a used descriptor.
   */
  private getDirect(completions: usize, index: u32, max: u32, end: usize, wanted: u32): u32 {
    const size = this.size;
    const buffers = this.buffers;
    const nextId = this.nextId;
    const from = descriptor(this.ring, this.nextUsed);
    let desc = from;
    let freeId = this.freeId;
    let bytes: u64 = 0;
    let taken = index;
    while (taken < max) {
      if (!isPublished(desc, wanted)) break;
      const rest = descRest(desc);
      if (ownerBits(restFlags(rest)) != wanted) break;
      const id = restId(rest);
      // Checked before anything is looked up by it.
      if (id >= size) break;
      const buffer = bufferAt(buffers, id);
      const chain = buffer.chain;
      if (chainTable(chain) != 0) break;
      const tokenWritable = buffer.tokenWritable;
      const len = restLen(rest);
      if (len > <u32>(tokenWritable >> 32)) break;
      const segments = <u32>buffer.segments;
      if (segments == 0) break;
      completionSet(completions, taken, <u32>tokenWritable, len);
      bytes += len;
      buffer.segments = 0;
      wordAtSet(nextId, id, freeId);
      freeId = id;
      taken++;
      desc = descriptor(desc, segments);
      if (desc >= end) break;
    }
    const some = taken - index;
    const slots = <u32>((desc - from) / DESC_BYTES);
    this.freeId = freeId;
    this.bytesIn += bytes;
    this.numFree += slots;
    this.inFlight -= some;
    this.usedTo(this.nextUsed + slots);
    return some;
  }

  /** Makes `slot` the next one to be used; it may lie behind the end of the ring. */
  private usedTo(slot: u32): void {
    if (slot >= this.size) {
      this.nextUsed = slot - this.size;
      this.usedWrap = !this.usedWrap;
    } else this.nextUsed = slot;
  }

  /** Takes buffers that have tables and a sound descriptor, as many as come in a row, to the records from `index` on. */
  private getTables(completions: usize, index: u32, max: u32): u32 {
    const size = this.size;
    const ring = this.ring;
    const tables = this.tables;
    let slot = this.nextUsed;
    let wrap = this.usedWrap;
    let freeId = this.freeId;
    let bytes: u64 = 0;
    let taken = index;
    for (; taken < max; taken++) {
      const desc = descriptor(ring, slot);
      const flags = descFlags(desc);
      if (ownerBits(flags) != usedBits(wrap)) break;
      const rest = descRest(desc);
      const id = restId(rest);
      if (id >= size) break;
      const buffer = bufferAt(this.buffers, id);
      const chain = buffer.chain;
      const segments = chainSegments(chain);
      const table = chainTable(chain);
      const tokenWritable = buffer.tokenWritable;
      const len = restLen(rest);
      if (segments == 0 || table == 0 || len > <u32>(tokenWritable >> 32)) break;
      completionSet(completions, taken, <u32>tokenWritable, len);
      bytes += len;
      buffer.segments = 0;
      tables.takeBack(table, segments);
      wordAtSet(this.nextId, id, freeId);
      freeId = id;
      if (++slot == size) {
        slot = 0;
        wrap = !wrap;
      }
    }
    const some = taken - index;
    this.nextUsed = slot;
    this.usedWrap = wrap;
    this.freeId = freeId;
    this.numFree += some;
    this.inFlight -= some;
    this.bytesIn += bytes;
    return some;
  }

  /**
   * Takes the buffer of one used descriptor of any kind; its flags have said that it is used. 1, or 0 if it is
   * bad and not the first or no longer used, or RESULT_BROKEN.
   */
  private getOne(completions: usize, index: u32): i32 {
    const size = this.size;
    const desc = descriptor(this.ring, this.nextUsed);
    const flags = descFlags(desc);
    if (ownerBits(flags) != usedBits(this.usedWrap)) return 0;
    const rest = descRest(desc);
    const id = restId(rest);
    if (id >= size) return index == 0 ? this.break(FAULT_USED_ID_RANGE, id, size) : 0;
    const buffer = this.buffer(id);
    const segments = <u32>buffer.segments;
    let len = restLen(rest);
    if (segments == 0) return index == 0 ? this.break(FAULT_USED_ID, id, len) : 0;
    if (len > buffer.writable && !(flags & DESC_F_WRITE)) len = 0;
    if (len > buffer.writable) {
      if (this.strict) return index == 0 ? this.break(FAULT_USED_LEN, len, buffer.writable) : 0;
      len = buffer.writable;
      this.clamped++;
    }
    completionSet(completions, index, buffer.token, len);
    this.retire(buffer);
    wordAtSet(this.nextId, id, this.freeId);
    this.freeId = id;
    this.bytesIn += len;
    return 1;
  }

  /** Takes a used buffer out of flight and moves past its slots. */
  private retire(buffer: Buffer): void {
    const slots = buffer.slots;
    if (buffer.table != 0) this.tables.free(buffer.table, buffer.segments);
    buffer.segments = 0;
    this.numFree += slots;
    this.inFlight--;
    this.usedTo(this.nextUsed + slots);
  }

  /** With an event at a descriptor asked for, asks for it at this position. False if it was not written. */
  private askFrom(slot: u32, wrap: bool): bool {
    if (this.eventFlags != RING_EVENT_FLAGS_DESC) return false;
    eventOffWrapSet(this.driverEvent, position(slot, wrap));
    // The store must be seen before the descriptor is looked at again (2.8.22, the example).
    fence();
    return true;
  }

  /** getBurst with IN_ORDER: one used descriptor may answer for several buffers. */
  private getInOrder(completions: usize, max: u32): i32 {
    const size = this.size;
    const buffers = this.buffers;
    let taken: u32 = 0;
    let asked = false;
    while (taken < max) {
      if (this.batchLeft == 0) {
        const desc = descriptor(this.ring, this.nextUsed);
        const flags = descFlags(desc);
        if (ownerBits(flags) != usedBits(this.usedWrap)) {
          if (asked || taken == 0 || !this.askFrom(this.nextUsed, this.usedWrap)) break;
          asked = true;
          continue;
        }
        const result = this.openBatch(flags, descRest(desc), taken == 0);
        if (result < 0) return result;
        if (result == 0) break;
      }
      asked = false;
      // openBatch has counted the buffers up to the one that was named: there are batchLeft of them.
      const some = min(this.batchLeft, max - taken);
      const left = this.batchLeft - some;
      const end = taken + some;
      let slot = this.nextUsed;
      let id = wordAt(this.slotId, slot);
      let freed: u32 = 0;
      let bytes: u64 = 0;
      for (; taken < end; taken++) {
        assert(id < size && wordAt(this.slotId, slot) == id);
        const buffer = bufferAt(buffers, id);
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
        if (++id == size) id = 0;
        slot += slots;
        if (slot >= size) {
          slot -= size;
          this.usedWrap = !this.usedWrap;
        }
      }
      if (left == 0) bytes += completionLess(completions, end - 1, this.batchLength);
      this.batchLeft = left;
      this.bytesIn += bytes;
      this.nextUsed = slot;
      this.numFree += freed;
      this.inFlight -= some;
      this.completed += some;
    }
    this.tables.settle();
    if (taken > 0 && !asked) this.askFrom(this.nextUsed, this.usedWrap);
    return <i32>taken;
  }

  /**
   * Reads a used descriptor of in-order use: finds how many buffers it answers for. 1, or 0 if it is bad and
   * not first in line, or RESULT_BROKEN.
   */
  private openBatch(flags: u32, rest: u64, first: bool): i32 {
    const size = this.size;
    const last = restId(rest);
    if (last >= size) return first ? this.break(FAULT_USED_ID_RANGE, last, size) : 0;
    const buffer = this.buffer(last);
    let len = restLen(rest);
    if (buffer.segments == 0) return first ? this.break(FAULT_USED_ID, last, len) : 0;
    // In-order use takes the ids in turn, so those in flight follow each other.
    const oldest = wordAt(this.slotId, this.nextUsed);
    const count = (last >= oldest ? last - oldest : last + size - oldest) + 1;
    if (count > this.inFlight) return first ? this.break(FAULT_USED_BATCH, last, this.inFlight) : 0;
    if (len > buffer.writable && !(flags & DESC_F_WRITE)) len = 0;
    if (len > buffer.writable) {
      if (this.strict) return first ? this.break(FAULT_USED_LEN, len, buffer.writable) : 0;
      len = buffer.writable;
      this.clamped++;
    }
    this.batchLeft = count;
    this.batchLength = len;
    return 1;
  }

  @inline
  private buffer(id: u32): Buffer {
    assert(id < this.size);
    return bufferAt(this.buffers, id);
  }

  moreUsed(): bool {
    return this.batchLeft > 0 || this.isUsed(this.nextUsed, this.usedWrap);
  }

  disableCallbacks(): void {
    if (this.eventFlags == RING_EVENT_FLAGS_DISABLE) return;
    this.eventFlags = RING_EVENT_FLAGS_DISABLE;
    eventFlagsSet(this.driverEvent, RING_EVENT_FLAGS_DISABLE);
  }

  enableCallbacksPrepare(): u32 {
    const opaque = position(this.nextUsed, this.usedWrap);
    this.enableAt(opaque);
    return opaque;
  }

  private enableAt(offWrap: u32): void {
    // The offset goes first: flags that say DESC must not be seen beside an old one.
    if (this.eventIdx) eventOffWrapSet(this.driverEvent, offWrap);
    if (this.eventFlags == RING_EVENT_FLAGS_DISABLE) {
      this.eventFlags = this.eventIdx ? RING_EVENT_FLAGS_DESC : RING_EVENT_FLAGS_ENABLE;
      eventFlagsSet(this.driverEvent, this.eventFlags);
    }
    fence();
  }

  /** `opaque` has a slot below the queue size: the host has checked it. */
  poll(opaque: u32): bool {
    fence();
    // What is left of a batch is there, whatever the slots say that it covers.
    return this.batchLeft > 0 || this.isUsed(positionSlot(opaque), positionWrap(opaque));
  }

  enableCallbacksDelayed(): bool {
    const size = this.size;
    // At most `size` slots are in flight, so the sum wraps at most once.
    let slot = this.nextUsed + (((size - this.numFree) * 3) >> 2);
    let wrap = this.usedWrap;
    if (slot >= size) {
      slot -= size;
      wrap = !wrap;
    }
    this.enableAt(position(slot, wrap));
    return !this.moreUsed();
  }

  save(words: usize): void {
    store<u32>(words, this.position, DRIVER_AVAIL << 2);
    store<u32>(words, position(this.nextUsed, this.usedWrap), DRIVER_USED << 2);
    store<u32>(words, this.eventFlags, DRIVER_EVENTS << 2);
    store<u32>(words, this.unkicked, DRIVER_UNKICKED << 2);
    store<u32>(words, this.freeId, DRIVER_FREE << 2);
    store<u32>(words, this.numFree, DRIVER_NUM_FREE << 2);
    store<u32>(words, this.inFlight, DRIVER_IN_FLIGHT << 2);
    store<u32>(words, this.batchLeft, DRIVER_BATCH_LEFT << 2);
    // Without an open batch it is the length of one that was handed out.
    store<u32>(words, this.batchLeft > 0 ? this.batchLength : 0, DRIVER_BATCH_LENGTH << 2);
  }

  load(words: usize): void {
    const avail = load<u32>(words, DRIVER_AVAIL << 2);
    const used = load<u32>(words, DRIVER_USED << 2);
    this.mend();
    this.nextAvail = positionSlot(avail);
    this.availWrap = positionWrap(avail);
    this.nextUsed = positionSlot(used);
    this.usedWrap = positionWrap(used);
    this.eventFlags = load<u32>(words, DRIVER_EVENTS << 2);
    this.unkicked = load<u32>(words, DRIVER_UNKICKED << 2);
    this.freeId = load<u32>(words, DRIVER_FREE << 2);
    this.numFree = load<u32>(words, DRIVER_NUM_FREE << 2);
    this.inFlight = load<u32>(words, DRIVER_IN_FLIGHT << 2);
    this.batchLeft = load<u32>(words, DRIVER_BATCH_LEFT << 2);
    this.batchLength = load<u32>(words, DRIVER_BATCH_LENGTH << 2);
  }

  /** Another source of tables. Those in flight go back to the allocator and not to a list. */
  setTables(strategy: u32, descriptors: u32, bound: u32, prefill: u32): void {
    for (let id: u32 = 0; id < this.size; id++) {
      const buffer = this.buffer(id);
      buffer.table = Tables.address(buffer.table);
    }
    this.tables.configure(strategy, descriptors, bound, prefill);
  }

  detachUnused(completion: usize): bool {
    for (let id: u32 = 0; id < this.size; id++) {
      const buffer = this.buffer(id);
      if (buffer.segments == 0) continue;
      completionSet(completion, 0, buffer.token, 0);
      this.numFree += buffer.slots;
      if (buffer.table != 0) this.tables.free(buffer.table, buffer.segments);
      this.tables.settle();
      buffer.segments = 0;
      // In-order use never changes the ring of ids; only a reset makes it usable again after this.
      if (!this.inOrder) {
        wordAtSet(this.nextId, id, this.freeId);
        this.freeId = id;
      }
      this.batchLeft = 0;
      this.inFlight--;
      return true;
    }
    return false;
  }
}
