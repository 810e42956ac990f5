// Device side of a packed virtqueue (virtio 1.4, 2.8). The driver is not trusted: every field of the ring
// is loaded once, checked, and only then used.

import {
  AVAILABLE_BUDGET,
  CHAIN_BYTES_MAX,
  DESC_BYTES,
  DESC_F_INDIRECT,
  DESC_F_NEXT,
  DESC_F_WRITE,
  DEVICE_AVAIL,
  DEVICE_EVENTS,
  DEVICE_FILL_FIRST,
  DEVICE_FILLS,
  DEVICE_IN_FLIGHT,
  DEVICE_ORDER,
  DEVICE_SLOTS,
  DEVICE_SPAN,
  DEVICE_UNSIGNALLED,
  DEVICE_USED,
  FAULT_CHAIN_BYTES,
  FAULT_CHAIN_LONG,
  FAULT_DESC_UNAVAILABLE,
  FAULT_HEAD_IN_FLIGHT,
  FAULT_HEAD_RANGE,
  FAULT_INDIRECT_NEXT,
  FAULT_INDIRECT_REFUSED,
  FAULT_NONE,
  FAULT_SEGMENT_ORDER,
  FAULT_SEGMENT_RANGE,
  FAULT_SLOTS,
  FAULT_TABLE_LENGTH,
  FAULT_TABLE_RANGE,
  FILL_BYTES,
  HEAD_BYTES,
  PACKED_DESC_F_AVAIL,
  PACKED_DESC_F_USED,
  RESULT_BROKEN,
  RESULT_NO_ROOM,
  RESULT_NOT_IN_FLIGHT,
  RESULT_SLOT,
  RESULT_WRITTEN,
  RING_EVENT_FLAGS_DESC,
  RING_EVENT_FLAGS_DISABLE,
  RING_EVENT_FLAGS_ENABLE,
} from '../abi/layout';
import {
  availBits,
  descAddr,
  descFlags,
  descFlagsSet,
  descId,
  descLenIdSet,
  descRest,
  descRestSet,
  descriptor,
  eventFlagsSet,
  eventOffWrapSet,
  eventWord,
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
  usedFlags,
  wordFlags,
  wordOffWrap,
  writeFlag,
} from '../abi/packed';
import { Queue } from '../abi/queue';
import { element, elementId, elementSet, elementWritten, pieceSet } from '../abi/records';
import { holds } from '../abi/region';
import { RegionTable } from '../abi/region-table';
import { Fill, fillAt, Head, headAt, leftOutBelow, mayBeLeftOut, wordAt, wordAtSet } from '../abi/state';
import { TranslationCache } from '../abi/translation';
import { fence } from '../order';

@unmanaged
export class PackedDevice extends Queue {
  // Where things are; fixed at creation. The areas are shared with the driver, all else is private.
  ring: usize;
  driverEvent: usize;
  deviceEvent: usize;
  /** Head[size], by id. */
  heads: usize;
  /** Fill[size], by offset from fillFirst on. */
  fillRing: usize;
  /** u16[size]: the ids popped, in a ring; 0xffff where nothing was popped. */
  order: usize;
  eventIdx: bool;
  inOrder: bool;
  /** In-order use: see mayBeLeftOut. */
  leftOutBelow: u32;
  indirect: bool;
  /** The translation cache is cleared for each chain, not only made empty when it is needed. */
  eager: bool;

  /** Wrap counters of the positions below. */
  availWrap: bool;
  usedWrap: bool;
  /** Event flags as last written. */
  eventFlags: u32;
  /** Next slot to pop from, next slot to write a used descriptor to. */
  nextAvail: u32;
  nextUsed: u32;
  /** Index in `order` of the next pop. */
  orderNext: u32;
  /** In-order use: pops from the one on for which the next used descriptor is. Above `size` nobody knows which. */
  span: u32;
  inFlight: u32;
  /** Ring slots of the elements in flight, and of those that were detached. */
  slotsInFlight: u32;
  /** Index in fillRing of offset 0, and how many are filled. */
  fillFirst: u32;
  fills: u32;
  /** Flags of the first used descriptor that is not published yet. */
  firstFlags: u32;
  /** Slots pushed since the last shouldInterrupt. */
  unsignalled: u32;

  /** Result of availableBytes. Doubles, exact up to 2^53: AVAILABLE_BUDGET segments of 2^32 bytes fit. */
  availableIn: f64;
  availableOut: f64;

  // What the last walk found.
  walkOut: u32;
  walkIn: u32;
  walkReadable: u64;
  walkWritable: u64;
  walkVisited: u32;
  walkSlots: u32;
  walkId: u32;
  walkIndirect: bool;
  /** The slot looked at is not available. */
  walkEmpty: bool;
  walkFault: u32;
  walkA: u64;
  walkB: u64;
  /** Where popDirect and popTables put the next piece. */
  walkPiece: u32;

  // RegionTable, embedded.
  regions: usize;
  regionCount: u32;
  regionHit: u32;
  translation: TranslationCache;

