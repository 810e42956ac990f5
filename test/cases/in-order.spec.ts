import { expect } from 'chai';
import { type DeviceQueue, type DriverQueue, Feature, type Host } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';

describe('case 21: in-order use', () => {
  forEachEngine((load) => {
    for (const ring of ['split', 'packed'] as const)
      for (const more of [[], [Feature.EVENT_IDX, Feature.INDIRECT_DESC]])
        describe(`${ring} ring, features ${[Feature.IN_ORDER, ...more]}`, () => {
          let host: Host;
          let driver: DriverQueue;
          let device: DeviceQueue;
          let address: number;

          beforeEach(async () => {
            host = await load({ size: 2 ** 17 });
            const options = { ring, size: 16, features: [Feature.IN_ORDER, ...more] };
            driver = host.driverQueue(options);
            device = host.deviceQueue({ ...options, areas: driver.areas });
            address = host.alloc(64);
          });

          /** A buffer of `n` writable segments of 4 bytes. */
          const add = (token: number, n: number) =>
            driver.add([], new Array(n).fill({ address, length: 4 }), token);

          const popAll = () => {
            const taken = [];
            for (let element = device.pop(); element; element = device.pop()) taken.push(element);
            return taken;
          };

          const getAll = () => {
            const got: number[][] = [];
            for (let back = driver.getBuf(); back; back = driver.getBuf())
              got.push([back.token, back.length]);
            return got;
          };

          it('fills in any order come back in order, each with its length', () => {
            const lengths = [1, 3, 2, 4, 1];
            for (let round = 0; round < 12; round++) {
              for (const [token, n] of lengths.entries()) expect(add(token, n)).to.equal(true);
              const taken = popAll();
              // The youngest first, and from the middle; whole (4n) or less.
              const order = round % 2 ? [4, 3, 2, 1, 0] : [2, 4, 0, 3, 1];
              const written = lengths.map((n, i) => (((round >> i) & 1) === 1 ? 4 * n : n));
              const done = new Set<number>();
              let given = 0;
              for (const i of order) {
                device.fill({ id: taken[i].id }, written[i], 0);
                device.flush(1);
                done.add(i);
                const expected = [];
                while (done.has(given)) expected.push([given, written[given++]]);
                expect(getAll(), `round ${round}, after ${i}`).to.deep.equal(expected);
              }
              expect(driver.numFree).to.equal(16);
              expect(device.inFlight).to.equal(0);
            }
          });

          it('a batch that was used completely comes back from one entry, also in parts', () => {
            const completions = driver.createCompletions(2);
            for (let round = 0; round < 9; round++) {
              for (let token = 0; token < 5; token++) add(token, 1 + (token % 3));
              const elements = device.createElements(8);
              expect(device.popBurst(elements)).to.equal(5);
              for (let i = 0; i < 5; i++) elements.setWritten(i, i < 4 ? 4 * (1 + (i % 3)) : 3);
              device.pushBurst(elements);
              const got: number[][] = [];
              for (let left = 5; left > 0; left -= 2) {
                expect(driver.moreUsed(), `${left} are left`).to.equal(true);
                expect(driver.getBurst(completions)).to.equal(Math.min(2, left));
                for (let i = 0; i < completions.count; i++)
                  got.push([completions.token(i), completions.length(i)]);
                // Room as soon as it came back, not when the batch is through.
                expect(driver.inFlight).to.equal(Math.max(0, left - 2));
              }
              expect(got).to.deep.equal([
                [0, 4],
                [1, 8],
                [2, 12],
                [3, 4],
                [4, 3],
              ]);
              expect(driver.moreUsed()).to.equal(false);
              elements.free();
            }
          });

          it('without batches each element has a used entry of its own', () => {
            const single = host.deviceQueue({
              ring,
              size: 16,
              features: [Feature.IN_ORDER, ...more],
              areas: driver.areas,
              batches: false,
            });
            const view = new DataView(host.buffer);
            const { descriptor, device: used } = driver.areas;
            const elements = single.createElements(4);
            // In a burst, and marked in another order; each is written completely.
            for (const order of [
              [0, 1, 2],
              [1, 2, 0],
            ]) {
              const from = Number(single.stats().completed);
              for (let token = 0; token < 3; token++) add(token, 1);
              expect(single.popBurst(elements)).to.equal(3);
              const ids = [0, 1, 2].map((i) => elements.id(i));
              if (from === 0) {
                for (let i = 0; i < 3; i++) elements.setWritten(i, 4);
                single.pushBurst(elements);
              } else {
                for (const i of order) single.fill({ id: ids[i] }, 4, 0);
                single.flush(3);
              }
              const entries = [0, 1, 2].map((i) => {
                const slot = (from + i) % 16;
                return ring === 'split'
                  ? [
                      view.getUint32(Number(used) + 4 + slot * 8, true),
                      view.getUint32(Number(used) + 8 + slot * 8, true),
                    ]
                  : [
                      view.getUint16(Number(descriptor) + slot * 16 + 12, true),
                      view.getUint32(Number(descriptor) + slot * 16 + 8, true),
                    ];
              });
              expect(entries).to.deep.equal(ids.map((id) => [id, 4]));
              expect(getAll()).to.deep.equal([
                [0, 4],
                [1, 4],
                [2, 4],
              ]);
            }
            elements.free();
            single.release();
            const wrong = { ring, size: 16, areas: driver.areas, batches: 0 as unknown as boolean };
            expect(() => host.deviceQueue(wrong)).to.throw('EINVAL: batches must be true or false, got 0');
          });

          it('an element is pushed once, and one that waits cannot be put back', () => {
            add(1, 1);
            add(2, 1);
            const [first, second] = popAll();
            device.push(second, 4);
            expect(device.inFlight).to.equal(2);
            expect(() => device.push(second, 4)).to.throw('EINVAL: element');
            expect(() => device.unpop(second)).to.throw('EINVAL: element');
            expect(device.rewind(1)).to.equal(false);
            expect(getAll()).to.deep.equal([]);
            device.push(first, 4);
            expect(getAll()).to.deep.equal([
              [1, 4],
              [2, 4],
            ]);
          });

          it('nothing passes an element that was detached; a reset helps', () => {
            for (const token of [1, 2, 3]) add(token, 1);
            const [first, second, third] = popAll();
            device.push(first, 1);
            device.detach(second);
            device.push(third, 1);
            expect(getAll()).to.deep.equal([[1, 1]]);
            device.reset();
            expect(driver.reset()).to.have.members([2, 3]);
            add(4, 2);
            device.push(popAll()[0], 1);
            expect(getAll()).to.deep.equal([[4, 1]]);
          });
        });
  });
});
