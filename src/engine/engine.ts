import type { Regions } from './regions.js';

/**
 * Where the three areas of a virtqueue lie, as local addresses (byte offsets in the engine's memory).
 * Split (virtio 1.4, 2.7): descriptor table, available ring, used ring.
 */
export interface LocalAreas {
  descriptor: number;
  driver: number;
  device: number;
}

/** What a driver ring needs to know. All of it has been validated by the caller. */
export interface DriverRingConfig {
  size: number;
  areas: LocalAreas;
  eventIdx: boolean;
  /** INDIRECT_DESC is negotiated and more than one segment goes through a table. */
  indirect: boolean;
  /** A used length above the writable part breaks the queue instead of being clamped. */
  strict: boolean;
  /** Memory that indirect tables are taken from; length 0 where there are none. 16-byte aligned. */
  tables: { address: number; length: number };
}

/** What a device ring needs to know. All of it has been validated by the caller. */
export interface DeviceRingConfig {
  size: number;
  areas: LocalAreas;
  eventIdx: boolean;
  /** INDIRECT_DESC was negotiated: the INDIRECT flag is allowed. */
  indirect: boolean;
  regions: Regions;
}

/** What both sides of a ring have. */
export interface Ring {
  /** FAULT_* of layout.ts; FAULT_NONE while the ring is sound. */
  readonly fault: number;
  readonly faultA: bigint;
  readonly faultB: bigint;
  /** Value of counter `COUNT_*`. */
  counter(index: number): number;
  /** Gives back whatever the ring took from the arena. The ring must not be used afterwards. */
  release(): void;
}

/**
 * Driver side of a virtqueue: plain numbers in, a count or a negative RESULT_* out, nothing allocated.
 *
 * Where the specification leaves a choice, every engine makes this one, so that the bytes agree:
 * - The free descriptors form a list, at first 0, 1, 2 … A chain takes from its front; a chain that
 *   comes back is put in front as a whole, in chain order.
 * - `next` is 0 in a descriptor without NEXT. A descriptor with INDIRECT has no other flag.
 * - A table uses its descriptors in order: next = 1, 2, …
 * - Tables are cut from 16-byte granules. The search starts at a cursor, goes to the end and once more
 *   from the start; a table may not wrap. After an allocation the cursor is behind it, after a release
 *   at its start.
 * - A buffer of one segment never goes through a table. Where no descriptor is free, no table is tried.
 *   A table that cannot be had means direct descriptors, and those count against the free ones.
 * - used_event is written only with EVENT_IDX, avail.flags only without. Callbacks disabled under
 *   EVENT_IDX: used_event = position + EVENT_FAR.
 * - After a burst that took something, with EVENT_IDX and callbacks enabled, used_event = position.
 *   A burst that ends with room left then orders that store before reading used.idx again, and goes on
 *   if more has come: so a caller who saw fewer than it asked for may sleep.
 */
export interface DriverRing extends Ring {
  readonly numFree: number;
  /** Buffers in flight. */
  readonly inFlight: number;
  /** Tables of indirect descriptors in flight, in bytes. */
  readonly tableBytes: number;
  /**
   * Adds up to `n` buffers described by the segment records at `segments`, with their tokens at `tokens`.
   * avail.idx is published once. Returns how many were added: fewer than `n` where the ring is full (then
   * counted once), RESULT_TOO_LONG if the first one not added has more segments than the queue size and
   * none was added, RESULT_BROKEN.
   */
  addBurst(segments: number, tokens: number, n: number): number;
  /** 1 if the device wants to be notified of what was added since the last call (2.7.10). */
  kickPrepare(): number;
  /**
   * Takes up to `max` completions to the records at `completions`; used.idx is read once per round. A bad
   * used entry breaks the ring only when it is first in line: those before it are returned first.
   */
  getBurst(completions: number, max: number): number;
  /** 1 if used.idx differs from the position. Says nothing about whether the entries are valid. */
  moreUsed(): number;
  disableCallbacks(): void;
  /** Enables callbacks from the position on. Returns the opaque value for `poll`. */
  enableCallbacksPrepare(): number;
  /** 1 if used.idx differs from `opaque`. */
  poll(opaque: number): number;
  /** Asks for a callback after ¾ of what is outstanding. 0 if more than that has come already. */
  enableCallbacksDelayed(): number;
  /**
   * Takes back one buffer that the device never returned, lowest head first, as a completion record with
   * length 0. Returns 0 when none is left. Only for a queue that is not live; works on a broken one.
   */
  detachUnused(completion: number): number;
  /** Everything as after creation: areas zeroed, no fault, no buffer in flight. Counters stay. */
  reset(): void;
}

