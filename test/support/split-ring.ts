/**
 * A split ring as it lies in memory, byte by byte (virtio 1.4, 2.7): nothing of vring in between. Tests look
 * at what an engine wrote, and play the other side of the queue, a hostile one if need be. The offsets
 * are written out here on purpose: a slip in the engines' own table of them must not go unnoticed.
 */

export const NEXT = 1;
export const WRITE = 2;
export const INDIRECT = 4;

export interface Descriptor {
  addr: bigint;
  len: number;
  flags: number;
  next: number;
}

export interface RingAreas {
  descriptor: number;
  driver: number;
  device: number;
}

export class SplitRing {
  /** Heads that the raw driver made available, and used entries that the raw device wrote, so far. */
  available = 0;
  used = 0;

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
    return this.bytes(this.areas.driver, 6 + 2 * this.size);
  }

  get deviceBytes(): Uint8Array {
    return this.bytes(this.areas.device, 6 + 8 * this.size);
  }

  // ---- Descriptors ----

  /** Entry `index` of a table, of the queue's own if `table` is absent. */
  desc(index: number, table = this.areas.descriptor): Descriptor {
    const at = table + 16 * index;
    const { view } = this;
    return {
      addr: view.getBigUint64(at, true),
      len: view.getUint32(at + 8, true),
      flags: view.getUint16(at + 12, true),
      next: view.getUint16(at + 14, true),
    };
  }

  setDesc(index: number, { addr, len, flags, next }: Descriptor, table = this.areas.descriptor): void {
    const at = table + 16 * index;
    const { view } = this;
    view.setBigUint64(at, addr, true);
    view.setUint32(at + 8, len, true);
    view.setUint16(at + 12, flags, true);
    view.setUint16(at + 14, next, true);
  }

  /** Indices of the descriptors of the chain that starts at `head`, following NEXT. Throws on a loop. */
  chain(head: number, table = this.areas.descriptor, limit = this.size): number[] {
    const indices = [head];
    for (let d = this.desc(head, table); d.flags & NEXT; d = this.desc(d.next, table)) {
      if (indices.includes(d.next) || d.next >= limit) throw new Error(`bad next ${d.next} after ${indices}`);
      indices.push(d.next);
    }
    return indices;
  }

  /** The elements of a buffer: its chain with indirect tables resolved. */
  elements(head: number): Descriptor[] {
    return this.chain(head).flatMap((index) => {
      const d = this.desc(index);
      if (!(d.flags & INDIRECT)) return [d];
      const table = Number(d.addr);
      return this.chain(0, table, d.len / 16).map((i) => this.desc(i, table));
    });
  }

  // ---- Available ring ----

  get availFlags(): number {
    return this.view.getUint16(this.areas.driver, true);
  }

  set availFlags(value: number) {
    this.view.setUint16(this.areas.driver, value, true);
  }

  get availIdx(): number {
    return this.view.getUint16(this.areas.driver + 2, true);
  }

  set availIdx(value: number) {
    this.view.setUint16(this.areas.driver + 2, value, true);
  }

  availRing(slot: number): number {
    return this.view.getUint16(this.areas.driver + 4 + 2 * (slot % this.size), true);
  }

  get usedEvent(): number {
    return this.view.getUint16(this.areas.driver + 4 + 2 * this.size, true);
  }

  set usedEvent(value: number) {
    this.view.setUint16(this.areas.driver + 4 + 2 * this.size, value, true);
  }

  // ---- Used ring ----

  get usedFlags(): number {
    return this.view.getUint16(this.areas.device, true);
  }

  set usedFlags(value: number) {
    this.view.setUint16(this.areas.device, value, true);
  }

  get usedIdx(): number {
    return this.view.getUint16(this.areas.device + 2, true);
  }

  set usedIdx(value: number) {
    this.view.setUint16(this.areas.device + 2, value, true);
  }

  usedRing(slot: number): { id: number; len: number } {
    const at = this.areas.device + 4 + 8 * (slot % this.size);
    return { id: this.view.getUint32(at, true), len: this.view.getUint32(at + 4, true) };
  }

  get availEvent(): number {
    return this.view.getUint16(this.areas.device + 4 + 8 * this.size, true);
  }

  set availEvent(value: number) {
    this.view.setUint16(this.areas.device + 4 + 8 * this.size, value, true);
  }

  // ---- The other side, played by hand ----

  /** Makes the chain at `head` available, as a driver does. */
  makeAvailable(head: number): void {
    this.view.setUint16(this.areas.driver + 4 + 2 * (this.available++ % this.size), head, true);
    this.availIdx = this.available & 0xffff;
  }

  /** Writes a chain of direct descriptors from `first` on and makes it available. */
  offer(segments: { addr: number | bigint; len: number; write?: boolean }[], first = 0): void {
    segments.forEach(({ addr, len, write }, i) => {
      const more = i < segments.length - 1;
      this.setDesc(first + i, {
        addr: BigInt(addr),
        len,
        flags: (write ? WRITE : 0) | (more ? NEXT : 0),
        next: more ? first + i + 1 : 0,
      });
    });
    this.makeAvailable(first);
  }

  /** Uses the buffer at `head`, as a device does. */
  use(head: number, len: number): void {
    const at = this.areas.device + 4 + 8 * (this.used++ % this.size);
    this.view.setUint32(at, head, true);
    this.view.setUint32(at + 4, len, true);
    this.usedIdx = this.used & 0xffff;
  }
}
