// Device side of a split virtqueue (virtio 1.4, 2.7). The driver is not trusted: every field of the ring
// is loaded once, checked, and only then used.

import {
  AVAIL_F_NO_INTERRUPT,
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
  EVENT_FAR,
  FAULT_AVAIL_IDX,
  FAULT_CHAIN_BYTES,
  FAULT_CHAIN_LONG,
  FAULT_CHAIN_LOOP,
  FAULT_HEAD_IN_FLIGHT,
  FAULT_HEAD_RANGE,
  FAULT_INDIRECT_NESTED,
  FAULT_INDIRECT_NEXT,
  FAULT_INDIRECT_REFUSED,
  FAULT_NEXT_RANGE,
  FAULT_NONE,
  FAULT_SEGMENT_ORDER,
  FAULT_SEGMENT_RANGE,
  FAULT_TABLE_LENGTH,
  FAULT_TABLE_RANGE,
  FILL_BYTES,
  HEAD_BYTES,
  RESULT_BROKEN,
  RESULT_NO_ROOM,
  RESULT_NOT_IN_FLIGHT,
  RESULT_SLOT,
  RESULT_WRITTEN,
  USED_F_NO_NOTIFY,
} from '../abi/layout';
import { Queue } from '../abi/queue';
import { element, elementId, elementSet, elementWritten, pieceSet } from '../abi/records';
import { holds } from '../abi/region';
import { RegionTable } from '../abi/region-table';
import {
  availEventSet,
  availFlags,
  availIdx,
  availRing,
  descAddr,
  descFlags,
  descLen,
  descNext,
  descRest,
  descriptor,
  passed,
  restFlags,
  restLen,
  restNext,
  usedElem,
  usedElemSet,
  usedEvent,
  usedFlagsSet,
  usedIdxSet,
} from '../abi/split';
import { Fill, fillAt, Head, headAt, leftOutBelow, mayBeLeftOut, wordAt, wordAtSet } from '../abi/state';
import { TranslationCache } from '../abi/translation';
import { fence } from '../order';

@unmanaged
export class SplitDevice extends Queue {
  // Where things are; fixed at creation. The areas are shared with the driver, all else is private.
  desc: usize;
  avail: usize;
  used: usize;
  /** Head[size] */
  heads: usize;
  /** Fill[size], by used slot. */
  fillRing: usize;
  /**
   * u16[size]: the head popped at each avail position, 0xffff where none was. What rewind and in-order use go
   * by, not the driver's ring.
   */
  order: usize;
  eventIdx: bool;
  inOrder: bool;
  /** In-order use: see mayBeLeftOut. */
  leftOutBelow: u32;
  indirect: bool;
  /** The translation cache is cleared for each chain, not only made empty when it is needed. */
  eager: bool;

