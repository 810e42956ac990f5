import {
  AVAILABLE_BUDGET,
  CHAIN_BYTES_MAX,
  COUNT_ADDED,
  COUNT_BYTES_IN,
  COUNT_BYTES_OUT,
  COUNT_COMPLETED,
  COUNT_INDIRECT,
  COUNT_NOTIFIED,
  COUNT_SUPPRESSED,
  DESC_BYTES,
  DESC_F_INDIRECT,
  DESC_F_NEXT,
  DESC_F_WRITE,
  FAULT_CHAIN_BYTES,
  FAULT_CHAIN_LONG,
  FAULT_DESC_UNAVAILABLE,
  FAULT_HEAD_IN_FLIGHT,
  FAULT_HEAD_RANGE,
  FAULT_INDIRECT_NEXT,
  FAULT_INDIRECT_REFUSED,
  FAULT_NONE,
  FAULT_SEGMENT_ORDER,
  FAULT_SLOTS,
  FAULT_TABLE_LENGTH,
  FAULT_TABLE_RANGE,
  PIECES_MAX,
  RESULT_BROKEN,
  RESULT_NO_ROOM,
  RESULT_NOT_IN_FLIGHT,
  RESULT_SLOT,
  RESULT_WRITTEN,
  RING_EVENT_FLAGS_DESC,
  RING_EVENT_FLAGS_DISABLE,
  RING_EVENT_FLAGS_ENABLE,
} from '../../../../assembly/abi/layout.js';
import type { LinearMemory } from '../../../memory.js';
import type { DeviceRing, DeviceRingConfig, DeviceRingState, ElementState } from '../../engine.js';
import { EVENT_WINDOW_MAX } from '../abi/event.js';
import * as Desc from '../abi/packed-desc.js';
import { positionOf, slotOf, wrapOf } from '../abi/position.js';
import * as Record from '../abi/records.js';
import { eventFlags, eventOffWrap, eventStructure, wantsEvent } from '../abi/suppress.js';
import * as Words from '../abi/words.js';
import { ChainReader } from '../chains.js';
import * as Translated from '../mm/translation.js';
import { acquire, acquireWord, publish, publishUpper } from '../order.js';

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
const BYTES_SHIFT = Desc.BYTES_SHIFT;
const AVAIL_USED = Desc.AVAIL_USED;
/** Flags that decide whether a descriptor is available, and a chain of its own. */
const DECISIVE = AVAIL_USED | NEXT | INDIRECT;
const TABLE_REST = DESC_BYTES - 1; // what a table's length has none of
const ELEMENT_ID = Record.ELEMENT_ID;
const ELEMENT_FIRST = Record.ELEMENT_FIRST;
const ELEMENT_COUNTS = Record.ELEMENT_COUNTS;
const ELEMENT_WRITTEN = Record.ELEMENT_WRITTEN;
const ELEMENT_SHIFT = Record.ELEMENT_SHIFT;
const PIECE_ADDRESS = Record.PIECE_ADDRESS;
const PIECE_LENGTH = Record.PIECE_LENGTH;
const PIECE_SHIFT = Record.PIECE_SHIFT;
const WINDOW_HIGH = Translated.WINDOW_HIGH;
const WINDOW_LOW = Translated.WINDOW_LOW;
const WINDOW_LENGTH = Translated.WINDOW_LENGTH;
const WINDOW_LOCAL = Translated.WINDOW_LOCAL;
const AT_LOW = Translated.AT_LOW;
const AT_HIGH = Translated.AT_HIGH;
const AT_LENGTH = Translated.AT_LENGTH;
const AT_LOCAL = Translated.AT_LOCAL;
const AT_FIT = Translated.AT_FIT;
const WORD = Words.WORD;
const HEAD = Words.HEAD;

// What the device keeps per id, words id * 4 + … of `heads`. On the JavaScript heap, so a driver can make the
// device believe nothing about what is in flight.
const HEAD_SHIFT = 2;
/**
 * 0 if no element with this id is in flight. Else bits 0-14 its place in the ring of pops, HELD, and in bits
 * 16-31 its number of slots.
 */
const STATE = 0;
/** Device-writable bytes, saturated at 2^32-1. */
const WRITABLE = 1;
/** In-order use: bytes written, for an element that is HELD. */
const WRITTEN = 2;
/** Not of the id, but of a place in the ring of pops: id of the element popped there. */
const POPPED = 3;

const PLACE = 0x7fff;
/** Filled and not flushed, or in order: done, and waiting for those before it. */
const HELD_SHIFT = 15;
const HELD = 1 << HELD_SHIFT;
const SLOTS_SHIFT = 16;
/** From HELD_SHIFT on: in flight with one slot, not held. */
const ONE_SLOT = 1 << (SLOTS_SHIFT - HELD_SHIFT);
/** In POPPED: nothing that could be an id. */
const NOBODY = 0xffff;

/** Device side of a packed virtqueue (virtio 1.4, 2.8). Works in place on the driver's memory. */
export class PackedDevice extends ChainReader implements DeviceRing {
  // Numbers start as small integers and objects never start as undefined: V8 then knows the kind of each
  // field and checks nothing on the hot path.
  inFlight = 0;

  private readonly size: number = 0;
  private readonly eventIdx: boolean = false;
  private readonly inOrder: boolean = false;
  private readonly batches: boolean = false;
  private readonly indirect: boolean = false;

  // Where things are in memory: word indices, 32 or 16 bits wide.
  private readonly ring: number = 0; // u32
  private readonly ownOffWrap: number = 0; // u16
  private readonly ownFlags: number = 0; // u16
  private readonly driverEvent: number = 0; // u32

  declare private readonly heads: Uint32Array;
  /** Used entries filled and not flushed: id plus 1 (0: none) and length, in a ring that starts at `firstFill`. */
  declare private readonly filledId: Uint16Array;
  declare private readonly filledLength: Uint32Array;
  /** Shared memory: id and flags of slots as `look` saw them. */
  declare private readonly seen: Uint32Array;
  private firstFill = 0;
  private filled = 0;

  // Where the next chain will be popped, and where the next used descriptor goes: slot and wrap counter.
  private availSlot = 0;
  private availWrap = 1;
  private usedSlot = 0;
  private usedWrap = 1;
  /** Slots of the elements in flight. */
  private busy = 0;
  /** Place of the next pop in the ring of pops, which remembers the last `size` of them. */
  private pops = 0;
  /** In-order use: pops from the one on for which the next used descriptor is. */
  private span = 0;
  /** Slots used since the last `shouldInterrupt`, saturated at EVENT_WINDOW_MAX. */
  private unsignalled = 0;
  /** The flags of the device's event structure: the driver cannot change them, the device never reads them. */
  private events = RING_EVENT_FLAGS_ENABLE;

