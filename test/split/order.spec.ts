// Statements about the order in which another thread sees what a queue wrote (virtio 1.4, 2.7.8.2 and
// 2.7.13). On one thread there is nothing to see. So the other side runs on a thread of its own, on shared
// memory. Since a barrier that is missing shows only now and then, or on other CPUs, the barriers themselves
// are looked for as well: atomic instructions in the shared build, calls of Atomics in TypeScript.

import { expect } from 'chai';
import { Feature } from '../../src/index.js';
import { atomics } from '../support/atomics.js';
import { forEachEngine, loader } from '../support/engines.js';
import { CONTROL, dataOf, lengthOf, sharedMemory, startPeer, waitUntil, wordOf } from '../support/peer.js';
import type { RingPeerData } from '../support/ring-peer.js';
import { afterAtomicStores, isAtomic, sharedBuild } from '../support/shared-build.js';
import { SplitRing } from '../support/split-ring.js';

const SIZE = 64;
const COUNT = 20000;

forEachEngine((load) => {
  describe('split ring between two threads', function () {
    this.timeout(300_000);

    it('shows avail.idx after the descriptors and entries behind it [split-driver-publish-barrier]', async () => {
      const engine = await load({ memory: sharedMemory(), base: 16, size: 2 ** 20 });
      const driver = engine.driverQueue({ ring: 'split', size: SIZE });
      const data = engine.alloc(64 * SIZE);
      const { i32, verdict } = await startPeer<RingPeerData>('ring-peer.ts', engine, {
        role: 'watch-avail',
        areas: driver.areas,
        size: SIZE,
        data,
        count: COUNT,
      });
      const u16 = new Uint16Array(engine.buffer);
      const u32 = new Uint32Array(engine.buffer);
      const used = driver.areas.device;
      const burst = driver.createBurst(SIZE);
      const completions = driver.createCompletions(SIZE);
      let added = 0;
      let stuck = false;
      while (added < COUNT && !stuck) {
        const n = Math.min(1 + (added % 13), SIZE, COUNT - added);
        for (let k = 0; k < n; k++) {
          const address = dataOf(data, (added + k) % SIZE);
          u32[address >>> 2] = wordOf(added + k);
          burst.out(address, lengthOf(added + k)).end(added + k);
        }
        expect(driver.addBurst(burst)).to.equal(n);
        for (let k = 0; k < n; k++) {
          // The main thread plays the device that uses them, once the watcher has looked.
          const elem = (used + 4 + 8 * ((added + k) % SIZE)) >>> 2;
          u32[elem] = u16[(driver.areas.driver + 4 + 2 * ((added + k) % SIZE)) >>> 1];
          u32[elem + 1] = 0;
        }
        added += n;
        const target = added;
        if (driver.numFree < 13 || added === COUNT) {
          stuck = !waitUntil(i32, () => Atomics.load(i32, CONTROL.done) >= target);
          Atomics.store(u16, (used + 2) >>> 1, added & 0xffff);
          driver.getBurst(completions);
        }
      }
      expect(await verdict).to.equal('ok');
      expect(stuck).to.equal(false);
    });

    it('shows used.idx after the len and the bytes behind it [split-device-len-first] [split-device-len-written]', async () => {
      const engine = await load({ memory: sharedMemory(), base: 16, size: 2 ** 20 });
      const areas = {
        descriptor: engine.alloc(16 * SIZE, 16),
        driver: engine.alloc(6 + 2 * SIZE, 4),
        device: engine.alloc(6 + 8 * SIZE, 4),
      };
      new Uint8Array(engine.buffer).fill(0, areas.driver, areas.driver + 6 + 2 * SIZE);
      new Uint8Array(engine.buffer).fill(0, areas.device, areas.device + 6 + 8 * SIZE);
      const data = engine.alloc(2048 * SIZE);
      const device = engine.deviceQueue({ ring: 'split', size: SIZE, areas });
      const { i32, verdict } = await startPeer<RingPeerData>('ring-peer.ts', engine, {
        role: 'watch-used',
        areas,
        size: SIZE,
        data,
        count: COUNT,
      });
      const u16 = new Uint16Array(engine.buffer);
      const u32 = new Uint32Array(engine.buffer);
      const elements = device.createElements(SIZE);
      // Descriptor h is always the buffer of 2 KiB at slot h; made available in order by the main thread.
      for (let h = 0; h < SIZE; h++) {
        const desc = (areas.descriptor + 16 * h) >>> 2;
        u32.set([dataOf(data, h), 0, 2048, 2], desc);
        u16[(areas.driver + 4 + 2 * h) >>> 1] = h;
      }
      let pushed = 0;
      let stuck = false;
      while (pushed < COUNT && !stuck) {
        const n = Math.min(1 + (pushed % 13), COUNT - pushed);
        Atomics.store(u16, (areas.driver + 2) >>> 1, (pushed + n) & 0xffff);
        expect(device.popBurst(elements)).to.equal(n);
        for (let k = 0; k < n; k++) {
          u32[elements.address(k) >>> 2] = wordOf(pushed + k);
          elements.setWritten(k, lengthOf(pushed + k));
        }
        device.pushBurst(elements);
        pushed += n;
        const target = pushed;
        stuck = !waitUntil(i32, () => Atomics.load(i32, CONTROL.done) > target - SIZE + 13);
      }
      expect(await verdict).to.equal('ok');
      expect(stuck).to.equal(false);
    });

    it('loses no notification', async () => {
      // The device asks for an event and looks at avail.idx; the driver sets avail.idx and looks at the
      // event. If either look came before the store, both would sleep now and then: too seldom to rely on
      // it, so the tests below look for the barrier itself.
      const engine = await load({ memory: sharedMemory(), base: 16, size: 2 ** 20 });
      const driver = engine.driverQueue({ ring: 'split', size: SIZE, features: [Feature.EVENT_IDX] });
      const data = engine.alloc(64);
      const { i32, verdict } = await startPeer<RingPeerData>('ring-peer.ts', engine, {
        role: 'sleepy-device',
        areas: driver.areas,
        size: SIZE,
        data,
        count: 0,
      });
      const end = Date.now() + 500;
      let rounds = 0;
      let kicks = 0;
      let stuck = false;
      while (!stuck && (Date.now() < end || kicks === 0)) {
        for (let i = 0; i < 100 && !stuck; i++, rounds++) {
          driver.add([{ address: data, length: 1 }], [], rounds >>> 0);
          if (driver.kickPrepare()) {
            kicks++;
            Atomics.add(i32, CONTROL.bell, 1);
          }
          stuck = !waitUntil(i32, () => driver.moreUsed());
          if (!stuck) driver.getBuf();
        }
      }
      Atomics.store(i32, CONTROL.stop, 1);
      expect(await verdict, `after ${rounds} buffers`).to.equal('ok');
      expect(stuck).to.equal(false);
      expect(kicks).to.be.above(0);
    });
  });
});

