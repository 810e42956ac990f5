import {
  AVAIL_F_NO_INTERRUPT,
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
  FAULT_TABLE_LENGTH,
  FAULT_TABLE_RANGE,
  PIECES_MAX,
  RESULT_BROKEN,
  RESULT_NO_ROOM,
  RESULT_NOT_IN_FLIGHT,
  RESULT_SLOT,
  RESULT_WRITTEN,
  USED_F_NO_NOTIFY,
} from '../../../../assembly/abi/layout.js';
import type { LinearMemory } from '../../../memory.js';
import type { DeviceRing, DeviceRingConfig, DeviceRingState, ElementState } from '../../engine.js';
import * as Avail from '../abi/avail.js';
import * as Desc from '../abi/desc.js';
import { EVENT_WINDOW_MAX, needEvent } from '../abi/event.js';
import * as Record from '../abi/records.js';
import * as Used from '../abi/used.js';
import * as Words from '../abi/words.js';
import { ChainReader } from '../chains.js';
import * as Translated from '../mm/translation.js';
import { acquire, publish } from '../order.js';

// An imported constant is looked up in its module each time, one of this module is compiled in. So what the
// loops below need has a name here.
const NEXT = DESC_F_NEXT;
const WRITE = DESC_F_WRITE;
const INDIRECT = DESC_F_INDIRECT;
const SIMPLE = NEXT | INDIRECT; // flags that the usual descriptor lacks
const ADDR_LOW = Desc.ADDR_LOW;
const ADDR_HIGH = Desc.ADDR_HIGH;
const LEN = Desc.LEN;
const FLAGS = Desc.FLAGS;
const NEXT_SHIFT = Desc.NEXT_SHIFT;
const SHIFT = Desc.SHIFT;
const BYTES_SHIFT = Desc.BYTES_SHIFT;
const TABLE_REST = DESC_BYTES - 1; // what a table's length has none of
const ELEM_ID = Used.ELEM_ID;
const ELEM_LEN = Used.ELEM_LEN;
const ELEM_SHIFT = Used.ELEM_SHIFT;
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
const HALF_WORD = Words.HALF_WORD;
const HEAD = Words.HEAD;

// What the device keeps per descriptor h, words h * 4 + … of `heads`. On the JavaScript heap, so a driver
// can make the device believe nothing about what is in flight.
const HEAD_SHIFT = 2;
/** Of the chain with head h: 0, or IN_FLIGHT or FILLED with the position (bits 0-15) where it was popped. */
const STATE = 0;
/** Of the chain with head h: device-writable bytes, saturated at 2^32-1. */
const WRITABLE = 1;
/** Head popped at the last position that is h modulo the queue size. */
const POPPED = 2;
/** In-order use, of the chain with head h if it is FILLED: bytes written. */
const WRITTEN = 3;

const POSITION = 0xffff;
const IN_FLIGHT = 0x10000;
/** Has a used entry that is not published yet, or in order: is done, and waits for those before it. */
const FILLED = 0x20000;
/** In POPPED: nothing that could be a head. */
const NOBODY = 0xffff;

/** Device side of a split virtqueue (virtio 1.4, 2.7). Works in place on the driver's memory. */
export class SplitDevice extends ChainReader implements DeviceRing {
  // Numbers start as small integers and objects never start as undefined: V8 then knows the kind of each
  // field and checks nothing on the hot path.
  inFlight = 0;

  private readonly size: number = 0;
  private readonly eventIdx: boolean = false;
  private readonly inOrder: boolean = false;
  private readonly batches: boolean = false;
  private readonly indirect: boolean = false;

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

  declare private readonly heads: Uint32Array;
  /** Per slot of the used ring: id plus 1 of the entry filled but not published, 0: none; and its length. */
  declare private readonly filledId: Uint16Array;
  declare private readonly filledLength: Uint32Array;
  private filled = 0;

  /** avail.idx up to which chains have been popped. */
  private position = 0;
  /** used.idx as published. */
  private used = 0;
  /** Buffers pushed since the last `shouldInterrupt`, saturated at EVENT_WINDOW_MAX. */
  private unsignalled = 0;
  private notifications = true;
  /** Place of the next piece, between `popBurst` and its parts. */
  private firstPiece = 0;

  constructor(memory: LinearMemory, config: DeviceRingConfig) {
    super(memory, config.regions, config.translation);
    const { size, areas } = config;
    this.size = size;
    this.eventIdx = config.eventIdx;
    this.inOrder = config.inOrder;
    this.batches = config.batches;
    this.indirect = config.indirect;
    this.descTable = areas.descriptor >>> 2;
    this.availFlags = Avail.availFlags(areas.driver);
    this.availIdx = Avail.availIdx(areas.driver);
    this.availRing = Avail.availRing(areas.driver);
    this.usedEvent = Avail.usedEvent(areas.driver, size);
    this.usedFlags = Used.usedFlags(areas.device);
    this.usedIdx = Used.usedIdx(areas.device);
    this.usedRing = Used.usedRing(areas.device);
    this.availEvent = Used.availEvent(areas.device, size);
    this.heads = new Uint32Array(size << HEAD_SHIFT);
    this.filledId = new Uint16Array(size);
    this.filledLength = new Uint32Array(size);
  }

