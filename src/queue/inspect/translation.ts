import type { TranslationStrategy } from '../../engine/engine.js';
import type { ExactRegion, Regions } from '../../engine/regions.js';

const WINDOWS = 4;

/** Guest memory as an inspection sees it, with the regions of the chain under way at hand, as a device has them. */
export class Translation {
  private readonly windows = new Array<ExactRegion | undefined>(WINDOWS).fill(undefined);
  private count = 0;
  private next = 0;

  constructor(
    private readonly regions: Regions,
    private readonly strategy: TranslationStrategy,
  ) {}

  /** A new chain begins: nothing that was found before may be believed. */
  begin(): void {
    if (this.strategy === 'eager') {
      this.windows.fill(undefined);
      this.next = 0;
    }
    this.count = 0;
  }

  /** The region that holds an address, or undefined. */
  find(address: bigint): ExactRegion | undefined {
    for (let i = 0; i < this.count; i++) {
      const window = this.windows[i];
      if (window !== undefined && holds(window, address)) return window;
    }
    const found = this.regions.list.find((region) => holds(region, address));
    if (found !== undefined) this.add(found);
    return found;
  }

  private add(region: ExactRegion): void {
    if (this.count === 0) this.next = 0;
    this.windows[this.next] = region;
    this.next = (this.next + 1) % WINDOWS;
    this.count = Math.min(this.count + 1, WINDOWS);
  }
}

const holds = ({ guest, length }: ExactRegion, address: bigint): boolean =>
  address >= guest && address < guest + length;
