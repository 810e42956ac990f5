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
  THRESHOLD_ADAPTIVE,
  THRESHOLD_FIXED,
  THRESHOLD_HYSTERESIS,
} from '../abi/layout';
import {
  availBits,
  descAddrSet,
  descFlags,
  descFlagsSet,
  descLenIdSet,
  descRest,
  descRestSet,
  descriptor,
  eventFlagsSet,
  eventOffWrapSet,
  eventWord,
  ownerBits,
  passed,
  position,
  positionSlot,
  positionWrap,
  restId,
  restLen,
  usedBits,
  wordFlags,
  wordOffWrap,
} from '../abi/packed';
import { Queue } from '../abi/queue';
import {
  completionSet,
  isReadable,
  restCount,
  restLength,
  restSegmentFlags,
  segmentAddress,
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
  /** Flags of the first descriptor of the burst under way. */
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
    const size = this.size;
    const ring = this.ring;
    const buffers = this.buffers;
    const nextId = this.nextId;
    const inOrder = this.inOrder;
    const firstSlot = this.nextAvail;
    const held = this.numFree;
    // Buffers of one segment, the most frequent ones, in a loop that keeps everything in registers. From the
    // first other one on, and from the end of the ring on, where the bits of the flags change, addAny goes on.
    let record = segments;
    let id = this.freeId;
    let slot = firstSlot;
    const owner = availBits(this.availWrap);
    let bytes: u64 = 0;
    let fast: u32 = 0;
    const threshold = this.threshold;
    let until = min(n, min(held, size - slot));
    let observed: u32 = 0;
    if (threshold.mode == THRESHOLD_ADAPTIVE && n > 0) {
      observed = this.observeEmpty(segments);
      // The one that takes the last slot is observed in addAny.
      until = min(until, held - 1);
    }
    for (; fast < until; fast++) {
      const rest = segmentRest(record);
      if (restCount(rest) != 1) break;
      assert(id < size);
      const write = restSegmentFlags(rest) & DESC_F_WRITE;
      const length = restLength(rest);
      const address = descriptor(ring, slot);
      descAddrSet(address, segmentAddress(record));
      // The flags of the burst's head follow when all else is written.
      if (fast == 0) {
        this.firstFlags = write | owner;
        descLenIdSet(address, length, id);
      } else descRestSet(address, length, id, write | owner);
      const writable = write ? length : 0;
      bytes += length - writable;
      bufferAt(buffers, id).set(token(tokens, fast), writable, 0, 1, slot);
      if (inOrder) wordAtSet(this.slotId, slot, id);
      id = wordAt(nextId, id);
      record += SEGMENT_BYTES;
      slot++;
    }
    if (threshold.mode == THRESHOLD_HYSTERESIS && fast > 0)
      threshold.observeSingles(fast, this.segmentsInFlight(), this.added);
    this.freeId = id;
    this.numFree = held - fast;
    this.bytesOut += bytes;
    this.moveTo(slot);
    const added = fast == n ? <i32>n : this.addAny(record, tokens, fast, n, observed);
    if (added <= 0) return added;
    this.inFlight += added;
    this.added += added;
    // Saturates: from 2^16 on the window of `passed` would be ambiguous, see kickPrepare. numFree counts
    // slots, so the difference is how many the burst took.
    this.unkicked = min<u32>(this.unkicked + held - this.numFree, 0x10000);
    // The device looks at slots in ring order: it cannot get past the first one before this store.
    descFlagsSet(descriptor(ring, firstSlot), this.firstFlags);
    return added;
  }

  /** Makes `slot` the next one, at most one behind the last. */
  private moveTo(slot: u32): void {
    if (slot == this.size) {
      this.nextAvail = 0;
      this.availWrap = !this.availWrap;
    } else this.nextAvail = slot;
  }

  /** Segments of the buffers in flight, in the ring and in tables. */
  private segmentsInFlight(): u32 {
    const tables = this.tables;
    return this.size - this.numFree - tables.count + tables.descriptors;
  }

  /** Lets the threshold see the first buffer of a burst if the ring is empty. Returns how many it has seen. */
  private observeEmpty(record: usize): u32 {
    const rest = segmentRest(record);
    const count = restCount(rest);
    if (this.numFree != this.size || count > this.size) return 0;
    this.threshold.observe(count, isReadable(rest), this.numFree, 0, this.added);
    return 1;
  }

  /**
   * Adds buffers of any shape, from the one with index `from` on, as far as they fit. The threshold has seen
   * those below index `observed`.
   * @returns how many of the burst are added then, or RESULT_TOO_LONG if it is none for that reason
   */
  private addAny(segments: usize, tokens: usize, from: u32, n: u32, observed: u32): i32 {
    const size = this.size;
    const ring = this.ring;
    const tables = this.tables;
    const threshold = this.threshold;
    const fixed = threshold.mode == THRESHOLD_FIXED;
    const indirect = this.indirect;
    let limit = threshold.value;
    let record = segments;
    let id = this.freeId;
    let free = this.numFree;
    let slot = this.nextAvail;
    let wrap = this.availWrap;
    let bytes: u64 = 0;
    let added = from;
    let tooLong = false;
    for (; added < n; added++) {
      const count = restCount(segmentRest(record));
      if (count > size) {
        tooLong = true;
        break;
      }
      if (!fixed && added >= observed) {
        const before = size - free - tables.count + tables.descriptors;
        threshold.observe(count, isReadable(segmentRest(record)), free, before, this.added + added);
        limit = threshold.value;
      }
      let table: u32 = 0;
      // The order of these tests is part of the contract: no free descriptor, no table.
      if (indirect && free > 0 && (count > limit || count > free)) {
        table = tables.alloc(count, min(n - added, free));
        if (table == 0) this.tableFailed++;
      }
      // Also where a table could not be had: nothing is written before the whole chain fits.
      if (table == 0 && count > free) {
        this.full++;
        break;
      }
      assert(id < size);
      const head = slot;
      const owner = availBits(wrap);
      let headAddr: u64;
      let headLen: u32;
      let headFlags: u32;
      let total: u64 = 0;
      let writable: u64 = 0;
      if (table != 0) {
        const at = <usize>Tables.address(table);
        for (let i: u32 = 0; i < count; i++) {
          const rest = segmentRest(record);
          const length = restLength(rest);
          const write = restSegmentFlags(rest) & DESC_F_WRITE;
          const address = descriptor(at, i);
          descAddrSet(address, segmentAddress(record));
          descRestSet(address, length, 0, write);
          total += length;
          writable += write ? length : 0;
          record += SEGMENT_BYTES;
        }
        headAddr = at + this.addressOffset;
        headLen = count * DESC_BYTES;
        headFlags = DESC_F_INDIRECT;
        free--;
        this.indirects++;
      } else {
        const rest = segmentRest(record);
        headAddr = segmentAddress(record);
        headLen = restLength(rest);
        headFlags = restSegmentFlags(rest);
        total = headLen;
        writable = writableLength(rest);
        record += SEGMENT_BYTES;
        let bits = owner;
        for (let i: u32 = 1; i < count; i++) {
          if (++slot == size) {
            slot = 0;
            wrap = !wrap;
            bits = availBits(wrap);
          }
          const rest = segmentRest(record);
          const length = restLength(rest);
          const address = descriptor(ring, slot);
          descAddrSet(address, segmentAddress(record));
          descRestSet(address, length, id, restSegmentFlags(rest) | bits);
          total += length;
          writable += writableLength(rest);
          record += SEGMENT_BYTES;
        }
        free -= count;
      }
      if (++slot == size) {
        slot = 0;
        wrap = !wrap;
      }
      const address = descriptor(ring, head);
      descAddrSet(address, headAddr);
      headFlags |= owner;
      // The flags of the burst's head follow when all else is written.
      if (added == 0) {
        this.firstFlags = headFlags;
        descLenIdSet(address, headLen, id);
      } else descRestSet(address, headLen, id, headFlags);
      bytes += total - writable;
      bufferAt(this.buffers, id).set(
        token(tokens, added),
        <u32>min<u64>(writable, 0xffff_ffff),
        table,
        count,
        head,
      );
      if (this.inOrder) wordAtSet(this.slotId, head, id);
      id = wordAt(this.nextId, id);
    }
    tables.settle();
    this.freeId = id;
    this.numFree = free;
    this.nextAvail = slot;
    this.availWrap = wrap;
    this.bytesOut += bytes;
    return tooLong && added == 0 ? RESULT_TOO_LONG : <i32>added;
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
    const size = this.size;
    const ring = this.ring;
    const buffers = this.buffers;
    const nextId = this.nextId;
    let taken: u32 = 0;
    let handled: u32 = 0;
    let result: i32 = 1;
    while (taken < max) {
      // Direct buffers with a sound descriptor, in a loop that keeps everything in registers. Slots may
      // jump by a chain's length, so the end of the ring is looked at each time.
      const from = this.nextUsed;
      let slot = from;
      let wanted = usedBits(this.usedWrap);
      let freeId = this.freeId;
      let bytes: u64 = 0;
      let more = true;
      const start = taken;
      for (; taken < max; taken++) {
        const desc = descriptor(ring, slot);
        const flags = descFlags(desc);
        if (ownerBits(flags) != wanted) {
          more = false;
          break;
        }
        const rest = descRest(desc);
        const id = restId(rest);
        // Checked before anything is looked up by it.
        if (id >= size) break;
        const buffer = bufferAt(buffers, id);
        const chain = buffer.chain;
        const segments = chainSegments(chain);
        const tokenWritable = buffer.tokenWritable;
        const len = restLen(rest);
        if (segments == 0 || chainTable(chain) != 0 || len > <u32>(tokenWritable >> 32)) break;
        completionSet(completions, taken, <u32>tokenWritable, len);
        bytes += len;
        buffer.segments = 0;
        wordAtSet(nextId, id, freeId);
        freeId = id;
        slot += segments;
        if (slot >= size) {
          slot -= size;
          wanted ^= usedBits(true);
        }
      }
      const wrap = wanted != 0;
      // No more slots than were in flight: one lap further on at most.
      this.numFree += slot - from + (wrap == this.usedWrap ? 0 : size);
      this.nextUsed = slot;
      this.usedWrap = wrap;
      this.freeId = freeId;
      this.inFlight -= taken - start;
      this.bytesIn += bytes;
      if (taken == max) break;
      if (!more) {
        // Nothing more. Ask for an event at this slot and look once more: the device may have used it
        // before it saw the event.
        if (taken == handled || !this.askFrom(slot, wrap)) break;
        handled = taken;
        continue;
      }
      const tabled = this.getTables(completions, taken, max);
      if (tabled > 0) {
        taken += tabled;
        continue;
      }
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
    let slot = this.nextUsed + slots;
    if (slot >= this.size) {
      slot -= this.size;
      this.usedWrap = !this.usedWrap;
    }
    this.nextUsed = slot;
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
      while (taken < end) {
        assert(id < size && wordAt(this.slotId, slot) == id);
        const buffer = bufferAt(buffers, id);
        const chain = buffer.chain;
        const tokenWritable = buffer.tokenWritable;
        const table = chainTable(chain);
        let slots = chainSegments(chain);
        if (table != 0) {
          this.tables.free(table, slots);
          slots = 1;
        }
        buffer.segments = 0;
        const len = taken + 1 == end && left == 0 ? this.batchLength : <u32>(tokenWritable >> 32);
        completionSet(completions, taken++, <u32>tokenWritable, len);
        bytes += len;
        freed += slots;
        if (++id == size) id = 0;
        slot += slots;
        if (slot >= size) {
          slot -= size;
          this.usedWrap = !this.usedWrap;
        }
      }
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
