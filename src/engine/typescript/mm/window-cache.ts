import { TRANSLATION_WINDOWS } from '../../../../assembly/abi/layout.js';

// One region in a table: first and last guest address (inclusive: an exclusive end may be 2^64), local
// address of the first byte.
export const FIRST_LOW = 0;
export const FIRST_HIGH = 1;
export const LAST_LOW = 2;
export const LAST_HIGH = 3;
export const LOCAL = 4;
export const REGION_WORDS = 5;

/** Behind the copy of a region: where it stands in the table. */
const PLACE = REGION_WORDS;
const WINDOW_WORDS = REGION_WORDS + 1;

const COUNT = 0;
/** Which window makes room once all are taken. */
const NEXT = 1;
const WINDOWS = 2;
const DOUBLES = (WINDOWS + TRANSLATION_WINDOWS * WINDOW_WORDS) >>> 1;

/**
 * Whether the region at word `r` of `table` holds the address that stands in `at` as it does in a table, low half
 * first. Not as two arguments: a number above 2^31 that crosses a call becomes an object on the heap.
 */
export function holds(table: Uint32Array, r: number, at: Uint32Array): boolean {
  const low = at[FIRST_LOW];
  const high = at[FIRST_HIGH];
  return (
    (table[r + FIRST_HIGH] < high || (table[r + FIRST_HIGH] === high && table[r + FIRST_LOW] <= low)) &&
    (table[r + LAST_HIGH] > high || (table[r + LAST_HIGH] === high && table[r + LAST_LOW] >= low))
  );
}

/**
 * Regions that were found for the chain, or the query, under way: 104 bytes on the JavaScript heap. With a count
 * of 0 it is empty whatever else it holds.
 */
export class WindowCache {
  private readonly doubles = new Float64Array(DOUBLES);
  private readonly words = new Uint32Array(this.doubles.buffer);

  /** `lazy`: the one field that makes it safe. The others are written when a window is. */
  begin(): void {
    this.words[COUNT] = 0;
  }

  /** `eager`: every byte of it. Stores, because `fill` is a call that takes longer. */
  clear(): void {
    const { doubles } = this;
    for (let i = 0; i < DOUBLES; i++) doubles[i] = 0;
  }

  /** Word in the table of the region that holds the address in `at`, or -1 if it is not in here. */
  find(at: Uint32Array): number {
    const { words } = this;
    const end = WINDOWS + words[COUNT] * WINDOW_WORDS;
    for (let w = WINDOWS; w < end; w += WINDOW_WORDS) if (holds(words, w, at)) return words[w + PLACE];
    return -1;
  }

  /** Takes in the region at word `r` of the table. */
  add(table: Uint32Array, r: number): void {
    const { words } = this;
    const count = words[COUNT];
    let place = count;
    if (count < TRANSLATION_WINDOWS) {
      words[COUNT] = count + 1;
      words[NEXT] = 0;
    } else {
      place = words[NEXT];
      words[NEXT] = (place + 1) % TRANSLATION_WINDOWS;
    }
    const w = WINDOWS + place * WINDOW_WORDS;
    for (let i = 0; i < REGION_WORDS; i++) words[w + i] = table[r + i];
    words[w + PLACE] = r;
  }
}
