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

/** Ring formats: split (virtio 1.4, 2.7) and packed (2.8). */
export type RingFormat = 'split' | 'packed';

/**
 * Where tables of indirect descriptors come from.
 * - `none`: each from the general allocator, as long as it has to be.
 * - `slab`: those that fit from a slab cache of tables of one size.
 * - `slab-bulk`: the same, taken ahead and given back several at a time.
 * - `list`: those that fit from a list, last in, first out, to which they come back.
 */
export type TableStrategy = 'none' | 'slab' | 'slab-bulk' | 'list';

/**
 * The cache of a driver's tables. A buffer fits it if it has at most `descriptors` segments; tables of others
 * come from the general allocator. All books are kept in private memory. Every engine takes tables from the
 * same addresses:
 *
 * - Table memory is granules of 16 bytes, pages of `tablePages(length)` granules (src/engine/table-pages.ts),
 *   and blocks of 2^order pages that lie at multiples of their size: at first the largest that fit, from the
 *   start on. A block is the lower half of the smallest one that will do, of several the one that became free
 *   last. A block that comes back becomes one with its free buddy.
 * - A slab is a page cut into objects of one size. A cache takes an object from the slab that was full and got
 *   one back last, or else was made last; within a slab the object that came back last, at first the lowest.
 *   Without such a slab it makes one. A slab without an object in use stays until a block cannot be had: then
 *   all such slabs of all caches give their pages back, in ascending order, and the block is looked for again.
 * - The general allocator has a cache for each power of two of granules up to a page and takes the smallest
 *   that will do; what is longer is a block of pages.
 * - `slab`: a cache of its own with objects of exactly `descriptors` granules. Where those are longer than a
 *   page there is no cache, and all tables come from the general allocator.
 * - `slab-bulk`: where a burst wants a table and has none left, it takes up to TABLES_BULK, no more than there
 *   are buffers left in the burst or free descriptors, and uses the last of them first. What is left at the
 *   end of the burst is given back, in the order in which it was taken. Tables that come back are collected
 *   and given back at the end of the burst, or when TABLES_BULK have come.
 * - `list`: a table that fits is the first of the list, or else `descriptors` granules of the general
 *   allocator. It comes back to the front of the list, or to the allocator where the list has `bound` tables.
 *   Where the allocator has not so much, the buffer gets a table of its own length, as without a cache.
 *   `prefill` tables are put there at the start and at each reset, as far as they can be had. Where the
 *   allocator has nothing for a table of a buffer's own length, the list is emptied, from its front on, and the
 *   allocator asked again.
 * - Another cache: the list is emptied and the old slab cache closed, whose slabs give their pages back once
 *   nothing of them is in use. Tables in flight go back to the allocator.
 * - A restored ring: nothing is free but what no buffer in flight has. Their tables are noted by ascending
 *   address, and go back to the allocator. Free objects of their slabs are in ascending order.
 */
export interface TableConfig {
  strategy: TableStrategy;
  /** Descriptors of each table of the cache: 2 … 256. */
  descriptors: number;
  /** Most tables that a list keeps. */
  bound: number;
  /** Tables that a list has from the start. */
  prefill: number;
}

/**
 * When a buffer goes through a table: one free descriptor is needed; then if it has more segments than there are
 * free descriptors, or more than the threshold. A table that cannot be had means direct descriptors, and those
 * count against the free ones.
 *
 * - `always`: the threshold is 1. `static`: it is `threshold`.
 * - `adaptive` (2012): it starts at the queue size and becomes (threshold >> 1) | 1 before each buffer that comes
 *   under stress: one with readable segments that has as many segments as there are free descriptors or more, one
 *   without when all descriptors are free.
 * - `adaptive-hysteresis`: a buffer of several segments goes through a table also where it would not leave a
 *   descriptor to each of those behind it in its burst. The threshold starts at the queue size, too, and becomes
 *   (threshold >> 1) | 1 before each buffer that finds no free descriptor. After the burst with which max(size, 256)
 *   segments were added without such a buffer, if never more than size - (size >> 2) segments were in flight at the
 *   end of a burst (however they were laid out), it becomes min(size, (threshold << 1) | 1).
 *
 * Also buffers of one segment and those that are not added count, but not those that are longer than the queue.
 */
