import * as L from '../../assembly/abi/layout.js';
import type { DeviceRing, DeviceRingConfig, Engine, TranslationStrategy } from '../engine/engine.js';
import { type Region, Regions } from '../engine/regions.js';
import { show, VringError } from '../errors.js';
import type { Arena, LinearMemory } from '../memory.js';
import { integer, isU32 } from './check.js';
import { Elements } from './elements.js';
import { type DeviceInspection, inspectDevice } from './inspect/inspect.js';
import {
  type Areas,
  type CheckedOptions,
  checkAreas,
  checkOptions,
  checkSize,
  Queue,
  type QueueOptions,
} from './queue.js';
import { checkDeviceState, type DeviceState } from './state.js';

export interface DeviceQueueOptions extends QueueOptions {
  /** Where the driver put the ring, as guest addresses. */
  areas: Areas;
  /**
   * The guest memory that the driver's addresses mean and that the device may touch. If absent, an address
   * is a byte offset in the engine's memory, all of which (as large as it is now) may be touched.
   */
  regions?: Iterable<Region>;
  /**
   * What becomes of the windows of guest memory that were resolved for the chain before, at each chain popped, each
   * `availableBytes` and each buffer inspected. `lazy` (default): they are forgotten where the next ones are
   * needed. `eager`: all 104 bytes of the cache are cleared at once, as implementations have done that others are compared
   * with. Nothing else differs.
   */
  translation?: TranslationStrategy;
  /**
   * In-order use (2.7.9, 2.8.9): whether one used entry may stand for several elements, those before its own being
   * written completely. True by default; false where the driver looks for an entry of each buffer. Without IN_ORDER
   * each has one anyway.
   */
  batches?: boolean;
  /**
   * Called after `push`, `pushBurst` and `flush` when the driver is to be interrupted. Without it, ask
   * `shouldInterrupt`.
   */
  interrupt?: (queue: DeviceQueue) => void;
}

/** A range of the engine's memory. */
export interface Piece {
  /** Byte offset in the engine's memory. */
  address: number;
  /** Bytes. */
  length: number;
}

/** A buffer that the driver made available. */
export interface Element {
  /** Head of its chain: what identifies it until it is pushed. */
  id: number;
  /** What the device may read, in order. */
  out: Piece[];
  /** What the device may write, in order. */
  in: Piece[];
}

const SCRATCH_PIECES = 64;

/**
 * Device side of a virtqueue: takes the buffers that the driver made available and gives them back.
 *
 * The driver is not trusted: what it writes is checked, and a violation breaks the queue (`broken`,
 * `fault`) until `reset()`.
 */
export class DeviceQueue extends Queue<DeviceRing> {
  private readonly engine: Engine;
  private config: DeviceRingConfig;
  private readonly interruptDriver: ((queue: DeviceQueue) => void) | undefined;
  private single: Elements;

  /** Use `engine.deviceQueue`. @internal */
  constructor(engine: Engine, memory: LinearMemory, arena: Arena, options: DeviceQueueOptions) {
    const checked = checkOptions(options);
    const { interrupt } = options;
    if (interrupt !== undefined && typeof interrupt !== 'function')
      throw new VringError('EINVAL', `interrupt must be a function, got ${show(interrupt)}`);
    const translation = checkTranslation(options.translation);
    const { batches = true } = options;
    if (typeof batches !== 'boolean')
      throw new VringError('EINVAL', `batches must be true or false, got ${show(batches)}`);
    const config = deviceConfig(
      { ...checked, batches, translation },
      options.areas,
      checkRegions(options.regions, memory),
    );
    super(engine.deviceRing(config), memory, arena, 'device', checked.ring, checked.size);
    this.engine = engine;
    this.config = config;
    this.interruptDriver = interrupt;
    try {
      this.single = new Elements(memory, arena, 1, Math.min(checked.size, SCRATCH_PIECES), checked.size);
    } catch (error) {
      this.core.release();
      throw error;
    }
  }

  /** Elements popped and not yet pushed or detached. */
  get inFlight(): number {
    return this.core.inFlight;
  }

