import { expect } from 'chai';
import {
  type DeviceQueue,
  type DeviceQueueOptions,
  type DriverQueue,
  type DriverQueueOptions,
  type ErrorCode,
  Feature,
  type Host,
  VringError,
} from '../../src/index.js';
import type { Load } from './engines.js';
import { type RingAreas, SplitRing } from './split-ring.js';

const FILLER = 0xa5;

/** The part of the memory that the test owns; vring's arena lies behind it. */
export const GUEST = 0x20000;
const ARENA = 0x100000;

/** Places in the guest's memory, each with sentinel bytes around. */
export const TABLES = { address: 0x10000, length: 0x1000 };
export const DATA = { address: 0x14000, length: 0xb000 };

/** Where guest memory begins that is larger than the local one. */
export const HUGE = 2n ** 40n;
export const CHUNK = 2 ** 20;

/** Regions of the guest's memory, and of `length` bytes at HUGE: the same bytes again and again, nobody looks. */
export function* chunks(length: number) {
  yield { guest: 0, length: GUEST, local: 0 };
  for (let offset = 0; offset < length; offset += CHUNK)
    yield { guest: HUGE + BigInt(offset), length: CHUNK, local: 0 };
}

export interface StageOptions {
  size?: number;
  features?: number[];
  memory?: WebAssembly.Memory;
  /** Options of the queue under test. */
  driver?: Partial<DriverQueueOptions>;
  device?: Partial<DeviceQueueOptions>;
}

/**
 * A ring in memory that vring did not make, and one side of it. The other side is played by hand, through
 * `ring`. Every byte that nobody may write is watched.
 */
export class Stage {
  readonly ring: SplitRing;
  readonly areas: RingAreas;

  constructor(
    readonly memory: WebAssembly.Memory,
    readonly host: Host,
    readonly size: number,
    private readonly features: number[],
  ) {
    const areas = { descriptor: 0x400, driver: 0, device: 0 };
    areas.driver = areas.descriptor + 16 * size + 0x42;
    areas.device = Math.ceil((areas.driver + 6 + 2 * size + 0x40) / 4) * 4;
    if (areas.device + 6 + 8 * size + 0x40 > TABLES.address) throw new Error('the ring is too large');
    this.areas = areas;
    this.ring = new SplitRing(memory, areas, size);
  }

  static async create(load: Load, { size = 8, features = [], memory }: StageOptions = {}): Promise<Stage> {
    const own = memory ?? new WebAssembly.Memory({ initial: (GUEST + ARENA) / 65536 });
    const host = await load({ memory: own, base: GUEST, size: ARENA });
    const stage = new Stage(own, host, size, features);
    stage.u8.fill(FILLER, 0, GUEST);
    for (const [start, end] of stage.owned) stage.u8.fill(0, start, end);
    return stage;
  }

  get u8(): Uint8Array {
    return new Uint8Array(this.memory.buffer);
  }

  /** Ranges that somebody may write to. */
  private get owned(): [number, number][] {
    const { areas, size } = this;
    return [
      [areas.descriptor, areas.descriptor + 16 * size],
      [areas.driver, areas.driver + 6 + 2 * size],
      [areas.device, areas.device + 6 + 8 * size],
      [TABLES.address, TABLES.address + TABLES.length],
      [DATA.address, DATA.address + DATA.length],
    ];
  }

  driver(options: Partial<DriverQueueOptions> = {}): DriverQueue {
    const { size, features, areas } = this;
    return this.host.driverQueue({
      ring: 'split',
      size,
      features,
      areas,
      indirect: { memory: TABLES },
      ...options,
    });
  }

  /** A device that may touch the tables and the data, and the ring. */
  device(options: Partial<DeviceQueueOptions> = {}): DeviceQueue {
    const { size, features, areas } = this;
    return this.host.deviceQueue({
      ring: 'split',
      size,
      features,
      areas,
      regions: [
        { guest: 0, length: TABLES.address + TABLES.length, local: 0 },
        { guest: DATA.address, length: DATA.length, local: DATA.address },
      ],
      ...options,
    });
  }

