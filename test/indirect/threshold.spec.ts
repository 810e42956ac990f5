import { expect } from 'chai';
import { Feature } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';

const FEATURES = [Feature.VERSION_1, Feature.INDIRECT_DESC];

forEachEngine((load) => {
  for (const ring of ['split', 'packed'] as const)
    describe(`the threshold of a ${ring} ring`, () => {
      const features = ring === 'packed' ? [...FEATURES, Feature.RING_PACKED] : FEATURES;
      const set = async (indirect: object, size = 32) => {
        const host = await load({ size: 2 ** 18 });
        const driver = host.driverQueue({ ring, size, features, indirect });
        const device = host.deviceQueue({ ring, size, features, areas: driver.areas });
        const parts = (n: number) => Array.from({ length: n }, () => ({ address: 64, length: 8 }));
        const finish = () => {
          for (let element = device.pop(); element; element = device.pop()) device.push(element, 0);
          while (driver.getBuf());
        };
        const threshold = () => driver.stats().threshold.value;
        return { driver, parts, finish, threshold };
      };

      it('static: more segments than that go through a table, and those that would not fit otherwise', async () => {
        const { driver, parts } = await set({ policy: 'static', threshold: 4 });
        driver.add(parts(4), [], 1);
        expect([driver.numFree, driver.stats().indirect]).to.deep.equal([28, 0]);
        driver.add(parts(5), [], 2);
        expect([driver.numFree, driver.stats().indirect]).to.deep.equal([27, 1]);
        for (let i = 0; i < 8; i++) driver.add(parts(3), [], 3);
        expect(driver.numFree).to.equal(3);
        driver.add(parts(4), [], 4);
        expect([driver.numFree, driver.stats().indirect]).to.deep.equal([2, 2]);
        expect(driver.stats().threshold).to.deep.include({ policy: 'static', value: 4, changes: 0 });
      });

      it('adaptive: halves when a request needs all that is free, and never rises', async () => {
        const { driver, parts, finish, threshold } = await set({ policy: 'adaptive' });
        expect(threshold()).to.equal(32);
        driver.add(parts(31), [], 1);
        expect([threshold(), driver.numFree]).to.deep.equal([32, 1]);
        // Stress first, then the decision: it is larger than what is free.
        driver.add(parts(2), [], 2);
        expect([threshold(), driver.numFree]).to.deep.equal([17, 0]);
        // No descriptor is free: no table is tried, but the ring is under stress.
        expect(driver.add(parts(1), [], 3)).to.equal(false);
        expect(threshold()).to.equal(9);
        finish();
        for (let i = 0; i < 100; i++) {
          driver.add(parts(2), [], i);
          finish();
        }
        expect(threshold()).to.equal(9);
        expect(driver.stats().threshold.history).to.deep.equal([
          { added: 1, threshold: 17 },
          { added: 2, threshold: 9 },
        ]);
      });

      it('adaptive: a receive queue that is empty is under stress; the threshold ends at 1', async () => {
        const { driver, parts, finish, threshold } = await set({ policy: 'adaptive' });
        const seen = [];
        for (let i = 0; i < 7; i++) {
          driver.add([], parts(2), i);
          driver.add([], parts(2), i);
          finish();
          seen.push(threshold());
        }
        expect(seen).to.deep.equal([17, 9, 5, 3, 1, 1, 1]);
      });

      it('adaptive-hysteresis: falls while buffers find no descriptor, rises when the pressure is gone', async () => {
        const { driver, parts, finish, threshold } = await set({ policy: 'adaptive-hysteresis' });
        for (let token = 0; token < 40; token++) driver.add(parts(3), [], token);
        expect(threshold()).to.equal(1);
        finish();
        // Five looks, each after 256 segments: 3, 7, 15, 31, 32.
        for (let token = 0; token < (5 * 258) / 3; token++) {
          driver.add(parts(3), [], token);
          finish();
        }
        expect(threshold()).to.equal(32);
        const before = driver.stats().indirect;
        driver.add(parts(3), [], 1);
        expect(driver.stats().indirect).to.equal(before);
        const { changes, history } = driver.stats().threshold;
        expect(history).to.have.length(changes);
        expect(history.slice(-5).map((change) => change.threshold)).to.deep.equal([3, 7, 15, 31, 32]);
      });

      it('adaptive-hysteresis: stays low while tables alone make room for all', async () => {
        const { driver, parts, finish, threshold } = await set({ policy: 'adaptive-hysteresis' });
        const run = (rounds: number) => {
          for (let round = 0; round < rounds; round++) {
            for (let token = 0; token < 20; token++) driver.add(parts(3), [], token);
            finish();
          }
          return driver.stats().full;
        };
        const learned = run(4);
        expect(run(50)).to.equal(learned);
        expect(threshold()).to.be.below(3);
      });

      it('adaptive-hysteresis: leaves a descriptor to each of those behind in the burst, and no more', async () => {
        const { driver, parts, finish, threshold } = await set({ policy: 'adaptive-hysteresis' });
        const burst = driver.createBurst(16, 64);
        for (let round = 0; round < 20; round++) {
          for (let token = 0; token < 16; token++) {
            for (const { address, length } of parts(4)) burst.out(address, length);
            burst.end(token);
          }
          const before = driver.stats().indirect;
          expect(driver.addBurst(burst)).to.equal(16);
          // 5 direct ones of 4 and 11 tables in 32 descriptors; a sixth would be one too many.
          expect(driver.stats().indirect - before).to.equal(11);
          expect(driver.numFree).to.equal(1);
          finish();
        }
        expect(threshold()).to.equal(32);
      });

      it('keeps the last 64 changes', async () => {
        const { driver, parts, finish } = await set({ policy: 'adaptive-hysteresis' }, 4);
        for (let round = 0; round < 40; round++) {
          for (let token = 0; token < 6; token++) driver.add(parts(2), [], token);
          finish();
          for (let token = 0; token < 2 * 256; token++) {
            driver.add(parts(1), [], token);
            finish();
          }
        }
        const { changes, history, value } = driver.stats().threshold;
        expect(changes).to.be.above(64);
        expect(history).to.have.length(64);
        expect(history[63].threshold).to.equal(value);
      });
    });
});
