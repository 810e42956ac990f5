import { expect } from 'chai';
import { Feature, type TableOptions, VringError } from '../../src/index.js';
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

      it('refuses sizes out of range, says which, and changes nothing', async () => {
        const { host, driver, parts, finish, settled } = await set({ strategy: 'list', prefill: 2 });
        driver.add(parts(3), [], 1);
        const numbers = (key: string, min: number, max: number): [object, RegExp][] =>
          [
            min - 1,
            max + 1,
            min + 0.5,
            -1,
            -0.5,
            Number.NaN,
            -Infinity,
            Infinity,
            2 ** 32 + min,
            2 ** 53,
          ].map((value) => [
            { [key]: value },
            new RegExp(`\\.${key} must be an integer from ${min}.* got ${value}$`),
          ]);
        const others = (key: string): [object, RegExp][] =>
          ['', '4', 'many', null, true, 4n, [], [4], {}, { valueOf: () => 4 }, () => 4].map((value) => [
            { [key]: value },
            new RegExp(`\\.${key} must be an integer`),
          ]);
        const bad: [object, RegExp][] = [
          [{ strategy: 'stack' }, /strategy must be one of.*"stack"/],
          [{ strategy: 3 }, /strategy must be one of.*3/],
          [{ strategy: null }, /strategy must be one of.*null/],
          ...numbers('descriptors', 2, 256),
          [{ descriptors: 0 }, /descriptors.*0/],
          ...numbers('bytes', 32, 4096),
          [{ bytes: 0 }, /bytes.*0/],
          [{ bytes: 40 }, /multiple of 16, got 40/],
          [{ bytes: 64, descriptors: 4 }, /leave one out/],
          ...numbers('bound', 0, 32768),
          ...numbers('prefill', 0, 16),
          [{ bound: 4, prefill: 5 }, /prefill.*5/],
          ...['descriptors', 'bytes', 'bound', 'prefill'].flatMap(others),
        ];
        const { used } = host;
        const before = driver.stats().tables;
        for (const [given, message] of bad) {
          const options = given as TableOptions;
          const what = Object.entries(given).map(
            ([key, value]) => `${key}: ${typeof value} ${String(value)}`,
          );
          expect(() => driver.setTables(options), `${what}`).to.throw(VringError, message);
          expect(
            () => host.driverQueue({ ring, size: 16, features, indirect: { tables: options } }),
            `${what}`,
          ).to.throw(VringError, message);
        }
        expect(driver.stats().errors).to.deep.equal({ EINVAL: bad.length });
        expect(driver.stats().tables).to.deep.equal(before);
        expect(host.used).to.equal(used);
        for (const length of [-1, 0.5, Number.NaN, 32769, '0', null])
          expect(() => driver.trimTables(length as number)).to.throw(VringError, /length/);
        expect(driver.stats().tables).to.deep.equal(before);
        for (const [descriptors, options] of [
          [2, { descriptors: 2 }],
          [256, { descriptors: 256, bound: 32768 }],
          [2, { bytes: 32, bound: 0, prefill: 0 }],
          [256, { bytes: 4096 }],
        ] as [number, TableOptions][]) {
          driver.setTables(options);
          expect(driver.stats().tables.descriptors).to.equal(descriptors);
          driver.add(parts(3), [], descriptors);
        }
        expect(finish()).to.have.length(5);
        settled();
      });
    });
});
