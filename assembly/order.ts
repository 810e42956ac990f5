// The only file that knows whether the memory is shared. Both sides of a ring run at the same time only
// in the shared build; there the accesses are sequentially consistent atomics. In the unshared build
// both sides run on one thread (or the other side is an emulated CPU on this thread), where program
// order is all the order there is.

/** Stores an index or flag that makes earlier plain stores visible to the other side. */
// @ts-ignore: decorator
@inline
export function publish(address: usize, value: u16): void {
  if (ASC_FEATURE_THREADS) atomic.store<u16>(address, value);
  else store<u16>(address, value);
}

/** Loads an index or flag of the other side; later plain loads see what it stored before. */
// @ts-ignore: decorator
@inline
export function acquire(address: usize): u16 {
  if (ASC_FEATURE_THREADS) return atomic.load<u16>(address);
  return load<u16>(address);
}

/** As `acquire`, of two neighbouring 16-bit words at once. `address` is a multiple of 4. */
// @ts-ignore: decorator
@inline
export function acquire32(address: usize): u32 {
  if (ASC_FEATURE_THREADS) return atomic.load<u32>(address);
  return load<u32>(address);
}

/**
 * Marks where a `publish` must not be overtaken by a later `acquire`: the places that the specification
 * calls memory barriers between a store and a load. It needs no instruction: all atomic accesses of the
 * shared build have one total order, and the unshared build has one thread.
 */
// @ts-ignore: decorator
@inline
export function fence(): void {}
