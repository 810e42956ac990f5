import {
  type Burst,
  type Completions,
  type DeviceQueue,
  type DriverQueue,
  type Elements,
  Feature,
  type Host,
  type IndirectOptions,
  type Region,
  type TableOptions,
  type TranslationStrategy,
  VringError,
} from '../../src/index.js';
import { type EngineName, loader } from './engines.js';
import type { Buffer, Range } from './model.js';
import type { RingAreas } from './split-ring.js';

/** What a run is about. */
export interface Config {
  ring: 'split' | 'packed';
  size: number;
  inOrder: boolean;
  /** In-order use: of the device. */
  batches: boolean;
  eventIdx: boolean;
  indirect: boolean;
  policy: NonNullable<IndirectOptions['policy']>;
  /** Of a static policy. */
  threshold: number;
  tables: TableOptions;
  strict: boolean;
  /** Granules of table memory. */
  granules: number;
  shared: boolean;
  /** Give the queues their callbacks. */
  callbacks: boolean;
  /** The device may touch nothing but the fixed part of the memory. */
  fenced: boolean;
  /** What devices of each engine do with their translation cache; it changes no result and no byte. */
  translation: Record<EngineName, TranslationStrategy>;
  /** Where the buffers are cut into regions; none: as they are. */
  regions: { cuts: number[]; order: number[]; top: boolean } | undefined;
}

/** A range that the driver passes on as it is, wherever it leads. */
export interface RawRange {
  address: bigint;
  length: number;
}

/** One step, with everything that it needs. */
export type Op =
  | ['add' | 'append', Buffer]
  | ['poll', number]
  | ['getBurst' | 'flush' | 'rewind' | 'unpop' | 'detach' | 'cycles' | 'notificationData', number]
  | ['setTables', TableOptions]
  | ['trimTables', number]
  | ['moveDriver' | 'moveDevice', Move]
  | ['resize', number, number]
  | ['popBurst' | 'pushBurst' | 'availableBytes', number, number]
  | ['setWritten', number, number, number]
  | ['push', number, number]
  | ['fill', number, number, number]
  | [
      | 'addBurst'
      | 'clearBurst'
      | 'kick'
      | 'kickPrepare'
      | 'getBuf'
      | 'moreUsed'
      | 'disableCallbacks'
      | 'enableCallbacks'
      | 'enableCallbacksPrepare'
      | 'enableCallbacksDelayed'
      | 'pop'
      | 'shouldInterrupt'
      | 'enableNotifications'
      | 'disableNotifications'
      | 'setRegions'
      | 'reset',
    ];

/** Where a saved queue is restored: in the same object, in a new one, in a new one of the other engine. */
export type Move = 'same' | 'new' | 'other';

/** What only a peer does that breaks the rules: any segments, any bytes anywhere. */
export type HostileOp = ['addRaw', RawRange[], RawRange[], number] | ['poke', number, number[]];

/** Sizes of the record arrays that every world has. */
export const BURST = { buffers: 8, segments: 40 };
export const COMPLETIONS = [1, 4, 64];
export const ELEMENTS = [
  { capacity: 1, pieces: 3 },
  { capacity: 4, pieces: 9 },
  { capacity: 64, pieces: 512 },
];

const FILLER = 0xa5;

/** Byte `k` of the data of a buffer, in one direction. */
const pattern = (token: number, k: number, direction: 'out' | 'in'): number =>
  (token * 37 + k * 11 + (direction === 'in' ? 128 : 1)) & 0xff;

/** Where everything lies: the same in every world. All of it is below the arenas. */
export class Layout {
  /** Largest size that the ring may be given. */
  readonly capacity: number;
  /** A ring that is resized moves from one place to the other and back. */
  readonly places: { start: number; end: number; areas: RingAreas }[];
  readonly tables: { address: number; length: number };
  readonly buffers: { address: number; length: number };
  readonly slotBytes: number;
  readonly slots: number;
  readonly end: number;
  /** Guest address of the first byte of the buffers. */
  readonly guest: bigint;
  readonly regions: Region[] | undefined;
  /** Pieces of guest memory in guest order: offsets into the buffers, and where they really are. */
  private readonly chunks: { from: number; to: number; local: number }[];

