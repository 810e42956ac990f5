import { NONE } from '../mm/pages.js';

/**
 * Tables that are ready to be used again, last in, first out. The links are the allocator's, on the JavaScript
 * heap: a cached table itself is neither read nor written.
 */
export class TableList {
  length = 0;
  private front = NONE;

  constructor(private readonly links: Uint32Array) {}

  push(granule: number): void {
    this.links[granule] = this.front;
    this.front = granule;
    this.length++;
  }

  /** NONE if there is none. */
  pop(): number {
    const granule = this.front;
    if (granule === NONE) return NONE;
    this.front = this.links[granule];
    this.length--;
    return granule;
  }

  /** Forgets all of them. */
  clear(): void {
    this.length = 0;
    this.front = NONE;
  }
}