  init(
    size: u32,
    ring: usize,
    driverEvent: usize,
    deviceEvent: usize,
    heads: usize,
    fillRing: usize,
    order: usize,
    eventIdx: bool,
    inOrder: bool,
    batches: bool,
    indirect: bool,
    translation: TranslationCache,
    eager: bool,
  ): void {
    memory.fill(changetype<usize>(this), 0, offsetof<PackedDevice>());
    this.size = size;
    this.ring = ring;
    this.driverEvent = driverEvent;
    this.deviceEvent = deviceEvent;
    this.heads = heads;
    this.fillRing = fillRing;
    this.order = order;
    this.eventIdx = eventIdx;
    this.inOrder = inOrder;
    this.leftOutBelow = leftOutBelow(batches);
    this.indirect = indirect;
    this.translation = translation;
    this.eager = eager;
    this.reset();
  }

  reset(): void {
    this.mend();
    this.availWrap = true;
    this.usedWrap = true;
    this.eventFlags = RING_EVENT_FLAGS_ENABLE;
    this.nextAvail = 0;
    this.nextUsed = 0;
    this.orderNext = 0;
    this.span = 0;
    this.inFlight = 0;
    this.slotsInFlight = 0;
    this.fillFirst = 0;
    this.fills = 0;
    this.unsignalled = 0;
    memory.fill(this.heads, 0, <usize>this.size * HEAD_BYTES);
    memory.fill(this.fillRing, 0, <usize>this.size * FILL_BYTES);
    memory.fill(this.order, 0xff, (<usize>this.size) << 1);
  }

  get regionTable(): RegionTable {
    return changetype<RegionTable>(changetype<usize>(this) + offsetof<PackedDevice>('regions'));
  }

  @inline
  private head(id: u32): Head {
    assert(id < this.size);
    return headAt(this.heads, id);
  }

  @inline
  private popped(index: u32): u32 {
    assert(index < this.size);
    return wordAt(this.order, index);
  }

  private fillAt(offset: u32): Fill {
    let index = this.fillFirst + offset;
    if (index >= this.size) index -= this.size;
    return fillAt(this.fillRing, index);
  }

  // ---- Chains ----

  private bad(fault: u32, a: u64, b: u64): bool {
    this.walkFault = fault;
    this.walkA = a;
    this.walkB = b;
    return false;
  }

  /**
   * Follows the chain whose head lies at (first, wrap) and is available, with `firstFlags` already loaded.
   * Checks all of it and writes the pieces of its segments to `pieces` from index `at` on as far as
   * `capacity` goes. False if it is bad; then walkFault says why. Ends after at most `size` descriptors that
   * hold a segment.
   */
  private walk(first: u32, firstWrap: bool, firstFlags: u32, pieces: usize, at: u32, capacity: u32): bool {
    const size = this.size;
    const ring = this.ring;
    let slot = first;
    let wrap = firstWrap;
    let flags = firstFlags;
    let slots: u32 = 0;
    let total: u32 = 0;
    let readable: u64 = 0;
    let writable: u64 = 0;
    let piece = at;
    let firstIn: u32 = 0;
    let writing = false;
    let indirect = false;
    let id: u32 = 0;
    // Region of the last hit, in registers: most segments lie there.
    const region = this.regionTable.recent();
    const regionGuest = region.guest;
    const regionLength = region.length;
    const regionLocal = <u64>region.local - regionGuest;
    for (;;) {
      const desc = descriptor(ring, slot);
      const addr = descAddr(desc);
      const rest = descRest(desc);
      const len = restLen(rest);
      id = restId(rest);
      slots++;
      let table = desc;
      let entries: u32 = 1;
      if (flags & DESC_F_INDIRECT) {
        if (!this.indirect) return this.bad(FAULT_INDIRECT_REFUSED, slot, flags);
        if (flags & DESC_F_NEXT || slots > 1) return this.bad(FAULT_INDIRECT_NEXT, slot, flags);
        if (len == 0 || len % DESC_BYTES != 0) return this.bad(FAULT_TABLE_LENGTH, len, addr);
        const local = this.regionTable.whole(addr, len);
        if (local == <u64>-1) return this.bad(FAULT_TABLE_RANGE, addr, len);
        table = <usize>local;
        entries = len / DESC_BYTES;
        indirect = true;
      }
      for (let i: u32 = 0; i < entries; i++) {
        let segmentAddr = addr;
        let segmentLen = len;
        let write = (flags & DESC_F_WRITE) != 0;
        if (indirect) {
          const entry = descriptor(table, i);
          segmentAddr = descAddr(entry);
          const entryRest = descRest(entry);
          segmentLen = restLen(entryRest);
          // No other flag, and no id, means anything in a table (2.8.7).
          write = (restFlags(entryRest) & DESC_F_WRITE) != 0;
        }
        if (++total > size) return this.bad(FAULT_CHAIN_LONG, first, size);
        if (write) {
          if (!writing) firstIn = piece - at;
          writing = true;
          writable += segmentLen;
        } else {
          if (writing) return this.bad(FAULT_SEGMENT_ORDER, segmentAddr, segmentLen);
          readable += segmentLen;
        }
        if (holds(regionGuest, regionLength, segmentAddr, segmentLen)) {
          if (piece < capacity) pieceSet(pieces, piece, <u32>(regionLocal + segmentAddr), segmentLen);
          piece++;
        } else {
          const count = this.regionTable.pieces(segmentAddr, segmentLen, pieces, piece, capacity);
          if (count == 0) return this.bad(FAULT_SEGMENT_RANGE, segmentAddr, segmentLen);
          piece += count;
        }
        if (readable + writable > <u64>CHAIN_BYTES_MAX)
          return this.bad(FAULT_CHAIN_BYTES, first, readable + writable);
      }
      if (!(flags & DESC_F_NEXT)) break;
      if (++slot == size) {
        slot = 0;
        wrap = !wrap;
      }
      // The driver publishes the head last, so whatever belongs to the chain is there (2.8.17).
      flags = descFlags(descriptor(ring, slot));
      if (ownerBits(flags) != availBits(wrap)) return this.bad(FAULT_DESC_UNAVAILABLE, first, slot);
    }
    if (id >= size) return this.bad(FAULT_HEAD_RANGE, id, size);
    // An id is in flight once, so there are never more than `size` elements in flight.
    if (this.head(id).inFlight) return this.bad(FAULT_HEAD_IN_FLIGHT, id, this.inFlight);
    const count = piece - at;
    if (!writing) firstIn = count;
    this.walkOut = firstIn;
    this.walkIn = count - firstIn;
    this.walkReadable = readable;
    this.walkWritable = writable;
    this.walkVisited = total;
    this.walkSlots = slots;
    this.walkId = id;
    this.walkIndirect = indirect;
    return true;
  }

