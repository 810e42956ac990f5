import { expect } from 'chai';
import fc from 'fast-check';
import {
  Burst,
  type Completions,
  type DeviceQueue,
  type DriverQueue,
  type Elements,
  type ErrorCode,
  Feature,
  type Host,
  type LoadOptions,
  loadEngine,
  type RingFormat,
  VringError,
} from '../src/index.js';
import { runs } from './support/choices.js';
import { forEachEngine } from './support/engines.js';
import { refusal, refused } from './support/stage.js';

/** What a caller might pass by mistake. */
const VALUES: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  true: true,
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-1': -1,
  '1.5': 1.5,
  tiny: 1e-320,
  '2^31': 2 ** 31,
  '2^32': 2 ** 32,
  '2^53': 2 ** 53,
  '"1"': '1',
  '""': '',
  '1n': 1n,
  '-1n': -1n,
  '2^64n': 2n ** 64n,
  '{}': {},
  '[]': [],
  '[1]': [1],
  'an object without prototype': Object.create(null),
  'an object with valueOf': { valueOf: () => 1 },
  'a symbol': Symbol('x'),
  'a function': () => 1,
  'a date': new Date(0),
  'an ArrayBuffer': new ArrayBuffer(8),
};

type Name = keyof typeof VALUES;

/** One argument or option: how to pass it, which of the values are fine, and which codes a refusal may have. */
interface Slot {
  act: (pair: Pair, value: never) => unknown;
  fine: Name[];
  codes: ErrorCode[];
}

const slot = (act: Slot['act'], fine: Name[] = [], ...codes: ErrorCode[]): Slot => ({
  act,
  fine,
  codes: ['EINVAL', ...codes],
});

const FEATURES = [Feature.VERSION_1, Feature.INDIRECT_DESC, Feature.EVENT_IDX];

/** A driver and a device with one element popped and one buffer waiting. */
class Pair {
  readonly driver: DriverQueue;
  readonly device: DeviceQueue;
  readonly burst: Burst;
  readonly completions: Completions;
  readonly elements: Elements;
  readonly buffer: number;
  readonly options: { ring: RingFormat; size: number; features: number[] };

  constructor(
    readonly host: Host,
    ring: RingFormat = 'split',
  ) {
    this.options = { ring, size: 8, features: FEATURES };
    this.driver = host.driverQueue(this.options);
    this.device = host.deviceQueue({ ...this.options, areas: this.driver.areas });
    this.burst = this.driver.createBurst(4, 8);
    this.completions = this.driver.createCompletions(4);
    this.elements = this.device.createElements(4, 8);
    this.buffer = host.alloc(256);
    this.start();
  }

  get segment() {
    return { address: this.buffer, length: 8 };
  }

  start(): void {
    const { driver, device, segment } = this;
    device.reset();
    driver.reset();
    this.burst.clear();
    driver.add([segment], [segment], 1);
    driver.add([], [segment], 2);
    device.popBurst(this.elements, 1);
    driver.add([segment], [], 3);
    device.push({ id: device.pop()?.id as number }, 3);
    driver.getBurst(this.completions);
  }

  /**
   * Nothing is broken, and all goes on after a reset. With `outside`, a segment outside the memory may have been added:
   * the device has refused it then.
   */
  works(outside = false): void {
    const { driver, device, segment, buffer, burst, elements, completions } = this;
    expect(driver.broken).to.equal(false);
    if (!outside || device.fault?.code !== 'EFAULT') expect(device.broken).to.equal(false);
    device.reset();
    driver.reset();
    expect(driver.numFree).to.equal(8);
    expect(driver.add([segment], [segment], 7)).to.equal(true);
    burst.clear();
    burst.out(buffer, 1).end(8);
    expect(driver.addBurst(burst)).to.equal(1);
    expect(device.popBurst(elements)).to.equal(2);
    elements.setWritten(0, 5);
    expect(device.pushBurst(elements)).to.equal(2);
    expect(driver.getBurst(completions)).to.equal(2);
    expect([0, 1].map((i) => [completions.token(i), completions.length(i)])).to.deep.equal([
      [7, 5],
      [8, 0],
    ]);
  }
}

// What was made by mistake must not fill the arena.
const freed = (records: { free(): void }) => records.free();
const released = (queue: { release(): void }) => queue.release();

const driverWith = ({ host, options }: Pair, more: object) =>
  released(host.driverQueue({ ...options, ...more }));
const deviceWith = ({ host, options, driver }: Pair, more: object) =>
  released(host.deviceQueue({ ...options, areas: driver.areas, ...more }));
/** What is done to a queue of its own, because it may well succeed. */
function driverThat({ host, options }: Pair, act: (driver: DriverQueue) => unknown): void {
  const driver = host.driverQueue(options);
  try {
    act(driver);
  } finally {
    driver.release();
  }
}

function deviceThat({ host, options, driver }: Pair, act: (device: DeviceQueue) => unknown): void {
  const device = host.deviceQueue({ ...options, areas: driver.areas });
  try {
    act(device);
  } finally {
    device.release();
  }
}

const areasWith = ({ driver }: Pair, more: object) => ({ areas: { ...driver.areas, ...more } });
const regionWith = (more: object) => ({ regions: [{ guest: 0, length: 4096, local: 0, ...more }] });

/** A ring of its own over whatever lies at an address of the memory: no mistake that could be noticed. */
const laysRing = ({ host }: Pair, name: string, given: unknown): boolean =>
  /^driver areas\.\w+$/.test(name) &&
  (typeof given === 'number' || typeof given === 'bigint') &&
  given >= 0 &&
  given < host.buffer.byteLength;

const ADDRESSES: Name[] = ['2^31', '2^32', '1n'];
const OFFSETS: Name[] = ['undefined', '-1', '2^31', '2^32', '1n', '-1n', '2^64n'];
const LIMITS: Name[] = ['Infinity', '1.5', 'tiny', '2^31', '2^32', '2^53'];
/** Any object without properties of its own is an object of options. */
const OBJECTS: Name[] = Object.entries(VALUES)
  .filter(([, value]) => value === undefined || (typeof value === 'object' && value !== null))
  .map(([name]) => name);

