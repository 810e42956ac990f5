import type { Chain, Events, Rules, RulesOptions } from './rules.js';

const FAR = 0x8000;

/** 2.7.7, 2.7.10: an event index was passed if the entry that it names is one of the last `count`. */
const passed = (event: number, idx: number, count: number): boolean =>
  count >= 65536 || ((idx - event - 1) & 0xffff) < count;

class SplitEvents implements Events {
  private enabled = true;
  private event = 0;

  constructor(private readonly eventIdx: boolean) {}

  disable(seen: number): void {
    this.enabled = false;
    this.event = seen + FAR;
  }

  enable(at: number): void {
    this.enabled = true;
    this.event = at;
  }

  took(seen: number): void {
    if (this.eventIdx && this.enabled) this.event = seen;
  }

  wants(index: number, count: number): boolean {
    return this.eventIdx ? passed(this.event, index, count) : this.enabled;
  }

  get silent(): boolean {
    return this.eventIdx;
  }
}

/** A split ring (virtio 1.4, 2.7) without the ring. */
export class SplitRules implements Rules {
  private readonly free: number[];

  constructor(private readonly options: RulesOptions) {
    this.free = Array.from({ length: options.size }, (_, i) => i);
  }

  events(): Events {
    return new SplitEvents(this.options.eventIdx);
  }

  get numFree(): number {
    return this.free.length;
  }

  take(descriptors: number): Chain | undefined {
    if (descriptors > this.free.length) return undefined;
    const taken = this.free.splice(0, descriptors);
    return { id: taken[0], units: 1, descriptors: taken };
  }

  giveBack({ descriptors }: Chain): void {
    if (this.options.inOrder) this.free.push(...descriptors);
    else this.free.unshift(...descriptors);
  }

  added(): void {}

  used(): void {}

  position(index: number): number {
    return index & 0xffff;
  }

  poll(opaque: number, usedIndex: number): boolean {
    return (usedIndex & 0xffff) !== opaque;
  }

  delay(inFlight: number): number {
    return Math.floor((inFlight * 3) / 4);
  }

  late(used: number, delay: number): boolean {
    return used > delay;
  }
}
