// Saved queues. A state comes from outside (a file, another thread): everything in it is checked before a
// ring takes it over.

import * as L from '../../assembly/abi/layout.js';
import type {
  BufferState,
  DeviceRingConfig,
  DeviceRingState,
  DriverRingConfig,
  DriverRingState,
  ElementState,
  LocalAreas,
  RingFormat,
  ThresholdState,
} from '../engine/engine.js';
import { byTable, tablePages } from '../engine/table-pages.js';
import { show, VringError } from '../errors.js';

/** What saved queues of both sides have in common. */
export interface SavedQueue {
  /**
   * Version of this shape. 1, the only one so far, is `DriverState` and `DeviceState` as they stand here, with each of
   * their fields; a state of another version, or one that lacks a field, is refused. Whoever adds, drops or changes a
   * field after a release counts this up.
   */
  version: 1;
  ring: RingFormat;
  size: number;
  eventIdx: boolean;
  inOrder: boolean;
  /** Where the ring lies, as byte offsets in the engine's memory. */
  areas: LocalAreas;
  /** The counters behind `stats()`, all of them. */
  counts: number[];
}

/** A saved driver queue. */
export interface DriverState extends SavedQueue, DriverRingState {
  side: 'driver';
  /** Memory that its indirect tables lie in; length 0 if it has none. */
  tables: { address: number; length: number };
}

/** A saved device queue. */
export interface DeviceState extends SavedQueue, DeviceRingState {
  side: 'device';
}

/** Granules of the longest table: room for as many as the longest queue has, in a block of pages. */
const ROOM_MAX = 2 * L.QUEUE_SIZE_MAX;
const U16 = 0xffff;
const U32 = 0xffffffff;

function bad(what: string): never {
  throw new VringError('EINVAL', `the saved state does not fit: ${what}`);
}

/** What to do with a state that has not the shape of this version. */
const AGAIN = 'save the queue with the version of vring that is to restore it';

/** Refuses what is not there at all: a state of before the field was. */
function present(value: unknown, what: string): void {
  if (value === undefined) bad(`${what} is missing; ${AGAIN}`);
}

function int(value: unknown, what: string, min: number, max: number): number {
  present(value, what);
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max)
    bad(`${what} must be an integer from ${min} to ${max}, got ${show(value)}`);
  return value;
}

function record(value: unknown, what: string): Record<string, unknown> {
  present(value, what);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    bad(`${what} must be an object, got ${show(value)}`);
  return value as Record<string, unknown>;
}

/** The state itself: where there is none at all, no field is missing. */
function whole(state: unknown): Record<string, unknown> {
  if (state === undefined) bad('it must be an object, got undefined');
  return record(state, 'it');
}

function array(value: unknown, what: string, max: number): unknown[] {
  present(value, what);
  if (!Array.isArray(value) || value.length > max)
    bad(`${what} must be an array of at most ${max}, got ${show(value)}`);
  // Not the array itself: it may have holes, which `map` would leave as they are.
  return Array.from(value);
}

/** A position of a ring: any 16-bit index (split), a slot and a wrap counter (packed). */
function position(value: unknown, what: string, { ring, size }: { ring: RingFormat; size: number }): number {
  const checked = int(value, what, 0, U16);
  if (ring === 'packed') int(checked & 0x7fff, `${what} (slot)`, 0, size - 1);
  return checked;
}

/** How far position `to` is ahead of `from`: buffers (split) or slots (packed). */
export function distance(ring: RingFormat, size: number, from: number, to: number): number {
  if (ring === 'split') return (to - from) & U16;
  const slots = (to & 0x7fff) - (from & 0x7fff);
  return (to ^ from) & 0x8000 ? slots + size : slots;
}