const SLOTS: Record<string, Slot> = {
  'host.alloc(size)': slot((p, v) => p.host.free(p.host.alloc(v)), [], 'ENOMEM'),
  'host.alloc(, align)': slot((p, v) => p.host.free(p.host.alloc(8, v)), ['undefined'], 'ENOMEM'),
  'host.free': slot((p, v) => p.host.free(v)),
  'host.driverQueue': slot((p, v) => p.host.driverQueue(v)),
  'host.deviceQueue': slot((p, v) => p.host.deviceQueue(v)),
  'driver ring': slot((p, v) => driverWith(p, { ring: v })),
  'driver notificationData': slot((p, v) => p.driver.notificationData(v)),
  'driver resize(size)': slot((p, v) => driverThat(p, (d) => d.resize(v))),
  'driver resize(, areas)': slot((p, v) => driverThat(p, (d) => d.resize(8, v)), ['undefined']),
  'driver restore': slot((p, v) => p.driver.restore(v)),
  'device resize(size)': slot((p, v) => deviceThat(p, (d) => d.resize(v, p.driver.areas))),
  'device resize(, areas)': slot((p, v) => deviceThat(p, (d) => d.resize(8, v))),
  'device restore': slot((p, v) => p.device.restore(v)),
  'driver size': slot((p, v) => driverWith(p, { size: v })),
  'driver features': slot((p, v) => driverWith(p, { features: v }), ['undefined', '[]', '[1]']),
  'driver features[0]': slot((p, v) => driverWith(p, { features: [v] })),
  'driver notify': slot((p, v) => driverWith(p, { notify: v }), ['undefined', 'a function']),
  'driver indirect': slot((p, v) => driverWith(p, { indirect: v }), OBJECTS),
  'driver indirect.policy': slot((p, v) => driverWith(p, { indirect: { policy: v } }), ['undefined']),
  'driver indirect.memory': slot(
    (p, v) => driverWith(p, { indirect: { memory: v } }),
    ['undefined'],
    'ENOMEM',
  ),
  'driver indirect.memory.address': slot(
    (p, v) => driverWith(p, { indirect: { memory: { address: v, length: 64 } } }),
    [],
    'EFAULT',
  ),
  'driver indirect.memory.length': slot(
    (p, v) => driverWith(p, { indirect: { memory: { address: p.buffer, length: v } } }),
    [],
    'EFAULT',
  ),
  'driver indirect.threshold': slot((p, v) =>
    driverWith(p, { indirect: { policy: 'static', threshold: v } }),
  ),
  'driver indirect.tables': slot((p, v) => driverWith(p, { indirect: { tables: v } }), OBJECTS),
  ...Object.fromEntries(
    (['strategy', 'descriptors', 'bytes', 'bound', 'prefill'] as const).flatMap((key) => [
      [
        `driver indirect.tables.${key}`,
        slot((p, v) => driverWith(p, { indirect: { tables: { [key]: v } } }), ['undefined']),
      ],
      [`setTables ${key}`, slot((p, v) => p.driver.setTables({ [key]: v }), ['undefined'])],
    ]),
  ),
  setTables: slot(
    (p, v) => p.driver.setTables(v),
    OBJECTS.filter((name) => name !== 'undefined'),
  ),
  trimTables: slot((p, v) => p.driver.trimTables(v), ['undefined']),
  'driver areas': slot((p, v) => driverWith(p, { areas: v }), ['undefined']),
  'driver areas.descriptor': slot((p, v) => driverWith(p, areasWith(p, { descriptor: v })), [], 'EFAULT'),
  'driver areas.driver': slot((p, v) => driverWith(p, areasWith(p, { driver: v })), [], 'EFAULT'),
  'driver areas.device': slot((p, v) => driverWith(p, areasWith(p, { device: v })), [], 'EFAULT'),
  'driver strict': slot((p, v) => driverWith(p, { strict: v }), ['undefined', 'true']),
  'driver addressOffset': slot((p, v) => driverWith(p, { addressOffset: v }), OFFSETS),
  'device ring': slot((p, v) => deviceWith(p, { ring: v })),
  'device size': slot((p, v) => deviceWith(p, { size: v })),
  'device features': slot((p, v) => deviceWith(p, { features: v }), ['undefined', '[]', '[1]']),
  'device areas': slot((p, v) => deviceWith(p, { areas: v })),
  'device areas.descriptor': slot((p, v) => deviceWith(p, areasWith(p, { descriptor: v })), [], 'EFAULT'),
  'device areas.driver': slot((p, v) => deviceWith(p, areasWith(p, { driver: v })), [], 'EFAULT'),
  'device areas.device': slot((p, v) => deviceWith(p, areasWith(p, { device: v })), [], 'EFAULT'),
  'device regions': slot((p, v) => deviceWith(p, { regions: v }), ['undefined'], 'EFAULT'),
  'device regions[0]': slot((p, v) => deviceWith(p, { regions: [v] })),
  'device region guest': slot((p, v) => deviceWith(p, regionWith({ guest: v })), [], 'EFAULT'),
  'device region length': slot((p, v) => deviceWith(p, regionWith({ length: v })), [], 'EFAULT'),
  'device region local': slot((p, v) => deviceWith(p, regionWith({ local: v })), [], 'EFAULT'),
  'device interrupt': slot((p, v) => deviceWith(p, { interrupt: v }), ['undefined', 'a function']),

  'createBurst(buffers)': slot((p, v) => freed(p.driver.createBurst(v))),
  'createBurst(, segments)': slot((p, v) => freed(p.driver.createBurst(1, v)), ['undefined']),
  createCompletions: slot((p, v) => freed(p.driver.createCompletions(v))),
  'createElements(capacity)': slot((p, v) => freed(p.device.createElements(v))),
  'createElements(, pieces)': slot((p, v) => freed(p.device.createElements(1, v)), ['undefined']),

  'add(out)': slot((p, v) => p.driver.add(v, [p.segment], 1), ['[]']),
  'add(, in)': slot((p, v) => p.driver.add([p.segment], v, 1), ['[]']),
  'add([segment])': slot((p, v) => p.driver.add([v], [], 1)),
  'add(,, token)': slot((p, v) => p.driver.add([p.segment], [], v), ['2^31']),
  'add(address)': slot((p, v) => p.driver.add([{ address: v, length: 1 }], [], 1), ADDRESSES),
  'add(length)': slot((p, v) => p.driver.add([], [{ address: p.buffer, length: v }], 1), ['2^31']),
  addBurst: slot((p, v) => p.driver.addBurst(v)),
  getBurst: slot((p, v) => p.driver.getBurst(v)),
  poll: slot((p, v) => p.driver.poll(v)),
  'burst.out(address)': slot((p, v) => p.burst.out(v, 1), ADDRESSES),
  'burst.out(, length)': slot((p, v) => p.burst.out(p.buffer, v), ['2^31']),
  'burst.in(address)': slot((p, v) => p.burst.in(v, 1), ADDRESSES),
  'burst.in(, length)': slot((p, v) => p.burst.in(p.buffer, v), ['2^31']),
  'burst.end': slot((p, v) => p.burst.out(p.buffer, 1).end(v), ['2^31']),
  'burst.commit': slot((p, v) => p.burst.commit(v)),
  'completions.token': slot((p, v) => p.completions.token(v)),
  'completions.length': slot((p, v) => p.completions.length(v)),

  popBurst: slot((p, v) => p.device.popBurst(v)),
  'popBurst(, max)': slot((p, v) => p.device.popBurst(p.elements, v), ['undefined']),
  pushBurst: slot((p, v) => p.device.pushBurst(v)),
  'pushBurst(, n)': slot((p, v) => p.device.pushBurst(p.elements, v), ['undefined']),
  'push(element)': slot((p, v) => p.device.push(v, 0)),
  'push(id)': slot((p, v) => p.device.push({ id: v }, 0)),
  'push(, written)': slot((p, v) => p.device.push({ id: 0 }, v)),
  'fill(element)': slot((p, v) => p.device.fill(v, 0, 0)),
  'fill(id)': slot((p, v) => p.device.fill({ id: v }, 0, 0)),
  'fill(, written)': slot((p, v) => p.device.fill({ id: 0 }, v, 0)),
  'fill(,, i)': slot((p, v) => p.device.fill({ id: 0 }, 0, v)),
  flush: slot((p, v) => p.device.flush(v)),
  unpop: slot((p, v) => p.device.unpop(v)),
  'unpop(id)': slot((p, v) => p.device.unpop({ id: v })),
  // More than is in flight: an answer, not an error.
  rewind: slot((p, v) => p.device.rewind(v), ['2^31']),
  detach: slot((p, v) => p.device.detach(v)),
  'detach(id)': slot((p, v) => p.device.detach({ id: v })),
  'availableBytes(maxIn)': slot((p, v) => p.device.availableBytes(v, 1), LIMITS),
  'availableBytes(, maxOut)': slot((p, v) => p.device.availableBytes(1, v), LIMITS),
  setRegions: slot((p, v) => p.device.setRegions(v), ['[]']),
  'setRegions([region])': slot((p, v) => p.device.setRegions([v])),
  'elements.id': slot((p, v) => p.elements.id(v)),
  'elements.first': slot((p, v) => p.elements.first(v)),
  'elements.outCount': slot((p, v) => p.elements.outCount(v)),
  'elements.inCount': slot((p, v) => p.elements.inCount(v)),
  'elements.address': slot((p, v) => p.elements.address(v)),
  'elements.length': slot((p, v) => p.elements.length(v)),
  'elements.setWritten(i)': slot((p, v) => p.elements.setWritten(v, 0)),
  'elements.setWritten(, bytes)': slot((p, v) => p.elements.setWritten(0, v), ['2^31']),
};

