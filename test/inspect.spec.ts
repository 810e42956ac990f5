// queue.inspect(): known small scenarios against exact objects, then any bytes at all. What a device says of a
// chain is held against what its engine says when it pops it; likewise a driver and its used buffers.

import { expect } from 'chai';
import fc from 'fast-check';
import {
  type DeviceQueue,
  type DriverQueue,
  type Element,
  Feature,
  type Host,
  type QueueStats,
  type RingFormat,
  VringError,
} from '../src/index.js';
import { runs } from './support/choices.js';
import { forEachEngine, type Load } from './support/engines.js';

const { INDIRECT_DESC, EVENT_IDX, IN_ORDER } = Feature;

// Where things lie: below ARENA, so that an engine's own state is not among the bytes that tests change.
const DESCRIPTOR = 0x100;
const DRIVER = 0x300;
const DEVICE = 0x400;
const TABLES = 0x800;
const TABLE_BYTES = 0x400;
const DATA = 0x1000;
const DATA_BYTES = 0x800;
const ARENA = 0x2000;
const AREAS = { descriptor: DESCRIPTOR, driver: DRIVER, device: DEVICE };
const AREAS_TEXT = { descriptor: '0x100', driver: '0x300', device: '0x400' };

interface Pair {
  host: Host;
  driver: DriverQueue;
  device: DeviceQueue;
  view: DataView;
}

async function pair(load: Load, ring: RingFormat, features: Feature[] = [], size = 8): Promise<Pair> {
  const host = await load({ memory: new WebAssembly.Memory({ initial: 1 }), base: ARENA, size: 0xe000 });
  const indirect = { memory: { address: TABLES, length: TABLE_BYTES } };
  const driver = host.driverQueue({ ring, size, features, areas: AREAS, indirect, strict: true });
  const regions = [
    { guest: 0, length: TABLES + TABLE_BYTES, local: 0 },
    { guest: 0x10_0000_0000n, length: DATA_BYTES, local: DATA },
  ];
  const device = host.deviceQueue({ ring, size, features, areas: AREAS, regions });
  return { host, driver, device, view: new DataView(host.buffer) };
}

/** A segment in the data region, by its guest address. */
const data = (offset: number, length: number) => ({ address: 0x10_0000_0000n + BigInt(offset), length });
const out = (address: string, length: number) => ({ address, length, direction: 'out' as const });
const in_ = (address: string, length: number) => ({ address, length, direction: 'in' as const });

const stats = (counts: Partial<QueueStats>): QueueStats => ({
  added: 0,
  completed: 0,
  bytesOut: 0,
  bytesIn: 0,
  kicksSent: 0,
  kicksSuppressed: 0,
  interruptsSent: 0,
  interruptsSuppressed: 0,
  full: 0,
  clamped: 0,
  indirect: 0,
  tableFailed: 0,
  errors: {},
  ...counts,
});

function popped(device: DeviceQueue): Element {
  const element = device.pop();
  if (element === undefined) throw new Error('nothing to pop');
  return element;
}