/**
 * Device side of a virtqueue. Trusts nothing in the ring; reads each field once.
 *
 * Choices beyond the specification:
 * - The device keeps which heads are in flight; a head made available twice is a fault.
 * - With EVENT_IDX and notifications enabled a burst that took something writes avail_event = position
 *   and, with room left, orders that store before it reads avail.idx again.
 * - Notifications disabled under EVENT_IDX: avail_event = position + EVENT_FAR.
 * - A segment of length 0 is passed on with local address 0 wherever it points: no byte of it exists.
 * - A segment that spans regions which adjoin in guest memory gives several pieces, in order.
 * - An indirect table must lie in one region. Its address need not be aligned.
 * - The WRITE flag of a descriptor that refers to a table is ignored (2.7.5.3.2).
 * - Direct descriptors may come before the one that refers to a table (2.7.5.3.2).
 * - Checks of a descriptor, in this order: INDIRECT not negotiated or nested or with NEXT; table length;
 *   table range; count against the table's length (FAULT_CHAIN_LOOP: for the queue's own table its size)
 *   and over all tables against the queue size (FAULT_CHAIN_LONG); order; range; total bytes; next range.
 *   The descriptor that refers to a table does not count against the queue size, its table's do.
 */
export interface DeviceRing extends Ring {
  /** Elements popped and not yet pushed or detached. */
  readonly inFlight: number;
  /**
   * Takes up to `max` chains: element records at `elements`, their pieces from index 0 of `pieces`, at
   * most `pieceCapacity` in all. Stops before a chain that does not fit any more (RESULT_NO_ROOM if it is
   * the first). A bad chain breaks the ring only when it is first in line. All of a chain is checked before
   * it is asked whether it fits: a bad one is bad whatever the room.
   */
  popBurst(elements: number, pieces: number, pieceCapacity: number, max: number): number;
  /**
   * Pushes the first `n` element records (`id`, `written`); used.idx is published once. Stops at the
   * first record whose id is not in flight or whose `written` is too large and returns how many were
   * pushed. RESULT_SLOT while slots are filled and not flushed.
   */
  pushBurst(elements: number, n: number): number;
  /**
   * Writes a used entry `offset` slots ahead without publishing it. 0, or the first that applies of
   * RESULT_NOT_IN_FLIGHT, RESULT_WRITTEN, RESULT_SLOT: `offset` is filled or not below `inFlight`. Slots
   * further ahead may hold entries that the driver has not taken yet.
   */
  fill(id: number, written: number, offset: number): number;
  /** Publishes `n` filled slots. 0, or RESULT_SLOT if one of them is not filled. */
  flush(n: number): number;
  /** Forgets an element in flight without a used entry. 0, or RESULT_NOT_IN_FLIGHT. */
  detach(id: number): number;
  /**
   * Puts the last `n` popped elements back, so that the next pop returns them again. 1, or 0 if one of
   * them is no longer in flight or `n` is more than what is in flight; then nothing changed.
   */
  rewind(n: number): number;
  /** Head of the last popped element that `rewind(1)` would put back, or RESULT_NOT_IN_FLIGHT. */
  lastPopped(): number;
  /** Device-writable length of the element with this id in flight (saturated at 2^32-1), or RESULT_NOT_IN_FLIGHT. */
  writable(id: number): number;
  /** 1 if the driver wants to be notified of what was pushed since the last call (2.7.7). */
  shouldInterrupt(): number;
  /** Enables notifications; 0 if there is something to pop already. */
  enableNotifications(): number;
  disableNotifications(): void;
  /**
   * Sums the readable and writable bytes of the chains not yet popped, until both limits are reached or
   * AVAILABLE_BUDGET descriptors were visited; chains count as a whole, so both are looked at between two of
   * them. 0 or RESULT_BROKEN; the sums are in the two fields.
   */
  availableBytes(maxIn: number, maxOut: number): number;
  readonly availableIn: number;
  readonly availableOut: number;
  setRegions(regions: Regions): void;
  /** Everything as after creation, with the areas untouched: they are the driver's to clear. */
  reset(): void;
}

/** Makes rings on one memory. */
export interface Engine {
  readonly name: 'wasm' | 'typescript';
  driverRing(config: DriverRingConfig): DriverRing;
  deviceRing(config: DeviceRingConfig): DeviceRing;
}