describe('bad input', () => {
  forEachEngine((load, engine) => {
    for (const ring of ['split', 'packed'] as const)
      describe(`of the wrong kind (${ring})`, () => {
        let pair: Pair;

        before(async () => {
          pair = new Pair(await load({ size: 2 ** 20 }), ring);
        });

        for (const [name, { act, fine, codes }] of Object.entries(SLOTS))
          it(`for ${name}`, () => {
            for (const [what, value] of Object.entries(VALUES)) {
              pair.start();
              const { used } = pair.host;
              if (fine.includes(what)) act(pair, value as never);
              else {
                const { code, message } = refusal(() => act(pair, value as never), `${name} with ${what}`);
                expect(codes, `${name} with ${what}: ${message}`).to.include(code);
                // Says what is wanted, not only that this is not it.
                expect(message.length, message).to.be.above(20);
              }
              expect(pair.host.used, `bytes in use after ${what}`).to.equal(used);
              pair.device.setRegions([{ guest: 0, length: pair.host.buffer.byteLength, local: 0 }]);
              pair.works();
            }
          });
      });

    for (const ring of ['split', 'packed'] as const)
      it(`of any kind, in any order: nothing but VringErrors, and the queues still work (${ring})`, async () => {
        const pair = new Pair(await load({ size: 2 ** 20 }), ring);
        const { used } = pair.host;
        // A counterexample is to show their names, not the memory that they hold.
        for (const name of ['burst', 'completions', 'elements'] as const)
          Object.defineProperty(pair[name], fc.toStringMethod, { value: () => `pair.${name}` });
        const value = fc.oneof(
          fc.constantFrom(...Object.values(VALUES)),
          fc.anything({ withBigInt: true, withDate: true, withTypedArray: true, withNullPrototype: true }),
          fc.integer(),
          fc.nat(10),
          fc.double(),
          fc.bigInt(),
          fc.constant(pair.burst),
          fc.constant(pair.completions),
          fc.constant(pair.elements),
          fc.constant([pair.segment]),
        );
        const call = fc.tuple(fc.constantFrom(...Object.keys(SLOTS)), value);
        fc.assert(
          fc.property(fc.array(call, { minLength: 1, maxLength: 20, size: 'max' }), (calls) => {
            pair.start();
            for (const [name, given] of calls) {
              if (laysRing(pair, name, given)) continue;
              try {
                SLOTS[name].act(pair, given as never);
              } catch (error) {
                if (!(error instanceof VringError)) throw error;
              }
              if (name.startsWith('setRegions'))
                pair.device.setRegions([{ guest: 0, length: pair.host.buffer.byteLength, local: 0 }]);
            }
            pair.works(true);
            expect(pair.host.used).to.equal(used);
          }),
          runs(300),
        );
      });

    describe('saved states', () => {
      type Json = { [key: string]: Json } | Json[] | number | string | boolean;

      /** Every place in a state, as a way to put something else there. */
      function* places(value: Json, path: (string | number)[] = []): Generator<(string | number)[]> {
        yield path;
        if (typeof value !== 'object') return;
        for (const [key, inner] of Object.entries(value)) yield* places(inner, [...path, key]);
      }

      const replaced = (value: Json, [key, ...path]: (string | number)[], by: unknown): unknown => {
        if (key === undefined) return by;
        const copy = Array.isArray(value) ? [...value] : { ...(value as object) };
        const inner = (value as Record<string, Json>)[key];
        (copy as Record<string, unknown>)[key] = replaced(inner, path, by);
        return copy;
      };

      for (const ring of ['split', 'packed'] as const)
        for (const side of ['driver', 'device'] as const)
          it(`of a ${ring} ${side} with anything else in any place`, async () => {
            const host = await load({ size: 2 ** 18 });
            const options = { ring, size: 4, features: FEATURES };
            const driver = host.driverQueue(options);
            const device = host.deviceQueue({ ...options, areas: driver.areas });
            const buffer = host.alloc(64);
            const segment = { address: buffer, length: 8 };
            for (let token = 0; token < 3; token++) driver.add([segment], token < 2 ? [segment] : [], token);
            device.pop();
            device.pop();
            device.fill({ id: device.pop()?.id as number }, 0, 1);
            const queue = side === 'driver' ? driver : device;
            const state = queue.save() as unknown as Json;
            const { used } = host;
            let refusals = 0;
            for (const path of places(state))
              for (const [what, value] of Object.entries(VALUES)) {
                const forged = replaced(state, path, value);
                try {
                  queue.restore(forged as never);
                } catch (error) {
                  const where = `${path.join('.')} = ${what}: ${error}`;
                  expect(error, where).to.be.instanceOf(VringError);
                  expect((error as VringError).code, where).to.equal('EINVAL');
                  refusals++;
                }
                expect(host.used).to.equal(used);
                // Whether refused or not: the right one still fits.
                queue.restore(state as never);
              }
            expect(refusals).to.be.above(500);
            expect(queue.save(), 'the state in the end').to.deep.include({
              ...(state as object),
              counts: queue.save().counts,
            });
          });
    });

    describe('areas', () => {
      let host: Host;
      const good = { descriptor: 0x100, driver: 0x200, device: 0x300 };

      beforeEach(async () => {
        const memory = new WebAssembly.Memory({ initial: 4 });
        host = await load({ memory, base: 0x20000, size: 0x20000 });
      });

      for (const [what, wrong, code, ...texts] of [
        [
          'descriptors at an odd place',
          { descriptor: 0x108 },
          'EINVAL',
          'areas.descriptor',
          'multiple of 16',
        ],
        ['an odd driver area', { driver: 0x201 }, 'EINVAL', 'areas.driver', 'multiple of 2'],
        ['a device area at 2 of 4', { device: 0x302n }, 'EINVAL', 'areas.device', 'multiple of 4'],
        ['a driver area in the descriptors', { driver: 0x17e }, 'EINVAL', 'overlap', 384, 382],
        ['a device area in the driver area', { device: 0x214 }, 'EINVAL', 'overlap', 534, 532],
        ['the same twice', { device: 0x200 }, 'EINVAL', 'overlap'],
        [
          'a device area past the end',
          { device: 0x40000 - 68 },
          'EFAULT',
          'areas.device',
          '70 bytes',
          262076,
        ],
        ['descriptors behind the memory', { descriptor: 0x40000 }, 'EFAULT', 'areas.descriptor'],
        ['descriptors 2^32 above', { descriptor: 2 ** 32 + 0x100 }, 'EFAULT', 'areas.descriptor'],
        ['descriptors at 2^64', { descriptor: 2n ** 64n }, 'EFAULT', 'areas.descriptor'],
        ['descriptors at the end of 64 bits', { descriptor: 2n ** 64n - 16n }, 'EFAULT', 'areas.descriptor'],
      ] as const)
        it(`${what} are refused`, () => {
          const options = { ring: 'split', size: 8, areas: { ...good, ...wrong } } as const;
          if (what !== 'descriptors at 2^64') refused(() => host.deviceQueue(options), code, ...texts);
          else refused(() => host.deviceQueue(options), 'EINVAL', '2^64');
          refused(() => host.driverQueue(options), code, ...texts);
          expect(host.used).to.equal(0);
        });

      it('side by side are fine, up to the last byte', () => {
        const areas = { descriptor: 0x40000 - 128 - 22 - 2 - 70 - 2, driver: 0, device: 0 };
        areas.descriptor = 0x3ff00;
        areas.driver = areas.descriptor + 128;
        areas.device = areas.driver + 24;
        const driver = host.driverQueue({ ring: 'split', size: 8, areas });
        expect(driver.areas).to.deep.equal(areas);
        const last = { descriptor: 0x1000, driver: 0x40000 - 22, device: 0x2000 };
        expect(host.driverQueue({ ring: 'split', size: 8, areas: last }).areas).to.deep.equal(last);
      });

      it('in guest memory must lie in one region each, and be aligned where they really are', () => {
        const regions = (local: number) => [
          { guest: 0x10000, length: 0x200, local },
          { guest: 0x10200, length: 0x200, local: 0x8000 },
        ];
        const areas = { descriptor: 0x10000, driver: 0x10100, device: 0x10200 };
        const options = { ring: 'split', size: 8 } as const;
        host.deviceQueue({ ...options, areas, regions: regions(0x1000) });
        refused(
          () => host.deviceQueue({ ...options, areas: good, regions: regions(0x1000) }),
          'EFAULT',
          'areas.descriptor',
        );
        refused(
          () =>
            host.deviceQueue({ ...options, areas: { ...areas, driver: 0x101f0 }, regions: regions(0x1000) }),
          'EFAULT',
          'areas.driver',
        );
        refused(
          () => host.deviceQueue({ ...options, areas, regions: regions(0x1008) }),
          'EINVAL',
          'areas.descriptor lies at 4104',
          'align the region',
        );
        // Apart in guest memory, on top of each other in the real one.
        refused(
          () => host.deviceQueue({ ...options, areas, regions: regions(0x8000 - 0x100) }),
          'EINVAL',
          'overlap',
        );
      });

      it('and table memory must not overlap', () => {
        const options = { ring: 'split', size: 8, areas: good, features: [Feature.INDIRECT_DESC] } as const;
        const tables = (address: number, length: number) => ({ indirect: { memory: { address, length } } });
        for (const [address, length] of [
          [0x170, 32],
          [0x200, 16],
          [0x80, 4096],
          [0x340, 16],
        ])
          refused(
            () => host.driverQueue({ ...options, ...tables(address, length) }),
            'EINVAL',
            'overlaps areas',
          );
        host.driverQueue({ ...options, ...tables(0x180, 128) });
        host.driverQueue({ ...options, ...tables(0x80, 128) });
        refused(() => host.driverQueue({ ...options, ...tables(0x404, 128) }), 'EINVAL', 'multiple of 16');
        refused(
          () => host.driverQueue({ ...options, ...tables(0x3fff0, 32) }),
          'EFAULT',
          'outside the memory',
        );
      });
    });

    describe('regions', () => {
      let host: Host;
      let device: DeviceQueue;

      beforeEach(async () => {
        host = await load({ size: 0x10000 });
        const driver = host.driverQueue({ ring: 'split', size: 8 });
        device = host.deviceQueue({ ring: 'split', size: 8, areas: driver.areas });
      });

      for (const [what, regions, ...texts] of [
        [
          'overlap',
          [
            [0, 100, 0],
            [99, 1, 200],
          ],
          'overlap',
          'guest 0 + 100',
          99,
        ],
        [
          'overlap, in any order',
          [
            [50, 1, 200],
            [0, 100, 0],
          ],
          'overlap',
        ],
        [
          'are the same',
          [
            [50, 1, 200],
            [50, 1, 200],
          ],
          'overlap',
        ],
        [
          'are empty',
          [
            [0, 10, 0],
            [50, 0, 0],
          ],
          'regions[1] is empty',
        ],
        ['wrap', [[2n ** 64n - 10n, 11, 0]], 'regions[0] wraps', '18446744073709551606', 'length 11'],
        ['leave the memory', [[0, 0x10000, 1]], 'regions[0] leaves the memory', 65536],
        ['begin behind the memory', [[0, 1, 0x10000]], 'regions[0] leaves the memory'],
        ['are longer than 64 bits', [[0, 2n ** 64n, 0]], 'regions[0].length'],
        ['are longer than the memory by 2^32', [[0, 2 ** 32 + 1, 0]], 'regions[0] leaves the memory'],
      ] as [string, [number | bigint, number | bigint, number][], ...(string | number)[]][])
        it(`that ${what} are refused, and the old ones stay`, () => {
          const list = regions.map(([guest, length, local]) => ({ guest, length, local }));
          refused(() => device.setRegions(list), 'EINVAL', ...texts);
          expect(device.stats().errors).to.deep.equal({ EINVAL: 1 });
          expect(device.pop()).to.equal(undefined);
        });

      it('that are fine', () => {
        device.setRegions([
          { guest: 2n ** 64n - 10n, length: 10n, local: 0 },
          { guest: 0, length: 0x10000, local: 0 },
          { guest: 0x10000, length: 1, local: 0xffff },
        ]);
        device.setRegions(new Set([{ guest: 5, length: 5, local: 5 }]));
        device.setRegions([]);
      });
    });

    describe('records', () => {
      let pair: Pair;
      let other: Pair;

      beforeEach(async () => {
        pair = new Pair(await load({ size: 2 ** 17 }));
        other = new Pair(await load({ size: 2 ** 17 }));
      });

      it('of another engine are refused, also on the same memory', async () => {
        const { memory } = pair.host;
        const near = new Pair(
          await load({ memory, ...(memory instanceof WebAssembly.Memory ? { size: 2 ** 17 } : {}) }),
        );
        for (const { burst, completions, elements } of [other, near]) {
          refused(() => pair.driver.addBurst(burst), 'EINVAL', 'burst must come from a queue of this engine');
          refused(() => pair.driver.getBurst(completions), 'EINVAL', 'completions must come');
          refused(() => pair.device.popBurst(elements), 'EINVAL', 'elements must come');
          refused(() => pair.device.pushBurst(elements), 'EINVAL', 'elements must come');
        }
        pair.works();
      });

      it('of another kind are refused', () => {
        const { driver, device, burst, completions, elements } = pair;
        for (const wrong of [completions, elements, { ...burst }])
          refused(() => driver.addBurst(wrong as never), 'EINVAL', 'burst must come');
        for (const wrong of [burst, elements, { ...completions }])
          refused(() => driver.getBurst(wrong as never), 'EINVAL', 'completions must come');
        for (const wrong of [burst, completions, { ...elements }]) {
          refused(() => device.popBurst(wrong as never), 'EINVAL', 'elements must come');
          refused(() => device.pushBurst(wrong as never), 'EINVAL', 'elements must come');
        }
        pair.works();
      });

      it('that were freed are refused, and freed once', () => {
        const { host, driver, device, burst, completions, elements, buffer } = pair;
        burst.out(buffer, 1).end(1);
        for (const records of [burst, completions, elements]) records.free();
        // Somebody else has the bytes now, and keeps them.
        const taken: number[] = [];
        while (host.used < 2 ** 17 - 8192) taken.push(host.alloc(16));
        const bytes = () =>
          taken.map((address) => new Uint8Array(host.buffer).slice(address, address + 16).join());
        for (const address of taken) new Uint8Array(host.buffer).fill(0x5a, address, address + 16);
        const before = bytes();
        const { used } = host;
        for (const act of [
          () => burst.out(buffer, 1),
          () => burst.in(buffer, 1),
          () => burst.end(1),
          () => burst.commit(0),
          () => burst.words,
          () => burst.tokens,
          () => completions.token(0),
          () => completions.length(0),
          () => completions.words,
          () => elements.id(0),
          () => elements.address(0),
          () => elements.setWritten(0, 0),
          () => elements.words,
          () => elements.pieceWords,
          () => driver.addBurst(burst),
          () => driver.getBurst(completions),
          () => device.popBurst(elements),
          () => device.pushBurst(elements),
          () => burst.free(),
          () => completions.free(),
          () => elements.free(),
        ])
          refused(act, 'EINVAL');
        expect(burst.pending).to.equal(0);
        expect(host.used).to.equal(used);
        expect(bytes()).to.deep.equal(before);
        for (const address of taken) host.free(address);
        expect(driver.add([{ address: buffer, length: 1 }], [], 9)).to.equal(true);
        expect(device.pop()?.out).to.have.length(1);
      });

      it('hold so much and no more', () => {
        const { burst, buffer, driver, device } = pair;
        for (let i = 0; i < 4; i++) burst.out(buffer, 1).end(i);
        refused(() => burst.out(buffer, 1).end(4), 'ENOSPC', 'holds 4 buffers');
        expect(burst.pending).to.equal(4);
        burst.clear();
        for (let i = 0; i < 8; i++) burst.out(buffer, 1);
        refused(() => burst.in(buffer, 1), 'ENOSPC', 'holds 8 segments');
        // The open buffer is gone, as a whole.
        refused(() => burst.end(1), 'EINVAL', 'at least one segment');
        expect(burst.pending).to.equal(0);
        device.reset();
        driver.reset();
        const small = device.createElements(2, 1);
        driver.add([pair.segment], [pair.segment], 1);
        refused(() => device.popBurst(small), 'ENOSPC', 'more than 1 pieces');
        expect(device.inFlight).to.equal(0);
        expect(device.pop()?.in).to.have.length(1);
      });
    });

    describe('a burst', () => {
      let pair: Pair;

      beforeEach(async () => {
        pair = new Pair(await load({ size: 2 ** 21 }));
      });

      it('drops the open buffer at an error and nothing else', () => {
        const { burst, buffer, driver, device } = pair;
        device.reset();
        driver.reset();
        burst.clear();
        burst.out(buffer, 1).end(1);
        refused(() => burst.in(buffer, 1).out(buffer, 1), 'EINVAL', 'out first, then in');
        burst.out(buffer, 2).end(2);
        refused(() => burst.out(buffer, -1), 'EINVAL', 'length', '-1');
        refused(() => burst.out(buffer, 3).end(2 ** 32), 'EINVAL', 'token', '4294967296');
        refused(() => burst.end(3), 'EINVAL', 'at least one segment');
        refused(() => burst.out(2n ** 64n - 1n, 2), 'EINVAL', 'wraps 2^64');
        burst.out(2n ** 64n - 1n, 1).end(3);
        expect(burst.pending).to.equal(3);
        expect(driver.addBurst(burst)).to.equal(3);
        expect(device.pop()?.out).to.deep.equal([{ address: buffer, length: 1 }]);
        expect(device.pop()?.out).to.deep.equal([{ address: buffer, length: 2 }]);
      });

      it('holds no buffer of more than 2^32 bytes, and no chain longer than any queue', () => {
        const { driver, buffer } = pair;
        const burst = driver.createBurst(4, 40000);
        burst.out(0, 0xffffffff).in(0, 1).end(1);
        refused(() => burst.out(0, 0xffffffff).in(0, 2).end(1), 'EINVAL', '4294967297 bytes');
        for (let i = 0; i < 32769; i++) burst.out(buffer, 1);
        refused(() => burst.end(2), 'EINVAL', '32769 segments', 32768);
        expect(burst.pending).to.equal(1);
      });

      it('keeps what is too long for the queue until it is cleared', () => {
        const { driver, device, buffer } = pair;
        device.reset();
        driver.reset();
        const burst = driver.createBurst(4, 40);
        burst.out(buffer, 1).end(1);
        for (let i = 0; i < 9; i++) burst.out(buffer, 1);
        burst.end(2);
        expect(driver.addBurst(burst)).to.equal(1);
        for (let n = 0; n < 2; n++)
          refused(() => driver.addBurst(burst), 'EINVAL', '9 segments', '8 descriptors');
        expect(burst.pending).to.equal(1);
        burst.clear();
        expect(driver.addBurst(burst)).to.equal(0);
        refused(
          () => driver.add(new Array(9).fill(pair.segment), [], 1),
          'EINVAL',
          '9 segments',
          '8 descriptors',
        );
        refused(() => driver.add([], [], 1), 'EINVAL', 'at least one segment');
        refused(() => driver.add([pair.segment, undefined as never], [], 1), 'EINVAL', 'segment');
        refused(() => driver.add(new Array(2), [], 1), 'EINVAL', 'segment');
        pair.works();
      });

      const { OUT, IN } = Burst;
      for (const [what, word3, ...texts] of [
        ['no number of segments', [0, OUT], 'record 0 of buffer 0', 'no number'],
        ['more segments than there are', [9 << 16, OUT], 'record 0 of buffer 0', '9 segments'],
        ['NEXT in the last segment', [OUT | 1, OUT], 'record 0 of buffer 0', 'flags 1'],
        ['no NEXT in the first of two', [2 << 16, 0], 'record 0 of buffer 0', 'flags 0'],
        ['INDIRECT', [OUT, OUT | 4], 'record 1 of buffer 1', 'flags 4'],
        [
          'a readable segment after a writable one',
          [(2 << 16) | 3, 0],
          'record 1 of buffer 0',
          'readable after',
        ],
        ['a number in the second segment', [(2 << 16) | 1, 1 << 16], 'record 1 of buffer 0', 'flags'],
        ['a buffer that is missing', [(8 << 16) | 1, 1, 1, 1, 1, 1, 1, 0], 'record 8 of buffer 1', 'missing'],
      ] as [string, number[], ...string[]][])
        it(`commits no record with ${what}`, () => {
          const { burst, buffer } = pair;
          burst.clear();
          const { words } = burst;
          for (let i = 0; i < 8; i++) words.set([buffer, 0, 1, word3[i] ?? IN], i * 4);
          refused(() => burst.commit(2), 'EINVAL', ...texts, 'nothing was committed');
          expect(burst.pending).to.equal(0);
          pair.works();
        });

      it('commits nothing while something waits', () => {
        const { burst, buffer } = pair;
        burst.clear();
        burst.out(buffer, 1);
        refused(() => burst.commit(1), 'EINVAL', 'needs an empty burst');
        burst.end(1);
        refused(() => burst.commit(1), 'EINVAL', 'needs an empty burst', 1);
        refused(() => burst.commit(5), 'EINVAL');
        expect(burst.pending).to.equal(1);
      });
    });

    describe('a queue that was released', () => {
      it('refuses everything, and gives back everything once', async () => {
        const host = await load({ size: 2 ** 17 });
        const pair = new Pair(host);
        const { driver, device, burst, completions, elements, buffer, segment } = pair;
        burst.out(buffer, 1).end(1);
        const states = { driver: driver.save(), device: device.save() };
        const before = host.used;
        driver.release();
        device.release();
        const { used } = host;
        expect(used).to.be.below(before);
        for (const act of [
          () => driver.add([segment], [], 1),
          () => driver.addBurst(burst),
          () => driver.kick(),
          () => driver.kickPrepare(),
          () => driver.getBuf(),
          () => driver.getBurst(completions),
          () => driver.moreUsed(),
          () => driver.disableCallbacks(),
          () => driver.enableCallbacks(),
          () => driver.enableCallbacksPrepare(),
          () => driver.poll(0),
          () => driver.enableCallbacksDelayed(),
          () => driver.detachUnused(),
          () => driver.reset(),
          () => driver.numFree,
          () => driver.inFlight,
          () => driver.tableBytes,
          () => driver.broken,
          () => driver.fault,
          () => driver.stats(),
          () => driver.notificationData(0),
          () => driver.inspect(),
          () => driver.save(),
          () => driver.restore(states.driver),
          () => driver.setTables({}),
          () => driver.trimTables(),
          () => driver.resize(8),
          () => driver.resize(8, driver.areas),
          () => driver.release(),
          () => device.pop(),
          () => device.popBurst(elements),
          () => device.push({ id: 0 }, 0),
          () => device.pushBurst(elements),
          () => device.fill({ id: 0 }, 0, 0),
          () => device.flush(0),
          () => device.unpop({ id: 0 }),
          () => device.rewind(1),
          () => device.detach({ id: 0 }),
          () => device.availableBytes(1, 1),
          () => device.shouldInterrupt(),
          () => device.enableNotifications(),
          () => device.disableNotifications(),
          () => device.setRegions([]),
          () => device.reset(),
          () => device.inFlight,
          () => device.inspect(),
          () => device.save(),
          () => device.restore(states.device),
          () => device.resize(8, states.device.areas),
          () => device.release(),
        ])
          refused(act, 'EINVAL', 'released');
        expect(host.used).to.equal(used);
        for (const records of [burst, completions, elements]) records.free();
        host.free(buffer);
        expect(host.used).to.equal(0);
        new Pair(host).works();
      });
    });

    it('a creation that fails leaves nothing in the arena', async () => {
      const features = FEATURES;
      let made = 0;
      for (let size = 16; made < 40 && size < 8192; size += 16) {
        const host = await load({ size });
        try {
          const driver = host.driverQueue({ ring: 'split', size: 8, features, indirect: { memory: 128 } });
          made++;
          const { used } = host;
          try {
            const device = host.deviceQueue({ ring: 'split', size: 8, features, areas: driver.areas });
            made++;
            const more = host.used;
            try {
              device.createElements(8, 8).free();
              driver.createBurst(8, 8).free();
              made++;
            } catch (error) {
              expect((error as VringError).code).to.equal('ENOMEM');
            }
            expect(host.used).to.equal(more);
            device.release();
          } catch (error) {
            expect((error as VringError).code).to.equal('ENOMEM');
          }
          expect(host.used).to.equal(used);
          driver.release();
        } catch (error) {
          expect((error as VringError).code, String(error)).to.equal('ENOMEM');
        }
        expect(host.used, `with an arena of ${size}`).to.equal(0);
      }
      expect(made).to.be.at.least(40);
    });

    it('case 20: the size of a split queue is a power of two from 1 to 32768', async () => {
      const host = await load({ size: 2 ** 22 });
      for (const size of [0, 3, 5, 6, 7, 12, 255, 257, 32767, 32769, 65536]) {
        const text = size < 1 || size > 32768 ? 'from 1 to 32768' : 'a power of two';
        const areas = { descriptor: 0, driver: 0x1000, device: 0x2000 };
        refused(() => host.driverQueue({ ring: 'split', size }), 'EINVAL', text, size);
        refused(() => host.deviceQueue({ ring: 'split', size, areas }), 'EINVAL', text, size);
      }
      for (let size = 1; size <= 32768; size *= 2) {
        const driver = host.driverQueue({ ring: 'split', size });
        const device = host.deviceQueue({ ring: 'split', size, areas: driver.areas });
        expect([driver.size, driver.numFree, device.size]).to.deep.equal([size, size, size]);
        driver.add([], [{ address: 64, length: 1 }], size);
        device.push({ id: device.pop()?.id as number }, 1);
        expect(driver.getBuf()).to.deep.equal({ token: size, length: 1 });
        driver.release();
        device.release();
      }
      expect(host.used).to.equal(0);
    });

    it('callbacks may use the queues', async () => {
      const host = await load({ size: 2 ** 17 });
      const segment = { address: host.alloc(16), length: 16 };
      const got: number[] = [];
      const options = { ring: 'split', size: 2, features: [Feature.EVENT_IDX] } as const;
      const driver = host.driverQueue({
        ...options,
        // The device runs as soon as it is told, as in an emulator.
        notify: () => {
          for (let element = device.pop(); element; element = device.pop()) device.push(element, 0);
        },
      });
      const device = host.deviceQueue({
        ...options,
        areas: driver.areas,
        // And the driver as soon as it is interrupted: it sends the next one.
        interrupt: () => {
          for (let completion = driver.getBuf(); completion; completion = driver.getBuf()) {
            got.push(completion.token);
            if (completion.token < 300) driver.add([segment], [], completion.token + 1);
            driver.kick();
          }
        },
      });
      driver.add([segment], [], 0);
      driver.kick();
      expect(got).to.deep.equal(Array.from({ length: 301 }, (_, i) => i));
      expect([driver.numFree, device.inFlight]).to.deep.equal([2, 0]);
    });

    it('what a callback throws goes to the caller, and the queue still works', async () => {
      const host = await load({ size: 2 ** 17 });
      const fail = () => {
        throw new RangeError('not mine');
      };
      const driver = host.driverQueue({ ring: 'split', size: 8, notify: fail });
      const device = host.deviceQueue({ ring: 'split', size: 8, areas: driver.areas, interrupt: fail });
      const segment = { address: host.alloc(16), length: 16 };
      for (let i = 0; i < 20; i++) {
        expect(driver.add([segment], [], i)).to.equal(true);
        expect(() => driver.kick()).to.throw(RangeError, 'not mine');
        const element = device.pop();
        expect(() => device.push(element as never, 0)).to.throw(RangeError, 'not mine');
        expect(driver.getBuf()).to.deep.equal({ token: i, length: 0 });
      }
      expect(driver.stats()).to.include({ kicksSent: 20, completed: 20 });
    });

    describe('of loadEngine', () => {
      const memory = () => new WebAssembly.Memory({ initial: 2 });
      for (const [name, fine, ...codes] of [
        ['memory', ['undefined'], 'EINVAL'],
        ['base', ['undefined'], 'EINVAL', 'ENOMEM'],
        ['size', ['undefined'], 'EINVAL', 'ENOMEM'],
        ['shared', ['undefined', 'true'], 'EINVAL'],
        ['module', ['undefined'], 'EINVAL'],
        ['engine', ['undefined'], 'EINVAL'],
      ] as [string, Name[], ...ErrorCode[]][])
        it(`of the wrong kind, for ${name}`, async () => {
          for (const [what, value] of Object.entries(VALUES)) {
            // 4 GiB may well be had, and a buffer is a memory for one engine.
            if (what === '2^32' || what === '2^31' || (name === 'memory' && what === 'an ArrayBuffer'))
              continue;
            const options = { size: 65536, engine, [name]: value } as LoadOptions;
            let error: unknown;
            await loadEngine(options).catch((thrown) => {
              error = thrown;
            });
            if (fine.includes(what)) expect(error, what).to.equal(undefined);
            else {
              expect(error, `${name} ${what}`).to.be.instanceOf(VringError);
              expect(codes, `${name} ${what}: ${error}`).to.include((error as VringError).code);
            }
          }
        });

      it('of the wrong kind, for all of them', async () => {
        for (const value of [null, true, 1, 'wasm', 1n, Symbol('x'), () => 1]) {
          const error = await loadEngine(value as never).catch((thrown) => thrown);
          expect(error, String(value)).to.be.instanceOf(VringError);
          expect(error.message).to.contain('options must be an object');
        }
      });

      for (const [what, options, code, ...texts] of [
        [
          'a base behind the memory',
          { memory: memory(), base: 0x20000 },
          'EINVAL',
          'base 131072',
          '131072 bytes',
        ],
        ['a size past the end', { memory: memory(), base: 0x10000, size: 0x10001 }, 'EINVAL', 'size 65537'],
        [
          'a size of more than the memory',
          { memory: memory(), base: 0, size: 2 ** 32 },
          'EINVAL',
          '4294967296',
        ],
        ['shared for an unshared memory', { memory: memory(), shared: true }, 'EINVAL', 'shared is true'],
        ['a size that no memory has', { size: 2 ** 32, base: 1 }, 'EINVAL', 'above 2^32'],
        [
          'no room to grow',
          { memory: new WebAssembly.Memory({ initial: 1, maximum: 1 }) },
          'ENOMEM',
          'cannot grow',
          'pass base and size',
        ],
      ] as [string, LoadOptions, ErrorCode, ...string[]][])
        it(`${what} is refused`, async () => {
          const error = await loadEngine({ ...options, engine }).catch((thrown) => thrown);
          expect(error).to.be.instanceOf(VringError);
          expect(error.code, error.message).to.equal(code);
          for (const text of texts) expect(error.message).to.contain(text);
        });
    });
  });
});