  constructor(private readonly config: Config) {
    const size = Math.max(config.size, 16);
    this.capacity = size;
    let at = 64;
    const take = (bytes: number, align: number, off: number) => {
      const address = Math.ceil(at / align) * align + off;
      at = address + bytes + 40;
      return address;
    };
    const bytes = this.areaBytes(size);
    this.places = [0, 1].map(() => {
      const start = at;
      // No better aligned than they have to be.
      const areas = {
        descriptor: take(bytes.descriptor, 32, 16),
        driver: config.ring === 'split' ? take(bytes.driver, 4, 2) : take(bytes.driver, 8, 4),
        device: take(bytes.device, 8, 4),
      };
      return { start, end: at, areas };
    });
    this.tables = { address: take(16 * config.granules, 32, 16), length: 16 * config.granules };
    this.slots = size + BURST.buffers + 4;
    this.slotBytes = size <= 64 ? 192 : 16;
    this.buffers = { address: take(this.slots * this.slotBytes, 8, 3), length: this.slots * this.slotBytes };
    this.end = at;
    const { address, length } = this.buffers;
    if (!config.regions) {
      this.guest = BigInt(address);
      this.chunks = [{ from: 0, to: length, local: address }];
      this.regions = config.fenced ? [{ guest: 0, length: this.end, local: 0 }] : undefined;
      return;
    }
    const { cuts, order, top } = config.regions;
    // To the very end of the address space, or across a place where the lower half wraps.
    this.guest = top ? 2n ** 64n - BigInt(length) : 2n ** 40n - BigInt(length >> 1);
    const borders = [...new Set([0, ...cuts.map((cut) => 1 + (cut % (length - 1))), length])].sort(
      (a, b) => a - b,
    );
    this.chunks = borders.slice(1).map((to, i) => ({ from: borders[i], to, local: 0 }));
    const shuffled = this.chunks.map((chunk, i) => ({ chunk, key: order[i % order.length] }));
    shuffled.sort((a, b) => a.key - b.key);
    let local = address;
    for (const { chunk } of shuffled) {
      chunk.local = local;
      local += chunk.to - chunk.from;
    }
    this.regions = shuffled.map(({ chunk }) => ({
      guest: this.guest + BigInt(chunk.from),
      length: chunk.to - chunk.from,
      local: chunk.local,
    }));
    // The ring and the tables are where the driver says they are.
    this.regions.push({ guest: 0, length: address - 20, local: 0 });
  }

  get areas(): RingAreas {
    return this.places[0].areas;
  }

  /** Sizes of the areas of a ring. */
  areaBytes(size: number): RingAreas {
    return this.config.ring === 'split'
      ? { descriptor: 16 * size, driver: 6 + 2 * size, device: 6 + 8 * size }
      : { descriptor: 16 * size, driver: 4, device: 4 };
  }

  /** What the driver puts into a descriptor. */
  address(offset: number): number | bigint {
    const exact = this.guest + BigInt(offset);
    return exact <= Number.MAX_SAFE_INTEGER ? Number(exact) : exact;
  }

  /** Local pieces of a range of the buffers. */
  translate = ({ address, length }: Range): Range[] => {
    const pieces: Range[] = [];
    for (let at = address; at < address + length; ) {
      const chunk = this.chunks.find(({ from, to }) => at >= from && at < to);
      if (!chunk) throw new Error(`offset ${at} is outside the buffers`);
      const local = chunk.local + at - chunk.from;
      const here = Math.min(chunk.to, address + length) - at;
      const last = pieces.at(-1);
      // Regions that adjoin in both memories are one.
      if (last && last.address + last.length === local) last.length += here;
      else pieces.push({ address: local, length: here });
      at += here;
    }
    return pieces;
  };
}

/** Memories are used again and again: each takes gigabytes of address space. */
interface Place {
  memory: WebAssembly.Memory;
  /** An arena for each side and engine. */
  driver: Record<EngineName, Host>;
  device: Record<EngineName, Host>;
  free: boolean;
}

const places = new Map<string, Place[]>();

async function place(shared: boolean, fixed: number, arena: number): Promise<Place> {
  const key = `${shared} ${fixed} ${arena}`;
  const list = places.get(key) ?? [];
  places.set(key, list);
  let found = list.find(({ free }) => free);
  if (!found) {
    const pages = (fixed + 4 * arena) / 65536;
    const memory = new WebAssembly.Memory(
      shared ? { initial: pages, maximum: pages, shared } : { initial: pages },
    );
    const host = (engine: EngineName, i: number) =>
      loader(engine)({ memory, base: fixed + i * arena, size: arena });
    found = {
      memory,
      driver: { wasm: await host('wasm', 0), typescript: await host('typescript', 1) },
      device: { wasm: await host('wasm', 2), typescript: await host('typescript', 3) },
      free: true,
    };
    list.push(found);
  }
  found.free = false;
  return found;
}