  /** Place of the next piece, between `popBurst` and its parts. */
  private firstPiece = 0;

  // What `walk` found in the last chain, beside the sums.
  private chainId = 0;
  private chainSlots = 0;

  constructor(memory: LinearMemory, config: DeviceRingConfig) {
    super(memory, config.regions, config.translation);
    const { size, areas } = config;
    this.size = size;
    this.eventIdx = config.eventIdx;
    this.inOrder = config.inOrder;
    this.batches = config.batches;
    this.indirect = config.indirect;
    this.ring = areas.descriptor >>> 2;
    this.ownOffWrap = eventOffWrap(areas.device);
    this.ownFlags = eventFlags(areas.device);
    this.driverEvent = eventStructure(areas.driver);
    this.heads = new Uint32Array(size << HEAD_SHIFT);
    this.filledId = new Uint16Array(size);
    this.filledLength = new Uint32Array(size);
    this.seen = new Uint32Array(memory.shared ? size : 0);
    this.forget();
  }

  reset(): void {
    this.forget();
    this.inFlight = 0;
    this.availSlot = 0;
    this.availWrap = 1;
    this.usedSlot = 0;
    this.usedWrap = 1;
    this.busy = 0;
    this.span = 0;
    this.unsignalled = 0;
    this.events = RING_EVENT_FLAGS_ENABLE;
    this.availableIn = 0;
    this.availableOut = 0;
  }

  /** No fault, nothing in flight, nothing popped. */
  private forget(): void {
    const { heads, size } = this;
    heads.fill(0);
    for (let place = 0; place < size; place++) heads[(place << HEAD_SHIFT) + POPPED] = NOBODY;
    this.filledId.fill(0);
    this.firstFill = 0;
    this.filled = 0;
    this.pops = 0;
    this.mend();
  }

  // ---- Taking available buffers (2.8.21) ----

  popBurst(elements: number, pieces: number, pieceCapacity: number, max: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    const { memory, heads, size, ring, shared, eager } = this;
    memory.fresh();
    const { u16, u32 } = memory;
    const element = elements >>> 2;
    const piece = pieces >>> 2;
    const most = max | 0;
    const capacity = Math.min(pieceCapacity, PIECES_MAX) | 0;
    let slot = this.availSlot | 0;
    let wrap = this.availWrap;
    let available = Desc.availableUnder(wrap);
    let place = this.pops | 0;
    let busy = this.busy | 0;
    let first = 0;
    let bytesOut = 0;
    let indirect = 0;
    let told = 0; // elements that the event structure knows of
    let taken = 0;
    let usual = true; // what comes next may be a chain that lies in the window
    let result = 0;
    while (taken < most) {
      if (usual) {
        // Chains of one direct descriptor in the window, as many as come in a row, have room and do not turn
        // the ring: without a call, so that nothing is loaded anew. Any other is left alone.
        const { window } = this.translation;
        const windowHigh = window[WINDOW_HIGH];
        const windowLow = window[WINDOW_LOW];
        const windowLength = window[WINDOW_LENGTH];
        const windowLocal = window[WINDOW_LOCAL];
        const from = taken;
        const ahead = first - taken;
        const slotAhead = slot - taken;
        const placeAhead = place - taken;
        let last =
          Math.min(most, capacity - ahead, size - slotAhead, size - placeAhead, size - busy + taken) | 0;
        let lookAt = u32;
        let lookFrom = ring + ID_AND_FLAGS;
        let lookShift = SHIFT;
        if (shared) {
          last = Math.min(last, this.look(slot, slotAhead + last, available) - slotAhead);
          lookAt = this.seen;
          lookFrom = 0;
          lookShift = 0;
        }
        for (; taken < last; taken++) {
          const word = lookAt[(lookFrom + ((slotAhead + taken) << lookShift)) & WORD];
          const id = Desc.idOf(word);
          if ((Desc.flagsOf(word) & DECISIVE) !== available || id >= size) break;
          const d = (ring + ((slotAhead + taken) << SHIFT)) & WORD;
          const h = (id & HEAD) << HEAD_SHIFT;
          const length = u32[d + LEN];
          const offset = (u32[d + ADDR_LOW] - windowLow) >>> 0;
          // A length of 0 becomes the largest number and fails, as it should: it is placed otherwise.
          if (
            heads[h + STATE] !== 0 ||
            u32[d + ADDR_HIGH] !== windowHigh ||
            offset >= windowLength ||
            (length - 1) >>> 0 >= (windowLength - offset) >>> 0
          )
            break;
          const p = (piece + ((ahead + taken) << PIECE_SHIFT)) & WORD;
          u32[p + PIECE_ADDRESS] = windowLocal + offset;
          u32[p + PIECE_LENGTH] = length;
          const e = (element + (taken << ELEMENT_SHIFT)) & WORD;
          u32[e + ELEMENT_ID] = id;
          u32[e + ELEMENT_FIRST] = ahead + taken;
          let counts = 0x10000; // no piece out, one in
          let writable = length;
          if ((Desc.flagsOf(word) & WRITE) === 0) {
            counts = 1;
            writable = 0;
            bytesOut += length;
          }
          u32[e + ELEMENT_COUNTS] = counts;
          u32[e + ELEMENT_WRITTEN] = 0;
          heads[h + STATE] = (1 << SLOTS_SHIFT) | (placeAhead + taken);
          heads[h + WRITABLE] = writable;
          heads[((placeAhead + taken) << HEAD_SHIFT) + POPPED] = id;
        }
        if (eager) this.clearFor(taken - from);
        first = ahead + taken;
        slot = slotAhead + taken;
        place = placeAhead + taken;
        busy += taken - from;
        let turned = false;
        if (slot === size) {
          slot = 0;
          wrap ^= 1;
          available ^= AVAIL_USED;
          turned = true;
        }
        if (place === size) {
          place = 0;
          turned = true;
        }
        if (turned) continue;
        if (taken === most) break;
        // An atomic access in each step would be a call: elsewhere than in a shared memory.
        if (!shared) {
          const at = taken;
          this.firstPiece = first;
          this.availSlot = slot;
          this.availWrap = wrap;
          this.pops = place;
          this.busy = busy;
          taken = this.popChains(taken, most, element, piece, capacity);
          if (taken !== at) {
            first = this.firstPiece;
            slot = this.availSlot | 0;
            wrap = this.availWrap;
            available = Desc.availableUnder(wrap);
            place = this.pops | 0;
            busy = this.busy | 0;
            continue;
          }
        }
      }

      // Loads everything of that chain again and believes nothing of what was loaded before.
      const flags = acquire(shared, u16, ((ring + (slot << SHIFT)) << 1) + FLAGS);
      if ((flags & AVAIL_USED) !== available) {
        // With ENABLE the driver will notify of whatever it makes available from now on.
        if (this.events !== RING_EVENT_FLAGS_DESC || told === taken) break;
        // Published before those flags are acquired again: what comes after that look causes a notification.
        publish(shared, u16, this.ownOffWrap, positionOf(slot, wrap));
        told = taken;
        continue;
      }
      const room = capacity - first;
      this.beginTranslation();
      const placed = this.walk(slot, available, flags, piece + (first << PIECE_SHIFT), room);
      if (placed < 0 || !this.admits(slot, busy, this.inFlight + taken)) {
        result = RESULT_BROKEN;
        break;
      }
      if (placed > room) {
        result = RESULT_NO_ROOM;
        break;
      }
      const e = element + (taken << ELEMENT_SHIFT);
      u32[e + ELEMENT_ID] = this.chainId;
      u32[e + ELEMENT_FIRST] = first;
      u32[e + ELEMENT_COUNTS] = this.chainOut | (this.chainIn << 16);
      u32[e + ELEMENT_WRITTEN] = 0;
      bytesOut += this.chainReadable;
      const h = this.chainId << HEAD_SHIFT;
      heads[h + STATE] = (this.chainSlots << SLOTS_SHIFT) | place;
      heads[h + WRITABLE] = Math.min(this.chainWritable, 0xffffffff);
      heads[(place << HEAD_SHIFT) + POPPED] = this.chainId;
      place++;
      if (place === size) place = 0;
      busy += this.chainSlots;
      slot += this.chainSlots;
      if (slot >= size) {
        slot -= size;
        wrap ^= 1;
        available ^= AVAIL_USED;
      }
      indirect += this.chainTables;
      usual = !this.chainStrayed;
      first += placed;
      taken++;
    }
    if (taken === 0) return result === RESULT_BROKEN ? this.convict() : result;
    if (this.events === RING_EVENT_FLAGS_DESC && told !== taken)
      publish(shared, u16, this.ownOffWrap, positionOf(slot, wrap));
    this.availSlot = slot;
    this.availWrap = wrap;
    this.pops = place;
    this.busy = busy;
    if (this.inOrder) this.span += taken;
    this.inFlight += taken;
    this.counts[COUNT_ADDED] += taken;
    this.counts[COUNT_BYTES_OUT] += bytesOut;
    this.counts[COUNT_INDIRECT] += indirect;
    return taken;
  }