  /**
   * Takes the next buffer that the driver made available.
   * @returns undefined if there is none
   * @throws VringError the fault's code when the driver broke the rules of the ring
   */
  pop(): Element | undefined {
    let { single } = this;
    let got = this.core.popBurst(single.elementsAddress, single.piecesAddress, single.pieces, 1);
    while (got === L.RESULT_NO_ROOM && single.pieces < L.PIECES_MAX) {
      const larger = new Elements(
        this.memory,
        this.arena,
        1,
        Math.min(L.PIECES_MAX, single.pieces * 4),
        this.size,
      );
      single.free();
      this.single = single = larger;
      got = this.core.popBurst(single.elementsAddress, single.piecesAddress, single.pieces, 1);
    }
    if (got < 0) this.failPop(got, single);
    single.count = got;
    if (got === 0) return undefined;
    const outs = single.outCount(0);
    const ins = single.inCount(0);
    const out = new Array<Piece>(outs);
    for (let p = 0; p < outs; p++) out[p] = { address: single.address(p), length: single.length(p) };
    const in_ = new Array<Piece>(ins);
    for (let p = 0; p < ins; p++)
      in_[p] = { address: single.address(outs + p), length: single.length(outs + p) };
    return { id: single.id(0), out, in: in_ };
  }

  /**
   * Takes up to `max` buffers into `elements`, replacing what it held.
   * @returns how many; if fewer than `max`, either a notification will come for the next one, or its
   *   pieces did not fit any more, or it is bad: the next call says
   * @throws VringError ENOSPC if one buffer has more pieces than `elements` holds; the fault's code when
   *   the driver broke the rules of the ring
   */
  popBurst(elements: Elements, max?: number): number {
    if (!(elements instanceof Elements) || elements.memory !== this.memory)
      this.failRecords(elements, 'elements');
    if (max === undefined) max = elements.capacity;
    else if (max !== elements.capacity) this.counted(() => integer(max, 'max', 0, elements.capacity));
    const got = this.core.popBurst(elements.elementsAddress, elements.piecesAddress, elements.pieces, max);
    if (got < 0) this.failPop(got, elements);
    elements.count = got;
    return got;
  }

  private failPop(result: number, elements: Elements): never {
    if (result === L.RESULT_NO_ROOM)
      this.fail('ENOSPC', `the next buffer has more than ${elements.pieces} pieces: create larger elements`);
    this.failBroken();
  }

  /** Room for elements to be popped in one go. @param pieces in all; four for each element if absent, but enough for any chain */
  createElements(capacity: number, pieces?: number): Elements {
    return new Elements(this.memory, this.arena, capacity, pieces, this.size);
  }

  /**
   * Gives an element back to the driver.
   * @param written bytes written to its `in` segments, from the first on
   * @throws VringError EINVAL if it is not in flight or `written` is above its writable length
   */
  push(element: Pick<Element, 'id'>, written: number): void {
    this.fill(element, written, 0);
    this.flush(1);
  }

  /**
   * Gives the first `n` elements back, each with what `setWritten` said; the driver sees them all at once.
   * @throws VringError EINVAL for an element that is not in flight or whose written length is too large;
   *   those before it have been pushed
   */
  pushBurst(elements: Elements, n?: number): number {
    if (!(elements instanceof Elements) || elements.memory !== this.memory)
      this.failRecords(elements, 'elements');
    if (n === undefined) n = elements.count;
    else if (n !== elements.count) this.counted(() => integer(n, 'n', 0, elements.count));
    const pushed = this.core.pushBurst(elements.elementsAddress, n);
    if (pushed > 0) this.interrupt();
    if (pushed !== n) this.failPush(pushed, elements);
    return pushed;
  }

  private failPush(pushed: number, elements: Elements): never {
    if (pushed === L.RESULT_BROKEN) this.failBroken();
    if (pushed === L.RESULT_SLOT) this.fail('EINVAL', 'slots are filled and not flushed: flush them first');
    const id = elements.id(pushed);
    this.failUse(
      this.core.writable(id) < 0 ? L.RESULT_NOT_IN_FLIGHT : L.RESULT_WRITTEN,
      id,
      undefined,
      pushed,
    );
  }

