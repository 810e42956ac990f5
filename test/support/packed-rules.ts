import type { Chain, Events, Rules, RulesOptions } from './rules.js';

const WRAP = 0x8000;

/** Slot and wrap counter, which is 1 in the first lap. */
const slotAndWrap = (index: number, size: number): [slot: number, wrap: number] => [
  index % size,
  Math.floor(index / size) % 2 === 0 ? 1 : 0,
];

class PackedEvents implements Events {
  private flags: 'enable' | 'disable' | 'desc' = 'enable';
  private event = 0;

  constructor(
    private readonly size: number,
    private readonly eventIdx: boolean,
  ) {}

  disable(): void {
    this.flags = 'disable';
  }

  enable(at: number): void {
    this.event = at;
    if (this.flags === 'disable') this.flags = this.eventIdx ? 'desc' : 'enable';
  }

  took(seen: number): void {
    if (this.flags === 'desc') this.event = seen;
  }

  wants(index: number, count: number): boolean {
    if (this.flags !== 'desc') return this.flags === 'enable';
    // 2.8.14: the slot is one of the last `count`, in the lap that its wrap counter says. That there are no more
    // than two laps to tell apart makes one event too many where `count` is above the size.
    const [slot, wrap] = slotAndWrap(index, this.size);
    const [asked, askedWrap] = slotAndWrap(this.event, this.size);
    const behind = slot - asked + (wrap === askedWrap ? 0 : this.size);
    return ((behind - 1) & 0xffff) < count;
  }

  get silent(): boolean {
    return this.flags === 'desc';
  }
}

/** A packed ring (virtio 1.4, 2.8) without the descriptors, but for the two flags that say whose they are. */
export class PackedRules implements Rules {
  private readonly ids: number[];
  private free: number;
  /** AVAIL and USED of each slot, as they were written last. */
  private readonly marks: string[];

  constructor(private readonly options: RulesOptions) {
    const { size } = options;
    this.ids = Array.from({ length: size }, (_, i) => i);
    this.free = size;
    this.marks = new Array(size).fill('00');
  }

  events(): Events {
    return new PackedEvents(this.options.size, this.options.eventIdx);
  }

  get numFree(): number {
    return this.free;
  }

  take(descriptors: number): Chain | undefined {
    if (descriptors > this.free) return undefined;
    this.free -= descriptors;
    return { id: this.ids.shift() as number, units: descriptors, descriptors: [] };
  }

  giveBack({ id, units }: Chain): void {
    this.free += units;
    if (this.options.inOrder) this.ids.push(id);
    else this.ids.unshift(id);
  }

  added({ units }: Chain, index: number): void {
    for (let i = 0; i < units; i++) {
      const [slot, wrap] = slotAndWrap(index + i, this.options.size);
      this.marks[slot] = wrap ? '10' : '01';
    }
  }

  used(index: number): void {
    const [slot, wrap] = slotAndWrap(index, this.options.size);
    this.marks[slot] = wrap ? '11' : '00';
  }

  position(index: number): number {
    const [slot, wrap] = slotAndWrap(index, this.options.size);
    return slot | (wrap * WRAP);
  }

  poll(opaque: number, _usedIndex: number, midBatch: boolean): boolean | undefined {
    const slot = opaque & 0x7fff;
    if (slot >= this.options.size) return undefined;
    return midBatch || this.marks[slot] === (opaque & WRAP ? '11' : '00');
  }

  delay(): number {
    return Math.floor(((this.options.size - this.free) * 3) / 4);
  }

  late(used: number): boolean {
    return used > 0;
  }
}