  /** Before the first walk of a chain or a query: nothing that is cached from before may be believed. */
  private beginTranslation(): void {
    if (this.eager) this.translation.clear();
    else this.translation.begin();
  }

  // ---- Taking ----

  popBurst(elements: usize, pieces: usize, capacity: u32, max: u32): i32 {
    if (this.eager) return this.popEager(elements, pieces, capacity, max);
    return this.popWith(false, elements, pieces, capacity, max);
  }

  /** In a function of its own, so that the loop for the other strategy has nothing of it. */
  private popEager(elements: usize, pieces: usize, capacity: u32, max: u32): i32 {
    return this.popWith(true, elements, pieces, capacity, max);
  }

  @inline
  private popWith(eager: bool, elements: usize, pieces: usize, capacity: u32, max: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    const size = this.size;
    const ring = this.ring;
    const heads = this.heads;
    const order = this.order;
    let at: u32 = 0;
    let taken: u32 = 0;
    let handled: u32 = 0;
    let result: i32 = 1;
    while (taken < max) {
      // Chains of one direct segment in the region of the last hit, the most frequent ones, in a loop that keeps
      // everything in registers. Any other is left to popDirect and popTables.
      const region = this.regionTable.recent();
      const regionGuest = region.guest;
      const regionLength = region.length;
      const regionLocal = region.local;
      let slot = this.nextAvail;
      let next = this.orderNext;
      let readable: u64 = 0;
      let more = true;
      const start = taken;
      // Up to the end of the ring, where the bits of the flags change, and as far as slots may be in flight.
      const wanted = availBits(this.availWrap);
      const room = min(min(size - slot, size - this.slotsInFlight), capacity - at);
      const end = min(max, taken + room);
      for (; taken < end; taken++) {
        const desc = descriptor(ring, slot);
        if (!isPublished(desc, wanted)) {
          more = false;
          break;
        }
        const rest = descRest(desc);
        const flags = restFlags(rest);
        if (ownerBits(flags) != wanted) {
          more = false;
          break;
        }
        if (flags & (DESC_F_NEXT | DESC_F_INDIRECT)) break;
        const offset = descAddr(desc) - regionGuest;
        if (offset >= regionLength) break;
        const len = restLen(rest);
        if (<u64>len - 1 >= regionLength - offset) break;
        const id = restId(rest);
        if (id >= size) break;
        const head = headAt(heads, id);
        if (head.inFlight) break;
        const writing: u32 = (flags & DESC_F_WRITE) >> 1;
        if (eager) this.translation.clear();
        pieceSet(pieces, at, regionLocal + <u32>offset, len);
        elementSet(element(elements, taken), id, at, 1 << (writing << 4));
        head.set(writing ? len : 0, 1);
        readable += writing ? 0 : len;
        wordAtSet(order, next, id);
        if (++next == size) next = 0;
        at++;
        slot++;
      }
      const got = taken - start;
      this.orderNext = next;
      this.bytesOut += readable;
      this.inFlight += got;
      this.slotsInFlight += got;
      this.moveTo(slot);
      if (taken == max) break;
      if (more) {
        if (taken == end && got > 0) continue;
        // Each descriptor takes a slot and a piece, so one bound will do for all that may run out, and for the end of
        // the ring, where the bits of the flags change.
        const slots = min(min(size - this.nextAvail, size - this.slotsInFlight), capacity - at);
        const direct = this.popDirect(
          eager,
          element(elements, taken),
          max - taken,
          pieces,
          at,
          descriptor(ring, this.nextAvail + slots),
          availBits(this.availWrap),
        );
        at = this.walkPiece;
        taken += direct;
        if (taken == max) break;
        const tabled = this.popTables(eager, element(elements, taken), max - taken, pieces, at, capacity);
        at = this.walkPiece;
        taken += tabled;
        if (direct + tabled > 0) continue;
        result = this.popOne(element(elements, taken), taken == 0, pieces, at, capacity);
        if (result > 0) {
          at += this.walkOut + this.walkIn;
          taken++;
          continue;
        }
        if (result < 0 || !this.walkEmpty) break;
      }
      // Nothing more. Ask for a notification at this slot and look once more: the driver may have made it
      // available before it saw the event.
      if (taken == handled || !this.askFrom(this.nextAvail, this.availWrap)) break;
      handled = taken;
    }
    this.added += taken;
    this.span += taken;
    if (taken > handled) this.askFrom(this.nextAvail, this.availWrap);
    return taken > 0 || result >= 0 ? <i32>taken : result;
  }