  /**
   * Acquires the flags of the slots from `slot` on, as long as they are available and chains of their own, and
   * notes them in `seen`, with the id. Returns the first slot that is not, `end` at most. In a loop of its own, because an
   * atomic access is a call: behind it everything is loaded anew.
   */
  private look(slot: number, end: number, available: number): number {
    const { ring, seen } = this;
    const { u16 } = this.memory;
    let at = slot;
    for (; at < end; at++) {
      const flags = acquire(true, u16, ((ring + (at << SHIFT)) << 1) + FLAGS);
      if ((flags & DECISIVE) !== available) break;
      seen[at] = (flags << FLAGS_SHIFT) | u16[((ring + (at << SHIFT)) << 1) + ID];
    }
    return at;
  }

  /**
   * Pops chains that lie in the window and have room, direct ones and tables, as many as come in a row until there
   * are two of one descriptor. In a function of its own, so that its loop has all registers; it moves `firstPiece`,
   * `availSlot`, `availWrap`, `pops` and `busy` on. Any other chain is left alone, and nothing that was loaded of it is believed. Returns
   * how many are taken then. Not in a shared memory.
   *
   * The inner loops end: they visit at most `size` descriptors of a chain.
   */
  private popChains(from: number, end: number, element: number, piece: number, capacity: number): number {
    const { heads, size, ring, indirect } = this;
    const { u32 } = this.memory;
    const { window } = this.translation;
    const windowHigh = window[WINDOW_HIGH];
    const windowLow = window[WINDOW_LOW];
    const windowLength = window[WINDOW_LENGTH];
    const windowLocal = window[WINDOW_LOCAL];
    const most = capacity | 0;
    let slot = this.availSlot | 0;
    let available = Desc.availableUnder(this.availWrap);
    let place = this.pops | 0;
    let left = (size - this.busy) | 0;
    let first = this.firstPiece | 0;
    let taken = from | 0;
    let bytesOut = 0;
    let tables = 0;
    let singles = 0;
    chains: for (; taken < end && singles < 2; taken++) {
      let d = (ring + (slot << SHIFT)) & WORD;
      let word = u32[d + ID_AND_FLAGS];
      let flags = Desc.flagsOf(word);
      if ((flags & AVAIL_USED) !== available) break;
      let length = u32[d + LEN];
      let offset = (u32[d + ADDR_LOW] - windowLow) >>> 0;
      if (
        u32[d + ADDR_HIGH] !== windowHigh ||
        offset >= windowLength ||
        // A length of 0 becomes the largest number and fails, as it should: it is placed otherwise.
        (length - 1) >>> 0 >= (windowLength - offset) >>> 0
      )
        break;
      let at = slot;
      let expected = available;
      let slots = 1;
      let inTable = 0;
      let p = first;
      let out = 0;
      let bytes = 0;
      let writable = 0;
      let writing = 0;
      if ((flags & INDIRECT) !== 0) {
        const table = windowLocal + offset;
        if (!indirect || (flags & NEXT) !== 0 || (length & TABLE_REST) !== 0 || (table & 3) !== 0) break;
        const entries = length >>> BYTES_SHIFT;
        if (entries > size) break;
        inTable = 1;
        for (let i = 0; i < entries; i++) {
          const t = ((table >>> 2) + (i << SHIFT)) & WORD;
          length = u32[t + LEN];
          offset = (u32[t + ADDR_LOW] - windowLow) >>> 0;
          const write = Desc.flagsOf(u32[t + ID_AND_FLAGS]) & WRITE;
          if (
            u32[t + ADDR_HIGH] !== windowHigh ||
            offset >= windowLength ||
            (length - 1) >>> 0 >= (windowLength - offset) >>> 0 ||
            write < writing ||
            p === most
          )
            break chains;
          const w = (piece + (p << PIECE_SHIFT)) & WORD;
          u32[w + PIECE_ADDRESS] = windowLocal + offset;
          u32[w + PIECE_LENGTH] = length;
          p++;
          bytes += length;
          writing = write;
          if (write !== 0) writable += length;
          else out = p;
        }
        if (++at === size) at = 0;
      } else {
        for (;;) {
          const write = flags & WRITE;
          if (write < writing || p === most) break chains;
          const w = (piece + (p << PIECE_SHIFT)) & WORD;
          u32[w + PIECE_ADDRESS] = windowLocal + offset;
          u32[w + PIECE_LENGTH] = length;
          p++;
          bytes += length;
          writing = write;
          if (write !== 0) writable += length;
          else out = p;
          if (++at === size) {
            at = 0;
            expected ^= AVAIL_USED;
          }
          if ((flags & NEXT) === 0) break;
          if (++slots > left) break chains;
          d = (ring + (at << SHIFT)) & WORD;
          word = u32[d + ID_AND_FLAGS];
          flags = Desc.flagsOf(word);
          length = u32[d + LEN];
          offset = (u32[d + ADDR_LOW] - windowLow) >>> 0;
          if (
            (flags & (AVAIL_USED | INDIRECT)) !== expected ||
            u32[d + ADDR_HIGH] !== windowHigh ||
            offset >= windowLength ||
            (length - 1) >>> 0 >= (windowLength - offset) >>> 0
          )
            break chains;
        }
      }
      const id = Desc.idOf(word);
      if (id >= size || slots > left || bytes > CHAIN_BYTES_MAX) break;
      const h = (id & HEAD) << HEAD_SHIFT;
      if (heads[h + STATE] !== 0) break;
      const outs = out === 0 ? 0 : out - first;
      const e = (element + (taken << ELEMENT_SHIFT)) & WORD;
      u32[e + ELEMENT_ID] = id;
      u32[e + ELEMENT_FIRST] = first;
      u32[e + ELEMENT_COUNTS] = outs | ((p - first - outs) << 16);
      u32[e + ELEMENT_WRITTEN] = 0;
      heads[h + STATE] = (slots << SLOTS_SHIFT) | place;
      heads[h + WRITABLE] = Math.min(writable, 0xffffffff);
      heads[(place << HEAD_SHIFT) + POPPED] = id;
      if (++place === size) place = 0;
      left -= slots;
      if (at < slot || slots === size) available ^= AVAIL_USED;
      slot = at;
      bytesOut += bytes - writable;
      tables += inTable;
      singles = p - first === 1 && inTable === 0 ? singles + 1 : 0;
      first = p;
    }
    if (taken !== from) {
      if (this.eager) this.clearFor(taken - from);
      this.counts[COUNT_BYTES_OUT] += bytesOut;
      this.counts[COUNT_INDIRECT] += tables;
      this.firstPiece = first;
      this.availSlot = slot;
      this.availWrap = Desc.wrapUnder(available);
      this.pops = place;
      this.busy = size - left;
    }
    return taken;
  }