function checkQueue(
  state: Record<string, unknown>,
  side: 'driver' | 'device',
  config: { ring: RingFormat; size: number; eventIdx: boolean; inOrder: boolean },
): SavedQueue {
  if (state.version !== 1) bad(`version must be 1, got ${show(state.version)}; ${AGAIN}`);
  present(state.side, 'side');
  if (state.side !== side) bad(`it is of a ${show(state.side)} queue, this is a ${side} queue`);
  for (const key of ['ring', 'size', 'eventIdx', 'inOrder'] as const) {
    present(state[key], key);
    if (state[key] !== config[key]) bad(`${key} is ${show(state[key])}, this queue has ${show(config[key])}`);
  }
  const areas = record(state.areas, 'areas');
  const counters = side === 'driver' ? L.DRIVER_COUNTERS : L.COUNTERS;
  const counts = array(state.counts, 'counts', counters);
  if (counts.length !== counters) bad(`counts has ${counts.length} of ${counters} counters; ${AGAIN}`);
  return {
    version: 1,
    ring: config.ring,
    size: config.size,
    eventIdx: config.eventIdx,
    inOrder: config.inOrder,
    areas: {
      descriptor: int(areas.descriptor, 'areas.descriptor', 0, U32),
      driver: int(areas.driver, 'areas.driver', 0, U32),
      device: int(areas.device, 'areas.device', 0, U32),
    },
    counts: counts.map((n, i) => int(n, `counts[${i}]`, 0, Number.MAX_SAFE_INTEGER)),
  };
}

/** Marks `index` in a set of small numbers; refuses one that is there already. */
function claim(taken: Set<number>, index: number, what: string): void {
  if (taken.has(index)) bad(`${what} ${index} appears twice`);
  taken.add(index);
}

/** What a saved driver queue is checked against. */
type Shape = Pick<DriverRingConfig, 'ring' | 'size' | 'eventIdx' | 'inOrder'>;

function checkBuffer(value: unknown, what: string, config: Shape): BufferState {
  const { ring, size } = config;
  const buffer = record(value, what);
  const segments = int(buffer.segments, `${what}.segments`, 1, size);
  const table = int(buffer.table, `${what}.table`, 0, U32);
  const id = int(buffer.id, `${what}.id`, 0, size - 1);
  const descriptors = array(buffer.descriptors, `${what}.descriptors`, size).map((index, i) =>
    int(index, `${what}.descriptors[${i}]`, 0, size - 1),
  );
  const room = int(buffer.room, `${what}.room`, table === 0 ? 0 : segments, table === 0 ? 0 : ROOM_MAX);
  const wanted = table === 0 ? segments : 1;
  if (descriptors.length !== wanted) bad(`${what} has ${descriptors.length} descriptors, not ${wanted}`);
  if (ring === 'split' && descriptors[0] !== id) bad(`${what} has id ${id}, but starts at ${descriptors[0]}`);
  if (ring === 'packed' || config.inOrder)
    for (let i = 1; i < descriptors.length; i++)
      if (descriptors[i] !== (descriptors[i - 1] + 1) % size)
        bad(`${what}.descriptors do not follow each other`);
  return {
    id,
    token: int(buffer.token, `${what}.token`, 0, U32),
    segments,
    writable: int(buffer.writable, `${what}.writable`, 0, U32),
    table,
    room,
    descriptors,
  };
}

/**
 * Tables lie where the allocator could have put them: in a slab page, all of one size, or in a block of pages;
 * and none in another.
 */
function checkTables(buffers: BufferState[], tables: { address: number; length: number }): void {
  const { pages, granules } = tablePages(tables.length);
  let end = 0; // of the table before, in granules
  let before = { page: -1, room: 0 };
  for (const { table, room } of byTable(buffers)) {
    const granule = (table - tables.address) / L.DESC_BYTES;
    if (!Number.isInteger(granule) || granule < end)
      bad(`the table at ${table} overlaps another or leaves the table memory`);
    end = granule + room;
    if (end > pages * granules)
      bad(`a table ends at ${table + room * L.DESC_BYTES}, behind the table memory`);
    const page = Math.floor(granule / granules);
    const within = granule % granules;
    const blocks = room / granules;
    const placed =
      room <= granules
        ? within % room === 0 && within + room <= granules
        : Number.isInteger(Math.log2(blocks)) && within === 0 && page % blocks === 0;
    if (!placed) bad(`the table at ${table} with room for ${room} lies where the allocator puts none`);
    if (page === before.page && room !== before.room)
      bad(`the table at ${table} has room for ${room}, others of its page for ${before.room}`);
    before = { page, room };
  }
}

