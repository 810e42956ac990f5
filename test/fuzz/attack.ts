import * as L from '../../assembly/abi/layout.js';
import type { Config } from './config.js';
import type { Layout } from './layout.js';
import type { Random } from './prng.js';
import type { Segment } from './world.js';

/** Writes the low `bytes` bytes of a value. */
export type Write = (at: number, bytes: number, value: bigint) => void;

/** What the peer can see of the queues without asking them. */
export interface Sight {
  /** Where the driver makes its next buffer available, as in a notification (2.9). */
  position: number;
  /** Free descriptors of the driver. */
  numFree: number;
  /** Elements that the device holds. */
  held: readonly { id: number }[];
}

const LENGTHS = [0, 1, 15, 16, 17, 24, 32, 48, 64, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 16, 2 ** 32 - 1];
const WORDS = [0, 1, 2, 3, 4, 5, 6, 7, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff, 0x8080, 0x80];
const FLAG_BITS = [1, 2, 4, 8, 0x80, 0x8000, 0x8080];

/** A field of the ring: where it is and what it means. */
type Field = [at: number, bytes: number, what: 'address' | 'length' | 'flags' | 'index' | 'id32'];

/** The side of the ring that does not play by the rules: chooses which bytes to write. */
export class Attack {
  size: number;
  /** Where a driver that is the peer alone offers its next chain: slot and wrap counter. */
  private slot = 0;
  private wrap = true;
  private readonly view: DataView;

  constructor(
    private readonly config: Config,
    private readonly layout: Layout,
    bytes: Uint8Array,
    private readonly random: Random,
    private readonly write: Write,
    private readonly sight: () => Sight,
  ) {
    this.size = config.size;
    this.view = new DataView(bytes.buffer);
  }

  reset(): void {
    this.slot = 0;
    this.wrap = true;
  }

  private u16(at: number): number {
    return this.view.getUint16(at, true);
  }

  // ---- Values ----

  /** True as often as the scenario is hostile. */
  private wild(): boolean {
    return this.random.below(100) < this.config.hostility;
  }

  private address(): bigint {
    const { random, layout } = this;
    const inside = layout.guest + BigInt(random.below(layout.span));
    const { start, end } = random.pick(layout.owned);
    switch (random.below(8)) {
      case 0:
        return layout.guest + BigInt(layout.span) - BigInt(random.below(20));
      case 1:
        return BigInt(layout.tables.address + random.below(layout.tables.length + 17));
      case 2:
        return BigInt(start + random.below(end - start + 1));
      case 3:
        return BigInt(end + random.below(10) - 5);
      case 4:
        return BigInt.asUintN(64, inside + (1n << BigInt(32 + random.below(32))));
      case 5:
        return BigInt.asUintN(64, -BigInt(random.below(40)));
      case 6:
        return BigInt(random.u32());
      default:
        return inside;
    }
  }

  private length(): number {
    const { random } = this;
    return random.once(3) ? random.pick(LENGTHS) : random.below(random.once(8) ? 2 ** 32 : 48);
  }

  /** A part of a buffer: mostly one that is in order. */
  segment(): Segment {
    const { random, layout } = this;
    if (this.wild() && random.once(3)) return { address: this.address(), length: this.length() };
    const { start, end } = random.pick(layout.stretches);
    const at = start + random.below(end - start);
    const room = Math.min(end - at, random.once(10) ? 128 : 24);
    return { address: layout.guest + BigInt(at), length: random.once(20) ? 0 : 1 + random.below(room) };
  }

  /** How many descriptors a chain has. */
  chainLength(): number {
    const { random, size } = this;
    if (random.once(40)) return 1 + random.below(Math.min(size + 2, 40));
    return 1 + random.below(Math.min(size, random.once(3) ? 5 : 2));
  }

  /** An id or a head that is not with the device, most of the time. */
  private freeId(): number {
    const { random, size } = this;
    if (this.wild() && random.once(4)) return random.once(2) ? size : random.below(65536);
    const { held } = this.sight();
    for (let tries = 0; tries < 4; tries++) {
      const id = random.below(size);
      if (this.wild() || !held.some((element) => element.id === id)) return id;
    }
    return random.below(size);
  }