  /**
   * Follows the chain at `slot`, whose first flags say that it is available, and writes its pieces, as far as
   * `room` goes, from word `piece` on. Returns how many pieces it has and leaves the sums in `chain…`; or
   * RESULT_BROKEN with the reason noted.
   *
   * Every word of a descriptor is loaded once. The loop ends: each turn either takes one of the descriptors
   * that the queue size allows, or enters a table, once.
   */
  private walk(slot: number, available: number, firstFlags: number, piece: number, room: number): number {
    const { translation, size, ring, shared } = this;
    const { u16, u32 } = this.memory;
    const { at, window } = translation;
    let windowHigh = window[WINDOW_HIGH];
    let windowLow = window[WINDOW_LOW];
    let windowLength = window[WINDOW_LENGTH];
    let windowLocal = window[WINDOW_LOCAL];
    // The | 0 changes nothing, but keeps these numbers untagged in registers.
    const first = piece | 0;
    const most = room | 0;
    let here = slot | 0;
    let flags = firstFlags | 0;
    let expected = available | 0;
    let slots = 1;
    let table = 0; // word index; byte address of a table that is not aligned
    let entries = 0; // of the table, 0: in the ring
    let index = 0;
    let aligned = true;
    let moved = false;
    let strayed = false;
    let count = 0;
    let bytes = 0;
    let writable = 0;
    let pieces = 0;
    let out = 0;
    let writing = 0; // flag WRITE of the descriptor before
    for (;;) {
      let words = u32;
      let d = (ring + (here << SHIFT)) & WORD;
      if (entries !== 0) {
        d = (table + (index << SHIFT)) & WORD;
        if (!aligned) {
          words = this.gather(table + index * DESC_BYTES);
          d = 0;
        }
        flags = words[d + ID_AND_FLAGS] >>> FLAGS_SHIFT;
      }
      const low = words[d + ADDR_LOW];
      const high = words[d + ADDR_HIGH];
      const length = words[d + LEN];

      const offset = (low - windowLow) >>> 0;
      const inWindow =
        high === windowHigh &&
        offset < windowLength &&
        // A length of 0 becomes the largest number and fails, as it should: it is placed otherwise.
        (length - 1) >>> 0 < (windowLength - offset) >>> 0;

      // In a table the flag is reserved and means nothing.
      if ((flags & INDIRECT) !== 0 && entries === 0) {
        at[AT_LOW] = low;
        at[AT_HIGH] = high;
        at[AT_LENGTH] = length;
        if (
          !inWindow ||
          !this.indirect ||
          count !== 0 ||
          (flags & NEXT) !== 0 ||
          (length & TABLE_REST) !== 0
        ) {
          if (!this.tableSound(here, flags, count)) return RESULT_BROKEN;
          table = at[AT_LOCAL];
          // The window moved to the table. The buffers are where they were, so the copies of it stay.
          moved = true;
        } else {
          table = (windowLocal + offset) >>> 0;
        }
        aligned = (table & 3) === 0;
        if (aligned) table >>>= 2;
        entries = length >>> BYTES_SHIFT;
        continue;
      }

      if (count === size) return this.suspected(FAULT_CHAIN_LONG, BigInt(slot), BigInt(size));
      count++;

      const write = flags & WRITE;
      if (write < writing) {
        at[AT_LOW] = low;
        at[AT_HIGH] = high;
        return this.suspected(FAULT_SEGMENT_ORDER, this.asked(), BigInt(length));
      }
      writing = write;

      if (inWindow) {
        if (pieces < most) {
          const p = (first + (pieces << PIECE_SHIFT)) & WORD;
          u32[p + PIECE_ADDRESS] = windowLocal + offset;
          u32[p + PIECE_LENGTH] = length;
        }
        pieces++;
      } else {
        at[AT_LOW] = low;
        at[AT_HIGH] = high;
        at[AT_LENGTH] = length;
        pieces = this.place(piece, pieces, most);
        if (pieces < 0) return pieces;
        strayed = true;
        windowHigh = window[WINDOW_HIGH];
        windowLow = window[WINDOW_LOW];
        windowLength = window[WINDOW_LENGTH];
        windowLocal = window[WINDOW_LOCAL];
      }

      bytes += length;
      if (write !== 0) writable += length;
      else out = pieces;
      if (bytes > CHAIN_BYTES_MAX) return this.suspected(FAULT_CHAIN_BYTES, BigInt(slot), BigInt(bytes));

      if (entries !== 0) {
        if (++index === entries) break;
        continue;
      }
      if ((flags & NEXT) === 0) break;
      slots++;
      if (++here === size) {
        here = 0;
        expected ^= AVAIL_USED;
      }
      flags = acquire(shared, u16, ((ring + (here << SHIFT)) << 1) + FLAGS);
      if ((flags & AVAIL_USED) !== expected)
        return this.suspected(FAULT_DESC_UNAVAILABLE, BigInt(slot), BigInt(here));
    }
    this.chainId = u16[((ring + (here << SHIFT)) << 1) + ID];
    this.chainSlots = slots;
    this.chainSegments = count;
    this.chainOut = out;
    this.chainIn = pieces - out;
    this.chainTables = entries !== 0 ? 1 : 0;
    this.chainReadable = bytes - writable;
    this.chainWritable = writable;
    this.chainStrayed = strayed;
    if (moved) {
      // Later chains look where this one's last buffer was, not where its table was.
      window[WINDOW_HIGH] = windowHigh;
      window[WINDOW_LOW] = windowLow;
      window[WINDOW_LENGTH] = windowLength;
      window[WINDOW_LOCAL] = windowLocal;
    }
    return pieces;
  }