  /** Available-buffer notifications are wanted. */
  notifications: bool;
  /** avail.idx up to which chains were popped. */
  lastAvail: u16;
  /** used.idx as published. */
  usedIdxShadow: u16;
  inFlight: u32;
  /** Slots filled and not flushed; in in-order use, elements done and not published. */
  fills: u32;
  /** Elements pushed since the last shouldInterrupt. */
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
  walkIndirect: bool;
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
    desc: usize,
    avail: usize,
    used: usize,
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
    memory.fill(changetype<usize>(this), 0, offsetof<SplitDevice>());
    this.size = size;
    this.desc = desc;
    this.avail = avail;
    this.used = used;
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
    this.notifications = true;
    this.lastAvail = 0;
    this.usedIdxShadow = 0;
    this.inFlight = 0;
    this.fills = 0;
    this.unsignalled = 0;
    memory.fill(this.heads, 0, <usize>this.size * HEAD_BYTES);
    memory.fill(this.fillRing, 0, <usize>this.size * FILL_BYTES);
    memory.fill(this.order, 0xff, (<usize>this.size) << 1);
  }

  get regionTable(): RegionTable {
    return changetype<RegionTable>(changetype<usize>(this) + offsetof<SplitDevice>('regions'));
  }

  @inline
  private head(id: u32): Head {
    assert(id < this.size);
    return headAt(this.heads, id);
  }

  private fillAt(position: u16): Fill {
    return fillAt(this.fillRing, <u32>position & (this.size - 1));
  }

  @inline
  private popped(position: u16): u32 {
    return wordAt(this.order, <u32>position & (this.size - 1));
  }

  // ---- Chains ----

  private bad(fault: u32, a: u64, b: u64): bool {
    this.walkFault = fault;
    this.walkA = a;
    this.walkB = b;
    return false;
  }

  /**
   * Follows the chain of `head`, checks all of it, and writes the pieces of its segments to `pieces` from
   * index `at` on as far as `capacity` goes. False if the chain is bad; then walkFault says why. Ends
   * after at most `size` descriptors that hold a segment, whatever the driver does meanwhile.
   */
  private walk(head: u32, pieces: usize, at: u32, capacity: u32): bool {
    const size = this.size;
    let table = this.desc;
    let entries = size;
    let index = head;
    let visited: u32 = 0;
    let total: u32 = 0;
    let inTable = false;
    let readable: u64 = 0;
    let writable: u64 = 0;
    let piece = at;
    let firstIn: u32 = 0;
    let writing = false;
    // Region of the last hit, in registers: most segments lie there.
    const region = this.regionTable.recent();
    const regionGuest = region.guest;
    const regionLength = region.length;
    const regionLocal = <u64>region.local - regionGuest;
    let addr = descAddr(descriptor(table, head));
    let rest = descRest(descriptor(table, head));
    for (;;) {
      const flags = restFlags(rest);
      const len = restLen(rest);
      if (flags & DESC_F_INDIRECT) {
        if (!this.indirect) return this.bad(FAULT_INDIRECT_REFUSED, index, flags);
        if (inTable) return this.bad(FAULT_INDIRECT_NESTED, index, flags);
        if (flags & DESC_F_NEXT) return this.bad(FAULT_INDIRECT_NEXT, index, flags);
        if (len == 0 || len % DESC_BYTES != 0) return this.bad(FAULT_TABLE_LENGTH, len, addr);
        const local = this.regionTable.whole(addr, len);
        if (local == <u64>-1) return this.bad(FAULT_TABLE_RANGE, addr, len);
        table = <usize>local;
        entries = len / DESC_BYTES;
        index = 0;
        visited = 0;
        inTable = true;
        addr = descAddr(table);
        rest = descRest(table);
        continue;
      }
      if (++visited > entries) return this.bad(FAULT_CHAIN_LOOP, head, entries);
      if (++total > size) return this.bad(FAULT_CHAIN_LONG, head, size);
      if (flags & DESC_F_WRITE) {
        if (!writing) firstIn = piece - at;
        writing = true;
        writable += len;
      } else {
        if (writing) return this.bad(FAULT_SEGMENT_ORDER, addr, len);
        readable += len;
      }
      if (holds(regionGuest, regionLength, addr, len)) {
        if (piece < capacity) pieceSet(pieces, piece, <u32>(regionLocal + addr), len);
        piece++;
      } else {
        const count = this.regionTable.pieces(addr, len, pieces, piece, capacity);
        if (count == 0) return this.bad(FAULT_SEGMENT_RANGE, addr, len);
        piece += count;
      }
      if (readable + writable > <u64>CHAIN_BYTES_MAX) {
        return this.bad(FAULT_CHAIN_BYTES, head, readable + writable);
      }
      if (!(flags & DESC_F_NEXT)) break;
      index = restNext(rest);
      if (index >= entries) return this.bad(FAULT_NEXT_RANGE, index, entries);
      const desc = descriptor(table, index);
      addr = descAddr(desc);
      rest = descRest(desc);
    }
    const count = piece - at;
    if (!writing) firstIn = count;
    this.walkOut = firstIn;
    this.walkIn = count - firstIn;
    this.walkReadable = readable;
    this.walkWritable = writable;
    this.walkVisited = total;
    this.walkIndirect = inTable;
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
    const mask = size - 1;
    const avail = this.avail;
    const desc = this.desc;
    const heads = this.heads;
    const order = this.order;
    let at: u32 = 0;
    let taken: u32 = 0;
    let result: i32 = 1;
    while (taken < max && result > 0) {
      const idx = availIdx(avail);
      const ready = <u32>(<u16>(idx - this.lastAvail));
      if (ready == 0) break;
      if (ready > size) {
        if (taken == 0) return this.break(FAULT_AVAIL_IDX, idx, this.lastAvail);
        break;
      }
      const from = taken;
      const until = min(max, taken + ready);
      while (taken < until) {
        // Chains of one direct segment in the region of the last hit, the most frequent ones, in a loop that
        // keeps everything in registers. Any other is left to popDirect and popTables.
        const region = this.regionTable.recent();
        const regionGuest = region.guest;
        const regionLength = region.length;
        const regionLocal = region.local;
        const start = taken;
        const end = min(until, taken + (capacity - at));
        let last = this.lastAvail;
        let readable: u64 = 0;
        for (; taken < end; taken++) {
          const id = availRing(avail, <u32>last & mask);
          if (id >= size) break;
          const head = headAt(heads, id);
          if (head.inFlight) break;
          const address = descriptor(desc, id);
          const offset = descAddr(address) - regionGuest;
          if (offset >= regionLength) break;
          const rest = descRest(address);
          const len = restLen(rest);
          const flags = restFlags(rest);
          if (flags & (DESC_F_NEXT | DESC_F_INDIRECT)) break;
          if (<u64>len - 1 >= regionLength - offset) break;
          const writing: u32 = (flags & DESC_F_WRITE) >> 1;
          if (eager) this.translation.clear();
          pieceSet(pieces, at, regionLocal + <u32>offset, len);
          elementSet(element(elements, taken), id, at, 1 << (writing << 4));
          head.set(writing ? len : 0, 1);
          readable += writing ? 0 : len;
          wordAtSet(order, <u32>last & mask, id);
          at++;
          last++;
        }
        this.bytesOut += readable;
        this.lastAvail = last;
        this.inFlight += taken - start;
        if (taken == until) break;
        const direct = this.popDirect(eager, element(elements, taken), until - taken, pieces, at, capacity);
        at = this.walkPiece;
        taken += direct;
        if (taken == until) break;
        const tabled = this.popTables(eager, element(elements, taken), until - taken, pieces, at, capacity);
        at = this.walkPiece;
        taken += tabled;
        if (direct + tabled > 0) continue;
        result = this.popOne(element(elements, taken), taken == 0, pieces, at, capacity);
        if (result <= 0) break;
        at += this.walkOut + this.walkIn;
        taken++;
      }
      this.added += taken - from;
      if (taken > from) this.askFrom(this.lastAvail);
    }
    return taken > 0 || result >= 0 ? <i32>taken : result;
  }

  /**
   * Pops up to `n` direct chains that lie in the region of the last hit: one where anything else shows is left to
   * popOne, also to say what is wrong with it. Leaves in walkPiece where the next piece goes.
   * @returns how many
   */
  private popDirect(eager: bool, elements: usize, n: u32, pieces: usize, at: u32, capacity: u32): u32 {
    const size = this.size;
    const avail = this.avail;
    const table = this.desc;
    const order = this.order;
    const region = this.regionTable.recent();
    const regionGuest = region.guest;
    const regionLength = region.length;
    const regionLocal = region.local;
    let last = this.lastAvail;
    let bytes: u64 = 0;
    let first = at;
    let taken: u32 = 0;
    for (; taken < n; taken++) {
      const id = availRing(avail, <u32>last & (size - 1));
      if (id >= size) break;
      const known = headAt(this.heads, id);
      if (known.inFlight) break;
      let kind: u32 = 0;
      let index = id;
      let piece = first;
      let total: u64 = 0;
      let more = true;
      // Ends where there is no room for pieces, whatever the links say.
      while (piece != capacity && index < size) {
        const desc = descriptor(table, index);
        const offset = descAddr(desc) - regionGuest;
        if (offset >= regionLength) break;
        const flags = descFlags(desc);
        const here = flags & (DESC_F_INDIRECT | DESC_F_WRITE);
        if (here != kind) {
          // From the readable segments to the writable ones, once. Kept in memory: rather there than in the
          // registers that the loop needs.
          if (here != (kind | DESC_F_WRITE)) break;
          kind = here;
          this.walkOut = piece;
          this.walkReadable = total;
        }
        const len = descLen(desc);
        if (<u64>len - 1 >= regionLength - offset) break;
        pieceSet(pieces, piece, regionLocal + <u32>offset, len);
        piece++;
        total += len;
        if (!(flags & DESC_F_NEXT)) {
          more = false;
          break;
        }
        index = descNext(desc);
      }
      if (more) break;
      if (piece - first > size || total > 0xffff_ffff) break;
      const firstIn = kind == 0 ? piece : this.walkOut;
      const readable = kind == 0 ? total : this.walkReadable;
      if (eager) this.translation.clear();
      elementSet(element(elements, taken), id, first, firstIn - first + ((piece - firstIn) << 16));
      known.set(<u32>(total - readable), 1);
      bytes += readable;
      wordAtSet(order, <u32>last & (size - 1), id);
      first = piece;
      last++;
    }
    this.lastAvail = last;
    this.bytesOut += bytes;
    this.inFlight += taken;
    this.walkPiece = first;
    return taken;
  }

  /** As popDirect, chains in tables. */
  private popTables(eager: bool, elements: usize, n: u32, pieces: usize, at: u32, capacity: u32): u32 {
    this.walkPiece = at;
    if (!this.indirect) return 0;
    const size = this.size;
    const avail = this.avail;
    const order = this.order;
    const region = this.regionTable.recent();
    const regionGuest = region.guest;
    const regionLength = region.length;
    const regionLocal = region.local;
    let last = this.lastAvail;
    let bytes: u64 = 0;
    let first = at;
    let taken: u32 = 0;
    for (; taken < n; taken++) {
      const id = availRing(avail, <u32>last & (size - 1));
      if (id >= size) break;
      const known = headAt(this.heads, id);
      if (known.inFlight) break;
      const head = descriptor(this.desc, id);
      const headRest = descRest(head);
      if ((restFlags(headRest) & (DESC_F_INDIRECT | DESC_F_NEXT)) != DESC_F_INDIRECT) break;
      const bytesOfTable = restLen(headRest);
      const guest = descAddr(head);
      if (bytesOfTable % DESC_BYTES != 0 || !holds(regionGuest, regionLength, guest, bytesOfTable)) break;
      const table = <usize>regionLocal + <usize>(guest - regionGuest);
      const entries = bytesOfTable / DESC_BYTES;
      // A loop in the table may be shorter than the queue.
      const end = first + min(min(size, entries), capacity - first);
      let kind: u32 = 0;
      let index: u32 = 0;
      let piece = first;
      let total: u64 = 0;
      let more = true;
      while (piece != end && index < entries) {
        const desc = descriptor(table, index);
        const offset = descAddr(desc) - regionGuest;
        if (offset >= regionLength) break;
        const rest = descRest(desc);
        const flags = restFlags(rest);
        const here = flags & (DESC_F_INDIRECT | DESC_F_WRITE);
        if (here != kind) {
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
        if (!(flags & DESC_F_NEXT)) {
          more = false;
          break;
        }
        index = restNext(rest);
      }
      if (more || total > 0xffff_ffff) break;
      const firstIn = kind == 0 ? piece : this.walkOut;
      const readable = kind == 0 ? total : this.walkReadable;
      if (eager) this.translation.clear();
      elementSet(element(elements, taken), id, first, firstIn - first + ((piece - firstIn) << 16));
      known.set(<u32>(total - readable), 1);
      bytes += readable;
      wordAtSet(order, <u32>last & (size - 1), id);
      first = piece;
      last++;
    }
    this.lastAvail = last;
    this.bytesOut += bytes;
    this.indirects += taken;
    this.inFlight += taken;
    this.walkPiece = first;
    return taken;
  }

  /**
   * Pops one chain of any shape. 1, or 0 if it is bad or does not fit and is not the first, or RESULT_BROKEN or
   * RESULT_NO_ROOM.
   */
  private popOne(record: usize, first: bool, pieces: usize, at: u32, capacity: u32): i32 {
    const last = this.lastAvail;
    const id = availRing(this.avail, <u32>last & (this.size - 1));
    this.beginTranslation();
    if (!this.walkHead(id, pieces, at, capacity)) {
      return first ? this.break(this.walkFault, this.walkA, this.walkB) : 0;
    }
    if (this.walkOut + this.walkIn > capacity - at) return first ? RESULT_NO_ROOM : 0;
    elementSet(record, id, at, this.walkOut | (this.walkIn << 16));
    this.head(id).set(<u32>min<u64>(this.walkWritable, 0xffff_ffff), 1);
    wordAtSet(this.order, <u32>last & (this.size - 1), id);
    this.bytesOut += this.walkReadable;
    this.indirects += <u64>this.walkIndirect;
    this.inFlight++;
    this.lastAvail = last + 1;
    return 1;
  }

  /** Checks a head that the driver made available and walks its chain; false with walkFault set. */
  private walkHead(id: u32, pieces: usize, at: u32, capacity: u32): bool {
    if (id >= this.size) return this.bad(FAULT_HEAD_RANGE, id, this.size);
    // A head is in flight once, so there are never more than `size` elements in flight.
    if (this.head(id).inFlight) return this.bad(FAULT_HEAD_IN_FLIGHT, id, this.inFlight);
    return this.walk(id, pieces, at, capacity);
  }

  /** With event index and notifications on, asks for one when the driver adds the next buffer. */
  private askFrom(position: u16): void {
    if (!this.eventIdx || !this.notifications) return;
    availEventSet(this.used, this.size, position);
    // The store must be seen before avail.idx is read again, or driver and device could both go to sleep.
    fence();
  }

  availableBytes(maxIn: f64, maxOut: f64): i32 {
    this.availableIn = 0;
    this.availableOut = 0;
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    const size = this.size;
    const first = this.lastAvail;
    const idx = availIdx(this.avail);
    if (<u32>(<u16>(idx - first)) > size) return this.break(FAULT_AVAIL_IDX, idx, first);
    this.beginTranslation();
    let sumIn: f64 = 0;
    let sumOut: f64 = 0;
    let visited: u32 = 0;
    for (let position = first; position != idx; position++) {
      if ((sumIn >= maxIn && sumOut >= maxOut) || visited >= <u32>AVAILABLE_BUDGET) break;
      const id = availRing(this.avail, <u32>position & (size - 1));
      if (!this.walkHead(id, 0, 0, 0)) {
        if (position == first) return this.break(this.walkFault, this.walkA, this.walkB);
        break;
      }
      visited += this.walkVisited;
      sumIn += <f64>this.walkWritable;
      sumOut += <f64>this.walkReadable;
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

  private usedSet(slot: u16, id: u32, written: u32): void {
    usedElemSet(usedElem(this.used, <u32>slot & (this.size - 1)), id, written);
  }

  /** Marks an element as done: it stays in flight until its used entry is published. */
  private finish(id: u32, written: u32): i32 {
    const result = this.check(id, written);
    if (result < 0) return result;
    this.head(id).finish(written);
    this.fills++;
    return 0;
  }

  /** Publishes all that is done from the oldest element on, in as few used entries as may be (2.7.9). */
  private publishDone(): void {
    const size = this.size;
    const mask = size - 1;
    const order = this.order;
    const below = this.leftOutBelow;
    const heads = this.heads;
    // In in-order use an element's used position is its avail position.
    const first = this.usedIdxShadow;
    let left = <u32>(<u16>(this.lastAvail - first));
    // Behind an element that was detached more may be popped than `order` remembers.
    if (left == 0 || left > size) return;
    let position = first;
    let batch = first;
    let bytes: u64 = 0;
    let id = wordAt(order, <u32>position & mask);
    let done = id < size && headAt(heads, id).done;
    while (done) {
      const head = headAt(heads, id);
      const written = head.written;
      const whole = mayBeLeftOut(below, written, head.writable);
      head.leave();
      bytes += written;
      position++;
      const next: u32 = --left == 0 ? 0xffff : wordAt(order, <u32>position & mask);
      done = next < size && headAt(heads, next).done;
      // Left out, an element counts as completely written; the last of a run always has an entry.
      if (!whole || !done) {
        this.usedSet(batch, id, written);
        batch = position;
      }
      id = next;
    }
    this.bytesIn += bytes;
    const count = <u32>(<u16>(position - first));
    this.fills -= count;
    if (count > 0) this.publish(count);
  }

  private publish(n: u32): void {
    this.inFlight -= n;
    this.completed += n;
    this.unsignalled = min<u32>(this.unsignalled + n, 0x10000);
    const idx = this.usedIdxShadow + <u16>n;
    this.usedIdxShadow = idx;
    usedIdxSet(this.used, idx);
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
    const used = this.used;
    const slot = <u32>this.usedIdxShadow;
    let bytes: u64 = 0;
    for (; pushed < n; pushed++) {
      const record = element(elements, pushed);
      const id = elementId(record);
      const written = elementWritten(record);
      if (id >= size) break;
      const head = headAt(heads, id);
      if (!head.open || written > head.writable) break;
      head.leave();
      bytes += written;
      usedElemSet(usedElem(used, (slot + pushed) & (size - 1)), id, written);
    }
    this.bytesIn += bytes;
    if (pushed > 0) this.publish(pushed);
    return <i32>pushed;
  }

  /**
   * In-order use with nothing held: publishes the first records as far as they are the oldest elements in the
   * order in which they were popped, the usual case, without marking them first. Where that ends before the
   * burst does, what an entry further on may still answer for is marked as done.
   * @returns how many records were dealt with
   */
  private pushOldest(elements: usize, n: u32): u32 {
    const size = this.size;
    const mask = size - 1;
    const first = this.usedIdxShadow;
    const left = <u32>(<u16>(this.lastAvail - first));
    if (left > size) return 0;
    const order = this.order;
    const below = this.leftOutBelow;
    const heads = this.heads;
    const until = min(n, left);
    let bytes: u64 = 0;
    let pushed: u32 = 0;
    let batch: u32 = 0;
    for (; pushed < until; pushed++) {
      const record = element(elements, pushed);
      const id = elementId(record);
      if (id >= size) break;
      // Found there it is in flight: one that was detached has been taken out.
      if (id != wordAt(order, (first + pushed) & mask)) break;
      const head = headAt(heads, id);
      const written = elementWritten(record);
      const writable = head.writable;
      if (written > writable) break;
      head.leave();
      bytes += written;
      if (!mayBeLeftOut(below, written, writable)) {
        this.usedSet(<u16>(first + batch), id, written);
        batch = pushed + 1;
      }
    }
    if (pushed == n && batch < n) {
      // The last of a burst always has an entry.
      const record = element(elements, n - 1);
      this.usedSet(<u16>(first + batch), elementId(record), elementWritten(record));
      batch = n;
    }
    for (let i = batch; i < pushed; i++) {
      const record = element(elements, i);
      const written = elementWritten(record);
      headAt(heads, elementId(record)).finish(written);
      bytes -= written;
    }
    this.fills = pushed - batch;
    this.bytesIn += bytes;
    if (batch > 0) this.publish(batch);
    return pushed;
  }

  fill(id: u32, written: u32, offset: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder) return this.finish(id, written);
    const result = this.check(id, written);
    if (result < 0) return result;
    // Further ahead may lie entries that the driver has not taken yet: it has at most as many free slots as
    // there are elements that it waits for.
    if (offset >= this.inFlight) return RESULT_SLOT;
    const slot = this.usedIdxShadow + <u16>offset;
    const fill = this.fillAt(slot);
    if (fill.filled) return RESULT_SLOT;
    this.finish(id, written);
    fill.set(id, written, 1);
    this.usedSet(slot, id, written);
    return 0;
  }

  flush(n: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder) {
      this.publishDone();
      return 0;
    }
    if (n > this.fills) return RESULT_SLOT;
    const slot = this.usedIdxShadow;
    for (let i: u32 = 0; i < n; i++) if (!this.fillAt(slot + <u16>i).filled) return RESULT_SLOT;
    for (let i: u32 = 0; i < n; i++) {
      const fill = this.fillAt(slot + <u16>i);
      this.head(fill.id).leave();
      this.bytesIn += fill.written;
      fill.clear();
    }
    this.fills -= n;
    if (n > 0) this.publish(n);
    return 0;
  }

  /** Takes a head out of the ring of pops: there it is not found in place of a later element with the same head. */
  private forget(id: u32): void {
    for (let i: u32 = 1; i <= this.size; i++) {
      const position = this.lastAvail - <u16>i;
      if (this.popped(position) != id) continue;
      wordAtSet(this.order, <u32>position & (this.size - 1), 0xffff);
      return;
    }
  }

  detach(id: u32): i32 {
    if (id >= this.size || !this.head(id).open) return RESULT_NOT_IN_FLIGHT;
    this.head(id).leave();
    this.inFlight--;
    if (this.inOrder) this.forget(id);
    return 0;
  }

  rewind(n: u32): bool {
    if (n > this.inFlight) return false;
    const last = this.lastAvail;
    for (let i: u32 = 1; i <= n; i++) {
      const id = this.popped(last - <u16>i);
      if (id < this.size && this.head(id).open) {
        // Taken out at once, so that a head that was popped again later is not counted for both.
        this.head(id).leave();
        continue;
      }
      while (--i > 0) this.head(this.popped(last - <u16>i)).enter();
      return false;
    }
    this.lastAvail = last - <u16>n;
    this.inFlight -= n;
    return true;
  }

  lastPopped(): i32 {
    if (this.inFlight == 0) return RESULT_NOT_IN_FLIGHT;
    const id = this.popped(this.lastAvail - 1);
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
    const pushed = this.unsignalled;
    if (pushed == 0) return false;
    this.unsignalled = 0;
    // used.idx was published; the driver sets its event and then reads used.idx. See kickPrepare.
    fence();
    const idx = this.usedIdxShadow;
    let wanted: bool;
    if (!this.eventIdx) wanted = (availFlags(this.avail) & AVAIL_F_NO_INTERRUPT) == 0;
    else if (pushed >= 0x10000) wanted = true;
    else wanted = passed(usedEvent(this.avail, this.size), idx, idx - <u16>pushed);
    if (wanted) this.notified++;
    else this.suppressed++;
    return wanted;
  }

  enableNotifications(): bool {
    this.notifications = true;
    if (this.eventIdx) availEventSet(this.used, this.size, this.lastAvail);
    else usedFlagsSet(this.used, 0);
    fence();
    return availIdx(this.avail) == this.lastAvail;
  }

  disableNotifications(): void {
    this.notifications = false;
    if (this.eventIdx) availEventSet(this.used, this.size, this.lastAvail + <u16>EVENT_FAR);
    else usedFlagsSet(this.used, <u16>USED_F_NO_NOTIFY);
  }
  // ---- State ----

  save(words: usize): void {
    const mask = this.size - 1;
    store<u32>(words, this.lastAvail, DEVICE_AVAIL << 2);
    store<u32>(words, this.usedIdxShadow, DEVICE_USED << 2);
    store<u32>(words, this.notifications, DEVICE_EVENTS << 2);
    store<u32>(words, this.unsignalled, DEVICE_UNSIGNALLED << 2);
    store<u32>(words, this.inFlight, DEVICE_IN_FLIGHT << 2);
    store<u32>(words, 0, DEVICE_SLOTS << 2);
    store<u32>(words, this.fills, DEVICE_FILLS << 2);
    store<u32>(words, <u32>this.lastAvail & mask, DEVICE_ORDER << 2);
    store<u32>(words, 0, DEVICE_SPAN << 2);
    store<u32>(words, <u32>this.usedIdxShadow & mask, DEVICE_FILL_FIRST << 2);
  }

  load(words: usize): void {
    this.mend();
    this.lastAvail = <u16>load<u32>(words, DEVICE_AVAIL << 2);
    this.usedIdxShadow = <u16>load<u32>(words, DEVICE_USED << 2);
    this.notifications = load<u32>(words, DEVICE_EVENTS << 2) != 0;
    this.unsignalled = load<u32>(words, DEVICE_UNSIGNALLED << 2);
    this.inFlight = load<u32>(words, DEVICE_IN_FLIGHT << 2);
    this.fills = load<u32>(words, DEVICE_FILLS << 2);
  }
}