  // ---- One field ----

  /** Slot `n` descriptors behind the position of the driver. */
  private slotBehind(n: number): { slot: number; wrap: boolean } {
    const { position } = this.sight();
    const slot = (position & 0x7fff) - (n % this.size);
    const wrap = (position & 0x8000) !== 0;
    return slot < 0 ? { slot: slot + this.size, wrap: !wrap } : { slot, wrap };
  }

  /** A descriptor that somebody is about to look at, most of the time. */
  private hot(): number {
    const { random, size, config, layout } = this;
    if (random.once(4)) return random.below(size);
    if (config.ring === 'packed') {
      if (config.raw && config.victim === 'device')
        return (this.slot + size - 1 - (random.below(3) % size)) % size;
      const inFlight = size - this.sight().numFree;
      return this.slotBehind(random.once(3) ? random.below(4) : Math.max(0, inFlight - random.below(4))).slot;
    }
    const idx = this.u16(layout.areas.driver + L.AVAIL_IDX) - 1 - random.below(3);
    return this.u16(layout.areas.driver + L.AVAIL_RING + 2 * (idx & (size - 1))) % size;
  }

  private descriptorField(at: number, packed: boolean): Field {
    switch (this.random.below(4)) {
      case 0:
        return [at, 8, 'address'];
      case 1:
        return [at + L.DESC_LEN, 4, 'length'];
      case 2:
        return [at + 12, 2, packed ? 'index' : 'flags'];
      default:
        return [at + 14, 2, packed ? 'flags' : 'index'];
    }
  }

  private field(): Field {
    const { random, size, config, layout } = this;
    const { descriptor, driver, device } = layout.areas;
    const packed = config.ring === 'packed';
    const r = random.below(10);
    if (r < 2 && config.granules > 0) {
      const granule = random.below(random.once(2) ? Math.min(4, config.granules) : config.granules);
      return this.descriptorField(layout.tables.address + 16 * granule, packed);
    }
    if (packed) {
      if (r < 8) return this.descriptorField(descriptor + 16 * this.hot(), true);
      const event = random.once(2) ? driver : device;
      return [event + 2 * random.below(2), 2, random.once(2) ? 'flags' : 'index'];
    }
    if (r < 5) return this.descriptorField(descriptor + 16 * this.hot(), false);
    const near = (idx: number) => (this.u16(idx) + random.below(4) - 2) & (size - 1);
    switch (random.below(9)) {
      case 0:
        return [driver + L.AVAIL_FLAGS, 2, 'flags'];
      case 1:
        return [driver + L.AVAIL_IDX, 2, 'index'];
      case 2:
        return [driver + L.AVAIL_RING + 2 * near(driver + L.AVAIL_IDX), 2, 'index'];
      case 3:
        return [driver + L.AVAIL_RING + 2 * size, 2, 'index'];
      case 4:
        return [device + L.USED_FLAGS, 2, 'flags'];
      case 5:
        return [device + L.USED_IDX, 2, 'index'];
      case 6:
        return [device + L.USED_RING + 8 * near(device + L.USED_IDX), 4, 'id32'];
      case 7:
        return [device + L.USED_RING + 8 * near(device + L.USED_IDX) + 4, 4, 'length'];
      default:
        return [device + L.USED_RING + 8 * size, 2, 'index'];
    }
  }

  private value([at, bytes, what]: Field): bigint {
    const { random, size, view } = this;
    const old =
      bytes === 8
        ? view.getBigUint64(at, true)
        : BigInt(bytes === 4 ? view.getUint32(at, true) : this.u16(at));
    switch (random.below(6)) {
      case 0:
        return old ^ (1n << BigInt(random.below(8 * bytes)));
      case 1:
        return old + BigInt(random.below(5) - 2);
      case 2:
        return (BigInt(random.u32()) << 32n) | BigInt(random.u32());
    }
    switch (what) {
      case 'address':
        return this.address();
      case 'length':
        return BigInt(this.length());
      case 'flags':
        return random.once(3) ? BigInt(random.below(8)) : old ^ BigInt(random.pick(FLAG_BITS));
      case 'index':
        return BigInt(random.once(3) ? random.pick(WORDS) : random.below(size + 2));
      case 'id32':
        return BigInt(random.once(4) ? random.u32() : random.below(size + 1) + (random.once(8) ? 65536 : 0));
    }
  }