export interface PolicyConfig {
  policy: 'always' | 'static' | 'adaptive' | 'adaptive-hysteresis';
  /** `static` only: 1 … 32768. */
  threshold: number;
}

/** A change of the threshold. */
export interface ThresholdChange {
  /** Buffers that were added before the one that brought it about. */
  added: number;
  threshold: number;
}

/** A threshold as it is. */
export interface ThresholdState {
  threshold: number;
  /** `adaptive-hysteresis`: segments since the last look, and the most in flight at the end of a burst since then. */
  lap: number;
  peak: number;
}

/**
 * What a device does with its translation cache, the windows of guest memory that it has resolved, before each
 * chain. `lazy`: sets the one field that makes it empty, and that only where a chain needs the cache. `eager`:
 * clears all of its 104 bytes. Results are the same.
 */
export type TranslationStrategy = 'eager' | 'lazy';

/** What a driver ring needs to know. All of it has been validated by the caller. */
export interface DriverRingConfig {
  ring: RingFormat;
  size: number;
  areas: LocalAreas;
  eventIdx: boolean;
  /** IN_ORDER is negotiated: buffers come back in the order in which they were added. */
  inOrder: boolean;
  /** INDIRECT_DESC is negotiated and tables are used. */
  indirect: boolean;
  policy: PolicyConfig;
  cache: TableConfig;
  /** A used length above the writable part breaks the queue instead of being clamped. */
  strict: boolean;
  /** Added to the local address of a table, modulo 2^64, to make the address that the device is told. */
  addressOffset: bigint;
  /** Memory that indirect tables are taken from; length 0 where there are none. 16-byte aligned. */
  tables: { address: number; length: number };
}

/** What a device ring needs to know. All of it has been validated by the caller. */
export interface DeviceRingConfig {
  ring: RingFormat;
  size: number;
  areas: LocalAreas;
  eventIdx: boolean;
  /** IN_ORDER is negotiated: used entries appear in the order in which the buffers were popped. */
  inOrder: boolean;
  /** In-order use: one used entry may stand for several elements. */
  batches: boolean;
  /** INDIRECT_DESC was negotiated: the INDIRECT flag is allowed. */
  indirect: boolean;
  translation: TranslationStrategy;
  regions: Regions;
}

/**
 * A position in a ring. Split: the free-running 16-bit index. Packed: the slot, with the wrap counter in
 * bit 15.
 */
export type Position = number;

/** A buffer that is with the device, as the driver ring remembers it. */
export interface BufferState {
  /** Head descriptor (split) or buffer id (packed). */
  id: number;
  token: number;
  segments: number;
  /** Device-writable bytes, saturated at 2^32-1. */
  writable: number;
  /** Local address of its indirect table, 0 for a direct chain. */
  table: number;
  /** Granules of memory that the table has, 0 for a direct chain: its segments or more. */
  room: number;
  /**
   * Split: its descriptors in chain order; the head alone where there is a table. Packed: its ring slots.
   * Both from private memory.
   */
  descriptors: number[];
}

/** Private state of a driver ring as plain data. The ring and the tables themselves stay in memory. */
export interface DriverRingState {
  avail: Position;
  used: Position;
  /** Split: 1 if callbacks are enabled, else 0. Packed: the event flags as last written. */
  events: number;
  /** Buffers (split) or slots (packed) added since the last kickPrepare, saturated at 65536. */
  unkicked: number;
  /** Free descriptors (split) or buffer ids (packed) in the order in which they will be taken. */
  free: number[];
  /** Buffers in flight: in the order in which they were added with inOrder, else by id. */
  buffers: BufferState[];
  /**
   * In-order use, where a burst ended within a batch: how many buffers of it are still to be handed out,
   * and the length of its last one. 0, 0 otherwise.
   */
  batchLeft: number;
  batchLength: number;
  threshold: ThresholdState;
}

/** An element in flight, as the device ring remembers it. */
export interface ElementState {
  id: number;
  /** Device-writable bytes, saturated at 2^32-1. */
  writable: number;
  /** Ring slots that it takes: 1 in a split ring. */
  slots: number;
  /** Pops (net of those rewound) since it was popped: 0 for the last one. -1 if the ring of the last `size` pops has forgotten it. */
  ago: number;
  /** In-order use: pushed already, with so many bytes, and held until those before it are pushed; else -1. */
  written: number;
}

