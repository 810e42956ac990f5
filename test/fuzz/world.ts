import {
  type Burst,
  type Completions,
  type DeviceQueue,
  type DeviceState,
  type DriverQueue,
  type DriverState,
  type Elements,
  Feature,
  type Host,
  type QueueStats,
  type Region,
  VringError,
} from '../../src/index.js';
import { ENGINES, type EngineName, loader } from '../support/engines.js';
import { type Config, THRESHOLD } from './config.js';
import { ARENA, FILLERS, FIXED, GUARD, type Layout, type Range } from './layout.js';

/** Sizes of the record arrays. */
export const BURST = { buffers: 6, segments: 24 };
export const COMPLETIONS = [1, 3, 64];
export const ELEMENTS = [
  { capacity: 1, pieces: 3 },
  { capacity: 4, pieces: 9 },
  { capacity: 40, pieces: 400 },
];

export interface Segment {
  address: bigint;
  length: number;
}

/** Bytes that the peer writes. */
export interface Poke {
  at: number;
  data: Uint8Array;
}

/** A memory with its engine: made once, used by one scenario after the other. */
export interface Place {
  engine: EngineName;
  host: Host;
  bytes: Uint8Array;
  filler: number;
  /** What a guard looks like. */
  sentinels: Uint8Array;
}

export async function createPlaces(): Promise<Place[]> {
  const places: Place[] = [];
  for (const [i, engine] of ENGINES.entries()) {
    const memory = new WebAssembly.Memory({ initial: (FIXED + ARENA) / 65536 });
    const host = await loader(engine)({ memory, base: FIXED, size: ARENA });
    const bytes = new Uint8Array(memory.buffer);
    bytes.fill(FILLERS[i], 0, FIXED);
    const sentinels = new Uint8Array(4 * GUARD).fill(FILLERS[i]);
    places.push({ engine, host, bytes, filler: FILLERS[i], sentinels });
  }
  return places;
}

/** Both sides of a queue on one engine. */
export class World {
  readonly driver: DriverQueue;
  readonly device: DeviceQueue;
  private readonly burst: Burst;
  private readonly completions: Completions[];
  readonly elements: Elements[];
  /** What the last operation returned, spelled out as numbers. */
  out: number[] = [];
  /** The VringError that it threw, or ''. */
  error = '';
  /** How often the queues have called back. */
  called = 0;
  /** What the peer does as soon as the queue calls back. */
  armed: Poke | undefined;

  constructor(
    readonly place: Place,
    config: Config,
    private readonly layout: Layout,
  ) {
    const { host, bytes, filler } = place;
    bytes.fill(filler, 0, layout.end);
    for (const { start, end } of layout.owned) bytes.fill(0, start, end);
    const { ring, size, strict, callbacks } = config;
    const features: number[] = [Feature.VERSION_1];
    if (ring === 'packed') features.push(Feature.RING_PACKED);
    if (config.eventIdx) features.push(Feature.EVENT_IDX);
    if (config.indirect) features.push(Feature.INDIRECT_DESC);
    if (config.inOrder) features.push(Feature.IN_ORDER);
    const { areas, tables, regions } = layout;
    const strike = () => {
      this.called++;
      if (this.armed !== undefined) this.poke(this.armed);
      this.armed = undefined;
    };
    this.driver = host.driverQueue({
      ring,
      size,
      features,
      areas,
      strict,
      indirect: {
        policy: config.policy,
        ...(config.policy === 'static' && { threshold: THRESHOLD }),
        memory: tables,
        tables: config.tables,
      },
      ...(callbacks && { notify: strike }),
    });
    this.device = host.deviceQueue({
      ring,
      size,
      features,
      areas,
      regions,
      batches: config.batches,
      translation: config.translation,
      ...(callbacks && { interrupt: strike }),
    });
    this.burst = this.driver.createBurst(BURST.buffers, BURST.segments);
    this.completions = COMPLETIONS.map((capacity) => this.driver.createCompletions(capacity));
    this.elements = ELEMENTS.map(({ capacity, pieces }) => this.device.createElements(capacity, pieces));
  }

  /** Does something, and notes what came of it. Anything but a VringError gets through. */
  attempt(act: (world: World) => void): void {
    this.out.length = 0;
    this.error = '';
    try {
      act(this);
    } catch (error) {
      if (!(error instanceof VringError)) throw error;
      this.error = error.message;
    }
  }

  // ---- The peer ----

  poke({ at, data }: Poke): void {
    this.place.bytes.set(data, at);
  }

  answer(value: boolean): void {
    this.out.push(Number(value));
  }

  // ---- The driver ----

  add(out: Segment[], in_: Segment[], token: number): void {
    this.out.push(Number(this.driver.add(out, in_, token)));
  }