  /** Throws if a byte was written that belongs to nobody. */
  check(): void {
    let from = 0;
    const { u8 } = this;
    for (const [start, end] of [...this.owned, [GUEST, GUEST] as const]) {
      const at = u8.subarray(from, start).findIndex((byte) => byte !== FILLER);
      if (at >= 0) throw new Error(`byte ${from + at} was written, and belongs to nobody`);
      from = end;
    }
  }
}

/** The VringError that `act` throws. */
export function refusal(act: () => unknown, what = 'this'): VringError {
  let result: unknown;
  try {
    result = act();
  } catch (error) {
    if (error instanceof VringError) return error;
    throw new Error(`${what} threw ${String(error)}, not a VringError`, { cause: error });
  }
  throw new Error(`${what} returned ${String(result)}, a VringError was expected`);
}

/** Sees that `act` is refused with this code and all of these texts in the message. */
export function refused(act: () => unknown, code: ErrorCode, ...texts: (string | number)[]): void {
  const error = refusal(act);
  expect(error.code, error.message).to.equal(code);
  for (const text of texts) expect(error.message).to.contain(String(text));
}

/** Every operation of a queue that must fail while it is broken. */
function operations(queue: DriverQueue | DeviceQueue): Record<string, () => unknown> {
  const { address } = DATA;
  if ('pop' in queue) {
    const elements = queue.createElements(2);
    return {
      pop: () => queue.pop(),
      popBurst: () => queue.popBurst(elements),
      push: () => queue.push({ id: 0 }, 0),
      pushBurst: () => queue.pushBurst(elements),
      fill: () => queue.fill({ id: 0 }, 0, 0),
      flush: () => queue.flush(1),
      unpop: () => queue.unpop({ id: 0 }),
      rewind: () => queue.rewind(1),
      availableBytes: () => queue.availableBytes(1, 1),
      free: () => elements.free(),
    };
  }
  const completions = queue.createCompletions(2);
  const burst = queue.createBurst(1);
  burst.out(address, 1).end(1);
  return {
    add: () => queue.add([{ address, length: 1 }], [], 1),
    addBurst: () => queue.addBurst(burst),
    getBuf: () => queue.getBuf(),
    getBurst: () => queue.getBurst(completions),
    free: () => {
      completions.free();
      burst.free();
    },
  };
}

/**
 * Sees that `act` breaks the queue: it throws this code with all of these texts, and so does every
 * operation from then on, until a reset. `again` is what the peer does right after the reset, and what
 * must work then.
 */
export function breaks(
  queue: DriverQueue | DeviceQueue,
  act: () => unknown,
  code: ErrorCode,
  ...texts: (string | number)[]
): void {
  expect(queue.broken, 'broken before').to.equal(false);
  expect(queue.fault).to.equal(undefined);
  const { free, ...all } = operations(queue);
  const errors = queue.stats().errors[code] ?? 0;
  const first = refusal(act);
  expect(first.code, first.message).to.equal(code);
  for (const text of texts) expect(first.message).to.contain(String(text));
  expect(queue.broken).to.equal(true);
  expect(queue.fault?.code).to.equal(code);
  expect(first.message).to.equal(`${code}: the queue is broken: ${queue.fault?.reason}; reset it`);
  for (const [name, operation] of Object.entries(all))
    expect(refusal(operation, name).message, name).to.equal(first.message);
  expect(queue.stats().errors[code]).to.equal(errors + 1 + Object.keys(all).length);
  expect(queue.inFlight).to.be.within(0, queue.size);
  free();
  queue.reset();
  expect(queue.broken, 'broken after a reset').to.equal(false);
  expect(queue.fault).to.equal(undefined);
  expect(queue.inFlight).to.equal(0);
}

export const EVENT_IDX = [Feature.VERSION_1, Feature.EVENT_IDX];
export const INDIRECT_DESC = [Feature.VERSION_1, Feature.INDIRECT_DESC];