  reset(): void {
    this.forget();
    this.inFlight = 0;
    this.position = 0;
    this.used = 0;
    this.unsignalled = 0;
    this.notifications = true;
    this.availableIn = 0;
    this.availableOut = 0;
  }

  /** No fault, nothing in flight. */
  private forget(): void {
    this.heads.fill(0);
    this.filledId.fill(0);
    this.filled = 0;
    this.mend();
  }

  // ---- Taking available buffers (2.7.6) ----

  popBurst(elements: number, pieces: number, pieceCapacity: number, max: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    const { memory, heads, size, descTable, availRing, shared, eager } = this;
    memory.fresh();
    const { u16, u32 } = memory;
    const mask = size - 1;
    const start = this.position;
    const element = elements >>> 2;
    const piece = pieces >>> 2;
    const capacity = Math.min(pieceCapacity, PIECES_MAX) | 0;
    let first = 0;
    let bytesOut = 0;
    let indirect = 0;
    let taken = 0;
    let usual = true; // what comes next may be a chain that lies in the window
    let result = 0;
    while (result === 0 && taken < max) {
      const idx = acquire(shared, u16, this.availIdx);
      const ready = (idx - start - taken) & 0xffff;
      if (ready === 0) break;
      if (ready > size) {
        if (taken === 0) return this.broke(FAULT_AVAIL_IDX, BigInt(idx), BigInt(start));
        break;
      }
      const end = Math.min(max, taken + ready) | 0;
      while (taken < end) {
        if (usual) {
          // Chains of one direct descriptor in the window, as many as come in a row and have room: without a
          // call, so that nothing is loaded anew. Any other is left alone.
          const { window } = this.translation;
          const windowHigh = window[WINDOW_HIGH];
          const windowLow = window[WINDOW_LOW];
          const windowLength = window[WINDOW_LENGTH];
          const windowLocal = window[WINDOW_LOCAL];
          const from = taken;
          const ahead = first - taken;
          const last = Math.min(end, capacity - ahead) | 0;
          for (; taken < last; taken++) {
            const position = (start + taken) & 0xffff;
            const head = u16[(availRing + (position & mask)) & HALF_WORD];
            if (head > mask) break;
            const h = (head & HEAD) << HEAD_SHIFT;
            if (heads[h + STATE] !== 0) break;
            const d = (descTable + (head << SHIFT)) & WORD;
            const flags = u32[d + FLAGS];
            const length = u32[d + LEN];
            const offset = (u32[d + ADDR_LOW] - windowLow) >>> 0;
            // A length of 0 becomes the largest number and fails, as it should: it is placed otherwise.
            if (
              (flags & SIMPLE) !== 0 ||
              u32[d + ADDR_HIGH] !== windowHigh ||
              offset >= windowLength ||
              (length - 1) >>> 0 >= (windowLength - offset) >>> 0
            )
              break;
            const p = (piece + ((ahead + taken) << PIECE_SHIFT)) & WORD;
            u32[p + PIECE_ADDRESS] = windowLocal + offset;
            u32[p + PIECE_LENGTH] = length;
            const e = (element + (taken << ELEMENT_SHIFT)) & WORD;
            u32[e + ELEMENT_ID] = head;
            u32[e + ELEMENT_FIRST] = ahead + taken;
            let counts = 0x10000; // no piece out, one in
            let writable = length;
            if ((flags & WRITE) === 0) {
              counts = 1;
              writable = 0;
              bytesOut += length;
            }
            u32[e + ELEMENT_COUNTS] = counts;
            u32[e + ELEMENT_WRITTEN] = 0;
            heads[h + STATE] = IN_FLIGHT | position;
            heads[h + WRITABLE] = writable;
            heads[((position & mask) << HEAD_SHIFT) + POPPED] = head;
          }
          if (eager) this.clearFor(taken - from);
          first = ahead + taken;
          if (taken === end) break;
          this.firstPiece = first;
          const now = this.popChains(taken, end, element, piece, capacity);
          first = this.firstPiece;
          if (now !== taken) {
            taken = now;
            continue;
          }
        }

        // Loads everything of that chain again and believes nothing of what was loaded before.
        const position = (start + taken) & 0xffff;
        const head = u16[availRing + (position & mask)];
        if (head >= size) {
          result = this.suspected(FAULT_HEAD_RANGE, BigInt(head), BigInt(size));
          break;
        }
        const h = head << HEAD_SHIFT;
        if (heads[h + STATE] !== 0) {
          result = this.suspected(FAULT_HEAD_IN_FLIGHT, BigInt(head), BigInt(this.inFlight + taken));
          break;
        }
        const room = capacity - first;
        this.beginTranslation();
        const placed = this.walk(head, piece + (first << PIECE_SHIFT), room);
        if (placed < 0 || placed > room) {
          result = placed < 0 ? placed : RESULT_NO_ROOM;
          break;
        }
        const e = element + (taken << ELEMENT_SHIFT);
        u32[e + ELEMENT_ID] = head;
        u32[e + ELEMENT_FIRST] = first;
        u32[e + ELEMENT_COUNTS] = this.chainOut | (this.chainIn << 16);
        u32[e + ELEMENT_WRITTEN] = 0;
        bytesOut += this.chainReadable;
        heads[h + STATE] = IN_FLIGHT | position;
        heads[h + WRITABLE] = Math.min(this.chainWritable, 0xffffffff);
        heads[((position & mask) << HEAD_SHIFT) + POPPED] = head;
        indirect += this.chainTables;
        usual = !this.chainStrayed;
        first += placed;
        taken++;
      }
      // Without EVENT_IDX the flag says enough: a driver that adds more will notify.
      if (!this.eventIdx || !this.notifications) break;
      // Published before avail.idx is acquired again: what comes after that look causes a notification.
      if (taken !== 0) publish(shared, u16, this.availEvent, (start + taken) & 0xffff);
    }
    if (taken === 0) return result === RESULT_BROKEN ? this.convict() : result;
    this.position = (start + taken) & 0xffff;
    this.inFlight += taken;
    this.counts[COUNT_ADDED] += taken;
    this.counts[COUNT_BYTES_OUT] += bytesOut;
    this.counts[COUNT_INDIRECT] += indirect;
    return taken;
  }