  private failUse(result: number, id: number, written: number | undefined, index?: number): never {
    const where = index === undefined ? '' : ` (element ${index} of the burst; those before it were pushed)`;
    if (result === L.RESULT_NOT_IN_FLIGHT)
      this.fail('EINVAL', `element ${id} is not in flight: pushed before, or never popped${where}`);
    if (result === L.RESULT_WRITTEN)
      this.fail(
        'EINVAL',
        `written ${written ?? ''} is above the writable length ${this.core.writable(id)} of element ${id}${where}`,
      );
    this.failBroken();
  }

  /**
   * Writes the used entry of an element `i` slots ahead, which the driver does not see before `flush`.
   * @param i below the number of elements in flight: further ahead may be entries that the driver still reads
   * @throws VringError EINVAL for an element that is not in flight, `written` above its writable length, or
   *   a slot that is out of range or filled already
   */
  fill(element: Pick<Element, 'id'>, written: number, i: number): void {
    if (typeof element !== 'object' || element === null)
      this.fail('EINVAL', `element must be what pop returned, got ${show(element)}`);
    const { id } = element;
    if (!isU32(id)) this.fail('EINVAL', `element.id must be what pop returned, got ${show(id)}`);
    if (!isU32(written))
      this.fail('EINVAL', `written must be an integer from 0 to 2^32-1, got ${show(written)}`);
    if (!isU32(i)) this.fail('EINVAL', `slot must be an integer from 0 to ${this.size - 1}, got ${show(i)}`);
    const result = this.core.fill(id, written, i);
    if (result === L.RESULT_SLOT)
      this.fail(
        'EINVAL',
        `slot ${i} is filled already or not below the number of elements in flight, ${this.core.inFlight}`,
      );
    if (result < 0) this.failUse(result, id, written);
  }

  /**
   * Publishes the next `n` used entries, all of which must have been filled.
   * @throws VringError EINVAL
   */
  flush(n: number): void {
    if (!isU32(n)) this.fail('EINVAL', `n must be an integer from 0 to ${this.size}, got ${show(n)}`);
    const result = this.core.flush(n);
    if (result === L.RESULT_SLOT) this.fail('EINVAL', `not all of the next ${n} slots are filled`);
    if (result < 0) this.failBroken();
    if (n > 0) this.interrupt();
  }

  private interrupt(): void {
    if (this.interruptDriver !== undefined && this.shouldInterrupt()) this.interruptDriver(this);
  }

  /** Puts the last popped element back: the next `pop` returns it again. @throws VringError EINVAL if it is not the last one */
  unpop(element: Pick<Element, 'id'>): void {
    if (this.broken) this.failBroken();
    const last = this.core.lastPopped();
    if (element?.id !== last || this.core.rewind(1) !== 1)
      this.fail(
        'EINVAL',
        `element ${show(element?.id)} is not the last one popped (${last < 0 ? 'none' : last})`,
      );
  }

  /** Puts the last `n` popped elements back. @returns false if one of them is no longer in flight; nothing changed then */
  rewind(n: number): boolean {
    if (this.broken) this.failBroken();
    if (!isU32(n)) this.fail('EINVAL', `n must be an integer from 0 to ${this.size}, got ${show(n)}`);
    return this.core.rewind(n) === 1;
  }

  /** Forgets an element without giving it back: it will never be pushed. @throws VringError EINVAL if it is not in flight */
  detach(element: Pick<Element, 'id'>): void {
    const id = element?.id;
    if (!isU32(id) || this.core.detach(id) !== 0) this.fail('EINVAL', `element ${show(id)} is not in flight`);
  }

  /**
   * Bytes that the available buffers hold, counted until both limits are reached.
   * @throws VringError the fault's code when the driver broke the rules of the ring
   */
  availableBytes(maxIn: number, maxOut: number): { in: number; out: number } {
    for (const max of [maxIn, maxOut])
      if (typeof max !== 'number' || !(max >= 0))
        this.fail('EINVAL', `limits must be numbers of bytes, got ${show(max)}`);
    if (this.core.availableBytes(maxIn, maxOut) < 0) this.failBroken();
    return { in: this.core.availableIn, out: this.core.availableOut };
  }

  /** Whether the driver wants to be interrupted for what was pushed since the last call (2.7.7). */
  shouldInterrupt(): boolean {
    return this.core.shouldInterrupt() === 1;
  }