/** Private state of a device ring as plain data. */
export interface DeviceRingState {
  avail: Position;
  used: Position;
  /** Split: 1 if notifications are enabled, else 0. Packed: the event flags as last written. */
  events: number;
  /** Elements (split) or slots (packed) pushed since the last shouldInterrupt, saturated at 65536. */
  unsignalled: number;
  /** Forgotten ones first, by id; then in the order in which they were popped. */
  elements: ElementState[];
  /**
   * In-order use of a packed ring: elements popped since the one that the next used descriptor is for, with that
   * one, also those detached. 0 otherwise.
   */
  span: number;
  /** Slots filled and not flushed. */
  fills: { offset: number; id: number; written: number; slots: number }[];
}

/** What both sides of a ring have. */
export interface Ring {
  /** FAULT_* of layout.ts; FAULT_NONE while the ring is sound. */
  readonly fault: number;
  readonly faultA: bigint;
  readonly faultB: bigint;
  /** Value of counter `COUNT_*`. */
  counter(index: number): number;
  /** Adds `n` to a counter: what a restored queue had counted before. */
  addCounter(index: number, n: number): void;
  /** Gives back whatever the ring took from the arena. The ring must not be used afterwards. */
  release(): void;
}

/**
 * Driver side of a virtqueue: plain numbers in, a count or a negative RESULT_* out, nothing allocated.
 *
 * Where the specification leaves a choice, every engine makes this one, so that the bytes agree.
 *
 * Both rings:
 * - In-order use: the device may answer for a batch with one used entry that names its last buffer. The
 *   others of the batch are completed before it, each with its whole writable length. A batch of more
 *   buffers than used.idx allows (split) or than are in flight is a fault. Descriptors are then used in ring
 *   order: the list of free ones stays 0, 1, 2 … size-1, 0, 1 …, whatever came back.
 * - When a buffer goes through a table: `PolicyConfig`. Where the table is: `TableConfig`.
 * - kickPrepare with nothing added since the last one: the flags alone decide, and it counts as any other.
 *   Where an event index or a descriptor would decide, no event was passed: 0, and nothing is counted.
 *
 * Packed:
 * - One id for each buffer; the free ids form a list, at first 0, 1, 2 …, and an id that comes back is put
 *   in front. Every descriptor of a chain carries the id. A descriptor with INDIRECT has no other flag but
 *   AVAIL and USED. Descriptors of a table have id 0 and no flag but WRITE.
 * - All descriptors of a burst are written before the flags of its first one, which are published last.
 * - The device's event structure is loaded once, as one 32-bit word. DESC without EVENT_IDX means ENABLE.
 * - The event flags start as ENABLE and are written only when they change. Disabling makes them DISABLE.
 *   Enabling from DISABLE makes them DESC with EVENT_IDX and ENABLE without; with EVENT_IDX the position is
 *   written to off_wrap before the flags, also when the flags stay as they are. After a burst that took
 *   something, with flags DESC, off_wrap = position.
 * - Delayed enabling puts off_wrap three quarters of the slots in flight ahead; it answers 0 if anything is
 *   used already.
 * - The length of a used descriptor without WRITE, which is reserved (2.8.4), counts where it fits the writable
 *   part: there are devices that never set WRITE (QEMU). Above that it is 0, and no violation.
 *
 * Split:
 * - The free descriptors form a list, at first 0, 1, 2 … A chain takes from its front; a chain that
 *   comes back is put in front as a whole, in chain order.
 * - `next` is 0 in a descriptor without NEXT. A descriptor with INDIRECT has no other flag.
 * - A table uses its descriptors in order: next = 1, 2, …
 * - used_event is written only with EVENT_IDX, avail.flags only without; both each time that callbacks are
 *   enabled or disabled, also when nothing changes. Callbacks disabled under
 *   EVENT_IDX: used_event = position + EVENT_FAR.
 * - After a burst that took something, with EVENT_IDX and callbacks enabled, used_event = position.
 *   A burst that ends with room left then orders that store before reading used.idx again, and goes on
 *   if more has come: so a caller who saw fewer than it asked for may sleep.
 */