forEachEngine((load) => {
  describe('inspect()', () => {
    it('of a split ring: positions, words, chains, tables, what is pending on either side', async () => {
      const { driver, device } = await pair(load, 'split', [INDIRECT_DESC, EVENT_IDX]);
      driver.add([data(0, 16), data(0x20, 3)], [data(0x40, 64)], 7);
      driver.add([data(0x100, 1)], [], 8);
      popped(device);
      device.push(popped(device), 0);
      driver.add([], [data(0x200, 100)], 9);
      expect(driver.inspect()).to.deep.equal({
        side: 'driver',
        ring: 'split',
        size: 8,
        features: ['INDIRECT_DESC', 'EVENT_IDX'],
        areas: AREAS_TEXT,
        tables: { address: '0x800', length: 0x400, inUse: 48 },
        fault: null,
        problems: [],
        stats: stats({ added: 3, bytesOut: 20, indirect: 1 }),
        position: { avail: 3, used: 0 },
        callbacks: true,
        unkicked: 3,
        avail: { flags: [], idx: 3, usedEvent: 0 },
        used: { flags: [], idx: 1, availEvent: 2 },
        numFree: 5,
        free: [3, 4, 5, 6, 7],
        inFlight: [
          {
            id: 0,
            token: 7,
            descriptors: [0],
            writable: 64,
            table: { address: '0x800', descriptors: 3 },
            segments: [out('0x1000000000', 16), out('0x1000000020', 3), in_('0x1000000040', 64)],
          },
          { id: 1, token: 8, descriptors: [1], writable: 0, segments: [out('0x1000000100', 1)] },
          { id: 2, token: 9, descriptors: [2], writable: 100, segments: [in_('0x1000000200', 100)] },
        ],
        pending: { count: 1, entries: [{ slot: 0, id: 1, length: 0 }] },
      });
      expect(device.inspect()).to.deep.equal({
        side: 'device',
        ring: 'split',
        size: 8,
        features: ['INDIRECT_DESC', 'EVENT_IDX'],
        areas: AREAS_TEXT,
        fault: null,
        problems: [],
        stats: stats({ added: 2, completed: 1, bytesOut: 20, indirect: 1 }),
        position: { avail: 2, used: 1 },
        notifications: true,
        unsignalled: 1,
        avail: { flags: [], idx: 3, usedEvent: 0 },
        used: { flags: [], idx: 1, availEvent: 2 },
        inFlight: [
          {
            id: 0,
            state: 'popped',
            writable: 64,
            table: { address: '0x800', descriptors: 3 },
            segments: [out('0x1000000000', 16), out('0x1000000020', 3), in_('0x1000000040', 64)],
          },
        ],
        pending: {
          count: 1,
          buffers: [{ slot: 2, id: 2, writable: 100, segments: [in_('0x1000000200', 100)] }],
        },
      });
    });

    it('of a packed ring: positions with wrap counters, event structures, slots', async () => {
      const { driver, device } = await pair(load, 'packed', [INDIRECT_DESC, EVENT_IDX]);
      for (let i = 0; i < 6; i++) {
        driver.add([data(0, 16)], [], i);
        device.push(popped(device), 0);
        driver.getBuf();
      }
      driver.disableCallbacks();
      driver.enableCallbacks();
      device.disableNotifications();
      driver.add([data(0, 16), data(0x20, 3)], [data(0x40, 64)], 7);
      driver.add([data(0x100, 1)], [], 8);
      const element = popped(device);
      device.fill(element, 60, 0);
      driver.add([], [data(0x200, 100)], 9);
      const segments = [out('0x1000000000', 16), out('0x1000000020', 3), in_('0x1000000040', 64)];
      const table = { address: '0x800', descriptors: 3 };
      expect(driver.inspect()).to.deep.equal({
        side: 'driver',
        ring: 'packed',
        size: 8,
        features: ['INDIRECT_DESC', 'EVENT_IDX', 'RING_PACKED'],
        areas: AREAS_TEXT,
        tables: { address: '0x800', length: 0x400, inUse: 48 },
        fault: null,
        problems: [],
        stats: stats({ added: 9, completed: 6, bytesOut: 116, indirect: 1 }),
        position: { avail: { slot: 1, wrap: 0 }, used: { slot: 6, wrap: 1 } },
        callbacks: 'DESC',
        unkicked: 9,
        driverEvent: { flags: 'DESC', slot: 6, wrap: 1 },
        deviceEvent: { flags: 'DISABLE', slot: 0, wrap: 0 },
        numFree: 5,
        free: [3, 4, 5, 6, 7],
        inFlight: [
          { id: 0, token: 7, slot: 6, slots: 1, writable: 64, table, segments },
          { id: 1, token: 8, slot: 7, slots: 1, writable: 0, segments: [out('0x1000000100', 1)] },
          { id: 2, token: 9, slot: 0, slots: 1, writable: 100, segments: [in_('0x1000000200', 100)] },
        ],
        pending: { entries: [] },
      });
      expect(device.inspect()).to.deep.equal({
        side: 'device',
        ring: 'packed',
        size: 8,
        features: ['INDIRECT_DESC', 'EVENT_IDX', 'RING_PACKED'],
        areas: AREAS_TEXT,
        fault: null,
        problems: [],
        stats: stats({ added: 7, completed: 6, bytesOut: 115, indirect: 1 }),
        position: { avail: { slot: 7, wrap: 1 }, used: { slot: 6, wrap: 1 } },
        notifications: 'DISABLE',
        unsignalled: 6,
        driverEvent: { flags: 'DESC', slot: 6, wrap: 1 },
        deviceEvent: { flags: 'DISABLE', slot: 0, wrap: 0 },
        inFlight: [
          {
            id: 0,
            state: 'filled',
            written: 60,
            offset: 0,
            slot: 6,
            slots: 1,
            writable: 64,
            table,
            segments,
          },
        ],
        pending: {
          slots: 2,
          buffers: [
            { slot: 7, slots: 1, id: 1, writable: 0, segments: [out('0x1000000100', 1)] },
            { slot: 0, slots: 1, id: 2, writable: 100, segments: [in_('0x1000000200', 100)] },
          ],
        },
      });
    });

    it('of a packed ring: a buffer whose slots were written over shows nothing of another', async () => {
      const { driver, device } = await pair(load, 'packed');
      driver.add([data(0, 1), data(2, 2)], [data(4, 3)], 1); // slots 0 to 2
      driver.add([data(0x10, 4)], [], 2); // slot 3
      driver.add([data(0x20, 5)], [], 3); // slot 4
      const elements = [popped(device), popped(device), popped(device)];
      const all = driver.inspect();
      expect(all.inFlight[0])
        .to.include({ id: 0, slot: 0, slots: 3 })
        .and.not.to.have.property('overwritten');
      expect(device.inspect().inFlight[0]).to.include({ id: 0, slot: 0, slots: 3, writable: 3 });

      // The used descriptor of the third lies where the first begins.
      device.push(elements[2], 0);
      const first = { id: 0, slot: 0, slots: 3, writable: 3, overwritten: 1 };
      const left = [out('0x1000000002', 2), in_('0x1000000004', 3)];
      expect(driver.inspect().inFlight[0]).to.deep.equal({ ...first, token: 1, segments: left });
      expect(driver.inspect().pending).to.deep.equal({ entries: [{ slot: 0, id: 2, length: 0 }] });
      expect(device.inspect().inFlight).to.deep.equal([
        { ...first, state: 'popped', segments: left },
        { id: 1, state: 'popped', slot: 3, slots: 1, writable: 0, segments: [out('0x1000000010', 4)] },
      ]);

      // The second, too: then the driver goes on over all of it.
      device.push(elements[1], 0);
      driver.getBuf();
      driver.getBuf();
      for (let token = 4; token < 9; token++) driver.add([data(0x100 + token, 1)], [], token);
      expect(driver.numFree).to.equal(0);
      const now = driver.inspect().inFlight;
      expect(now[0]).to.deep.equal({
        ...first,
        token: 1,
        overwritten: 2,
        segments: [in_('0x1000000004', 3)],
      });
      expect(now).to.have.length(6);
      for (const buffer of now.slice(1)) expect(buffer).to.not.have.any.keys('overwritten', 'problem');
      for (let i = 0; i < 5; i++) device.push(popped(device), 0);
      while (driver.getBuf() !== undefined);
      for (let token = 10; token < 15; token++) driver.add([data(0x100 + token, 1)], [], token);
      expect(driver.inspect().inFlight[0]).to.deep.equal({
        ...first,
        token: 1,
        overwritten: 3,
        segments: [],
      });
      const { slot: _, ...unplaced } = first;
      expect(device.inspect().inFlight).to.deep.equal([{ ...unplaced, state: 'popped', overwritten: 3 }]);
    });

    for (const ring of ['split', 'packed'] as const) {
      it(`of a ${ring} ring, in order: what is done and held, and a batch`, async () => {
        const { driver, device } = await pair(load, ring, [IN_ORDER]);
        for (let token = 0; token < 4; token++) driver.add([], [data(0x10 * token, 8)], token);
        const elements = [popped(device), popped(device), popped(device)];
        device.fill(elements[1], 8, 0);
        const states = device.inspect().inFlight.map(({ id, state, written }) => [id, state, written]);
        expect(states).to.deep.equal([
          [0, 'popped', undefined],
          [1, 'done', 8],
          [2, 'popped', undefined],
        ]);
        device.fill(elements[0], 8, 0);
        device.fill(elements[2], 5, 0);
        device.flush(3);
        // One used entry answers for all three.
        const entry = { slot: 0, id: 2, length: 5 };
        expect(driver.inspect().pending?.entries).to.deep.equal([entry]);
        expect(driver.getBuf()).to.deep.equal({ token: 0, length: 8 });
        const { batch, pending, inFlight } = driver.inspect();
        expect(batch).to.deep.equal({ left: 2, length: 5 });
        expect(pending?.entries).to.deep.equal([]);
        expect(inFlight.map(({ token }) => token)).to.deep.equal([1, 2, 3]);
      });

      it(`of a ${ring} ring that its driver broke`, async () => {
        const { driver, device, view } = await pair(load, ring);
        driver.add([data(0, 4)], [], 1);
        view.setBigUint64(DESCRIPTOR, 0xffff_ffff_ffff_fff0n, true);
        expect(() => device.pop()).to.throw(VringError, 'EFAULT');
        const reason = 'segment at 0xfffffffffffffff0, length 4, is outside every region';
        const inspection = device.inspect();
        expect(inspection.fault).to.deep.equal({ code: 'EFAULT', reason });
        expect(inspection.pending?.buffers).to.have.length(1);
        expect(inspection.pending?.buffers[0]).to.deep.include({ slot: 0, problem: reason, segments: [] });
        expect(inspection.stats.errors).to.deep.equal({ EFAULT: 1 });
        device.reset();
        expect(device.inspect().fault).to.equal(null);
      });

      it(`of a ${ring} ring that its device broke`, async () => {
        const { driver, device, view } = await pair(load, ring);
        driver.add([], [data(0, 4)], 1);
        const element = popped(device);
        device.push(element, 2);
        if (ring === 'split') view.setUint32(DEVICE + 4, 9, true);
        else view.setUint16(DESCRIPTOR + 12, 9, true);
        expect(() => driver.getBuf()).to.throw(VringError, 'EPROTO');
        const { fault, pending, inFlight } = driver.inspect();
        expect(fault).to.deep.equal({ code: 'EPROTO', reason: 'used id 9, the queue has 8 descriptors' });
        expect(pending?.entries).to.deep.equal([{ slot: 0, id: 9, length: 2, problem: fault?.reason }]);
        expect(inFlight).to.have.length(1);
      });

      it(`of a ${ring} ring of 32768 under bytes that are all the same stays small`, async () => {
        const size = 32768;
        const host = await load({ size: 4 << 20 });
        const driver = host.driverQueue({ ring, size });
        const device = host.deviceQueue({ ring, size, features: [INDIRECT_DESC], areas: driver.areas });
        const bytes = new Uint8Array(host.buffer);
        const { descriptor, driver: avail } = driver.areas;
        for (const value of [0xff, 0x81, 0x01, 0x04, 0x84]) {
          bytes.fill(value, descriptor, descriptor + 16 * size);
          bytes.fill(value, avail, avail + (ring === 'split' ? 6 + 2 * size : 4));
          const text = JSON.stringify(device.inspect());
          expect(text.length).to.be.below(10_000_000);
        }
      });
    }
  });

  describe('inspect() under any bytes', () => {
    /** Bytes that a side may look at: everything else is turned over, and nothing it says may change. */
    function turnOver(bytes: Uint8Array, keep: [number, number][]): () => void {
      const copy = bytes.slice(0, ARENA);
      bytes.set(copy.map((byte) => byte ^ 0xff));
      for (const [from, to] of keep) bytes.set(copy.subarray(from, to), from);
      return () => bytes.set(copy);
    }

    function steady<T>(inspect: () => T, bytes: Uint8Array, keep: [number, number][]): T {
      const told = inspect();
      expect(JSON.parse(JSON.stringify(told)), 'survives JSON').to.deep.equal(told);
      const restore = turnOver(bytes, keep);
      expect(inspect(), 'depends on bytes that are not its own').to.deep.equal(told);
      restore();
      return told;
    }

    const ops = fc.array(
      fc.tuple(
        fc.constantFrom(
          'add',
          'add',
          'add',
          'pop',
          'pop',
          'push',
          'push',
          'fill',
          'flush',
          'get',
          'rewind',
          'detach',
        ),
        fc.nat(0xffff),
      ),
      { maxLength: 40 },
    );

    for (const ring of ['split', 'packed'] as const)
      it(`of a ${ring} ring: never throws, reads its own bytes only, says what the engine will say`, async function () {
        this.timeout(300_000);
        /** Words that look like something: flags of every kind, small numbers. */
        const flags = fc.constantFrom(
          0,
          1,
          2,
          3,
          4,
          5,
          0x80,
          0x81,
          0x82,
          0x83,
          0x84,
          0x8000,
          0x8001,
          0x8080,
          0x8082,
        );
        const word = fc.oneof(flags, fc.nat(20), fc.nat(0xffff));
        const place = fc.record({
          area: fc.constantFrom('descriptor', 'descriptor', 'table', 'driver', 'device'),
          at: fc.nat(0xffff),
          word,
        });
        /** A field of a descriptor: with nothing else wrong the deeper checks are reached. */
        const field = fc
          .record({ area: fc.constantFrom('descriptor', 'table'), index: fc.nat(7), flags, small: fc.nat(9) })
          .chain(({ area, index, flags, small }) =>
            fc.constantFrom(8, 12, 12, 14, 14).map((at) => ({
              area,
              at: 16 * index + at,
              word: at === (ring === 'split' ? 12 : 14) ? flags : small,
            })),
          );
        const pokes = fc.array(fc.oneof({ weight: 4, arbitrary: field }, place), { maxLength: 4 });
        const option = fc.subarray([INDIRECT_DESC, EVENT_IDX, IN_ORDER]);
        await fc.assert(
          fc.asyncProperty(
            option,
            fc.constantFrom(1, 2, 8),
            ops,
            pokes,
            async (features, size, steps, marks) => {
              const { host, driver, device, view } = await pair(load, ring, features, size);
              const bytes = new Uint8Array(host.buffer);
              const elements: Element[] = [];
              for (const [kind, n] of steps) operate(driver, device, elements, kind, n);
              const areas = {
                descriptor: [DESCRIPTOR, 16 * size],
                driver: [DRIVER, ring === 'split' ? 6 + 2 * size : 4],
                device: [DEVICE, ring === 'split' ? 6 + 8 * size : 4],
                table: [TABLES, 64],
              };
              for (const mark of marks) {
                const [start, length] = areas[mark.area as keyof typeof areas];
                view.setUint16(start + ((mark.at % length) & ~1), mark.word, true);
              }
              const ringBytes: [number, number][] = Object.values(areas)
                .slice(0, 3)
                .map(([start, length]) => [start, start + length]);
              const ofDriver = steady(() => driver.inspect(), bytes, [
                ...ringBytes,
                [TABLES, TABLES + TABLE_BYTES],
              ]);
              const ofDevice = steady(() => device.inspect(), bytes, [
                [0, TABLES + TABLE_BYTES],
                [DATA, DATA + DATA_BYTES],
              ]);
              expectPop(device, ofDevice);
              expectGet(driver, ofDriver);
              driver.inspect();
              device.inspect();
            },
          ),
          runs(150),
        );
      });
  });
});