  /** Changes one field, rarely several. */
  mutate(): void {
    for (let n = this.random.once(6) ? 3 : 1; n > 0; n--) {
      const field = this.field();
      this.write(field[0], field[1], this.value(field));
    }
  }

  /** Puts one descriptor in the place of another. */
  copy(): void {
    const { random, layout, view } = this;
    const table = (at: number) => layout.areas.descriptor + 16 * at;
    const from = random.once(3) ? layout.tables.address : table(this.hot());
    const to = random.once(4)
      ? layout.tables.address
      : table(random.once(2) ? this.hot() : random.below(this.size));
    if (layout.tables.length === 0 && (from === layout.tables.address || to === layout.tables.address))
      return;
    this.write(to, 8, view.getBigUint64(from, true));
    this.write(to + 8, 8, view.getBigUint64(from + 8, true));
  }

  /** Any bytes, over a part or the whole of an area. */
  noise(): void {
    const { random, layout } = this;
    const { start, end } = layout.owned[random.below(4)];
    const length = end - start;
    if (length === 0) return;
    const from = start + (random.once(3) ? 0 : random.below(length));
    const to = random.once(3) ? end : Math.min(end, from + 1 + random.below(40));
    for (let at = from; at < Math.min(to, from + 2048); at += 4)
      this.write(at, Math.min(4, to - at), BigInt(random.once(3) ? random.below(4) : random.u32()));
  }

  // ---- Whole chains and used entries ----

  private descriptor(at: number, { address, length }: Segment, w12: number, w14: number): void {
    this.write(at, 8, address);
    this.write(at + 8, 4, BigInt(length));
    this.write(at + 12, 2, BigInt(w12));
    this.write(at + 14, 2, BigInt(w14));
  }

  /** Fills a table with a chain that is in order; returns the segment that refers to it. */
  private table(): Segment {
    const { random, layout, config } = this;
    const granules = config.granules;
    const first = random.below(granules);
    const entries = 1 + random.below(Math.min(granules - first, 4));
    const outs = random.below(entries + 1);
    const packed = config.ring === 'packed';
    for (let i = 0; i < entries; i++) {
      const write = i >= outs ? L.DESC_F_WRITE : 0;
      const next = i < entries - 1 ? i + 1 : 0;
      const flags = packed ? write : write | (next === 0 ? 0 : L.DESC_F_NEXT);
      const at = layout.tables.address + 16 * (first + i);
      this.descriptor(at, this.segment(), packed ? 0 : flags, packed ? flags : next);
    }
    const length = this.wild() && random.once(4) ? this.length() : 16 * entries;
    const address = BigInt(layout.tables.address + 16 * first + (random.once(30) ? random.below(16) : 0));
    return { address, length };
  }

  /** Offers a chain to the device, mostly a good one. */
  forgeAvail(): void {
    const { random, config, size } = this;
    const count = Math.min(this.chainLength(), size);
    const tabled = config.granules > 0 && (config.indirect ? random.once(3) : this.wild());
    const outs = random.below(count + 1);
    const list = Array.from({ length: count }, (_, i) => {
      const last = i === count - 1;
      const indirect = tabled && (config.ring === 'packed' ? i === 0 && count === 1 : last);
      const flags =
        (last ? 0 : L.DESC_F_NEXT) | (indirect ? L.DESC_F_INDIRECT : i >= outs ? L.DESC_F_WRITE : 0);
      return { flags, segment: indirect ? this.table() : this.segment() };
    });
    if (config.ring === 'packed') this.offerPacked(list);
    else this.offerSplit(list);
    if (this.wild()) this.mutate();
  }