  /**
   * Pops chains that lie in the window and have room, direct ones and tables, as many as come in a row until there
   * are two of one descriptor. In a function of its own, so that its loop has all registers. Any other chain is left
   * alone, and nothing that was loaded of it is believed. Returns how many are taken then; `firstPiece` moves on.
   *
   * The inner loop ends: it visits at most `size` descriptors of a chain.
   */
  private popChains(from: number, end: number, element: number, piece: number, capacity: number): number {
    const { heads, size, descTable, availRing, indirect, position: start } = this;
    const { u16, u32 } = this.memory;
    const { window } = this.translation;
    const windowHigh = window[WINDOW_HIGH];
    const windowLow = window[WINDOW_LOW];
    const windowLength = window[WINDOW_LENGTH];
    const windowLocal = window[WINDOW_LOCAL];
    const mask = size - 1;
    const most = capacity | 0;
    let first = this.firstPiece | 0;
    let taken = from | 0;
    let bytesOut = 0;
    let tables = 0;
    let singles = 0;
    chains: for (; taken < end && singles < 2; taken++) {
      const position = (start + taken) & 0xffff;
      const head = u16[(availRing + (position & mask)) & HALF_WORD];
      if (head > mask) break;
      const h = (head & HEAD) << HEAD_SHIFT;
      if (heads[h + STATE] !== 0) break;
      let table = descTable;
      let d = (table + (head << SHIFT)) & WORD;
      let flagsNext = u32[d + FLAGS];
      let length = u32[d + LEN];
      let offset = (u32[d + ADDR_LOW] - windowLow) >>> 0;
      let entries = size;
      let inTable = 0;
      if (
        u32[d + ADDR_HIGH] !== windowHigh ||
        offset >= windowLength ||
        // A length of 0 becomes the largest number and fails, as it should: it is placed otherwise.
        (length - 1) >>> 0 >= (windowLength - offset) >>> 0
      )
        break;
      if ((flagsNext & INDIRECT) !== 0) {
        const local = windowLocal + offset;
        if (!indirect || (flagsNext & NEXT) !== 0 || (length & TABLE_REST) !== 0 || (local & 3) !== 0) break;
        inTable = 1;
        table = local >>> 2;
        entries = length >>> BYTES_SHIFT;
        d = table & WORD;
        flagsNext = u32[d + FLAGS];
        length = u32[d + LEN];
        offset = (u32[d + ADDR_LOW] - windowLow) >>> 0;
        if (
          u32[d + ADDR_HIGH] !== windowHigh ||
          offset >= windowLength ||
          (length - 1) >>> 0 >= (windowLength - offset) >>> 0
        )
          break;
      }
      let left = Math.min(entries, size) | 0;
      let p = first;
      let out = 0;
      let bytes = 0;
      let writable = 0;
      let writing = 0;
      for (;;) {
        const write = flagsNext & WRITE;
        if ((flagsNext & INDIRECT) !== 0 || write < writing || p === most) break chains;
        const w = (piece + (p << PIECE_SHIFT)) & WORD;
        u32[w + PIECE_ADDRESS] = windowLocal + offset;
        u32[w + PIECE_LENGTH] = length;
        p++;
        bytes += length;
        writing = write;
        if (write !== 0) writable += length;
        else out = p;
        if ((flagsNext & NEXT) === 0) break;
        const index = flagsNext >>> NEXT_SHIFT;
        if (index >= entries || --left === 0) break chains;
        d = (table + (index << SHIFT)) & WORD;
        flagsNext = u32[d + FLAGS];
        length = u32[d + LEN];
        offset = (u32[d + ADDR_LOW] - windowLow) >>> 0;
        if (
          u32[d + ADDR_HIGH] !== windowHigh ||
          offset >= windowLength ||
          (length - 1) >>> 0 >= (windowLength - offset) >>> 0
        )
          break chains;
      }
      if (bytes > CHAIN_BYTES_MAX) break;
      const outs = out === 0 ? 0 : out - first;
      const e = (element + (taken << ELEMENT_SHIFT)) & WORD;
      u32[e + ELEMENT_ID] = head;
      u32[e + ELEMENT_FIRST] = first;
      u32[e + ELEMENT_COUNTS] = outs | ((p - first - outs) << 16);
      u32[e + ELEMENT_WRITTEN] = 0;
      heads[h + STATE] = IN_FLIGHT | position;
      heads[h + WRITABLE] = Math.min(writable, 0xffffffff);
      heads[((position & mask) << HEAD_SHIFT) + POPPED] = head;
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
    }
    return taken;
  }

