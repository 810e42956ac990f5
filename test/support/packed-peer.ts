import {
  AVAIL,
  advance,
  INDIRECT,
  NEXT,
  type PackedDescriptor,
  PackedRing,
  type RawSegment,
  USED,
  WRAP,
  WRITE,
} from './packed-ring.js';

/** A list of descriptors that the raw device took. */
export interface Taken {
  id: number;
  slots: number[];
  /** What the slots hold. */
  list: PackedDescriptor[];
  /** The elements of the buffer: the list, or the table that it refers to. */
  elements: PackedDescriptor[];
}

/** A packed ring whose other side, played by hand, also reads what it finds: as a device, or as a driver. */
export class PackedPeer extends PackedRing {
  /** Where the raw device expects the next available descriptor, and the raw driver the next used one. */
  taken = WRAP;
  collected = WRAP;

  /** The position `n` slots, at most one lap, behind this one. */
  after(position: number, n: number): number {
    return advance(position, n, this.size);
  }

  /** Slots whose bytes differ from what `descriptorBytes` was before. */
  changedSince(before: Uint8Array): number[] {
    const now = this.descriptorBytes;
    return Array.from({ length: this.size }, (_, slot) => slot).filter((slot) =>
      now.subarray(16 * slot, 16 * slot + 16).some((byte, i) => byte !== before[16 * slot + i]),
    );
  }

  /** As the device: takes the next list that is available. Throws if it is not whole. */
  take(): Taken | undefined {
    const list: PackedDescriptor[] = [];
    const slots: number[] = [];
    let position = this.taken;
    for (;;) {
      const slot = position & 0x7fff;
      if (!this.isAvailable(position)) {
        if (list.length === 0) return undefined;
        throw new Error(`slot ${slot} is not available, but the list goes on there`);
      }
      const desc = this.desc(slot);
      list.push(desc);
      slots.push(slot);
      position = this.after(position, 1);
      if (!(desc.flags & NEXT)) break;
      if (list.length === this.size) throw new Error(`the list at slot ${slots[0]} does not end`);
    }
    this.taken = position;
    const elements = list.flatMap((desc) => (desc.flags & INDIRECT ? this.table(desc) : [desc]));
    return { id: list[list.length - 1].id, slots, list, elements };
  }

  /** As the driver: makes a list available. Its id stands in its last descriptor, nonsense in the others. */
  offerList(segments: RawSegment[], id: number): number[] {
    let position = this.available;
    this.offer(segments, id);
    return segments.map((_, i) => {
      const slot = position & 0x7fff;
      if (i < segments.length - 1) this.setDesc(slot, { ...this.desc(slot), id: 0xffff });
      position = this.after(position, 1);
      return slot;
    });
  }

  /** As the driver: makes a buffer available through a table. Returns its slot. */
  offerTable(segments: RawSegment[], id: number, table: number, flags = 0): number {
    segments.forEach(({ addr, len, write, flags = 0 }, i) => {
      this.setDesc(i, { addr: BigInt(addr), len, id: 0xffff, flags: flags | (write ? WRITE : 0) }, table);
    });
    return this.offer([{ addr: table, len: 16 * segments.length, flags: INDIRECT | flags }], id);
  }

  /** As the driver: the used descriptor that is next, if it is there. `collect` moves past its slots. */
  peek(): PackedDescriptor | undefined {
    const desc = this.desc(this.collected & 0x7fff);
    const used = this.collected & WRAP ? AVAIL | USED : 0;
    return (desc.flags & (AVAIL | USED)) === used ? desc : undefined;
  }

  collect(slots: number): void {
    this.collected = this.after(this.collected, slots);
  }
}
