/**
 * A packed ring as it lies in memory, byte by byte (virtio 1.4, 2.8): nothing of vring in between. Tests look
 * at what an engine wrote, and play the other side of the queue, a hostile one if need be. The offsets
 * are written out here on purpose: a slip in the engines' own table of them must not go unnoticed.
 */

import type { RingAreas } from './split-ring.js';

export const NEXT = 1;
export const WRITE = 2;
export const INDIRECT = 4;
export const AVAIL = 0x80;
export const USED = 0x8000;

/** Values of the flags of an event suppression structure. */
export const ENABLE = 0;
export const DISABLE = 1;
export const DESC = 2;

/** Bit of a position, off_wrap or notification that holds the wrap counter. */
export const WRAP = 0x8000;

export interface PackedDescriptor {
  addr: bigint;
  len: number;
  id: number;
  flags: number;
}

/** A segment as a raw driver writes it: its flags are its own affair. */
export interface RawSegment {
  addr: number | bigint;
  len: number;
  write?: boolean;
  /** In place of NEXT and WRITE as they follow from the chain. */
  flags?: number;
}

/** `position` moved on by `n` slots: the wrap counter flips at the end of the ring. */
export function advance(position: number, n: number, size: number): number {
  const slot = (position & 0x7fff) + n;
  return slot < size ? (position & WRAP) | slot : ((position & WRAP) ^ WRAP) | (slot - size);
}

export class PackedRing {
  /** Where the raw driver makes the next descriptor available, and the raw device uses the next one. */
  available = WRAP;
  used = WRAP;

  /** @param memory whose buffer may be replaced when it grows */
  constructor(
    readonly memory: { readonly buffer: ArrayBuffer | SharedArrayBuffer },
    readonly areas: RingAreas,
    readonly size: number,
  ) {}

  get view(): DataView {
    return new DataView(this.memory.buffer);
  }

  /** Copy of `length` bytes of the memory. */
  bytes(address: number, length: number): Uint8Array {
    return new Uint8Array(this.memory.buffer).slice(address, address + length);
  }

  get descriptorBytes(): Uint8Array {
    return this.bytes(this.areas.descriptor, 16 * this.size);
  }

  get driverBytes(): Uint8Array {
    return this.bytes(this.areas.driver, 4);
  }

  get deviceBytes(): Uint8Array {
    return this.bytes(this.areas.device, 4);
  }

  // ---- Descriptors ----

  /** Slot `index` of the ring, or entry `index` of a table. */
  desc(index: number, table = this.areas.descriptor): PackedDescriptor {
    const at = table + 16 * index;
    const { view } = this;
    return {
      addr: view.getBigUint64(at, true),
      len: view.getUint32(at + 8, true),
      id: view.getUint16(at + 12, true),
      flags: view.getUint16(at + 14, true),
    };
  }

  setDesc(index: number, { addr, len, id, flags }: PackedDescriptor, table = this.areas.descriptor): void {
    const at = table + 16 * index;
    const { view } = this;
    view.setBigUint64(at, addr, true);
    view.setUint32(at + 8, len, true);
    view.setUint16(at + 12, id, true);
    view.setUint16(at + 14, flags, true);
  }

  /** All entries of the table that a descriptor refers to. */
  table({ addr, len }: PackedDescriptor): PackedDescriptor[] {
    return Array.from({ length: len / 16 }, (_, i) => this.desc(i, Number(addr)));
  }

  /** Whether the slot at `position` was made available and not yet used. */
  isAvailable(position: number): boolean {
    const { flags } = this.desc(position & 0x7fff);
    const wrap = (position & WRAP) !== 0;
    return ((flags & AVAIL) !== 0) === wrap && ((flags & USED) !== 0) !== wrap;
  }

  // ---- Event suppression ----

  get driverEvent(): { offWrap: number; flags: number } {
    return this.event(this.areas.driver);
  }

  set driverEvent(event: { offWrap?: number; flags?: number }) {
    this.setEvent(this.areas.driver, event);
  }

  get deviceEvent(): { offWrap: number; flags: number } {
    return this.event(this.areas.device);
  }

  set deviceEvent(event: { offWrap?: number; flags?: number }) {
    this.setEvent(this.areas.device, event);
  }

  private event(at: number) {
    return { offWrap: this.view.getUint16(at, true), flags: this.view.getUint16(at + 2, true) };
  }

  private setEvent(at: number, { offWrap, flags }: { offWrap?: number; flags?: number }): void {
    if (offWrap !== undefined) this.view.setUint16(at, offWrap, true);
    if (flags !== undefined) this.view.setUint16(at + 2, flags, true);
  }

  // ---- The other side, played by hand ----

  /** Writes a chain and makes it available, the flags of its head last, as a driver does. Returns its slot. */
  offer(segments: RawSegment[], id: number): number {
    const head = this.available;
    const slots = segments.map(({ addr, len, write, flags }, i) => {
      const position = this.available;
      const more = i < segments.length - 1 ? NEXT : 0;
      const own = flags ?? (write ? WRITE : 0) | more;
      this.available = advance(position, 1, this.size);
      const mark = position & WRAP ? AVAIL : USED;
      return { slot: position & 0x7fff, desc: { addr: BigInt(addr), len, id, flags: own | mark } };
    });
    for (const { slot, desc } of slots.reverse()) this.setDesc(slot, desc);
    return head & 0x7fff;
  }

  /** Uses the buffer `id` of `slots` slots, as a device does: a length above 0 means that it wrote. */
  use(id: number, len: number, slots = 1, flags = len > 0 ? WRITE : 0): void {
    const at = this.areas.descriptor + 16 * (this.used & 0x7fff);
    const mark = this.used & WRAP ? AVAIL | USED : 0;
    this.view.setUint32(at + 8, len, true);
    this.view.setUint16(at + 12, id, true);
    this.view.setUint16(at + 14, flags | mark, true);
    this.used = advance(this.used, slots, this.size);
  }
}
