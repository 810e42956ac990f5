// Private records that both ring formats share. The host reads them to save a queue and writes them to
// restore one; no peer can reach them.

import {
  BUFFER_BYTES,
  BUFFER_PLACE,
  BUFFER_SEGMENTS,
  BUFFER_TABLE,
  BUFFER_TOKEN,
  BUFFER_WRITABLE,
  FILL_BYTES,
  FILL_ID,
  FILL_SLOTS,
  FILL_WRITTEN,
  HEAD_BYTES,
  HEAD_F_DONE,
  HEAD_F_IN_FLIGHT,
  HEAD_FLAGS,
  HEAD_SLOTS,
  HEAD_WRITABLE,
  HEAD_WRITTEN,
} from './layout';

/**
 * What a driver remembers of a buffer in flight, by head descriptor (split) or id (packed). The device can
 * overwrite descriptors and tables, so nothing of it is ever read back from them.
 */
@unmanaged
export class Buffer {
  token: u32;
  /** Device-writable bytes, saturated at 2^32 - 1: the bound of what a used length may claim. */
  writable: u32;
  /** Address of the indirect table, or 0 for a direct chain. */
  table: u32;
  /** Segments; 0 means that no buffer in flight has this head or id. */
  segments: u16;
  /**
   * Split: last descriptor of the chain, so that it is freed in one step; in in-order use, where the list of free
   * ones never changes, the avail position. Packed: ring slot of the head.
   */
  place: u16;

  /** All fields in two stores. */
  @inline
  set(token: u32, writable: u32, table: u32, segments: u32, place: u32): void {
    const self = changetype<usize>(this);
    store<u64>(self, <u64>token | ((<u64>writable) << 32), BUFFER_TOKEN);
    store<u64>(self, <u64>table | ((<u64>(segments | (place << 16))) << 32), BUFFER_TABLE);
  }

  /** token and writable in one load. */
  @inline
  get tokenWritable(): u64 {
    return load<u64>(changetype<usize>(this), BUFFER_TOKEN);
  }

  /** table, segments and place in one load. */
  @inline
  get chain(): u64 {
    return load<u64>(changetype<usize>(this), BUFFER_TABLE);
  }

  /** Descriptors (split) or ring slots (packed) that it takes. */
  @inline
  get slots(): u32 {
    return this.table != 0 ? 1 : this.segments;
  }
}

// @ts-ignore: decorator
@inline
export function chainTable(chain: u64): u32 {
  return <u32>chain;
}

// @ts-ignore: decorator
@inline
export function chainSegments(chain: u64): u32 {
  return <u32>(chain >> 32) & 0xffff;
}

// @ts-ignore: decorator
@inline
export function chainPlace(chain: u64): u32 {
  return <u32>(chain >> 48);
}

// @ts-ignore: decorator
@inline
export function bufferAt(buffers: usize, index: u32): Buffer {
  return changetype<Buffer>(buffers + <usize>index * BUFFER_BYTES);
}

/** What a device remembers of an element, by head descriptor (split) or id (packed). */
@unmanaged
export class Head {
  /** Device-writable bytes, saturated at 2^32 - 1. */
  writable: u32;
  /** Bytes written, once it is done (in-order use). */
  written: u32;
  /** Ring slots that it takes: 1 in a split ring. */
  slots: u16;
  /** HEAD_F_*; 0 while it is not in flight. */
  flags: u8;
  /** Keeps the records aligned. */
  reserved: u8;

  /** In flight from now on. */
  @inline
  set(writable: u32, slots: u32): void {
    this.writable = writable;
    // slots and flags in one store.
    store<u32>(changetype<usize>(this), slots | (HEAD_F_IN_FLIGHT << 16), HEAD_SLOTS);
  }

  @inline
  get inFlight(): bool {
    return this.flags != 0;
  }

  /** In flight and not done: it may be pushed, detached or put back. */
  @inline
  get open(): bool {
    return this.flags == HEAD_F_IN_FLIGHT;
  }

  @inline
  get done(): bool {
    return (this.flags & HEAD_F_DONE) != 0;
  }

  /** Pushed, and held until those before it are pushed (in-order use). */
  @inline
  finish(written: u32): void {
    this.written = written;
    this.flags = <u8>(HEAD_F_IN_FLIGHT | HEAD_F_DONE);
  }

  @inline
  leave(): void {
    this.flags = 0;
  }

  /** Undoes `leave` of an element that was open. */
  @inline
  enter(): void {
    this.flags = <u8>HEAD_F_IN_FLIGHT;
  }
}

// @ts-ignore: decorator
@inline
export function headAt(heads: usize, index: u32): Head {
  return changetype<Head>(heads + <usize>index * HEAD_BYTES);
}

/**
 * In-order use: an element needs no used entry of its own if another element follows that has one, because left out
 * it counts as completely written (2.7.9, 2.8.8).
 */
// @ts-ignore: decorator
@inline
export function mayBeLeftOut(below: u32, written: u32, writable: u32): bool {
  return written == writable && written < below;
}

/** For mayBeLeftOut. A bound that is saturated does not say how much completely written is. */
// @ts-ignore: decorator
@inline
export function leftOutBelow(batches: bool): u32 {
  return batches ? 0xffff_ffff : 0;
}

/** A used entry that was filled and not flushed. */
@unmanaged
export class Fill {
  written: u32;
  id: u32;
  /** Ring slots of its element; 0 = not filled. */
  slots: u16;
  /** Keeps the records aligned. */
  reserved: u16;

  @inline
  set(id: u32, written: u32, slots: u32): void {
    this.id = id;
    this.written = written;
    this.slots = <u16>slots;
  }

  @inline
  get filled(): bool {
    return this.slots != 0;
  }

  @inline
  clear(): void {
    this.slots = 0;
  }
}

// @ts-ignore: decorator
@inline
export function fillAt(fills: usize, index: u32): Fill {
  return changetype<Fill>(fills + <usize>index * FILL_BYTES);
}

/** Arrays of 16-bit numbers: links of free lists, rings of ids. */
// @ts-ignore: decorator
@inline
export function wordAt(words: usize, index: u32): u32 {
  return load<u16>(words + ((<usize>index) << 1));
}

// @ts-ignore: decorator
@inline
export function wordAtSet(words: usize, index: u32, value: u32): void {
  store<u16>(words + ((<usize>index) << 1), <u16>value);
}

// The host reads and writes these records by the numbers of layout.ts; a moved field must not compile.
if (
  offsetof<Buffer>() != BUFFER_BYTES ||
  offsetof<Buffer>('token') != BUFFER_TOKEN ||
  offsetof<Buffer>('writable') != BUFFER_WRITABLE ||
  offsetof<Buffer>('table') != BUFFER_TABLE ||
  offsetof<Buffer>('segments') != BUFFER_SEGMENTS ||
  offsetof<Buffer>('place') != BUFFER_PLACE ||
  offsetof<Head>() != HEAD_BYTES ||
  offsetof<Head>('writable') != HEAD_WRITABLE ||
  offsetof<Head>('written') != HEAD_WRITTEN ||
  offsetof<Head>('slots') != HEAD_SLOTS ||
  offsetof<Head>('flags') != HEAD_FLAGS ||
  HEAD_FLAGS != HEAD_SLOTS + 2 ||
  offsetof<Fill>() != FILL_BYTES ||
  offsetof<Fill>('written') != FILL_WRITTEN ||
  offsetof<Fill>('id') != FILL_ID ||
  offsetof<Fill>('slots') != FILL_SLOTS
)
  ERROR('abi/state.ts and abi/layout.ts disagree');