  /** Asks for a notification at the next available buffer. @returns false if one is there already: pop it first */
  enableNotifications(): boolean {
    return this.core.enableNotifications() === 1;
  }

  /** Asks the driver for no more notifications (2.7.10). A hint: they may still come. */
  disableNotifications(): void {
    this.core.disableNotifications();
  }

  /**
   * Replaces the guest memory that buffers may lie in; those in flight keep their pieces.
   * The ring itself stays where it is.
   */
  setRegions(regions: Iterable<Region>): void {
    // Not `checkRegions`: what is undefined by mistake must not open all of the memory.
    const checked = this.counted(() => new Regions(regions, this.memory.extend()));
    this.core.setRegions(checked);
    this.config = { ...this.config, regions: checked };
  }

  /**
   * Follows the driver to a ring of another size (2.6.1): as `reset`, in other areas.
   * @param areas where the driver put it, as guest addresses
   * @throws VringError EINVAL, EFAULT, ENOMEM; the old ring is as it was
   */
  resize(size: number, areas: Areas): void {
    this.checkReleased();
    const config = this.counted(() => {
      checkSize(this.ring, size);
      return deviceConfig({ ...this.config, size }, areas, this.config.regions);
    });
    this.replace(this.engine.deviceRing(config), size);
    this.config = config;
  }

  /** The queue as plain data: survives JSON and structured clone. Ring and buffers stay in memory. */
  save(): DeviceState {
    if (this.broken) this.failBroken();
    const { ring, size, eventIdx, inOrder, areas } = this.config;
    const counts = Array.from({ length: L.COUNTERS }, (_, index) => this.core.counter(index));
    return {
      side: 'device',
      version: 1,
      ring,
      size,
      eventIdx,
      inOrder,
      areas: { ...areas },
      counts,
      ...this.core.save(),
    };
  }

  /**
   * Goes on where the queue that was saved stopped. This queue must have the same ring format, size and
   * features, and areas that hold the ring's bytes. The pieces of elements in flight are not part of a state:
   * whoever popped them keeps them.
   * @throws VringError EINVAL if the state does not fit this queue or contradicts itself; nothing was changed
   */
  restore(state: DeviceState): void {
    this.checkReleased();
    const checked = this.counted(() => checkDeviceState(state, this.config));
    const core = this.engine.deviceRing(this.config);
    core.load(checked);
    checked.counts.forEach((n, index) => {
      core.addCounter(index, n);
    });
    this.core.release();
    this.core = core;
  }

  /**
   * Everything there is to know about the queue, for people: what it remembers beside what stands in memory,
   * and what is wrong with it. Plain data, ready for JSON. Never throws because of what the driver wrote, and
   * works on a broken queue.
   */
  inspect(): DeviceInspection {
    const known = { fault: this.fault, stats: this.stats() };
    const { regions, translation } = this.config;
    const at = { buffer: this.memory.buffer, regions, translation };
    return inspectDevice(this.core.save(), this.config, known, at);
  }

  /** Makes the queue as new: no fault, nothing in flight, positions 0. The ring is the driver's to clear. */
  reset(): void {
    this.core.reset();
  }

  /** Gives everything back to the arena. The queue must not be used afterwards. */
  release(): void {
    this.releaseCore();
    this.single.free();
  }
}

function deviceConfig(
  checked: CheckedOptions & Pick<DeviceRingConfig, 'batches' | 'translation'>,
  given: Areas,
  regions: Regions,
): DeviceRingConfig {
  const { ring, size, eventIdx, inOrder, batches, indirect, translation } = checked;
  const areas = checkAreas(given, ring, size, (address, bytes) => regions.local(address, bytes));
  return { ring, size, eventIdx, inOrder, batches, indirect, areas, regions, translation };
}

function checkTranslation(strategy: TranslationStrategy = 'lazy'): TranslationStrategy {
  if (strategy !== 'lazy' && strategy !== 'eager')
    throw new VringError('EINVAL', `translation must be 'lazy' or 'eager', got ${show(strategy)}`);
  return strategy;
}

function checkRegions(regions: Iterable<Region> | undefined, memory: LinearMemory): Regions {
  const bytes = memory.extend();
  return new Regions(regions === undefined ? [{ guest: 0, length: bytes, local: 0 }] : regions, bytes);
}