const OTHER: Record<EngineName, EngineName> = { wasm: 'typescript', typescript: 'wasm' };

/** What comes of a state that is written to a file and read again. */
const throughJson = <T>(state: T): T => JSON.parse(JSON.stringify(state));

/** What a step came to: comparable, and readable in a report. */
export type Outcome = unknown;

/** A driver and a device on one memory. */
export class World {
  private driver: DriverQueue;
  private device: DeviceQueue;
  private burst!: Burst;
  private completions: Completions[] = [];
  private elements: Elements[] = [];
  private notified = 0;
  private interrupted = 0;
  /** Which of the layout's places the ring lies in, and the sizes of the rings that lay there last. */
  private at = 0;
  /** Where the driver's tables come from now. */
  private tableOptions: TableOptions;
  private readonly sizes: [number, number];

  static async create(
    driver: EngineName,
    device: EngineName,
    config: Config,
    layout: Layout,
  ): Promise<World> {
    // Two sizes only, so that there are few memories.
    const small = config.size <= 64;
    const fixed = small ? 2 ** 16 : 2 ** 22;
    const arena = small ? 2 ** 17 : 2 ** 22;
    if (layout.end > fixed) throw new Error(`the layout of ${layout.end} bytes is too large`);
    const where = await place(config.shared, fixed, arena);
    return new World({ driver, device }, where, config, layout);
  }

  private constructor(
    private readonly engines: { driver: EngineName; device: EngineName },
    private readonly place: Place,
    private readonly config: Config,
    private readonly layout: Layout,
  ) {
    this.u8.fill(FILLER, 0, layout.end);
    this.sizes = [config.size, 0];
    this.tableOptions = config.tables;
    this.driver = this.newDriver();
    this.device = this.newDevice();
    this.driverRecords();
    this.deviceRecords();
  }

  get name(): string {
    return `${this.engines.driver} driver, ${this.engines.device} device`;
  }

  /** What both sides are told, as it is now. */
  private get common() {
    const { ring, eventIdx, indirect, inOrder } = this.config;
    const features: number[] = [Feature.VERSION_1];
    if (ring === 'packed') features.push(Feature.RING_PACKED);
    if (eventIdx) features.push(Feature.EVENT_IDX);
    if (indirect) features.push(Feature.INDIRECT_DESC);
    if (inOrder) features.push(Feature.IN_ORDER);
    return { ring, size: this.sizes[this.at], features, areas: this.layout.places[this.at].areas };
  }

  private newDriver(): DriverQueue {
    const { strict, policy, callbacks } = this.config;
    const threshold = policy === 'static' && { threshold: this.config.threshold };
    return this.place.driver[this.engines.driver].driverQueue({
      ...this.common,
      strict,
      indirect: { policy, ...threshold, memory: this.layout.tables, tables: this.tableOptions },
      ...(callbacks && { notify: () => this.notified++ }),
    });
  }

  private newDevice(): DeviceQueue {
    const { regions } = this.layout;
    return this.place.device[this.engines.device].deviceQueue({
      ...this.common,
      batches: this.config.batches,
      translation: this.config.translation[this.engines.device],
      ...(regions && { regions }),
      ...(this.config.callbacks && { interrupt: () => this.interrupted++ }),
    });
  }

  private driverRecords(): void {
    const { driver } = this;
    this.burst = driver.createBurst(BURST.buffers, BURST.segments);
    this.completions = COMPLETIONS.map((capacity) => driver.createCompletions(capacity));
  }

  private deviceRecords(): void {
    const { device } = this;
    this.elements = ELEMENTS.map(({ capacity, pieces }) => device.createElements(capacity, pieces));
  }

  private releaseDriver(): void {
    this.burst.free();
    for (const records of this.completions) records.free();
    this.driver.release();
  }

  private releaseDevice(): void {
    for (const records of this.elements) records.free();
    this.device.release();
  }

  private get u8(): Uint8Array {
    return new Uint8Array(this.place.memory.buffer);
  }

  /** All that driver and device share, and what lies between. */
  get bytes(): Uint8Array {
    return this.u8.subarray(0, this.layout.end);
  }

  // ---- Data ----

  private *places(ranges: Range[]): Generator<number> {
    for (const { address, length } of ranges) for (let i = 0; i < length; i++) yield address + i;
  }

  private local(ranges: Range[]): Range[] {
    return ranges.flatMap(this.layout.translate);
  }

