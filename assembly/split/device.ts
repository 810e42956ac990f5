// Device side of a split virtqueue (virtio 1.4, 2.7). The driver is not trusted: every field of the ring
// is loaded once, checked, and only then used.

import {
  AVAIL_F_NO_INTERRUPT,
  AVAILABLE_BUDGET,
  DESC_BYTES,
  DESC_F_INDIRECT,
  DESC_F_NEXT,
  DESC_F_WRITE,
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
  RESULT_BROKEN,
  RESULT_NO_ROOM,
  RESULT_NOT_IN_FLIGHT,
  RESULT_SLOT,
  RESULT_WRITTEN,
  USED_F_NO_NOTIFY,
} from '../abi/layout';
import { Queue } from '../abi/queue';
import { element, elementId, elementSet, elementWritten, pieceSet } from '../abi/records';
import { RegionTable } from '../abi/region';
import {
  availEventSet,
  availFlags,
  availIdx,
  availRing,
  descAddr,
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
import { fence } from '../order';

/** What the device remembers of each head. Private memory. */
@unmanaged
export class Head {
  /** Device-writable bytes of the element in flight, saturated at 2^32 - 1; what was written, once filled. */
  writable: u32;
  /** Popped, and neither detached nor published as used: the driver must not make it available again. */
  inFlight: bool;
  /** In flight, but its used entry is written: it can be neither pushed nor put back any more. */
  used: bool;
  /** Of the used slot with this index: 1 + the id of the entry filled and not yet flushed, or 0. */
  filledId: u16;

  /** The device can do with it what it likes. */
  get inHand(): bool {
    return this.inFlight && !this.used;
  }
}

function headAt(heads: usize, id: u32): Head {
  return changetype<Head>(heads + <usize>id * offsetof<Head>());
}

@unmanaged
export class SplitDevice extends Queue {
  // Where things are; fixed at creation. The areas are shared with the driver, all else is private.
  desc: usize;
  avail: usize;
  used: usize;
  /** Head[size] */
  heads: usize;
  /** u16[size]: the head popped at each avail position; what rewind goes by, not the driver's ring. */
  order: usize;
  eventIdx: bool;
  indirect: bool;

  /** Available-buffer notifications are wanted. */
  notifications: bool;
  /** avail.idx up to which chains were popped. */
  lastAvail: u16;
  /** used.idx as published. */
  usedIdxShadow: u16;
  inFlight: u32;
  /** Slots filled and not flushed. */
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

  // RegionTable, embedded.
  regions: usize;
  regionCount: u32;
  regionHit: u32;

  init(
    size: u32,
    desc: usize,
    avail: usize,
    used: usize,
    heads: usize,
    order: usize,
    eventIdx: bool,
    indirect: bool,
  ): void {
    memory.fill(changetype<usize>(this), 0, offsetof<SplitDevice>());
    this.size = size;
    this.desc = desc;
    this.avail = avail;
    this.used = used;
    this.heads = heads;
    this.order = order;
    this.eventIdx = eventIdx;
    this.indirect = indirect;
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
    memory.fill(this.heads, 0, <usize>this.size * offsetof<Head>());
  }

  get regionTable(): RegionTable {
    return changetype<RegionTable>(changetype<usize>(this) + offsetof<SplitDevice>('regions'));
  }

  private head(id: u32): Head {
    assert(id < this.size);
    return headAt(this.heads, id);
  }

  private popped(position: u16): u32 {
    return load<u16>(this.order + ((<usize>position & (this.size - 1)) << 1));
  }

  private poppedSet(position: u16, head: u32): void {
    store<u16>(this.order + ((<usize>position & (this.size - 1)) << 1), <u16>head);
  }

  // ---- Chains ----

  private bad(fault: u32, a: u64, b: u64): bool {
    this.walkFault = fault;
    this.walkA = a;
    this.walkB = b;
    return false;
  }

  /**
   * Follows the chain of `head`, whose first descriptor holds `firstAddr` and `firstRest`, checks all of it, and writes the pieces of its segments to `pieces` from
   * index `at` on as far as `capacity` goes. False if the chain is bad; then walkFault says why. Ends
   * after at most `size` descriptors that hold a segment, whatever the driver does meanwhile.
   */
  private walk(head: u32, firstAddr: u64, firstRest: u64, pieces: usize, at: u32, capacity: u32): bool {
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
    let addr = firstAddr;
    let rest = firstRest;
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
      // Most segments lie in one region; the others, and the bad ones, take the long way.
      const local: u64 = len == 0 ? 0 : this.regionTable.whole(addr, len);
      if (local != <u64>-1) {
        if (piece < capacity) pieceSet(pieces, piece, <u32>local, len);
        piece++;
      } else {
        const count = this.spread(addr, len, pieces, piece, capacity);
        if (count == 0) return this.bad(FAULT_SEGMENT_RANGE, addr, len);
        piece += count;
      }
      if (readable + writable > 0x1_0000_0000) {
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

  /**
   * Pieces of a segment that leaves the region it starts in: it goes on in the region that adjoins in
   * guest memory. Number of pieces, or 0 if some byte lies in no region. Each round moves to another,
   * higher region, so there are at most as many rounds as regions; an address that wraps finds none,
   * because region 0 would have to be higher.
   */
  private spread(addr: u64, len: u32, pieces: usize, at: u32, capacity: u32): u32 {
    const regions = this.regionTable;
    let guest = addr;
    let left = len;
    let piece = at;
    while (left > 0) {
      const index = regions.find(guest);
      if (index < 0 || guest < addr) return 0;
      const region = regions.at(index);
      const offset = guest - region.guest;
      const here = <u32>min<u64>(left, region.length - offset);
      if (piece < capacity) pieceSet(pieces, piece, <u32>(<u64>region.local + offset), here);
      piece++;
      guest += here;
      left -= here;
    }
    return piece - at;
  }

  // ---- Taking ----

  popBurst(elements: usize, pieces: usize, capacity: u32, max: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    const size = this.size;
    const mask = size - 1;
    const avail = this.avail;
    const desc = this.desc;
    const heads = this.heads;
    let last = this.lastAvail;
    let at: u32 = 0;
    let taken: u32 = 0;
    while (taken < max) {
      const idx = availIdx(avail);
      const ready = <u32>(<u16>(idx - last));
      if (ready == 0) break;
      if (ready > size) {
        if (taken == 0) return this.break(FAULT_AVAIL_IDX, idx, last);
        break;
      }
      const from = taken;
      const until = min(max, taken + ready);
      const region = this.regionTable.recent();
      let readable: u64 = 0;
      for (; taken < until; taken++) {
        const id = availRing(avail, <u32>last & mask);
        if (id >= size) {
          if (taken == 0) return this.break(FAULT_HEAD_RANGE, id, size);
          break;
        }
        const head = headAt(heads, id);
        // A head is in flight once, so there are never more than `size` elements in flight.
        if (head.inFlight) {
          if (taken == 0) return this.break(FAULT_HEAD_IN_FLIGHT, id, this.inFlight);
          break;
        }
        const address = descriptor(desc, id);
        const addr = descAddr(address);
        const rest = descRest(address);
        const len = restLen(rest);
        const flags = restFlags(rest);
        // One direct segment in the region of the last hit is the most frequent chain. What it takes to be
        // that has been loaded once; a chain of any other shape is walked from these same words on.
        if (
          !(flags & (DESC_F_NEXT | DESC_F_INDIRECT)) &&
          len != 0 &&
          region.holds(addr, len) &&
          at < capacity
        ) {
          const writing: u32 = (flags & DESC_F_WRITE) >> 1;
          pieceSet(pieces, at, <u32>(<u64>region.local + addr - region.guest), len);
          elementSet(element(elements, taken), id, at, 1 << (writing << 4));
          head.writable = writing ? len : 0;
          readable += writing ? 0 : len;
          at++;
        } else {
          if (!this.walk(id, addr, rest, pieces, at, capacity)) {
            if (taken == 0) return this.break(this.walkFault, this.walkA, this.walkB);
            break;
          }
          const count = this.walkOut + this.walkIn;
          if (count > capacity - at) {
            if (taken == 0) return RESULT_NO_ROOM;
            break;
          }
          elementSet(element(elements, taken), id, at, this.walkOut | (this.walkIn << 16));
          head.writable = <u32>min<u64>(this.walkWritable, 0xffff_ffff);
          readable += this.walkReadable;
          this.indirects += <u64>this.walkIndirect;
          at += count;
        }
        head.inFlight = true;
        this.poppedSet(last, id);
        last++;
      }
      this.bytesOut += readable;
      this.lastAvail = last;
      this.inFlight += taken - from;
      this.added += taken - from;
      if (taken > from) this.askFrom(last);
      if (taken < until) break;
    }
    return <i32>taken;
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
    let sumIn: f64 = 0;
    let sumOut: f64 = 0;
    let visited: u32 = 0;
    for (let position = first; position != idx; position++) {
      if ((sumIn >= maxIn && sumOut >= maxOut) || visited >= <u32>AVAILABLE_BUDGET) break;
      const id = availRing(this.avail, <u32>position & (size - 1));
      let sound = false;
      if (id >= size) this.bad(FAULT_HEAD_RANGE, id, size);
      else if (this.head(id).inFlight) this.bad(FAULT_HEAD_IN_FLIGHT, id, this.inFlight);
      else {
        const address = descriptor(this.desc, id);
        sound = this.walk(id, descAddr(address), descRest(address), 0, 0, 0);
      }
      if (!sound) {
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

  /** 0 if the element can be used with `written` bytes, or why not. */
  private usable(id: u32, written: u32): i32 {
    if (id >= this.size) return RESULT_NOT_IN_FLIGHT;
    const head = this.head(id);
    if (!head.inHand) return RESULT_NOT_IN_FLIGHT;
    return written > head.writable ? RESULT_WRITTEN : 0;
  }

  private publish(n: u32, bytes: u64): void {
    this.inFlight -= n;
    this.completed += n;
    this.bytesIn += bytes;
    this.unsignalled = min<u32>(this.unsignalled + n, 0x10000);
    const idx = this.usedIdxShadow + <u16>n;
    this.usedIdxShadow = idx;
    usedIdxSet(this.used, idx);
  }

  pushBurst(elements: usize, n: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    if (this.fills > 0) return RESULT_SLOT;
    const mask = this.size - 1;
    const slot = <u32>this.usedIdxShadow;
    let bytes: u64 = 0;
    let pushed: u32 = 0;
    for (; pushed < n; pushed++) {
      const record = element(elements, pushed);
      const id = elementId(record);
      const written = elementWritten(record);
      if (this.usable(id, written) < 0) break;
      this.head(id).inFlight = false;
      usedElemSet(usedElem(this.used, (slot + pushed) & mask), id, written);
      bytes += written;
    }
    if (pushed > 0) this.publish(pushed, bytes);
    return <i32>pushed;
  }

  fill(id: u32, written: u32, offset: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    const result = this.usable(id, written);
    if (result < 0) return result;
    // Further ahead may lie entries that the driver has not taken yet: it has at most as many free slots as
    // there are elements that it waits for.
    if (offset >= this.inFlight) return RESULT_SLOT;
    // Marks are kept by used slot: the slot `offset` ahead is the same one until flush moves on.
    const slot = (<u32>this.usedIdxShadow + offset) & (this.size - 1);
    const mark = this.head(slot);
    if (mark.filledId != 0) return RESULT_SLOT;
    mark.filledId = <u16>(id + 1);
    const head = this.head(id);
    head.used = true;
    head.writable = written;
    usedElemSet(usedElem(this.used, slot), id, written);
    this.fills++;
    return 0;
  }

  flush(n: u32): i32 {
    if (this.fault != FAULT_NONE) return RESULT_BROKEN;
    if (n > this.fills) return RESULT_SLOT;
    const mask = this.size - 1;
    const slot = <u32>this.usedIdxShadow;
    for (let i: u32 = 0; i < n; i++) if (this.head((slot + i) & mask).filledId == 0) return RESULT_SLOT;
    let bytes: u64 = 0;
    for (let i: u32 = 0; i < n; i++) {
      const mark = this.head((slot + i) & mask);
      const head = this.head(<u32>mark.filledId - 1);
      mark.filledId = 0;
      head.inFlight = false;
      head.used = false;
      bytes += head.writable;
    }
    this.fills -= n;
    if (n > 0) this.publish(n, bytes);
    return 0;
  }

  detach(id: u32): i32 {
    if (id >= this.size || !this.head(id).inHand) return RESULT_NOT_IN_FLIGHT;
    this.head(id).inFlight = false;
    this.inFlight--;
    return 0;
  }

  rewind(n: u32): bool {
    if (n > this.inFlight) return false;
    const last = this.lastAvail;
    for (let i: u32 = 1; i <= n; i++) {
      const head = this.head(this.popped(last - <u16>i));
      if (head.inHand) {
        // Taken out at once, so that a head that was popped again later is not counted for both.
        head.inFlight = false;
        continue;
      }
      while (--i > 0) this.head(this.popped(last - <u16>i)).inFlight = true;
      return false;
    }
    this.lastAvail = last - <u16>n;
    this.inFlight -= n;
    return true;
  }

  lastPopped(): i32 {
    if (this.inFlight == 0) return RESULT_NOT_IN_FLIGHT;
    const id = this.popped(this.lastAvail - 1);
    return this.head(id).inHand ? <i32>id : RESULT_NOT_IN_FLIGHT;
  }

  /** f64, so that all of a u32 fits beside the negative results. */
  writable(id: u32): f64 {
    if (id >= this.size || !this.head(id).inHand) return RESULT_NOT_IN_FLIGHT;
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
}