  /**
   * Checks the descriptor at `slot`, which refers to the table in the question of `translation`, with `count`
   * others before it in its chain, and looks that up. False if it is bad, with the reason noted.
   */
  private tableSound(slot: number, flags: number, count: number): boolean {
    const { translation } = this;
    const { at } = translation;
    const length = at[AT_LENGTH];
    if (!this.indirect) this.suspected(FAULT_INDIRECT_REFUSED, BigInt(slot), BigInt(flags));
    else if (count !== 0 || (flags & NEXT) !== 0)
      this.suspected(FAULT_INDIRECT_NEXT, BigInt(slot), BigInt(flags));
    else if (length === 0 || (length & TABLE_REST) !== 0)
      this.suspected(FAULT_TABLE_LENGTH, BigInt(length), this.asked());
    else if (!translation.find() || at[AT_FIT] !== length)
      this.suspected(FAULT_TABLE_RANGE, this.asked(), BigInt(length));
    else return true;
    return false;
  }

  /**
   * Whether the chain that was followed last, at `slot`, can be in flight beside `inFlight` others with `busy`
   * slots. If not, the reason is noted.
   */
  private admits(slot: number, busy: number, inFlight: number): boolean {
    const { size, chainId, chainSlots } = this;
    if (chainId >= size) this.suspected(FAULT_HEAD_RANGE, BigInt(chainId), BigInt(size));
    else if (this.heads[(chainId << HEAD_SHIFT) + STATE] !== 0)
      this.suspected(FAULT_HEAD_IN_FLIGHT, BigInt(chainId), BigInt(inFlight));
    else if (chainSlots > size - busy) this.suspected(FAULT_SLOTS, BigInt(slot), BigInt(busy));
    else return true;
    return false;
  }

  availableBytes(maxIn: number, maxOut: number): number {
    this.availableIn = 0;
    this.availableOut = 0;
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    this.memory.fresh();
    const { u16 } = this.memory;
    const { size, ring } = this;
    let slot = this.availSlot;
    let available = Desc.availableUnder(this.availWrap);
    let { busy } = this;
    let budget = AVAILABLE_BUDGET;
    this.beginTranslation();
    // Ends: no more than `size` slots can be busy.
    for (let i = 0; (this.availableIn < maxIn || this.availableOut < maxOut) && budget > 0; i++) {
      const flags = acquire(this.shared, u16, ((ring + (slot << SHIFT)) << 1) + FLAGS);
      if ((flags & AVAIL_USED) !== available) break;
      const found = this.walk(slot, available, flags, 0, 0);
      if (found < 0 || !this.admits(slot, busy, this.inFlight)) {
        // A bad chain will never be popped: what it promised does not count.
        if (i === 0) return this.convict();
        break;
      }
      this.availableIn += this.chainWritable;
      this.availableOut += this.chainReadable;
      budget -= this.chainSegments;
      busy += this.chainSlots;
      slot += this.chainSlots;
      if (slot >= size) {
        slot -= size;
        available ^= AVAIL_USED;
      }
    }
    return 0;
  }

  // ---- Putting chains back ----

  lastPopped(): number {
    return this.poppedAt(this.placeBefore(this.pops));
  }

  rewind(n: number): number {
    // At most size elements are in flight, so no place looked at has been popped over.
    if (!(n >= 0 && n <= this.inFlight)) return 0;
    let place = this.pops;
    for (let i = 0; i < n; i++) {
      place = this.placeBefore(place);
      if (this.poppedAt(place) < 0) return 0;
    }
    place = this.pops;
    let slots = 0;
    for (let i = 0; i < n; i++) {
      place = this.placeBefore(place);
      const h = this.poppedAt(place) << HEAD_SHIFT;
      slots += this.heads[h + STATE] >>> SLOTS_SHIFT;
      this.heads[h + STATE] = 0;
    }
    this.pops = place;
    if (this.inOrder) this.span -= n;
    this.busy -= slots;
    this.inFlight -= n;
    this.availSlot -= slots;
    if (this.availSlot < 0) {
      this.availSlot += this.size;
      this.availWrap ^= 1;
    }
    return 1;
  }