  /** The driver's data. */
  private write(buffer: Buffer): void {
    const { u8 } = this;
    let k = 0;
    for (const at of this.places(this.local(buffer.out))) u8[at] = pattern(buffer.token, k++, 'out');
  }

  /** The device writes where it was told to. */
  respond(pieces: Range[], token: number, bytes: number): void {
    const { u8 } = this;
    let k = 0;
    for (const at of this.places(pieces)) {
      if (k === bytes) return;
      u8[at] = pattern(token, k++, 'in');
    }
  }

  /** True if the device sees the driver's data. */
  readable(pieces: Range[], token: number): boolean {
    const { u8 } = this;
    let k = 0;
    for (const at of this.places(pieces)) if (u8[at] !== pattern(token, k++, 'out')) return false;
    return true;
  }

  /** True if the driver sees the device's data. */
  answered(buffer: Buffer, bytes: number): boolean {
    const { u8 } = this;
    let k = 0;
    for (const at of this.places(this.local(buffer.in))) {
      if (k === bytes) return true;
      if (u8[at] !== pattern(buffer.token, k++, 'in')) return false;
    }
    return k === bytes;
  }

  // ---- Steps ----

  private segments(ranges: Range[]) {
    return ranges.map(({ address, length }) => ({ address: this.layout.address(address), length }));
  }

  private element(elements: Elements, i: number) {
    const first = elements.first(i);
    const out = elements.outCount(i);
    const piece = (p: number) => ({ address: elements.address(p), length: elements.length(p) });
    return {
      id: elements.id(i),
      out: Array.from({ length: out }, (_, p) => piece(first + p)),
      in: Array.from({ length: elements.inCount(i) }, (_, p) => piece(first + out + p)),
    };
  }

  run(op: Op | HostileOp): Outcome {
    try {
      return this.operate(op);
    } catch (error) {
      if (error instanceof VringError) return { refused: error.code, message: error.message };
      throw error;
    }
  }

  private operate(op: Op | HostileOp): Outcome {
    const { driver, device, burst } = this;
    switch (op[0]) {
      case 'add':
        this.write(op[1]);
        return driver.add(this.segments(op[1].out), this.segments(op[1].in), op[1].token);
      case 'addRaw':
        return driver.add(op[1], op[2], op[3]);
      case 'poke':
        return this.u8.set(op[2], op[1]);
      case 'append':
        this.write(op[1]);
        for (const { address, length } of this.segments(op[1].out)) burst.out(address, length);
        for (const { address, length } of this.segments(op[1].in)) burst.in(address, length);
        return burst.end(op[1].token);
      case 'addBurst':
        return driver.addBurst(burst);
      case 'clearBurst':
        return burst.clear();
      case 'getBuf': {
        const got = driver.getBuf();
        return got ? [got] : [];
      }
      case 'getBurst': {
        const completions = this.completions[op[1]];
        const n = driver.getBurst(completions);
        return Array.from({ length: n }, (_, i) => ({
          token: completions.token(i),
          length: completions.length(i),
        }));
      }
      case 'poll':
        return driver.poll(op[1]);
      case 'pop': {
        const element = device.pop();
        return element ? [element] : [];
      }
      case 'popBurst': {
        const elements = this.elements[op[1]];
        const n = device.popBurst(elements, op[2]);
        return Array.from({ length: n }, (_, i) => this.element(elements, i));
      }
      case 'setWritten':
        return this.elements[op[1]].setWritten(op[2], op[3]);
      case 'push':
        return device.push({ id: op[1] }, op[2]);
      case 'pushBurst':
        return device.pushBurst(this.elements[op[1]], op[2]);
      case 'fill':
        return device.fill({ id: op[1] }, op[2], op[3]);
      case 'flush':
        return device.flush(op[1]);
      case 'rewind':
        return device.rewind(op[1]);
      case 'unpop':
        return device.unpop({ id: op[1] });
      case 'detach':
        return device.detach({ id: op[1] });
      case 'availableBytes':
        return device.availableBytes(op[1], op[2]);
      case 'shouldInterrupt':
      case 'enableNotifications':
      case 'disableNotifications':
        return device[op[0]]();
      case 'setRegions':
        return device.setRegions(this.layout.regions ?? [{ guest: 0, length: this.u8.length, local: 0 }]);
      case 'reset':
        device.reset();
        return driver.reset();
      case 'notificationData':
        return driver.notificationData(op[1]);
      case 'resize':
        return this.resize(op[1], op[2]);
      case 'setTables':
        this.tableOptions = op[1];
        return driver.setTables(op[1]);
      case 'trimTables':
        return driver.trimTables(op[1]);
      case 'moveDriver':
        return this.moveDriver(op[1]);
      case 'moveDevice':
        return this.moveDevice(op[1]);
      case 'cycles':
        return this.cycles(op[1]);
      default:
        return driver[op[0]]();
    }
  }