  /**
   * Pops up to `n` direct chains that lie in the region of the last hit and do not go around the end of the ring: one
   * where anything else shows is left to popOne, also to say what is wrong with it. Leaves in walkPiece where the
   * next piece goes.
   * @returns how many
   */
  private popDirect(
    eager: bool,
    elements: usize,
    n: u32,
    pieces: usize,
    at: u32,
    end: usize,
    wanted: u32,
  ): u32 {
    const size = this.size;
    const order = this.order;
    const region = this.regionTable.recent();
    const regionGuest = region.guest;
    const regionLength = region.length;
    const regionLocal = region.local;
    let head = descriptor(this.ring, this.nextAvail);
    let next = this.orderNext;
    let bytes: u64 = 0;
    let first = at;
    let taken: u32 = 0;
    for (; taken < n; taken++) {
      // The driver publishes the head last: whatever belongs to the chain is there.
      if (!isPublished(head, wanted)) break;
      let kind = wanted;
      let desc = head;
      let piece = first;
      let total: u64 = 0;
      let more = true;
      while (desc != end) {
        const offset = descAddr(desc) - regionGuest;
        if (offset >= regionLength) break;
        const rest = descRest(desc);
        const flags = restFlags(rest);
        const here = flags & (PACKED_DESC_F_AVAIL | PACKED_DESC_F_USED | DESC_F_INDIRECT | DESC_F_WRITE);
        if (here != kind) {
          // From the readable segments to the writable ones, once. Kept in memory: rather there than in the
          // registers that the loop needs.
          if (here != (kind | DESC_F_WRITE)) break;
          kind = here;
          this.walkOut = piece;
          this.walkReadable = total;
        }
        const len = restLen(rest);
        if (<u64>len - 1 >= regionLength - offset) break;
        pieceSet(pieces, piece, regionLocal + <u32>offset, len);
        piece++;
        total += len;
        desc += DESC_BYTES;
        if (!(flags & DESC_F_NEXT)) {
          more = false;
          break;
        }
      }
      if (more) break;
      const id = descId(desc - DESC_BYTES);
      if (id >= size) break;
      const known = headAt(this.heads, id);
      if (known.inFlight) break;
      if (total > 0xffff_ffff) break;
      const firstIn = kind == wanted ? piece : this.walkOut;
      const readable = kind == wanted ? total : this.walkReadable;
      if (eager) this.translation.clear();
      elementSet(element(elements, taken), id, first, firstIn - first + ((piece - firstIn) << 16));
      known.set(<u32>(total - readable), piece - first);
      bytes += readable;
      wordAtSet(order, next, id);
      if (++next == size) next = 0;
      first = piece;
      head = desc;
    }
    const slots = first - at;
    this.moveTo(this.nextAvail + slots);
    this.orderNext = next;
    this.bytesOut += bytes;
    this.inFlight += taken;
    this.slotsInFlight += slots;
    this.walkPiece = first;
    return taken;
  }