describe('shared build of the wasm engine', () => {
  it('stores avail.idx atomically, after all other accesses [split-driver-publish-barrier]', () => {
    const steps = sharedBuild('splitDriverAddBurst');
    expect(steps.filter(isAtomic)).to.deep.equal(['i32.atomic.store16']);
    expect(afterAtomicStores(steps)).to.deep.equal([{ store: 'i32.atomic.store16', next: 'return' }]);
  });

  it('stores used.idx atomically, after all other accesses [split-device-len-first]', () => {
    const last = { store: 'i32.atomic.store16', next: 'return' };
    // One for each way through: any order, in-order use, and there also at once with the oldest.
    for (const [name, ways] of [
      ['splitDevicePushBurst', 3],
      ['splitDeviceFlush', 2],
    ] as const) {
      const steps = sharedBuild(name);
      expect(afterAtomicStores(steps), name).to.deep.equal(new Array(ways).fill(last));
      expect(steps.filter(isAtomic), name).to.have.lengthOf(ways);
    }
  });

  it('loads used.flags and avail_event atomically, in one order with avail.idx [split-driver-notify-barrier]', () => {
    // All atomic accesses of WebAssembly are sequentially consistent: no other fence is needed.
    expect(sharedBuild('splitDriverKickPrepare').filter(isAtomic)).to.deep.equal([
      'i32.atomic.load16_u',
      'i32.atomic.load16_u',
    ]);
  });
});

describe('typescript engine on shared memory', () => {
  async function create(features: Feature[]) {
    const engine = await loader('typescript')({ shared: true });
    const driver = engine.driverQueue({ ring: 'split', size: 8, features });
    const device = engine.deviceQueue({ ring: 'split', size: 8, features, areas: driver.areas });
    return { engine, driver, device, ring: new SplitRing(engine, driver.areas, 8) };
  }

  it('stores avail.idx atomically, once all else is in memory [split-driver-publish-barrier]', async () => {
    const { driver, ring } = await create([]);
    const burst = driver.createBurst(4);
    for (let token = 0; token < 3; token++)
      burst
        .out(0x1000 + token, 1)
        .in(0x2000 + token, 2)
        .end(token);
    const bytes = () => [ring.descriptorBytes, ring.driverBytes.slice(4)];
    const seen = atomics(() => driver.addBurst(burst), bytes);
    const after = bytes();
    expect(ring.availIdx).to.equal(3);
    expect(seen).to.deep.equal([{ kind: 'store', at: driver.areas.driver + 2, saw: after }]);
  });

  it('stores used.idx atomically, once all else is in memory [split-device-len-first]', async () => {
    const { driver, device, ring } = await create([]);
    driver.add([], [{ address: 0x1000, length: 8 }], 1);
    driver.add([], [{ address: 0x2000, length: 8 }], 2);
    for (const written of [5, 6]) {
      const element = device.pop();
      if (element === undefined) return expect.fail('nothing to pop');
      const entries = () => ring.deviceBytes.slice(4);
      const seen = atomics(() => device.push(element, written), entries);
      expect(seen).to.deep.equal([{ kind: 'store', at: driver.areas.device + 2, saw: entries() }]);
    }
    expect(ring.usedIdx).to.equal(2);
  });

  for (const [features, word, at] of [
    [[], 'used.flags', 0],
    [[Feature.EVENT_IDX], 'avail_event', 4 + 8 * 8],
  ] as const) {
    it(`loads ${word} atomically, after the store of avail.idx [split-driver-notify-barrier]`, async () => {
      const { driver } = await create([...features]);
      const seen = atomics(
        () => {
          driver.add([{ address: 0x1000, length: 1 }], [], 1);
          driver.kickPrepare();
        },
        () => undefined,
      );
      expect(seen.map((access) => [access.kind, access.at])).to.deep.equal([
        ['store', driver.areas.driver + 2],
        ['load', driver.areas.device + at],
      ]);
    });
  }
});