  private offerSplit(list: { flags: number; segment: Segment }[]): void {
    const { random, size, layout } = this;
    const { descriptor, driver } = layout.areas;
    const head = this.freeId();
    const step = 1 + 2 * random.below(4);
    let index = head % size;
    list.forEach(({ flags, segment }, i) => {
      const next = (index + step) % size;
      this.descriptor(descriptor + 16 * index, segment, flags, i < list.length - 1 ? next : 0);
      index = next;
    });
    const idx = this.u16(driver + L.AVAIL_IDX);
    this.write(driver + L.AVAIL_RING + 2 * (idx & (size - 1)), 2, BigInt(head));
    const ahead = this.wild() && random.once(6) ? random.below(size + 3) : 1;
    this.write(driver + L.AVAIL_IDX, 2, BigInt((idx + ahead) & 0xffff));
  }

  private offerPacked(list: { flags: number; segment: Segment }[]): void {
    const { size, layout, config, random } = this;
    const solo = config.raw && config.victim === 'device';
    const { position } = this.sight();
    let slot = solo ? this.slot % size : position & 0x7fff;
    let wrap = solo ? this.wrap : (position & 0x8000) !== 0;
    const id = this.freeId();
    for (const { flags, segment } of list) {
      const owner = wrap ? L.PACKED_DESC_F_AVAIL : L.PACKED_DESC_F_USED;
      const mine = random.once(8) ? this.freeId() : id;
      this.descriptor(layout.areas.descriptor + 16 * slot, segment, mine, flags | owner);
      if (++slot === size) {
        slot = 0;
        wrap = !wrap;
      }
    }
    this.slot = slot;
    this.wrap = wrap;
  }

  /** Reports used buffers to the driver, mostly ones that are in flight. */
  forgeUsed(): void {
    const { random, config } = this;
    const count = random.once(4) ? 1 + random.below(4) : 1;
    if (config.ring === 'packed') this.usePacked();
    else this.useSplit(count);
    if (this.wild()) this.mutate();
  }

  private useSplit(count: number): void {
    const { random, size, layout } = this;
    const { driver, device } = layout.areas;
    const idx = this.u16(device + L.USED_IDX);
    for (let i = 0; i < count; i++) {
      const from = random.once(4) ? idx + random.below(4) : idx + i;
      const head = this.u16(driver + L.AVAIL_RING + 2 * (from & (size - 1)));
      const id = this.wild() && random.once(3) ? random.below(size + 1) : head;
      const at = device + L.USED_RING + 8 * ((idx + i) & (size - 1));
      this.write(at, 4, BigInt(id));
      this.write(at + 4, 4, BigInt(this.wild() ? this.length() : random.below(30)));
    }
    const ahead = this.wild() && random.once(6) ? random.below(size + 3) : count;
    this.write(device + L.USED_IDX, 2, BigInt((idx + ahead) & 0xffff));
  }

  private usePacked(): void {
    const { random, size, layout } = this;
    const inFlight = size - this.sight().numFree;
    if (inFlight === 0 && !this.wild()) return;
    const { descriptor } = layout.areas;
    const { slot, wrap } = this.slotBehind(inFlight);
    // A full ring: as many slots behind as there are is the same slot, a lap ago.
    const lap = inFlight === size ? !wrap : wrap;
    const from = random.once(3) ? this.slotBehind(random.below(inFlight + 1)).slot : slot;
    const id = this.wild() && random.once(3) ? random.below(size + 1) : this.u16(descriptor + 16 * from + 12);
    const flags =
      (lap ? L.PACKED_DESC_F_AVAIL | L.PACKED_DESC_F_USED : 0) | (random.once(3) ? 0 : L.DESC_F_WRITE);
    const at = descriptor + 16 * slot;
    this.write(at + 8, 4, BigInt(this.wild() ? this.length() : random.below(30)));
    this.write(at + 12, 2, BigInt(id));
    this.write(at + 14, 2, BigInt(flags));
  }
}
