// Saved states come from outside: whatever is in one, it is refused, or the queue that takes it over stays within
// its memory, ends every operation and throws nothing but a VringError.

import { expect } from 'chai';
import fc from 'fast-check';
import {
  type DeviceQueue,
  type DeviceState,
  type DriverQueue,
  type DriverState,
  Feature,
  type Host,
  VringError,
} from '../src/index.js';
import { runs } from './support/choices.js';
import { type EngineName, forEachEngine } from './support/engines.js';
import { refused } from './support/stage.js';

const FILLER = 0xa5;
const GUEST = 0x8000;
const FILLED = new Uint8Array(GUEST).fill(FILLER);
const ARENA = 2 ** 17;
const AREAS = { descriptor: 0x100, driver: 0x400, device: 0x600 };
const TABLES = { address: 0x1000, length: 0x400 };
const DATA = { address: 0x3000, length: 0x1000 };

interface Setting {
  ring: 'split' | 'packed';
  size: number;
  eventIdx: boolean;
  indirect: boolean;
  inOrder: boolean;
}

const settings: fc.Arbitrary<Setting> = fc
  .record({
    ring: fc.constantFrom('split' as const, 'packed' as const),
    size: fc.integer({ min: 1, max: 9 }),
    eventIdx: fc.boolean(),
    indirect: fc.boolean(),
    inOrder: fc.boolean(),
  })
  .map((setting) =>
    setting.ring === 'split' ? { ...setting, size: [1, 2, 4, 8][setting.size % 4] } : setting,
  );

type Choice = [kind: number, a: number, b: number];
const choices = fc.array(fc.tuple(fc.nat(99), fc.nat(0xffff), fc.nat(0xffff)), {
  minLength: 10,
  maxLength: 60,
  size: 'max',
}) as fc.Arbitrary<Choice[]>;

/** What is changed: a place in the state, and how. */
type Change = [place: number, how: number, value: number];
const changes = fc.array(
  fc.array(fc.tuple(fc.nat(0xffff), fc.nat(99), fc.nat(0xffff)), { minLength: 1, maxLength: 2 }),
  {
    minLength: 12,
    maxLength: 12,
  },
) as fc.Arbitrary<Change[][]>;

const ODD: unknown[] = [
  -1,
  0,
  1,
  2,
  7,
  8,
  15,
  16,
  0x7fff,
  0x8000,
  0x8001,
  0xffff,
  0x10000,
  2 ** 31,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53,
  0.5,
  -0,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  '1',
  '',
  null,
  undefined,
  true,
  1n,
  [],
  {},
  [[]],
];

/** Every holder of a value in a state, and its key. */
function spots(holder: object, found: [Record<string, unknown>, string][] = []) {
  for (const key of Object.keys(holder)) {
    const at = holder as Record<string, unknown>;
    found.push([at, key]);
    const inner = at[key];
    if (typeof inner === 'object' && inner !== null) spots(inner, found);
  }
  return found;
}

/** A copy of the state with the changes made, and what they were. */
function tamper<State extends object>(state: State, list: Change[]): { state: State; what: string } {
  const copy = JSON.parse(JSON.stringify(state)) as State;
  const what: string[] = [];
  for (const [place, how, value] of list) {
    const all = spots(copy);
    const [holder, key] = all[place % all.length];
    const old = holder[key];
    if (Array.isArray(old) && how < 60) {
      const i = value % (old.length + 1);
      if (how < 20) old.splice(i, 1);
      else if (how < 40) old.push(structuredClone(old[i] ?? 0));
      else [old[0], old[i]] = [old[i], old[0]];
      what.push(`${key}: entries changed (${how}, ${i})`);
    } else if (typeof old === 'number' && how < 60) {
      holder[key] = old + [1, -1, 16, -16, 2, 0x8000][value % 6];
      what.push(`${key}: ${old} + ${[1, -1, 16, -16, 2, 0x8000][value % 6]}`);
    } else if (how < 65) {
      delete holder[key];
      what.push(`${key} deleted`);
    } else {
      holder[key] = ODD[value % ODD.length];
      what.push(`${key}: ${String(holder[key])}`);
    }
  }
  return { state: copy, what: what.join(', ') };
}

/** Both sides of a queue on a memory in which every byte that is nobody's is watched. */
class World {
  driver: DriverQueue;
  device: DeviceQueue;
  private token = 0;
  private held: { id: number; room: number }[] = [];

  constructor(
    private readonly host: Host,
    private readonly setting: Setting,
  ) {
    this.u8.fill(FILLER, 0, GUEST);
    this.driver = this.newDriver();
    this.device = this.newDevice();
  }

  private get u8(): Uint8Array {
    return new Uint8Array(this.host.buffer);
  }

  get bytes(): Uint8Array {
    return this.u8.slice(0, GUEST);
  }

  put(bytes: Uint8Array): void {
    this.u8.set(bytes);
  }

  private get options() {
    const { ring, size, eventIdx, indirect, inOrder } = this.setting;
    const features: number[] = [Feature.VERSION_1];
    if (eventIdx) features.push(Feature.EVENT_IDX);
    if (indirect) features.push(Feature.INDIRECT_DESC);
    if (inOrder) features.push(Feature.IN_ORDER);
    return { ring, size, features, areas: AREAS };
  }