/** @throws VringError EINVAL */
export function checkDriverState(state: unknown, config: Shape, memoryBytes: number): DriverState {
  const { ring, size, inOrder } = config;
  const given = whole(state);
  const queue = checkQueue(given, 'driver', config);
  const tableMemory = record(given.tables, 'tables');
  const tables = {
    address: int(tableMemory.address, 'tables.address', 0, U32),
    length: int(tableMemory.length, 'tables.length', 0, 2 ** 32),
  };
  if (tables.address % L.DESC_BYTES !== 0 || tables.address + tables.length > memoryBytes)
    bad(
      `the table memory (${tables.length} bytes at ${tables.address}) is not aligned or outside the memory`,
    );
  const avail = position(given.avail, 'avail', config);
  const used = position(given.used, 'used', config);
  const buffers = array(given.buffers, 'buffers', size).map((buffer, i) =>
    checkBuffer(buffer, `buffers[${i}]`, config),
  );
  const free = array(given.free, 'free', size).map((index, i) => int(index, `free[${i}]`, 0, size - 1));

  const descriptors = new Set<number>();
  const ids = new Set<number>();
  for (const buffer of buffers) {
    claim(ids, buffer.id, 'id');
    // In a packed ring a slot is used again as soon as something was used there, whatever lay there before.
    if (ring === 'split') for (const index of buffer.descriptors) claim(descriptors, index, 'descriptor');
  }
  const all = ring === 'split' ? descriptors : ids;
  for (const index of free) claim(all, index, 'free');
  if (all.size !== size) bad(`${size - all.size} descriptors are neither free nor in flight`);
  checkTables(buffers, tables);

  const taken = buffers.reduce((sum, buffer) => sum + buffer.descriptors.length, 0);
  const slots = ring === 'packed' ? taken : buffers.length;
  const ahead = distance(ring, size, used, avail);
  // Each buffer that comes back moves `used` by what it took: the two agree at any time.
  if (ahead !== slots) bad(`avail ${avail} is ${ahead} ahead of used ${used}, with ${slots} in flight`);
  if (inOrder) checkOrder(buffers, free, used, config);

  const batchLeft = int(given.batchLeft, 'batchLeft', 0, inOrder ? buffers.length : 0);
  const last = buffers[batchLeft - 1];
  return {
    side: 'driver',
    ...queue,
    tables,
    avail,
    used,
    events: int(given.events, 'events', 0, ring === 'packed' && config.eventIdx ? 2 : 1),
    unkicked: int(given.unkicked, 'unkicked', 0, 0x10000),
    free,
    buffers,
    batchLeft,
    batchLength: int(given.batchLength, 'batchLength', 0, batchLeft > 0 ? last.writable : 0),
    threshold: checkThreshold(given.threshold, size),
  };
}

function checkThreshold(value: unknown, size: number): ThresholdState {
  const { threshold, lap, peak } = record(value, 'threshold');
  return {
    threshold: int(threshold, 'threshold.threshold', 1, L.QUEUE_SIZE_MAX),
    lap: int(lap, 'threshold.lap', 0, Math.max(size, L.THRESHOLD_LAP_SEGMENTS) - 1),
    peak: int(peak, 'threshold.peak', 0, U32),
  };
}

