/**
 * Order of memory accesses between the two sides of a ring. The only file that knows whether the memory is
 * shared between threads.
 *
 * In a shared memory these functions are sequentially consistent atomics: everything written before a
 * `publish` is seen by whoever `acquire`s the published value, and a `publish` followed by an `acquire` of
 * another word is never reordered. The second is what the specification's barrier between "update idx" and
 * "check for suppression" (2.7.13) asks for, so no separate fence exists: it would order nothing more.
 * In an unshared memory both sides run on one thread and plain accesses do.
 *
 * Every word that both sides look at to decide whether something is there or somebody sleeps (idx, flags,
 * used_event, avail_event; flags of a packed descriptor, event suppression structures) goes through here;
 * what they expose is plain.
 */

/** Stores a 16-bit ring word, after everything that was stored before. */
export function publish(shared: boolean, u16: Uint16Array, index: number, value: number): void {
  if (shared) Atomics.store(u16, index, value);
  else u16[index] = value;
}

/** Loads a 16-bit ring word, before everything that is loaded after, and after every `publish` before. */
export function acquire(shared: boolean, u16: Uint16Array, index: number): number {
  return shared ? Atomics.load(u16, index) : u16[index];
}

/** `acquire` of a 32-bit word. */
export function acquireWord(shared: boolean, u32: Uint32Array, index: number): number {
  return shared ? Atomics.load(u32, index) : u32[index];
}

/** Stores a 32-bit word whose upper half is what exposes the rest, and everything stored before. */
export function publishUpper(
  shared: boolean,
  u16: Uint16Array,
  u32: Uint32Array,
  index: number,
  value: number,
): void {
  if (shared) {
    u16[index << 1] = value;
    Atomics.store(u16, (index << 1) + 1, value >>> 16);
  } else {
    u32[index] = value;
  }
}