  private placeBefore(place: number): number {
    return place === 0 ? this.size - 1 : place - 1;
  }

  /** Id of the element popped at `place`, if it can still be put back, or RESULT_NOT_IN_FLIGHT. */
  private poppedAt(place: number): number {
    const id = this.heads[(place << HEAD_SHIFT) + POPPED];
    // The state names the place: the id may have come back and be in flight from a later one.
    return this.has(id) && (this.heads[(id << HEAD_SHIFT) + STATE] & PLACE) === place
      ? id
      : RESULT_NOT_IN_FLIGHT;
  }

  detach(id: number): number {
    if (!this.has(id)) return RESULT_NOT_IN_FLIGHT;
    const { heads } = this;
    const popped = ((heads[(id << HEAD_SHIFT) + STATE] & PLACE) << HEAD_SHIFT) + POPPED;
    if (heads[popped] === id) heads[popped] = NOBODY;
    // Its slots stay busy: the driver never gets them back.
    heads[(id << HEAD_SHIFT) + STATE] = 0;
    this.inFlight--;
    return 0;
  }

  writable(id: number): number {
    return this.has(id) ? this.heads[(id << HEAD_SHIFT) + WRITABLE] : RESULT_NOT_IN_FLIGHT;
  }

  /** Whether an element with this id is in flight and not held. */
  private has(id: number): boolean {
    if (!(id >= 0 && id < this.size)) return false;
    const state = this.heads[(id << HEAD_SHIFT) + STATE];
    return state !== 0 && (state & HELD) === 0;
  }

  // ---- Returning used buffers (2.8.22) ----