function operate(
  driver: DriverQueue,
  device: DeviceQueue,
  elements: Element[],
  kind: string,
  n: number,
): void {
  const element = elements[n % Math.max(1, elements.length)];
  const taken = () => elements.splice(elements.indexOf(element), 1);
  if (kind === 'add') {
    const count = 1 + (n % Math.min(3, driver.size));
    const outs = n % (count + 1);
    const part = (i: number) => data((n + 64 * i) % (DATA_BYTES - 16), (n >> 4) % 16);
    const segments = Array.from({ length: count }, (_, i) => part(i));
    driver.add(segments.slice(0, outs), segments.slice(outs), n);
  } else if (kind === 'pop') {
    const got = device.pop();
    if (got !== undefined) elements.push(got);
  } else if (kind === 'get') driver.getBuf();
  else if (element === undefined) return;
  else if (kind === 'rewind') {
    if (device.rewind(1)) elements.pop();
  } else if (kind === 'detach') {
    if (refuses(() => device.detach(element))) return;
    taken();
  } else if (kind === 'fill') refuses(() => device.fill(element, 0, n % elements.length)) || taken();
  else if (kind === 'flush') refuses(() => device.flush(1));
  else if (kind === 'push') refuses(() => device.push(element, 0)) || taken();
}

/** Whether the arguments, not the peer, were at fault. */
function refuses(call: () => void): boolean {
  try {
    call();
    return false;
  } catch (error) {
    if (!(error instanceof VringError) || error.code !== 'EINVAL') throw error;
    return true;
  }
}