  newDriver(): DriverQueue {
    return this.host.driverQueue({ ...this.options, indirect: { memory: TABLES } });
  }

  newDevice(): DeviceQueue {
    const regions = [{ guest: 0, length: DATA.address + DATA.length, local: 0 }];
    return this.host.deviceQueue({ ...this.options, regions });
  }

  private element(a: number): { id: number; room: number } {
    const { held, setting } = this;
    return held.length === 0 || a % 8 === 7 ? { id: a % (setting.size + 1), room: 3 } : held[a % held.length];
  }

  /** One operation of either side. What it throws goes to the caller. */
  operate([kind, a, b]: Choice): void {
    const { driver, device, setting } = this;
    const part = (i: number) => ({ address: DATA.address + ((a + i * 64) % 0x800), length: (b + i) % 60 });
    switch (kind % 17) {
      case 0:
      case 1:
      case 2: {
        const count = 1 + (a % Math.min(setting.size, 4));
        const parts = Array.from({ length: count }, (_, i) => part(i));
        const outs = b % (count + 1);
        driver.add(parts.slice(0, outs), parts.slice(outs), this.token++);
        return;
      }
      case 3:
        driver.kickPrepare();
        return;
      case 4:
      case 5:
        driver.getBuf();
        return;
      case 6:
        if (a % 2) driver.enableCallbacks();
        else driver.disableCallbacks();
        return;
      case 7:
        driver.enableCallbacksDelayed();
        driver.moreUsed();
        return;
      case 8:
      case 9:
      case 10: {
        const element = device.pop();
        if (!element) return;
        for (const { address, length } of [...element.out, ...element.in])
          if (address + length > DATA.address + DATA.length) throw new Error(`a piece at ${address}`);
        this.held.push({ id: element.id, room: element.in.reduce((sum, { length }) => sum + length, 0) });
        return;
      }
      case 11:
      case 12: {
        const { id, room } = this.element(a);
        device.push({ id }, b % (room + 1));
        return;
      }
      case 13: {
        const { id, room } = this.element(a);
        device.fill({ id }, room, b % 3);
        device.flush(1);
        return;
      }
      case 14:
        device.shouldInterrupt();
        if (a % 2) device.enableNotifications();
        else device.disableNotifications();
        return;
      case 15:
        if (a % 4 === 0) device.detach(this.element(b));
        else device.rewind(a % 3);
        return;
      default:
        device.availableBytes(a, b);
        driver.inspect();
        device.inspect();
    }
  }

  /** A number of them, whatever they say: a VringError is an answer. */
  run(list: Choice[]): void {
    for (const choice of list)
      try {
        this.operate(choice);
      } catch (error) {
        if (!(error instanceof VringError)) throw error;
      }
    expect(this.driver.inFlight).to.be.within(0, this.setting.size);
    expect(this.device.inFlight).to.be.within(0, this.setting.size);
    expect(this.driver.numFree).to.be.within(0, this.setting.size);
    expect(this.driver.tableBytes).to.be.within(0, TABLES.length);
    this.check();
  }

  /** After a reset all is well. */
  works(): void {
    const { driver, device, setting } = this;
    device.reset();
    driver.reset();
    expect([driver.numFree, driver.inFlight, driver.tableBytes]).to.deep.equal([setting.size, 0, 0]);
    for (let token = 0; token < 2 * setting.size + 1; token++) {
      const out = setting.size > 1 ? [{ address: DATA.address, length: 1 }] : [];
      expect(driver.add(out, [{ address: DATA.address, length: 9 }], token)).to.equal(true);
      device.push({ id: device.pop()?.id as number }, 5);
      expect(driver.getBuf()).to.deep.equal({ token, length: 5 });
    }
    this.check();
  }

  /** Throws if a byte was written that belongs to nobody. */
  private check(): void {
    const { ring, size } = this.setting;
    const split = ring === 'split';
    const { u8 } = this;
    let from = 0;
    for (const [start, length] of [
      [AREAS.descriptor, 16 * size],
      [AREAS.driver, split ? 6 + 2 * size : 4],
      [AREAS.device, split ? 6 + 8 * size : 4],
      [TABLES.address, TABLES.length],
      [DATA.address, DATA.length],
      [GUEST, 0],
    ]) {
      const here = u8.subarray(from, start);
      if (Buffer.compare(here, FILLED.subarray(0, here.length)) !== 0)
        throw new Error(
          `byte ${from + here.findIndex((byte) => byte !== FILLER)} was written, and belongs to nobody`,
        );
      from = start + length;
    }
  }
}