  /** As popDirect, chains in tables. */
  private popTables(eager: bool, elements: usize, n: u32, pieces: usize, at: u32, capacity: u32): u32 {
    this.walkPiece = at;
    if (!this.indirect) return 0;
    const size = this.size;
    const order = this.order;
    const region = this.regionTable.recent();
    const regionGuest = region.guest;
    const regionLength = region.length;
    const regionLocal = region.local;
    const from = this.nextAvail;
    const wanted = availBits(this.availWrap);
    const until = min(n, min(size - this.slotsInFlight, size - from));
    let head = descriptor(this.ring, from);
    let next = this.orderNext;
    let bytes: u64 = 0;
    let first = at;
    let taken: u32 = 0;
    for (; taken < until; taken++) {
      if (!isPublished(head, wanted)) break;
      const headRest = descRest(head);
      const flags = restFlags(headRest);
      const here = flags & (PACKED_DESC_F_AVAIL | PACKED_DESC_F_USED | DESC_F_INDIRECT | DESC_F_NEXT);
      if (here != (wanted | DESC_F_INDIRECT)) break;
      const bytesOfTable = restLen(headRest);
      const table = descAddr(head);
      if (bytesOfTable % DESC_BYTES != 0 || !holds(regionGuest, regionLength, table, bytesOfTable)) break;
      if (bytesOfTable / DESC_BYTES > min(size, capacity - first)) break;
      let kind: u32 = 0;
      let entry = <usize>regionLocal + <usize>(table - regionGuest);
      const end = entry + bytesOfTable;
      let piece = first;
      let total: u64 = 0;
      for (; entry != end; entry += DESC_BYTES) {
        const offset = descAddr(entry) - regionGuest;
        if (offset >= regionLength) break;
        const rest = descRest(entry);
        // No other flag, and no id, means anything in a table (2.8.7).
        const here = restFlags(rest) & DESC_F_WRITE;
        if (here != kind) {
          if (here == 0) break;
          kind = here;
          this.walkOut = piece;
          this.walkReadable = total;
        }
        const len = restLen(rest);
        if (<u64>len - 1 >= regionLength - offset) break;
        pieceSet(pieces, piece, regionLocal + <u32>offset, len);
        piece++;
        total += len;
      }
      const id = restId(headRest);
      if (entry != end || id >= size || total > 0xffff_ffff) break;
      const known = headAt(this.heads, id);
      if (known.inFlight) break;
      const firstIn = kind == 0 ? piece : this.walkOut;
      const readable = kind == 0 ? total : this.walkReadable;
      if (eager) this.translation.clear();
      elementSet(element(elements, taken), id, first, firstIn - first + ((piece - firstIn) << 16));
      known.set(<u32>(total - readable), 1);
      bytes += readable;
      wordAtSet(order, next, id);
      if (++next == size) next = 0;
      first = piece;
      head += DESC_BYTES;
    }
    this.moveTo(from + taken);
    this.orderNext = next;
    this.bytesOut += bytes;
    this.indirects += taken;
    this.inFlight += taken;
    this.slotsInFlight += taken;
    this.walkPiece = first;
    return taken;
  }

  /** Makes `slot` the next one to pop from; it may lie behind the end of the ring. */
  private moveTo(slot: u32): void {
    if (slot >= this.size) {
      this.nextAvail = slot - this.size;
      this.availWrap = !this.availWrap;
    } else this.nextAvail = slot;
  }

  /**
   * Pops one chain of any shape. 1; 0 if there is none (walkEmpty), or if it is bad or does not fit and is not the
   * first; RESULT_BROKEN or RESULT_NO_ROOM.
   */
  private popOne(record: usize, first: bool, pieces: usize, at: u32, capacity: u32): i32 {
    const slot = this.nextAvail;
    const flags = descFlags(descriptor(this.ring, slot));
    this.walkEmpty = ownerBits(flags) != availBits(this.availWrap);
    if (this.walkEmpty) return 0;
    this.beginTranslation();
    let sound = this.walk(slot, this.availWrap, flags, pieces, at, capacity);
    // The same slots made available again, while what was popped from them is in flight.
    if (sound && this.slotsInFlight + this.walkSlots > this.size) {
      sound = this.bad(FAULT_SLOTS, slot, this.slotsInFlight);
    }
    if (!sound) return first ? this.break(this.walkFault, this.walkA, this.walkB) : 0;
    if (this.walkOut + this.walkIn > capacity - at) return first ? RESULT_NO_ROOM : 0;
    const id = this.walkId;
    const slots = this.walkSlots;
    elementSet(record, id, at, this.walkOut | (this.walkIn << 16));
    this.head(id).set(<u32>min<u64>(this.walkWritable, 0xffff_ffff), slots);
    wordAtSet(this.order, this.orderNext, id);
    this.orderNext = this.orderNext + 1 == this.size ? 0 : this.orderNext + 1;
    this.bytesOut += this.walkReadable;
    this.indirects += <u64>this.walkIndirect;
    this.inFlight++;
    this.slotsInFlight += slots;
    this.moveTo(slot + slots);
    return 1;
  }

  /** With an event at a descriptor asked for, asks for it at this position. False if it was not written. */
  private askFrom(slot: u32, wrap: bool): bool {
    if (this.eventFlags != RING_EVENT_FLAGS_DESC) return false;
    eventOffWrapSet(this.deviceEvent, position(slot, wrap));
    // The store must be seen before the descriptor is looked at again.
    fence();
    return true;
  }

  availableBytes(maxIn: f64, maxOut: f64): i32 {
    this.availableIn = 0;
    this.availableOut = 0;
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    const size = this.size;
    let slot = this.nextAvail;
    let wrap = this.availWrap;
    let slots = this.slotsInFlight;
    this.beginTranslation();
    let sumIn: f64 = 0;
    let sumOut: f64 = 0;
    let visited: u32 = 0;
    let first = true;
    while (sumIn < maxIn || sumOut < maxOut) {
      if (visited >= <u32>AVAILABLE_BUDGET) break;
      const flags = descFlags(descriptor(this.ring, slot));
      if (ownerBits(flags) != availBits(wrap)) break;
      let sound = this.walk(slot, wrap, flags, 0, 0, 0);
      if (sound && slots + this.walkSlots > size) sound = this.bad(FAULT_SLOTS, slot, slots);
      if (!sound) {
        if (first) return this.break(this.walkFault, this.walkA, this.walkB);
        break;
      }
      first = false;
      visited += this.walkVisited;
      sumIn += <f64>this.walkWritable;
      sumOut += <f64>this.walkReadable;
      // The sum of slots stays below size: this ends even where the driver fills the ring again and again.
      slots += this.walkSlots;
      slot += this.walkSlots;
      if (slot >= size) {
        slot -= size;
        wrap = !wrap;
      }
    }
    this.availableIn = sumIn;
    this.availableOut = sumOut;
    return 0;
  }