/** In-order use: buffers lie one behind the other, and what is free behind the youngest. */
function checkOrder(buffers: BufferState[], free: number[], used: number, { ring, size }: Shape): void {
  let next = ring === 'packed' ? used & 0x7fff : (buffers[0]?.id ?? free[0] ?? 0);
  buffers.forEach(({ descriptors }, i) => {
    if (descriptors[0] !== next)
      bad(`buffers[${i}] starts at ${descriptors[0]}, in order it would at ${next}`);
    next = (next + descriptors.length) % size;
  });
  const order =
    ring === 'split' ? buffers.flatMap(({ descriptors }) => descriptors) : buffers.map(({ id }) => id);
  const cycle = [...order, ...free];
  for (let i = 1; i < cycle.length; i++)
    if (cycle[i] !== (cycle[i - 1] + 1) % size) bad('ids or descriptors do not follow each other in order');
}

function checkElement(value: unknown, what: string, config: DeviceRingConfig): ElementState {
  const { ring, size, inOrder } = config;
  const element = record(value, what);
  const writable = int(element.writable, `${what}.writable`, 0, U32);
  return {
    id: int(element.id, `${what}.id`, 0, size - 1),
    writable,
    slots: int(element.slots, `${what}.slots`, 1, ring === 'split' ? 1 : size),
    ago: int(element.ago, `${what}.ago`, -1, size - 1),
    written: int(element.written, `${what}.written`, -1, inOrder ? writable : -1),
  };
}

/** @throws VringError EINVAL */
export function checkDeviceState(state: unknown, config: DeviceRingConfig): DeviceState {
  const { ring, size, inOrder } = config;
  const given = whole(state);
  const queue = checkQueue(given, 'device', config);
  const avail = position(given.avail, 'avail', config);
  const used = position(given.used, 'used', config);
  const elements = array(given.elements, 'elements', size).map((element, i) =>
    checkElement(element, `elements[${i}]`, config),
  );
  const fills = array(given.fills, 'fills', inOrder ? 0 : size).map((value, i) => {
    const fill = record(value, `fills[${i}]`);
    return {
      offset: int(fill.offset, `fills[${i}].offset`, 0, size - 1),
      id: int(fill.id, `fills[${i}].id`, 0, size - 1),
      written: int(fill.written, `fills[${i}].written`, 0, U32),
      slots: int(fill.slots, `fills[${i}].slots`, 1, ring === 'split' ? 1 : size),
    };
  });
  const ids = new Set<number>();
  const offsets = new Set<number>();
  const agos = new Set<number>();
  let age = size;
  for (const { id, ago } of elements) {
    claim(ids, id, 'id');
    if (ago >= 0) claim(agos, ago, 'ago');
    if ((ago < 0 ? size : ago) > age) bad('elements are not in the order in which they were popped');
    age = ago < 0 ? size : ago;
  }
  for (const { id, offset } of fills) {
    claim(ids, id, 'id');
    claim(offsets, offset, 'offset');
  }
  const slots = [...elements, ...fills].reduce((sum, element) => sum + element.slots, 0);
  const ahead = distance(ring, size, used, avail);
  if (slots > size || ahead < slots || (ring === 'packed' && ahead > size))
    bad(`avail ${avail} is ${ahead} ahead of used ${used}, with ${slots} in flight`);
  const span = int(given.span, 'span', 0, ring === 'packed' && inOrder ? size : 0);
  if (ring === 'packed' && inOrder) {
    // Those that were detached have slots, and nobody else has.
    const detached = span - elements.length;
    if (detached < 0 || detached > ahead - slots || (detached === 0 && ahead > slots))
      bad(`span ${span} with ${elements.length} elements, and ${ahead - slots} slots beside theirs`);
    if (elements.some(({ ago }) => ago < 0 || ago >= span))
      bad(`an element was popped before the one to be used next, ${span} ago`);
  }
  return {
    side: 'device',
    ...queue,
    avail,
    used,
    events: int(given.events, 'events', 0, ring === 'packed' && config.eventIdx ? 2 : 1),
    unsignalled: int(given.unsignalled, 'unsignalled', 0, 0x10000),
    elements,
    span,
    fills,
  };
}