describe('a saved state that was tampered with', () => {
  forEachEngine((load, engine: EngineName) => {
    let host: Host;

    before(async () => {
      const memory = new WebAssembly.Memory({ initial: (GUEST + 2 * ARENA) / 65536 + 1 });
      host = await load({ memory, base: 65536, size: ARENA });
    });

    const counts = { refused: 0, taken: 0 };

    /** Restores into a new queue; true if the state was taken over. Nothing has changed if not. */
    function restored<State>(
      world: World,
      queue: { restore(state: State): void; save(): unknown; stats(): { errors: object } },
      state: State,
    ): boolean {
      const before = world.bytes;
      const { used } = host;
      try {
        queue.restore(state);
        counts.taken++;
        return true;
      } catch (error) {
        if (!(error instanceof VringError)) throw error;
        expect(error.code, error.message).to.equal('EINVAL');
        expect(error.message).to.contain('the saved state does not fit');
      }
      counts.refused++;
      expect(Buffer.compare(world.bytes, before), 'memory').to.equal(0);
      expect(host.used, 'arena').to.equal(used);
      expect(queue.stats().errors).to.deep.equal({ EINVAL: 1 });
      return false;
    }

    /** True if tables are where the test has room for them. */
    const inPlace = ({ tables }: DriverState) =>
      tables.length === 0 ||
      (tables.address >= TABLES.address && tables.address + tables.length <= TABLES.address + TABLES.length);

    it('is refused, or the queue behaves', function () {
      this.timeout(3600000);
      fc.assert(
        fc.property(settings, choices, changes, choices, (setting, before, all, after) => {
          const world = new World(host, setting);
          world.run(before);
          if (world.driver.broken || world.device.broken) throw new Error('nobody broke a rule');
          const bytes = world.bytes;
          const driverState = world.driver.save();
          const deviceState = world.device.save();
          world.driver.release();
          world.device.release();
          for (const [i, list] of all.entries()) {
            // One side is as it was saved.
            const driver = i % 2 === 0 ? tamper(driverState, list) : undefined;
            const device = i % 2 === 1 ? tamper(deviceState, list) : undefined;
            const what = `${driver ? 'driver' : 'device'}: ${(driver ?? device)?.what}`;
            world.put(bytes);
            world.driver = world.newDriver();
            world.device = world.newDevice();
            try {
              const state = driver?.state ?? driverState;
              const sound = restored<DriverState>(world, world.driver, state);
              if (!driver) expect(sound, 'the driver state as it was').to.equal(true);
              const other = sound && restored<DeviceState>(world, world.device, device?.state ?? deviceState);
              if (sound && !device) expect(other, 'the device state as it was').to.equal(true);
              const reachable = !sound || inPlace(state);
              if (sound && other && reachable) world.run(after);
              if (reachable) world.works();
            } catch (error) {
              (error as Error).message = `${what}: ${(error as Error).message}`;
              throw error;
            } finally {
              world.driver.release();
              world.device.release();
            }
          }
          expect(host.used).to.equal(0);
        }),
        runs(40),
      );
      // Both happen, or this would show nothing.
      expect(counts.refused, engine).to.be.above(50);
      expect(counts.taken, engine).to.be.above(50);
    });

    it('is refused where its tables lie over the ring', () => {
      for (const ring of ['split', 'packed'] as const) {
        const world = new World(host, { ring, size: 4, eventIdx: true, indirect: true, inOrder: false });
        const state = world.driver.save();
        for (const address of [AREAS.descriptor, AREAS.descriptor + 48, AREAS.driver - 16, AREAS.device]) {
          const tables = { address, length: 64 };
          refused(() => world.driver.restore({ ...state, tables }), 'EINVAL', 'table memory overlaps areas');
        }
        world.works();
        world.driver.release();
        world.device.release();
      }
    });
  });
});

describe('bad arguments of a packed queue', () => {
  forEachEngine((load) => {
    const NUMBERS = [-1, 1.5, Number.NaN, 65536, 2 ** 32, '0', null, undefined, 1n, {}, []];

    it('poll takes a position of the ring and nothing else', async () => {
      const host = await load({ size: 2 ** 16 });
      const driver = host.driverQueue({ ring: 'packed', size: 5 });
      for (const value of NUMBERS) refused(() => driver.poll(value as number), 'EINVAL', 'opaque');
      for (const value of [5, 0x7fff, 0x8005, 0xffff])
        refused(() => driver.poll(value), 'EINVAL', 'slot of opaque', value & 0x7fff);
      for (const value of [0, 4, 0x8000, 0x8004]) expect(driver.poll(value)).to.be.a('boolean');
      expect(driver.poll(driver.enableCallbacksPrepare())).to.equal(false);
      expect(driver.stats().errors.EINVAL).to.equal(NUMBERS.length + 4);
    });

    it('case 24: notificationData takes an index of a queue and nothing else', async () => {
      const host = await load({ size: 2 ** 16 });
      for (const ring of ['split', 'packed'] as const) {
        const driver = host.driverQueue({ ring, size: 4 });
        const start = ring === 'packed' ? 0x80000000 : 0;
        for (const value of NUMBERS)
          refused(() => driver.notificationData(value as number), 'EINVAL', 'index');
        expect(driver.notificationData(0)).to.equal(start);
        expect(driver.notificationData(65535)).to.equal(start + 65535);
        driver.add([{ address: 0, length: 1 }], [], 1);
        expect(driver.notificationData(7)).to.equal(start + 65536 + 7);
        driver.release();
      }
    });
  });
});