  // ---- Giving back ----

  /** 0 if the element may be given back with so many bytes written, or why not. */
  private check(id: u32, written: u32): i32 {
    if (id >= this.size || !this.head(id).open) return RESULT_NOT_IN_FLIGHT;
    return written > this.head(id).writable ? RESULT_WRITTEN : 0;
  }

  /** Marks an element as done: it stays in flight until its used descriptor is published. 0 or why not. */
  private finish(id: u32, written: u32): i32 {
    const result = this.check(id, written);
    if (result < 0) return result;
    this.head(id).finish(written);
    this.fills++;
    return 0;
  }

  /**
   * Writes the used descriptor of an element. The flags of the first one that is to be published are kept back: the
   * driver looks at used descriptors in ring order.
   */
  @inline
  private usedSet(desc: usize, wrap: bool, id: u32, written: u32, first: bool): void {
    if (first) {
      this.firstFlags = usedFlags(written, wrap);
      descLenIdSet(desc, written, id);
    } else descRestSet(desc, written, id, usedFlags(written, wrap));
  }

  /**
   * Publishes the used descriptors of `n` elements from nextUsed on, with firstFlags; (slot, wrap) lies behind them.
   */
  private publish(n: u32, slot: u32, wrap: bool): void {
    const first = descriptor(this.ring, this.nextUsed);
    // No more slots than the ring has: one lap further on at most. With one element of all slots it is one lap.
    const slots = slot - this.nextUsed + (wrap == this.usedWrap ? 0 : this.size);
    this.nextUsed = slot;
    this.usedWrap = wrap;
    this.inFlight -= n;
    this.slotsInFlight -= slots;
    this.completed += n;
    this.unsignalled = min<u32>(this.unsignalled + slots, 0x10000);
    // The driver cannot get past the first one before this store.
    descFlagsSet(first, this.firstFlags);
  }

  pushBurst(elements: usize, n: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    let pushed: u32 = 0;
    const size = this.size;
    const heads = this.heads;
    if (this.inOrder) {
      if (this.fills == 0) pushed = this.pushOldest(elements, n);
      if (pushed == n) return <i32>n;
      const from = pushed;
      for (; pushed < n; pushed++) {
        const record = element(elements, pushed);
        const id = elementId(record);
        const written = elementWritten(record);
        if (id >= size) break;
        const head = headAt(heads, id);
        if (!head.open || written > head.writable) break;
        head.finish(written);
      }
      this.fills += pushed - from;
      if (pushed > 0) this.publishDone();
      return <i32>pushed;
    }
    if (this.fills > 0) return RESULT_SLOT;
    if (n == 0) return 0;
    const wrap = this.usedWrap;
    const from = descriptor(this.ring, this.nextUsed);
    const end = descriptor(this.ring, size);
    let owner = usedBits(wrap);
    // The driver does not see the first one as used before all else is written.
    let bits = availBits(wrap);
    let desc = from;
    let bytes: u64 = 0;
    for (; pushed < n; pushed++) {
      const record = element(elements, pushed);
      const id = elementId(record);
      if (id >= size) break;
      const head = headAt(heads, id);
      if (!head.open) break;
      const written = elementWritten(record);
      if (written > head.writable) break;
      head.leave();
      bytes += written;
      descRestSet(desc, written, id, bits | writeFlag(written));
      bits = owner;
      desc = descriptor(desc, head.slots);
      if (desc >= end) {
        desc -= end - this.ring;
        owner ^= usedBits(true);
        bits = owner;
      }
    }
    if (pushed > 0) {
      this.bytesIn += bytes;
      this.firstFlags = usedFlags(elementWritten(elements), wrap);
      this.publish(pushed, <u32>((desc - this.ring) / DESC_BYTES), owner != 0);
    }
    return <i32>pushed;
  }

