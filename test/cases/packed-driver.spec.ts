import { expect } from 'chai';
import { type DriverQueue, Feature } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';
import {
  AVAIL,
  advance,
  DESC,
  DISABLE,
  ENABLE,
  INDIRECT,
  NEXT,
  USED,
  WRAP,
  WRITE,
} from '../support/packed-ring.js';
import { PackedStage, type PackedStageOptions } from '../support/packed-stage.js';
import { breaks, DATA, EVENT_IDX, INDIRECT_DESC, refused, TABLES } from '../support/stage.js';

const { address } = DATA;
const segments = (...lengths: number[]) => lengths.map((length) => ({ address, length }));

describe('cases of a packed driver', () => {
  forEachEngine((load) => {
    let stage: PackedStage;
    const set = async (options?: PackedStageOptions) => {
      stage = await PackedStage.create(load, options);
    };

    afterEach(() => stage.check());

    /** Id of the buffer whose last descriptor lies in this slot. */
    const idAt = (slot: number) => stage.ring.desc(slot).id;

    /** Adds a buffer and gets it back: the queue works. */
    function works(driver: DriverQueue): void {
      const { ring } = stage;
      const position = driver.notificationData(0) >>> 16;
      expect(driver.numFree).to.equal(driver.size);
      expect(driver.add([], segments(10), 4711)).to.equal(true);
      ring.used = position;
      ring.use(idAt(position & 0x7fff), 10);
      expect(driver.getBuf()).to.deep.equal({ token: 4711, length: 10 });
      expect(driver.getBuf()).to.equal(undefined);
      expect(driver.numFree).to.equal(driver.size);
    }

    describe('case 1: a chain across the end of the ring', () => {
      it('4 entries, next index 1, wrap 0: a chain of 4 leaves next index 1, wrap 1', async () => {
        await set({ size: 4 });
        const driver = stage.driver();
        const { ring } = stage;
        for (let i = 0; i < 5; i++) works(driver);
        const position = () => driver.notificationData(0) >>> 16;
        expect(position()).to.equal(1);
        expect(driver.add(segments(1, 2), segments(3, 4), 7)).to.equal(true);
        expect(position()).to.equal(WRAP | 1);
        expect(driver.numFree).to.equal(0);
        expect([1, 2, 3, 0].map((slot) => ring.desc(slot).flags)).to.deep.equal([
          USED | NEXT,
          USED | NEXT,
          USED | NEXT | WRITE,
          AVAIL | WRITE,
        ]);
        expect([1, 2, 3, 0].map((slot) => ring.desc(slot).len)).to.deep.equal([1, 2, 3, 4]);
        expect(driver.add(segments(1), [], 8)).to.equal(false);
        ring.use(idAt(0), 7, 4);
        expect(driver.getBuf()).to.deep.equal({ token: 7, length: 7 });
        works(driver);
      });

      for (const size of [1, 3, 5, 6])
        it(`whole rings of ${size}, lap after lap`, async () => {
          await set({ size });
          const driver = stage.driver();
          const lengths = Array.from({ length: size }, (_, i) => i + 1);
          for (let lap = 0; lap < 5; lap++) {
            expect(driver.add(segments(...lengths), [], lap)).to.equal(true);
            expect(driver.notificationData(3)).to.equal((3 | (lap % 2 ? WRAP << 16 : 0)) >>> 0);
            expect(driver.add(segments(1), [], 9)).to.equal(false);
            stage.ring.use(idAt(size - 1), 0, size);
            expect(driver.getBuf()).to.deep.equal({ token: lap, length: 0 });
          }
        });
    });

    describe('case 2: a table that cannot be had', () => {
      it('means direct descriptors; if those do not fit either, the ring is full and stays usable', async () => {
        await set({ size: 4, features: INDIRECT_DESC });
        const driver = stage.driver({ indirect: { memory: { address: TABLES.address, length: 32 } } });
        const { ring } = stage;
        // Three descriptors do not go into a table of two granules.
        expect(driver.add(segments(1, 2), segments(3), 1)).to.equal(true);
        expect(driver.numFree).to.equal(1);
        expect(driver.tableBytes).to.equal(0);
        expect([0, 1, 2].map((slot) => ring.desc(slot).len)).to.deep.equal([1, 2, 3]);
        expect(ring.desc(0).flags).to.equal(AVAIL | NEXT);
        // Nor are there enough descriptors left.
        expect(driver.add(segments(1, 2), segments(3), 2)).to.equal(false);
        expect(driver.numFree).to.equal(1);
        expect(driver.inFlight).to.equal(1);
        expect(ring.desc(3)).to.deep.equal({ addr: 0n, len: 0, id: 0, flags: 0 });
        // What fits a table goes into one.
        expect(driver.add(segments(1), segments(2), 3)).to.equal(true);
        expect(ring.desc(3)).to.deep.include({
          addr: BigInt(TABLES.address),
          len: 32,
          flags: AVAIL | INDIRECT,
        });
        expect(ring.table(ring.desc(3)).map(({ len, flags }) => [len, flags])).to.deep.equal([
          [1, 0],
          [2, WRITE],
        ]);
        expect(driver.numFree).to.equal(0);
        // No descriptor is free: no table is tried.
        expect(driver.add(segments(1, 2), [], 4)).to.equal(false);
        expect(driver.stats()).to.include({ tableFailed: 2, full: 2, indirect: 1, added: 2 });
        ring.use(idAt(3), 2, 1);
        ring.use(idAt(2), 3, 3);
        expect(driver.getBuf()).to.deep.equal({ token: 3, length: 2 });
        expect(driver.getBuf()).to.deep.equal({ token: 1, length: 3 });
        expect(driver.tableBytes).to.equal(0);
        works(driver);
      });

      it('also where there is no table memory at all', async () => {
        await set({ size: 4, features: INDIRECT_DESC });
        const driver = stage.driver({ indirect: { memory: 0 } });
        expect(driver.add(segments(1, 2), segments(3), 1)).to.equal(true);
        expect(driver.numFree).to.equal(1);
        expect(driver.stats().tableFailed).to.equal(1);
        expect(driver.reset()).to.deep.equal([1]);
        works(driver);
      });
    });

    describe('case 4: a used length above the writable part', () => {
      for (const [len, writable] of [
        [101, 100],
        [0xffffffff, 100],
        [0x80000000, 100],
      ])
        it(`${len} of ${writable} is cut and counted`, async () => {
          await set();
          const driver = stage.driver();
          driver.add(segments(7), segments(60, 40), 1);
          stage.ring.use(idAt(2), len, 3);
          expect(driver.getBuf()).to.deep.equal({ token: 1, length: writable });
          expect(driver.stats()).to.include({ clamped: 1, bytesIn: writable });
          expect(driver.broken).to.equal(false);
          works(driver);
        });

      it('of a buffer that is read only is 0', async () => {
        await set();
        const driver = stage.driver();
        driver.add(segments(100), [], 1);
        stage.ring.use(idAt(0), 0xffff);
        expect(driver.getBuf()).to.deep.equal({ token: 1, length: 0 });
        expect(driver.stats()).to.include({ clamped: 1, bytesIn: 0 });
      });

      for (const inOrder of [false, true])
        it(`without WRITE: taken where it can be true, else 0${inOrder ? ', in order' : ''}`, async () => {
          await set(inOrder ? { features: [Feature.VERSION_1, Feature.IN_ORDER] } : {});
          const driver = stage.driver({ strict: true });
          const written = [
            [100, 100],
            [1, 1],
            [0, 0],
            [101, 0],
            [0xffff, 0],
          ];
          for (const [token, [claimed, length]] of written.entries()) {
            const slot = driver.notificationData(0) >>> 16;
            driver.add([], segments(100), token);
            stage.ring.use(idAt(slot & ~WRAP), claimed, 1, 0);
            expect(driver.getBuf()).to.deep.equal({ token, length });
          }
          // Without a writable part no length can be true.
          const slot = driver.notificationData(0) >>> 16;
          driver.add(segments(7), [], 9);
          stage.ring.use(idAt(slot & ~WRAP), 7, 1, 0);
          expect(driver.getBuf()).to.deep.equal({ token: 9, length: 0 });
          expect(driver.stats()).to.include({ clamped: 0, bytesIn: 101 });
        });

      it('breaks a strict queue, which is not one where it is just the writable part', async () => {
        await set({ features: INDIRECT_DESC });
        const driver = stage.driver({ strict: true });
        driver.add(segments(7), segments(60, 40), 1);
        driver.add(segments(7), segments(60, 40), 2);
        stage.ring.use(idAt(0), 100);
        expect(driver.getBuf()).to.deep.equal({ token: 1, length: 100 });
        stage.ring.use(idAt(1), 101);
        breaks(driver, () => driver.getBuf(), 'EPROTO', 'used length 101', 'writable length 100');
        expect(driver.stats().clamped).to.equal(0);
        works(driver);
      });
    });

    describe('case 5: a used id that is none', () => {
      for (const [what, id, ...texts] of [
        ['65535', 65535, 'used id 65535', '8 descriptors'],
        ['the ring size', 8, 'used id 8', '8 descriptors'],
        ['the ring size and one that is in flight', 8 + 1, 'used id 9', '8 descriptors'],
        ['an id that is free', 7, 'used id 7 ', 'not the head'],
        ['2, as if each descriptor of the chain had one', 2, 'used id 2 ', 'not the head'],
      ] as const)
        it(`${what}: broken, and nobody gets a token`, async () => {
          await set();
          const driver = stage.driver();
          driver.add(segments(1, 1), segments(1), 10);
          driver.add(segments(1), [], 11);
          stage.ring.use(id, 1);
          breaks(driver, () => driver.getBuf(), 'EPROTO', ...texts);
          works(driver);
        });

      it('one that has come back already', async () => {
        await set();
        const driver = stage.driver();
        driver.add(segments(1), [], 10);
        driver.add(segments(1), [], 11);
        const id = idAt(0);
        stage.ring.use(id, 0);
        stage.ring.use(id, 0);
        expect(driver.getBuf()).to.deep.equal({ token: 10, length: 0 });
        breaks(driver, () => driver.getBuf(), 'EPROTO', `used id ${id} `, 'not the head');
        works(driver);
      });

      it('in the middle of a burst: those before it are got first', async () => {
        await set({ features: EVENT_IDX });
        const driver = stage.driver();
        driver.disableCallbacks();
        driver.enableCallbacks();
        const completions = driver.createCompletions(8);
        for (const token of [10, 11, 12]) driver.add([], segments(9), token);
        const ids = [0, 1, 2].map(idAt);
        stage.ring.use(ids[2], 9);
        stage.ring.use(ids[0], 8);
        stage.ring.use(9, 7);
        expect(driver.getBurst(completions)).to.equal(2);
        expect([completions.token(0), completions.token(1)]).to.deep.equal([12, 10]);
        expect([completions.length(0), completions.length(1)]).to.deep.equal([9, 8]);
        expect(stage.ring.driverEvent).to.deep.equal({ offWrap: WRAP | 2, flags: DESC });
        expect(driver.inFlight).to.equal(1);
        breaks(driver, () => driver.getBurst(completions), 'EPROTO', 'used id 9');
        works(driver);
      });
    });

    describe('case 7: completions out of order', () => {
      it('2, 0, 1: found by id, not by slot', async () => {
        await set({ size: 6 });
        const driver = stage.driver();
        const { ring } = stage;
        const shapes = [
          [segments(1), segments(2)],
          [[], segments(30)],
          [segments(4, 5), segments(6)],
        ] as const;
        for (const [token, [out, in_]] of shapes.entries())
          expect(driver.add(out, in_, 100 + token)).to.equal(true);
        const ids = [1, 2, 5].map(idAt);
        ring.use(ids[2], 6, 3);
        expect(driver.getBuf()).to.deep.equal({ token: 102, length: 6 });
        expect(driver.numFree).to.equal(3);
        ring.use(ids[0], 2, 2);
        ring.use(ids[1], 29, 1);
        expect(driver.getBuf()).to.deep.equal({ token: 100, length: 2 });
        expect(driver.getBuf()).to.deep.equal({ token: 101, length: 29 });
        works(driver);
      });

      it('every order of four, lap after lap: ids are given to one buffer at a time', async () => {
        await set({ size: 5 });
        const driver = stage.driver();
        const { ring } = stage;
        const orders = [0, 1, 2, 3].flatMap((a) =>
          [0, 1, 2, 3].flatMap((b) =>
            [0, 1, 2, 3].flatMap((c) => (new Set([a, b, c]).size === 3 ? [[a, b, c, 6 - a - b - c]] : [])),
          ),
        );
        expect(orders).to.have.length(24);
        let at = WRAP;
        for (const order of orders) {
          const ids = order.map((_, token) => {
            expect(driver.add([], segments(10), token)).to.equal(true);
            const id = idAt(at & 0x7fff);
            at = advance(at, 1, 5);
            return id;
          });
          expect(new Set(ids).size).to.equal(4);
          for (const token of order) {
            ring.use(ids[token], token);
            expect(driver.getBuf()).to.deep.equal({ token, length: token });
          }
        }
        works(driver);
      });

      it('after in-order use the ids are given out in turn', async () => {
        await set({ size: 5, features: [Feature.VERSION_1, Feature.IN_ORDER] });
        const driver = stage.driver();
        const { ring } = stage;
        let slot = 0;
        let id = 0;
        for (let i = 0; i < 40; i++) {
          const n = 1 + (i % 4);
          for (let k = 0; k < n; k++) {
            driver.add([], segments(10), k);
            expect(idAt(slot), `buffer ${k} of round ${i}`).to.equal(id);
            slot = (slot + 1) % 5;
            id = (id + 1) % 5;
          }
          // One used descriptor for all of them.
          ring.use((id + 4) % 5, 3, n);
          for (let k = 0; k < n; k++)
            expect(driver.getBuf()).to.deep.equal({ token: k, length: k === n - 1 ? 3 : 10 });
          expect(driver.numFree).to.equal(5);
        }
      });
    });

    describe('case 8: header and payload as two descriptors', () => {
      it('only the last lacks NEXT, and all carry the id', async () => {
        await set();
        const driver = stage.driver();
        driver.add(segments(12, 1500), [], 1);
        driver.add([], segments(12, 1500), 2);
        const { ring } = stage;
        expect([0, 1, 2, 3].map((slot) => ring.desc(slot).flags)).to.deep.equal([
          AVAIL | NEXT,
          AVAIL,
          AVAIL | WRITE | NEXT,
          AVAIL | WRITE,
        ]);
        expect([ring.desc(0).id, ring.desc(2).id]).to.deep.equal([idAt(1), idAt(3)]);
      });
    });

    describe('case 11: enableCallbacksDelayed', () => {
      for (const [outstanding, threshold] of [
        [1, 0],
        [2, 1],
        [3, 2],
        [4, 3],
        [8, 6],
      ])
        it(`of ${outstanding} outstanding asks for an event ${threshold} ahead`, async () => {
          await set({ size: 9, features: EVENT_IDX });
          const driver = stage.driver();
          const { ring } = stage;
          // Not from slot 0, and into the next lap.
          for (let i = 0; i < 5; i++) works(driver);
          for (let i = 0; i < outstanding; i++) driver.add(segments(1), [], i);
          driver.disableCallbacks();
          expect(ring.driverEvent.flags).to.equal(DISABLE);
          expect(driver.enableCallbacksDelayed()).to.equal(true);
          expect(ring.driverEvent).to.deep.equal({ offWrap: advance(WRAP | 5, threshold, 9), flags: DESC });
          // One that slips in must be said.
          ring.use(idAt(5), 0);
          expect(driver.enableCallbacksDelayed()).to.equal(false);
          expect(driver.getBuf()?.token).to.equal(0);
          expect(ring.driverEvent.offWrap).to.equal(WRAP | 6);
          expect(driver.getBuf()).to.equal(undefined);
        });

      it('counts the slots of chains', async () => {
        await set({ size: 8, features: EVENT_IDX });
        const driver = stage.driver();
        driver.add(segments(1, 1), segments(1), 1);
        driver.add(segments(1, 1), segments(1, 1, 1), 2);
        expect(driver.enableCallbacksDelayed()).to.equal(true);
        expect(stage.ring.driverEvent.offWrap).to.equal(WRAP | 6);
      });

      it('without event index asks for the next interrupt', async () => {
        await set();
        const driver = stage.driver();
        for (let i = 0; i < 4; i++) driver.add(segments(1), [], i);
        driver.disableCallbacks();
        expect(stage.ring.driverEvent.flags).to.equal(DISABLE);
        expect(driver.enableCallbacksDelayed()).to.equal(true);
        expect(stage.ring.driverEvent.flags).to.equal(ENABLE);
        stage.ring.use(idAt(0), 0);
        expect(driver.enableCallbacksDelayed()).to.equal(false);
      });
    });

    it('case 22: size 5, a thousand operations', async () => {
      await set({ size: 5 });
      const driver = stage.driver();
      const { ring } = stage;
      let at = WRAP;
      const inFlight: { token: number; id: number; slots: number }[] = [];
      for (let i = 0; i < 1000; i++) {
        const count = 1 + ((i * 3) % 4);
        const fits = inFlight.reduce((sum, { slots }) => sum + slots, 0) + count <= 5;
        expect(driver.add([], segments(...new Array(count).fill(10)), i), `add ${i}`).to.equal(fits);
        if (fits) {
          const slots = Array.from({ length: count }, (_, k) => advance(at, k, 5));
          for (const [k, slot] of slots.entries()) {
            const flags = (slot & WRAP ? AVAIL : USED) | WRITE | (k < count - 1 ? NEXT : 0);
            expect(ring.desc(slot & 0x7fff).flags, `flags of slot ${slot}`).to.equal(flags);
          }
          at = advance(at, count, 5);
          inFlight.push({ token: i, id: idAt((slots.at(-1) as number) & 0x7fff), slots: count });
        }
        expect(driver.notificationData(0)).to.equal(at * 65536);
        if (fits && i % 3 !== 0) continue;
        // The youngest first.
        const { token, id, slots } = inFlight.pop() as (typeof inFlight)[0];
        ring.use(id, 1, slots);
        expect(driver.getBuf(), `get ${i}`).to.deep.equal({ token, length: 1 });
      }
    });

    it('case 28: lengths of 2^31 and more are unsigned, addresses have 64 bits', async () => {
      await set({ features: INDIRECT_DESC });
      const driver = stage.driver();
      const { ring } = stage;
      const high = 0xfedc_ba98_7654_3210n;
      driver.add([{ address: high, length: 0x80000001 }], [], 1);
      driver.add([{ address: 2 ** 53 - 1, length: 1 }], [{ address: high + 1n, length: 0xfffffff0 }], 2);
      driver.add([], [{ address: 0, length: 0xffffffff }], 0xffffffff);
      expect(ring.desc(0)).to.deep.include({ addr: high, len: 0x80000001 });
      expect(ring.table(ring.desc(1)).map(({ addr, len }) => [addr, len])).to.deep.equal([
        [2n ** 53n - 1n, 1],
        [high + 1n, 0xfffffff0],
      ]);
      const [first, second, third] = [0, 1, 2].map(idAt);
      ring.use(second, 0xfffffff0);
      ring.use(third, 0x80000000);
      ring.use(first, 0x80000000);
      expect(driver.getBuf()).to.deep.equal({ token: 2, length: 0xfffffff0 });
      expect(driver.getBuf()).to.deep.equal({ token: 0xffffffff, length: 0x80000000 });
      expect(driver.getBuf()).to.deep.equal({ token: 1, length: 0 });
      expect(driver.stats()).to.include({ bytesOut: 0x80000002, bytesIn: 0x17ffffff0, clamped: 1 });
      // As in a split ring (2.7.5.2): 2^32 bytes are allowed, one more is not. The writable length saturates.
      const half = { address: 0, length: 0x80000000 };
      expect(driver.add([], [half, half], 3)).to.equal(true);
      ring.use(idAt(3), 0xffffffff);
      expect(driver.getBuf()).to.deep.equal({ token: 3, length: 0xffffffff });
      refused(() => driver.add([{ address: 0, length: 1 }], [half, half], 3), 'EINVAL', 4294967297);
      works(driver);
    });

    describe('case 29: completely full', () => {
      for (const size of [1, 2, 5])
        it(`${size} descriptors are not taken for none`, async () => {
          await set({ size, features: EVENT_IDX });
          const driver = stage.driver();
          const { ring } = stage;
          let at = WRAP;
          for (let lap = 0; lap < 4; lap++) {
            for (let token = 0; token < size; token++)
              expect(driver.add(segments(1), [], token)).to.equal(true);
            // Both positions have the same slot.
            expect(driver.numFree).to.equal(0);
            expect(driver.inFlight).to.equal(size);
            expect(driver.add(segments(1), [], 99)).to.equal(false);
            expect(driver.moreUsed()).to.equal(false);
            expect(driver.getBuf()).to.equal(undefined);
            for (let token = 0; token < size; token++) {
              ring.use(idAt(at & 0x7fff), 0);
              at = advance(at, 1, size);
              expect(driver.moreUsed()).to.equal(true);
              expect(driver.getBuf()?.token).to.equal(token);
            }
            expect(driver.moreUsed()).to.equal(false);
            expect(driver.numFree).to.equal(size);
          }
        });
    });

    it('case 32: a reset hands tokens back once and releases the tables', async () => {
      await set({ features: [Feature.VERSION_1, Feature.INDIRECT_DESC, Feature.EVENT_IDX] });
      const driver = stage.driver();
      for (let token = 0; token < 4; token++) driver.add(segments(1, 1), segments(1), token);
      driver.add(segments(1), [], 4);
      stage.ring.use(idAt(1), 0);
      expect(driver.getBuf()?.token).to.equal(1);
      // Used, but the driver has not looked: it is still in flight.
      stage.ring.use(idAt(3), 0);
      expect(driver.tableBytes).to.equal(3 * 48);
      expect(driver.detachUnused()).to.equal(0);
      expect(driver.inFlight).to.equal(3);
      expect(driver.tableBytes).to.equal(2 * 48);
      expect(driver.reset()).to.deep.equal([2, 3, 4]);
      expect(driver.tableBytes).to.equal(0);
      expect(driver.inFlight).to.equal(0);
      expect(driver.detachUnused()).to.equal(undefined);
      expect(driver.reset()).to.deep.equal([]);
      const { driverBytes, deviceBytes, descriptorBytes } = stage.ring;
      for (const bytes of [driverBytes, deviceBytes, descriptorBytes])
        expect(bytes.every((byte) => byte === 0)).to.equal(true);
      works(driver);
    });
  });
});