  /**
   * Follows the chain of `head` and writes its pieces, as far as `room` goes, from word `piece` on. Returns how
   * many pieces it has and leaves the sums in `chain…`; or RESULT_BROKEN with the reason noted.
   *
   * Every word of a descriptor is loaded once. The loop ends: each turn either takes one of the `left`
   * descriptors that the current table and the queue size allow, or enters a table, once.
   */
  private walk(head: number, piece: number, room: number): number {
    const { translation, size } = this;
    const { u32 } = this.memory;
    const { at, window } = translation;
    let windowHigh = window[WINDOW_HIGH];
    let windowLow = window[WINDOW_LOW];
    let windowLength = window[WINDOW_LENGTH];
    let windowLocal = window[WINDOW_LOCAL];
    // The | 0 changes nothing, but keeps these numbers untagged in registers.
    const first = piece | 0;
    const most = room | 0;
    let aligned = true;
    let table = this.descTable | 0; // word index; byte address of a table that is not aligned
    let entries = size | 0;
    let limit = entries;
    let left = entries;
    let before = 0; // descriptors visited before the table
    let index = head | 0;
    let inTable = false;
    let moved = false;
    let strayed = false;
    let bytes = 0;
    let writable = 0;
    let pieces = 0;
    let out = 0;
    let writing = 0; // flag WRITE of the descriptor before
    for (;;) {
      let words = u32;
      let d = (table + (index << SHIFT)) & WORD;
      if (!aligned) {
        words = this.gather(table + index * DESC_BYTES);
        d = 0;
      }
      const low = words[d + ADDR_LOW];
      const high = words[d + ADDR_HIGH];
      const length = words[d + LEN];
      const flagsNext = words[d + FLAGS]; // flags in the lower half, next in the upper

      const offset = (low - windowLow) >>> 0;
      const inWindow =
        high === windowHigh &&
        offset < windowLength &&
        // A length of 0 becomes the largest number and fails, as it should: it is placed otherwise.
        (length - 1) >>> 0 < (windowLength - offset) >>> 0;

      if ((flagsNext & INDIRECT) !== 0) {
        at[AT_LOW] = low;
        at[AT_HIGH] = high;
        at[AT_LENGTH] = length;
        if (
          !inWindow ||
          !this.indirect ||
          inTable ||
          (flagsNext & NEXT) !== 0 ||
          (length & TABLE_REST) !== 0
        ) {
          if (!this.tableSound(index, flagsNext & 0xffff, inTable)) return RESULT_BROKEN;
          table = at[AT_LOCAL];
          // The window moved to the table. The buffers are where they were, so the copies of it stay.
          moved = true;
        } else {
          table = (windowLocal + offset) >>> 0;
        }
        // Of the queue's own table as many were visited as it has: the driver changed it under our eyes.
        if (left === 0) return this.suspected(FAULT_CHAIN_LOOP, BigInt(head), BigInt(entries));
        aligned = (table & 3) === 0;
        if (aligned) table >>>= 2;
        entries = length >>> BYTES_SHIFT;
        before = limit - left;
        limit = Math.min(entries, left);
        left = limit;
        inTable = true;
        index = 0;
        continue;
      }

      if (left === 0) {
        // Over all tables `size` are allowed; a table that allows no more than that comes first.
        if (limit === entries) return this.suspected(FAULT_CHAIN_LOOP, BigInt(head), BigInt(entries));
        return this.suspected(FAULT_CHAIN_LONG, BigInt(head), BigInt(size));
      }
      left--;

      const write = flagsNext & WRITE;
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
      if (bytes > CHAIN_BYTES_MAX) return this.suspected(FAULT_CHAIN_BYTES, BigInt(head), BigInt(bytes));

      if ((flagsNext & NEXT) === 0) break;
      index = flagsNext >>> NEXT_SHIFT;
      if (index >= entries) return this.suspected(FAULT_NEXT_RANGE, BigInt(index), BigInt(entries));
    }
    this.chainOut = out;
    this.chainIn = pieces - out;
    this.chainTables = inTable ? 1 : 0;
    this.chainSegments = before + limit - left;
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
   * Checks a descriptor that refers to the table in the question of `translation`, and looks that up. False
   * if it is bad, with the reason noted.
   */
  private tableSound(index: number, flags: number, inTable: boolean): boolean {
    const { translation } = this;
    const { at } = translation;
    const length = at[AT_LENGTH];
    if (!this.indirect) this.suspected(FAULT_INDIRECT_REFUSED, BigInt(index), BigInt(flags));
    else if (inTable) this.suspected(FAULT_INDIRECT_NESTED, BigInt(index), BigInt(flags));
    else if ((flags & NEXT) !== 0) this.suspected(FAULT_INDIRECT_NEXT, BigInt(index), BigInt(flags));
    else if (length === 0 || (length & TABLE_REST) !== 0)
      this.suspected(FAULT_TABLE_LENGTH, BigInt(length), this.asked());
    else if (!translation.find() || at[AT_FIT] !== length)
      this.suspected(FAULT_TABLE_RANGE, this.asked(), BigInt(length));
    else return true;
    return false;
  }

  availableBytes(maxIn: number, maxOut: number): number {
    this.availableIn = 0;
    this.availableOut = 0;
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    this.memory.fresh();
    const { u16 } = this.memory;
    const { size, position, heads } = this;
    const idx = acquire(this.shared, u16, this.availIdx);
    const ready = (idx - position) & 0xffff;
    if (ready > size) return this.broke(FAULT_AVAIL_IDX, BigInt(idx), BigInt(position));
    let budget = AVAILABLE_BUDGET;
    this.beginTranslation();
    for (let i = 0; i < ready && (this.availableIn < maxIn || this.availableOut < maxOut); i++) {
      // Looked at between chains: one chain is bounded by the queue size anyway.
      if (budget <= 0) break;
      const head = u16[this.availRing + ((position + i) & (size - 1))];
      let found: number;
      if (head >= size) found = this.suspected(FAULT_HEAD_RANGE, BigInt(head), BigInt(size));
      else if (heads[(head << HEAD_SHIFT) + STATE] !== 0)
        found = this.suspected(FAULT_HEAD_IN_FLIGHT, BigInt(head), BigInt(this.inFlight));
      else found = this.walk(head, 0, 0);
      if (found < 0) {
        // A bad chain will never be popped: what it promised does not count.
        if (i === 0) return this.convict();
        return 0;
      }
      this.availableIn += this.chainWritable;
      this.availableOut += this.chainReadable;
      budget -= this.chainSegments;
    }
    return 0;
  }

  // ---- Putting chains back ----

  lastPopped(): number {
    const position = (this.position - 1) & 0xffff;
    return this.poppedAt(position);
  }

  rewind(n: number): number {
    // At most size elements are in flight, so no position looked at has been popped over.
    if (!(n >= 0 && n <= this.inFlight)) return 0;
    for (let i = 1; i <= n; i++) if (this.poppedAt((this.position - i) & 0xffff) < 0) return 0;
    for (let i = 1; i <= n; i++) {
      const head = this.poppedAt((this.position - i) & 0xffff);
      this.heads[(head << HEAD_SHIFT) + STATE] = 0;
    }
    this.position = (this.position - n) & 0xffff;
    this.inFlight -= n;
    return 1;
  }

  /** Head of the element popped at `position`, if it is still in flight, or RESULT_NOT_IN_FLIGHT. */
  private poppedAt(position: number): number {
    const head = this.heads[((position & (this.size - 1)) << HEAD_SHIFT) + POPPED];
    // The state names the position: the head may have come back and be in flight from a later one.
    return this.has(head) && (this.heads[(head << HEAD_SHIFT) + STATE] & POSITION) === position
      ? head
      : RESULT_NOT_IN_FLIGHT;
  }

  detach(id: number): number {
    if (!this.has(id)) return RESULT_NOT_IN_FLIGHT;
    const { heads } = this;
    const popped = ((heads[(id << HEAD_SHIFT) + STATE] & (this.size - 1)) << HEAD_SHIFT) + POPPED;
    if (heads[popped] === id) heads[popped] = NOBODY;
    heads[(id << HEAD_SHIFT) + STATE] = 0;
    this.inFlight--;
    return 0;
  }

  writable(id: number): number {
    return this.has(id) ? this.heads[(id << HEAD_SHIFT) + WRITABLE] : RESULT_NOT_IN_FLIGHT;
  }

  private has(id: number): boolean {
    return id >= 0 && id < this.size && (this.heads[(id << HEAD_SHIFT) + STATE] & IN_FLIGHT) !== 0;
  }

  // ---- Returning used buffers (2.7.8) ----

  pushBurst(elements: number, n: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder)
      return this.filled === 0 ? this.pushOldest(elements, n) : this.pushBehind(elements, n, 0);
    if (this.filled !== 0) return RESULT_SLOT;
    const { memory, heads, size, usedRing } = this;
    memory.fresh();
    const { u32 } = memory;
    const mask = size - 1;
    const { used } = this;
    const element = elements >>> 2;
    let bytesIn = 0;
    let i = 0;
    // Ends after `size` turns at the latest: an id that was pushed is not in flight any more.
    for (; i < n; i++) {
      const e = (element + (i << ELEMENT_SHIFT)) & WORD;
      const id = u32[e + ELEMENT_ID];
      const written = u32[e + ELEMENT_WRITTEN];
      if (id > mask) break;
      const h = (id & HEAD) << HEAD_SHIFT;
      if ((heads[h + STATE] & IN_FLIGHT) === 0 || written > heads[h + WRITABLE]) break;
      heads[h + STATE] = 0;
      const u = (usedRing + (((used + i) & mask) << ELEM_SHIFT)) & WORD;
      u32[u + ELEM_ID] = id;
      u32[u + ELEM_LEN] = written;
      bytesIn += written;
    }
    if (i !== 0) this.publishUsed(i, bytesIn);
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
      heads[h + STATE] ^= IN_FLIGHT | FILLED;
      this.filled++;
      return 0;
    }
    // Further ahead there may be entries that the driver has not taken yet: it has `size` buffers at most,
    // and those in flight are not among the ones it has yet to take.
    if (!(offset >= 0 && offset < this.inFlight)) return RESULT_SLOT;
    const slot = (this.used + offset) & (size - 1);
    if (this.filledId[slot] !== 0) return RESULT_SLOT;
    this.memory.fresh();
    const { u32 } = this.memory;
    const u = this.usedRing + (slot << ELEM_SHIFT);
    u32[u + ELEM_ID] = id;
    u32[u + ELEM_LEN] = written;
    heads[h + STATE] ^= IN_FLIGHT | FILLED;
    this.filledId[slot] = id + 1;
    this.filledLength[slot] = written;
    this.filled++;
    return 0;
  }

  flush(n: number): number {
    if (this.fault !== FAULT_NONE) return RESULT_BROKEN;
    if (this.inOrder) {
      this.complete();
      return 0;
    }
    if (!(n >= 0 && n <= this.filled)) return RESULT_SLOT;
    const { filledId, used } = this;
    const mask = this.size - 1;
    for (let i = 0; i < n; i++) if (filledId[(used + i) & mask] === 0) return RESULT_SLOT;
    if (n === 0) return 0;
    let bytesIn = 0;
    for (let i = 0; i < n; i++) {
      const slot = (used + i) & mask;
      this.heads[((filledId[slot] - 1) << HEAD_SHIFT) + STATE] = 0;
      bytesIn += this.filledLength[slot];
      filledId[slot] = 0;
    }
    this.filled -= n;
    this.memory.fresh();
    this.publishUsed(n, bytesIn);
    return 0;
  }

  /**
   * `pushBurst` where elements must be used in order, and none that is done waits: publishes those of the first
   * records as far as they are the oldest ones in the order of the pops, the usual case, without a note that
   * they are done.
   */
  private pushOldest(elements: number, n: number): number {
    const { memory, heads, size, usedRing, used } = this;
    const mask = size - 1;
    const left = (this.position - used) & POSITION;
    if (left > size) return this.pushBehind(elements, n, 0);
    memory.fresh();
    const { u32 } = memory;
    const element = elements >>> 2;
    const most = Math.min(n, left) | 0;
    // A whole length that needs no entry: of a saturated one nobody knows whether it is the whole.
    const below = (this.batches ? 0xffffffff : 0) >>> 0;
    let bytesIn = 0;
    let entered = 0; // elements that the entries written so far answer for
    let i = 0;
    for (; i < most; i++) {
      const e = (element + (i << ELEMENT_SHIFT)) & WORD;
      const id = u32[e + ELEMENT_ID];
      const place = (used + i) & mask & HEAD;
      // Found there it is in flight: one that was detached has been taken out.
      if (id > mask || id !== heads[(place << HEAD_SHIFT) + POPPED]) break;
      const h = (id & HEAD) << HEAD_SHIFT;
      const written = u32[e + ELEMENT_WRITTEN];
      const writable = heads[h + WRITABLE];
      if (written !== writable || written >= below) {
        if (written > writable) break;
        const u = (usedRing + (((used + entered) & mask) << ELEM_SHIFT)) & WORD;
        u32[u + ELEM_ID] = id;
        u32[u + ELEM_LEN] = written;
        entered = i + 1;
      }
      heads[h + STATE] = 0;
      bytesIn += written;
    }
    if (i === n && entered !== i) {
      // The last one of a burst always has an entry.
      const u = usedRing + (((used + entered) & mask) << ELEM_SHIFT);
      const id = heads[(((used + i - 1) & mask) << HEAD_SHIFT) + POPPED];
      u32[u + ELEM_ID] = id;
      u32[u + ELEM_LEN] = heads[(id << HEAD_SHIFT) + WRITABLE];
      entered = i;
    }
    // An entry still to come may answer for the others.
    for (let done = entered; done < i; done++) {
      const position = (used + done) & POSITION;
      const h = heads[((position & mask) << HEAD_SHIFT) + POPPED] << HEAD_SHIFT;
      const whole = heads[h + WRITABLE];
      heads[h + WRITTEN] = whole;
      heads[h + STATE] = FILLED | position;
      bytesIn -= whole;
    }
    this.filled = i - entered;
    if (entered !== 0) this.publishUsed(entered, bytesIn);
    return i === n ? n : this.pushBehind(elements, n, i);
  }

  /** `pushBurst` where elements must be used in order, from the record at `first` on, whatever they are. */
  private pushBehind(elements: number, n: number, first: number): number {
    const { memory, heads, size } = this;
    memory.fresh();
    const { u32 } = memory;
    const mask = size - 1;
    const element = elements >>> 2;
    let i = first;
    for (; i < n; i++) {
      const e = (element + (i << ELEMENT_SHIFT)) & WORD;
      const id = u32[e + ELEMENT_ID];
      const written = u32[e + ELEMENT_WRITTEN];
      if (id > mask) break;
      const h = (id & HEAD) << HEAD_SHIFT;
      if ((heads[h + STATE] & IN_FLIGHT) === 0 || written > heads[h + WRITABLE]) break;
      heads[h + WRITTEN] = written;
      heads[h + STATE] ^= IN_FLIGHT | FILLED;
    }
    this.filled += i - first;
    if (i !== 0) this.complete();
    return i;
  }

  /**
   * In-order use (2.7.9): publishes the elements that are done, from the oldest one on, up to one that is not. A
   * used entry names the last element of a batch and lies where the first one's would; those before it count
   * as used completely, so only such elements go without an entry of their own. Where one was detached, none
   * follows any more.
   */
  private complete(): void {
    this.memory.fresh();
    const { u32 } = this.memory;
    const { heads, size, usedRing, used, batches } = this;
    const mask = size - 1;
    let bytesIn = 0;
    let entered = 0; // elements that the entries written so far answer for
    let n = 0;
    let id = heads[((used & mask) << HEAD_SHIFT) + POPPED];
    let done = id <= mask && heads[((id & HEAD) << HEAD_SHIFT) + STATE] === (FILLED | used);
    while (done) {
      const h = (id & HEAD) << HEAD_SHIFT;
      const written = heads[h + WRITTEN];
      heads[h + STATE] = 0;
      bytesIn += written;
      n++;
      const position = (used + n) & POSITION;
      const next = heads[((position & mask) << HEAD_SHIFT) + POPPED];
      done = next <= mask && heads[((next & HEAD) << HEAD_SHIFT) + STATE] === (FILLED | position);
      // Of a saturated length nobody knows whether it is the whole.
      if (!done || !batches || written !== heads[h + WRITABLE] || written === 0xffffffff) {
        const u = (usedRing + (((used + entered) & mask) << ELEM_SHIFT)) & WORD;
        u32[u + ELEM_ID] = id;
        u32[u + ELEM_LEN] = written;
        entered = n;
      }
      id = next;
    }
    if (n === 0) return;
    this.filled -= n;
    this.publishUsed(n, bytesIn);
  }

  /** Exposes the next `n` used entries, which have been written. */
  private publishUsed(n: number, bytesIn: number): void {
    const used = (this.used + n) & 0xffff;
    this.used = used;
    this.inFlight -= n;
    const unsignalled = this.unsignalled + n;
    this.unsignalled = Math.min(unsignalled, EVENT_WINDOW_MAX);
    this.counts[COUNT_COMPLETED] += n;
    this.counts[COUNT_BYTES_IN] += bytesIn;
    // The driver sees the entries, and what was written to the buffers, before the index (2.7.8.2).
    publish(this.shared, this.memory.u16, this.usedIdx, used);
  }

  // ---- Notifications, both ways (2.7.7, 2.7.10) ----

  shouldInterrupt(): number {
    const { unsignalled } = this;
    if (unsignalled === 0) return 0;
    this.memory.fresh();
    const { u16 } = this.memory;
    this.unsignalled = 0;
    // used.idx was published before, and these words are acquired after: either the driver's last look at
    // used.idx saw the new entries, or this look sees what the driver asked for.
    const wanted = this.eventIdx
      ? needEvent(acquire(this.shared, u16, this.usedEvent), this.used, unsignalled)
      : (acquire(this.shared, u16, this.availFlags) & AVAIL_F_NO_INTERRUPT) === 0;
    this.counts[wanted ? COUNT_NOTIFIED : COUNT_SUPPRESSED]++;
    return wanted ? 1 : 0;
  }

  enableNotifications(): number {
    this.memory.fresh();
    const { u16 } = this.memory;
    this.notifications = true;
    if (this.eventIdx) publish(this.shared, u16, this.availEvent, this.position);
    else publish(this.shared, u16, this.usedFlags, 0);
    // Looked at after the store: what this look does not see yet causes a notification.
    return acquire(this.shared, u16, this.availIdx) === this.position ? 1 : 0;
  }

  disableNotifications(): void {
    this.memory.fresh();
    const { u16 } = this.memory;
    this.notifications = false;
    if (this.eventIdx) publish(this.shared, u16, this.availEvent, (this.position + EVENT_FAR) & 0xffff);
    else publish(this.shared, u16, this.usedFlags, USED_F_NO_NOTIFY);
  }

  // ---- State ----

  save(): DeviceRingState {
    const { size, heads } = this;
    const elements: ElementState[] = [];
    for (let id = 0; id < size; id++) {
      const h = id << HEAD_SHIFT;
      const state = heads[h + STATE];
      const held = (state & FILLED) !== 0;
      if (state === 0 || (held && !this.inOrder)) continue;
      const place = state & (size - 1);
      elements.push({
        id,
        writable: heads[h + WRITABLE],
        slots: 1,
        ago: heads[(place << HEAD_SHIFT) + POPPED] === id ? (this.position - 1 - place) & (size - 1) : -1,
        written: held ? heads[h + WRITTEN] : -1,
      });
    }
    // The sort is stable, so those that are forgotten stay in the order of their ids.
    const age = ({ ago }: ElementState) => (ago < 0 ? size : ago);
    elements.sort((a, b) => age(b) - age(a));
    const fills: DeviceRingState['fills'] = [];
    for (let offset = 0; offset < size; offset++) {
      const slot = (this.used + offset) & (size - 1);
      if (this.filledId[slot] === 0) continue;
      fills.push({ offset, id: this.filledId[slot] - 1, written: this.filledLength[slot], slots: 1 });
    }
    return {
      avail: this.position,
      used: this.used,
      events: this.notifications ? 1 : 0,
      unsignalled: this.unsignalled,
      elements,
      span: 0,
      fills,
    };
  }

  load(state: DeviceRingState): void {
    const { size, heads } = this;
    const { avail, used, elements, fills } = state;
    const mask = size - 1;
    this.forget();
    for (let place = 0; place < size; place++) heads[(place << HEAD_SHIFT) + POPPED] = NOBODY;
    for (const { id, writable, ago, written } of elements) {
      const h = id << HEAD_SHIFT;
      // A forgotten one gets any position: no pop is remembered there with its head.
      const position = (avail - 1 - Math.max(0, ago)) & POSITION;
      heads[h + STATE] = (written < 0 ? IN_FLIGHT : FILLED) | position;
      heads[h + WRITABLE] = writable;
      heads[h + WRITTEN] = Math.max(0, written);
      if (ago >= 0) heads[((position & mask) << HEAD_SHIFT) + POPPED] = id;
      if (written >= 0) this.filled++;
    }
    for (const { offset, id, written } of fills) {
      const slot = (used + offset) & mask;
      heads[(id << HEAD_SHIFT) + STATE] = FILLED;
      this.filledId[slot] = id + 1;
      this.filledLength[slot] = written;
      this.filled++;
    }
    this.inFlight = elements.length + fills.length;
    this.position = avail;
    this.used = used;
    this.notifications = state.events !== 0;
    this.unsignalled = state.unsignalled;
  }
}