  private resize(size: number, at: number): Outcome {
    const { driver, device, layout } = this;
    const { areas, start, end } = layout.places[at];
    const fits = Number.isInteger(size) && size >= 1 && size <= layout.capacity;
    if (fits) this.u8.fill(FILLER, start, end);
    let tokens: number[];
    try {
      tokens = driver.resize(size, areas);
    } catch (error) {
      if (!(error instanceof VringError)) throw error;
      // The device refuses the same, and both are as they were.
      try {
        device.resize(size, areas);
      } catch (second) {
        if (second instanceof VringError && second.message === error.message) throw error;
      }
      throw new Error(`the device does not refuse a size of ${size} as the driver does`);
    }
    device.resize(size, areas);
    this.at = at;
    this.sizes[at] = size;
    return tokens;
  }

  private moveDriver(move: Move): void {
    const state = throughJson(this.driver.save());
    if (move === 'same') {
      this.driver.restore(state);
      return;
    }
    this.releaseDriver();
    if (move === 'other') this.engines.driver = OTHER[this.engines.driver];
    // What lies in the ring is what the state belongs to: a new queue on the same areas finds it there.
    this.driver = this.newDriver();
    this.driver.restore(state);
    this.driverRecords();
  }

  private moveDevice(move: Move): void {
    const state = throughJson(this.device.save());
    if (move === 'same') {
      this.device.restore(state);
      return;
    }
    this.releaseDevice();
    if (move === 'other') this.engines.device = OTHER[this.engines.device];
    this.device = this.newDevice();
    this.device.restore(state);
    this.deviceRecords();
  }

  /** As many buffers as there is room for, round and round, with nothing looked at in between. */
  private cycles(rounds: number): Outcome {
    const { driver, device, burst } = this;
    const [completions, elements] = [this.completions[2], this.elements[2]];
    let kicks = 0;
    let interrupts = 0;
    let completed = 0;
    for (let round = 0; round < rounds; round++) {
      burst.clear();
      for (let i = 0; i < BURST.buffers; i++) burst.out(this.layout.address(0), 1).end(i);
      driver.addBurst(burst);
      kicks += Number(driver.kickPrepare());
      device.popBurst(elements);
      device.pushBurst(elements);
      interrupts += Number(device.shouldInterrupt());
      completed += driver.getBurst(completions);
    }
    burst.clear();
    return { kicks, interrupts, completed };
  }

  /** Everything else that can be asked. */
  get state() {
    const { driver, device } = this;
    return {
      numFree: driver.numFree,
      inFlight: driver.inFlight,
      tableBytes: driver.tableBytes,
      taken: device.inFlight,
      faults: [driver.fault, device.fault, driver.broken, device.broken],
      pending: this.burst.pending,
      notified: this.notified,
      interrupted: this.interrupted,
      driver: driver.stats(),
      device: device.stats(),
    };
  }

  /** Gives everything back. */
  release(): void {
    this.releaseDriver();
    this.releaseDevice();
    this.place.free = true;
  }

  /** Throws if not everything was given back, or if something was written in between the areas. */
  verify(): void {
    for (const side of ['driver', 'device'] as const)
      for (const [engine, { used }] of Object.entries(this.place[side]))
        if (used !== 0)
          throw new Error(`${this.name}: ${used} bytes of an arena (${side}, ${engine}) are left`);
    const { layout } = this;
    const { tables, buffers, end } = layout;
    const rings = layout.places.flatMap(({ areas }, i) => {
      const bytes = layout.areaBytes(this.sizes[i]);
      return (['descriptor', 'driver', 'device'] as const).map((area) =>
        this.sizes[i] === 0 ? [areas[area], 0] : [areas[area], bytes[area]],
      );
    });
    const owned = [...rings, [tables.address, tables.length], [buffers.address, buffers.length], [end, 0]];
    let from = 0;
    for (const [start, length] of owned) {
      const at = this.bytes.subarray(from, start).findIndex((byte) => byte !== FILLER);
      if (at >= 0) throw new Error(`${this.name}: byte ${from + at} was written, and belongs to nobody`);
      from = start + length;
    }
  }
}
