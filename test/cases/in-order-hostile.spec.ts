import { expect } from 'chai';
import { Feature } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';
import { PackedStage } from '../support/packed-stage.js';
import { breaks, DATA, refused, Stage } from '../support/stage.js';

const { address } = DATA;
const features = [Feature.VERSION_1, Feature.IN_ORDER];
const segments = (...lengths: number[]) => lengths.map((length) => ({ address, length }));

describe('case 21: in-order use against a peer that lies', () => {
  forEachEngine((load) => {
    for (const [what, counts] of [
      ['one descriptor each', [1, 1, 1]],
      ['as many as they like', [2, 3, 1]],
    ] as const)
      describe(`a batch of buffers with ${what}`, () => {
        const set = async () => {
          const stage = await Stage.create(load, { features });
          const driver = stage.driver();
          for (const [token, n] of counts.entries()) driver.add([], segments(...Array(n).fill(10)), token);
          return { stage, driver, last: stage.ring.availRing(2) };
        };

        it('comes back whole if used.idx covers it', async () => {
          const { stage, driver, last } = await set();
          stage.ring.use(last, 3);
          stage.ring.usedIdx = 3;
          const got = [0, 1, 2].map(() => driver.getBuf());
          expect(got).to.deep.equal([
            { token: 0, length: 10 * counts[0] },
            { token: 1, length: 10 * counts[1] },
            { token: 2, length: 3 },
          ]);
          expect(driver.numFree).to.equal(8);
          stage.check();
        });

        for (const idx of [1, 2])
          it(`breaks the queue with used.idx ${idx}, and no buffer is lost`, async () => {
            const { stage, driver, last } = await set();
            stage.ring.use(last, 3);
            stage.ring.usedIdx = idx;
            refused(() => driver.getBuf(), 'EPROTO', `ends with used id ${last}`, `${idx} used entries`);
            expect(driver.broken).to.equal(true);
            expect(driver.reset()).to.have.members([0, 1, 2]);
            stage.check();
          });

        it('waits behind sound entries', async () => {
          const { stage, driver, last } = await set();
          stage.ring.use(stage.ring.availRing(0), 7);
          stage.ring.use(last, 3);
          const completions = driver.createCompletions(4);
          expect(driver.getBurst(completions)).to.equal(1);
          expect([completions.token(0), completions.length(0)]).to.deep.equal([0, 7]);
          breaks(driver, () => driver.getBurst(completions), 'EPROTO', `used id ${last}`, '1 used entries');
          stage.check();
        });
      });

    for (const ring of ['split', 'packed'] as const)
      describe(`a used length above the writable part, ${ring} ring`, () => {
        const set = async (strict: boolean) => {
          const Side = ring === 'split' ? Stage : PackedStage;
          const stage = await Side.create(load, { features });
          const driver = stage.driver({ strict });
          for (let token = 0; token < 4; token++) driver.add([], segments(10, 20), token);
          const id = (i: number) => (ring === 'split' ? 2 * i : i);
          const completions = driver.createCompletions(8);
          /** One used entry for so many buffers, the last of which is buffer i. */
          const use = (i: number, length: number, buffers = 1) => {
            stage.ring.use(id(i), length, 2 * buffers);
            if (!(stage instanceof Stage)) return;
            stage.ring.used += buffers - 1;
            stage.ring.usedIdx = stage.ring.used;
          };
          return { stage, driver, use, completions };
        };

        it('is cut and counted, of a buffer alone and of the last one of a batch', async () => {
          const { stage, driver, use, completions } = await set(false);
          const got: number[][] = [];
          const get = () => {
            driver.getBurst(completions);
            for (let i = 0; i < completions.count; i++)
              got.push([completions.token(i), completions.length(i)]);
          };
          use(0, 31);
          get();
          use(1, 5);
          use(3, 0xffffffff, 2);
          get();
          expect(got).to.deep.equal([
            [0, 30],
            [1, 5],
            [2, 30],
            [3, 30],
          ]);
          expect(driver.stats()).to.include({ clamped: 2, bytesIn: 95 });
          expect(driver.numFree).to.equal(8);
          stage.check();
        });

        it('breaks a strict queue, after those before it', async () => {
          const { stage, driver, use, completions } = await set(true);
          use(0, 30);
          use(1, 31);
          expect(driver.getBurst(completions)).to.equal(1);
          breaks(driver, () => driver.getBurst(completions), 'EPROTO', 'used length 31', 'length 30');
          expect(driver.stats().clamped).to.equal(0);
          stage.check();
        });
      });

    it('nothing passes a detached element, however many are popped behind it', async () => {
      const stage = await Stage.create(load, { size: 4, features });
      const device = stage.device();
      const { ring } = stage;
      const elements = device.createElements(8);
      for (let head = 0; head < 4; head++) ring.offer([{ addr: address, len: 10, write: true }], head);
      expect(device.popBurst(elements)).to.equal(4);
      device.detach({ id: 0 });
      // Its head comes again, where the ring of pops has the place of the first one.
      ring.makeAvailable(0);
      expect(device.popBurst(elements)).to.equal(1);
      expect(elements.id(0)).to.equal(0);
      elements.setWritten(0, 10);
      expect(device.pushBurst(elements)).to.equal(1);
      for (const id of [1, 2, 3]) device.push({ id }, 10);
      expect(ring.usedIdx).to.equal(0);
      expect(device.inFlight).to.equal(4);
      stage.check();
    });
  });
});
