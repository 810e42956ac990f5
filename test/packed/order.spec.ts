// Statements about the order in which another thread sees what a queue wrote (virtio 1.4, 2.8.15 to 2.8.21). As
// for the split ring: the other side runs on a thread of its own, on shared memory, and the barriers
// themselves are looked for as well, in the text of the shared build and in the calls of Atomics.

import { expect } from 'chai';
import { Feature } from '../../src/index.js';
import { atomics } from '../support/atomics.js';
import { forEachEngine, loader } from '../support/engines.js';
import { PackedPeer } from '../support/packed-peer.js';
import { countOf, type PackedPeerData, PLACES } from '../support/packed-ring-peer.js';
import { CONTROL, dataOf, lengthOf, sharedMemory, startPeer, waitUntil, wordOf } from '../support/peer.js';
import { afterAtomicStores, isAtomic, sharedBuild } from '../support/shared-build.js';

// No power of two, so that lists of three go over the end of the ring at every place.
const SIZE = 61;
const COUNT = 6000;

forEachEngine((load) => {
  describe('packed ring between two threads', function () {
    this.timeout(300_000);

    const create = () => load({ memory: sharedMemory(), base: 16, size: 2 ** 20 });

    it('shows the first descriptor of a list after the others and all that is in them [packed-driver-first-last] [packed-driver-flags-barrier]', async () => {
      const engine = await create();
      const driver = engine.driverQueue({ ring: 'packed', size: SIZE });
      const data = engine.alloc(64 * PLACES);
      const { i32, verdict } = await startPeer<PackedPeerData>('packed-ring-peer.ts', engine, {
        role: 'device',
        areas: driver.areas,
        size: SIZE,
        data,
        count: COUNT,
      });
      const u32 = new Uint32Array(engine.buffer);
      const burst = driver.createBurst(13, 40);
      const completions = driver.createCompletions(SIZE);
      let described = 0;
      let completed = 0;
      while (completed < COUNT) {
        // Single lists and bursts in turn.
        for (
          const end = Math.min(COUNT, described + 1 + (described % 13));
          burst.pending === 0 && described < end;
        ) {
          for (; described < end; described++) {
            const n = countOf(described);
            for (let k = 0; k < n; k++) {
              const address = dataOf(data, described % PLACES) + 4 * k;
              u32[address >>> 2] = wordOf(described + k);
              if (k < n - 1) burst.out(address, lengthOf(described + k));
              else burst.in(address, lengthOf(described + k));
            }
            burst.end(described);
          }
        }
        driver.addBurst(burst);
        if (burst.pending === 0) burst.clear();
        const got = driver.getBurst(completions);
        for (let i = 0; i < got; i++, completed++) {
          const length = lengthOf(completed + countOf(completed) - 1);
          if (completions.token(i) !== completed || completions.length(i) !== length)
            expect.fail(`completion ${completed}: ${completions.token(i)}, ${completions.length(i)}`);
        }
        const stop = () => Atomics.load(i32, CONTROL.stop) !== 0;
        if (got === 0 && !waitUntil(i32, () => driver.moreUsed() || stop())) break;
        if (stop() && !driver.moreUsed()) break;
      }
      expect(await verdict).to.equal('ok');
      expect(completed).to.equal(COUNT);
    });

    it('shows a used descriptor with all that is in it, and leaves it alone [packed-device-after-used]', async () => {
      const engine = await create();
      const areas = {
        descriptor: engine.alloc(16 * SIZE, 16),
        driver: engine.alloc(4, 4),
        device: engine.alloc(4, 4),
      };
      new Uint8Array(engine.buffer).fill(0, areas.descriptor, areas.descriptor + 16 * SIZE);
      for (const at of [areas.driver, areas.device]) new Uint8Array(engine.buffer).fill(0, at, at + 4);
      const data = engine.alloc(64 * PLACES + 2048);
      const device = engine.deviceQueue({ ring: 'packed', size: SIZE, areas });
      const { i32, verdict } = await startPeer<PackedPeerData>('packed-ring-peer.ts', engine, {
        role: 'driver',
        areas,
        size: SIZE,
        data,
        count: COUNT,
      });
      const u32 = new Uint32Array(engine.buffer);
      const elements = device.createElements(16);
      let popped = 0;
      const available = () => !device.enableNotifications() || Atomics.load(i32, CONTROL.stop) !== 0;
      while (popped < COUNT) {
        const got = device.popBurst(elements);
        for (let k = 0; k < got; k++) {
          const first = elements.first(k);
          const i = u32[elements.address(first) >>> 2];
          if (i !== popped + k) expect.fail(`list ${i} came where ${popped + k} should`);
          u32[elements.address(first + 1) >>> 2] = wordOf(i);
          elements.setWritten(k, lengthOf(i));
        }
        popped += got;
        // In turn as they came, and from the last one on.
        if (popped % 2 === 0) device.pushBurst(elements);
        else {
          for (let k = 0; k < got; k++)
            device.fill({ id: elements.id(k) }, lengthOf(popped - got + k), got - 1 - k);
          device.flush(got);
        }
        if (got === 0 && (!waitUntil(i32, available) || Atomics.load(i32, CONTROL.stop) !== 0)) break;
      }
      expect(await verdict).to.equal('ok');
      expect(popped).to.equal(COUNT);
    });

    it('loses no notification', async () => {
      // As with the split ring: too seldom to rely on it, so the tests below look for the barrier itself.
      const engine = await create();
      const driver = engine.driverQueue({ ring: 'packed', size: SIZE, features: [Feature.EVENT_IDX] });
      const data = engine.alloc(64);
      const { i32, verdict } = await startPeer<PackedPeerData>('packed-ring-peer.ts', engine, {
        role: 'sleepy-device',
        areas: driver.areas,
        size: SIZE,
        data,
        count: 0,
      });
      const end = Date.now() + 300;
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
          stuck = !waitUntil(i32, () => driver.moreUsed() || Atomics.load(i32, CONTROL.stop) !== 0);
          if (!stuck && driver.getBuf() === undefined) stuck = true;
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
  const last = { store: 'i32.atomic.store16', next: 'return' };

  it('stores the flags of the first descriptor atomically, after all other accesses [packed-driver-first-last] [packed-driver-flags-barrier]', () => {
    const steps = sharedBuild('packedDriverAddBurst');
    expect(steps.filter(isAtomic)).to.deep.equal(['i32.atomic.store16']);
    expect(afterAtomicStores(steps)).to.deep.equal([last]);
  });

  it('stores the flags of the first used descriptor atomically, after all other accesses [packed-device-after-used]', () => {
    // One for each way through: any order, in-order use, and there also at once with the oldest.
    for (const [name, ways] of [
      ['packedDevicePushBurst', 3],
      ['packedDeviceFlush', 2],
    ] as const) {
      const steps = sharedBuild(name);
      expect(afterAtomicStores(steps), name).to.deep.equal(new Array(ways).fill(last));
      expect(steps.filter(isAtomic), name).to.have.lengthOf(ways);
    }
  });

  it('loads the event suppression structure atomically, in one order with the flags [packed-driver-notify-barrier]', () => {
    // All atomic accesses of WebAssembly are sequentially consistent: no other fence is needed.
    expect(sharedBuild('packedDriverKickPrepare').filter(isAtomic)).to.deep.equal(['i32.atomic.load']);
  });
});

describe('typescript engine on shared memory', () => {
  async function create(features: Feature[] = []) {
    const engine = await loader('typescript')({ shared: true });
    const driver = engine.driverQueue({ ring: 'packed', size: 8, features });
    const device = engine.deviceQueue({ ring: 'packed', size: 8, features, areas: driver.areas });
    return { engine, driver, device, ring: new PackedPeer(engine, driver.areas, 8) };
  }

  /** Bytes of the ring without the flags of one slot. */
  const but = (ring: PackedPeer, slot: number): Uint8Array =>
    ring.descriptorBytes.fill(0, 16 * slot + 14, 16 * slot + 16);

  const flagsOf = (ring: PackedPeer, slot: number): number => ring.areas.descriptor + 16 * slot + 14;

  it('stores the flags of the first descriptor atomically, once all else is in memory [packed-driver-first-last] [packed-driver-flags-barrier]', async () => {
    for (const features of [[], [Feature.INDIRECT_DESC], [Feature.IN_ORDER]]) {
      const { driver, ring } = await create(features);
      const burst = driver.createBurst(4);
      for (const first of [0, features.includes(Feature.INDIRECT_DESC) ? 3 : 6]) {
        // The second time the ring is full, or nearly: a list that goes over its end does not fit.
        for (let token = 0; token < 3; token++)
          burst
            .out(0x1000 + token, 1)
            .in(0x2000 + token, 2)
            .end(token);
        let added = 0;
        const seen = atomics(
          () => {
            added = driver.addBurst(burst);
          },
          () => but(ring, first),
        );
        expect(added).to.be.above(0);
        expect(seen).to.deep.equal([{ kind: 'store', at: flagsOf(ring, first), saw: but(ring, first) }]);
        burst.clear();
      }
    }
  });

  it('stores the flags of the first used descriptor atomically, once all else is in memory [packed-device-after-used]', async () => {
    for (const features of [[], [Feature.IN_ORDER]]) {
      for (const burst of [false, true]) {
        const { driver, device, ring } = await create(features);
        for (let token = 0; token < 3; token++) driver.add([], [{ address: 0x1000, length: 8 }], token);
        const elements = device.createElements(3);
        device.popBurst(elements);
        const ids = [0, 1, 2].map((i) => elements.id(i));
        ids.forEach((id, i) => {
          elements.setWritten(i, 4);
          if (!burst) device.fill({ id }, 4, i);
        });
        const seen = atomics(
          () => {
            if (burst) device.pushBurst(elements);
            else device.flush(3);
          },
          () => but(ring, 0),
        );
        expect(seen).to.deep.equal([{ kind: 'store', at: flagsOf(ring, 0), saw: but(ring, 0) }]);
        for (const id of ids) {
          expect(ring.peek()?.id).to.equal(id);
          ring.collect(1);
        }
      }
    }
  });

  it('loads the event suppression structure atomically, after the store of the flags [packed-driver-notify-barrier]', async () => {
    for (const features of [[], [Feature.EVENT_IDX]]) {
      const { driver, ring } = await create(features);
      const seen = atomics(
        () => {
          driver.add([{ address: 0x1000, length: 1 }], [], 1);
          driver.kickPrepare();
        },
        () => undefined,
      );
      expect(seen.map((access) => [access.kind, access.at])).to.deep.equal([
        ['store', flagsOf(ring, 0)],
        ['load', driver.areas.device],
      ]);
    }
  });
});
