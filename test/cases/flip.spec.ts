import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { type Completion, VringError } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';
import { INDIRECT, NEXT, WRITE } from '../support/split-ring.js';
import { DATA, GUEST, INDIRECT_DESC, Stage, TABLES } from '../support/stage.js';

const { address } = DATA;
const ROUNDS = 4000;
/** Of the peer; it flips each word a few hundred times in each. */
const FLIPS = 50;

interface Flip {
  address: number;
  values: [number, number];
}

/** A word made of two halves, as a signed number: what an Int32Array takes. */
const halves = (low: number, high: number): number => low | (high << 16);

describe('case 23: fields that change between two reads', () => {
  forEachEngine((load) => {
    let stage: Stage;
    let worker: Worker;
    let control: Int32Array;

    beforeEach(async () => {
      const pages = (GUEST + 0x100000) / 65536;
      const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
      stage = await Stage.create(load, { memory, features: INDIRECT_DESC });
    });

    /** Starts the peer, and returns when it is at work. */
    async function flip(...flips: Flip[]): Promise<void> {
      const at = stage.host.alloc(8);
      const { memory } = stage;
      control = new Int32Array(memory.buffer, at, 2);
      control.fill(0);
      worker = new Worker(new URL('../support/flipper.mjs', import.meta.url), {
        workerData: { memory, flips, control: at },
      });
      await new Promise<void>((resolve, reject) => {
        worker.once('error', reject);
        const look = () => (Atomics.load(control, 1) > 0 ? resolve() : setTimeout(look, 1));
        look();
      });
    }

    afterEach(async () => {
      Atomics.store(control, 0, 1);
      await worker.terminate();
      stage.check();
    });

    /** Calls `act` until it was often enough and the peer has flipped often enough in the meantime. */
    function repeat(act: () => void): void {
      const from = Atomics.load(control, 1);
      const flips = () => Atomics.load(control, 1) - from;
      // On a single processor the peer has to wait for its turn.
      for (let i = 0; i < ROUNDS || (flips() < FLIPS && i < 100 * ROUNDS); i++) act();
      expect(flips()).to.be.at.least(FLIPS);
    }

    /**
     * Pops the chain of head 0 again and again while it changes. Whatever comes must be one of the chains
     * that the values allow, or a fault.
     */
    function popAll(allowed: unknown[]): void {
      const device = stage.device();
      stage.ring.makeAvailable(0);
      const texts = new Set(allowed.map((value) => JSON.stringify(value)));
      let sound = 0;
      repeat(() => {
        try {
          const element = device.pop();
          const text = JSON.stringify(element && { out: element.out, in: element.in });
          if (!texts.has(text)) throw new Error(`${text} is none of the chains that there were`);
          if (element) device.unpop(element);
          sound++;
        } catch (error) {
          if (!(error instanceof VringError)) throw error;
          device.reset();
        }
      });
      expect(sound).to.be.above(0);
    }

    const one = (at: number, length: number, write = false) => {
      const piece = { address: at, length };
      return write ? { out: [], in: [piece] } : { out: [piece], in: [] };
    };

    it('the length', async () => {
      stage.ring.setDesc(0, { addr: BigInt(address), len: 16, flags: 0, next: 0 });
      await flip({ address: stage.areas.descriptor + 8, values: [16, -16] });
      popAll([one(address, 16)]);
    });

    it('the length, both of them good', async () => {
      stage.ring.setDesc(0, { addr: BigInt(address), len: 16, flags: WRITE, next: 0 });
      await flip({ address: stage.areas.descriptor + 8, values: [16, 4000] });
      const device = stage.device();
      const { ring } = stage;
      repeat(() => {
        ring.makeAvailable(0);
        const element = device.pop();
        const length = element?.in[0].length as number;
        expect(length === 16 || length === 4000).to.equal(true);
        // What was handed out is what may be written: not the other value.
        try {
          device.push({ id: 0 }, length + 1);
          throw new Error(`${length + 1} of ${length} bytes were accepted`);
        } catch (error) {
          if (!(error instanceof VringError)) throw error;
        }
        device.push({ id: 0 }, length);
      });
    });

    it('the address', async () => {
      stage.ring.setDesc(0, { addr: BigInt(address), len: 16, flags: 0, next: 0 });
      await flip({ address: stage.areas.descriptor, values: [address, DATA.address + DATA.length - 1] });
      popAll([one(address, 16)]);
    });

    it('the upper half of the address', async () => {
      stage.ring.setDesc(0, { addr: BigInt(address), len: 16, flags: 0, next: 0 });
      await flip({ address: stage.areas.descriptor + 4, values: [0, 1] });
      popAll([one(address, 16)]);
    });

    it('flags and next', async () => {
      const { ring } = stage;
      ring.setDesc(0, { addr: BigInt(address), len: 16, flags: 0, next: 0 });
      ring.setDesc(1, { addr: BigInt(address) + 100n, len: 7, flags: WRITE, next: 0 });
      await flip({ address: stage.areas.descriptor + 12, values: [halves(NEXT, 1), halves(0, 9)] });
      const [first, second] = [
        { address, length: 16 },
        { address: address + 100, length: 7 },
      ];
      popAll([
        { out: [first], in: [second] },
        { out: [first], in: [] },
      ]);
    });

    it('next, out of the table', async () => {
      const { ring } = stage;
      ring.setDesc(0, { addr: BigInt(address), len: 16, flags: NEXT, next: 1 });
      ring.setDesc(1, { addr: BigInt(address) + 100n, len: 7, flags: 0, next: 0 });
      await flip({ address: stage.areas.descriptor + 12, values: [halves(NEXT, 1), halves(NEXT, 0x7fff)] });
      popAll([
        {
          out: [
            { address, length: 16 },
            { address: address + 100, length: 7 },
          ],
          in: [],
        },
      ]);
    });

    it('a loop that comes and goes', async () => {
      const { ring } = stage;
      for (let i = 0; i < 8; i++)
        ring.setDesc(i, { addr: BigInt(address), len: 1, flags: NEXT, next: (i + 1) % 8 });
      await flip({ address: stage.areas.descriptor + 16 * 7 + 12, values: [halves(NEXT, 0), 0] });
      popAll([{ out: Array.from({ length: 8 }, () => ({ address, length: 1 })), in: [] }]);
    });

    it('data or table, long or short', async () => {
      const { ring } = stage;
      const table = TABLES.address;
      ring.setDesc(0, { addr: BigInt(table), len: 32, flags: INDIRECT, next: 0 });
      ring.setDesc(0, { addr: BigInt(address), len: 5, flags: NEXT, next: 1 }, table);
      ring.setDesc(1, { addr: BigInt(address), len: 6, flags: 0, next: 0 }, table);
      await flip(
        { address: stage.areas.descriptor + 8, values: [32, 16] },
        { address: stage.areas.descriptor + 12, values: [INDIRECT, WRITE] },
      );
      popAll([
        {
          out: [
            { address, length: 5 },
            { address, length: 6 },
          ],
          in: [],
        },
        one(table, 32, true),
        one(table, 16, true),
      ]);
    });

    it('the head in the available ring', async () => {
      const { ring, areas } = stage;
      ring.setDesc(0, { addr: BigInt(address), len: 16, flags: 0, next: 0 });
      ring.setDesc(7, { addr: BigInt(address), len: 17, flags: 0, next: 0 });
      // Entries 1 and 2: the ring begins at 4 bytes above a place that is only even.
      const at = Math.ceil((areas.driver + 4) / 4) * 4;
      const device = stage.device();
      const slot = (at - areas.driver - 4) / 2;
      await flip({ address: at, values: [halves(0, 0), halves(7, 0xffff)] });
      let popped = 0;
      repeat(() => {
        // Entry `slot` is the first in line, and another one behind it.
        ring.availIdx = slot;
        for (let k = 0; k < slot; k++) expect(device.pop()?.id).to.equal(0);
        ring.availIdx = slot + 2;
        try {
          for (let k = 0; k < 2; k++) {
            const element = device.pop();
            const length = { 0: 16, 7: 17 }[element?.id as number];
            expect(element?.out[0].length).to.equal(length);
            device.push({ id: element?.id as number }, 0);
            popped++;
          }
        } catch (error) {
          if (!(error instanceof VringError)) throw error;
        }
        device.reset();
      });
      expect(popped).to.be.above(0);
    });

    it('the used entry', async () => {
      const driver = stage.driver();
      const { ring, areas } = stage;
      const elem = areas.device + 4;
      await flip({ address: elem, values: [0, 65536] }, { address: elem + 4, values: [4, -1] });
      let got = 0;
      let bytes = 0;
      let cut = 0;
      repeat(() => {
        driver.add([], [{ address, length: 10 }], 0xabcd);
        ring.usedIdx = 1;
        try {
          const { token, length } = driver.getBuf() as Completion;
          if (token !== 0xabcd) throw new Error(`token ${token} was never added`);
          // 0 is what the reset left there.
          if (![0, 4, 10].includes(length))
            throw new Error(`length ${length} is none of those that there were`);
          got++;
          bytes += length;
          if (length === 10) cut++;
        } catch (error) {
          if (!(error instanceof VringError)) throw error;
          expect(error.message).to.contain('used id 65536');
        }
        driver.reset();
      });
      expect(got).to.be.above(0);
      // What was handed out is what was counted.
      expect(driver.stats()).to.include({ bytesIn: bytes, clamped: cut, completed: got });
    });
  });
});