  pushBurst(elements: number, n: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder)
      return this.filled === 0 ? this.pushOldest(elements, n) : this.pushBehind(elements, n, 0);
    if (this.filled !== 0) return RESULT_SLOT;
    const { memory, heads, size, ring } = this;
    memory.fresh();
    const { u32 } = memory;
    const element = elements >>> 2;
    let slot = this.usedSlot | 0;
    let unwritten = Desc.usedUnder(this.usedWrap) << FLAGS_SHIFT; // flags of a used descriptor without data
    let exposing = 0; // id and flags of the first descriptor of the burst
    let bytesIn = 0;
    let i = 0;
    // Ends after `size` turns at the latest: an id that was pushed is not in flight any more.
    for (; i < n; i++) {
      const e = (element + (i << ELEMENT_SHIFT)) & WORD;
      const id = u32[e + ELEMENT_ID];
      const written = u32[e + ELEMENT_WRITTEN];
      if (id >= size) break;
      const h = (id & HEAD) << HEAD_SHIFT;
      const state = heads[h + STATE];
      if (written > heads[h + WRITABLE]) break;
      // In two steps, so that the processor goes on with the next slot before it knows a count.
      let count = 1;
      if (state >>> HELD_SHIFT !== ONE_SLOT) {
        count = state >>> SLOTS_SHIFT;
        if (count === 0 || (state & HELD) !== 0) break;
      }
      heads[h + STATE] = 0;
      const d = (ring + (slot << SHIFT)) & WORD;
      const word = id | (written === 0 ? unwritten : unwritten | (WRITE << FLAGS_SHIFT));
      u32[d + LEN] = written;
      if (i !== 0) u32[d + ID_AND_FLAGS] = word;
      else exposing = word;
      bytesIn += written;
      slot += count;
      if (slot >= size) {
        slot -= size;
        unwritten ^= AVAIL_USED << FLAGS_SHIFT;
      }
    }
    if (i !== 0) this.publishUsed(slot, exposing, i, bytesIn);
    return i;
  }

  fill(id: number, written: number, offset: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    if (!this.has(id)) return RESULT_NOT_IN_FLIGHT;
    const { size, heads } = this;
    const h = id << HEAD_SHIFT;
    if (!(written >= 0 && written <= heads[h + WRITABLE])) return RESULT_WRITTEN;
    if (this.inOrder) {
      heads[h + WRITTEN] = written;
    } else {
      if (!(offset >= 0 && offset < this.inFlight)) return RESULT_SLOT;
      const at = (this.firstFill + offset) % size;
      if (this.filledId[at] !== 0) return RESULT_SLOT;
      this.filledId[at] = id + 1;
      this.filledLength[at] = written;
    }
    heads[h + STATE] |= HELD;
    this.filled++;
    return 0;
  }

  flush(n: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder) {
      this.complete();
      return 0;
    }
    const { filledId, heads, size, ring } = this;
    if (!(n >= 0 && n <= this.filled)) return RESULT_SLOT;
    for (let i = 0; i < n; i++) if (filledId[(this.firstFill + i) % size] === 0) return RESULT_SLOT;
    if (n === 0) return 0;
    this.memory.fresh();
    const { u32 } = this.memory;
    let slot = this.usedSlot;
    let usedBits = Desc.usedUnder(this.usedWrap);
    let exposing = 0;
    let bytesIn = 0;
    for (let i = 0; i < n; i++) {
      const at = (this.firstFill + i) % size;
      const id = filledId[at] - 1;
      const written = this.filledLength[at];
      filledId[at] = 0;
      const d = (ring + (slot << SHIFT)) & WORD;
      const flags = written === 0 ? usedBits : usedBits | WRITE;
      u32[d + LEN] = written;
      const word = id | (flags << FLAGS_SHIFT);
      if (i !== 0) u32[d + ID_AND_FLAGS] = word;
      else exposing = word;
      bytesIn += written;
      const count = heads[(id << HEAD_SHIFT) + STATE] >>> SLOTS_SHIFT;
      heads[(id << HEAD_SHIFT) + STATE] = 0;
      slot += count;
      if (slot >= size) {
        slot -= size;
        usedBits ^= AVAIL_USED;
      }
    }
    this.firstFill = (this.firstFill + n) % size;
    this.filled -= n;
    this.publishUsed(slot, exposing, n, bytesIn);
    return 0;
  }

  /**
   * `pushBurst` where elements must be used in order, and none that is done waits: publishes those of the first
   * records as far as they are the oldest ones in the order of the pops, the usual case, without a note that
   * they are done.
   */
  private pushOldest(elements: number, n: number): number {
    const { memory, heads, size, ring, span } = this;
    if (span > size) return this.pushBehind(elements, n, 0);
    memory.fresh();
    const { u32 } = memory;
    const element = elements >>> 2;
    const most = Math.min(n, span) | 0;
    const oldest = this.pops < span ? this.pops - span + size : this.pops - span;
    const single = this.busy === span; // nobody has more than one slot
    // A whole length that needs no descriptor: of a saturated one nobody knows whether it is the whole.
    const below = (this.batches ? 0xffffffff : 0) >>> 0;
    let place = oldest | 0;
    let slot = this.usedSlot | 0;
    let unwritten = Desc.usedUnder(this.usedWrap) << FLAGS_SHIFT; // flags of a used descriptor without data
    let exposing = 0; // id and flags of the first descriptor
    let slots = 0; // of the elements that no descriptor written so far answers for
    let bytesIn = 0;
    let entered = 0; // elements that the descriptors written so far answer for
    let i = 0;
    for (; i < most; i++) {
      const e = (element + (i << ELEMENT_SHIFT)) & WORD;
      const id = u32[e + ELEMENT_ID];
      // Found there it is in flight: one that was detached has been taken out.
      if (id >= size || id !== heads[((place & HEAD) << HEAD_SHIFT) + POPPED]) break;
      const h = (id & HEAD) << HEAD_SHIFT;
      const written = u32[e + ELEMENT_WRITTEN];
      const writable = heads[h + WRITABLE];
      if (written > writable) break;
      slots += single ? 1 : heads[h + STATE] >>> SLOTS_SHIFT;
      if (written !== writable || written >= below) {
        const d = (ring + (slot << SHIFT)) & WORD;
        const word = id | (written === 0 ? unwritten : unwritten | (WRITE << FLAGS_SHIFT));
        u32[d + LEN] = written;
        if (entered !== 0) u32[d + ID_AND_FLAGS] = word;
        else exposing = word;
        entered = i + 1;
        slot += slots;
        slots = 0;
        if (slot >= size) {
          slot -= size;
          unwritten ^= AVAIL_USED << FLAGS_SHIFT;
        }
      } else if (!single) {
        heads[h + WRITTEN] = heads[h + STATE]; // for the loop below
      }
      heads[h + STATE] = 0;
      bytesIn += written;
      place++;
      if (place === size) place = 0;
    }
    if (i === n && entered !== i) {
      // The last one of a burst always has a descriptor.
      const d = (ring + (slot << SHIFT)) & WORD;
      const id = heads[((place === 0 ? size - 1 : place - 1) << HEAD_SHIFT) + POPPED];
      const written = heads[(id << HEAD_SHIFT) + WRITABLE];
      const word = id | (written === 0 ? unwritten : unwritten | (WRITE << FLAGS_SHIFT));
      u32[d + LEN] = written;
      if (entered !== 0) u32[d + ID_AND_FLAGS] = word;
      else exposing = word;
      entered = i;
      slot += slots;
      if (slot >= size) slot -= size;
    }
    // A descriptor still to come may answer for the others.
    for (let done = entered; done < i; done++) {
      const at = oldest + done < size ? oldest + done : oldest + done - size;
      const h = heads[(at << HEAD_SHIFT) + POPPED] << HEAD_SHIFT;
      const whole = heads[h + WRITABLE];
      heads[h + STATE] = (single ? (1 << SLOTS_SHIFT) | at : heads[h + WRITTEN]) | HELD;
      heads[h + WRITTEN] = whole;
      bytesIn -= whole;
    }
    this.filled = i - entered;
    this.span = span - entered;
    if (entered !== 0) this.publishUsed(slot, exposing, entered, bytesIn);
    return i === n ? n : this.pushBehind(elements, n, i);
  }

  /** `pushBurst` where elements must be used in order, from the record at `first` on, whatever they are. */
  private pushBehind(elements: number, n: number, first: number): number {
    const { memory, heads, size } = this;
    memory.fresh();
    const { u32 } = memory;
    const element = elements >>> 2;
    let i = first;
    for (; i < n; i++) {
      const e = (element + (i << ELEMENT_SHIFT)) & WORD;
      const id = u32[e + ELEMENT_ID];
      const written = u32[e + ELEMENT_WRITTEN];
      if (id >= size) break;
      const h = (id & HEAD) << HEAD_SHIFT;
      const state = heads[h + STATE];
      if (state === 0 || (state & HELD) !== 0 || written > heads[h + WRITABLE]) break;
      heads[h + WRITTEN] = written;
      heads[h + STATE] = state | HELD;
    }
    this.filled += i - first;
    if (i !== 0) this.complete();
    return i;
  }

  /**
   * In-order use (2.8.8): publishes the elements that are done, from the oldest one on, up to one that is not. A
   * used descriptor names the last element of a batch and lies where its first one would; those before it
   * count as used completely, so only such elements go without a descriptor of their own. Where one was
   * detached, none follows any more.
   */
  private complete(): void {
    const { memory, heads, size, ring, batches, span } = this;
    if (span > size) return;
    memory.fresh();
    const { u32 } = memory;
    let place = this.pops < span ? this.pops - span + size : this.pops - span;
    let slot = this.usedSlot;
    let usedBits = Desc.usedUnder(this.usedWrap);
    let exposing = 0;
    let slots = 0; // of the elements that no descriptor written so far answers for
    let bytesIn = 0;
    let entered = 0; // elements that the descriptors written so far answer for
    let n = 0;
    while (n < span && this.doneAt(place)) {
      const id = heads[(place << HEAD_SHIFT) + POPPED];
      const h = id << HEAD_SHIFT;
      const written = heads[h + WRITTEN];
      slots += heads[h + STATE] >>> SLOTS_SHIFT;
      heads[h + STATE] = 0;
      bytesIn += written;
      n++;
      place++;
      if (place === size) place = 0;
      // Of a saturated length nobody knows whether it is the whole.
      const whole = batches && written === heads[h + WRITABLE] && written !== 0xffffffff;
      if (whole && n < span && this.doneAt(place)) continue;
      const d = (ring + (slot << SHIFT)) & WORD;
      const flags = written === 0 ? usedBits : usedBits | WRITE;
      u32[d + LEN] = written;
      const word = id | (flags << FLAGS_SHIFT);
      if (entered !== 0) u32[d + ID_AND_FLAGS] = word;
      else exposing = word;
      entered = n;
      slot += slots;
      slots = 0;
      if (slot >= size) {
        slot -= size;
        usedBits ^= AVAIL_USED;
      }
    }
    if (n === 0) return;
    this.span = span - n;
    this.filled -= n;
    this.publishUsed(slot, exposing, n, bytesIn);
  }

  /** Whether the element popped at this place is done. One that was detached never is. */
  private doneAt(place: number): boolean {
    const { heads, size } = this;
    const id = heads[(place << HEAD_SHIFT) + POPPED];
    return id < size && (heads[(id << HEAD_SHIFT) + STATE] & (HELD | PLACE)) === (HELD | place);
  }

  /**
   * Exposes used descriptors of `n` elements, the slots up to `end`, which have been written but for id and flags
   * of the first one.
   */
  private publishUsed(end: number, exposing: number, n: number, bytesIn: number): void {
    const { size, ring, usedSlot } = this;
    let slots = end - usedSlot;
    if (slots <= 0) {
      slots += size;
      this.usedWrap ^= 1;
    }
    this.usedSlot = end;
    this.busy -= slots;
    this.inFlight -= n;
    this.unsignalled = Math.min(this.unsignalled + slots, EVENT_WINDOW_MAX);
    this.counts[COUNT_COMPLETED] += n;
    this.counts[COUNT_BYTES_IN] += bytesIn;
    const { u16, u32 } = this.memory;
    // The driver looks at no descriptor before the first one is used, and then sees all of them, and what was
    // written to the buffers.
    publishUpper(this.shared, u16, u32, ring + (usedSlot << SHIFT) + ID_AND_FLAGS, exposing);
  }

  // ---- Notifications, both ways (2.8.10) ----

  shouldInterrupt(): number {
    const { unsignalled } = this;
    if (unsignalled === 0) return 0;
    this.memory.fresh();
    this.unsignalled = 0;
    // The flags were published before, and this word is acquired after: either the driver's last look at its
    // next descriptor saw that it is used, or this look sees what the driver asked for.
    const event = acquireWord(this.shared, this.memory.u32, this.driverEvent);
    const position = positionOf(this.usedSlot, this.usedWrap);
    const wanted = wantsEvent(event, this.eventIdx, position, unsignalled, this.size);
    this.counts[wanted ? COUNT_NOTIFIED : COUNT_SUPPRESSED]++;
    return wanted ? 1 : 0;
  }

  enableNotifications(): number {
    this.memory.fresh();
    const { u16 } = this.memory;
    // The position first: the flags say that it is valid.
    if (this.eventIdx) publish(this.shared, u16, this.ownOffWrap, positionOf(this.availSlot, this.availWrap));
    if (this.events === RING_EVENT_FLAGS_DISABLE)
      this.tell(this.eventIdx ? RING_EVENT_FLAGS_DESC : RING_EVENT_FLAGS_ENABLE);
    // Looked at after the stores: what this look does not see yet causes a notification.
    const flags = acquire(this.shared, u16, ((this.ring + (this.availSlot << SHIFT)) << 1) + FLAGS);
    return (flags & AVAIL_USED) === Desc.availableUnder(this.availWrap) ? 0 : 1;
  }

  disableNotifications(): void {
    this.memory.fresh();
    this.tell(RING_EVENT_FLAGS_DISABLE);
  }

  private tell(events: number): void {
    if (events === this.events) return;
    this.events = events;
    publish(this.shared, this.memory.u16, this.ownFlags, events);
  }

  // ---- State ----

  save(): DeviceRingState {
    const { size, heads } = this;
    const elements: ElementState[] = [];
    const fills: DeviceRingState['fills'] = [];
    for (let id = 0; id < size; id++) {
      const h = id << HEAD_SHIFT;
      const state = heads[h + STATE];
      const held = (state & HELD) !== 0;
      if (state === 0 || (held && !this.inOrder)) continue;
      const place = state & PLACE;
      const remembered = heads[(place << HEAD_SHIFT) + POPPED] === id;
      elements.push({
        id,
        writable: heads[h + WRITABLE],
        slots: state >>> SLOTS_SHIFT,
        ago: remembered ? (this.pops + size - 1 - place) % size : -1,
        written: held ? heads[h + WRITTEN] : -1,
      });
    }
    // The sort is stable, so those that are forgotten stay in the order of their ids.
    const age = ({ ago }: ElementState) => (ago < 0 ? size : ago);
    elements.sort((a, b) => age(b) - age(a));
    for (let offset = 0; offset < size; offset++) {
      const at = (this.firstFill + offset) % size;
      if (this.filledId[at] === 0) continue;
      const id = this.filledId[at] - 1;
      const slots = heads[(id << HEAD_SHIFT) + STATE] >>> SLOTS_SHIFT;
      fills.push({ offset, id, written: this.filledLength[at], slots });
    }
    return {
      avail: positionOf(this.availSlot, this.availWrap),
      used: positionOf(this.usedSlot, this.usedWrap),
      events: this.events,
      unsignalled: this.unsignalled,
      elements,
      span: this.span,
      fills,
    };
  }

  load(state: DeviceRingState): void {
    const { size, heads } = this;
    const { elements, fills } = state;
    this.forget();
    // Every slot between the positions is busy, also those of detached elements.
    const busy =
      slotOf(state.avail) - slotOf(state.used) + (wrapOf(state.avail) === wrapOf(state.used) ? 0 : size);
    this.busy = busy;
    this.span = state.span;
    for (const { id, writable, slots, ago, written } of elements) {
      const h = id << HEAD_SHIFT;
      // A forgotten one gets any place: no pop is remembered there with its id.
      const place = ago < 0 ? 0 : size - 1 - ago;
      heads[h + STATE] = (slots << SLOTS_SHIFT) | (written < 0 ? 0 : HELD) | place;
      heads[h + WRITABLE] = writable;
      heads[h + WRITTEN] = Math.max(0, written);
      if (ago >= 0) heads[(place << HEAD_SHIFT) + POPPED] = id;
      if (written >= 0) this.filled++;
    }
    for (const { offset, id, written, slots } of fills) {
      heads[(id << HEAD_SHIFT) + STATE] = (slots << SLOTS_SHIFT) | HELD;
      this.filledId[offset] = id + 1;
      this.filledLength[offset] = written;
      this.filled++;
    }
    this.inFlight = elements.length + fills.length;
    this.availSlot = slotOf(state.avail);
    this.availWrap = wrapOf(state.avail);
    this.usedSlot = slotOf(state.used);
    this.usedWrap = wrapOf(state.used);
    this.events = state.events;
    this.unsignalled = state.unsignalled;
  }
}
