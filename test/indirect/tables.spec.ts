import { expect } from 'chai';
import { Feature, type TableOptions } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';

const FEATURES = [Feature.VERSION_1, Feature.INDIRECT_DESC];
const STRATEGIES = ['none', 'slab', 'slab-bulk', 'list'] as const;

forEachEngine((load) => {
  for (const ring of ['split', 'packed'] as const)
    describe(`indirect tables of a ${ring} ring`, () => {
      const features = ring === 'packed' ? [...FEATURES, Feature.RING_PACKED] : FEATURES;
      const set = async (
        tables: TableOptions,
        memory: number | { address: number; length: number } = 4096,
        policy: 'always' | 'adaptive' = 'always',
      ) => {
        const host = await load({ size: 2 ** 18 });
        const options = { ring, size: 16, features, indirect: { tables, memory, policy } };
        const driver = host.driverQueue(options);
        const device = host.deviceQueue({ ring, size: 16, features, areas: driver.areas });
        const parts = (n: number) => Array.from({ length: n }, () => ({ address: 64, length: 8 }));
        const finish = (): number[] => {
          for (let element = device.pop(); element; element = device.pop()) device.push(element, 0);
          const tokens: number[] = [];
          for (let got = driver.getBuf(); got; got = driver.getBuf()) tokens.push(got.token);
          return tokens;
        };
        const settled = () => {
          const { hits, misses, returned, inFlight, length } = driver.stats().tables;
          expect([returned, inFlight]).to.deep.equal([hits + misses, 0]);
          driver.trimTables();
          expect(driver.stats().tables).to.deep.include({ length: 0, memory: 0 });
          return length;
        };
        return { host, driver, device, parts, finish, settled };
      };

      for (const strategy of STRATEGIES) {
        it(`${strategy}: every table comes back, whatever its length`, async () => {
          const { driver, parts, finish, settled } = await set({ strategy, descriptors: 4 });
          for (let round = 0; round < 20; round++) {
            for (let i = 0; i < 8; i++) driver.add(parts(2 + ((round + i) % 7)), [], i);
            expect(driver.stats().tables.inFlight).to.equal(8);
            finish();
          }
          settled();
        });

        it(`${strategy}: exhausted memory means direct descriptors, then a full ring, and nothing leaks`, async () => {
          const { driver, parts, finish, settled } = await set({ strategy, descriptors: 4 }, 128);
          for (let round = 0; round < 10; round++) {
            let token = 0;
            while (driver.add(parts(4), [], token)) token++;
            expect(driver.stats().tableFailed).to.be.above(0);
            expect(finish()).to.have.length(token);
            expect(driver.numFree).to.equal(16);
          }
          settled();
        });

        for (const other of STRATEGIES)
          it(`from ${strategy} to ${other} with tables in flight`, async () => {
            const { driver, parts, finish, settled } = await set({ strategy, descriptors: 4, prefill: 2 });
            for (let i = 0; i < 6; i++) driver.add(parts(3), [], i);
            finish();
            for (let i = 0; i < 6; i++) driver.add(parts(2 + i), [], i);
            driver.setTables({ strategy: other, descriptors: 8, prefill: 1 });
            for (let i = 6; i < 10; i++) driver.add(parts(6), [], i);
            expect(finish()).to.have.length(10);
            // What was taken before the change is not in the new list.
            const { length } = driver.stats().tables;
            if (other === 'list') expect(length).to.equal(4);
            else expect(length).to.equal(0);
            settled();
          });
      }

      for (const policy of ['always', 'adaptive'] as const)
        it(`slab-bulk: a burst takes its tables at once, whoever decides (${policy})`, async () => {
          const { driver, finish, settled } = await set(
            { strategy: 'slab-bulk', descriptors: 16 },
            8192,
            policy,
          );
          const burst = driver.createBurst(3, 48);
          for (let i = 0; i < 3; i++) {
            for (let n = 0; n < 16; n++) burst.out(64, 8);
            burst.end(i);
          }
          expect(driver.addBurst(burst)).to.equal(3);
          expect(driver.stats().tables).to.deep.include({ misses: 1, refills: 1, hits: 2, inFlight: 3 });
          expect(finish()).to.deep.equal([0, 1, 2]);
          settled();
        });

      it('list: the table used last is used next; length, bound and high-water mark', async () => {
        const { driver, parts, finish } = await set({
          strategy: 'list',
          descriptors: 4,
          bound: 3,
          prefill: 2,
        });
        expect(driver.stats().tables).to.deep.include({ length: 2, highWater: 2, hits: 0, misses: 0 });
        for (let i = 0; i < 5; i++) driver.add(parts(2), [], i);
        expect(driver.stats().tables).to.deep.include({
          length: 0,
          hits: 2,
          misses: 3,
          refills: 3,
          wasted: 10,
        });
        const tables = driver.save().buffers.map(({ table }) => table);
        finish();
        expect(driver.stats().tables).to.deep.include({ length: 3, highWater: 3 });
        driver.add(parts(4), [], 9);
        expect(driver.save().buffers[0].table).to.equal(tables[2]);
        driver.trimTables(1);
        expect(driver.stats().tables.length).to.equal(1);
      });

      it('list: what a peer writes to tables, in flight or cached, changes nothing', async () => {
        const { host, driver, parts, finish, settled } = await set({
          strategy: 'list',
          descriptors: 4,
          prefill: 4,
        });
        const { address, length } = driver.save().tables;
        const scribble = (value: number) =>
          new Uint8Array(host.buffer).fill(value, address, address + length);
        const places: number[][] = [];
        for (const value of [0xff, 0, 0xff]) {
          scribble(value);
          for (let i = 0; i < 6; i++) driver.add(parts(2), [], i);
          const taken = driver.save().buffers.map(({ table }) => table);
          for (const table of taken) expect(table).to.be.within(address, address + length - 64);
          expect(new Set(taken).size).to.equal(6);
          places.push([...taken].sort());
          if (value === 0) scribble(0xff);
          const tokens = value === 0 ? driver.reset() : finish();
          expect(tokens).to.have.length(value === 0 ? 6 : tokens.length);
          if (value !== 0) expect(tokens).to.have.length(6);
          else break;
        }
        expect(places[0]).to.have.length(6);
        settled();
      });

      it('goes on with another engine, strategy and tables in flight', async () => {
        const { host, driver, device, parts } = await set({ strategy: 'list', descriptors: 4 });
        for (let i = 0; i < 6; i++) driver.add(parts(2 + i), [], i);
        const state = JSON.parse(JSON.stringify(driver.save()));
        const twin = host.driverQueue({
          ring,
          size: 16,
          features,
          areas: state.areas,
          indirect: { tables: { strategy: 'slab', descriptors: 8 } },
        });
        twin.restore(state);
        expect(twin.stats().tables.inFlight).to.equal(6);
        for (let element = device.pop(); element; element = device.pop()) device.push(element, 0);
        const tokens: number[] = [];
        for (let got = twin.getBuf(); got; got = twin.getBuf()) tokens.push(got.token);
        expect(tokens).to.have.members([0, 1, 2, 3, 4, 5]);
        twin.trimTables();
        const { hits, misses, returned, memory } = twin.stats().tables;
        expect([returned, memory]).to.deep.equal([hits + misses, 0]);
      });

      it('refuses sizes out of range, and says which', async () => {
        const { driver } = await set({});
        const bad: [object, RegExp][] = [
          [{ strategy: 'stack' }, /strategy must be one of/],
          [{ descriptors: 1 }, /descriptors.*1/],
          [{ descriptors: 257 }, /descriptors.*257/],
          [{ descriptors: 2.5 }, /descriptors/],
          [{ bytes: 40 }, /multiple of 16, got 40/],
          [{ bytes: 16 }, /bytes/],
          [{ bytes: 64, descriptors: 4 }, /leave one out/],
          [{ bound: -1 }, /bound/],
          [{ bound: 4, prefill: 5 }, /prefill/],
        ];
        for (const [options, message] of bad)
          expect(() => driver.setTables(options as TableOptions), JSON.stringify(options)).to.throw(message);
        expect(driver.stats().errors.EINVAL).to.equal(bad.length);
        expect(driver.stats().tables.strategy).to.equal('list');
        expect(() => driver.trimTables(-1)).to.throw(/length/);
        driver.setTables({ bytes: 256 });
        expect(driver.stats().tables.descriptors).to.equal(16);
      });
    });
});