  /** Appends to the burst; only a burst that is full or a bad segment stops it. */
  append(out: Segment[], in_: Segment[], token: number): void {
    for (const { address, length } of out) this.burst.out(address, length);
    for (const { address, length } of in_) this.burst.in(address, length);
    this.burst.end(token);
    this.out.push(this.burst.pending);
  }

  addBurst(): void {
    const { driver, burst, out } = this;
    out.push(driver.addBurst(burst), burst.pending);
  }

  clearBurst(): void {
    this.burst.clear();
  }

  getBuf(): void {
    const got = this.driver.getBuf();
    if (got !== undefined) this.out.push(got.token, got.length);
  }

  getBurst(which: number): void {
    const completions = this.completions[which];
    const n = this.driver.getBurst(completions);
    const { words } = completions;
    for (let i = 0; i < 2 * Math.min(n, completions.capacity); i++) this.out.push(words[i]);
    if (n > completions.capacity) throw new Error(`getBurst brought ${n} of at most ${completions.capacity}`);
  }

  detachUnused(): void {
    const token = this.driver.detachUnused();
    if (token !== undefined) this.out.push(token);
  }

  enableCallbacksPrepare(): void {
    this.out.push(this.driver.enableCallbacksPrepare());
  }

  reset(): void {
    const tokens = this.driver.reset();
    this.device.reset();
    this.burst.clear();
    this.armed = undefined;
    for (const token of tokens) this.out.push(token);
  }

  // ---- The device ----

  /** As popBurst of one. */
  pop(): void {
    const element = this.device.pop();
    if (element === undefined) return;
    const { out } = this;
    out.push(element.id, element.out.length, element.in.length);
    for (const { address, length } of element.out) out.push(address, length);
    for (const { address, length } of element.in) out.push(address, length);
  }

  /** id, number of out and of in pieces, and the pieces, for each element. */
  popBurst(which: number, max: number): void {
    const elements = this.elements[which];
    const n = this.device.popBurst(elements, max);
    if (n > max) throw new Error(`popBurst brought ${n} of at most ${max}`);
    const { words, pieceWords } = elements;
    const { out } = this;
    let pieces = 0;
    for (let i = 0; i < n; i++) {
      const first = words[i * 4 + 1];
      const outs = words[i * 4 + 2] & 0xffff;
      const ins = words[i * 4 + 2] >>> 16;
      if (first !== pieces) throw new Error(`element ${i} starts at piece ${first}, not at ${pieces}`);
      pieces += outs + ins;
      if (pieces > elements.pieces)
        throw new Error(`popBurst brought ${pieces} pieces of at most ${elements.pieces}`);
      out.push(words[i * 4], outs, ins);
      for (let p = first; p < pieces; p++) out.push(pieceWords[p * 2], pieceWords[p * 2 + 1]);
    }
  }

  pushBurst(which: number, n: number): void {
    this.out.push(this.device.pushBurst(this.elements[which], n));
  }

  availableBytes(maxIn: number, maxOut: number): void {
    const sums = this.device.availableBytes(maxIn, maxOut);
    this.out.push(sums.in, sums.out);
  }

  /** Whether an element with this id is in flight and not done; only after a burst that was refused. */
  holds(id: number): boolean {
    if (this.device.broken) return false;
    return this.device.save().elements.some((element) => element.id === id && element.written < 0);
  }

  // ---- What can be asked besides ----

  /** The bytes of a range. */
  bytes({ start, end }: Range): Uint8Array {
    return this.place.bytes.subarray(start, end);
  }

  numbers(): number[] {
    const { driver, device } = this;
    return [driver.numFree, driver.inFlight, driver.tableBytes, device.inFlight, driver.notificationData(0)];
  }

  stats(): QueueStats[] {
    return [this.driver.stats(), this.device.stats()];
  }

  fault(side: 'driver' | 'device'): string {
    const { fault } = this[side];
    return fault === undefined ? '' : `${fault.code}: ${fault.reason}`;
  }

  restore(side: 'driver' | 'device', state: DriverState | DeviceState): void {
    if (side === 'driver') this.driver.restore(state as DriverState);
    else this.device.restore(state as DeviceState);
  }

  setRegions(regions: Region[]): void {
    this.device.setRegions(regions);
  }

  resize(size: number): void {
    for (const token of this.driver.resize(size, this.layout.areas)) this.out.push(token);
    this.device.resize(size, this.layout.areas);
    this.burst.clear();
  }

  /** Gives everything back. Throws if something is left. */
  release(): void {
    this.burst.free();
    for (const records of [...this.completions, ...this.elements]) records.free();
    this.driver.release();
    this.device.release();
    if (this.place.host.used !== 0)
      throw new Error(`${this.place.host.used} bytes of the arena were not given back`);
  }
}