  /**
   * In-order use with nothing held: publishes the first records as far as they are the oldest elements in the
   * order in which they were popped, the usual case, without marking them first. Where that ends before the
   * burst does, what a descriptor further on may still answer for is marked as done.
   * @returns how many records were dealt with
   */
  private pushOldest(elements: usize, n: u32): u32 {
    const size = this.size;
    if (this.span > size) return 0;
    const order = this.order;
    const heads = this.heads;
    const below = this.leftOutBelow;
    const until = min(n, this.span);
    let index = this.orderNext + size - this.span;
    if (index >= size) index -= size;
    let slot = this.nextUsed;
    let wrap = this.usedWrap;
    let bytes: u64 = 0;
    let pushed: u32 = 0;
    // What has a used descriptor: elements, and the place behind the last of them.
    let batch: u32 = 0;
    let batchSlot = slot;
    let batchWrap = wrap;
    for (; pushed < until; pushed++) {
      const record = element(elements, pushed);
      const id = elementId(record);
      if (id >= size) break;
      // Found there it is in flight: one that was detached has been taken out.
      if (id != wordAt(order, index)) break;
      const head = headAt(heads, id);
      const written = elementWritten(record);
      const writable = head.writable;
      if (written > writable) break;
      head.leave();
      bytes += written;
      if (++index == size) index = 0;
      slot += <u32>head.slots;
      if (slot >= size) {
        slot -= size;
        wrap = !wrap;
      }
      if (!mayBeLeftOut(below, written, writable)) {
        this.usedSet(descriptor(this.ring, batchSlot), batchWrap, id, written, batch == 0);
        batch = pushed + 1;
        batchSlot = slot;
        batchWrap = wrap;
      }
    }
    if (pushed == n && batch < n) {
      // The last of a burst always has a descriptor.
      const record = element(elements, n - 1);
      this.usedSet(
        descriptor(this.ring, batchSlot),
        batchWrap,
        elementId(record),
        elementWritten(record),
        batch == 0,
      );
      batch = n;
      batchSlot = slot;
      batchWrap = wrap;
    }
    for (let i = batch; i < pushed; i++) {
      const record = element(elements, i);
      const written = elementWritten(record);
      headAt(heads, elementId(record)).finish(written);
      bytes -= written;
    }
    this.fills = pushed - batch;
    this.span -= batch;
    this.bytesIn += bytes;
    if (batch > 0) this.publish(batch, batchSlot, batchWrap);
    return pushed;
  }

  /** Publishes all that is done from the oldest element on, in as few used descriptors as may be (2.8.8). */
  private publishDone(): void {
    const size = this.size;
    // An element that was detached, or is not done, holds up all that were popped after it.
    if (this.span == 0 || this.span > size) return;
    const order = this.order;
    const heads = this.heads;
    const below = this.leftOutBelow;
    let index = this.orderNext + size - this.span;
    if (index >= size) index -= size;
    let slot = this.nextUsed;
    let wrap = this.usedWrap;
    let batch: u32 = 0;
    let batchSlot = slot;
    let batchWrap = wrap;
    let count: u32 = 0;
    let bytes: u64 = 0;
    let id = wordAt(order, index);
    let done = id < size && headAt(heads, id).done;
    while (done) {
      const head = headAt(heads, id);
      const written = head.written;
      const whole = mayBeLeftOut(below, written, head.writable);
      head.leave();
      bytes += written;
      count++;
      slot += <u32>head.slots;
      if (slot >= size) {
        slot -= size;
        wrap = !wrap;
      }
      if (++index == size) index = 0;
      const next = wordAt(order, index);
      done = next < size && headAt(heads, next).done;
      // The last of a run always has a descriptor.
      if (!whole || !done) {
        this.usedSet(descriptor(this.ring, batchSlot), batchWrap, id, written, batch == 0);
        batch = count;
        batchSlot = slot;
        batchWrap = wrap;
      }
      id = next;
    }
    this.bytesIn += bytes;
    this.span -= count;
    this.fills -= count;
    if (count > 0) this.publish(count, slot, wrap);
  }