export interface DriverRing extends Ring {
  readonly numFree: number;
  /** Buffers in flight. */
  readonly inFlight: number;
  /** Tables of indirect descriptors in flight: their descriptors in use, in bytes. */
  readonly tableBytes: number;
  /** Tables in flight. */
  readonly tableCount: number;
  /** Tables in the list. */
  readonly listLength: number;
  /** Table memory that is in use or kept by a cache, in bytes: whole pages. */
  readonly tableMemory: number;
  /** Another cache, also with buffers in flight. */
  setTables(cache: TableConfig): void;
  /** Gives tables of the list back until `length` are left, and the pages of slabs without a table in use. */
  trimTables(length: number): void;
  /** The threshold, and its last changes, at most THRESHOLD_HISTORY; `changes` counts all of them. */
  readonly threshold: { value: number; changes: number; history: ThresholdChange[] };
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
  /** Where the next buffer will be made available; `next_off` and `next_wrap` of a notification (2.9). */
  readonly position: Position;
  /** Copies the private state. */
  save(): DriverRingState;
  /** Takes over a state that `save` made and the caller has checked. The areas are left as they are. */
  load(state: DriverRingState): void;
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
 * - A fault found in a chain takes precedence over RESULT_NO_ROOM.
 * - availableBytes checks as pop does; a bad chain that is not first in line ends the sum there.
 *
 * In-order use: `fill` and `pushBurst` mark elements as done, in any order; `offset` means nothing. `flush`,
 * whatever its `n`, and `pushBurst` publish all that are done from the oldest one on, stepping by each one's
 * own slots, as few used entries as the rules allow: an element whose written length is its whole writable
 * length (below 2^32-1) needs no entry of its own if the one after it is done too and `batches` is set, and the
 * entry of a batch lies where its first element's would. Without `batches` every element has an entry. pushBurst returns how many it marked; one that marks none publishes
 * nothing. An element that was detached keeps its place in the order: none popped after it is published.
 *
 * Packed:
 * - The flags of the first slot are loaded (acquired) before anything else of a chain. Every further slot of
 *   the chain must be available, too. Faults name the slot of the chain's head, but FAULT_INDIRECT_* the slot
 *   of the descriptor that has the flag. Checks: availability of a
 *   further slot (FAULT_DESC_UNAVAILABLE, a = head slot, b = that slot); INDIRECT not negotiated, or with
 *   NEXT or not first in its chain (FAULT_INDIRECT_NEXT); table length; table range; count over the whole
 *   chain against the queue size (FAULT_CHAIN_LONG); order; range; total bytes; at the end the id (of the last
 *   ring descriptor): not below the size (FAULT_HEAD_RANGE), in flight (FAULT_HEAD_IN_FLIGHT); and the slots
 *   beside those in flight (FAULT_SLOTS).
 * - In a table only WRITE means something; its descriptors are used in order, all of them.
 * - Used descriptors carry WRITE if the written length is above 0. A burst writes all used descriptors before
 *   the flags of its first one.
 * - `fill` keeps id and length aside; `flush` writes them, each at the slot behind the one before it.
 * - Event flags as in the driver, with the device's own structure.
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
  /** Publishes `n` filled slots (in-order use: all that are done). 0, or RESULT_SLOT if one is not filled. */
  flush(n: number): number;
  /**
   * Forgets an element in flight without a used entry. 0, or RESULT_NOT_IN_FLIGHT. In a packed ring its slots
   * stay taken.
   */
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
  /** 1 if the driver wants to be notified of what was pushed since the last call (2.7.7). 0, uncounted, if nothing was. */
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
  /** Copies the private state. */
  save(): DeviceRingState;
  /** Takes over a state that `save` made and the caller has checked. */
  load(state: DeviceRingState): void;
}

/** Makes rings on one memory. */
export interface Engine {
  readonly name: 'wasm' | 'typescript';
  driverRing(config: DriverRingConfig): DriverRing;
  deviceRing(config: DeviceRingConfig): DeviceRing;
  /** Copies `length` bytes, as if at once; ranges that the caller has checked to lie in the memory. */
  copy(to: number, from: number, length: number): void;
}
