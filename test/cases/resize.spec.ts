import { expect } from 'chai';
import { type DeviceQueue, type DriverQueue, Feature, type Host } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';
import { refused } from '../support/stage.js';

const INDIRECT = [Feature.VERSION_1, Feature.INDIRECT_DESC, Feature.EVENT_IDX];

describe('queues that get another size', () => {
  forEachEngine((load, engine) => {
    for (const ring of ['split', 'packed'] as const)
      describe(`${ring} ring`, () => {
        let host: Host;
        let driver: DriverQueue;
        let device: DeviceQueue;
        let address: number;
        let before: number;

        const set = async (arena = 2 ** 18) => {
          host = await load({ size: arena });
          before = host.used;
          driver = host.driverQueue({ ring, size: 4, features: INDIRECT });
          device = host.deviceQueue({ ring, size: 4, features: INDIRECT, areas: driver.areas });
          address = host.alloc(64);
        };

        const part = (length: number) => ({ address, length });

        /** Takes everything that is available, gives it back, and gets it: `[token, length]`. */
        const finish = (written: number) => {
          for (let element = device.pop(); element; element = device.pop()) device.push(element, written);
          const got: number[][] = [];
          for (let back = driver.getBuf(); back; back = driver.getBuf()) got.push([back.token, back.length]);
          return got;
        };

        /** Nothing is left when both are gone. */
        const release = () => {
          driver.release();
          device.release();
          host.free(address);
          expect(host.used).to.equal(before);
        };

        it('case 10: a resize that fails for lack of memory leaves the old ring as it was', async () => {
          await set();
          let failures = 0;
          // The memory runs out here and there in the middle of it.
          // The largest piece is the last to be given back.
          const held: number[] = [host.alloc(2 ** 17)];
          for (let bytes = 2 ** 15; bytes >= 16; bytes /= 2)
            try {
              for (;;) held.push(host.alloc(bytes, 16));
            } catch {}
          expect(driver.add([part(1)], [part(8)], 1)).to.equal(true);
          expect(driver.add([], [part(8)], 2)).to.equal(true);
          for (;;) {
            const { used } = host;
            const { areas, numFree, inFlight, tableBytes, size } = driver;
            const state = JSON.stringify(driver.save());
            let tokens: number[] | undefined;
            try {
              tokens = driver.resize(256);
            } catch (error) {
              expect((error as Error).message).to.match(/^ENOMEM: /);
              failures++;
            }
            if (tokens !== undefined) {
              expect(tokens).to.have.members([1, 2]);
              break;
            }
            expect(host.used, 'the arena').to.equal(used);
            expect({ ...driver.areas }).to.deep.equal({ ...areas });
            expect([driver.numFree, driver.inFlight, driver.tableBytes, driver.size]).to.deep.equal([
              numFree,
              inFlight,
              tableBytes,
              size,
            ]);
            expect(JSON.stringify(driver.save())).to.equal(state);
            expect(driver.broken).to.equal(false);
            // A buffer goes round in the old ring.
            expect(driver.add([], [part(8)], 3)).to.equal(true);
            expect(finish(5)).to.deep.equal([
              [1, 5],
              [2, 5],
              [3, 5],
            ]);
            expect(driver.add([part(1)], [part(8)], 1)).to.equal(true);
            expect(driver.add([], [part(8)], 2)).to.equal(true);
            // A little more memory.
            host.free(held.pop() as number);
          }
          expect(failures).to.be.above(3);
          expect(driver.stats().errors.ENOMEM).to.equal(failures);
          device.resize(256, driver.areas);
          for (let token = 0; token < 256; token++)
            expect(driver.add([], [part(8)], token), `buffer ${token}`).to.equal(true);
          expect(driver.add([], [part(8)], 256)).to.equal(false);
          expect(finish(1)).to.have.length(256);
          for (const address of held) host.free(address);
          release();
        });

        it('case 10: so does that of a device', async () => {
          await set(2 ** 17);
          const areas = { ...driver.areas };
          expect(driver.add([], [part(8)], 1)).to.equal(true);
          const element = device.pop() as { id: number };
          const fillers: number[] = [];
          for (let bytes = 2 ** 16; bytes >= 16; bytes /= 2)
            try {
              for (;;) fillers.push(host.alloc(bytes, 16));
            } catch {}
          // The TypeScript engine keeps nothing in the arena.
          if (engine === 'wasm') {
            const { used } = host;
            refused(() => device.resize(2, areas), 'ENOMEM');
            expect(host.used).to.equal(used);
            expect(device.size).to.equal(4);
            expect(device.inFlight).to.equal(1);
          }
          device.push(element, 3);
          expect(driver.getBuf()).to.deep.equal({ token: 1, length: 3 });
          for (const filler of fillers) host.free(filler);
          release();
        });

        it('a size or areas that are none are refused, and the queues are as they were', async () => {
          await set();
          expect(driver.add([part(1)], [part(8)], 7)).to.equal(true);
          const { used } = host;
          const { areas } = driver;
          const odd = ring === 'split' ? [3, 6] : [];
          for (const size of [0, 32769, -4, 1.5, Number.NaN, '4', null, undefined, 2n, ...odd]) {
            refused(() => driver.resize(size as number), 'EINVAL', 'size');
            refused(() => device.resize(size as number, areas), 'EINVAL', 'size');
          }
          for (const [bad, code] of [
            [null, 'EINVAL'],
            [7, 'EINVAL'],
            [{}, 'EINVAL'],
            [{ ...areas, driver: areas.descriptor }, 'EINVAL'],
            [{ ...areas, device: areas.device + 1 }, 'EINVAL'],
            [{ ...areas, descriptor: 'x' }, 'EINVAL'],
            [{ ...areas, descriptor: -16 }, 'EINVAL'],
            [{ ...areas, descriptor: 2 ** 40 }, 'EFAULT'],
          ] as const) {
            refused(() => driver.resize(2, bad as never), code, 'areas');
            refused(() => device.resize(2, bad as never), code, 'areas');
          }
          refused(() => device.resize(2, undefined as never), 'EINVAL', 'areas');
          expect(host.used).to.equal(used);
          expect([driver.size, device.size, driver.inFlight]).to.deep.equal([4, 4, 1]);
          expect(finish(8)).to.deep.equal([[7, 8]]);
          release();
        });

        it('case 32: buffers in flight come back once, their tables too; the counts go on', async () => {
          await set();
          let token = 0;
          const sizes = ring === 'split' ? [8, 1, 64, 2] : [7, 1, 64, 3];
          for (const size of sizes) {
            const added: number[] = [];
            const out = driver.size === 1 ? [] : [part(1)];
            while (driver.add(out, [part(8)], token)) added.push(token++);
            expect(driver.tableBytes).to.equal(driver.size === 1 ? 0 : 32 * added.length);
            const element = device.pop();
            // The tables come back, and the new ring has a cache of its own.
            const counts = () => [{ ...driver.stats(), tables: undefined }, device.stats()];
            const counted = counts();
            const tables = driver.stats().tables;
            const old = driver.areas;
            expect(driver.resize(size)).to.have.members(added);
            device.resize(size, driver.areas);
            expect(driver.areas.descriptor).to.not.equal(old.descriptor);
            expect(counts()).to.deep.equal(counted);
            expect(driver.stats().tables).to.deep.include({
              misses: tables.misses,
              returned: tables.hits + tables.misses,
              inFlight: 0,
              length: 0,
              memory: 0,
            });
            expect([driver.size, device.size]).to.deep.equal([size, size]);
            expect([driver.numFree, driver.inFlight, driver.tableBytes, device.inFlight]).to.deep.equal([
              size,
              0,
              0,
              0,
            ]);
            expect(driver.detachUnused()).to.equal(undefined);
            expect(driver.reset()).to.deep.equal([]);
            // Nothing of before can be given back.
            if (element) refused(() => device.push(element, 0), 'EINVAL', 'not in flight');
            expect(device.rewind(1)).to.equal(false);
            expect(finish(1)).to.deep.equal([]);
            expect(driver.add([], [part(8)], 99)).to.equal(true);
            expect(finish(2)).to.deep.equal([[99, 2]]);
          }
          release();
        });

        it('a broken queue works again', async () => {
          await set();
          driver.add([], [part(8)], 1);
          new Uint8Array(host.buffer).fill(0xff, driver.areas.descriptor, driver.areas.descriptor + 16);
          new DataView(host.buffer as ArrayBuffer).setUint16(driver.areas.device + 2, 0x7777, true);
          expect(() => driver.getBuf()).to.throw();
          expect(driver.broken).to.equal(true);
          expect(driver.resize(8)).to.deep.equal([1]);
          device.resize(8, driver.areas);
          expect(driver.broken).to.equal(false);
          expect(driver.add([], [part(8)], 2)).to.equal(true);
          expect(finish(3)).to.deep.equal([[2, 3]]);
          release();
        });
      });
  });
});