  fill(id: u32, written: u32, offset: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder) return this.finish(id, written);
    const result = this.check(id, written);
    if (result < 0) return result;
    // No more used descriptors can follow than there are elements to be used.
    if (offset >= this.inFlight) return RESULT_SLOT;
    const fill = this.fillAt(offset);
    if (fill.filled) return RESULT_SLOT;
    this.finish(id, written);
    fill.set(id, written, this.head(id).slots);
    return 0;
  }

  flush(n: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder) {
      this.publishDone();
      return 0;
    }
    if (n > this.fills) return RESULT_SLOT;
    for (let i: u32 = 0; i < n; i++) if (!this.fillAt(i).filled) return RESULT_SLOT;
    if (n == 0) return 0;
    const size = this.size;
    let slot = this.nextUsed;
    let wrap = this.usedWrap;
    for (let i: u32 = 0; i < n; i++) {
      const fill = this.fillAt(i);
      const written = fill.written;
      this.usedSet(descriptor(this.ring, slot), wrap, fill.id, written, i == 0);
      this.bytesIn += written;
      slot += <u32>fill.slots;
      this.head(fill.id).leave();
      fill.clear();
      if (slot >= size) {
        slot -= size;
        wrap = !wrap;
      }
    }
    this.fillFirst = (this.fillFirst + n) % size;
    this.fills -= n;
    this.publish(n, slot, wrap);
    return 0;
  }

  /** Takes an id out of the ring of pops: there it is not found in place of a later element with the same id. */
  private forget(id: u32): void {
    const size = this.size;
    let index = this.orderNext;
    for (let i: u32 = 0; i < size; i++) {
      index = index == 0 ? size - 1 : index - 1;
      if (this.popped(index) != id) continue;
      wordAtSet(this.order, index, 0xffff);
      return;
    }
  }

  detach(id: u32): i32 {
    if (id >= this.size) return RESULT_NOT_IN_FLIGHT;
    const head = this.head(id);
    if (!head.open) return RESULT_NOT_IN_FLIGHT;
    head.leave();
    // Its slots stay taken: the driver never gets them back.
    this.inFlight--;
    if (this.inOrder) this.forget(id);
    return 0;
  }

  rewind(n: u32): bool {
    if (n > this.inFlight) return false;
    const size = this.size;
    let index = this.orderNext;
    let slots: u32 = 0;
    for (let i: u32 = 0; i < n; i++) {
      index = index == 0 ? size - 1 : index - 1;
      const id = this.popped(index);
      if (id < size && this.head(id).open) {
        // Taken out at once, so that an id that was popped again later is not counted for both.
        this.head(id).leave();
        slots += this.head(id).slots;
        continue;
      }
      for (; i > 0; i--) {
        index = index + 1 == size ? 0 : index + 1;
        this.head(this.popped(index)).enter();
      }
      return false;
    }
    if (slots > this.nextAvail) {
      this.nextAvail += size;
      this.availWrap = !this.availWrap;
    }
    this.nextAvail -= slots;
    this.slotsInFlight -= slots;
    this.inFlight -= n;
    this.span -= n;
    this.orderNext = index;
    return true;
  }

  lastPopped(): i32 {
    if (this.inFlight == 0) return RESULT_NOT_IN_FLIGHT;
    const id = this.popped(this.orderNext == 0 ? this.size - 1 : this.orderNext - 1);
    if (id >= this.size || !this.head(id).open) return RESULT_NOT_IN_FLIGHT;
    return <i32>id;
  }

  /** f64, so that all of a u32 fits beside the negative results. */
  writable(id: u32): f64 {
    if (id >= this.size || !this.head(id).open) return RESULT_NOT_IN_FLIGHT;
    return <f64>this.head(id).writable;
  }

  // ---- Notifications ----

  shouldInterrupt(): bool {
    const moved = this.unsignalled;
    if (moved == 0) return false;
    this.unsignalled = 0;
    // The used descriptors were published; the driver sets its event and then looks at them. See kickPrepare.
    fence();
    const word = eventWord(this.driverEvent);
    const flags = wordFlags(word);
    let wanted = flags != RING_EVENT_FLAGS_DISABLE;
    if (flags == RING_EVENT_FLAGS_DESC && this.eventIdx && moved < 0x10000)
      wanted = passed(wordOffWrap(word), this.nextUsed, this.usedWrap, moved, this.size);
    if (wanted) this.notified++;
    else this.suppressed++;
    return wanted;
  }

  enableNotifications(): bool {
    if (this.eventIdx) eventOffWrapSet(this.deviceEvent, position(this.nextAvail, this.availWrap));
    if (this.eventFlags == RING_EVENT_FLAGS_DISABLE) {
      this.eventFlags = this.eventIdx ? RING_EVENT_FLAGS_DESC : RING_EVENT_FLAGS_ENABLE;
      eventFlagsSet(this.deviceEvent, this.eventFlags);
    }
    fence();
    const flags = descFlags(descriptor(this.ring, this.nextAvail));
    return ownerBits(flags) != availBits(this.availWrap);
  }

  disableNotifications(): void {
    if (this.eventFlags == RING_EVENT_FLAGS_DISABLE) return;
    this.eventFlags = RING_EVENT_FLAGS_DISABLE;
    eventFlagsSet(this.deviceEvent, RING_EVENT_FLAGS_DISABLE);
  }
  // ---- State ----

  save(words: usize): void {
    store<u32>(words, position(this.nextAvail, this.availWrap), DEVICE_AVAIL << 2);
    store<u32>(words, position(this.nextUsed, this.usedWrap), DEVICE_USED << 2);
    store<u32>(words, this.eventFlags, DEVICE_EVENTS << 2);
    store<u32>(words, this.unsignalled, DEVICE_UNSIGNALLED << 2);
    store<u32>(words, this.inFlight, DEVICE_IN_FLIGHT << 2);
    store<u32>(words, this.slotsInFlight, DEVICE_SLOTS << 2);
    store<u32>(words, this.fills, DEVICE_FILLS << 2);
    store<u32>(words, this.orderNext, DEVICE_ORDER << 2);
    store<u32>(words, this.span, DEVICE_SPAN << 2);
    store<u32>(words, this.fillFirst, DEVICE_FILL_FIRST << 2);
  }

  load(words: usize): void {
    const avail = load<u32>(words, DEVICE_AVAIL << 2);
    const used = load<u32>(words, DEVICE_USED << 2);
    this.mend();
    this.nextAvail = positionSlot(avail);
    this.availWrap = positionWrap(avail);
    this.nextUsed = positionSlot(used);
    this.usedWrap = positionWrap(used);
    this.eventFlags = load<u32>(words, DEVICE_EVENTS << 2);
    this.unsignalled = load<u32>(words, DEVICE_UNSIGNALLED << 2);
    this.inFlight = load<u32>(words, DEVICE_IN_FLIGHT << 2);
    this.slotsInFlight = load<u32>(words, DEVICE_SLOTS << 2);
    this.fills = load<u32>(words, DEVICE_FILLS << 2);
    this.orderNext = load<u32>(words, DEVICE_ORDER << 2);
    this.span = load<u32>(words, DEVICE_SPAN << 2);
    this.fillFirst = load<u32>(words, DEVICE_FILL_FIRST << 2);
  }
}
