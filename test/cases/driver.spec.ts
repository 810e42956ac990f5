import { expect } from 'chai';
import { type DriverQueue, Feature } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';
import { INDIRECT, NEXT } from '../support/split-ring.js';
import { breaks, DATA, EVENT_IDX, INDIRECT_DESC, refused, Stage, TABLES } from '../support/stage.js';

const { address } = DATA;
const segments = (...lengths: number[]) => lengths.map((length) => ({ address, length }));

/** A used entry that the raw device publishes. */
const use = (stage: Stage, id: number, len: number) => stage.ring.use(id, len);

/** Adds a buffer and gets it back: the queue works. */
function works(stage: Stage, driver: DriverQueue): void {
  const { ring } = stage;
  ring.used = ring.usedIdx;
  expect(driver.numFree).to.equal(driver.size);
  expect(driver.add(segments(1), segments(10), 4711)).to.equal(true);
  ring.use(ring.availRing(ring.availIdx - 1), 10);
  expect(driver.getBuf()).to.deep.equal({ token: 4711, length: 10 });
  expect(driver.numFree).to.equal(driver.size);
}

describe('cases of a split driver', () => {
  forEachEngine((load) => {
    let stage: Stage;
    const set = async (
      ...options: Parameters<typeof Stage.create> extends [unknown, ...infer Rest] ? Rest : never
    ) => {
      stage = await Stage.create(load, ...options);
    };

    afterEach(() => stage.check());

    describe('case 2: a table that cannot be had', () => {
      it('means direct descriptors; if those do not fit either, the ring is full and stays usable', async () => {
        await set({ size: 4, features: INDIRECT_DESC });
        const driver = stage.driver({ indirect: { memory: { address: TABLES.address, length: 32 } } });
        const { ring } = stage;
        // Three descriptors do not go into a table of two granules.
        expect(driver.add(segments(1, 2), segments(3), 1)).to.equal(true);
        expect(driver.numFree).to.equal(1);
        expect(driver.tableBytes).to.equal(0);
        expect(ring.desc(0).flags).to.equal(NEXT);
        expect(ring.elements(0).map(({ len }) => len)).to.deep.equal([1, 2, 3]);
        // Nor are there enough descriptors left.
        expect(driver.add(segments(1, 2), segments(3), 2)).to.equal(false);
        expect(driver.numFree).to.equal(1);
        expect(driver.inFlight).to.equal(1);
        expect(ring.availIdx).to.equal(1);
        // What fits a table goes into one.
        expect(driver.add(segments(1, 2), [], 3)).to.equal(true);
        expect(ring.desc(3)).to.deep.include({ addr: BigInt(TABLES.address), len: 32, flags: INDIRECT });
        expect(driver.numFree).to.equal(0);
        // No descriptor is free: no table is tried.
        expect(driver.add(segments(1, 2), [], 4)).to.equal(false);
        expect(driver.stats()).to.include({ tableFailed: 2, full: 2, indirect: 1, added: 2 });
        use(stage, 3, 0);
        use(stage, 0, 3);
        expect(driver.getBuf()).to.deep.equal({ token: 3, length: 0 });
        expect(driver.getBuf()).to.deep.equal({ token: 1, length: 3 });
        expect(driver.tableBytes).to.equal(0);
        works(stage, driver);
      });

      it('also where there is no table memory at all', async () => {
        await set({ size: 4, features: INDIRECT_DESC });
        const driver = stage.driver({ indirect: { memory: 0 } });
        expect(driver.add(segments(1, 2), segments(3), 1)).to.equal(true);
        expect(driver.numFree).to.equal(1);
        expect(driver.stats().tableFailed).to.equal(1);
        expect(driver.reset()).to.deep.equal([1]);
        works(stage, driver);
      });

      it('the next one has the table that came back', async () => {
        await set({ size: 8, features: INDIRECT_DESC });
        const driver = stage.driver({ indirect: { memory: { address: TABLES.address, length: 64 } } });
        expect(driver.add(segments(1, 1, 1, 1), [], 1)).to.equal(true);
        expect(driver.add(segments(1, 1), [], 2)).to.equal(true);
        expect(driver.numFree).to.equal(5);
        use(stage, 0, 0);
        expect(driver.getBuf()?.token).to.equal(1);
        expect(driver.add(segments(1, 1, 1), [], 3)).to.equal(true);
        expect(driver.tableBytes).to.equal(48);
        expect(driver.numFree).to.equal(5);
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
          use(stage, 0, len);
          expect(driver.getBuf()).to.deep.equal({ token: 1, length: writable });
          expect(driver.stats()).to.include({ clamped: 1, bytesIn: writable });
          expect(driver.broken).to.equal(false);
          works(stage, driver);
        });

      it('is not cut where it is just the writable part', async () => {
        await set();
        const driver = stage.driver({ strict: true });
        driver.add(segments(7), segments(60, 40), 1);
        use(stage, 0, 100);
        expect(driver.getBuf()).to.deep.equal({ token: 1, length: 100 });
        expect(driver.stats().clamped).to.equal(0);
      });

      it('breaks a strict queue', async () => {
        await set({ features: INDIRECT_DESC });
        const driver = stage.driver({ strict: true });
        driver.add(segments(7), segments(60, 40), 1);
        use(stage, 0, 101);
        breaks(driver, () => driver.getBuf(), 'EPROTO', 'used length 101', 'writable length 100');
        expect(driver.stats().clamped).to.equal(0);
        works(stage, driver);
      });
    });

    describe('case 5: a used id that is none', () => {
      for (const [what, id, ...texts] of [
        ['65536 (which truncated would be head 0)', 65536, 'used id 65536', '8 descriptors'],
        ['65536 + 3', 65539, 'used id 65539', '8 descriptors'],
        ['the ring size', 8, 'used id 8', '8 descriptors'],
        ['2^32 - 1', 0xffffffff, 'used id 4294967295'],
        ['2^31', 0x80000000, 'used id 2147483648'],
        ['a descriptor in the middle of a chain', 1, 'used id 1 ', 'not the head'],
        ['a descriptor that is free', 7, 'used id 7 ', 'not the head'],
      ] as const)
        it(`${what}: broken, and nobody gets a token`, async () => {
          await set();
          const driver = stage.driver();
          driver.add(segments(1, 1), segments(1), 10);
          driver.add(segments(1), [], 11);
          use(stage, id, 1);
          breaks(driver, () => driver.getBuf(), 'EPROTO', ...texts);
          works(stage, driver);
        });

      it('a head that has come back already', async () => {
        await set();
        const driver = stage.driver();
        driver.add(segments(1), [], 10);
        driver.add(segments(1), [], 11);
        use(stage, 0, 0);
        use(stage, 0, 0);
        expect(driver.getBuf()).to.deep.equal({ token: 10, length: 0 });
        breaks(driver, () => driver.getBuf(), 'EPROTO', 'used id 0 ', 'not the head');
        works(stage, driver);
      });

      it('in the middle of a burst: those before it are got first', async () => {
        await set({ features: EVENT_IDX });
        const driver = stage.driver();
        const completions = driver.createCompletions(8);
        for (const token of [10, 11, 12]) driver.add([], segments(9), token);
        use(stage, 2, 9);
        use(stage, 0, 8);
        use(stage, 65537, 7);
        expect(driver.getBurst(completions)).to.equal(2);
        expect([completions.token(0), completions.token(1)]).to.deep.equal([12, 10]);
        expect([completions.length(0), completions.length(1)]).to.deep.equal([9, 8]);
        expect(stage.ring.usedEvent).to.equal(2);
        expect(driver.inFlight).to.equal(1);
        breaks(driver, () => driver.getBurst(completions), 'EPROTO', 'used id 65537');
        works(stage, driver);
      });

      it('used.idx ahead of what is in flight', async () => {
        await set();
        const driver = stage.driver();
        driver.add(segments(1), [], 10);
        use(stage, 0, 0);
        use(stage, 0, 0);
        breaks(driver, () => driver.getBuf(), 'EPROTO', 'used.idx 2', 'ahead of 0');
        works(stage, driver);
        stage.ring.usedIdx = 0;
        breaks(driver, () => driver.getBuf(), 'EPROTO', 'used.idx 0', 'ahead of 1');
        works(stage, driver);
      });
    });

    it('case 9: a read-only buffer with length 0xffff has length 0', async () => {
      await set({ features: INDIRECT_DESC });
      const driver = stage.driver();
      driver.add(segments(100), [], 1);
      driver.add(segments(100, 100), [], 2);
      use(stage, 0, 0xffff);
      use(stage, 1, 0xffff);
      expect(driver.getBuf()).to.deep.equal({ token: 1, length: 0 });
      expect(driver.getBuf()).to.deep.equal({ token: 2, length: 0 });
      expect(driver.stats()).to.include({ clamped: 2, bytesIn: 0 });
      works(stage, driver);
    });

    describe('case 11: enableCallbacksDelayed', () => {
      for (const [outstanding, threshold] of [
        [1, 0],
        [2, 1],
        [3, 2],
        [4, 3],
        [8, 6],
      ])
        it(`of ${outstanding} outstanding asks for an event at ${threshold}`, async () => {
          await set({ features: EVENT_IDX });
          const driver = stage.driver();
          const { ring } = stage;
          // Not from index 0: the threshold is relative.
          works(stage, driver);
          for (let i = 0; i < outstanding; i++) driver.add(segments(1), [], i);
          driver.disableCallbacks();
          expect(driver.enableCallbacksDelayed()).to.equal(true);
          expect(ring.usedEvent).to.equal(1 + threshold);
          const head = (i: number) => ring.availRing(1 + i);
          for (let i = 0; i < threshold; i++) use(stage, head(i), 0);
          expect(driver.enableCallbacksDelayed(), 'just as many').to.equal(true);
          expect(ring.usedEvent).to.equal(1 + threshold);
          // One that slips in before the event was written would cause no interrupt: it must be said.
          use(stage, head(threshold), 0);
          expect(driver.enableCallbacksDelayed(), 'one more').to.equal(false);
          for (let i = 0; i <= threshold; i++) expect(driver.getBuf()?.token).to.equal(i);
          expect(driver.getBuf()).to.equal(undefined);
        });

      it('counts from where the driver is when the index wraps', async () => {
        await set({ size: 8, features: EVENT_IDX });
        const driver = stage.driver();
        const { ring } = stage;
        for (let i = 0; i < 65533; i++) {
          driver.add(segments(1), [], i);
          use(stage, 0, 0);
          driver.getBuf();
        }
        for (let i = 0; i < 8; i++) driver.add(segments(1), [], i);
        expect(driver.enableCallbacksDelayed()).to.equal(true);
        expect(ring.usedEvent).to.equal(3);
        for (let i = 0; i < 7; i++) use(stage, i, 0);
        expect(driver.enableCallbacksDelayed()).to.equal(false);
      });

      it('without event index asks for the next interrupt', async () => {
        await set();
        const driver = stage.driver();
        for (let i = 0; i < 4; i++) driver.add(segments(1), [], i);
        driver.disableCallbacks();
        expect(stage.ring.availFlags).to.equal(1);
        expect(driver.enableCallbacksDelayed()).to.equal(true);
        expect(stage.ring.availFlags).to.equal(0);
        for (let i = 0; i < 4; i++) use(stage, i, 0);
        expect(driver.enableCallbacksDelayed()).to.equal(false);
      });
    });

    it('case 28: lengths of 2^31 and more are unsigned, addresses have 64 bits', async () => {
      await set({ features: INDIRECT_DESC });
      const driver = stage.driver();
      const high = 0xfedc_ba98_7654_3210n;
      driver.add([{ address: high, length: 0x80000001 }], [], 1);
      driver.add([{ address: 2 ** 53 - 1, length: 1 }], [{ address: high + 1n, length: 0xfffffff0 }], 2);
      driver.add([], [{ address: 0, length: 0xffffffff }], 0xffffffff);
      const { ring } = stage;
      expect(ring.desc(0)).to.deep.include({ addr: high, len: 0x80000001 });
      expect(ring.elements(1).map(({ addr, len }) => [addr, len])).to.deep.equal([
        [2n ** 53n - 1n, 1],
        [high + 1n, 0xfffffff0],
      ]);
      use(stage, 1, 0xfffffff0);
      use(stage, 2, 0x80000000);
      use(stage, 0, 0x80000000);
      expect(driver.getBuf()).to.deep.equal({ token: 2, length: 0xfffffff0 });
      expect(driver.getBuf()).to.deep.equal({ token: 0xffffffff, length: 0x80000000 });
      expect(driver.getBuf()).to.deep.equal({ token: 1, length: 0 });
      expect(driver.stats()).to.include({ bytesOut: 0x80000002, bytesIn: 0x17ffffff0, clamped: 1 });
      // 2.7.5.2: 2^32 bytes are allowed, one more is not. The writable length saturates.
      expect(
        driver.add(
          [],
          [
            { address: 0, length: 0x80000000 },
            { address: 0, length: 0x80000000 },
          ],
          3,
        ),
      ).to.equal(true);
      use(stage, ring.availRing(3), 0xffffffff);
      expect(driver.getBuf()).to.deep.equal({ token: 3, length: 0xffffffff });
      refused(
        () =>
          driver.add(
            [{ address: 0, length: 1 }],
            [
              { address: 0, length: 0x80000000 },
              { address: 0, length: 0x80000000 },
            ],
            3,
          ),
        'EINVAL',
        4294967297,
      );
      works(stage, driver);
    });

    it('case 32: a reset hands tokens back once and releases the tables', async () => {
      await set({ features: [Feature.VERSION_1, Feature.INDIRECT_DESC, Feature.EVENT_IDX] });
      const driver = stage.driver();
      for (let token = 0; token < 4; token++) driver.add(segments(1, 1), segments(1), token);
      driver.add(segments(1), [], 4);
      use(stage, 1, 0);
      expect(driver.getBuf()?.token).to.equal(1);
      // Used, but the driver has not looked: it is still in flight.
      use(stage, 3, 0);
      expect(driver.tableBytes).to.equal(3 * 48);
      expect(driver.detachUnused()).to.equal(0);
      expect(driver.inFlight).to.equal(3);
      expect(driver.reset()).to.deep.equal([2, 3, 4]);
      expect(driver.tableBytes).to.equal(0);
      expect(driver.inFlight).to.equal(0);
      expect(driver.detachUnused()).to.equal(undefined);
      expect(driver.reset()).to.deep.equal([]);
      const { driverBytes, deviceBytes, descriptorBytes } = stage.ring;
      for (const bytes of [driverBytes, deviceBytes, descriptorBytes])
        expect(bytes.every((byte) => byte === 0)).to.equal(true);
      works(stage, driver);
    });
  });
});