function expectPop(device: DeviceQueue, told: ReturnType<DeviceQueue['inspect']>): void {
  const first = told.pending?.buffers[0];
  let element: Element | undefined;
  try {
    element = device.pop();
  } catch (error) {
    if (device.fault === undefined) throw error;
    expect([...told.problems, first?.problem]).to.include(device.fault.reason);
    return;
  }
  if (element === undefined) {
    expect(first).to.equal(undefined);
    return;
  }
  const bytes = (pieces: { length: number }[]) => pieces.reduce((sum, { length }) => sum + length, 0);
  expect(first?.problem).to.equal(undefined);
  expect(first?.id).to.equal(element.id);
  expect(first?.writable).to.equal(bytes(element.in));
  expect(bytes(first?.segments ?? [])).to.equal(bytes(element.in) + bytes(element.out));
}

function expectGet(driver: DriverQueue, told: ReturnType<DriverQueue['inspect']>): void {
  const first = told.pending?.entries[0];
  const batch = told.batch?.left ?? 0;
  let got: ReturnType<DriverQueue['getBuf']>;
  try {
    got = driver.getBuf();
  } catch (error) {
    if (driver.fault === undefined) throw error;
    expect([...told.problems, first?.problem]).to.include(driver.fault.reason);
    return;
  }
  if (got === undefined) {
    expect(first).to.equal(undefined);
    return;
  }
  if (batch > 0) return;
  expect(first?.problem).to.equal(undefined);
  if (!told.features.includes('IN_ORDER')) {
    const buffer = told.inFlight.find(({ id }) => id === first?.id);
    expect(got).to.deep.equal({ token: buffer?.token, length: first?.length });
  }
}
